//! Remote workers, read.

use std::collections::BTreeMap;

use bowline_model::{Labels, TaskType, TenantId, WorkerName};
use bowline_store::{StoreError, StoreResult, WorkerRecord};

use crate::db::{Db, Row, Sql, Val};
use crate::job_row::count;

/// A worker from the columns of `WORKER`.
pub(super) fn worker(row: &dyn Row) -> StoreResult<WorkerRecord> {
    let broken = |e: bowline_model::name::NotAName| StoreError::Broken(e.to_string());
    let types = row.text(3)?;
    let types: Result<Vec<TaskType>, _> = types.split(' ').filter(|t| !t.is_empty()).map(TaskType::new).collect();
    Ok(WorkerRecord {
        tenant: TenantId::from_uuid(row.id(0)?),
        name: WorkerName::new(&row.text(1)?).map_err(broken)?,
        worker_type: row.text(2)?,
        task_types: types.map_err(broken)?,
        labels: Labels::from_canonical(&row.text(4)?).map_err(broken)?,
        slots: count(row.int(5)?),
        registered_at: row.at(6)?,
        seen_at: row.at(7)?,
        draining: row.bool(8)?,
        names_runs: row.bool(9)?,
        claimed_labels: Labels::from_canonical(&row.text(10)?).map_err(broken)?,
        shares_agent_user: row.bool(11)?,
        version: row.text(12)?,
    })
}

pub async fn find_worker(db: &mut impl Db, tenant: TenantId, name: &WorkerName) -> StoreResult<Option<WorkerRecord>> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Text(name.as_str())];
    Ok(db.query(WORKER, &key, worker).await?.into_iter().next())
}

pub async fn list_workers(db: &mut impl Db, tenant: TenantId) -> StoreResult<Vec<WorkerRecord>> {
    db.query(WORKERS, &[Val::Id(*tenant.as_uuid())], worker).await
}

pub async fn list_draining(db: &mut impl Db) -> StoreResult<Vec<(TenantId, WorkerName)>> {
    db.query(DRAINING, &[], |row| {
        let name = WorkerName::new(&row.text(1)?).map_err(|e| StoreError::Broken(e.to_string()))?;
        Ok((TenantId::from_uuid(row.id(0)?), name))
    })
    .await
}

pub async fn running_by_worker(db: &mut impl Db, tenant: TenantId) -> StoreResult<BTreeMap<String, u32>> {
    let rows = db.query(RUNNING, &[Val::Id(*tenant.as_uuid())], |row| Ok((row.text(0)?, count(row.int(1)?)))).await?;
    Ok(rows.into_iter().collect())
}

const RUNNING: Sql = Sql::Same(
    "select l.worker, count(*) from lease l join job j on j.number = l.number where j.tenant = $1 group by l.worker",
);
const DRAINING: Sql = Sql::Same("select tenant, name from worker where draining");
const WORKER: Sql = Sql::Same(
    "select tenant, name, worker_type, task_types, labels, slots, registered_at, seen_at, draining, names_runs,
       claimed_labels, shares_agent_user, version from worker
     where tenant = $1 and name = $2",
);
const WORKERS: Sql = Sql::Same(
    "select tenant, name, worker_type, task_types, labels, slots, registered_at, seen_at, draining, names_runs,
       claimed_labels, shares_agent_user, version from worker
     where tenant = $1 order by name",
);
