//! Orders of people about single jobs: cancel, retry.

use bowline_model::event::EventData;
use bowline_model::job::{Fact, Refused};
use bowline_model::{JobStatus, Lane, RunStatus};
use bowline_store::{JobOrder, OrderAnswer, StoreError, StoreResult};

use super::Desk;
use crate::changes::{Changes, Heard, Telling};
use crate::db::{Db, Sql, Val};
use crate::job_row::{JOB_COLUMNS, JobRow, job_columns};

pub async fn cancel(db: &mut impl Db, desk: &mut Desk<'_>, order: &JobOrder) -> StoreResult<(OrderAnswer, Heard)> {
    carry_out(db, desk, order, &Fact::CancelRequested).await
}

pub async fn retry(db: &mut impl Db, desk: &mut Desk<'_>, order: &JobOrder) -> StoreResult<(OrderAnswer, Heard)> {
    carry_out(db, desk, order, &Fact::Retried).await
}

async fn carry_out(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    order: &JobOrder,
    fact: &Fact,
) -> StoreResult<(OrderAnswer, Heard)> {
    let params = [Val::Id(*order.tenant.as_uuid()), Val::Id(*order.job.as_uuid())];
    let found = db.query(JOB, &params, |row| Ok((JobRow::read(row)?, row.int(JOB_COLUMNS)?))).await?;
    let Some((job, lane)) = found.into_iter().next() else { return Ok((OrderAnswer::NotFound, Heard::default())) };
    let lane = Lane::from_code(lane).ok_or_else(|| StoreError::Broken(format!("unknown lane {lane}")))?;
    let step = match job.state.on(fact, &job.policy, desk.now, 0.0) {
        Ok(step) => step,
        Err(Refused::Unchanged(status)) => return Ok((OrderAnswer::Unchanged(status), Heard::default())),
        Err(Refused::Finished(status)) => return Ok((OrderAnswer::Finished(status), Heard::default())),
        Err(Refused::NotFrom(status)) => return Ok((OrderAnswer::NotFrom(status), Heard::default())),
        Err(Refused::StaleLease) => return Ok((OrderAnswer::NotFrom(job.state.status), Heard::default())),
    };
    if job.state.status == JobStatus::Dead
        && db.query(OPEN_LETTER, &[Val::Int(job.number)], |_| Ok(())).await?.is_empty()
    {
        return Ok((OrderAnswer::LetterClosed, Heard::default()));
    }
    let status = step.next.status;
    let data = EventData {
        reason: order.reason.clone(),
        by: Some(order.by.to_string()),
        outcome: None::<RunStatus>,
        ..EventData::default()
    };
    let mut changes = Changes::at(desk.now);
    changes.advance(&job, lane, step, Telling { data, ..Telling::default() });
    Ok((OrderAnswer::Done(status), changes.write(db).await?))
}

const OPEN_LETTER: Sql = Sql::Same("select 1 from dead_letter where number = $1 and status = 1");
const JOB: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        ", c.lane from job j join channel c on c.id = j.channel where j.tenant = ?1 and j.id = ?2"
    ),
    postgres: concat!(
        "select ",
        job_columns!(),
        ", c.lane from job j join channel c on c.id = j.channel
         where j.tenant = $1 and j.id = $2 for update of j"
    ),
};
