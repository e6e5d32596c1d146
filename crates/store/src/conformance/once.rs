//! Promises about requests under a key that make no job: carried out once, and answered again as the first time.

use bowline_model::fleet::Rollout;
use bowline_model::idempotency::RequestHash;
use bowline_model::{ErrorClass, JobStatus, Lane};
use tokio::task::JoinSet;

use super::bench::Bench;
use super::fleets::{host_name, inventory, spec};
use crate::{
    BlockAnswer, BlockedPlace, Closed, DeadLetterChoice, NewBlock, Once, OnceKey, OnceOutcome, OnceRequest,
    OrderAnswer, PruneMark, Retention,
};

fn key(name: &str, body: &str) -> OnceKey {
    OnceKey { key: name.to_owned(), hash: RequestHash::of_parts(&[body.as_bytes()]) }
}

impl Bench {
    async fn once(&self, key: OnceKey, request: OnceRequest) -> Once {
        self.ledger.carry_out_once(key, request).await.expect("the ledger takes requests")
    }

    fn replayed(&self, outcome: OnceOutcome) -> Once {
        Once::Replayed { outcome, by: "ann".to_owned(), at: self.now() }
    }
}

pub async fn a_retry_is_made_once_for_its_key(bench: &Bench) {
    let job = bench.dead(bench.job()).await;
    let retry = || OnceRequest::RetryJob(bench.order(job));
    let done = OnceOutcome::Retry(OrderAnswer::Done(JobStatus::Queued));
    assert_eq!(bench.once(key("k", "a"), retry()).await, Once::Done(done.clone()));
    let run = bench.claim_one().await;
    bench.succeed(&run).await;
    assert_eq!(bench.once(key("k", "a"), retry()).await, bench.replayed(done), "whatever became of it since");
    assert_eq!(bench.once(key("k", "b"), retry()).await, Once::KeyConflict);
    assert_eq!(bench.status(job).await, JobStatus::Succeeded);
    // A refusal is not remembered: it may be possible later.
    let refused = OnceOutcome::Retry(OrderAnswer::Finished(JobStatus::Succeeded));
    for _ in 0..2 {
        assert_eq!(bench.once(key("other", "a"), retry()).await, Once::Done(refused.clone()));
    }
}

/// The same for a command: of its hosts those are tried again that did not succeed, and not once more for a second request.
pub async fn a_command_is_tried_again_once_for_its_key(bench: &Bench) {
    bench.hosts(2).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    let runs = bench.begin().await;
    bench.succeed(&runs[0]).await;
    bench.fail(&runs[1], ErrorClass::Permanent).await;
    bench.conduct().await;
    let retry = || OnceRequest::RetryCommand(bench.order(job), None);
    let done = OnceOutcome::Retry(OrderAnswer::Done(JobStatus::Running));
    assert_eq!(bench.once(key("k", "a"), retry()).await, Once::Done(done.clone()));
    let runs = bench.begin().await;
    assert_eq!(runs.len(), 1);
    bench.fail(&runs[0], ErrorClass::Permanent).await;
    bench.conduct().await;
    assert_eq!(bench.once(key("k", "a"), retry()).await, bench.replayed(done), "whatever became of it since");
    assert_eq!(bench.once(key("k", "b"), retry()).await, Once::KeyConflict);
    assert_eq!(bench.status(job).await, JobStatus::Failed);
    assert!(bench.begin().await.is_empty());
}

