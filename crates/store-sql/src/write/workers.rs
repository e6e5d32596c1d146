//! Remote workers, written.

use bowline_model::event::EventData;
use bowline_model::host::Connection;
use bowline_model::{EventKind, TenantId, WorkerName};
use bowline_store::{StoreResult, WorkerRecord};

use super::Desk;
use crate::changes::{Changes, Heard};
use crate::db::{Db, Sql, Val};
use crate::read::find_agent;

pub async fn register_worker(db: &mut impl Db, desk: &Desk<'_>, worker: &WorkerRecord) -> StoreResult<Heard> {
    // A removed agent that was registering meanwhile would take its name with it.
    if worker.labels.get(Connection::AGENT_LABEL).is_some()
        && find_agent(db, worker.tenant, &worker.name).await?.is_none()
    {
        return Ok(Heard::default());
    }
    let types: Vec<&str> = worker.task_types.iter().map(bowline_model::TaskType::as_str).collect();
    let (types, labels) = (types.join(" "), worker.labels.canonical());
    let claimed = worker.claimed_labels.canonical();
    let params = [
        Val::Id(*worker.tenant.as_uuid()),
        Val::Text(worker.name.as_str()),
        Val::Text(&worker.worker_type),
        Val::Text(&types),
        Val::Text(&labels),
        Val::Int(i64::from(worker.slots)),
        Val::At(desk.now),
        Val::Bool(false),
        Val::Text(&claimed),
        Val::Bool(worker.shares_agent_user),
        Val::Text(&worker.version),
    ];
    db.execute(REGISTER, &params).await?;
    let mut changes = Changes::at(desk.now);
    let data = EventData { worker: Some(worker.name.clone()), ..EventData::default() };
    changes.tell(worker.tenant, None, None, EventKind::WorkerRegistered, data);
    changes.write(db).await
}

pub async fn drain_worker(db: &mut impl Db, tenant: TenantId, name: &WorkerName, draining: bool) -> StoreResult<bool> {
    let params = [Val::Id(*tenant.as_uuid()), Val::Text(name.as_str()), Val::Bool(draining)];
    db.execute(DRAIN, &params).await.map(|changed| changed == 1)
}

/// A drain is a person's order; it stays until a person lifts it.
const REGISTER: Sql = Sql::Same(
    "insert into worker (tenant, name, worker_type, task_types, labels, slots, registered_at, seen_at, draining,
       claimed_labels, shares_agent_user, version)
     values ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9, $10, $11)
     on conflict (tenant, name) do update set worker_type = excluded.worker_type, task_types = excluded.task_types,
       labels = excluded.labels, slots = excluded.slots, seen_at = excluded.seen_at,
       claimed_labels = excluded.claimed_labels, shares_agent_user = excluded.shares_agent_user,
       version = excluded.version",
);
const DRAIN: Sql = Sql::Same("update worker set draining = $3 where tenant = $1 and name = $2");
