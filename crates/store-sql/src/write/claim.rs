//! Handing out runs: whose turn it is, who gets what, and the lease that goes with it.

use std::collections::HashMap;
use std::sync::Arc;

use bowline_model::claim::{ChannelHead, Demand, assign, plan};
use bowline_model::event::EventData;
use bowline_model::host::Connection;
use bowline_model::job::Fact;
use bowline_model::{ErrorClass, RunError, RunId};
use bowline_store::{ClaimRules, Claimant, ClaimedRun, StoreResult};

use super::Desk;
use super::units::{Start, Units};
use crate::changes::{Changes, Heard, NewRun, Telling};
use crate::channels::ChannelKey;
use crate::db::{Col, Db, Sql};
use crate::job_row::{JOB_COLUMNS, JobRow, job_columns};

/// Lines that had nothing more; to be told to the channels after the commit.
pub type Emptied = Vec<(i64, u64)>;

struct Found {
    job: JobRow,
    /// What it brings to the answer: its payload, and for a unit its command.
    bytes: u64,
    /// Not there yet where it is long.
    payload: Option<Arc<str>>,
    is_long: bool,
    trace_id: Option<Arc<str>>,
    correlation_id: Option<Arc<str>>,
}

/// A line that somebody here can serve.
struct Line {
    head: ChannelHead,
    key: Arc<ChannelKey>,
    stamp: u64,
    able: Vec<usize>,
    empty: bool,
}

/// Hands out as many runs as the claimants want and the lines have. `fresh` are lines that this transaction queued into.
pub async fn claim(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    claimants: &[&Claimant],
    rules: &ClaimRules,
    fresh: &[i64],
) -> StoreResult<(Vec<Vec<ClaimedRun>>, Emptied, Vec<Heard>)> {
    let mut claimed: Vec<Vec<ClaimedRun>> = claimants.iter().map(|_| Vec::new()).collect();
    let (active, mut turn) = desk.channels.active(fresh);
    let mut agents: HashMap<&str, Vec<usize>> = HashMap::new();
    for (n, claimant) in claimants.iter().enumerate() {
        if let Some(agent) = claimant.abilities.labels.get(Connection::AGENT_LABEL) {
            agents.entry(agent).or_default().push(n);
        }
    }
    let mut lines: Vec<Line> = active
        .into_iter()
        .map(|(head, key, stamp)| {
            // A line for one agent is asked about that agent only: there may be thousands of both.
            let able = match key.requires.get(Connection::AGENT_LABEL) {
                Some(agent) => agents.get(agent).into_iter().flatten().copied().collect::<Vec<usize>>(),
                None => (0..claimants.len()).collect(),
            };
            let able = able.into_iter().filter(|n| can_serve(claimants[*n], &key)).collect();
            Line { head, key, stamp, able, empty: false }
        })
        .filter(|line| !line.able.is_empty())
        .collect();
    let mut left: Vec<u32> = claimants.iter().map(|c| c.wants).collect();
    let mut room = AnswerRoom::new(claimants.len());
    let mut heard = Vec::new();
    // Each round offers what the round before could not place; lines run dry, so this ends. What a round took is written
    // before the next one asks, or it would find the same heads again.
    loop {
        let asks = ask(&lines, claimants, &mut left, rules, turn, desk);
        if asks.is_empty() {
            break;
        }
        turn += 1;
        let mut changes = Changes::at(desk.now);
        let mut found = take_heads(db, &lines, &asks).await?.into_iter().peekable();
        let mut chosen = Vec::new();
        for (line, takers) in asks {
            let (mut got, mut is_held_up) = (0, false);
            let channel = lines[line].head.channel;
            while let Some(head) = found.next_if(|f| f.job.channel == channel) {
                let taker = takers[got];
                got += 1;
                // What is behind a head that does not fit waits with it: a line has an order.
                is_held_up = is_held_up || !room.take(taker, head.bytes);
                if is_held_up {
                    left[taker] += 1;
                } else {
                    chosen.push((head, taker, line));
                }
            }
            for taker in &takers[got..] {
                left[*taker] += 1;
            }
            // What was held up is still there.
            lines[line].empty |= got < takers.len() && !is_held_up;
        }
        room.close(&mut left);
        load_payloads(db, &mut chosen).await?;
        let units = Units::load(db, desk, chosen.iter().map(|(found, ..)| &found.job)).await?;
        for (head, taker, line) in chosen {
            let bytes = head.bytes;
            match hand_out(desk, &mut changes, head, &units, claimants[taker], &lines[line].key)? {
                Handed::Run(run) => claimed[taker].push(*run),
                Handed::Refused => {
                    left[taker] += room.give_back(taker, bytes);
                }
                Handed::Stuck => {}
            }
        }
        heard.push(changes.write(db).await?);
    }
    let emptied = lines.iter().filter(|l| l.empty).map(|l| (l.head.channel, l.stamp)).collect();
    Ok((claimed, emptied, heard))
}

