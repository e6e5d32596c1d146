//! Promises about approval: nothing runs before enough people said yes, to exactly what will run.

use std::sync::Arc;

use bowline_model::fleet::{ApprovalRefused, ApprovalState, Decided, Rollout};
use bowline_model::idempotency::RequestHash;
use bowline_model::{EventKind, JobId, JobStatus};
use tokio::task::JoinSet;

use super::bench::{Bench, body};
use super::fleets::spec;
use crate::{ApprovalAnswer, ApprovalOrder, NewApproval, NewFleet, NewJob, OrderAnswer, Origin};

fn hash() -> RequestHash {
    body("what will run")
}

/// A command on two hosts that ann asked for.
async fn asked(bench: &Bench, approval: NewApproval) -> JobId {
    bench.hosts(2).await;
    let mut wish = bench.command(spec(), Rollout::default()).await;
    let fleet = wish.fleet.as_deref().cloned().expect("a command");
    wish.fleet = Some(Arc::new(NewFleet { approval: Some(approval), ..fleet }));
    let origin = Origin { actor: "ann".into(), ..wish.origin.clone() };
    bench.submit(NewJob { origin, ..wish }).await
}

fn rule(quorum: u32, four_eyes: bool) -> NewApproval {
    NewApproval { hash: hash(), quorum, four_eyes, expires_ms: 60_000 }
}

pub(super) fn vote(bench: &Bench, job: JobId, by: &str, yes: bool) -> ApprovalOrder {
    let reason = Some(format!("says {by}"));
    ApprovalOrder { tenant: bench.tenant, job, by: by.into(), yes, reason, seen: None, current: hash() }
}

/// A command that waits for one yes.
pub(super) async fn waiting(bench: &Bench) -> JobId {
    asked(bench, rule(1, false)).await
}

async fn decide(bench: &Bench, order: ApprovalOrder) -> ApprovalAnswer {
    bench.ledger.decide(order).await.expect("the ledger takes decisions")
}

async fn state(bench: &Bench, job: JobId) -> ApprovalState {
    bench.fleet(job).await.approval.expect("it needs approval").state
}

/// A1.
pub async fn nothing_runs_before_it_is_approved(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    assert_eq!(bench.status(job).await, JobStatus::AwaitingApproval);
    assert!(bench.begin().await.is_empty());
    assert_eq!(bench.fleet(job).await.planned, 0);
    let waiting = bench.ledger.list_approvals(bench.tenant, None, 10).await.expect("read").items;
    assert_eq!((waiting.len(), waiting[0].job, waiting[0].hosts), (1, job, 2));
    let answer = decide(bench, vote(bench, job, "bob", true)).await;
    assert_eq!(answer, ApprovalAnswer::Decided(Decided::Approved, JobStatus::Pending));
    bench.promote().await;
    assert_eq!(bench.begin().await.len(), 2);
    assert!(bench.ledger.list_approvals(bench.tenant, None, 10).await.expect("read").items.is_empty());
    let record = bench.fleet(job).await.approval.expect("it is remembered");
    assert_eq!((record.state, record.votes.len(), record.votes[0].by.as_str()), (ApprovalState::Approved, 1, "bob"));
}

/// A6.
pub async fn a_rejected_command_never_runs(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    let answer = decide(bench, vote(bench, job, "bob", false)).await;
    assert_eq!(answer, ApprovalAnswer::Decided(Decided::Rejected, JobStatus::Canceled));
    assert_eq!(bench.retry(job).await, OrderAnswer::NotFrom(JobStatus::Canceled), "whoever wants it again");
    assert!(bench.begin().await.is_empty());
    assert!(bench.kinds(job).await.contains(&EventKind::JobRejected));
}

/// A4.
pub async fn the_first_decision_wins(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    let mut people = JoinSet::new();
    for n in 0..8 {
        let (ledger, order) = (bench.ledger.clone(), vote(bench, job, &format!("p{n}"), n % 2 == 0));
        people.spawn(async move { ledger.decide(order).await.expect("the ledger takes decisions") });
    }
    let answers = people.join_all().await;
    let decided = answers.iter().filter(|answer| matches!(answer, ApprovalAnswer::Decided(..))).count();
    assert_eq!(decided, 1, "{answers:?}");
    let refused = |a: &&ApprovalAnswer| matches!(a, ApprovalAnswer::Refused(ApprovalRefused::NotWaiting(_)));
    assert_eq!(answers.iter().filter(refused).count(), 7);
}

