//! Tenants and tokens, read.

use bowline_model::{Admission, Labels, TenantId};
use bowline_store::{StoreError, StoreResult, Tenant, TokenRecord};

use crate::db::{Db, Row, Sql, Val};

fn tenant(row: &dyn Row) -> StoreResult<Tenant> {
    Ok(Tenant { id: TenantId::from_uuid(row.id(0)?), name: row.text(1)?, created_at: row.at(2)? })
}

fn token(row: &dyn Row) -> StoreResult<TokenRecord> {
    Ok(TokenRecord {
        id: row.text(0)?,
        kind: row.text(1)?,
        tenant: row.opt_id(2)?.map(TenantId::from_uuid),
        name: row.text(3)?,
        secret_hash: row
            .bytes(4)?
            .try_into()
            .map_err(|_| StoreError::Broken("a token's hash has the wrong length".to_owned()))?,
        scopes: row.text(5)?,
        created_at: row.at(6)?,
        expires_at: row.opt_at(7)?,
        revoked_at: row.opt_at(8)?,
        email: row.opt_text(10)?,
        made_by: row.opt_text(11)?,
        person: row.opt_text(12)?,
        admission: Admission::from_text(&row.text(13)?).map_err(|e| StoreError::Broken(e.to_string()))?,
        used_at: row.opt_at(14)?,
        audiences: row.text(15)?,
        labels: Labels::from_canonical(&row.text(9)?).map_err(|e| StoreError::Broken(e.to_string()))?,
    })
}

pub async fn find_tenant(db: &mut impl Db, id: TenantId) -> StoreResult<Option<Tenant>> {
    Ok(db.query(TENANT, &[Val::Id(*id.as_uuid())], tenant).await?.into_iter().next())
}

pub async fn list_tenants(db: &mut impl Db) -> StoreResult<Vec<Tenant>> {
    db.query(TENANTS, &[], tenant).await
}

pub async fn find_token(db: &mut impl Db, id: &str) -> StoreResult<Option<TokenRecord>> {
    Ok(db.query(TOKEN, &[Val::Text(id)], token).await?.into_iter().next())
}

/// Everything that was made with this token, or with what was made with it, oldest first. Workers make nothing.
pub async fn list_made(db: &mut impl Db, id: &str) -> StoreResult<Vec<TokenRecord>> {
    db.query(MADE, &[Val::Text(id)], token).await
}

/// The ids of the actors that a text names.
pub async fn actors_named(db: &mut impl Db, tenant: TenantId, text: &str) -> StoreResult<Vec<String>> {
    let mut actors = vec![text.to_owned(), format!("service:{text}"), format!("worker:{text}")];
    let named = db.query(NAMED, &[Val::Id(*tenant.as_uuid()), Val::Text(text)], |row| row.text(0)).await?;
    actors.extend(named.iter().flat_map(|id| [format!("token:{id}"), format!("join:{id}")]));
    Ok(actors)
}

/// The actors of a filter as one text, each between line ends: an id has none. Empty, where nobody is left out.
pub(super) fn actors_in(actors: Option<&[String]>) -> String {
    actors.into_iter().flatten().map(|actor| format!("\n{actor}\n")).collect()
}

pub async fn list_tokens(db: &mut impl Db, tenant: Option<TenantId>) -> StoreResult<Vec<TokenRecord>> {
    match tenant {
        None => db.query(TOKENS, &[], token).await,
        Some(tenant) => db.query(OWN_TOKENS, &[Val::Id(*tenant.as_uuid())], token).await,
    }
}

/// The newest ones: a name may be used again and again.
const NAMED: Sql = Sql::Same(
    "select id from token where name = $2 and (tenant is null or tenant = $1) order by created_at desc, id limit 1000",
);
const TENANT: Sql = Sql::Same("select id, name, created_at from tenant where id = $1");
const TENANTS: Sql = Sql::Same("select id, name, created_at from tenant order by created_at, name");
const TOKEN: Sql = Sql::Same(
    "select id, kind, tenant, name, secret_hash, scopes, created_at, expires_at, revoked_at, labels, email,
       made_by, person, admission, used_at, audiences from token
     where id = $1",
);
const TOKENS: Sql = Sql::Same(
    "select id, kind, tenant, name, secret_hash, scopes, created_at, expires_at, revoked_at, labels, email,
       made_by, person, admission, used_at, audiences from token
     order by created_at, id",
);
const OWN_TOKENS: Sql = Sql::Same(
    "select id, kind, tenant, name, secret_hash, scopes, created_at, expires_at, revoked_at, labels, email,
       made_by, person, admission, used_at, audiences from token
     where tenant = $1 order by created_at, id",
);
const MADE: Sql = Sql::Same(
    "with recursive made (id) as (
       select id from token where made_by = $1
       union
       select t.id from token t join made m on t.made_by = m.id)
     select id, kind, tenant, name, secret_hash, scopes, created_at, expires_at, revoked_at, labels, email,
       made_by, person, admission, used_at, audiences from token
     where id in (select id from made) and id <> $1 order by created_at, id",
);
