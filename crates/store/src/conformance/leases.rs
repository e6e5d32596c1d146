//! Promises about leases: who may act, until when, and what becomes of those who fall silent.

use bowline_model::{EventKind, JobPolicy, JobStatus, RunStatus, TenantId};

use super::bench::{self, Bench, TIMES, policy, worker_name};
use crate::{BeatAnswer, Claimant, Heartbeat, Listened, NewJob, REAPED_NAMED_MAX, Reaped, ReapedRun};

pub async fn a_heartbeat_confirms_a_run(bench: &Bench) {
    let id = bench.submit(bench.job()).await;
    let run = bench.claim_one().await;
    assert_eq!(bench.find(id).await.1[0].status, RunStatus::Starting);
    bench.pass_ms(500);
    assert_eq!(bench.beat(&run).await, BeatAnswer::Renewed);
    let record = bench.find(id).await.1.remove(0);
    assert_eq!((record.status, record.started_at), (RunStatus::Running, Some(bench.now())));
    bench.pass_ms(500);
    bench.beat(&run).await;
    assert_eq!(bench.find(id).await.1[0], record, "a run is confirmed once");
}

pub async fn a_heartbeat_renews_the_lease(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    for _ in 0..5 {
        bench.pass_ms(TIMES.ttl_ms);
        assert_eq!(bench.reap().await, Reaped { active: 1, ..Reaped::default() });
        assert_eq!(bench.beat(&run).await, BeatAnswer::Renewed);
    }
}

pub async fn heartbeats_are_answered_in_the_order_of_the_runs(bench: &Bench) {
    bench.submit_many(2).await;
    let runs = bench.claim(Claimant { wants: 2, ..bench.worker("w1") }).await;
    let nobody = bowline_model::RunId::mint(bench.now(), [9; 10]);
    let named = vec![runs[1].run, nobody, runs[0].run, runs[1].run];
    let beat = Heartbeat { runs: named.clone(), ..bench.heartbeat(&[&runs[0]]) };
    let answers = bench.ledger.heartbeat(beat).await.expect("the ledger hears workers");
    let wanted = [BeatAnswer::Renewed, BeatAnswer::Stale, BeatAnswer::Renewed, BeatAnswer::Renewed];
    assert_eq!(answers, named.into_iter().zip(wanted).collect::<Vec<_>>());
}

/// An agent speaks only about its own runs.
pub async fn a_heartbeat_speaks_only_for_its_own_runs(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let own = bench.heartbeat(&[&run]);
    let other = Heartbeat { worker: worker_name("w2"), ..own.clone() };
    let foreign = Heartbeat { tenant: Some(bench.neighbour), ..own.clone() };
    bench.pass_ms(TIMES.ttl_ms);
    for beat in [other, foreign] {
        let answers = bench.ledger.heartbeat(beat).await.expect("the ledger hears workers");
        assert_eq!(answers, [(run.run, BeatAnswer::Stale)]);
    }
    bench.pass_ms(1);
    assert_eq!(bench.reap().await.lost, 1, "nobody else could renew it");
}

pub async fn runs_that_are_given_up_are_named(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let named = ReapedRun {
        run: run.run,
        job: run.job,
        worker: bench.find(run.job).await.1[0].worker.to_string(),
        host: None,
        verdict: "lost",
    };
    let reaped = bench.silence().await;
    assert_eq!((reaped.given_up(), reaped.runs), (1, vec![named]));
    let again = bench.claim_one().await;
    bench.pass_ms(TIMES.accept_ms + 1);
    let reaped = bench.reap().await;
    assert_eq!((reaped.runs.len(), reaped.runs[0].run, reaped.runs[0].verdict), (1, again.run, "unconfirmed"));
    assert_eq!(bench.reap().await.runs, []);
    // Many at once are counted.
    bench.submit_many(REAPED_NAMED_MAX + 5).await;
    let claimant = bench.insider(u32::try_from(REAPED_NAMED_MAX + 6).expect("few"));
    assert_eq!(bench.claim(claimant).await.len(), REAPED_NAMED_MAX + 6);
    let reaped = bench.silence().await;
    assert_eq!((reaped.given_up(), reaped.runs.len()), (REAPED_NAMED_MAX as u64 + 6, REAPED_NAMED_MAX));
}

pub async fn a_silent_run_is_lost_and_its_job_queued_again(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.pass_ms(TIMES.ttl_ms);
    assert_eq!(bench.reap().await.lost, 0, "a whole lease has not passed yet");
    bench.pass_ms(1);
    assert_eq!(bench.reap().await.counts(), Reaped { lost: 1, ..Reaped::default() });
    let (job, runs) = bench.find(run.job).await;
    assert_eq!((job.state.status, job.state.losses, job.state.failures), (JobStatus::Queued, 1, 0));
    assert_eq!((runs[0].status, runs[0].finished_at), (RunStatus::Lost, Some(bench.now())));
    let (_, told) = bench.history(run.job).await.pop().expect("it is told");
    assert_eq!((told.kind, told.data.reason.as_deref()), (EventKind::RunLost, Some("its worker went silent")));
    let next = bench.claim_one().await;
    assert_eq!((next.job, next.attempt, next.fence), (run.job, 2, 2));
    assert_ne!(next.run, run.run);
}