/// A3.
pub async fn whoever_asked_cannot_approve_under_four_eyes(bench: &Bench) {
    let job = asked(bench, rule(1, true)).await;
    let own = decide(bench, vote(bench, job, "ann", true)).await;
    assert_eq!(own, ApprovalAnswer::Refused(ApprovalRefused::OwnJob));
    assert_eq!(state(bench, job).await, ApprovalState::Required);
    let other = decide(bench, vote(bench, job, "bob", true)).await;
    assert!(matches!(other, ApprovalAnswer::Decided(Decided::Approved, _)));
}

pub async fn a_quorum_needs_different_people(bench: &Bench) {
    let job = asked(bench, rule(2, false)).await;
    let first = decide(bench, vote(bench, job, "bob", true)).await;
    assert_eq!(first, ApprovalAnswer::Decided(Decided::Noted { missing: 1 }, JobStatus::AwaitingApproval));
    let again = decide(bench, vote(bench, job, "bob", true)).await;
    assert_eq!(again, ApprovalAnswer::Refused(ApprovalRefused::Twice));
    assert!(bench.begin().await.is_empty());
    let second = decide(bench, vote(bench, job, "eve", true)).await;
    assert!(matches!(second, ApprovalAnswer::Decided(Decided::Approved, _)));
}

/// A2.
pub async fn a_change_of_what_will_run_supersedes_the_approval(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    let other = ApprovalOrder { seen: Some(body("another page")), ..vote(bench, job, "bob", true) };
    assert_eq!(decide(bench, other).await, ApprovalAnswer::Refused(ApprovalRefused::OtherHash));
    let changed = ApprovalOrder { current: body("something else"), ..vote(bench, job, "bob", true) };
    let answer = decide(bench, changed).await;
    assert_eq!(answer, ApprovalAnswer::Decided(Decided::Superseded, JobStatus::Canceled));
    assert_eq!(state(bench, job).await, ApprovalState::Superseded);
    assert_eq!(bench.retry(job).await, OrderAnswer::NotFrom(JobStatus::Canceled));
    assert!(bench.begin().await.is_empty());
}

/// A5.
pub async fn an_approval_nobody_gives_expires(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    bench.pass_ms(60_001);
    bench.promote().await;
    assert_eq!((bench.status(job).await, state(bench, job).await), (JobStatus::Canceled, ApprovalState::Expired));
    let late = decide(bench, vote(bench, job, "bob", true)).await;
    assert_eq!(late, ApprovalAnswer::Refused(ApprovalRefused::NotWaiting(ApprovalState::Expired)));
}

pub async fn a_canceled_command_needs_no_decision_any_more(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    assert_eq!(bench.cancel(job).await, OrderAnswer::Done(JobStatus::Canceled));
    assert_eq!(state(bench, job).await, ApprovalState::Withdrawn);
    assert!(bench.ledger.list_approvals(bench.tenant, None, 10).await.expect("read").items.is_empty());
}

pub async fn a_command_that_needs_no_approval_says_so(bench: &Bench) {
    bench.hosts(1).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    assert_eq!(decide(bench, vote(bench, job, "bob", true)).await, ApprovalAnswer::NotNeeded);
    let plain = bench.submit(bench.job()).await;
    assert_eq!(decide(bench, vote(bench, plain, "bob", true)).await, ApprovalAnswer::NotFound);
}

pub async fn nobody_decides_for_a_neighbour(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    let theirs = ApprovalOrder { tenant: bench.neighbour, ..vote(bench, job, "eve", true) };
    assert_eq!(decide(bench, theirs).await, ApprovalAnswer::NotFound);
    assert!(bench.ledger.list_approvals(bench.neighbour, None, 10).await.expect("read").items.is_empty());
    assert_eq!(state(bench, job).await, ApprovalState::Required);
}
