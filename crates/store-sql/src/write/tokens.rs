//! Tenants and tokens, written.

use bowline_model::event::EventData;
use bowline_model::{EventKind, TenantId};
use bowline_store::{RevokeToken, RevokedTokens, StoreResult, Tenant, TokenRecord};

use super::Desk;
use crate::changes::{Changes, Heard};
use crate::db::{Db, Sql, Val};
use crate::read::{find_tenant, find_token, list_made};

/// The kind of tokens that end with their maker.
const API: &str = "api";

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
    if maker_is_revoked(db, token).await? {
        return Ok((false, Heard::default()));
    }
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
        Val::Text(&token.audiences),
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

/// Ends a token and what was made with it. Once around for each generation that appeared meanwhile: who makes a token
/// holds its maker's row, so after a round nothing more can come from what that round has ended.
pub async fn revoke_token(
    db: &mut impl Db,
    desk: &Desk<'_>,
    order: &RevokeToken,
    by: &str,
) -> StoreResult<(Option<RevokedTokens>, Vec<Heard>)> {
    let ours = |token: &TokenRecord| order.tenant.is_none() || token.tenant == order.tenant;
    let Some(token) = find_token(db, &order.id).await?.filter(ours) else { return Ok((None, Vec::new())) };
    let mut heard = Vec::new();
    if revoke(db, desk, &token.id).await? {
        heard.push(tell(db, desk, &token, EventKind::TokenRevoked, by).await?);
    }
    let mut also: Vec<TokenRecord> = Vec::new();
    // The credential that an agent had before it renewed is good for a while yet, and would get it a new one.
    if let Some(tenant) = token.tenant {
        let agent = [Val::Id(*tenant.as_uuid()), Val::Text(&token.name), Val::Text(&token.id)];
        for before in db.query(CREDENTIAL_BEFORE, &agent, |row| row.text(0)).await? {
            if let Some(before) = find_token(db, &before).await?
                && revoke(db, desk, &before.id).await?
            {
                heard.push(tell(db, desk, &before, EventKind::TokenRevoked, by).await?);
                also.push(before);
            }
        }
    }
    let remaining = loop {
        let made = list_made(db, &token.id).await?.into_iter().filter(|made| made.revoked_at.is_none());
        let (ending, remaining): (Vec<_>, Vec<_>) = made.partition(|made| made.kind == API || order.with_workers);
        if ending.is_empty() {
            break remaining;
        }
        for made in ending {
            if revoke(db, desk, &made.id).await? {
                heard.push(tell(db, desk, &made, EventKind::TokenRevoked, by).await?);
                also.push(made);
            }
        }
    };
    if heard.is_empty() && also.is_empty() && token.revoked_at.is_some() {
        return Ok((None, heard));
    }
    Ok((Some(RevokedTokens { token, also, remaining }), heard))
}

async fn revoke(db: &mut impl Db, desk: &Desk<'_>, id: &str) -> StoreResult<bool> {
    Ok(db.execute(REVOKE, &[Val::Text(id), Val::At(desk.now)]).await? == 1)
}

/// Whether the token that this one is made with has been revoked. Its row is held until the new one is stored. A join token
/// ends when an agent uses it, so it is not asked here but where that happens.
async fn maker_is_revoked(db: &mut impl Db, token: &TokenRecord) -> StoreResult<bool> {
    let Some(maker) = &token.made_by else { return Ok(false) };
    let found = db.query(MAKER, &[Val::Text(maker)], |row| row.opt_at(0)).await?;
    Ok(found.into_iter().flatten().next().is_some())
}

async fn tell(db: &mut impl Db, desk: &Desk<'_>, token: &TokenRecord, kind: EventKind, by: &str) -> StoreResult<Heard> {
    let Some(tenant) = token.tenant else { return Ok(Heard::default()) };
    let mut changes = Changes::at(desk.now);
    let reason = Some(format!("token {} for {}", token.id, token.name));
    changes.tell(tenant, None, None, kind, EventData { by: Some(by.to_owned()), reason, ..EventData::default() });
    changes.write(db).await
}

const AGENT_OF_NAME: Sql = Sql::Same("select 1 from agent where tenant = $1 and name = $2");
const CREDENTIAL_BEFORE: Sql =
    Sql::Same("select token_before from agent where tenant = $1 and name = $2 and token = $3 and token_before <> ''");
const TENANT_ADD: Sql =
    Sql::Same("insert into tenant (id, name, created_at) values ($1, $2, $3) on conflict do nothing");
const TOKEN_ADD: Sql = Sql::Same(
    "insert into token (id, kind, tenant, name, secret_hash, scopes, created_at, expires_at, labels, email,
       made_by, person, admission, audiences)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) on conflict do nothing",
);
/// Why two texts: on PostgreSQL a revocation may be under way on another connection, and must be waited for.
const MAKER: Sql = Sql::Each {
    sqlite: "select revoked_at from token where id = $1 and kind <> 'joi'",
    postgres: "select revoked_at from token where id = $1 and kind <> 'joi' for share",
};
const REVOKE: Sql = Sql::Same("update token set revoked_at = $2 where id = $1 and revoked_at is null");
