//! Promises about tenants: no question, order or report reaches over the wall (C11, T1 to T3).

use bowline_model::{JobStatus, Lane};

use super::bench::{Bench, worker_name};
use super::tokens::{revoke_all, token};
use super::workers::registration;
use crate::{
    Closed, DeadLetterChoice, DeadLetterOrder, EventFilter, JobFilter, JobOrder, NewJob, OrderAnswer, Submitted,
    WaitingFacts,
};

pub async fn no_question_shows_a_neighbours_jobs(bench: &Bench) {
    bench.submit(bench.job()).await;
    let waiting = bench.submit(bench.job()).await;
    let ledger = &bench.ledger;
    let read = "the ledger can be read";
    assert_eq!(ledger.find_job(bench.neighbour, waiting).await.expect(read), None);
    let page = ledger.list_jobs(bench.neighbour, JobFilter::default(), None, 10).await.expect(read);
    assert_eq!((page.items, page.next), (Vec::new(), None));
    let page = ledger.list_jobs(bench.neighbour, JobFilter::default(), Some(waiting), 10).await.expect(read);
    assert_eq!((page.items, page.next), (Vec::new(), None), "not by a cursor either");
    assert_eq!(ledger.waiting_facts(bench.neighbour, waiting).await.expect(read), WaitingFacts::default());
    assert!(ledger.job_events(bench.neighbour, waiting, None, 10).await.expect(read).is_none());
    for depth in ledger.lane_depths(Some(bench.neighbour)).await.expect(read) {
        assert_eq!((depth.queued, depth.scheduled, depth.running, depth.dead), (0, 0, 0, 0));
    }
}

pub async fn no_question_shows_a_neighbours_events(bench: &Bench) {
    let ours = bench.submit(bench.job()).await;
    bench.submit(NewJob { tenant: bench.neighbour, ..bench.job() }).await;
    bench.stream(EventFilter::default(), 2).await;
    let filter = EventFilter { tenant: Some(bench.neighbour), ..EventFilter::default() };
    let theirs = bench.stream(filter.clone(), 1).await;
    assert_eq!(theirs.len(), 1);
    assert!(theirs.iter().all(|(_, event)| event.tenant == bench.neighbour));
    assert_eq!(bench.stream(EventFilter { job: Some(ours), ..filter }, 0).await, [], "filters narrow, never widen");
}

pub async fn no_question_shows_a_neighbours_dead_letters(bench: &Bench) {
    bench.dead(bench.job()).await;
    let page = bench.ledger.list_dead_letters(bench.neighbour, Lane::Default, None, None, 10).await;
    let page = page.expect("the ledger can be read");
    assert_eq!((page.items, page.next), (Vec::new(), None));
}

pub async fn no_question_shows_a_neighbours_workers_and_tokens(bench: &Bench) {
    let read = "the ledger can be read";
    bench.ledger.register_worker(registration(bench, "w1")).await.expect("the ledger takes workers");
    bench.ledger.create_token(token(bench, "t1"), "ann".into()).await.expect("the ledger takes tokens");
    assert_eq!(bench.ledger.find_worker(bench.neighbour, worker_name("w1")).await.expect(read), None);
    assert_eq!(bench.ledger.list_workers(bench.neighbour).await.expect(read), []);
    assert_eq!(bench.ledger.list_tokens(Some(bench.neighbour)).await.expect(read), []);
}

pub async fn no_order_reaches_a_neighbours_job(bench: &Bench) {
    let waiting = bench.submit(bench.job()).await;
    let order = JobOrder { tenant: bench.neighbour, ..bench.order(waiting) };
    let answer = bench.ledger.cancel_job(order).await.expect("the ledger takes orders");
    assert_eq!(answer, OrderAnswer::NotFound);
    assert_eq!(bench.status(waiting).await, JobStatus::Queued);
    bench.claim_one().await;

    let dead = bench.dead(bench.job()).await;
    let order = JobOrder { tenant: bench.neighbour, ..bench.order(dead) };
    let answer = bench.ledger.retry_job(order).await.expect("the ledger takes orders");
    assert_eq!(answer, OrderAnswer::NotFound);
    let order = |choice| DeadLetterOrder { tenant: bench.neighbour, ..bench.about(choice) };
    for choice in [DeadLetterChoice::Jobs(vec![dead]), DeadLetterChoice::Oldest(9)] {
        let by_name = matches!(choice, DeadLetterChoice::Jobs(_));
        let wanted = if by_name { vec![Closed::NotFound { job: dead }] } else { Vec::new() };
        let closed = bench.ledger.replay_dead_letters(order(choice.clone())).await.expect("the ledger takes orders");
        assert_eq!(closed, wanted);
        let closed = bench.ledger.purge_dead_letters(order(choice)).await.expect("the ledger takes orders");
        assert_eq!(closed, wanted);
    }
    assert_eq!(bench.status(dead).await, JobStatus::Dead);
    bench.nothing_to_claim().await;
}

pub async fn no_order_reaches_a_neighbours_worker_or_token(bench: &Bench) {
    bench.ledger.register_worker(registration(bench, "w1")).await.expect("the ledger takes workers");
    bench.ledger.create_token(token(bench, "t1"), "ann".into()).await.expect("the ledger takes tokens");
    let drained = bench.ledger.drain_worker(bench.neighbour, worker_name("w1"), true, "eve".into()).await;
    assert!(!drained.expect("the ledger takes orders"));
    assert_eq!(revoke_all(bench, "t1", Some(bench.neighbour), true).await, None);
    let worker = bench.ledger.find_worker(bench.tenant, worker_name("w1")).await.expect("the ledger can be read");
    assert!(!worker.expect("the worker is there").draining);
    let token = bench.ledger.find_token("t1".to_owned()).await.expect("the ledger can be read");
    assert_eq!(token.expect("the token is there").revoked_at, None);
}

/// Ids are made by callers. One that a neighbour uses too is another job.
pub async fn an_id_that_a_neighbour_uses_too_is_another_job(bench: &Bench) {
    let ours = NewJob { payload: "1".into(), ..bench.job() };
    let theirs = NewJob { tenant: bench.neighbour, payload: "2".into(), ..ours.clone() };
    let answers = bench.ask_all(vec![ours.clone(), theirs.clone()]).await;
    assert!(answers.iter().all(|a| matches!(a, Submitted::Accepted { id, .. } if *id == ours.id)), "{answers:?}");
    for (tenant, payload) in [(bench.tenant, "1"), (bench.neighbour, "2")] {
        let found = bench.ledger.find_job(tenant, ours.id).await.expect("the ledger can be read");
        assert_eq!(found.expect("the job is there").0.payload.as_deref(), Some(payload));
    }
    let answers = bench.ask_all(vec![theirs, ours.clone()]).await;
    let numbers: Vec<i64> =
        answers.iter().map(|a| if let Submitted::Replayed { number, .. } = a { *number } else { 0 }).collect();
    let found = bench.find(ours.id).await.0;
    assert_eq!(numbers[1], found.number, "each is answered with its own");
    assert_ne!(numbers[0], numbers[1]);
}
