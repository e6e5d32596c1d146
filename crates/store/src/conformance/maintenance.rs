//! Promises about keeping the ledger in order: figures, retention, backpressure, closing.

use bowline_model::event::EventData;
use bowline_model::{EventKind, JobStatus, Lane, Outcome};

use super::bench::Bench;
use crate::{
    Claimant, Closed, EventFilter, JobFilter, LaneDepth, NewJob, Notice, PruneMark, Pruned, Retention, StoreError,
    Submitted,
};

const DAY: Retention = Retention { finished_jobs_ms: 86_400_000, events_ms: 86_400_000 };

async fn prune(bench: &Bench, retention: Retention) -> Pruned {
    bench.ledger.prune(retention, PruneMark::default()).await.expect("the ledger can be pruned")
}

async fn is_there(bench: &Bench, job: bowline_model::JobId) -> bool {
    bench.ledger.find_job(bench.tenant, job).await.expect("the ledger can be read").is_some()
}

pub async fn the_ledger_tells_its_own_time(bench: &Bench) {
    for _ in 0..3 {
        assert_eq!(bench.ledger.now().await, Ok(bench.now()));
        bench.pass_ms(12_345);
    }
    assert_eq!(bench.ledger.ping().await, Ok(()));
}

/// D6: the figures count what is there.
pub async fn lane_depths_count_what_waits_where(bench: &Bench) {
    let depth = async |tenant, lane: Lane| -> LaneDepth {
        let depths = bench.ledger.lane_depths(tenant).await.expect("the ledger can be read");
        assert_eq!(depths.iter().map(|d| d.lane).collect::<Vec<_>>(), Lane::ALL, "every lane has its line");
        *depths.iter().find(|d| d.lane == lane).expect("every lane has its line")
    };
    let empty = LaneDepth { lane: Lane::Default, queued: 0, scheduled: 0, running: 0, dead: 0 };
    assert_eq!(depth(None, Lane::Default).await, empty);
    bench.dead(bench.job()).await;
    let purged = bench.dead(bench.job()).await;
    bench.purge(purged).await;
    bench.running(bench.job()).await;
    bench.submit_many(3).await;
    bench.submit(NewJob { run_at: Some(bench.now().plus_millis(1)), ..bench.job() }).await;
    bench.submit(NewJob { tenant: bench.neighbour, ..bench.job() }).await;
    bench.submit(NewJob { lane: Lane::Low, ..bench.job() }).await;
    let ours = LaneDepth { queued: 3, scheduled: 1, running: 1, dead: 1, ..empty };
    assert_eq!(depth(Some(bench.tenant), Lane::Default).await, ours);
    assert_eq!(depth(None, Lane::Default).await, LaneDepth { queued: 4, ..ours });
    assert_eq!(depth(None, Lane::Low).await, LaneDepth { lane: Lane::Low, queued: 1, ..empty });
}

/// Somebody who asks whether there is anything left to do must not hear no while a job is on its way from place to place.
pub async fn a_job_is_counted_in_one_place_at_any_moment(bench: &Bench) {
    bench.submit(bench.job()).await;
    let moving = async {
        for _ in 0..100 {
            let run = bench.claim_one().await;
            bench.ledger.give_back(vec![run.run]).await.expect("the ledger takes runs back");
        }
    };
    let counting = async {
        for _ in 0..200 {
            let depths = bench.ledger.lane_depths(Some(bench.tenant)).await.expect("the ledger can be read");
            let there: u64 = depths.iter().map(|d| d.queued + d.scheduled + d.running).sum();
            assert_eq!(there, 1, "{depths:?}");
        }
    };
    tokio::join!(moving, counting);
}

pub async fn retention_removes_finished_jobs_that_are_old(bench: &Bench) {
    let old = bench.running(bench.job()).await;
    bench.tell(bench.telling(&old, &[1, 2])).await;
    bench.succeed(&old).await;
    let canceled = bench.submit(bench.job()).await;
    bench.cancel(canceled).await;
    bench.pass_ms(DAY.finished_jobs_ms);
    let young = bench.running(bench.job()).await;
    bench.succeed(&young).await;
    assert_eq!(prune(bench, DAY).await.jobs, 0, "a day has not passed yet");
    bench.pass_ms(1);
    let pruned = prune(bench, DAY).await;
    assert_eq!((pruned.jobs, pruned.events, pruned.next), (2, 8, None));
    assert!(!is_there(bench, old.job).await && !is_there(bench, canceled).await);
    assert!(is_there(bench, young.job).await);
    let page = bench.ledger.list_jobs(bench.tenant, JobFilter::default(), None, 10).await;
    assert_eq!(page.expect("the ledger can be read").items.len(), 1);
    let gone = bench.ledger.job_events(bench.tenant, old.job, None, 10).await.expect("the ledger can be read");
    assert!(gone.is_none());
    assert_eq!(prune(bench, DAY).await, Pruned::default(), "what is gone is gone");
}

