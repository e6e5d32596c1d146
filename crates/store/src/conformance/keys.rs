//! Promises about keys: asking twice is asking once (I1 to I7).

use bowline_model::idempotency::KeyScope;
use bowline_model::{JobId, JobStatus, Outcome};
use tokio::task::JoinSet;

use super::bench::{Bench, body, external_id, idempotency_key};
use crate::{Claimant, NewJob, PruneMark, Retention, Submitted};

fn accepted(answer: &Submitted) -> JobId {
    match answer {
        Submitted::Accepted { id, .. } => *id,
        other => panic!("it should be a new job, but the answer is {other:?}"),
    }
}

fn replayed(answer: &Submitted) -> JobId {
    match answer {
        Submitted::Replayed { id, .. } => *id,
        other => panic!("it should be a second ask, but the answer is {other:?}"),
    }
}

fn conflict(answer: &Submitted) -> (&str, JobId) {
    match answer {
        Submitted::Conflict { key, id } => (key, *id),
        other => panic!("it should be a conflict, but the answer is {other:?}"),
    }
}

/// How many jobs are waiting; every accepted one should, and no other.
async fn waiting(bench: &Bench) -> usize {
    bench.claim(Claimant { wants: 100, slots: 100, ..bench.worker("w1") }).await.len()
}

pub async fn equal_keys_and_bodies_are_one_job(bench: &Bench) {
    let first = bench.submit(bench.keyed("k", "one")).await;
    assert_eq!(replayed(&bench.ask(bench.keyed("k", "one")).await), first);
    assert_eq!(waiting(bench).await, 1);
}

pub async fn another_body_under_the_same_key_is_a_conflict(bench: &Bench) {
    let first = bench.submit(bench.keyed("k", "one")).await;
    assert_eq!(conflict(&bench.ask(bench.keyed("k", "two")).await), ("k", first));
    assert_eq!(replayed(&bench.ask(bench.keyed("k", "one")).await), first, "the first ask still stands");
    assert_eq!(waiting(bench).await, 1);
}

pub async fn another_key_is_another_job(bench: &Bench) {
    let first = bench.submit(bench.keyed("k", "one")).await;
    for key in ["l", "K", "k ", " k", "ḱ"] {
        assert_ne!(accepted(&bench.ask(bench.keyed(key, "one")).await), first);
    }
}

pub async fn an_external_id_is_a_key_too(bench: &Bench) {
    let ask = |text| NewJob { keys: vec![external_id("evt_1")], hash: body(text), ..bench.job() };
    let first = bench.submit(ask("one")).await;
    assert_eq!(replayed(&bench.ask(ask("one")).await), first);
    assert_eq!(conflict(&bench.ask(ask("two")).await), ("evt_1", first));
}

pub async fn the_two_sorts_of_keys_do_not_collide(bench: &Bench) {
    let by_key = bench.submit(bench.keyed("x", "one")).await;
    let by_id = bench.submit(NewJob { keys: vec![external_id("x")], hash: body("two"), ..bench.job() }).await;
    assert_ne!(by_key, by_id);
    assert_eq!(replayed(&bench.ask(bench.keyed("x", "one")).await), by_key);
}

pub async fn keys_belong_to_their_tenant(bench: &Bench) {
    let ours = bench.submit(bench.keyed("k", "one")).await;
    let theirs = NewJob { tenant: bench.neighbour, ..bench.keyed("k", "two") };
    assert_eq!(accepted(&bench.ask(theirs.clone()).await), theirs.id);
    assert_eq!(replayed(&bench.ask(bench.keyed("k", "one")).await), ours);
}

pub async fn keys_hold_inside_one_batch(bench: &Bench) {
    let jobs = vec![bench.keyed("k", "one"), bench.keyed("k", "one"), bench.keyed("k", "two"), bench.keyed("l", "one")];
    let (first, last) = (jobs[0].id, jobs[3].id);
    let answers = bench.ask_all(jobs).await;
    assert_eq!(accepted(&answers[0]), first);
    assert_eq!(replayed(&answers[1]), first);
    assert_eq!(conflict(&answers[2]), ("k", first));
    assert_eq!(accepted(&answers[3]), last);
    assert_eq!(waiting(bench).await, 2);
}

/// In a batch that holds a wrong body beside the right one, the right one is still a second ask.
pub async fn a_refused_body_hides_nobody_in_its_batch(bench: &Bench) {
    let first = bench.submit(bench.keyed("k", "one")).await;
    let answers = bench.ask_all(vec![bench.keyed("k", "two"), bench.keyed("k", "one"), bench.keyed("k", "two")]).await;
    assert_eq!(conflict(&answers[0]), ("k", first));
    assert_eq!(replayed(&answers[1]), first);
    assert_eq!(conflict(&answers[2]), ("k", first));
    assert_eq!(waiting(bench).await, 1);
}