/// What fits into the answers to a claim. Every claimant that is handed anything is handed one run at least, however long; and
/// the first run of a claim always fits.
struct AnswerRoom {
    /// Bytes and runs of all answers.
    bytes: u64,
    runs: u32,
    of: Vec<OfClaimant>,
}

#[derive(Clone, Copy, Default)]
struct OfClaimant {
    bytes: u64,
    runs: u32,
    is_full: bool,
}

impl AnswerRoom {
    fn new(claimants: usize) -> Self {
        Self { bytes: 0, runs: 0, of: vec![OfClaimant::default(); claimants] }
    }

    fn is_full(&self) -> bool {
        self.runs >= CLAIM_RUNS_MAX || self.bytes >= CLAIM_BYTES_MAX
    }

    /// Whether the claimant gets this one, too.
    fn take(&mut self, claimant: usize, bytes: u64) -> bool {
        let all_fit = self.runs == 0 || (self.runs < CLAIM_RUNS_MAX && self.bytes + bytes <= CLAIM_BYTES_MAX);
        let of = &mut self.of[claimant];
        if !all_fit {
            // The others may still get something short, but not this round for this one.
            of.is_full = true;
            return false;
        }
        if of.runs > 0 && of.bytes + bytes > ANSWER_BYTES_MAX {
            of.is_full = true;
            return false;
        }
        of.bytes += bytes;
        of.runs += 1;
        self.bytes += bytes;
        self.runs += 1;
        true
    }

    /// It does not start after all. How many places that makes: one, unless the answer was full without it.
    fn give_back(&mut self, claimant: usize, bytes: u64) -> u32 {
        let of = &mut self.of[claimant];
        of.bytes = of.bytes.saturating_sub(bytes);
        of.runs = of.runs.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.runs = self.runs.saturating_sub(1);
        u32::from(!of.is_full)
    }

    /// Those whose answer is full want nothing more; what is left goes out with the next claim.
    fn close(&self, left: &mut [u32]) {
        for (left, of) in left.iter_mut().zip(&self.of) {
            if of.is_full || self.is_full() {
                *left = 0;
            }
        }
    }
}

fn can_serve(claimant: &Claimant, key: &ChannelKey) -> bool {
    claimant.wants > 0
        && claimant.tenant.is_none_or(|tenant| tenant == key.tenant)
        && !claimant.passes_over.contains(&key.tenant)
        && claimant.abilities.can_take(&key.task_type, &key.requires)
}

/// Which lines to ask for how many, and who would get each. Takes what it promises out of `left`.
fn ask(
    lines: &[Line],
    claimants: &[&Claimant],
    left: &mut [u32],
    rules: &ClaimRules,
    turn: u64,
    desk: &mut Desk<'_>,
) -> Vec<(usize, Vec<usize>)> {
    let open: Vec<usize> =
        (0..lines.len()).filter(|n| !lines[*n].empty && lines[*n].able.iter().any(|c| left[*c] > 0)).collect();
    let heads: Vec<ChannelHead> = open.iter().map(|n| lines[*n].head).collect();
    let places = left.iter().fold(0_u32, |sum, wants| sum.saturating_add(*wants)).min(CLAIM_RUNS_MAX);
    let by_channel: HashMap<i64, usize> = open.iter().map(|n| (lines[*n].head.channel, *n)).collect();
    let mut asks = Vec::new();
    for share in plan(&heads, &rules.weights, places, turn) {
        let Some(line) = by_channel.get(&share.channel).copied() else { continue };
        let able: Vec<usize> = lines[line].able.iter().copied().filter(|c| left[*c] > 0).collect();
        let demands: Vec<Demand> = able
            .iter()
            .map(|c| Demand {
                wants: left[*c],
                busy: claimants[*c].busy + (claimants[*c].wants - left[*c]),
                slots: claimants[*c].slots,
                breadth: u32::try_from(claimants[*c].abilities.task_types.len() + claimants[*c].abilities.labels.len())
                    .unwrap_or(u32::MAX),
            })
            .collect();
        let takers: Vec<usize> = assign(rules.strategy, &demands, share.take as usize, turn, || desk.chance())
            .into_iter()
            .map(|n| able[n])
            .collect();
        if takers.is_empty() {
            continue;
        }
        for taker in &takers {
            left[*taker] -= 1;
        }
        asks.push((line, takers));
    }
    // The query answers in the order of channels; so do we.
    asks.sort_by_key(|(line, _)| lines[*line].head.channel);
    asks
}

