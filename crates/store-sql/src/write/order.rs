//! Orders of people about single jobs: cancel, retry.

use bowline_model::event::EventData;
use bowline_model::fleet::{ApprovalState, CommandFact};
use bowline_model::flow::FlowFact;
use bowline_model::job::{Fact, JobKind, Refused, Step};
use bowline_model::person::Person;
use bowline_model::{JobStatus, Lane, RunStatus};
use bowline_store::{JobOrder, NewApproval, OrderAnswer, StoreError, StoreResult};

use super::Desk;
use super::approvals::{Asked, ask_for_approval, forget};
use super::flows::retry_needs;
use super::promote::deadline;
use crate::changes::{Changes, Heard, Telling};
use crate::db::{Db, Sql, Val};
use crate::job_row::{JOB_COLUMNS, JobRow, job_columns};

pub async fn cancel(db: &mut impl Db, desk: &mut Desk<'_>, order: &JobOrder) -> StoreResult<(OrderAnswer, Heard)> {
    carry_out(db, desk, order, Order::Cancel).await
}

/// Runs a job that ended badly again; of a command, what did not succeed of it.
pub async fn retry(db: &mut impl Db, desk: &mut Desk<'_>, order: &JobOrder) -> StoreResult<(OrderAnswer, Heard)> {
    carry_out(db, desk, order, Order::Retry).await
}

/// The same for a command, of which somebody knows whether it must be approved before it is tried again.
pub async fn retry_command(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    order: &JobOrder,
    approval: Option<&NewApproval>,
) -> StoreResult<(OrderAnswer, Heard)> {
    let by = Asking { name: &order.by.name, person: order.by.person().also(&*order.by.name) };
    carry_out(db, desk, order, Order::RetryCommand(approval, by)).await
}

/// Who wants a second try.
struct Asking<'a> {
    name: &'a str,
    person: Person,
}

enum Order<'a> {
    Cancel,
    Retry,
    RetryCommand(Option<&'a NewApproval>, Asking<'a>),
}

async fn decide(
    db: &mut impl Db,
    desk: &Desk<'_>,
    job: &JobRow,
    order: &Order<'_>,
) -> StoreResult<Result<Step, Refused>> {
    let cancels = matches!(order, Order::Cancel);
    if job.state.kind == JobKind::Workflow {
        let fact = if cancels { FlowFact::CancelRequested } else { FlowFact::Retried };
        return Ok(job.state.on_flow(fact, desk.now));
    }
    if job.state.kind != JobKind::Command {
        let fact = if cancels { Fact::CancelRequested } else { Fact::Retried };
        return Ok(job.state.on(&fact, &job.policy, desk.now, 0.0));
    }
    let fact = match order {
        Order::Cancel => CommandFact::CancelRequested,
        Order::Retry | Order::RetryCommand(..) => {
            // What nobody approved never runs, whoever wants it again. A yes was for one try.
            let state = db.query(STATE, &[Val::Int(job.number)], |row| row.int(0)).await?.into_iter().next();
            let had_a_yes = |state| {
                state == ApprovalState::Approved.code()
                    || state == ApprovalState::Superseded.code() && job.state.status == JobStatus::Failed
            };
            match (order, state) {
                (_, Some(state)) if !had_a_yes(state) => return Ok(Err(Refused::NotFrom(job.state.status))),
                (Order::Retry, Some(_)) => return Ok(Err(Refused::NotFrom(job.state.status))),
                (Order::RetryCommand(Some(approval), by), _) => {
                    let until = desk.now.plus_millis(i64::try_from(approval.expires_ms).unwrap_or(i64::MAX));
                    let step = job.state.on_command(CommandFact::RetryAwaitsApproval { until }, desk.now);
                    if step.is_ok() {
                        let asked = Asked { approval, requester: by.name, person: by.person.clone(), retry: true };
                        ask_for_approval(db, job.number, job.tenant, &asked).await?;
                    }
                    return Ok(step);
                }
                // Nobody has to be asked any more.
                (Order::RetryCommand(None, _), Some(_)) => forget(db, job.number).await?,
                _ => {}
            }
            CommandFact::Retried { deadline_at: deadline(db, desk, job.number).await? }
        }
    };
    Ok(job.state.on_command(fact, desk.now))
}

async fn carry_out(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    order: &JobOrder,
    wanted: Order<'_>,
) -> StoreResult<(OrderAnswer, Heard)> {
    let params = [Val::Id(*order.tenant.as_uuid()), Val::Id(*order.job.as_uuid())];
    let found = db.query(JOB, &params, |row| Ok((JobRow::read(row)?, row.int(JOB_COLUMNS)?))).await?;
    let Some((job, lane)) = found.into_iter().next() else { return Ok((OrderAnswer::NotFound, Heard::default())) };
    let lane = Lane::from_code(lane).ok_or_else(|| StoreError::Broken(format!("unknown lane {lane}")))?;
    // A job that an execution started is behind the same approvals as the execution itself.
    let execution = if job.state.kind == JobKind::Workflow { Some(job.number) } else { job.flow };
    if let Some(execution) = execution
        && !matches!(wanted, Order::Cancel)
        && job.state.status.is_terminal()
    {
        let person = order.by.person().also(&*order.by.name);
        if let Some(needs) = retry_needs(db, execution, &person).await? {
            return Ok((OrderAnswer::NeedsApproval(needs), Heard::default()));
        }
    }
    let step = match decide(db, desk, &job, &wanted).await? {
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

const STATE: Sql = Sql::Same("select state from approval where number = $1");
const OPEN_LETTER: Sql = Sql::Same("select 1 from dead_letter where number = $1 and status = 1");
const JOB: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        ", c.lane from job j join channel c on c.id = j.channel where j.tenant = ?1 and j.id = ?2 and j.parent is null"
    ),
    postgres: concat!(
        "select ",
        job_columns!(),
        ", c.lane from job j join channel c on c.id = j.channel
         where j.tenant = $1 and j.id = $2 and j.parent is null for update of j"
    ),
};
