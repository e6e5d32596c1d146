//! Agents that join.

use bowline_model::event::EventData;
use bowline_model::{EventKind, TenantId, WorkerName};
use bowline_store::{AgentRecord, Enrolled, StoreResult, TokenRecord};

use super::Desk;
use super::tokens::create_token;
use crate::changes::{Changes, Heard};
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
    if let Some(there) = find_agent(db, agent.tenant, &agent.name).await? {
        // Whoever lost the answer asks again, with the same key and credential.
        let same = there.public_key == agent.public_key && there.token == agent.token;
        return nobody(if same { Enrolled::Done } else { Enrolled::NameTaken });
    }
    let name = [Val::Id(*agent.tenant.as_uuid()), Val::Text(agent.name.as_str())];
    if !db.query(WORKER, &name, |_| Ok(())).await?.is_empty() {
        return nobody(Enrolled::NameTaken);
    }
    if !db.query(KEY, &[Val::Bytes(&agent.public_key)], |_| Ok(())).await?.is_empty() {
        return nobody(Enrolled::KeyTaken);
    }
    let used = [Val::Text(join), Val::Id(*agent.tenant.as_uuid()), Val::At(desk.now)];
    if db.execute(USE, &used).await? == 0 {
        return nobody(Enrolled::NotWelcome);
    }
    let labels = agent.labels.canonical();
    let params = [
        Val::Id(*agent.tenant.as_uuid()),
        Val::Text(agent.name.as_str()),
        Val::Bytes(&agent.public_key),
        Val::Text(&labels),
        Val::Text(&agent.token),
        Val::At(desk.now),
    ];
    db.execute(ADD, &params).await?;
    let by = format!("join:{join}");
    let (_, told) = create_token(db, desk, token, &by).await?;
    let mut changes = Changes::at(desk.now);
    let data = EventData { worker: Some(agent.name.clone()), by: Some(by), ..EventData::default() };
    changes.tell(agent.tenant, None, None, EventKind::AgentEnrolled, data);
    Ok((Enrolled::Done, vec![told, changes.write(db).await?]))
}

/// The last key that was shown counts; whoever showed it has proved to be the agent.
pub async fn set_sealing_key(
    db: &mut impl Db,
    tenant: TenantId,
    name: &WorkerName,
    key: &[u8; 32],
) -> StoreResult<bool> {
    let params = [Val::Id(*tenant.as_uuid()), Val::Text(name.as_str()), Val::Bytes(key)];
    db.execute(SEALING_KEY, &params).await.map(|changed| changed == 1)
}

const SEALING_KEY: Sql = Sql::Same("update agent set sealing_key = $3 where tenant = $1 and name = $2");
const WORKER: Sql = Sql::Same("select 1 from worker where tenant = $1 and name = $2");
const KEY: Sql = Sql::Same("select 1 from agent where public_key = $1");
/// Whoever comes second finds it used.
const USE: Sql = Sql::Same(
    "update token set revoked_at = $3 where id = $1 and tenant = $2 and kind = 'joi' and revoked_at is null
       and (expires_at is null or expires_at > $3)",
);
const ADD: Sql = Sql::Same(
    "insert into agent (tenant, name, public_key, labels, token, enrolled_at) values ($1, $2, $3, $4, $5, $6)",
);
