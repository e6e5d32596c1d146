//! Promises about the claim that waits in the ledger until there is something to take.

use bowline_model::JobStatus;

use super::bench::{Bench, job_ids};
use crate::{ClaimRules, Claimant, ClaimedRun, NewJob, StoreResult};

async fn standing(bench: &Bench, claimant: Claimant) -> StoreResult<Vec<ClaimedRun>> {
    let rules = ClaimRules { weights: Default::default(), strategy: Default::default() };
    bench.ledger.claim_when_queued(vec![claimant], rules).await
}

pub async fn it_takes_at_once_what_is_there(bench: &Bench) {
    let ids = bench.submit_many(3).await;
    let runs = standing(bench, bench.insider(10)).await.expect("the ledger hands out runs");
    assert_eq!(job_ids(&runs), ids);
}

/// One commit between a request and the start of its work.
pub async fn it_takes_what_is_queued_in_the_same_transaction(bench: &Bench) {
    for _ in 0..3 {
        let claim = standing(bench, bench.insider(10));
        let (runs, id) = tokio::join!(biased; claim, bench.submit(bench.job()));
        let runs = runs.expect("the ledger hands out runs");
        assert_eq!(job_ids(&runs), [id]);
        assert_eq!(bench.status(id).await, JobStatus::Running);
        let history = bench.history(id).await;
        assert_eq!(history.len(), 2);
        assert_eq!(history[0].0.epoch, history[1].0.epoch, "one transaction");
        bench.succeed(&runs[0]).await;
    }
    bench.nothing_to_claim().await;
}

pub async fn it_takes_what_becomes_due(bench: &Bench) {
    let id = bench.submit(NewJob { run_at: Some(bench.now().plus_millis(10)), ..bench.job() }).await;
    bench.pass_ms(11);
    let (runs, _) = tokio::join!(biased; standing(bench, bench.insider(10)), bench.promote());
    assert_eq!(job_ids(&runs.expect("the ledger hands out runs")), [id]);
}

pub async fn it_takes_no_more_than_it_wants(bench: &Bench) {
    let claim = standing(bench, bench.insider(2));
    let (runs, ids) = tokio::join!(biased; claim, bench.submit_many(5));
    assert_eq!(job_ids(&runs.expect("the ledger hands out runs")), ids[..2]);
    let rest = standing(bench, bench.insider(10)).await.expect("the ledger hands out runs");
    assert_eq!(job_ids(&rest), ids[2..]);
}

/// It waits on while others get what it cannot serve.
pub async fn it_is_not_answered_with_nothing(bench: &Bench) {
    let stranger = Claimant { abilities: super::bench::abilities(&["else.where"]), ..bench.insider(10) };
    let rest = async {
        bench.submit_many(2).await;
        assert_eq!(bench.claim(bench.insider(10)).await.len(), 2);
        bench.submit(NewJob { task_type: super::bench::task_type("else.where"), ..bench.job() }).await
    };
    let (runs, id) = tokio::join!(biased; standing(bench, stranger), rest);
    assert_eq!(job_ids(&runs.expect("the ledger hands out runs")), [id]);
}

/// In the same transaction, one line that is empty then and another one that is not.
pub async fn what_it_cannot_serve_is_there_for_others(bench: &Bench) {
    let other = || super::bench::task_type("else.where");
    let jobs = vec![bench.job(), NewJob { task_type: other(), ..bench.job() }];
    let (own, others) = (jobs[0].id, jobs[1].id);
    let (runs, _) = tokio::join!(biased; standing(bench, bench.insider(10)), bench.ask_all(jobs));
    assert_eq!(job_ids(&runs.expect("the ledger hands out runs")), [own]);
    let able = Claimant { abilities: super::bench::abilities(&["else.where"]), ..bench.insider(10) };
    assert_eq!(job_ids(&bench.claim(able).await), [others]);
}

pub async fn it_ends_when_it_is_withdrawn_or_another_comes(bench: &Bench) {
    let withdraw = async { bench.ledger.withdraw_claim() };
    let (runs, ()) = tokio::join!(biased; standing(bench, bench.insider(1)), withdraw);
    assert!(runs.expect("the ledger answers").is_empty());
    let second = async { tokio::join!(biased; standing(bench, bench.insider(1)), bench.submit(bench.job())) };
    let (first, (second, id)) = tokio::join!(biased; standing(bench, bench.insider(1)), second);
    assert!(first.expect("the ledger answers").is_empty());
    assert_eq!(job_ids(&second.expect("the ledger hands out runs")), [id]);
    bench.ledger.withdraw_claim();
}
