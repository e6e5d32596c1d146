//! Jobs whose moment has come.

use bowline_model::event::EventData;
use bowline_model::fleet::CommandFact;
use bowline_model::flow::FlowFact;
use bowline_model::job::{Fact, JobKind};
use bowline_model::{JobStatus, Lane, Timestamp};
use bowline_store::{Promoted, StoreError, StoreResult};

use super::Desk;
use crate::changes::{Changes, Heard, Telling};
use crate::db::{Db, Sql, Val};
use crate::job_row::{JOB_COLUMNS, JobRow, job_columns};

/// Queues up to `limit` jobs that are due, the longest waiting first.
pub async fn promote(db: &mut impl Db, desk: &mut Desk<'_>, limit: u32) -> StoreResult<(Promoted, Heard)> {
    let params = [
        Val::At(desk.now),
        Val::Int(i64::from(limit)),
        Val::Int(JobKind::Command.code()),
        Val::Int(JobStatus::AwaitingApproval.code()),
        Val::Int(JobStatus::Running.code()),
        Val::Int(JobKind::Workflow.code()),
        Val::Int(JobStatus::Pending.code()),
    ];
    // Approvals and waits that expire, and what takes too long, wait for a clock that is believed.
    let held = desk.clock.is_held();
    let (due, params) = if held { (DUE_HELD, &params[..]) } else { (DUE, &params[..2]) };
    let due = db.query(due, params, |row| Ok((JobRow::read(row)?, row.int(JOB_COLUMNS)?))).await?;
    let mut changes = Changes::at(desk.now);
    let mut moved = 0;
    for (job, lane) in due {
        let lane = Lane::from_code(lane).ok_or_else(|| StoreError::Broken(format!("unknown lane {lane}")))?;
        let step = match job.state.kind {
            JobKind::Command => {
                let deadline_at = deadline(db, desk, job.number).await?;
                job.state.on_command(CommandFact::Due { deadline_at }, desk.now)
            }
            JobKind::Workflow => job.state.on_flow(FlowFact::Due, desk.now),
            JobKind::Task | JobKind::Unit(_) => job.state.on(&Fact::Due, &job.policy, desk.now, 0.0),
        };
        match step {
            Ok(step) => {
                moved += 1;
                changes.advance(&job, lane, step, Telling { data: EventData::default(), ..Telling::default() });
            }
            Err(refused) => {
                tracing::error!(job.id = %job.id, error = %refused, "a job with a timer cannot be due");
            }
        }
    }
    let heard = changes.write(db).await?;
    let next_due_at = match held {
        // The first of them may be one that waits; whoever asks looks again soon.
        true => None,
        false => db.query(NEXT, &[], |row| row.opt_at(0)).await?.into_iter().next().flatten(),
    };
    Ok((Promoted { moved, expired: 0, next_due_at }, heard))
}

/// When a command that begins now must be over.
pub async fn deadline(db: &mut impl Db, desk: &Desk<'_>, number: i64) -> StoreResult<Option<Timestamp>> {
    let limit = db.query(DEADLINE, &[Val::Int(number)], |row| row.opt_int(0)).await?;
    Ok(limit.into_iter().next().flatten().map(|ms| desk.now.plus_millis(ms)))
}

const DEADLINE: Sql = Sql::Same("select deadline_ms from fleet where number = $1");
const DUE: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        ", c.lane from timer t join job j on j.number = t.number join channel c on c.id = j.channel
         where t.due_at <= ?1 order by t.due_at, t.number limit ?2"
    ),
    postgres: concat!(
        "select ",
        job_columns!(),
        ", c.lane from timer t join job j on j.number = t.number join channel c on c.id = j.channel
         where t.due_at <= $1 order by t.due_at, t.number limit $2 for update of t, j skip locked"
    ),
};
/// Without commands that wait for approval or run: their timers end them. Without runs of workflows that wait for a person or an
/// event; and others wake but once for a time that has come, because something else may be due then.
const DUE_HELD: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        ", c.lane from timer t join job j on j.number = t.number join channel c on c.id = j.channel
         left join flow f on f.number = j.number
         where t.due_at <= ?1 and not (j.kind = ?3 and j.status in (?4, ?5))
           and not (j.kind = ?6 and (coalesce(f.paused_for, '') in ('approval', 'event')
                    or (j.status <> ?7 and coalesce(f.paused_for, '') <> 'sleep' and t.due_at <= j.updated_at)))
         order by t.due_at, t.number limit ?2"
    ),
    postgres: concat!(
        "select ",
        job_columns!(),
        ", c.lane from timer t join job j on j.number = t.number join channel c on c.id = j.channel
         left join flow f on f.number = j.number
         where t.due_at <= $1 and not (j.kind = $3 and j.status in ($4, $5))
           and not (j.kind = $6 and (coalesce(f.paused_for, '') in ('approval', 'event')
                    or (j.status <> $7 and coalesce(f.paused_for, '') <> 'sleep' and t.due_at <= j.updated_at)))
         order by t.due_at, t.number limit $2
         for update of t, j skip locked"
    ),
};
const NEXT: Sql = Sql::Same(
    "select min(at) from (select min(due_at) as at from timer union all select min(at) from deadline) as next",
);