pub async fn a_job_with_two_keys_is_found_by_either(bench: &Bench) {
    let both = NewJob { keys: vec![idempotency_key("k"), external_id("e")], ..bench.job() };
    let first = bench.submit(both.clone()).await;
    assert_eq!(replayed(&bench.ask(NewJob { id: bench.job_id(), ..both.clone() }).await), first);
    for key in both.keys.clone() {
        let ask = NewJob { id: bench.job_id(), keys: vec![key], ..both.clone() };
        assert_eq!(replayed(&bench.ask(ask).await), first);
    }
    assert_eq!(waiting(bench).await, 1);
}

/// A job that is refused because of one key does not keep the other.
pub async fn a_job_with_one_taken_key_leaves_the_other_free(bench: &Bench) {
    let first = bench.submit(bench.keyed("k", "one")).await;
    for taken_first in [true, false] {
        let mut keys = vec![idempotency_key("k"), external_id("e")];
        if !taken_first {
            keys.reverse();
        }
        let refused = NewJob { keys, hash: body("two"), ..bench.job() };
        assert_eq!(conflict(&bench.ask(refused).await), ("k", first), "the key that was taken is named");
    }
    let free = NewJob { keys: vec![external_id("e")], hash: body("two"), ..bench.job() };
    assert_eq!(accepted(&bench.ask(free.clone()).await), free.id);
    assert_eq!(waiting(bench).await, 2);
}

/// The same, when the taken key was taken a moment ago, in the same batch.
pub async fn a_refused_job_of_a_batch_leaves_its_other_key_free(bench: &Bench) {
    let winner = bench.keyed("k", "one");
    let second = NewJob { keys: vec![idempotency_key("k"), external_id("e")], hash: body("one"), ..bench.job() };
    let refused = NewJob { keys: vec![external_id("f"), idempotency_key("k")], hash: body("two"), ..bench.job() };
    let answers = bench.ask_all(vec![winner.clone(), second, refused]).await;
    assert_eq!(accepted(&answers[0]), winner.id);
    assert_eq!(replayed(&answers[1]), winner.id);
    assert_eq!(conflict(&answers[2]), ("k", winner.id));
    let free = NewJob { keys: vec![external_id("f")], hash: body("three"), ..bench.job() };
    assert_eq!(accepted(&bench.ask(free.clone()).await), free.id);
    let kept = NewJob { keys: vec![external_id("e")], hash: body("three"), ..bench.job() };
    assert_eq!(conflict(&bench.ask(kept).await), ("e", winner.id), "what came with a second ask belongs to its job");
    assert_eq!(waiting(bench).await, 2);
}

/// A key that only refused jobs of the batch wanted goes to the first one that is stored.
pub async fn a_key_nobody_kept_goes_to_the_next_in_the_batch(bench: &Bench) {
    let first = bench.submit(bench.keyed("k", "one")).await;
    let refused = NewJob { keys: vec![idempotency_key("k"), external_id("e")], hash: body("two"), ..bench.job() };
    let next = NewJob { keys: vec![external_id("e")], hash: body("three"), ..bench.job() };
    let same = NewJob { keys: vec![external_id("e")], hash: body("three"), ..bench.job() };
    let answers = bench.ask_all(vec![refused, next.clone(), same]).await;
    assert_eq!(conflict(&answers[0]), ("k", first));
    assert_eq!(accepted(&answers[1]), next.id);
    assert_eq!(replayed(&answers[2]), next.id);
    let again = NewJob { keys: vec![external_id("e")], hash: body("three"), ..bench.job() };
    assert_eq!(replayed(&bench.ask(again).await), next.id);
    assert_eq!(waiting(bench).await, 2);
}

pub async fn two_keys_of_two_jobs_are_a_conflict(bench: &Bench) {
    bench.submit(bench.keyed("k", "one")).await;
    bench.submit(NewJob { keys: vec![external_id("e")], hash: body("one"), ..bench.job() }).await;
    let both = NewJob { keys: vec![idempotency_key("k"), external_id("e")], hash: body("one"), ..bench.job() };
    conflict(&bench.ask(both).await);
    assert_eq!(waiting(bench).await, 2);
}