/// The heads of the asked lines, locked, in the order of channels.
async fn take_heads(db: &mut impl Db, lines: &[Line], asks: &[(usize, Vec<usize>)]) -> StoreResult<Vec<Found>> {
    let cols = [
        Col::Int(asks.iter().map(|(line, _)| lines[*line].head.channel).collect()),
        Col::Int(asks.iter().map(|(_, takers)| i64::try_from(takers.len()).unwrap_or(0)).collect()),
    ];
    let mut found = db
        .query_many(HEADS, &cols, |row| {
            let own = row.opt_int(JOB_COLUMNS + 3)?.unwrap_or(0);
            Ok(Found {
                job: JobRow::read(row)?,
                payload: row.opt_text(JOB_COLUMNS)?.map(Into::into),
                trace_id: row.opt_text(JOB_COLUMNS + 1)?.map(Into::into),
                correlation_id: row.opt_text(JOB_COLUMNS + 2)?.map(Into::into),
                is_long: own > SHORT_MAX,
                bytes: (own + row.opt_int(JOB_COLUMNS + 4)?.unwrap_or(0)).cast_unsigned(),
            })
        })
        .await?;
    found.sort_by_key(|f| (f.job.channel, f.job.rank(), f.job.number));
    Ok(found)
}

/// Reads the payloads that were too long to be read before it was known whether they fit.
async fn load_payloads(db: &mut impl Db, chosen: &mut [(Found, usize, usize)]) -> StoreResult<()> {
    let long = chosen.iter().filter(|(found, ..)| found.is_long);
    let long: Vec<i64> = long.map(|(found, ..)| found.job.number).collect();
    if long.is_empty() {
        return Ok(());
    }
    let long = [Col::Int(long)];
    let read = db.query_many(PAYLOADS, &long, |row| Ok((row.int(0)?, row.opt_text(1)?.map(Into::into))));
    let mut read: HashMap<i64, Option<Arc<str>>> = read.await?.into_iter().collect();
    for (found, ..) in chosen {
        if let Some(payload) = read.remove(&found.job.number) {
            found.payload = payload;
        }
    }
    Ok(())
}

const PAYLOADS: Sql = Sql::Each {
    sqlite: "select number, payload from job where number = ?1",
    postgres: "select number, payload from job where number = any ($1::bigint[])",
};

/// How long the tasks of one answer may be, in bytes of their payloads; one of them always fits.
const ANSWER_BYTES_MAX: u64 = 8 << 20;
/// The same for all answers of a claim, and how many runs these may have.
const CLAIM_BYTES_MAX: u64 = 64 << 20;
const CLAIM_RUNS_MAX: u32 = 10_000;

/// A payload up to this length is read together with the head of its line.
const SHORT_MAX: i64 = 4_096;
macro_rules! short_payload {
    ($length:literal) => {
        concat!(", case when ", $length, " <= 4096 then j.payload end, j.trace_id, j.correlation_id, ", $length)
    };
}

/// Why two texts: PostgreSQL needs `skip locked`, so that two servers never queue behind each other's rows; it locks
/// the job too, and skips jobs that somebody is just canceling. SQLite has one writer at a time; there is nothing to skip.
const HEADS: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        short_payload!("octet_length(j.payload)"),
        ", (select octet_length(p.payload) from job p where p.number = j.parent)
         from queue q join job j on j.number = q.number
         where q.channel = ?1 order by q.rank, q.number limit ?2"
    ),
    postgres: concat!(
        "select h.* from unnest($1::bigint[], $2::bigint[]) as a (channel, take)
         cross join lateral (
           select ",
        job_columns!(),
        short_payload!("octet_length(j.payload::text)::bigint"),
        ", (select octet_length(p.payload::text)::bigint from job p where p.number = j.parent)
           from queue q join job j on j.number = q.number
           where q.channel = a.channel order by q.rank, q.number limit a.take
           for update of q, j skip locked
         ) h"
    ),
};

/// What became of the head of a line.
enum Handed {
    Run(Box<ClaimedRun>),
    /// It does not start after all, and has left the line.
    Refused,
    /// It should not stand there. Handing it out would be worse.
    Stuck,
}

