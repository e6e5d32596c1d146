//! Agents: how they join, renew their credentials and show their sealing keys.

use bowline_model::event::EventData;
use bowline_model::host::Connection;
use bowline_model::{EventKind, Labels, TenantId, WorkerName};
use bowline_store::{AgentRecord, Enrolled, RemoveAgent, RemovedAgent, SealingKeySet, StoreResult, TokenRecord};

use super::Desk;
use super::reap::give_up_all;
use super::tokens::add_token;
use crate::changes::{Changes, Heard};
use crate::command::Renewal;
use crate::db::{Db, Sql, Val};
use crate::read::find_agent;

pub async fn enroll_agent(
    db: &mut impl Db,
    desk: &Desk<'_>,
    join: &str,
    agent: &AgentRecord,
    token: &TokenRecord,
) -> StoreResult<(Enrolled, Vec<Heard>)> {
    let nobody = |answer| Ok((answer, Vec::new()));
    let there = find_agent(db, agent.tenant, &agent.name).await?;
    let name = [Val::Id(*agent.tenant.as_uuid()), Val::Text(agent.name.as_str())];
    match &there {
        Some(there) if there.public_key != agent.public_key => return nobody(Enrolled::NameTaken),
        // A caller that lost the answer asks again, with the same key and credential.
        Some(there) if there.token == agent.token => return nobody(Enrolled::Done),
        Some(_) => {}
        None => {
            let good = [Val::Id(*agent.tenant.as_uuid()), Val::Text(agent.name.as_str()), Val::At(desk.now)];
            if !db.query(WORKER, &name, |_| Ok(())).await?.is_empty()
                || !db.query(WORKER_TOKEN, &good, |_| Ok(())).await?.is_empty()
            {
                return nobody(Enrolled::NameTaken);
            }
            if !db.query(KEY, &[Val::Bytes(&agent.public_key)], |_| Ok(())).await?.is_empty() {
                return nobody(Enrolled::KeyTaken);
            }
        }
    }
    let used = [Val::Text(join), Val::Id(*agent.tenant.as_uuid()), Val::At(desk.now)];
    if db.execute(USE, &used).await? == 0 {
        return nobody(Enrolled::NotWelcome);
    }
    let (labels, admission) = (agent.labels.canonical(), agent.admission.to_text());
    let params = [
        Val::Id(*agent.tenant.as_uuid()),
        Val::Text(agent.name.as_str()),
        Val::Bytes(&agent.public_key),
        Val::Text(&labels),
        Val::Text(&agent.token),
        Val::At(desk.now),
        Val::Text(&admission),
        Val::Text(join),
    ];
    db.execute(ADD, &params).await?;
    if let Some(there) = &there {
        // It registered as what it was admitted as before. Until it registers again it has what it was given now, and no more.
        let given = agent.labels.iter().chain([(Connection::AGENT_LABEL, agent.name.as_str())]);
        let given = given.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        // With one label too many it cannot register either.
        let given = Labels::new(given).unwrap_or_default().canonical();
        db.execute(NARROW_WORKER, &[name[0], name[1], Val::Text(&given)]).await?;
        for old in [Some(&there.token), there.token_before.as_ref()].into_iter().flatten() {
            db.execute(END, &[Val::Text(old), Val::At(desk.now)]).await?;
        }
    }
    let by = format!("join:{join}");
    let (_, told) = add_token(db, desk, token, &by).await?;
    let reason = there.map(|_| "admitted anew, with the same key".to_owned());
    let data = EventData { worker: Some(agent.name.clone()), by: Some(by), reason, ..EventData::default() };
    let heard = tell(db, desk, agent.tenant, EventKind::AgentEnrolled, data).await?;
    Ok((Enrolled::Done, vec![told, heard]))
}

pub async fn renew_agent(db: &mut impl Db, desk: &Desk<'_>, renewal: &Renewal) -> StoreResult<(bool, Vec<Heard>)> {
    let Renewal { tenant, name, used, token, overlap_ms, by } = renewal;
    let there = find_agent(db, *tenant, name).await?;
    let Some(there) = there.filter(|there| there.token == token.id || there.has_credential(used)) else {
        return Ok((false, Vec::new()));
    };
    if there.token == token.id {
        // The answer was lost, and the same credential is asked for again.
        return Ok((true, Vec::new()));
    }
    if there.token != *used {
        // The agent never heard of the one it was given last.
        db.execute(END, &[Val::Text(&there.token), Val::At(desk.now)]).await?;
    }
    db.execute(SHORTEN, &[Val::Text(used), Val::At(desk.now.plus_millis(*overlap_ms))]).await?;
    let params = [Val::Id(*tenant.as_uuid()), Val::Text(name.as_str()), Val::Text(&token.id), Val::Text(used)];
    db.execute(CREDENTIAL, &params).await?;
    let (_, told) = add_token(db, desk, token, by).await?;
    let data = EventData { worker: Some(name.clone()), by: Some(by.to_string()), ..EventData::default() };
    let heard = tell(db, desk, *tenant, EventKind::AgentRenewed, data).await?;
    Ok((true, vec![told, heard]))
}

