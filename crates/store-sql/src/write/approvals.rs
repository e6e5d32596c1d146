//! Decisions about commands that wait for approval. The first one that ends the matter wins.

use bowline_model::EventKind;
use bowline_model::event::EventData;
use bowline_model::fleet::{Approval, ApprovalState, CommandFact, Decided, Vote};
use bowline_model::idempotency::RequestHash;
use bowline_model::{Lane, Timestamp};
use bowline_store::{ApprovalAnswer, ApprovalOrder, StoreError, StoreResult};

use super::Desk;
use crate::changes::{Changes, Heard, Telling};
use crate::db::{Db, Row, Sql, Val};
use crate::job_row::{JOB_COLUMNS, JobRow, count, job_columns};

struct Waiting {
    job: JobRow,
    lane: Lane,
    run_at: Option<Timestamp>,
}

fn read_job(row: &dyn Row) -> StoreResult<Waiting> {
    let lane = row.int(JOB_COLUMNS)?;
    Ok(Waiting {
        job: JobRow::read(row)?,
        lane: Lane::from_code(lane).ok_or_else(|| StoreError::Broken(format!("unknown lane {lane}")))?,
        run_at: row.opt_at(JOB_COLUMNS + 1)?,
    })
}

fn read_approval(row: &dyn Row) -> StoreResult<Approval> {
    let state = row.int(0)?;
    Ok(Approval {
        state: ApprovalState::from_code(state)
            .ok_or_else(|| StoreError::Broken(format!("unknown state {state} of an approval")))?,
        hash: RequestHash::from_bytes(row.bytes(1)?.try_into().unwrap_or([0; 32])),
        quorum: count(row.int(2)?),
        four_eyes: row.bool(3)?,
        requester: row.text(4)?,
        yes: Vec::new(),
    })
}

pub async fn decide(db: &mut impl Db, desk: &Desk<'_>, order: &ApprovalOrder) -> StoreResult<(ApprovalAnswer, Heard)> {
    let key = [Val::Id(*order.tenant.as_uuid()), Val::Id(*order.job.as_uuid())];
    let Some(waiting) = db.query(JOB, &key, read_job).await?.into_iter().next() else {
        return Ok((ApprovalAnswer::NotFound, Heard::default()));
    };
    // Asked for once the job is locked: what was joined to it while waiting for the lock would be what was there before.
    let number = waiting.job.number;
    let approval = db.query(APPROVAL, &[Val::Int(number)], read_approval).await?;
    let Some(mut approval) = approval.into_iter().next() else {
        return Ok((ApprovalAnswer::NotNeeded, Heard::default()));
    };
    approval.yes = db.query(YES, &[Val::Int(number)], |row| row.text(0)).await?;
    let vote = Vote { by: order.by.to_string(), yes: order.yes, seen: order.seen, current: order.current };
    let decided = match approval.on(&vote) {
        Ok(decided) => decided,
        Err(refused) => return Ok((ApprovalAnswer::Refused(refused), Heard::default())),
    };
    let params = [
        Val::Int(number),
        Val::Text(&order.by),
        Val::Bool(order.yes),
        Val::OptText(order.reason.as_deref()),
        Val::At(desk.now),
    ];
    db.execute(VOTE, &params).await?;
    let data = EventData { by: Some(order.by.to_string()), reason: order.reason.clone(), ..EventData::default() };
    let mut changes = Changes::at(desk.now);
    let fact = match decided {
        Decided::Noted { .. } => {
            changes.tell(waiting.job.tenant, Some(number), None, EventKind::JobApprovalNoted, data);
            let status = waiting.job.state.status;
            return Ok((ApprovalAnswer::Decided(decided, status), changes.write(db).await?));
        }
        Decided::Approved => CommandFact::Approved { begins_at: waiting.run_at.unwrap_or(desk.now).max(desk.now) },
        Decided::Rejected => CommandFact::Rejected,
        Decided::Superseded => CommandFact::Superseded,
    };
    let step = waiting.job.state.on_command(fact, desk.now);
    let step = step.map_err(|refused| StoreError::Broken(format!("job #{number} waits for approval: {refused}")))?;
    let status = step.next.status;
    changes.advance(&waiting.job, waiting.lane, step, Telling { data, ..Telling::default() });
    Ok((ApprovalAnswer::Decided(decided, status), changes.write(db).await?))
}

macro_rules! waiting {
    ($rest:literal) => {
        concat!(
            "select ",
            job_columns!(),
            ", c.lane, f.run_at
             from job j join channel c on c.id = j.channel join fleet f on f.number = j.number
             where j.tenant = $1 and j.id = $2 and j.parent is null",
            $rest
        )
    };
}
const JOB: Sql = Sql::Each { sqlite: waiting!(""), postgres: waiting!(" for update of j") };
const APPROVAL: Sql = Sql::Same("select state, hash, quorum, four_eyes, requester from approval where number = $1");
const YES: Sql = Sql::Same("select by from vote where number = $1 and yes order by by");
const VOTE: Sql = Sql::Same(
    "insert into vote (number, by, yes, reason, at) values ($1, $2, $3, $4, $5)
     on conflict (number, by) do update set yes = excluded.yes, reason = excluded.reason, at = excluded.at",
);