pub async fn what_was_judged_once_is_not_judged_again(bench: &Bench) {
    bench.running(bench.job()).await;
    assert_eq!(bench.silence().await.lost, 1);
    assert_eq!(bench.silence().await, Reaped::default());
}

/// A crash says nothing about the work: it has a budget of its own.
pub async fn a_lost_lease_does_not_eat_the_retry_budget(bench: &Bench) {
    let job = NewJob { policy: bench::attempts(2), ..bench.job() };
    let id = bench.submit(job).await;
    for _ in 0..3 {
        bench.start_one().await;
        bench.silence().await;
    }
    let run = bench.start_one().await;
    bench.fail(&run, bowline_model::ErrorClass::Transient).await;
    let state = bench.find(id).await.0.state;
    assert_eq!((state.status, state.failures, state.losses), (JobStatus::Pending, 1, 3), "one failure of two");
}

pub async fn poison_ends_in_the_dead_letters_after_its_losses(bench: &Bench) {
    let id = bench.submit(NewJob { policy: bench::losses(2), ..bench.job() }).await;
    for loss in 1..=3 {
        bench.start_one().await;
        bench.silence().await;
        let wanted = if loss <= 2 { JobStatus::Queued } else { JobStatus::Dead };
        assert_eq!(bench.status(id).await, wanted, "after {loss} losses");
    }
    let letters = bench.dead_letters().await;
    assert_eq!((letters.len(), letters[0].job, letters[0].attempts), (1, id, 3));
    assert_eq!(letters[0].class, Some(bowline_model::ErrorClass::Lost));
    bench.nothing_to_claim().await;
}

pub async fn work_that_must_not_be_done_twice_ends_when_its_worker_is_lost(bench: &Bench) {
    let run = bench.running(NewJob { policy: bench::at_most_once(), ..bench.job() }).await;
    bench.silence().await;
    assert_eq!(bench.status(run.job).await, JobStatus::Error);
    assert_eq!(bench.dead_letters().await, [], "a person decides, but it is not dead");
    bench.nothing_to_claim().await;
}

/// See docs/decisions/0006: handed out, never confirmed, not counted.
pub async fn an_unconfirmed_hand_out_returns_without_counting(bench: &Bench) {
    let id = bench.submit(NewJob { policy: bench::attempts(1), ..bench.job() }).await;
    let unseen = bench.claim_one().await;
    bench.pass_ms(TIMES.accept_ms);
    assert_eq!(bench.reap().await.returned, 0, "there is still time to confirm");
    bench.pass_ms(1);
    assert_eq!(bench.reap().await.counts(), Reaped { returned: 1, ..Reaped::default() });
    let (job, runs) = bench.find(id).await;
    assert_eq!((job.state.status, job.state.attempts, job.state.losses), (JobStatus::Queued, 0, 0));
    assert_eq!(runs[0].status, RunStatus::Returned);
    let next = bench.start_one().await;
    assert_ne!(next.run, unseen.run, "a run id is started at most once, ever");
    assert_eq!((next.attempt, next.fence), (1, 2));
    assert_eq!(bench.beat(&unseen).await, BeatAnswer::Stale, "whoever wakes up late must not start");
}

pub async fn a_hand_out_that_was_not_delivered_is_given_back(bench: &Bench) {
    bench.submit_many(2).await;
    let unseen = bench.claim(bench.insider(2)).await;
    bench.succeed(&unseen[1]).await;
    let nobody = bowline_model::RunId::mint(bench.now(), [9; 10]);
    for _ in 0..2 {
        let runs = vec![unseen[0].run, unseen[1].run, nobody];
        bench.ledger.give_back(runs).await.expect("the ledger takes runs back");
        let (job, runs) = bench.find(unseen[0].job).await;
        assert_eq!((job.state.status, job.state.attempts), (JobStatus::Queued, 0));
        assert_eq!(runs[0].status, RunStatus::Returned);
        assert_eq!(bench.status(unseen[1].job).await, JobStatus::Succeeded, "what has ended stays as it is");
    }
    let next = bench.claim_one().await;
    assert_eq!((next.job, next.attempt, next.fence), (unseen[0].job, 1, 2));
}