pub async fn a_block_is_made_and_lifted_once_for_its_key(bench: &Bench) {
    bench.hosts(1).await;
    let block = || {
        OnceRequest::Block(NewBlock {
            tenant: bench.tenant,
            inventory: inventory(),
            place: BlockedPlace::Host(host_name("h0000")),
            command: None,
            reason: "disk".to_owned(),
            by: "ann".into(),
            expires_at: None,
        })
    };
    let Once::Done(made) = bench.once(key("k", "a"), block()).await else { panic!("it is made") };
    let OnceOutcome::Block(BlockAnswer::Made(id)) = made else { panic!("it is made") };
    assert_eq!(bench.once(key("k", "a"), block()).await, bench.replayed(made));
    assert_eq!(bench.once(key("k", "b"), block()).await, Once::KeyConflict);
    let blocks = bench.ledger.list_blocks(bench.tenant).await.expect("read");
    assert_eq!(blocks.iter().map(|block| block.id).collect::<Vec<_>>(), [id]);
    // The key of one operation is free for another.
    let (tenant, by) = (bench.tenant, "ann".into());
    let lift = OnceRequest::Unblock { tenant, block: id, by, reason: None };
    let lifted = OnceOutcome::Unblock(true);
    assert_eq!(bench.once(key("k", "c"), lift.clone()).await, Once::Done(lifted.clone()));
    assert_eq!(bench.once(key("k", "c"), lift.clone()).await, bench.replayed(lifted));
    assert_eq!(bench.once(key("k", "d"), lift.clone()).await, Once::KeyConflict);
    assert_eq!(bench.once(key("new", "c"), lift).await, Once::Done(OnceOutcome::Unblock(false)));
    assert!(bench.ledger.list_blocks(bench.tenant).await.expect("read").is_empty());
}

pub async fn dead_letters_are_closed_once_for_a_key(bench: &Bench) {
    for _ in 0..3 {
        bench.dead(bench.job()).await;
    }
    let oldest = || bench.about(DeadLetterChoice::Oldest(1));
    let Once::Done(first) = bench.once(key("k", "a"), OnceRequest::Replay(oldest())).await else { panic!("done") };
    assert!(matches!(&first, OnceOutcome::DeadLetters(closed) if matches!(closed[..], [Closed::Replayed { .. }])));
    bench.pass_ms(5);
    let again = bench.once(key("k", "a"), OnceRequest::Replay(oldest())).await;
    assert!(matches!(again, Once::Replayed { outcome, .. } if outcome == first), "not the next oldest");
    let purged = bench.once(key("k", "a"), OnceRequest::Purge(oldest())).await;
    assert!(
        matches!(purged, Once::Done(OnceOutcome::DeadLetters(closed)) if matches!(closed[..], [Closed::Purged { .. }]))
    );
    let again = bench.once(key("k", "a"), OnceRequest::Purge(oldest())).await;
    assert!(matches!(again, Once::Replayed { .. }));
    for other in [OnceRequest::Replay(oldest()), OnceRequest::Purge(oldest())] {
        assert_eq!(bench.once(key("k", "b"), other).await, Once::KeyConflict);
    }
    let open = bench.dead_letters().await.into_iter().filter(|letter| letter.closed_at.is_none()).count();
    assert_eq!(open, 1);
    // A neighbour's key is another key, and a key is new after its time.
    let elsewhere = crate::DeadLetterOrder { tenant: bench.neighbour, lane: Lane::Default, ..oldest() };
    let theirs = bench.once(key("k", "other"), OnceRequest::Replay(elsewhere)).await;
    assert_eq!(theirs, Once::Done(OnceOutcome::DeadLetters(Vec::new())));
    bench.pass_ms(Bench::KEY_TTL_MS);
    let day = Retention { finished_jobs_ms: 86_400_000_000, events_ms: 86_400_000_000 };
    bench.ledger.prune(day, PruneMark::default()).await.expect("the ledger can be pruned");
    let new = bench.once(key("k", "a"), OnceRequest::Replay(oldest())).await;
    assert!(matches!(new, Once::Done(_)));
}

pub async fn equal_requests_at_once_are_carried_out_once(bench: &Bench) {
    for _ in 0..8 {
        bench.dead(bench.job()).await;
    }
    let mut askers = JoinSet::new();
    for _ in 0..8 {
        let (ledger, order) = (bench.ledger.clone(), bench.about(DeadLetterChoice::Oldest(1)));
        askers.spawn(async move {
            loop {
                match ledger.carry_out_once(key("k", "a"), OnceRequest::Purge(order.clone())).await {
                    Ok(once) => return once,
                    Err(error) => assert!(matches!(error, crate::StoreError::Conflict(_)), "{error}"),
                }
            }
        });
    }
    let done = askers.join_all().await.into_iter().filter(|once| matches!(once, Once::Done(_))).count();
    assert_eq!(done, 1);
    let open = bench.dead_letters().await.into_iter().filter(|letter| letter.closed_at.is_none()).count();
    assert_eq!(open, 7);
}
