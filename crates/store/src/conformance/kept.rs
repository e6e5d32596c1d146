//! Promises about hosts where a run went missing: nobody else gets them while it could still be at it. C7, where several
//! agents reach a host.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_model::fleet::{CommandSpec, HostLock, Rollout};
use bowline_model::host::{Connection, Host};
use bowline_model::worker::Abilities;
use bowline_model::{ErrorClass, EventKind, JobId, JobStatus, Outcome, RetryPolicy, TaskType, TenantId};

use super::agents::{enroll, join_token, remove};
use super::bench::{Bench, labels};
use super::fleets::{host_name, inventory, spec};
use crate::{
    AgentRecord, Claimant, ClaimedRun, Enrolled, EventFilter, HostLine, ReleaseOrder, ReportAnswer, TokenRecord,
};

/// A run may take ten seconds and five more to stop. With the lease of ledgers that were told nothing (30 s) and the time for
/// connections (60 s) it can be there for this long after it was handed out.
pub(super) const LONGEST_MS: i64 = 10_000 + 5_000 + 30_000 + 60_000;

pub(super) fn brief() -> CommandSpec {
    CommandSpec { timeout_ms: 10_000, kill_grace_ms: 5_000, ..spec() }
}

impl Bench {
    pub(super) async fn line(&self) -> HostLine {
        let line = self.ledger.host_queue(self.tenant, inventory(), host_name("h0000")).await.expect("read");
        line.expect("there is such a host")
    }

    async fn release(&self, tenant: TenantId) -> Option<u64> {
        let reason = "looked: nothing runs there".to_owned();
        let order = ReleaseOrder { tenant, inventory: inventory(), host: host_name("h0000"), by: "ann".into(), reason };
        self.ledger.release_host(order).await.expect("the ledger takes orders")
    }

    /// A run on the one host, whose agent has fallen silent.
    pub(super) async fn gone_missing(&self, spec: CommandSpec) -> (JobId, ClaimedRun) {
        self.hosts(1).await;
        let job = self.commanded(spec, Rollout::default()).await;
        let runs = self.begin().await;
        assert_eq!(self.silence().await.lost, 1);
        (job, runs[0].clone())
    }
}

pub async fn nobody_gets_a_host_while_a_lost_run_could_be_there(bench: &Bench) {
    let (job, lost) = bench.gone_missing(brief()).await;
    let next = bench.commanded(brief(), Rollout::default()).await;
    assert!(bench.begin().await.is_empty(), "nobody knows whether the lost run goes on");
    assert_eq!(bench.status(job).await, JobStatus::Failed, "the command itself waits for nothing");
    let line = bench.line().await;
    assert_eq!(line.turns.iter().map(|turn| (turn.job, turn.held)).collect::<Vec<_>>(), [(next, false)]);
    let until = lost.claimed_at.plus_millis(LONGEST_MS);
    let kept: Vec<_> = line.kept.iter().map(|kept| (kept.run, kept.job, kept.until)).collect();
    assert_eq!(kept, [(lost.run, Some(job), until)]);
    assert_eq!((line.kept[0].agent.as_str(), line.kept[0].command.as_deref()), ("w1", Some("uptime")));
    bench.pass_ms(until.millis_since(bench.now()) - 1);
    assert!(bench.begin().await.is_empty());
    bench.pass_ms(1);
    let runs = bench.begin().await;
    assert_eq!(runs.iter().map(|run| run.unit.as_ref().map(|u| u.command)).collect::<Vec<_>>(), [Some(next)]);
    assert!(bench.line().await.kept.is_empty());
}

pub async fn a_host_is_free_when_the_lost_run_tells_its_end(bench: &Bench) {
    let (_, lost) = bench.gone_missing(brief()).await;
    bench.commanded(brief(), Rollout::default()).await;
    assert!(bench.begin().await.is_empty());
    bench.fail(&lost, ErrorClass::Exit).await;
    assert!(bench.line().await.kept.is_empty());
    assert_eq!(bench.begin().await.len(), 1, "whatever became of it, it is over");
}

pub async fn an_agent_that_lost_sight_of_its_run_says_no_end(bench: &Bench) {
    bench.hosts(1).await;
    bench.commanded(brief(), Rollout::default()).await;
    let runs = bench.begin().await;
    bench.commanded(brief(), Rollout::default()).await;
    bench.conduct().await;
    bench.fail(&runs[0], ErrorClass::Lost).await;
    assert_eq!(bench.line().await.kept.len(), 1, "the connection broke; the command may go on");
    assert!(bench.begin().await.is_empty());
    bench.pass_ms(LONGEST_MS);
    assert_eq!(bench.begin().await.len(), 1);
}

pub async fn a_lost_run_is_tried_again_when_it_must_be_over(bench: &Bench) {
    let (job, lost) = bench.gone_missing(CommandSpec { idempotent: true, ..brief() }).await;
    let other = bench.commanded(brief(), Rollout::default()).await;
    assert!(bench.begin().await.is_empty(), "not beside itself either");
    bench.pass_ms(LONGEST_MS);
    let again = bench.begin().await;
    assert_eq!((again.len(), again[0].fence), (1, lost.fence + 1), "it has kept its place in the line");
    bench.succeed(&again[0]).await;
    assert_eq!(bench.begin().await[0].unit.as_ref().map(|unit| unit.command), Some(other));
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Succeeded);
}

