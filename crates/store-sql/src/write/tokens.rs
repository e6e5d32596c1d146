//! Tenants and tokens, written.

use bowline_model::event::EventData;
use bowline_model::{EventKind, TenantId};
use bowline_store::{StoreResult, Tenant, TokenRecord};

use super::Desk;
use crate::changes::{Changes, Heard};
use crate::db::{Db, Sql, Val};
use crate::read::{find_tenant, find_token};

pub async fn create_tenant(db: &mut impl Db, desk: &Desk<'_>, id: TenantId, name: &str) -> StoreResult<Option<Tenant>> {
    db.execute(TENANT_ADD, &[Val::Id(*id.as_uuid()), Val::Text(name), Val::At(desk.now)]).await?;
    // Whoever lost the answer asks again, and gets the tenant that was made then.
    Ok(find_tenant(db, id).await?.filter(|tenant| tenant.name == name))
}

/// A worker's token never carries the name of an agent: it would be taken for the agent.
pub async fn create_token(
    db: &mut impl Db,
    desk: &Desk<'_>,
    token: &TokenRecord,
    by: &str,
) -> StoreResult<(bool, Heard)> {
    if let (Some(tenant), "wrk") = (token.tenant, token.kind.as_str()) {
        let name = [Val::Id(*tenant.as_uuid()), Val::Text(&token.name)];
        if !db.query(AGENT_OF_NAME, &name, |_| Ok(())).await?.is_empty() {
            return Ok((false, Heard::default()));
        }
    }
    add_token(db, desk, token, by).await
}

/// Stores a token, whatever its name.
pub(super) async fn add_token(
    db: &mut impl Db,
    desk: &Desk<'_>,
    token: &TokenRecord,
    by: &str,
) -> StoreResult<(bool, Heard)> {
    let (labels, admission) = (token.labels.canonical(), token.admission.to_text());
    let params = [
        Val::Text(&token.id),
        Val::Text(&token.kind),
        Val::OptId(token.tenant.map(|t| *t.as_uuid())),
        Val::Text(&token.name),
        Val::Bytes(&token.secret_hash),
        Val::Text(&token.scopes),
        Val::At(desk.now),
        Val::OptAt(token.expires_at),
        Val::Text(&labels),
        Val::OptText(token.email.as_deref()),
        Val::OptText(token.made_by.as_deref()),
        Val::OptText(token.person.as_deref()),
        Val::Text(&admission),
    ];
    if db.execute(TOKEN_ADD, &params).await? == 1 {
        return Ok((true, tell(db, desk, token, EventKind::TokenCreated, by).await?));
    }
    // Whoever lost the answer asks again with the same token. One that was revoked since is not brought back.
    let there = find_token(db, &token.id).await?;
    let same = |there: TokenRecord| {
        let asked = TokenRecord { created_at: there.created_at, revoked_at: None, ..token.clone() };
        there == asked
    };
    Ok((there.is_some_and(same), Heard::default()))
}

pub async fn revoke_token(
    db: &mut impl Db,
    desk: &Desk<'_>,
    id: &str,
    tenant: Option<TenantId>,
    by: &str,
) -> StoreResult<(Option<TokenRecord>, Heard)> {
    let ours = |token: &TokenRecord| tenant.is_none() || token.tenant == tenant;
    let Some(token) = find_token(db, id).await?.filter(ours) else { return Ok((None, Heard::default())) };
    if db.execute(REVOKE, &[Val::Text(id), Val::At(desk.now)]).await? == 0 {
        return Ok((None, Heard::default()));
    }
    let heard = tell(db, desk, &token, EventKind::TokenRevoked, by).await?;
    Ok((Some(token), heard))
}

async fn tell(db: &mut impl Db, desk: &Desk<'_>, token: &TokenRecord, kind: EventKind, by: &str) -> StoreResult<Heard> {
    let Some(tenant) = token.tenant else { return Ok(Heard::default()) };
    let mut changes = Changes::at(desk.now);
    let reason = Some(format!("token {} for {}", token.id, token.name));
    changes.tell(tenant, None, None, kind, EventData { by: Some(by.to_owned()), reason, ..EventData::default() });
    changes.write(db).await
}

const AGENT_OF_NAME: Sql = Sql::Same("select 1 from agent where tenant = $1 and name = $2");
const TENANT_ADD: Sql =
    Sql::Same("insert into tenant (id, name, created_at) values ($1, $2, $3) on conflict do nothing");
const TOKEN_ADD: Sql = Sql::Same(
    "insert into token (id, kind, tenant, name, secret_hash, scopes, created_at, expires_at, labels, email,
       made_by, person, admission)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) on conflict do nothing",
);
const REVOKE: Sql = Sql::Same("update token set revoked_at = $2 where id = $1 and revoked_at is null");
