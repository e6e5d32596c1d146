//! Promises about dead letters: what is hopeless is kept with its reason, and closed once (D1 to D7).

use std::collections::BTreeSet;

use bowline_model::dead_letter::DeadLetterStatus;
use bowline_model::{ErrorClass, EventKind, JobId, JobStatus, Lane, Outcome, RunError};
use tokio::task::JoinSet;

use super::bench::{Bench, attempts, labels, task_type};
use crate::{Claimant, Closed, DeadLetterChoice, NewJob, OrderAnswer, RunReport};

fn replayed(closed: &Closed) -> JobId {
    match closed {
        Closed::Replayed { new_job, .. } => *new_job,
        other => panic!("it should be replayed, but the answer is {other:?}"),
    }
}

pub async fn a_dead_job_lies_in_its_lane(bench: &Bench) {
    let mut run = None;
    for lane in [Lane::Low, Lane::Default] {
        run = Some(bench.running(NewJob { lane, task_type: task_type("mail.send"), ..bench.job() }).await);
        let run = run.as_ref().expect("it was just made");
        let error = RunError::new(ErrorClass::Permanent, format!("no {lane} mailbox"));
        bench.pass_ms(10);
        let report = bench.report_of(run, Outcome::Failed(ErrorClass::Permanent));
        bench.report(RunReport { error: Some(error), ..report }).await;
    }
    let run = run.expect("it was just made");
    let letters = bench.dead_letters().await;
    assert_eq!(letters.len(), 1, "the other lane has its own");
    let letter = &letters[0];
    assert_eq!((letter.job, letter.lane, &letter.task_type), (run.job, Lane::Default, &run.task_type));
    assert_eq!(letter.number, bench.find(run.job).await.0.number);
    assert_eq!((letter.at, letter.status, letter.attempts), (bench.now(), DeadLetterStatus::Open, 1));
    assert_eq!((letter.class, letter.error.as_deref()), (Some(ErrorClass::Permanent), Some("no default mailbox")));
    assert_eq!(
        (&letter.closed_at, &letter.closed_by, &letter.reason, &letter.replayed_as),
        (&None, &None, &None, &None)
    );
}

pub async fn dead_letters_are_listed_newest_first_in_pages(bench: &Bench) {
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(bench.dead(bench.job()).await);
    }
    ids.reverse();
    bench.purge(ids[2]).await;
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = bench.ledger.list_dead_letters(bench.tenant, Lane::Default, None, before, 2).await;
        let page = page.expect("the ledger can be read");
        assert!(page.items.len() <= 2);
        seen.extend(page.items.iter().map(|letter| letter.job));
        match page.next {
            Some(next) => before = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, ids);
    for (status, wanted) in
        [(DeadLetterStatus::Open, 4), (DeadLetterStatus::Purged, 1), (DeadLetterStatus::Replayed, 0)]
    {
        let page = bench.ledger.list_dead_letters(bench.tenant, Lane::Default, Some(status), None, 10).await;
        assert_eq!(page.expect("the ledger can be read").items.len(), wanted, "{status:?}");
    }
}

