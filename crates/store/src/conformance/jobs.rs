//! Promises about jobs: what is taken in is kept, found and listed, and waits for its moment.

use std::collections::BTreeSet;

use bowline_model::{JobKind, JobPolicy, JobState, JobStatus, Lane};
use tokio::task::JoinSet;

use super::bench::{self, Bench, idempotency_key, job_ids, labels, task_type};
use crate::{Claimant, JobFilter, JobRecord, NewJob, Origin, Page, Submitted};

pub async fn a_job_is_accepted_and_found_again(bench: &Bench) {
    let job = bench.job();
    let id = job.id;
    let answer = bench.ask(job).await;
    let Submitted::Accepted { id: accepted, number, status, at } = answer else { panic!("{answer:?}") };
    assert_eq!((accepted, status, at), (id, JobStatus::Queued, bench.now()));
    let (found, runs) = bench.find(id).await;
    assert_eq!((found.id, found.number, found.tenant), (id, number, bench.tenant));
    assert_eq!((found.created_at, found.updated_at, found.finished_at), (at, at, None));
    let fresh = JobState { kind: JobKind::Task, status, attempts: 0, failures: 0, losses: 0, fence: 0, due_at: None };
    assert_eq!(found.state, fresh);
    assert!(runs.is_empty());
}

/// Also where jobs that differ in one thing only come together.
pub async fn each_job_of_a_batch_waits_in_its_own_line(bench: &Bench) {
    let plain = || bench.job();
    let jobs = vec![
        plain(),
        NewJob { lane: Lane::Low, ..plain() },
        NewJob { task_type: task_type("other"), ..plain() },
        NewJob { requires: labels(&[("zone", "eu")]), ..plain() },
        NewJob { tenant: bench.neighbour, ..plain() },
        plain(),
    ];
    for answer in bench.ask_all(jobs.clone()).await {
        assert!(matches!(answer, Submitted::Accepted { .. }), "{answer:?}");
    }
    for job in &jobs {
        let found = bench.ledger.find_job(job.tenant, job.id).await.expect("the ledger can be read");
        let (found, _) = found.expect("it is there");
        assert_eq!((found.lane, &found.task_type, &found.requires), (job.lane, &job.task_type, &job.requires));
    }
    let able = Claimant { wants: 10, slots: 10, ..bench.worker("w1") };
    let runs = bench.claim(able.clone()).await;
    let taken: BTreeSet<_> = job_ids(&runs).into_iter().collect();
    assert_eq!(taken, BTreeSet::from([jobs[0].id, jobs[1].id, jobs[5].id]), "those it can do, of its tenant");
    let theirs = bench.claim(Claimant { tenant: Some(bench.neighbour), ..able }).await;
    assert_eq!(job_ids(&theirs), [jobs[4].id]);
}

pub async fn a_job_keeps_everything_that_was_said_about_it(bench: &Bench) {
    let original = bench.job_id();
    let job = NewJob {
        lane: Lane::Critical,
        task_type: task_type("site/fra-1:backup@2"),
        requires: labels(&[("zone", "eu"), ("gpu", "a100")]),
        priority: -7,
        payload: r#"{"to": "büro@example.org"}"#.into(),
        policy: bench::attempts(9),
        keys: vec![idempotency_key("order 17/ä"), bench::external_id("evt_1")],
        origin: Origin {
            email: None,
            actor: "api:ann".into(),
            request_id: "req-77".into(),
            trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
            correlation_id: Some("cart-9".into()),
            author: None,
        },
        replay_of: Some(original),
        ..bench.job()
    };
    bench.submit(job.clone()).await;
    let found = bench.find(job.id).await.0;
    assert_eq!(found.lane, job.lane);
    assert_eq!(found.task_type, job.task_type);
    assert_eq!(found.requires, job.requires);
    assert_eq!(found.priority, job.priority);
    assert_eq!(found.payload.as_deref(), Some(&*job.payload));
    assert_eq!(Some(found.policy), job.policy.as_deref().cloned());
    assert_eq!(found.origin, job.origin);
    assert_eq!(found.idempotency_key.as_deref(), Some("order 17/ä"));
    assert_eq!(found.external_id.as_deref(), Some("evt_1"));
    assert_eq!(found.replay_of, Some(original));
    assert_eq!((found.result, found.error), (None, None));
}

