//! Tenants and tokens, written.

use bowline_model::TenantId;
use bowline_store::{StoreResult, Tenant, TokenRecord};

use super::Desk;
use crate::db::{Db, Sql, Val};

pub async fn create_tenant(db: &mut impl Db, desk: &Desk<'_>, id: TenantId, name: &str) -> StoreResult<Option<Tenant>> {
    let added = db.execute(TENANT_ADD, &[Val::Id(*id.as_uuid()), Val::Text(name), Val::At(desk.now)]).await?;
    Ok((added == 1).then(|| Tenant { id, name: name.to_owned(), created_at: desk.now }))
}

pub async fn create_token(db: &mut impl Db, desk: &Desk<'_>, token: &TokenRecord) -> StoreResult<bool> {
    let params = [
        Val::Text(&token.id),
        Val::Text(&token.kind),
        Val::OptId(token.tenant.map(|t| *t.as_uuid())),
        Val::Text(&token.name),
        Val::Bytes(&token.secret_hash),
        Val::Text(&token.scopes),
        Val::At(desk.now),
        Val::OptAt(token.expires_at),
    ];
    db.execute(TOKEN_ADD, &params).await.map(|added| added == 1)
}

pub async fn revoke_token(db: &mut impl Db, desk: &Desk<'_>, id: &str, tenant: Option<TenantId>) -> StoreResult<bool> {
    let revoked = match tenant {
        None => db.execute(REVOKE, &[Val::Text(id), Val::At(desk.now)]).await?,
        Some(tenant) => db.execute(REVOKE_OWN, &[Val::Text(id), Val::At(desk.now), Val::Id(*tenant.as_uuid())]).await?,
    };
    Ok(revoked == 1)
}

const TENANT_ADD: Sql =
    Sql::Same("insert into tenant (id, name, created_at) values ($1, $2, $3) on conflict do nothing");
const TOKEN_ADD: Sql = Sql::Same(
    "insert into token (id, kind, tenant, name, secret_hash, scopes, created_at, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict do nothing",
);
const REVOKE: Sql = Sql::Same("update token set revoked_at = $2 where id = $1 and revoked_at is null");
const REVOKE_OWN: Sql =
    Sql::Same("update token set revoked_at = $2 where id = $1 and tenant = $3 and revoked_at is null");
