//! Promises about a clock that is far from the ledger's last known time: work goes on, and nothing that cannot be undone
//! happens until a person has accepted it.

use bowline_model::audit::Chain;
use bowline_model::fleet::Rollout;
use bowline_model::{ErrorClass, Jitter, JobPolicy, JobStatus, Outcome, RetryPolicy, Timestamp};

use super::approvals::waiting;
use super::bench::{Bench, attempts, external_id, policy, task_type, worker_name};
use super::fleets::spec;
use super::flows;
use super::kept::{LONGEST_MS, brief};
use super::schedules::considered;
use super::tokens::token;
use super::workers::registration;
use crate::{
    AuditFilter, AuditFrom, Claimant, FlowAnswer, InboxMessage, NewFleet, NewJob, PruneMark, Retention, Submitted,
    TokenRecord,
};

const DAY_MS: i64 = 86_400_000;
const FAR_MS: i64 = 400 * DAY_MS;
const DAY: Retention = Retention { finished_jobs_ms: DAY_MS, events_ms: DAY_MS };

/// Something was stored, and then the clock jumped. The last known moment.
async fn jumped(bench: &Bench, by_ms: i64) -> Timestamp {
    let known = bench.ledger.note_time().await.expect("the time is noted").now;
    bench.pass_ms(by_ms);
    known
}

async fn now(bench: &Bench) -> Timestamp {
    bench.ledger.now().await.expect("the ledger tells the time")
}

/// Work is taken, handed out and finished as ever, at a time that goes on from the last known moment.
pub async fn work_goes_on_while_the_clock_is_held(bench: &Bench) {
    for by_ms in [FAR_MS, -121_000] {
        let known = jumped(bench, by_ms).await;
        assert_eq!(now(bench).await, known);
        let status = bench.ledger.clock_status();
        assert_eq!((status.held_since, status.clock), (Some(known), bench.now()));
        let run = bench.running(NewJob { policy: attempts(3), ..bench.job() }).await;
        bench.pass_ms(1_000);
        assert_eq!(now(bench).await, known.plus_millis(1_000), "time goes on");
        bench.fail(&run, ErrorClass::Transient).await;
        let (record, _) = bench.find(run.job).await;
        assert!(record.created_at >= known && record.created_at <= known.plus_millis(1_000), "{record:?}");
        let due_at = record.state.due_at.unwrap_or(known);
        assert!(due_at < known.plus_millis(DAY_MS), "a pause is reckoned from the last known moment: {due_at}");
        bench.ledger.accept_clock("ops".into(), None).await.expect("the clock is accepted");
    }
}

/// Nothing expires, times out, is lost, or is removed.
pub async fn nothing_ends_by_a_clock_that_is_held(bench: &Bench) {
    let undecided = waiting(bench).await;
    let asking = flows::asking_for(bench, 60_000).await;
    let limited = policy(JobPolicy { timeout_ms: 60_000, ..JobPolicy::default() });
    let running = bench.running(NewJob { policy: limited, ..bench.job() }).await;
    let finished = bench.running(bench.job()).await;
    bench.succeed(&finished).await;
    jumped(bench, FAR_MS).await;
    // Held, and for longer than any of their times.
    for _ in 0..2 {
        assert_eq!(bench.promote().await, 0);
        let reaped = bench.reap_since(Timestamp::default()).await;
        assert_eq!((reaped.lost, reaped.overdue), (0, 0), "{reaped:?}");
        let pruned = bench.ledger.prune(DAY, PruneMark::default()).await.expect("the ledger can be pruned");
        assert_eq!(pruned.jobs, 0);
        bench.pass_ms(2 * DAY_MS);
    }
    assert_eq!(bench.status(undecided).await, JobStatus::AwaitingApproval);
    assert_eq!(bench.status(running.job).await, JobStatus::Running);
    assert_eq!(bench.status(finished.job).await, JobStatus::Succeeded);
    assert_eq!(bench.status(asking).await, JobStatus::Paused);
    assert!(flows::inbox(bench).await.is_empty(), "the run of the workflow was not woken");
    let yes = flows::order(bench, asking, Some(("ask".into(), 1)));
    assert_eq!(bench.ledger.steer_flow(yes).await, Ok(FlowAnswer::Taken), "an answer is not too late");
}

