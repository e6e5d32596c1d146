//! Agents, read.

use bowline_model::{Admission, Labels, TenantId, WorkerName};
use bowline_store::{AgentEntry, AgentRecord, Page, StoreError, StoreResult};

use super::workers::worker;
use crate::db::{Db, Row, Sql, Val};

fn agent(tenant: TenantId, row: &dyn Row, at: usize) -> StoreResult<AgentRecord> {
    let broken = |e: String| StoreError::Broken(format!("a stored agent cannot be read: {e}"));
    Ok(AgentRecord {
        tenant,
        name: WorkerName::new(&row.text(at)?).map_err(|e| broken(e.to_string()))?,
        public_key: row.bytes(at + 1)?.try_into().map_err(|_| broken("its key is no key".to_owned()))?,
        labels: Labels::from_canonical(&row.text(at + 2)?).map_err(|e| broken(e.to_string()))?,
        token: row.text(at + 3)?,
        enrolled_at: row.at(at + 4)?,
        sealing_key: match row.bytes(at + 5)? {
            none if none.is_empty() => None,
            key => Some(key.try_into().map_err(|_| broken("its sealing key is no key".to_owned()))?),
        },
        admission: Admission::from_text(&row.text(at + 6)?).map_err(|e| broken(e.to_string()))?,
        token_before: Some(row.text(at + 7)?).filter(|id| !id.is_empty()),
    })
}

fn entry(tenant: TenantId, row: &dyn Row) -> StoreResult<AgentEntry> {
    // The columns of a worker come first; those of an agent that never registered are null.
    let registered = row.opt_text(1)?.is_some();
    Ok(AgentEntry {
        worker: if registered { Some(worker(row)?) } else { None },
        agent: agent(tenant, row, 13)?,
        join_token: Some(row.text(21)?).filter(|id| !id.is_empty()),
        credential_expires_at: row.opt_at(22)?,
        credential_revoked_at: row.opt_at(23)?,
        join_token_made_by: row.opt_text(24)?,
    })
}

pub async fn find_agent(db: &mut impl Db, tenant: TenantId, name: &WorkerName) -> StoreResult<Option<AgentRecord>> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Text(name.as_str())];
    Ok(db.query(AGENT, &key, |row| agent(tenant, row, 0)).await?.into_iter().next())
}

pub async fn find_agent_entry(
    db: &mut impl Db,
    tenant: TenantId,
    name: &WorkerName,
) -> StoreResult<Option<AgentEntry>> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Text(name.as_str())];
    Ok(db.query(ENTRY, &key, |row| entry(tenant, row)).await?.into_iter().next())
}

pub async fn list_agents(
    db: &mut impl Db,
    tenant: TenantId,
    after: Option<&WorkerName>,
    limit: u32,
) -> StoreResult<Page<AgentEntry, WorkerName>> {
    let after = after.map_or("", WorkerName::as_str);
    let params = [Val::Id(*tenant.as_uuid()), Val::Text(after), Val::Int(i64::from(limit) + 1)];
    let mut items = db.query(ENTRIES, &params, |row| entry(tenant, row)).await?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = items.last().filter(|_| more).map(|last| last.agent.name.clone());
    Ok(Page { items, next })
}

/// An agent, its credential, its join token and what it registered as.
macro_rules! entries {
    () => {
        "select w.tenant, w.name, w.worker_type, w.task_types, w.labels, w.slots, w.registered_at, w.seen_at, w.draining,
           w.names_runs, w.claimed_labels, w.shares_agent_user, w.version,
           a.name, a.public_key, a.labels, a.token, a.enrolled_at, a.sealing_key, a.admission, a.token_before, a.join_token,
           t.expires_at, t.revoked_at, j.made_by
         from agent a left join token t on t.id = a.token left join token j on j.id = a.join_token
           left join worker w on w.tenant = a.tenant and w.name = a.name
         where a.tenant = $1 and a.name "
    };
}

const AGENT: Sql = Sql::Same(
    "select name, public_key, labels, token, enrolled_at, sealing_key, admission, token_before from agent
     where tenant = $1 and name = $2",
);
const ENTRY: Sql = Sql::Same(concat!(entries!(), "= $2"));
const ENTRIES: Sql = Sql::Same(concat!(entries!(), "> $2 order by a.name limit $3"));