/// A job that is scheduled for next year holds nobody back.
pub async fn retention_passes_over_jobs_that_live(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let scheduled =
        bench.submit(NewJob { run_at: Some(bench.now().plus_millis(400 * DAY.events_ms)), ..bench.job() }).await;
    let after = bench.running(bench.job()).await;
    bench.succeed(&run).await;
    bench.succeed(&after).await;
    bench.pass_ms(10 * DAY.finished_jobs_ms);
    assert_eq!(prune(bench, DAY).await.jobs, 2);
    assert!(!is_there(bench, run.job).await && !is_there(bench, after.job).await);
    assert_eq!(bench.status(scheduled).await, JobStatus::Pending);
    bench.cancel(scheduled).await;
    assert_eq!(prune(bench, DAY).await.jobs, 0, "it has only just ended");
    bench.pass_ms(DAY.finished_jobs_ms + 1);
    assert_eq!(prune(bench, DAY).await.jobs, 1);
}

/// Events can be kept for longer than the jobs they are about.
pub async fn events_may_outlive_their_job(bench: &Bench) {
    let retention = Retention { events_ms: 3 * DAY.events_ms, ..DAY };
    let mut job = bench.job();
    job.origin.trace_id = Some("t-1".into());
    let run = bench.running(job).await;
    bench.tell(bench.telling(&run, &[1, 2])).await;
    bench.succeed(&run).await;
    let told = bench.history(run.job).await;
    bench.pass_ms(DAY.finished_jobs_ms + 1);
    let pruned = prune(bench, retention).await;
    assert_eq!((pruned.jobs, pruned.events), (1, 0));
    assert!(!is_there(bench, run.job).await);
    assert_eq!(bench.history(run.job).await, told, "its story can still be read, with its id and trace");
    assert_eq!(bench.ledger.verify(10).await.expect("it can be verified").faults, [""; 0]);
    bench.pass_ms(2 * DAY.events_ms);
    bench.submit(bench.job()).await;
    assert_eq!(prune(bench, retention).await.events, told.len() as u64);
    let gone = bench.ledger.job_events(bench.tenant, run.job, None, 10).await.expect("the ledger can be read");
    assert!(gone.is_none());
}

/// A reader that was before what has gone must be able to know.
pub async fn the_range_tells_how_far_events_are_gone(bench: &Bench) {
    let alive = bench.running(bench.job()).await;
    let run = bench.running(bench.job()).await;
    bench.succeed(&run).await;
    let last = bench.history(run.job).await.last().expect("there are events").0;
    bench.pass_ms(DAY.finished_jobs_ms + 1);
    bench.beat(&alive).await;
    bench.submit(bench.job()).await;
    prune(bench, DAY).await;
    // On PostgreSQL an event is shown when no older transaction is open any more, whoever's that is.
    let range = bench.until("the newest event is shown", async || {
        let range = bench.ledger.event_range().await.expect("the ledger can be read");
        if range.1 > range.0 { Ok(range) } else { Err(range) }
    });
    assert_eq!(range.await.0, last);
}

/// C10: what lies in the dead letters waits for a person, however long that takes. It holds nobody else back.
pub async fn retention_keeps_open_dead_letters(bench: &Bench) {
    let dead = bench.dead(bench.job()).await;
    let purged = bench.dead(bench.job()).await;
    bench.purge(purged).await;
    let done = bench.running(bench.job()).await;
    bench.succeed(&done).await;
    bench.pass_ms(20 * DAY.finished_jobs_ms);
    assert_eq!(prune(bench, DAY).await.jobs, 2);
    assert!(!is_there(bench, purged).await && !is_there(bench, done.job).await);
    assert_eq!(bench.dead_letters().await.iter().map(|letter| letter.job).collect::<Vec<_>>(), [dead]);
    let closed = bench.replay(dead).await;
    assert!(matches!(closed, Closed::Replayed { .. }), "{closed:?}");
    assert_eq!(prune(bench, DAY).await.jobs, 1, "closed, it may go");
}

pub async fn numbers_are_not_given_twice_after_retention(bench: &Bench) {
    let mut before = 0;
    for _ in 0..3 {
        let run = bench.running(bench.job()).await;
        bench.succeed(&run).await;
        let number = bench.find(run.job).await.0.number;
        assert!(number > before, "{number} after {before}");
        before = number;
        bench.pass_ms(DAY.finished_jobs_ms + 1);
        assert_eq!(prune(bench, DAY).await.jobs, 1);
    }
}

/// Positions neither: a reader that remembers one must not miss what comes after it.
pub async fn positions_are_not_given_twice_after_retention(bench: &Bench) {
    let mut last = crate::Position::default();
    for _ in 0..3 {
        let run = bench.running(bench.job()).await;
        bench.succeed(&run).await;
        let history = bench.history(run.job).await;
        assert!(history.iter().all(|(position, _)| *position > last), "{history:?} after {last}");
        last = history.last().expect("there are events").0;
        bench.pass_ms(DAY.finished_jobs_ms + 1);
        prune(bench, DAY).await;
    }
}