/// Something else may be due for it, a sleep for one. It is not woken again for what it leaves as it is.
pub async fn a_run_with_jobs_is_woken_once_while_the_clock_is_held(bench: &Bench) {
    let (_, flow) = flows::running(bench).await;
    let until = bench.now().plus_millis(60_000);
    flows::calls(bench, (flow, 1), Vec::new(), until).await;
    jumped(bench, FAR_MS).await;
    now(bench).await;
    bench.pass_ms(2 * 60_000);
    assert_eq!(bench.promote().await, 1);
    let heard = flows::inbox(bench).await.iter().map(|item| item.id).collect();
    flows::calls(bench, (flow, 2), heard, until).await;
    assert_eq!((bench.promote().await, bench.promote().await), (0, 0));
    bench.ledger.accept_clock("ops".into(), None).await.expect("accepted");
    assert_eq!(bench.promote().await, 1, "now it ends");
}

/// Accepted, the clock is believed, what is over is over, and runs have as much time left as before.
pub async fn an_accepted_clock_decides_again(bench: &Bench) {
    let undecided = waiting(bench).await;
    let limited = policy(JobPolicy { timeout_ms: 60_000, ..JobPolicy::default() });
    let running = bench.running(NewJob { policy: limited, ..bench.job() }).await;
    let finished = bench.running(bench.job()).await;
    bench.succeed(&finished).await;
    let known = jumped(bench, FAR_MS).await;
    now(bench).await;
    let accepted = bench.ledger.accept_clock("ops".into(), Some("moved".to_owned())).await.expect("accepted");
    assert_eq!((accepted.was_held, accepted.before, accepted.now), (true, known, bench.now()));
    assert_eq!(now(bench).await, bench.now());
    assert!(!bench.ledger.clock_status().is_held());
    let reaped = bench.reap_since(bench.now()).await;
    assert_eq!((reaped.lost, reaped.overdue), (0, 0), "{reaped:?}");
    bench.pass_ms(62_000);
    bench.beat(&running).await;
    assert_eq!(bench.reap_since(bench.now().plus_millis(-2_000)).await.overdue, 1, "a minute is a minute");
    bench.promote().await;
    assert_eq!(bench.status(undecided).await, JobStatus::Canceled);
    let pruned = bench.ledger.prune(DAY, PruneMark::default()).await.expect("the ledger can be pruned");
    assert!(pruned.jobs >= 1, "{pruned:?}");
    // Accepting what is believed changes nothing; both are recorded.
    let again = bench.ledger.accept_clock("ops".into(), None).await.expect("accepted");
    assert!(!again.was_held && again.before == again.now);
    let filter = AuditFilter { action: Some("clock.accept".to_owned()), ..AuditFilter::default() };
    let page = bench.ledger.list_audit(Chain::of(None), filter, AuditFrom::Before(None), 10).await.expect("read");
    let records: Vec<(&str, Option<&str>)> =
        page.items.iter().map(|record| (record.result.as_str(), record.reason.as_deref())).collect();
    assert_eq!(records, [("unchanged", None), ("done", Some("moved"))]);
}

/// A clock that was ahead, was accepted and is put right leaves nothing waiting for the wrong future.
pub async fn nothing_waits_for_a_future_that_was_wrong(bench: &Bench) {
    let retry =
        RetryPolicy { base_ms: 3_600_000, max_backoff_ms: 3_600_000, jitter: Jitter::None, ..RetryPolicy::default() };
    let failed =
        bench.running(NewJob { policy: policy(JobPolicy { retry, ..JobPolicy::default() }), ..bench.job() }).await;
    let running = bench.running(bench.job()).await;
    jumped(bench, FAR_MS).await;
    now(bench).await;
    bench.ledger.accept_clock("ops".into(), None).await.expect("accepted, wrongly");
    bench.fail(&failed, ErrorClass::Transient).await;
    assert_eq!(bench.status(failed.job).await, JobStatus::Pending);
    considered(bench, "hourly").await;
    bench.beat(&running).await;
    bench.ledger.note_time().await.expect("the time is noted");
    bench.pass_ms(-FAR_MS);
    now(bench).await;
    assert!(bench.ledger.clock_status().is_held());
    bench.ledger.accept_clock("ops".into(), None).await.expect("accepted, rightly");
    assert_eq!(now(bench).await, bench.now());
    assert_eq!(bench.status(failed.job).await, JobStatus::Queued, "it waits no longer");
    let due = bench.ledger.due_schedules(10, Vec::new()).await.expect("read");
    assert_eq!(due.due.len(), 1, "the schedule is looked at again: {due:?}");
    // A silent worker is noticed in the time of a lease, not after 400 days.
    bench.pass_ms(60_000);
    assert_eq!(bench.reap_since(bench.now().plus_millis(-50_000)).await.lost, 1);
}