pub async fn many_askers_with_one_key_get_one_job(bench: &Bench) {
    let mut askers = JoinSet::new();
    for _ in 0..24 {
        let (ledger, job) = (bench.ledger.clone(), bench.keyed("k", "one"));
        askers.spawn(async move { ledger.submit(vec![job]).await.expect("the ledger takes jobs").remove(0) });
    }
    let answers = askers.join_all().await;
    let winners: Vec<JobId> =
        answers.iter().filter_map(|a| if let Submitted::Accepted { id, .. } = a { Some(*id) } else { None }).collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|a| matches!(a, Submitted::Replayed { id, .. } if *id == winners[0])).count(), 23);
    assert_eq!(waiting(bench).await, 1);
}

pub async fn a_key_is_new_after_its_time(bench: &Bench) {
    let first = bench.submit(bench.keyed("k", "one")).await;
    bench.pass_ms(Bench::KEY_TTL_MS - 1);
    assert_eq!(replayed(&bench.ask(bench.keyed("k", "one")).await), first);
    bench.pass_ms(1);
    let second = accepted(&bench.ask(bench.keyed("k", "two")).await);
    assert_ne!(second, first);
    assert_eq!(replayed(&bench.ask(bench.keyed("k", "two")).await), second);
    let record = bench.find(first).await.0;
    assert_eq!(record.idempotency_key.as_deref(), Some("k"), "the job still says which key it came with");
}

/// A second ask does not prolong a key.
pub async fn a_key_ages_from_the_first_ask(bench: &Bench) {
    let first = bench.submit(bench.keyed("k", "one")).await;
    bench.pass_ms(Bench::KEY_TTL_MS / 2);
    assert_eq!(replayed(&bench.ask(bench.keyed("k", "one")).await), first);
    bench.pass_ms(Bench::KEY_TTL_MS / 2);
    assert_ne!(accepted(&bench.ask(bench.keyed("k", "one")).await), first);
}

/// One of two keys is known, the other one is free: it is the same ask, and both name its job from then on.
pub async fn a_free_key_beside_a_known_one_belongs_to_the_same_job(bench: &Bench) {
    for known in [idempotency_key("k"), external_id("e")] {
        let free = if known.0 == KeyScope::External { idempotency_key("k2") } else { external_id("e2") };
        let ask = |keys| NewJob { keys, hash: body("one"), ..bench.job() };
        let first = accepted(&bench.ask(ask(vec![known.clone()])).await);
        assert_eq!(replayed(&bench.ask(ask(vec![known, free.clone()])).await), first);
        assert_eq!(replayed(&bench.ask(ask(vec![free])).await), first, "it makes no second job");
    }
    assert_eq!(waiting(bench).await, 2);
}

/// An external id belongs to its job for ever, also after the time of keys, and after the job itself.
pub async fn an_external_id_outlives_its_job(bench: &Bench) {
    let job = NewJob { keys: vec![external_id("e"), idempotency_key("k")], ..bench.job() };
    let run = bench.running(job.clone()).await;
    bench.succeed(&run).await;
    bench.pass_ms(Bench::KEY_TTL_MS + 1);
    let again = || NewJob { id: bench.job_id(), ..job.clone() };
    assert_eq!(replayed(&bench.ask(again()).await), run.job, "its key is forgotten, its id is not");
    let retention = Retention { finished_jobs_ms: 500, events_ms: 500 };
    bench.ledger.prune(retention, PruneMark::default()).await.expect("the ledger can be pruned");
    bench.pass_ms(10 * Bench::KEY_TTL_MS);
    bench.ledger.prune(retention, PruneMark::default()).await.expect("the ledger can be pruned");
    match bench.ask(again()).await {
        Submitted::Pruned { id, number, status, .. } => {
            assert_eq!((id, status), (run.job, Some(JobStatus::Succeeded)));
            assert!(number > 0);
        }
        other => panic!("a late redelivery gets the old job, but the answer is {other:?}"),
    }
    // The same for whoever looks the id up before anything else is checked.
    let find = async |hash| {
        let found = bench.ledger.find_asked(bench.tenant, KeyScope::External, "e".to_owned(), hash).await;
        found.expect("it can be read").expect("the id belongs to its job for ever")
    };
    match find(job.hash).await {
        Submitted::Pruned { id, number, status, .. } => {
            assert_eq!((id, status), (run.job, Some(JobStatus::Succeeded)));
            assert!(number > 0);
        }
        other => panic!("the old job is found, but the answer is {other:?}"),
    }
    assert_eq!(conflict(&find(body("another")).await), ("e", run.job));
    let other = NewJob { hash: body("another"), ..again() };
    assert_eq!(conflict(&bench.ask(other).await), ("e", run.job));
    assert_eq!(waiting(bench).await, 0, "nothing runs again");
}