/// L5: a renewal never brings back a lease that was taken away.
pub async fn a_heartbeat_after_the_lease_is_gone_is_stale(bench: &Bench) {
    let lost = bench.running(bench.job()).await;
    bench.silence().await;
    assert_eq!(bench.beat(&lost).await, BeatAnswer::Stale);
    assert_eq!(bench.status(lost.job).await, JobStatus::Queued);
    let next = bench.start_one().await;
    assert_eq!(bench.beat(&lost).await, BeatAnswer::Stale);
    assert_eq!(bench.beat(&next).await, BeatAnswer::Renewed);
    bench.succeed(&next).await;
    assert_eq!(bench.beat(&next).await, BeatAnswer::Stale, "an ended run needs no more heartbeats");
}

/// R5: nobody is judged by silence from before we were listening.
pub async fn nobody_is_lost_before_a_whole_lease_since_the_watermark(bench: &Bench) {
    let week = policy(JobPolicy { timeout_ms: JobPolicy::TIMEOUT_MAX_MS, ..JobPolicy::default() });
    let confirmed = bench.running(NewJob { policy: week, ..bench.job() }).await;
    bench.submit(bench.job()).await;
    let unconfirmed = bench.claim_one().await;
    bench.pass_ms(3_600_000);
    // We were away for an hour. From now on we listen.
    let watermark = bench.now();
    assert_eq!(bench.reap_since(watermark).await, Reaped { active: 2, ..Reaped::default() });
    bench.pass_ms(TIMES.accept_ms);
    assert_eq!(bench.reap_since(watermark).await, Reaped { active: 2, ..Reaped::default() });
    bench.pass_ms(1);
    assert_eq!(bench.reap_since(watermark).await.counts(), Reaped { returned: 1, active: 1, ..Reaped::default() });
    assert_eq!(bench.beat(&unconfirmed).await, BeatAnswer::Stale);
    bench.pass_ms(TIMES.ttl_ms - TIMES.accept_ms - 1);
    assert_eq!(bench.reap_since(watermark).await.lost, 0);
    bench.pass_ms(1);
    assert_eq!(bench.reap_since(watermark).await.lost, 1);
    assert_eq!(bench.find(confirmed.job).await.0.state.losses, 1);
}

/// A judgement that waits behind a slow ledger comes late; so does every heartbeat that waits beside it.
pub async fn nobody_is_lost_by_a_judgement_that_comes_late(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let listened = Listened { since: Bench::START, until: bench.now().plus_millis(TIMES.ttl_ms) };
    bench.pass_ms(10 * TIMES.ttl_ms);
    assert_eq!(bench.reap_listened(listened).await, Reaped { active: 1, ..Reaped::default() });
    assert_eq!(bench.beat(&run).await, BeatAnswer::Renewed);
    let listened = Listened { until: bench.now().plus_millis(TIMES.ttl_ms + 1), ..listened };
    bench.pass_ms(10 * TIMES.ttl_ms);
    assert_eq!(bench.reap_listened(listened).await.lost, 1, "it was silent for a whole lease while we listened");
}

pub async fn a_run_that_renews_for_ever_times_out_at_last(bench: &Bench) {
    let retry = (*bench::attempts(2).expect("this is a policy")).clone().retry;
    let limit = policy(JobPolicy { timeout_ms: 5_000, retry, ..JobPolicy::default() });
    let run = bench.running(NewJob { policy: limit, ..bench.job() }).await;
    bench.pass_ms(5_000 + TIMES.deadline_grace_ms);
    assert_eq!(bench.beat(&run).await, BeatAnswer::Renewed);
    assert_eq!(bench.reap().await.overdue, 0, "it has its grace");
    bench.pass_ms(1);
    bench.beat(&run).await;
    assert_eq!(bench.reap().await.counts(), Reaped { overdue: 1, ..Reaped::default() });
    let (job, runs) = bench.find(run.job).await;
    assert_eq!(runs[0].status, RunStatus::TimedOut);
    assert_eq!((job.state.status, job.state.failures), (JobStatus::Pending, 1), "a timeout is a failure");
    assert_eq!(job.error.map(|error| error.class), Some(bowline_model::ErrorClass::Timeout));
    assert_eq!(bench.beat(&run).await, BeatAnswer::Stale);
}

pub async fn the_reaper_counts_the_leases_that_go_on(bench: &Bench) {
    bench.submit_many(5).await;
    let runs = bench.claim(bench.insider(4)).await;
    assert_eq!(bench.reap().await.active, 4);
    bench.succeed(&runs[0]).await;
    assert_eq!(bench.reap().await.active, 3);
    assert_eq!(bench.silence().await.counts(), Reaped { lost: 3, ..Reaped::default() });
}

