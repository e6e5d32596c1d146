//! Decisions about commands that wait for approval. The first one that ends the matter wins.

use bowline_model::EventKind;
use bowline_model::event::EventData;
use bowline_model::fleet::{Approval, ApprovalState, CommandFact, Decided, Sweep, Vote, write_digests};
use bowline_model::idempotency::RequestHash;
use bowline_model::person::Person;
use bowline_model::{Lane, TenantId, Timestamp};
use bowline_store::{ApprovalAnswer, ApprovalOrder, NewApproval, StoreError, StoreResult};

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

/// A question that is put.
pub struct Asked<'a> {
    pub approval: &'a NewApproval,
    pub requester: &'a str,
    pub person: Person,
    /// About a second try.
    pub retry: bool,
}

/// Puts a question, in place of an earlier one and its votes.
pub async fn ask_for_approval(db: &mut impl Db, number: i64, tenant: TenantId, asked: &Asked<'_>) -> StoreResult<()> {
    let Asked { approval, requester, person, retry } = asked;
    let (named, digests, person) = (approval.named.to_text(), write_digests(&approval.digests), person.to_text());
    if *retry {
        forget(db, number).await?;
    }
    let params = [
        Val::Int(number),
        Val::Id(*tenant.as_uuid()),
        Val::Int(ApprovalState::Required.code()),
        Val::Bytes(approval.hash.as_bytes()),
        Val::Int(approval.quorum.into()),
        Val::Bool(approval.four_eyes),
        Val::Text(requester),
        Val::Text(&named),
        Val::Bytes(&digests),
        Val::Bool(*retry),
        Val::Text(&person),
    ];
    db.execute(ADD, &params).await.map(drop)
}

/// What was asked and answered before counts no longer.
pub async fn forget(db: &mut impl Db, number: i64) -> StoreResult<()> {
    db.execute(FORGET_VOTES, &[Val::Int(number)]).await?;
    db.execute(FORGET, &[Val::Int(number)]).await.map(drop)
}

/// Who asked: what was known of them then, and what is known of their token.
pub async fn person_of(db: &mut impl Db, actor: &str, known: &str) -> StoreResult<Person> {
    let person = Person::from_text(known).also(actor);
    let Some(id) = actor.strip_prefix("token:") else { return Ok(person) };
    let names = db.query(PERSON, &[Val::Text(id)], |row| Ok((row.opt_text(0)?, row.opt_text(1)?))).await?;
    Ok(names.into_iter().fold(person, |person, (counts_as, email)| {
        let names = counts_as.into_iter().chain(email.as_deref().map(Person::mail));
        names.fold(person, Person::also)
    }))
}

struct Found {
    approval: Approval,
    requester: String,
    person: String,
    retry: bool,
}

fn read_approval(row: &dyn Row) -> StoreResult<Found> {
    let state = row.int(0)?;
    let approval = Approval {
        state: ApprovalState::from_code(state)
            .ok_or_else(|| StoreError::Broken(format!("unknown state {state} of an approval")))?,
        hash: RequestHash::from_bytes(row.bytes(1)?.try_into().unwrap_or([0; 32])),
        quorum: count(row.int(2)?),
        four_eyes: row.bool(3)?,
        requester: Person::default(),
        // What changes about a command supersedes its approval, so there is nothing that was edited.
        editors: Vec::new(),
        yes: Vec::new(),
    };
    Ok(Found { approval, requester: row.text(4)?, person: row.text(5)?, retry: row.bool(6)? })
}

pub async fn decide(db: &mut impl Db, desk: &Desk<'_>, order: &ApprovalOrder) -> StoreResult<(ApprovalAnswer, Heard)> {
    let key = [Val::Id(*order.tenant.as_uuid()), Val::Id(*order.job.as_uuid())];
    let Some(waiting) = db.query(JOB, &key, read_job).await?.into_iter().next() else {
        return Ok((ApprovalAnswer::NotFound, Heard::default()));
    };
    // Asked for once the job is locked: what was joined to it while waiting for the lock would be what was there before.
    let number = waiting.job.number;
    let approval = db.query(APPROVAL, &[Val::Int(number)], read_approval).await?;
    let Some(Found { mut approval, requester, person, retry }) = approval.into_iter().next() else {
        return Ok((ApprovalAnswer::NotNeeded, Heard::default()));
    };
    approval.requester = person_of(db, &requester, &person).await?;
    approval.yes =
        db.query(YES, &[Val::Int(number)], |row| Ok(Person::from_text(&row.text(1)?).also(row.text(0)?))).await?;
    let person = order.by.person().also(&*order.by.name);
    let person_text = person.to_text();
    let vote = Vote { by: person, yes: order.yes, seen: order.seen, current: order.current };
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
        Val::Text(&person_text),
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
    if retry && decided == Decided::Approved {
        // It begins with those hosts that did not succeed before.
        db.execute(SWEEP, &[Val::Int(number), Val::Int(Sweep::Retry.code())]).await?;
    }
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
const APPROVAL: Sql =
    Sql::Same("select state, hash, quorum, four_eyes, requester, person, retry from approval where number = $1");
const YES: Sql = Sql::Same("select by, person from vote where number = $1 and yes order by by");
const VOTE: Sql = Sql::Same(
    "insert into vote (number, by, yes, reason, at, person) values ($1, $2, $3, $4, $5, $6)
     on conflict (number, by) do update set yes = excluded.yes, reason = excluded.reason, at = excluded.at",
);
const ADD: Sql = Sql::Same(
    "insert into approval (number, tenant, state, hash, quorum, four_eyes, requester, named, digests, retry, person)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
);
const FORGET: Sql = Sql::Same("delete from approval where number = $1");
const FORGET_VOTES: Sql = Sql::Same("delete from vote where number = $1");
const PERSON: Sql = Sql::Same("select person, email from token where id = $1");
const SWEEP: Sql = Sql::Same("update fleet set sweep = $2, swept = 0, stopped = null where number = $1");
