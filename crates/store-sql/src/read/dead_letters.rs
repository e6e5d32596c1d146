//! Dead letters, read.

use bowline_model::dead_letter::DeadLetterStatus;
use bowline_model::{ErrorClass, JobId, Lane, TaskType, TenantId};
use bowline_store::{DeadLetter, Page, StoreError, StoreResult};

use crate::db::{Db, Sql, Val};
use crate::job_row::count;

/// Entries of a lane, newest first.
pub async fn list_dead_letters(
    db: &mut impl Db,
    tenant: TenantId,
    lane: Lane,
    status: Option<DeadLetterStatus>,
    before: Option<i64>,
    limit: u32,
) -> StoreResult<Page<DeadLetter, i64>> {
    let limit = limit.max(1);
    let params = [
        Val::Id(*tenant.as_uuid()),
        Val::Int(lane.code()),
        Val::Int(before.unwrap_or(i64::MAX)),
        Val::Int(status.map_or(0, DeadLetterStatus::code)),
        Val::Int(i64::from(limit) + 1),
    ];
    let mut items = db
        .query(LIST, &params, |row| {
            let class = row.opt_text(6)?;
            Ok(DeadLetter {
                id: row.int(0)?,
                job: JobId::from_uuid(row.id(1)?),
                number: row.int(2)?,
                lane,
                task_type: TaskType::new(&row.text(3)?).map_err(|e| StoreError::Broken(e.to_string()))?,
                at: row.at(4)?,
                status: DeadLetterStatus::from_code(row.int(5)?)
                    .ok_or_else(|| StoreError::Broken("unknown dead letter status".to_owned()))?,
                class: class.and_then(|text| serde_json::from_value::<ErrorClass>(text.into()).ok()),
                error: row.opt_text(7)?,
                closed_at: row.opt_at(8)?,
                closed_by: row.opt_text(9)?,
                reason: row.opt_text(10)?,
                replayed_as: row.opt_id(11)?.map(JobId::from_uuid),
                attempts: count(row.int(12)?),
            })
        })
        .await?;
    let next = (items.len() > limit as usize).then(|| items[limit as usize - 1].id);
    items.truncate(limit as usize);
    Ok(Page { items, next })
}

const LIST: Sql = Sql::Same(
    "select d.id, j.id, d.number, c.type, d.at, d.status, d.class, d.error, d.closed_at, d.closed_by, d.reason,
            d.replayed_as, j.attempts
     from dead_letter d join job j on j.number = d.number join channel c on c.id = j.channel
     where d.tenant = $1 and d.lane = $2 and d.id < $3 and (cast($4 as bigint) = 0 or d.status = cast($4 as bigint))
     order by d.id desc limit $5",
);