/// One worker's silence is not another's.
pub async fn only_the_silent_are_lost(bench: &Bench) {
    let ids = bench.submit_many(3).await;
    let runs = bench.claim(Claimant { wants: 3, ..bench.worker("w1") }).await;
    for run in &runs {
        bench.beat(run).await;
    }
    bench.pass_ms(TIMES.ttl_ms);
    bench.beat(&runs[1]).await;
    bench.pass_ms(1);
    assert_eq!(bench.reap().await.counts(), Reaped { lost: 2, active: 1, ..Reaped::default() });
    let mut statuses = Vec::new();
    for id in ids {
        statuses.push(bench.status(id).await);
    }
    assert_eq!(statuses, [JobStatus::Queued, JobStatus::Running, JobStatus::Queued]);
}

/// The workers inside a server serve everybody, so they speak for everybody.
pub async fn an_insider_beats_for_every_tenant(bench: &Bench) {
    bench.submit(bench.job()).await;
    bench.submit(NewJob { tenant: bench.neighbour, ..bench.job() }).await;
    let runs = bench.claim(bench.insider(2)).await;
    let beat = Heartbeat { tenant: None::<TenantId>, ..bench.heartbeat(&[&runs[0], &runs[1]]) };
    let answers = bench.ledger.heartbeat(beat).await.expect("the ledger hears workers");
    assert!(answers.iter().all(|(_, answer)| *answer == BeatAnswer::Renewed), "{answers:?}");
}

fn bare(bench: &Bench, worker: &str) -> Heartbeat {
    Heartbeat { worker: worker_name(worker), tenant: Some(bench.tenant), runs: Vec::new(), bare: true }
}

/// A worker that knows no names of runs still holds what it was given.
pub async fn a_heartbeat_without_names_renews_all_runs_of_its_worker(bench: &Bench) {
    bench.submit_many(3).await;
    let runs = bench.claim(Claimant { wants: 2, ..bench.worker("w1") }).await;
    let other = bench.claim(Claimant { wants: 1, ..bench.worker("w2") }).await;
    let mut named: Vec<_> = runs.iter().map(|run| (run.run, BeatAnswer::Renewed)).collect();
    let mut answers = bench.ledger.heartbeat(bare(bench, "w1")).await.expect("the ledger hears workers");
    named.sort_by_key(|(run, _)| *run);
    answers.sort_by_key(|(run, _)| *run);
    assert_eq!(answers, named);
    let foreign = Heartbeat { tenant: Some(bench.neighbour), ..bare(bench, "w1") };
    assert_eq!(bench.ledger.heartbeat(foreign).await, Ok(Vec::new()), "another tenant's worker of the same name");
    bench.pass_ms(TIMES.accept_ms + 1);
    let reaped = bench.reap().await;
    assert_eq!((reaped.returned, reaped.active), (1, 2), "only {other:?} was never confirmed");
}

/// Its hand-out may never have arrived, and its worker renews it all the same.
pub async fn a_run_renewed_without_its_name_has_ten_minutes(bench: &Bench) {
    bench.ledger.register_worker(super::workers::registration(bench, "w1")).await.expect("the ledger takes workers");
    let within_a_day = policy(JobPolicy { deadline_ms: Some(86_400_000), ..JobPolicy::default() });
    bench.submit(NewJob { policy: within_a_day, ..bench.job() }).await;
    let said = bench
        .submit(NewJob { policy: policy(JobPolicy { timeout_ms: 3_600_000, ..JobPolicy::default() }), ..bench.job() })
        .await;
    let runs = bench.claim(Claimant { wants: 2, ..bench.worker("w1") }).await;
    assert_eq!(runs.len(), 2);
    let (mut overdue, mut unnamed) = (0, 0);
    for _ in 0..(11 * 60_000 / TIMES.ttl_ms) {
        bench.ledger.heartbeat(bare(bench, "w1")).await.expect("the ledger hears workers");
        bench.pass_ms(TIMES.ttl_ms);
        let reaped = bench.reap().await;
        (overdue, unnamed) = (overdue + reaped.overdue, unnamed + reaped.unnamed);
    }
    assert_eq!((overdue, unnamed), (1, 1), "not the one whose job says how long it may take");
    assert_eq!(bench.find(said).await.0.state.status, JobStatus::Running);
}

pub async fn a_worker_that_names_its_runs_is_known_for_it(bench: &Bench) {
    bench.ledger.register_worker(super::workers::registration(bench, "w1")).await.expect("the ledger takes workers");
    bench.submit_many(1).await;
    let runs = bench.claim(Claimant { wants: 1, ..bench.worker("w1") }).await;
    let find = async || bench.ledger.find_worker(bench.tenant, worker_name("w1")).await.expect("it can be read");
    bench.ledger.heartbeat(bare(bench, "w1")).await.expect("the ledger hears workers");
    assert!(!find().await.expect("it registered").names_runs);
    bench.ledger.heartbeat(bench.heartbeat(&[&runs[0]])).await.expect("the ledger hears workers");
    assert!(find().await.expect("it registered").names_runs);
}