/// A report can ask for a new attempt at once.
pub async fn a_run_whose_end_is_unknown_is_not_tried_again_beside_itself(bench: &Bench) {
    bench.hosts(1).await;
    let retry = RetryPolicy { max_attempts: 3, base_ms: 0, ..RetryPolicy::default() };
    bench.commanded(CommandSpec { idempotent: true, retry: Some(retry), ..brief() }, Rollout::default()).await;
    let runs = bench.begin().await;
    assert_eq!(bench.fail(&runs[0], ErrorClass::Lost).await, ReportAnswer::Recorded(JobStatus::Pending));
    assert!(bench.begin().await.is_empty());
    bench.pass_ms(LONGEST_MS);
    assert_eq!(bench.begin().await.len(), 1);
}

pub async fn those_who_share_a_host_share_it_with_a_missing_run(bench: &Bench) {
    let shared = || CommandSpec { lock: HostLock::Shared, ..brief() };
    bench.gone_missing(shared()).await;
    bench.commanded(shared(), Rollout::default()).await;
    let beside = bench.begin().await;
    assert_eq!(beside.len(), 1, "it would not mind if the other went on");
    bench.succeed(&beside[0]).await;
    bench.commanded(brief(), Rollout::default()).await;
    assert!(bench.begin().await.is_empty(), "who wants it alone would");
    bench.pass_ms(LONGEST_MS);
    assert_eq!(bench.begin().await.len(), 1);
}

pub async fn a_hosts_own_agent_is_its_gate(bench: &Bench) {
    bench.put_hosts(vec![Host::named(host_name("h0000"))], vec![]).await;
    bench.commanded(brief(), Rollout::default()).await;
    bench.conduct().await;
    let own = labels(&[(Connection::AGENT_LABEL, "h0000")]);
    let abilities = Arc::new(Abilities { task_types: BTreeSet::from([TaskType::command()]), labels: own });
    let agent = || Claimant { abilities: Arc::clone(&abilities), wants: 5, slots: 5, ..bench.worker("h0000") };
    let runs = bench.claim(agent()).await;
    bench.beat(&runs[0]).await;
    assert_eq!(bench.silence().await.lost, 1);
    assert!(bench.line().await.kept.is_empty());
    bench.commanded(brief(), Rollout::default()).await;
    bench.conduct().await;
    assert_eq!(bench.claim(agent()).await.len(), 1, "it knows itself what it executes");
}

/// A new agent of the same name does not know what the old one executes.
pub async fn a_removed_agent_is_no_gate_and_its_runs_are_lost(bench: &Bench) {
    bench.put_hosts(vec![Host::named(host_name("h0000"))], vec![]).await;
    let join = join_token(bench, "j1").await;
    assert_eq!(enroll(bench, &join, "h0000", 1).await, Enrolled::Done);
    let own = labels(&[(Connection::AGENT_LABEL, "h0000")]);
    let abilities = Arc::new(Abilities { task_types: BTreeSet::from([TaskType::command()]), labels: own });
    let agent = || Claimant { abilities: Arc::clone(&abilities), wants: 5, slots: 5, ..bench.worker("h0000") };
    let job = bench.commanded(brief(), Rollout::default()).await;
    bench.conduct().await;
    let runs = bench.claim(agent()).await;
    bench.beat(&runs[0]).await;
    let removed = remove(bench, bench.tenant, "h0000").await.expect("it was there");
    assert_eq!((removed.lost_runs, removed.returned_runs), (1, 0));
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Failed, "its one run is lost");
    let line = bench.line().await;
    assert_eq!(line.kept.iter().map(|kept| (kept.run, kept.job)).collect::<Vec<_>>(), [(runs[0].run, Some(job))]);
    bench.commanded(brief(), Rollout::default()).await;
    bench.conduct().await;
    assert!(bench.claim(agent()).await.is_empty(), "the command of the old agent may still run there");
    bench.pass_ms(LONGEST_MS);
    bench.conduct().await;
    assert_eq!(bench.claim(agent()).await.len(), 1);
    let join = join_token(bench, "j2").await;
    let (again, own) = super::agents::agent(bench, "h0000", 2);
    let own = TokenRecord { id: "again".to_owned(), ..own };
    let again = AgentRecord { token: own.id.clone(), ..again };
    let answer = bench.ledger.enroll_agent(join, again, own, "join:j".into()).await.expect("an answer");
    assert_eq!(answer, Enrolled::Done);
    let removed = remove(bench, bench.tenant, "h0000").await.expect("it was there");
    assert_eq!((removed.lost_runs, removed.returned_runs), (0, 1), "what was never accepted was never begun");
}

pub async fn a_person_releases_a_kept_host(bench: &Bench) {
    bench.gone_missing(brief()).await;
    bench.commanded(brief(), Rollout::default()).await;
    assert!(bench.begin().await.is_empty());
    assert_eq!(bench.release(bench.neighbour).await, None, "a neighbour has no such host");
    assert_eq!(bench.release(bench.tenant).await, Some(1));
    assert_eq!(bench.release(bench.tenant).await, Some(0));
    assert_eq!(bench.begin().await.len(), 1);
    let told = bench.stream(EventFilter { kinds: vec![EventKind::HostReleased], ..EventFilter::default() }, 1).await;
    let data = &told[0].1.data;
    assert_eq!((data.by.as_deref(), data.reason.as_deref()), (Some("ann"), Some("looked: nothing runs there")));
    assert_eq!(data.host, Some(host_name("h0000")));
}

pub async fn a_canceled_run_that_vanished_keeps_its_host(bench: &Bench) {
    bench.hosts(1).await;
    let job = bench.commanded(brief(), Rollout::default()).await;
    let runs = bench.begin().await;
    bench.cancel(job).await;
    bench.conduct().await;
    bench.silence().await;
    bench.commanded(brief(), Rollout::default()).await;
    assert!(bench.begin().await.is_empty(), "nobody has confirmed that it stopped");
    bench.report(bench.report_of(&runs[0], Outcome::Canceled)).await;
    assert_eq!(bench.begin().await.len(), 1);
}
