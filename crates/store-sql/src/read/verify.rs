//! The proof: every job equals the fold of its events, and everything that waits has its one row.

use std::collections::BTreeMap;

use bowline_model::event::EventData;
use bowline_model::fold::{Told, fold};
use bowline_model::job::{JobKind, Place};
use bowline_model::{EventKind, JobStatus, RunId, RunStatus, Timestamp};
use bowline_store::{StoreError, StoreResult, Verified};

use crate::db::{Db, Mode, Sql, Val};
use crate::job_row::{JobRow, count, job_columns};
use crate::read::audit::verify_audit;

const BITE: i64 = 2_000;

/// Walks the whole ledger in one snapshot.
pub async fn verify(db: &mut impl Db, faults_max: usize) -> StoreResult<Verified> {
    db.begin(Mode::Snapshot).await?;
    let verified = walk(db, faults_max).await;
    db.rollback().await;
    verified
}

async fn walk(db: &mut impl Db, faults_max: usize) -> StoreResult<Verified> {
    let mut verified = look_at_all(db, faults_max).await?;
    verified.faults.truncate(faults_max);
    Ok(verified)
}

async fn look_at_all(db: &mut impl Db, faults_max: usize) -> StoreResult<Verified> {
    let mut verified = Verified::default();
    let mut places = Places::load(db).await?;
    let mut after = 0;
    loop {
        let jobs = db.query(JOBS, &[Val::Int(after), Val::Int(BITE)], JobRow::read).await?;
        let Some(last) = jobs.last().map(|job| job.number) else { break };
        let span = [Val::Int(after), Val::Int(last)];
        let mut events: BTreeMap<i64, Vec<Told>> = BTreeMap::new();
        for (number, told) in db.query(EVENTS, &span, read_told).await? {
            verified.events += 1;
            events.entry(number).or_default().push(told);
        }
        let mut runs: BTreeMap<i64, Vec<Run>> = BTreeMap::new();
        for run in db.query(RUNS, &span, read_run).await? {
            verified.runs += 1;
            runs.entry(run.number).or_default().push(run);
        }
        for gap in db.query(ACK_GAPS, &span, |row| Ok((row.int(0)?, row.int(1)?, row.int(2)?, row.int(3)?))).await? {
            let (number, fence, acked, held) = gap;
            verified.faults.push(format!(
                "job #{number}, hand-out {fence}: 1..={acked} are confirmed, yet only {held} of them are held"
            ));
        }
        for job in &jobs {
            verified.jobs += 1;
            let told = events.remove(&job.number).unwrap_or_default();
            let runs = runs.remove(&job.number).unwrap_or_default();
            check(job, &told, &runs, &mut places, &mut verified.faults);
            if verified.faults.len() >= faults_max {
                return Ok(verified);
            }
        }
        after = last;
    }
    places.leftovers(&mut verified.faults);
    let tallies = |row: &dyn crate::db::Row| Ok((row.int(0)?, row.int(1)?, row.int(2)?, row.int(3)?));
    for (number, status, told, counted) in db.query(TALLIES, &[Val::Int(faults_max as i64)], tallies).await? {
        verified
            .faults
            .push(format!("job #{number} counts {told} hosts with status {status}, and has {counted} of them"));
    }
    for (host, holders) in
        db.query(CROWDED, &[Val::Int(faults_max as i64)], |row| Ok((row.int(0)?, row.int(1)?))).await?
    {
        verified.faults.push(format!("host #{host} is held by {holders} units, one of which wants it alone"));
    }
    for number in db.query(LOST_EVENTS, &[Val::Int(faults_max as i64)], |row| row.int(0)).await? {
        verified.faults.push(format!("events name job #{number}, which does not exist"));
    }
    verified.audit = verify_audit(db, &mut verified.faults).await?;
    Ok(verified)
}

struct Run {
    id: RunId,
    number: i64,
    fence: u32,
    attempt: u32,
    status: RunStatus,
}

fn read_run(row: &dyn crate::db::Row) -> StoreResult<Run> {
    let status = row.int(4)?;
    Ok(Run {
        id: RunId::from_uuid(row.id(0)?),
        number: row.int(1)?,
        fence: count(row.int(2)?),
        attempt: count(row.int(3)?),
        status: RunStatus::from_code(status)
            .ok_or_else(|| StoreError::Broken(format!("unknown run status {status}")))?,
    })
}