pub async fn a_job_without_a_policy_has_the_default_one(bench: &Bench) {
    let id = bench.submit(bench.job()).await;
    assert_eq!(bench.find(id).await.0.policy, JobPolicy::default());
}

pub async fn nothing_submitted_is_nothing_stored(bench: &Bench) {
    assert_eq!(bench.ask_all(Vec::new()).await, []);
    assert_eq!(list(bench, JobFilter::default(), None, 10).await.items, []);
}

pub async fn answers_come_in_the_order_of_the_jobs(bench: &Bench) {
    let first = bench.submit(bench.keyed("k", "one")).await;
    let (fresh, same, other, last) =
        (bench.job(), bench.keyed("k", "one"), bench.keyed("k", "two"), bench.keyed("l", "one"));
    let answers = bench.ask_all(vec![fresh.clone(), same, other, last.clone()]).await;
    assert_eq!(answers.len(), 4);
    assert!(matches!(&answers[0], Submitted::Accepted { id, .. } if *id == fresh.id), "{answers:?}");
    assert!(matches!(&answers[1], Submitted::Replayed { id, .. } if *id == first), "{answers:?}");
    assert!(matches!(&answers[2], Submitted::Conflict { id, .. } if *id == first), "{answers:?}");
    assert!(matches!(&answers[3], Submitted::Accepted { id, .. } if *id == last.id), "{answers:?}");
}

pub async fn numbers_grow_with_every_job(bench: &Bench) {
    let mut before = 0;
    for _ in 0..5 {
        let answers = bench.ask_all(vec![bench.job(), bench.job()]).await;
        for answer in answers {
            let Submitted::Accepted { number, .. } = answer else { panic!("{answer:?}") };
            assert!(number > before, "{number} after {before}");
            before = number;
        }
    }
}

/// Whoever lost an answer asks again with the id it made.
pub async fn the_same_id_asked_twice_is_stored_once(bench: &Bench) {
    let job = NewJob { keys: vec![idempotency_key("k"), bench::external_id("e")], ..bench.job() };
    bench.submit(job.clone()).await;
    let (again, then) = (bench.ask(job.clone()).await, bench.ask(job.clone()).await);
    assert!(matches!(again, Submitted::Replayed { id, .. } if id == job.id), "{again:?}");
    assert_eq!(again, then);
    assert_eq!(job_ids(&bench.claim(Claimant { wants: 5, ..bench.worker("w1") }).await), [job.id]);
}

pub async fn the_same_id_twice_in_one_batch_is_stored_once(bench: &Bench) {
    let (plain, keyed) = (bench.job(), bench.keyed("k", "one"));
    let answers = bench.ask_all(vec![plain.clone(), keyed.clone(), plain.clone(), keyed.clone()]).await;
    assert!(matches!(&answers[0], Submitted::Accepted { id, .. } if *id == plain.id), "{answers:?}");
    assert!(matches!(&answers[1], Submitted::Accepted { id, .. } if *id == keyed.id), "{answers:?}");
    assert!(matches!(&answers[2], Submitted::Replayed { id, .. } if *id == plain.id), "{answers:?}");
    assert!(matches!(&answers[3], Submitted::Replayed { id, .. } if *id == keyed.id), "{answers:?}");
    assert_eq!(bench.claim(Claimant { wants: 5, ..bench.worker("w1") }).await.len(), 2);
}

pub async fn the_same_id_asked_by_many_at_once_is_stored_once(bench: &Bench) {
    let job = bench.job();
    let mut askers = JoinSet::new();
    for _ in 0..16 {
        let (ledger, job) = (bench.ledger.clone(), job.clone());
        askers.spawn(async move { ledger.submit(vec![job]).await.expect("the ledger takes jobs").remove(0) });
    }
    let answers = askers.join_all().await;
    let accepted = answers.iter().filter(|answer| matches!(answer, Submitted::Accepted { .. })).count();
    let replayed = answers.iter().filter(|answer| matches!(answer, Submitted::Replayed { .. })).count();
    assert_eq!((accepted, replayed), (1, 15), "{answers:?}");
    assert_eq!(bench.claim(Claimant { wants: 5, ..bench.worker("w1") }).await.len(), 1);
}