/// D2, D3.
pub async fn a_replay_makes_one_new_job_of_the_old_one(bench: &Bench) {
    let mut job = NewJob {
        requires: labels(&[("zone", "eu")]),
        priority: 3,
        payload: "{ \"n\": 12345678901234567890 }".into(),
        policy: attempts(1),
        keys: vec![super::bench::idempotency_key("k")],
        ..bench.job()
    };
    job.origin.trace_id = Some("4bf92f3577b34da6a3ce929d0e0e4736".into());
    job.origin.correlation_id = Some("cart-9".into());
    let old = bench.submit(job.clone()).await;
    let able = Claimant {
        abilities: std::sync::Arc::new(bowline_model::worker::Abilities {
            task_types: [job.task_type.clone()].into(),
            labels: job.requires.clone(),
        }),
        ..bench.worker("w1")
    };
    let run = bench.claim(able.clone()).await.remove(0);
    bench.fail(&run, ErrorClass::Transient).await;
    bench.pass_ms(5_000);

    let new = replayed(&bench.replay(old).await);
    assert_ne!(new, old);
    let (made, runs) = bench.find(new).await;
    assert_eq!((made.state.status, made.state.attempts, runs.len()), (JobStatus::Queued, 0, 0));
    assert_eq!((made.replay_of, made.created_at), (Some(old), bench.now()));
    let (_, first) = bench.history(new).await.remove(0);
    assert_eq!((first.kind, first.data.job_id), (EventKind::JobEnqueued, Some(old)));
    assert_eq!((made.lane, &made.task_type, &made.requires), (job.lane, &job.task_type, &job.requires));
    assert_eq!((made.priority, made.payload.as_deref()), (job.priority, Some(&*job.payload)));
    assert_eq!(Some(made.policy), job.policy.as_deref().cloned());
    assert_eq!(
        (&made.origin.trace_id, &made.origin.correlation_id),
        (&job.origin.trace_id, &job.origin.correlation_id)
    );
    assert_eq!((&*made.origin.actor, made.idempotency_key), ("ann", None), "the key stays with the first ask");

    let letter = bench.dead_letters().await.remove(0);
    assert_eq!((letter.job, letter.status, letter.replayed_as), (old, DeadLetterStatus::Replayed, Some(new)));
    assert_eq!((letter.closed_by.as_deref(), letter.closed_at), (Some("ann"), Some(bench.now())));
    assert_eq!(letter.reason.as_deref(), Some("the mail server is back"));
    assert_eq!(bench.status(old).await, JobStatus::Dead, "history is not rewritten");
    let told = bench.history(old).await;
    let (_, last) = told.last().expect("it was told");
    assert_eq!((last.kind, last.data.job_id), (EventKind::JobReplayed, Some(new)));
    assert_eq!(*bench.claim(able).await.remove(0).payload, *job.payload);
}

pub async fn whoever_closes_second_is_told_what_the_first_did(bench: &Bench) {
    let old = bench.dead(bench.job()).await;
    let new = replayed(&bench.replay(old).await);
    let already = Closed::Already { job: old, status: DeadLetterStatus::Replayed, new_job: Some(new) };
    assert_eq!(bench.replay(old).await, already);
    assert_eq!(bench.purge(old).await, already);
    assert_eq!(bench.claim_one().await.job, new);
    let other = bench.dead(bench.job()).await;
    assert_eq!(bench.purge(other).await, Closed::Purged { job: other });
    let already = Closed::Already { job: other, status: DeadLetterStatus::Purged, new_job: None };
    assert_eq!(bench.replay(other).await, already);
    assert_eq!(bench.purge(other).await, already);
    bench.nothing_to_claim().await;
}

pub async fn replays_at_once_make_one_job(bench: &Bench) {
    let old = bench.dead(bench.job()).await;
    let mut people = JoinSet::new();
    for n in 0..8 {
        let ledger = bench.ledger.clone();
        let choice = if n % 2 == 0 { DeadLetterChoice::Jobs(vec![old]) } else { DeadLetterChoice::Oldest(5) };
        let order = bench.about(choice);
        people.spawn(async move { ledger.replay_dead_letters(order).await.expect("the ledger takes orders") });
    }
    let closed: Vec<Closed> = people.join_all().await.into_iter().flatten().collect();
    let made: BTreeSet<JobId> = closed
        .iter()
        .filter_map(|c| match c {
            Closed::Replayed { new_job, .. } => Some(*new_job),
            Closed::Already { new_job, .. } => *new_job,
            _ => None,
        })
        .collect();
    let first = closed.iter().filter(|c| matches!(c, Closed::Replayed { .. })).count();
    assert_eq!((first, made.len()), (1, 1), "{closed:?}");
    assert_eq!(bench.claim(Claimant { wants: 9, ..bench.worker("w1") }).await.len(), 1);
}

pub async fn one_order_that_names_a_job_twice_makes_one_job(bench: &Bench) {
    let (one, two) = (bench.dead(bench.job()).await, bench.dead(bench.job()).await);
    let order = bench.about(DeadLetterChoice::Jobs(vec![one, two, one]));
    let closed = bench.ledger.replay_dead_letters(order).await.expect("the ledger takes orders");
    let made: Vec<&Closed> = closed.iter().filter(|c| matches!(c, Closed::Replayed { .. })).collect();
    assert_eq!(made.len(), 2, "{closed:?}");
    assert_eq!(bench.claim(Claimant { wants: 9, ..bench.worker("w1") }).await.len(), 2);
}