/// The same for a job whose only hand-out a busy executor refused: it does not count as an attempt.
pub async fn a_refused_hand_out_waits_for_no_wrong_future(bench: &Bench) {
    let refused = bench.running(bench.job()).await;
    jumped(bench, FAR_MS).await;
    now(bench).await;
    bench.ledger.accept_clock("ops".into(), None).await.expect("accepted, wrongly");
    bench.fail(&refused, ErrorClass::Busy).await;
    let later = Some(bench.now().plus_millis(DAY_MS));
    let scheduled = bench.submit(NewJob { run_at: later, ..bench.job() }).await;
    let (record, _) = bench.find(refused.job).await;
    assert_eq!((record.state.status, record.state.attempts), (JobStatus::Pending, 0));
    bench.ledger.note_time().await.expect("the time is noted");
    bench.pass_ms(-FAR_MS);
    now(bench).await;
    bench.ledger.accept_clock("ops".into(), None).await.expect("accepted, rightly");
    assert_eq!(bench.status(refused.job).await, JobStatus::Queued, "it waits no longer");
    assert_eq!(bench.find(scheduled).await.0.state.due_at, later, "what somebody asked for stays");
}

/// However many jobs waited for the wrong future: the transaction that accepts the clock moves some, and those after it the rest.
pub async fn everything_leaves_a_wrong_future_however_much_it_is(bench: &Bench) {
    const MANY: usize = 2_500;
    let retry =
        RetryPolicy { base_ms: 3_600_000, max_backoff_ms: 3_600_000, jitter: Jitter::None, ..RetryPolicy::default() };
    let policy = policy(JobPolicy { retry, ..JobPolicy::default() });
    let failing = (0..MANY).map(|_| NewJob { policy: policy.clone(), ..bench.job() }).collect();
    bench.ask_all(failing).await;
    let wants = u32::try_from(MANY).expect("not that many");
    let runs = bench.claim(Claimant { wants, slots: wants, ..bench.worker("w1") }).await;
    assert_eq!(runs.len(), MANY);
    jumped(bench, FAR_MS).await;
    now(bench).await;
    bench.ledger.accept_clock("ops".into(), None).await.expect("accepted, wrongly");
    let failed = runs.iter().map(|run| bench.report_of(run, Outcome::Failed(ErrorClass::Transient))).collect();
    bench.ledger.report(failed).await.expect("the ledger hears how they ended");
    // Further away than all of them, and nobody reckoned it from the time.
    let later = bench.now().plus_millis(DAY_MS);
    let scheduled = NewJob { run_at: Some(later), ..bench.job() };
    let scheduled = bench.submit(scheduled).await;
    bench.ledger.note_time().await.expect("the time is noted");
    bench.pass_ms(-FAR_MS);
    now(bench).await;
    bench.ledger.accept_clock("ops".into(), None).await.expect("accepted, rightly");
    // What fails from now on waits as long as it should.
    let fresh = bench.claim_one().await;
    bench.fail(&fresh, ErrorClass::Transient).await;
    bench.pass_ms(1_000);
    bench.ledger.note_time().await.expect("the time is noted");
    assert_eq!(bench.status(fresh.job).await, JobStatus::Pending);
    assert_eq!(bench.find(scheduled).await.0.state.due_at, Some(later));
    let free = bench.claim(Claimant { wants, slots: wants, ..bench.worker("w1") }).await;
    assert_eq!(free.len(), MANY - 1, "all are free");
}