pub async fn a_second_ask_is_answered_with_how_the_job_stands_now(bench: &Bench) {
    let job = bench.keyed("k", "one");
    let at = bench.now();
    let run = bench.running(job.clone()).await;
    bench.pass_ms(1_000);
    bench.succeed(&run).await;
    let number = bench.find(run.job).await.0.number;
    let again = bench.ask(bench.keyed("k", "one")).await;
    assert_eq!(again, Submitted::Replayed { id: run.job, number, status: JobStatus::Succeeded, at });
}

pub async fn a_job_for_later_waits_for_its_moment(bench: &Bench) {
    let due = bench.now().plus_millis(10_000);
    let id = bench.submit(NewJob { run_at: Some(due), ..bench.job() }).await;
    let state = bench.find(id).await.0.state;
    assert_eq!((state.status, state.due_at), (JobStatus::Pending, Some(due)));
    bench.nothing_to_claim().await;

    bench.pass_ms(9_999);
    let promoted = bench.ledger.promote(10).await.expect("the ledger looks at its timers");
    assert_eq!((promoted.moved, promoted.next_due_at), (0, Some(due)));
    bench.nothing_to_claim().await;

    bench.pass_ms(1);
    bench.nothing_to_claim().await;
    let promoted = bench.ledger.promote(10).await.expect("the ledger looks at its timers");
    assert_eq!((promoted.moved, promoted.next_due_at), (1, None));
    assert_eq!(bench.status(id).await, JobStatus::Queued);
    assert_eq!(bench.claim_one().await.job, id);
    assert_eq!(bench.promote().await, 0, "a moment comes once");
}

pub async fn a_job_for_a_moment_in_the_past_is_queued_at_once(bench: &Bench) {
    for run_at in [bench.now(), bench.now().plus_millis(-60_000)] {
        let id = bench.submit(NewJob { run_at: Some(run_at), ..bench.job() }).await;
        assert_eq!(bench.claim_one().await.job, id);
    }
}

pub async fn jobs_that_are_due_are_queued_longest_waiting_first_and_no_more_than_asked(bench: &Bench) {
    let mut ids = Vec::new();
    for (n, wait) in [3_000, 1_000, 2_000, 60_000].into_iter().enumerate() {
        let job = NewJob { run_at: Some(bench.now().plus_millis(wait)), ..bench.job() };
        ids.push(job.id);
        bench.submit(job).await;
        assert_eq!(ids.len(), n + 1);
    }
    let far = bench.now().plus_millis(60_000);
    bench.pass_ms(5_000);
    let promoted = bench.ledger.promote(2).await.expect("the ledger looks at its timers");
    assert_eq!(promoted.moved, 2);
    assert!(promoted.next_due_at.is_some_and(|at| at <= bench.now()), "there is more to do at once");
    let queued = [bench.status(ids[1]).await, bench.status(ids[2]).await, bench.status(ids[0]).await];
    assert_eq!(queued, [JobStatus::Queued, JobStatus::Queued, JobStatus::Pending]);
    let promoted = bench.ledger.promote(2).await.expect("the ledger looks at its timers");
    assert_eq!((promoted.moved, promoted.next_due_at), (1, Some(far)));
}

/// A moment that comes earlier than all others changes when somebody must look.
pub async fn a_new_timer_rings(bench: &Bench) {
    let mut timers = bench.ledger.timer_wake().listen();
    bench.submit(NewJob { run_at: Some(bench.now().plus_millis(5)), ..bench.job() }).await;
    timers.rung().await;
}

async fn list(
    bench: &Bench,
    filter: JobFilter,
    before: Option<bowline_model::JobId>,
    limit: u32,
) -> Page<JobRecord, bowline_model::JobId> {
    bench.ledger.list_jobs(bench.tenant, filter, before, limit).await.expect("the ledger can be read")
}

/// Every job a filter fits, however many pages that takes.
async fn listed(bench: &Bench, filter: JobFilter) -> Vec<bowline_model::JobId> {
    let (mut ids, mut before) = (Vec::new(), None);
    loop {
        let page = list(bench, filter.clone(), before, 2).await;
        assert!(page.items.len() <= 2);
        ids.extend(page.items.iter().map(|job| job.id));
        match page.next {
            Some(next) => before = Some(next),
            None => return ids,
        }
    }
}

