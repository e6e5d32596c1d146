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
    approval: Option<Approval>,
    run_at: Option<Timestamp>,
}

fn read(row: &dyn Row) -> StoreResult<Waiting> {
    let at = JOB_COLUMNS;
    let lane = row.int(at)?;
    let approval = match row.opt_int(at + 1)? {
        None => None,
        Some(state) => Some(Approval {
            state: ApprovalState::from_code(state)
                .ok_or_else(|| StoreError::Broken(format!("unknown state {state} of an approval")))?,
            hash: RequestHash::from_bytes(row.bytes(at + 2)?.try_into().unwrap_or([0; 32])),
            quorum: count(row.int(at + 3)?),
            four_eyes: row.bool(at + 4)?,
            requester: row.text(at + 5)?,
            yes: Vec::new(),
        }),
    };
    Ok(Waiting {
        job: JobRow::read(row)?,
        lane: Lane::from_code(lane).ok_or_else(|| StoreError::Broken(format!("unknown lane {lane}")))?,
        approval,
        run_at: row.opt_at(at + 6)?,
    })
}

pub async fn decide(db: &mut impl Db, desk: &Desk<'_>, order: &ApprovalOrder) -> StoreResult<(ApprovalAnswer, Heard)> {
    let key = [Val::Id(*order.tenant.as_uuid()), Val::Id(*order.job.as_uuid())];
    let Some(waiting) = db.query(JOB, &key, read).await?.into_iter().next() else {
        return Ok((ApprovalAnswer::NotFound, Heard::default()));
    };
    let Some(mut approval) = waiting.approval else { return Ok((ApprovalAnswer::NotNeeded, Heard::default())) };
    let number = waiting.job.number;
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
            ", c.lane, a.state, a.hash, a.quorum, a.four_eyes, a.requester, f.run_at
             from job j join channel c on c.id = j.channel join fleet f on f.number = j.number
             left join approval a on a.number = j.number
             where j.tenant = $1 and j.id = $2 and j.parent is null",
            $rest
        )
    };
}
const JOB: Sql = Sql::Each { sqlite: waiting!(""), postgres: waiting!(" for update of j") };
const YES: Sql = Sql::Same("select by from vote where number = $1 and yes order by by");
const VOTE: Sql = Sql::Same(
    "insert into vote (number, by, yes, reason, at) values ($1, $2, $3, $4, $5)
     on conflict (number, by) do update set yes = excluded.yes, reason = excluded.reason, at = excluded.at",
);