/// D4, D5.
pub async fn a_purge_keeps_who_and_why(bench: &Bench) {
    let old = bench.dead(bench.job()).await;
    bench.pass_ms(10);
    assert_eq!(bench.purge(old).await, Closed::Purged { job: old });
    let letter = bench.dead_letters().await.remove(0);
    assert_eq!((letter.status, letter.closed_by.as_deref()), (DeadLetterStatus::Purged, Some("ann")));
    assert_eq!((letter.reason.as_deref(), letter.closed_at), (Some("the mail server is back"), Some(bench.now())));
    let told = bench.history(old).await;
    let (_, last) = told.last().expect("it was told");
    assert_eq!((last.kind, last.data.reason.as_deref()), (EventKind::DeadLetterPurged, letter.reason.as_deref()));
    bench.nothing_to_claim().await;
}

pub async fn the_oldest_are_chosen_first(bench: &Bench) {
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(bench.dead(bench.job()).await);
    }
    let purged = bench.ledger.purge_dead_letters(bench.about(DeadLetterChoice::Oldest(2))).await;
    let wanted = [Closed::Purged { job: ids[0] }, Closed::Purged { job: ids[1] }];
    assert_eq!(purged.expect("the ledger takes orders"), wanted);
    let replayed = bench.ledger.replay_dead_letters(bench.about(DeadLetterChoice::Oldest(9))).await;
    let replayed = replayed.expect("the ledger takes orders");
    assert!(
        matches!(&replayed[..], [Closed::Replayed { job: a, .. }, Closed::Replayed { job: b, .. }]
            if (*a, *b) == (ids[2], ids[3])),
        "{replayed:?}"
    );
    let nothing = bench.ledger.replay_dead_letters(bench.about(DeadLetterChoice::Oldest(9))).await;
    assert_eq!(nothing.expect("the ledger takes orders"), []);
}

pub async fn a_job_without_a_dead_letter_is_not_found(bench: &Bench) {
    let queued = bench.submit(bench.job()).await;
    assert_eq!(bench.replay(queued).await, Closed::NotFound { job: queued });
    let nobody = JobId::mint(bench.now(), [9; 10]);
    assert_eq!(bench.purge(nobody).await, Closed::NotFound { job: nobody });
    bench.claim_one().await;
    let dead = bench.dead(bench.job()).await;
    let mut order = bench.about(DeadLetterChoice::Jobs(vec![dead]));
    order.lane = Lane::Critical;
    let closed = bench.ledger.replay_dead_letters(order).await.expect("the ledger takes orders");
    assert_eq!(closed, [Closed::NotFound { job: dead }], "it lies in another lane");
}

pub async fn a_job_that_dies_again_lies_there_again(bench: &Bench) {
    let id = bench.dead(bench.job()).await;
    assert_eq!(bench.retry(id).await, OrderAnswer::Done(JobStatus::Queued));
    let already = Closed::Already { job: id, status: DeadLetterStatus::Retried, new_job: None };
    assert_eq!(bench.replay(id).await, already, "while it is tried again there is nothing to replay");
    let run = bench.start_one().await;
    bench.fail(&run, ErrorClass::Permanent).await;
    let statuses: Vec<_> = bench.dead_letters().await.iter().map(|letter| letter.status).collect();
    assert_eq!(statuses, [DeadLetterStatus::Open, DeadLetterStatus::Retried]);
    replayed(&bench.replay(id).await);
}

/// A replayed job that dies has a dead letter of its own.
pub async fn a_replayed_job_that_dies_can_be_replayed_again(bench: &Bench) {
    let first = bench.dead(bench.job()).await;
    let second = replayed(&bench.replay(first).await);
    let run = bench.start_one().await;
    assert_eq!(run.job, second);
    bench.fail(&run, ErrorClass::Permanent).await;
    let third = replayed(&bench.replay(second).await);
    assert_eq!(bench.find(third).await.0.replay_of, Some(second));
}

/// An order about one lane leaves the dead letters of all others alone, by name and by age.
pub async fn a_purge_closes_nothing_in_another_lane(bench: &Bench) {
    let dead = bench.dead(NewJob { lane: Lane::Default, ..bench.job() }).await;
    for choice in [DeadLetterChoice::Oldest(10), DeadLetterChoice::Jobs(vec![dead])] {
        let order = crate::DeadLetterOrder { lane: Lane::Low, ..bench.about(choice.clone()) };
        let closed = bench.ledger.purge_dead_letters(order).await.expect("the ledger takes orders");
        assert!(!closed.iter().any(|closed| matches!(closed, Closed::Purged { .. })), "{choice:?}: {closed:?}");
    }
    assert_eq!(bench.dead_letters().await.len(), 1, "it is still open");
    assert_eq!(bench.purge(dead).await, Closed::Purged { job: dead }, "its own lane closes it");
}