pub async fn jobs_are_listed_newest_first_in_pages(bench: &Bench) {
    let mut ids = bench.submit_many(5).await;
    ids.reverse();
    assert_eq!(listed(bench, JobFilter::default()).await, ids);
    let page = list(bench, JobFilter::default(), None, 5).await;
    assert_eq!(page.items.iter().map(|job| job.id).collect::<Vec<_>>(), ids);
    assert_eq!(page.next, None, "a page that holds all has no next one");
    assert!(page.items.iter().all(|job| job.payload.is_none() && job.result.is_none()), "lists are light");
}

pub async fn a_list_is_narrowed_by_status_lane_and_type(bench: &Bench) {
    let plain = bench.submit(bench.job()).await;
    let low = bench.submit(NewJob { lane: Lane::Low, ..bench.job() }).await;
    let other = bench.submit(NewJob { task_type: task_type("other"), ..bench.job() }).await;
    let later = bench.submit(NewJob { run_at: Some(bench.now().plus_millis(9)), ..bench.job() }).await;
    let by_status = |status| JobFilter { status: Some(status), ..JobFilter::default() };
    assert_eq!(listed(bench, by_status(JobStatus::Queued)).await, [other, low, plain]);
    assert_eq!(listed(bench, by_status(JobStatus::Pending)).await, [later]);
    assert_eq!(listed(bench, by_status(JobStatus::Dead)).await, []);
    assert_eq!(listed(bench, JobFilter { lane: Some(Lane::Low), ..JobFilter::default() }).await, [low]);
    let filter = JobFilter { task_type: Some(task_type("other")), ..JobFilter::default() };
    assert_eq!(listed(bench, filter).await, [other]);
    let filter = JobFilter { lane: Some(Lane::Low), task_type: Some(task_type("other")), ..JobFilter::default() };
    assert_eq!(listed(bench, filter).await, []);
}

/// By whom, with which label, in which words.
pub async fn a_list_is_narrowed_by_actor_label_and_text(bench: &Bench) {
    let plain = bench.submit(bench.job()).await;
    let ann =
        bench.submit(NewJob { origin: Origin { actor: "token:ann".into(), ..Origin::default() }, ..bench.job() }).await;
    let gpu = bench.submit(NewJob { requires: labels(&[("gpu", "a100"), ("zone", "eu")]), ..bench.job() }).await;
    let named = bench.submit(NewJob { keys: vec![bench::external_id("Order-17")], ..bench.job() }).await;
    let of = |filter: JobFilter| listed(bench, filter);
    let by = |actors: &[&str]| JobFilter {
        actors: Some(actors.iter().map(|&actor| actor.to_owned()).collect()),
        ..JobFilter::default()
    };
    assert_eq!(of(by(&["token:ann"])).await, [ann]);
    assert_eq!(of(by(&["service:ann", "token:ann"])).await, [ann]);
    assert_eq!(of(by(&["token:an", "nn", "ken:ann"])).await, [], "an actor is named whole");
    let label = |value: &str| JobFilter { label: Some(("gpu".to_owned(), value.to_owned())), ..JobFilter::default() };
    assert_eq!(of(label("a100")).await, [gpu]);
    assert_eq!(of(label("a10")).await, [], "a part of a value is not the value");
    let text = |text: &str| JobFilter { text: Some(text.to_owned()), ..JobFilter::default() };
    assert_eq!(of(text("ORDER-1")).await, [named]);
    assert_eq!(of(text("%")).await, [], "a text is no pattern");
    assert_eq!(of(JobFilter::default()).await, [named, gpu, ann, plain]);
}

pub async fn a_job_is_found_by_its_number_and_by_the_end_of_its_id(bench: &Bench) {
    use crate::JobRef;
    let ids = bench.submit_many(3).await;
    let resolve =
        async |job: JobRef| bench.ledger.resolve_job(bench.tenant, job).await.expect("the ledger can be read");
    for id in &ids {
        let number = bench.find(*id).await.0.number;
        assert_eq!(resolve(JobRef::Number(number)).await, [*id]);
        let whole = id.as_uuid().simple().to_string();
        assert_eq!(resolve(JobRef::Suffix(whole[20..].to_owned())).await, [*id]);
        let foreign = bench.ledger.resolve_job(bench.neighbour, JobRef::Number(number)).await;
        assert_eq!(foreign.expect("the ledger can be read"), []);
    }
    assert_eq!(resolve(JobRef::Number(999_999)).await, []);
    assert_eq!(resolve(JobRef::Suffix("zzzz".to_owned())).await, []);
    let mut all = ids.clone();
    all.sort_unstable_by_key(|id| std::cmp::Reverse(*id));
    assert_eq!(resolve(JobRef::Suffix(String::new())).await, all, "what fits several names them, newest first");
}