/// The last key that was shown counts; the agent has proved that it is its own.
pub async fn set_sealing_key(
    db: &mut impl Db,
    desk: &Desk<'_>,
    tenant: TenantId,
    name: &WorkerName,
    key: &[u8; 32],
    by: &str,
) -> StoreResult<(SealingKeySet, Heard)> {
    let Some(there) = find_agent(db, tenant, name).await? else {
        return Ok((SealingKeySet::NotFound, Heard::default()));
    };
    let (answer, kind) = match there.sealing_key {
        Some(before) if before == *key => return Ok((SealingKeySet::Unchanged, Heard::default())),
        Some(_) => (SealingKeySet::Replaced, EventKind::AgentSealingKeyChanged),
        None => (SealingKeySet::First, EventKind::AgentSealingKeySet),
    };
    let params = [Val::Id(*tenant.as_uuid()), Val::Text(name.as_str()), Val::Bytes(key)];
    db.execute(SEALING_KEY, &params).await?;
    let data = EventData { worker: Some(name.clone()), by: Some(by.to_owned()), ..EventData::default() };
    Ok((answer, tell(db, desk, tenant, kind, data).await?))
}

/// Removes an agent whose key is lost, or that is to be trusted no longer.
pub async fn remove_agent(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    request: &RemoveAgent,
) -> StoreResult<(Option<RemovedAgent>, Vec<Heard>)> {
    let (tenant, name) = (request.tenant, &request.name);
    let Some(agent) = find_agent(db, tenant, name).await? else { return Ok((None, Vec::new())) };
    // Jobs are locked before anything else, as everywhere.
    let (lost_runs, returned_runs, given_up) = give_up_all(db, desk, tenant, name, "its agent was removed").await?;
    let credentials: Vec<String> = [Some(agent.token), agent.token_before].into_iter().flatten().collect();
    for token in &credentials {
        db.execute(END, &[Val::Text(token), Val::At(desk.now)]).await?;
    }
    let key = [Val::Id(*tenant.as_uuid()), Val::Text(name.as_str())];
    db.execute(REMOVE_WORKER, &key).await?;
    db.execute(REMOVE, &key).await?;
    let by = Some(request.by.to_string());
    let data =
        EventData { worker: Some(name.clone()), by, reason: Some(request.reason.clone()), ..EventData::default() };
    let heard = tell(db, desk, tenant, EventKind::AgentRemoved, data).await?;
    let removed = RemovedAgent { public_key: agent.public_key, credentials, lost_runs, returned_runs };
    Ok((Some(removed), vec![given_up, heard]))
}

async fn tell(
    db: &mut impl Db,
    desk: &Desk<'_>,
    tenant: TenantId,
    kind: EventKind,
    data: EventData,
) -> StoreResult<Heard> {
    let mut changes = Changes::at(desk.now);
    changes.tell(tenant, None, None, kind, data);
    changes.write(db).await
}

const SEALING_KEY: Sql = Sql::Same("update agent set sealing_key = $3 where tenant = $1 and name = $2");
const CREDENTIAL: Sql = Sql::Same("update agent set token = $3, token_before = $4 where tenant = $1 and name = $2");
const WORKER: Sql = Sql::Same("select 1 from worker where tenant = $1 and name = $2");
/// A worker's token of this name that can still be used would be the agent's second credential.
const WORKER_TOKEN: Sql = Sql::Same(
    "select 1 from token where tenant = $1 and name = $2 and kind = 'wrk' and revoked_at is null
       and (expires_at is null or expires_at > $3)",
);
const KEY: Sql = Sql::Same("select 1 from agent where public_key = $1");
/// Whoever comes second finds it used.
const USE: Sql = Sql::Same(
    "update token set revoked_at = $3, used_at = $3 where id = $1 and tenant = $2 and kind = 'joi'
       and revoked_at is null and (expires_at is null or expires_at > $3)",
);
const END: Sql = Sql::Same("update token set revoked_at = $2 where id = $1 and revoked_at is null");
const SHORTEN: Sql =
    Sql::Same("update token set expires_at = $2 where id = $1 and (expires_at is null or expires_at > $2)");
const ADD: Sql = Sql::Same(
    "insert into agent (tenant, name, public_key, labels, token, enrolled_at, admission, join_token)
     values ($1, $2, $3, $4, $5, $6, $7, $8)
     on conflict (tenant, name) do update set labels = excluded.labels, token = excluded.token, token_before = '',
       enrolled_at = excluded.enrolled_at, admission = excluded.admission,
       join_token = excluded.join_token",
);
const NARROW_WORKER: Sql = Sql::Same("update worker set labels = $3 where tenant = $1 and name = $2");
const REMOVE: Sql = Sql::Same("delete from agent where tenant = $1 and name = $2");
const REMOVE_WORKER: Sql = Sql::Same("delete from worker where tenant = $1 and name = $2");