fn read_told(row: &dyn crate::db::Row) -> StoreResult<(i64, Told)> {
    let kind = row.text(1)?;
    let data = match row.opt_text(4)? {
        None => EventData::default(),
        Some(text) => serde_json::from_str(&text).map_err(|e| StoreError::Broken(e.to_string()))?,
    };
    let told = Told {
        kind: kind.parse::<EventKind>().map_err(|_| StoreError::Broken(format!("unknown event kind {kind}")))?,
        fence: row.opt_int(2)?.map(count),
        at: row.at(3)?,
        data,
    };
    Ok((row.int(0)?, told))
}

/// Everything that waits, by job.
#[derive(Default)]
struct Places {
    queued: BTreeMap<i64, Vec<i64>>,
    timers: BTreeMap<i64, Vec<Timestamp>>,
    leased: BTreeMap<i64, Vec<RunId>>,
    /// All dead letters, and how many of them are open.
    dead: BTreeMap<i64, (i64, i64)>,
    deadlines: BTreeMap<i64, Timestamp>,
    /// The turns of units: host, and whether it is held.
    turns: BTreeMap<i64, (i64, bool)>,
}

impl Places {
    async fn load(db: &mut impl Db) -> StoreResult<Self> {
        let mut places = Self::default();
        for (number, channel) in db.query(QUEUE, &[], |row| Ok((row.int(0)?, row.int(1)?))).await? {
            places.queued.entry(number).or_default().push(channel);
        }
        for (number, due) in db.query(TIMERS, &[], |row| Ok((row.int(0)?, row.at(1)?))).await? {
            places.timers.entry(number).or_default().push(due);
        }
        for (number, run) in db.query(LEASES, &[], |row| Ok((row.int(0)?, RunId::from_uuid(row.id(1)?)))).await? {
            places.leased.entry(number).or_default().push(run);
        }
        places.deadlines = db.query(DEADLINES, &[], |row| Ok((row.int(0)?, row.at(1)?))).await?.into_iter().collect();
        places.dead =
            db.query(DEAD, &[], |row| Ok((row.int(0)?, (row.int(1)?, row.int(2)?)))).await?.into_iter().collect();
        let turns = db.query(TURNS, &[], |row| Ok((row.int(0)?, (row.int(1)?, row.bool(2)?)))).await?;
        places.turns = turns.into_iter().collect();
        Ok(places)
    }

    fn leftovers(&self, faults: &mut Vec<String>) {
        for number in self.queued.keys() {
            faults.push(format!("the queue names job #{number}, which does not exist"));
        }
        for number in self.timers.keys() {
            faults.push(format!("a timer names job #{number}, which does not exist"));
        }
        for number in self.leased.keys() {
            faults.push(format!("a lease names job #{number}, which does not exist"));
        }
        for number in self.deadlines.keys() {
            faults.push(format!("a deadline names job #{number}, which does not exist"));
        }
        for number in self.turns.keys() {
            faults.push(format!("a turn at a host names unit #{number}, which does not exist"));
        }
        for number in self.dead.keys() {
            faults.push(format!("a dead letter names job #{number}, which does not exist"));
        }
    }
}