/// `created_after` is included, `created_before` is not; neither hides what lies beyond the first page.
pub async fn a_list_is_narrowed_by_time(bench: &Bench) {
    let mut ids = Vec::new();
    let start = bench.now();
    for _ in 0..7 {
        ids.push(bench.submit(bench.job()).await);
        bench.pass_ms(1_000);
    }
    let between = |from: i64, to: i64| JobFilter {
        created_after: Some(start.plus_millis(from)),
        created_before: Some(start.plus_millis(to)),
        ..JobFilter::default()
    };
    assert_eq!(listed(bench, between(0, 2_000)).await, [ids[1], ids[0]]);
    assert_eq!(listed(bench, between(2_000, 3_000)).await, [ids[2]]);
    assert_eq!(listed(bench, between(5_000, 99_000)).await, [ids[6], ids[5]]);
    assert_eq!(listed(bench, between(-9_000, 0)).await, []);
    let before = JobFilter { created_before: Some(start.plus_millis(1_000)), ..JobFilter::default() };
    assert_eq!(listed(bench, before).await, [ids[0]]);
}

pub async fn a_waiting_job_knows_how_many_are_ahead(bench: &Bench) {
    let first = bench.submit(bench.job()).await;
    let second = bench.submit(bench.job()).await;
    let urgent = bench.submit(NewJob { priority: 9, ..bench.job() }).await;
    let elsewhere = bench.submit(NewJob { lane: Lane::Low, ..bench.job() }).await;
    for (job, ahead) in [(urgent, 0), (first, 1), (second, 2), (elsewhere, 0)] {
        let facts = bench.ledger.waiting_facts(bench.tenant, job).await.expect("the ledger can be read");
        assert_eq!(facts.ahead, ahead);
    }
}

pub async fn the_lowest_and_the_highest_priority_are_priorities(bench: &Bench) {
    let mut wanted = Vec::new();
    for priority in [0, i16::MIN, i16::MAX, -1, 1] {
        let id = bench.submit(NewJob { priority, ..bench.job() }).await;
        assert_eq!(bench.find(id).await.0.priority, priority);
        wanted.push((std::cmp::Reverse(priority), id));
    }
    wanted.sort();
    let lowest = wanted[4].1;
    let facts = bench.ledger.waiting_facts(bench.tenant, lowest).await.expect("the ledger can be read");
    assert_eq!(facts.ahead, 4);
    for (_, id) in wanted {
        assert_eq!(bench.claim_one().await.job, id);
    }
}

/// Many callers at once; none gets another one's answer, none is forgotten.
pub async fn jobs_of_many_callers_are_all_kept(bench: &Bench) {
    let mut callers = JoinSet::new();
    for caller in 0..8 {
        let ledger = bench.ledger.clone();
        let jobs: Vec<NewJob> =
            (0..12).map(|n| NewJob { payload: format!("[{caller},{n}]").into(), ..bench.job() }).collect();
        callers.spawn(async move {
            for job in jobs {
                let answers = ledger.submit(vec![job.clone()]).await.expect("the ledger takes jobs");
                assert!(matches!(&answers[..], [Submitted::Accepted { id, .. }] if *id == job.id), "{answers:?}");
                let found = ledger.find_job(job.tenant, job.id).await.expect("the ledger can be read");
                let (found, _) = found.expect("what was accepted is there");
                assert_eq!(found.payload.as_deref(), Some(&*job.payload));
            }
        });
    }
    callers.join_all().await;
    let runs = bench.claim(Claimant { wants: 200, slots: 200, ..bench.worker("w1") }).await;
    assert_eq!(runs.iter().map(|run| run.payload.to_string()).collect::<BTreeSet<_>>().len(), 96);
}
