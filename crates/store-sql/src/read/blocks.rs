//! Blocks, and the lines before hosts.

use bowline_model::{HostName, InventoryName, JobId, RunId, TenantId, WorkerName};
use bowline_store::{BlockRecord, BlockedPlace, HostLine, KeptRecord, StoreResult, TurnRecord};

use super::find_host;
use super::fleet::{broken, lock_of};
use crate::db::{Db, Sql, Val};
use crate::job_row::status_of;

pub async fn list_blocks(db: &mut impl Db, tenant: TenantId) -> StoreResult<Vec<BlockRecord>> {
    db.query(BLOCKS, &[Val::Id(*tenant.as_uuid())], |row| {
        let place = match (row.opt_text(2)?, row.opt_text(3)?) {
            (Some(host), _) => BlockedPlace::Host(HostName::new(&host).map_err(broken)?),
            (None, selector) => BlockedPlace::Selector(selector.unwrap_or_default()),
        };
        Ok(BlockRecord {
            id: row.int(0)?,
            inventory: InventoryName::new(&row.text(1)?).map_err(broken)?,
            place,
            command: row.opt_text(4)?,
            reason: row.text(5)?,
            by: row.text(6)?,
            at: row.at(7)?,
            expires_at: row.opt_at(8)?,
        })
    })
    .await
}

pub async fn host_queue(
    db: &mut impl Db,
    tenant: TenantId,
    inventory: &InventoryName,
    host: &HostName,
) -> StoreResult<Option<HostLine>> {
    let Some(found) = find_host(db, tenant, inventory, host).await? else { return Ok(None) };
    let turns = |row: &dyn crate::db::Row| {
        Ok(TurnRecord {
            job: JobId::from_uuid(row.id(0)?),
            job_number: row.int(1)?,
            command: row.text(2)?,
            lock: lock_of(row.bool(3)?),
            held: row.bool(4)?,
            status: status_of(row.int(5)?)?,
            since: row.at(6)?,
        })
    };
    let turns = db.query(TURNS, &[Val::Int(found.id)], turns).await?;
    let kept = db
        .query(KEPT, &[Val::Int(found.id)], |row| {
            Ok(KeptRecord {
                run: RunId::from_uuid(row.id(0)?),
                agent: WorkerName::new(&row.text(1)?).map_err(broken)?,
                lock: lock_of(row.bool(2)?),
                since: row.at(3)?,
                until: row.at(4)?,
                job: row.opt_id(5)?.map(JobId::from_uuid),
                job_number: row.opt_int(6)?,
                command: row.opt_text(7)?,
            })
        })
        .await?;
    Ok(Some(HostLine { kept, turns }))
}

const BLOCKS: Sql = Sql::Same(
    "select b.id, i.name, h.name, b.selector, b.command, b.reason, b.by, b.at, b.expires_at
     from block b join inventory i on i.id = b.inventory left join host h on h.id = b.host
     where b.tenant = $1 and b.lifted_at is null order by b.id desc",
);
/// The command may be gone by now: history is kept for a time only.
const KEPT: Sql = Sql::Same(
    "select k.run, k.agent, k.shared, k.since, k.until, p.id, p.number, f.command
     from kept k left join job j on j.number = k.unit left join job p on p.number = j.parent
     left join fleet f on f.number = p.number
     where k.host = $1 order by k.until desc, k.run",
);
const TURNS: Sql = Sql::Same(
    "select p.id, p.number, f.command, t.shared, t.held, j.status, j.updated_at
     from turn t join job j on j.number = t.unit join job p on p.number = j.parent join fleet f on f.number = p.number
     where t.host = $1 order by t.ticket",
);