fn check(job: &JobRow, told: &[Told], runs: &[Run], places: &mut Places, faults: &mut Vec<String>) {
    let (number, id) = (job.number, job.id);
    match fold(told) {
        Err(broken) => faults.push(format!("job {id} (#{number}): {broken}")),
        Ok(folded) => {
            if folded.state != job.state {
                faults.push(format!("job {id} (#{number}) is {:?}, its events say {:?}", job.state, folded.state));
            }
            for run in runs {
                match folded.runs.get(&run.fence) {
                    None => faults.push(format!("run {} of job {id} is in no event", run.id)),
                    Some(f) if f.status != run.status || f.id != Some(run.id) || f.attempt != run.attempt => faults
                        .push(format!(
                            "run {} of job {id} is {} (attempt {}), its events say {} (attempt {}, run {:?})",
                            run.id, run.status, run.attempt, f.status, f.attempt, f.id
                        )),
                    Some(_) => {}
                }
            }
            if folded.runs.len() != runs.len() {
                faults.push(format!("job {id} has {} runs, its events tell of {}", runs.len(), folded.runs.len()));
            }
        }
    }
    let active = runs.iter().filter(|run| run.status.is_active()).count();
    if active > 1 {
        faults.push(format!("job {id} has {active} runs at once"));
    }
    let queued = places.queued.remove(&number).unwrap_or_default();
    let timers = places.timers.remove(&number).unwrap_or_default();
    let leased = places.leased.remove(&number).unwrap_or_default();
    let right = match job.state.place() {
        Place::Queue => queued == [job.channel] && timers.is_empty() && leased.is_empty(),
        Place::Timer(due) => queued.is_empty() && timers == [due] && leased.is_empty(),
        Place::Lease => {
            let owner = runs.iter().find(|run| run.fence == job.state.fence).map(|run| run.id);
            queued.is_empty() && timers.is_empty() && leased.len() == 1 && leased.first().copied() == owner
        }
        Place::Host | Place::Nowhere => queued.is_empty() && timers.is_empty() && leased.is_empty(),
    };
    if !right {
        faults.push(format!(
            "job {id} (#{number}) is {}, but has {} queue rows, {} timers, {} leases",
            job.state.status,
            queued.len(),
            timers.len(),
            leased.len()
        ));
    }
    let lives = job.state.kind == JobKind::Task && !job.state.status.is_terminal();
    if places.deadlines.remove(&number).is_some() != (lives && job.policy.deadline_ms.is_some()) {
        faults.push(format!(
            "job {id} (#{number}) is {}, and its deadline row does not fit its policy",
            job.state.status
        ));
    }
    let turn = places.turns.remove(&number);
    let right = match (job.state.kind.is_unit(), job.state.place()) {
        (true, Place::Host) => turn == job.host.map(|host| (host, false)),
        (true, Place::Queue | Place::Lease) => turn == job.host.map(|host| (host, true)),
        _ => turn.is_none(),
    };
    if !right {
        faults.push(format!("job {id} (#{number}) is {}, but its turn at its host is {turn:?}", job.state.status));
    }
    let (letters, open) = places.dead.remove(&number).unwrap_or_default();
    let right = if job.state.status == JobStatus::Dead { letters > 0 && open <= 1 } else { open == 0 };
    if !right {
        faults.push(format!(
            "job {id} (#{number}) is {}, but has {letters} dead letters, {open} of them open",
            job.state.status
        ));
    }
}

const JOBS: Sql =
    Sql::Same(concat!("select ", job_columns!(), " from job j where j.number > $1 order by j.number limit $2"));
/// By position, not by transaction: positions of one job are given under the job's lock, so they are in its order.
const EVENTS: Sql = Sql::Same(
    "select number, kind, fence, at, data from event where number > $1 and number <= $2 and seq is null
     order by number, position",
);
const RUNS: Sql = Sql::Same(
    "select id, number, fence, attempt, status from run where number > $1 and number <= $2 order by number, fence",
);
/// E6: what was confirmed to an executor is held without a gap.
const ACK_GAPS: Sql = Sql::Same(
    "select number, fence, acked_seq, held from
       (select r.number, r.fence, r.acked_seq,
               (select count(*) from event e where e.number = r.number and e.fence = r.fence
                and e.seq is not null and e.seq between 1 and r.acked_seq) as held
        from run r where r.number > $1 and r.number <= $2 and r.acked_seq > 0) as told
     where held <> acked_seq",
);
/// A job's events may outlive it; then it is remembered as gone.
const LOST_EVENTS: Sql = Sql::Same(
    "select distinct e.number from event e where e.number is not null
       and not exists (select 1 from job j where j.number = e.number)
       and not exists (select 1 from gone g where g.number = e.number) limit $1",
);
const TURNS: Sql = Sql::Same("select unit, host, held from turn");
/// What is counted against what is there, both ways; not for commands whose units retention is just taking.
const TALLIES: Sql = Sql::Same(
    "select coalesce(t.number, u.number), coalesce(t.status, u.status), coalesce(t.units, 0), coalesce(u.units, 0)
     from (select number, status, cast(sum(units) as bigint) as units from tally group by number, status) t
     full outer join (select parent as number, status, count(*) as units from job where parent is not null
                      group by parent, status) u
       on u.number = t.number and u.status = t.status
     where coalesce(t.units, 0) <> coalesce(u.units, 0)
       and exists (select 1 from fleet f where f.number = coalesce(t.number, u.number)
                     and f.planned = (select count(*) from job j where j.parent = f.number)) limit $1",
);
const CROWDED: Sql = Sql::Same(
    "select host, count(*) from turn where held group by host
     having count(*) > 1 and sum(case when shared then 0 else 1 end) > 0 limit $1",
);
const QUEUE: Sql = Sql::Same("select number, channel from queue");
const DEADLINES: Sql = Sql::Same("select number, at from deadline");
const TIMERS: Sql = Sql::Same("select number, due_at from timer");
const LEASES: Sql = Sql::Same("select number, run from lease");
const DEAD: Sql =
    Sql::Same("select number, count(*), sum(case when status = 1 then 1 else 0 end) from dead_letter group by number");