/// Retention may be shorter than the memory for keys. An idempotency key never names a job that is gone.
pub async fn the_keys_of_a_removed_job_go_with_it(bench: &Bench) {
    let job = NewJob { keys: vec![idempotency_key("k")], ..bench.job() };
    let run = bench.running(job.clone()).await;
    bench.report(bench.report_of(&run, Outcome::Succeeded)).await;
    bench.pass_ms(1_000);
    let retention = Retention { finished_jobs_ms: 500, events_ms: 500 };
    let pruned = bench.ledger.prune(retention, PruneMark::default()).await.expect("the ledger can be pruned");
    assert_eq!(pruned.jobs, 1);
    let again = NewJob { id: bench.job_id(), ..job };
    let answer = bench.ask(again.clone()).await;
    assert_eq!(accepted(&answer), again.id);
    assert_eq!(bench.status(again.id).await, JobStatus::Queued);
}

/// The same for keys that later requests gave to a job: they go, or remember it, like those that it came with.
pub async fn the_keys_that_a_removed_job_was_given_later_go_with_it(bench: &Bench) {
    let with = |keys| NewJob { keys, ..bench.job() };
    let run = bench.running(with(vec![external_id("e")])).await;
    let neighbours = NewJob { tenant: bench.neighbour, ..with(vec![external_id("e2"), idempotency_key("k")]) };
    accepted(&bench.ask(neighbours.clone()).await);
    for later in [vec![external_id("e"), idempotency_key("k")], vec![idempotency_key("k"), external_id("e2")]] {
        assert_eq!(replayed(&bench.ask(with(later)).await), run.job);
    }
    let number = bench.find(run.job).await.0.number;
    bench.succeed(&run).await;
    bench.pass_ms(1_000);
    let retention = Retention { finished_jobs_ms: 500, events_ms: 500 };
    assert_eq!(bench.ledger.prune(retention, PruneMark::default()).await.expect("the ledger can be pruned").jobs, 1);

    let new = with(vec![idempotency_key("k")]);
    assert_eq!(accepted(&bench.ask(new.clone()).await), new.id, "the idempotency key is free");
    // The last ones are given to the job now that it is gone.
    let asked = [
        vec![external_id("e")],
        vec![external_id("e2")],
        vec![external_id("e2"), idempotency_key("k2")],
        vec![idempotency_key("k2"), external_id("e3")],
        vec![external_id("e3")],
    ];
    for keys in asked {
        match bench.ask(with(keys.clone())).await {
            Submitted::Pruned { id, number: was, status, .. } => {
                assert_eq!((id, was, status), (run.job, number, Some(JobStatus::Succeeded)), "{keys:?}");
            }
            other => panic!("{keys:?} remember their job, but the answer is {other:?}"),
        }
    }
    let again = NewJob { id: bench.job_id(), ..neighbours.clone() };
    assert_eq!(replayed(&bench.ask(again).await), neighbours.id, "another tenant's keys stay");
}

/// Keys are the callers' own words; a key is compared as it is, never as a pattern.
pub async fn any_text_can_be_a_key(bench: &Bench) {
    for key in ["%", "_", "'; drop table job; --", "\"", "\\", "🗝", "a\nb", &"k".repeat(255)] {
        for scope in [KeyScope::Idempotency, KeyScope::External] {
            let ask = || NewJob { keys: vec![(scope, key.to_owned())], hash: body(key), ..bench.job() };
            let first = accepted(&bench.ask(ask()).await);
            assert_eq!(replayed(&bench.ask(ask()).await), first, "{key:?}");
        }
    }
}

/// Whoever looks for what was asked under a key finds their own, of that scope, and hears if it was something else.
pub async fn what_was_asked_under_a_key_is_found_by_tenant_and_scope(bench: &Bench) {
    let ask = NewJob { keys: vec![(KeyScope::Idempotency, "order-1".to_owned())], hash: body("a"), ..bench.job() };
    let job = accepted(&bench.ask(ask).await);
    let find = async |tenant, scope, hash| {
        bench.ledger.find_asked(tenant, scope, "order-1".to_owned(), hash).await.expect("it can be read")
    };
    let found = find(bench.tenant, KeyScope::Idempotency, body("a")).await.expect("it was asked");
    assert_eq!(replayed(&found), job);
    assert_eq!(find(bench.neighbour, KeyScope::Idempotency, body("a")).await, None, "another tenant's key");
    assert_eq!(find(bench.tenant, KeyScope::External, body("a")).await, None, "a key of another scope");
    let other = find(bench.tenant, KeyScope::Idempotency, body("b")).await;
    assert_eq!(other, Some(crate::Submitted::Conflict { key: "order-1".to_owned(), id: job }));
    bench.pass_ms(Bench::KEY_TTL_MS);
    assert_eq!(find(bench.tenant, KeyScope::Idempotency, body("a")).await, None, "after its time a key is new");
}