fn hand_out(
    desk: &mut Desk<'_>,
    changes: &mut Changes,
    found: Found,
    units: &Units,
    claimant: &Claimant,
    key: &ChannelKey,
) -> StoreResult<Handed> {
    let Found { job, payload, mut trace_id, mut correlation_id, .. } = found;
    let mut payload = payload.unwrap_or_default();
    let mut unit = None;
    if job.state.kind.is_unit() {
        match units.start(&job, &payload)? {
            Start::Now { unit: now, payload: command, trace_id: trace, correlation_id: correlation } => {
                unit = Some(Arc::new(now));
                (payload, trace_id, correlation_id) = (command, trace, correlation);
            }
            Start::Blocked(block, reason) => {
                changes.block(job.number, block);
                return Ok(refuse(desk, changes, &job, key, &Fact::Blocked, reason));
            }
            Start::Gone => {
                let reason = "its host was taken out of the inventory".to_owned();
                return Ok(refuse(desk, changes, &job, key, &Fact::CancelRequested, reason));
            }
            Start::Superseded(reason) => return Ok(refuse(desk, changes, &job, key, &Fact::Superseded, reason)),
        }
    }
    let step = match job.state.on(&Fact::Claimed, &job.policy, desk.now, 0.0) {
        Ok(step) => step,
        Err(refused) => {
            // A queue row without a queued job: verify will name it.
            tracing::error!(job.id = %job.id, error = %refused, "a queued job cannot be claimed");
            return Ok(Handed::Stuck);
        }
    };
    let run = RunId::mint(desk.now, desk.entropy());
    let (attempt, fence) = (step.next.attempts, step.next.fence);
    let timeout_ms = job.policy.timeout_ms;
    changes.lease(NewRun {
        run,
        tenant: job.tenant,
        number: job.number,
        attempt,
        fence,
        worker: claimant.worker.clone(),
        accepted: claimant.accepts_at_once,
        deadline_at: desk.now.plus_millis(i64::try_from(timeout_ms).unwrap_or(i64::MAX)),
    });
    let data = EventData {
        run_id: Some(run),
        attempt: Some(attempt),
        worker: Some(claimant.worker.clone()),
        accepted: claimant.accepts_at_once,
        ..EventData::default()
    };
    changes.advance(&job, key.lane, step, Telling { fence: Some(fence), data, ..Telling::default() });
    Ok(Handed::Run(Box::new(ClaimedRun {
        run,
        job: job.id,
        tenant: job.tenant,
        worker: claimant.worker.clone(),
        lane: key.lane,
        task_type: key.task_type.clone(),
        payload,
        attempt,
        fence,
        timeout_ms,
        created_at: job.created_at,
        claimed_at: desk.now,
        trace_id,
        correlation_id,
        unit,
    })))
}

/// A unit that was about to start does not.
fn refuse(
    desk: &Desk<'_>,
    changes: &mut Changes,
    job: &JobRow,
    key: &ChannelKey,
    fact: &Fact,
    reason: String,
) -> Handed {
    match job.state.on(fact, &job.policy, desk.now, 0.0) {
        Ok(step) => {
            let error = (*fact == Fact::Superseded).then(|| RunError::new(ErrorClass::Superseded, &*reason));
            let data = EventData { reason: Some(reason), ..EventData::default() };
            changes.advance(job, key.lane, step, Telling { data, error, ..Telling::default() });
            Handed::Refused
        }
        Err(refused) => {
            tracing::error!(job.id = %job.id, error = %refused, "a queued unit cannot leave the queue");
            Handed::Stuck
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_before_the_run_that_does_not_fit() {
        let mut room = AnswerRoom::new(3);
        assert!(room.take(0, ANSWER_BYTES_MAX + 1), "one run always fits");
        assert!(!room.take(0, 1));
        assert!(room.take(1, ANSWER_BYTES_MAX - 1));
        assert!(room.take(1, 1), "exactly as much as there is room for");
        assert!(!room.take(1, 1));
        let mut left = [5; 3];
        room.close(&mut left);
        assert_eq!(left, [0, 0, 5], "whose answer is full wants nothing more, and the others do");
    }

    #[test]
    fn all_answers_of_a_claim_have_an_end() {
        let mut room = AnswerRoom::new(10);
        for claimant in 0..7 {
            assert!(room.take(claimant, CLAIM_BYTES_MAX / 8));
        }
        assert!(!room.is_full());
        assert!(!room.take(8, CLAIM_BYTES_MAX / 8 + 1), "it does not fit");
        assert!(room.take(7, CLAIM_BYTES_MAX / 8), "exactly as much as there is room for");
        assert!(room.is_full() && !room.take(9, 1));
        let mut left = [1; 10];
        room.close(&mut left);
        assert_eq!(left, [0; 10]);

        let mut room = AnswerRoom::new(2);
        assert!(room.take(0, CLAIM_BYTES_MAX + 1), "the first run of a claim always fits");
        assert!(room.is_full());

        let mut room = AnswerRoom::new(2);
        for _ in 0..CLAIM_RUNS_MAX {
            assert!(!room.is_full() && room.take(0, 0));
        }
        assert!(room.is_full() && !room.take(1, 0), "there are as many runs as one claim takes");
    }

    #[test]
    fn a_run_that_does_not_start_leaves_its_room_to_another() {
        let mut room = AnswerRoom::new(1);
        assert!(room.take(0, ANSWER_BYTES_MAX - 3) && room.take(0, 3));
        assert_eq!(room.give_back(0, 3), 1);
        assert!(room.take(0, 3));
        assert!(!room.take(0, 1));
        assert_eq!(room.give_back(0, 3), 0, "the answer was full without it");
    }
}