/// What was counted from the wrong future ends as long after the right moment as it would have ended after the wrong one.
pub async fn what_began_in_a_wrong_future_moves_with_the_clock(bench: &Bench) {
    jumped(bench, FAR_MS).await;
    now(bench).await;
    bench.ledger.accept_clock("ops".into(), None).await.expect("accepted, wrongly");
    bench.gone_missing(brief()).await;
    let undecided = waiting(bench).await;
    let command = bench.command(spec(), Rollout::default()).await;
    let fleet = command.fleet.as_deref().cloned().expect("a command");
    let fleet = Some(std::sync::Arc::new(NewFleet { deadline_ms: Some(60_000), ..fleet }));
    let limited = bench.submit(NewJob { fleet, ..command }).await;
    let asking = flows::asking_for(bench, 60_000).await;
    let expires_at = Some(bench.now().plus_millis(60_000));
    let lasting = TokenRecord { created_at: bench.now(), expires_at, ..token(bench, "t1") };
    assert!(bench.ledger.create_token(lasting, "ann".into()).await.expect("tokens"));
    let ended = bench.running(bench.job()).await;
    bench.succeed(&ended).await;
    bench.ledger.register_worker(registration(bench, "w9")).await.expect("the ledger takes workers");
    let keyed = bench.submit(NewJob { keys: vec![external_id("e")], ..bench.keyed("k", "one") }).await;
    bench.ledger.note_time().await.expect("the time is noted");
    bench.pass_ms(-FAR_MS);
    now(bench).await;
    bench.ledger.accept_clock("ops".into(), None).await.expect("accepted, rightly");
    let worker = bench.ledger.find_worker(bench.tenant, worker_name("w9")).await.expect("read").expect("a worker");
    assert_eq!(worker.seen_at, bench.now(), "it is silent from now on");
    let pruned = bench.ledger.prune(DAY, PruneMark::default()).await.expect("the ledger can be pruned");
    assert_eq!(pruned.jobs, 0);
    assert_eq!(bench.find(ended.job).await.0.finished_at, Some(bench.now()), "it is kept from now on");
    let soon = Some(bench.now().plus_millis(60_000));
    let until = bench.line().await.kept[0].until;
    assert!(until > bench.now() && until <= bench.now().plus_millis(LONGEST_MS), "the host is free in time: {until}");
    for job in [undecided, limited] {
        assert_eq!(bench.find(job).await.0.state.due_at, soon);
    }
    let flow = bench.ledger.find_flow(bench.tenant, asking).await.expect("read").expect("a run");
    assert_eq!(flow.waits[0].wait.expires_at, soon);
    let told = flows::inbox(bench).await;
    assert!(
        told.iter().any(|item| matches!(&item.message, InboxMessage::Told(text) if text.contains("clock_moved"))),
        "the run moves its own times: {told:?}"
    );
    assert_eq!(bench.ledger.find_token("t1".to_owned()).await.expect("read").expect("there").expires_at, soon);
    bench.pass_ms(60_001);
    bench.promote().await;
    assert_eq!(bench.status(undecided).await, JobStatus::Canceled);
    assert_ne!(bench.status(limited).await, JobStatus::Running);
    // An idempotency key is new after its time, and an external id never.
    let other = bench.keyed("k", "two");
    assert!(matches!(bench.ask(other.clone()).await, Submitted::Accepted { id, .. } if id == other.id));
    let same = NewJob { keys: vec![external_id("e")], ..bench.keyed("k", "one") };
    assert!(matches!(bench.ask(same).await, Submitted::Replayed { id, .. } if id == keyed));
    bench.pass_ms(DAY_MS);
    let pruned = bench.ledger.prune(DAY, PruneMark::default()).await.expect("the ledger can be pruned");
    assert!(pruned.jobs >= 1 && bench.ledger.find_job(bench.tenant, ended.job).await.expect("read").is_none());
}

/// Retention reaches the jobs behind those that were accepted in a wrong future.
pub async fn retention_passes_over_jobs_of_a_wrong_future(bench: &Bench) {
    jumped(bench, FAR_MS).await;
    now(bench).await;
    bench.ledger.accept_clock("ops".into(), None).await.expect("accepted, wrongly");
    // As many as a sweep looks at together, and one more.
    bench.submit_many(501).await;
    bench.ledger.note_time().await.expect("the time is noted");
    bench.pass_ms(-FAR_MS);
    now(bench).await;
    bench.ledger.accept_clock("ops".into(), None).await.expect("accepted, rightly");
    let next = NewJob { task_type: task_type("next"), ..bench.job() };
    let next = bench.submit(next).await;
    bench.cancel(next).await;
    bench.pass_ms(DAY_MS + 1);
    let (mut from, mut removed) = (Some(PruneMark::default()), 0);
    while let Some(mark) = from {
        let pruned = bench.ledger.prune(DAY, mark).await.expect("the ledger can be pruned");
        (from, removed) = (pruned.next, removed + pruned.jobs);
    }
    assert_eq!(removed, 1);
}