pub async fn retention_comes_in_bites(bench: &Bench) {
    bench.submit_many(1_200).await;
    let runs = bench.claim(bench.insider(1_200)).await;
    let reports = runs.iter().map(|run| bench.report_of(run, Outcome::Succeeded)).collect();
    bench.ledger.report(reports).await.expect("the ledger hears reports");
    bench.pass_ms(DAY.finished_jobs_ms + 1);
    let (mut removed, mut bites, mut from) = (0, 0, Some(PruneMark::default()));
    while let Some(mark) = from {
        let pruned = bench.ledger.prune(DAY, mark).await.expect("the ledger can be pruned");
        removed += pruned.jobs;
        bites += 1;
        from = pruned.next;
    }
    assert_eq!(removed, 1_200);
    assert!(bites > 1, "nobody should wait for all of it");
}

pub async fn retention_removes_notices_and_keys_that_are_old(bench: &Bench) {
    let notice = || Notice { tenant: bench.tenant, kind: EventKind::ServerStarted, data: EventData::default() };
    bench.ledger.note(notice()).await.expect("the ledger takes notices");
    bench.submit(bench.keyed("k", "one")).await;
    bench.pass_ms(DAY.events_ms + 1);
    bench.ledger.note(notice()).await.expect("the ledger takes notices");
    bench.submit(bench.keyed("l", "one")).await;
    let pruned = prune(bench, DAY).await;
    assert_eq!((pruned.jobs, pruned.events, pruned.keys), (0, 1, 1));
    let filter = EventFilter { kinds: vec![EventKind::ServerStarted], ..EventFilter::default() };
    assert_eq!(bench.stream(filter, 1).await.len(), 1);
    let again = bench.ask(bench.keyed("l", "one")).await;
    assert!(matches!(again, Submitted::Replayed { .. }), "{again:?}");
}

pub async fn verify_counts_what_it_looked_at(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.succeed(&run).await;
    bench.submit(bench.job()).await;
    let verified = bench.ledger.verify(10).await.expect("a ledger can be verified at any time");
    assert_eq!((verified.jobs, verified.runs, verified.events), (2, 1, 5));
    assert_eq!(verified.faults, [""; 0]);
}

/// Backpressure: too much at once is refused at the door, and nothing of it is stored.
pub async fn a_full_backlog_is_unavailable(bench: &Bench) {
    let (waiting, room) = bench.ledger.backlog();
    assert_eq!((waiting, room), (0, Bench::BACKLOG_MAX));
    let jobs = || (0..room).map(|_| bench.job()).collect::<Vec<_>>();
    let late = bench.job();
    let (first, second, third) = tokio::join!(
        biased;
        bench.ledger.submit(jobs()),
        bench.ledger.submit(vec![late.clone()]),
        bench.ledger.submit(jobs()),
    );
    assert_eq!(first.map(|answers| answers.len()), Ok(room));
    assert!(matches!(second, Err(StoreError::Busy(_))), "{second:?}");
    assert!(matches!(third, Err(StoreError::Busy(_))), "{third:?}");
    assert_eq!(bench.ledger.backlog().0, 0, "the room is free again");
    assert!(!is_there(bench, late.id).await, "nothing was written");
    bench.submit(late).await;
}

/// Work that was accepted is finished even while new work is refused: reports and heartbeats always get through.
pub async fn a_full_backlog_does_not_stop_workers(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let jobs = (0..Bench::BACKLOG_MAX).map(|_| bench.job()).collect::<Vec<_>>();
    let (full, beat, claimed) = tokio::join!(
        biased;
        bench.ledger.submit(jobs),
        bench.beat(&run),
        bench.claim(Claimant { wants: 1, ..bench.worker("w2") }),
    );
    assert!(full.is_ok() && claimed.len() <= 1);
    assert_eq!(beat, crate::BeatAnswer::Renewed);
}

pub async fn a_closed_ledger_refuses_everything(bench: &Bench) {
    let id = bench.submit(bench.job()).await;
    bench.close().await;
    let refused = |what: Result<(), StoreError>| assert!(matches!(what, Err(StoreError::Unavailable(_))), "{what:?}");
    refused(bench.ledger.submit(vec![bench.job()]).await.map(drop));
    refused(bench.ledger.claim(vec![bench.worker("w1")], rules()).await.map(drop));
    refused(bench.ledger.heartbeat(bench.heartbeat(&[])).await.map(drop));
    refused(bench.ledger.cancel_job(bench.order(id)).await.map(drop));
    refused(bench.ledger.find_job(bench.tenant, id).await.map(drop));
    refused(bench.ledger.ping().await);
}

fn rules() -> crate::ClaimRules {
    crate::ClaimRules { weights: Default::default(), strategy: Default::default() }
}
