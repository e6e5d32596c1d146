//! Promises about what agents executed and the ledger lacks.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_model::fleet::Rollout;
use bowline_model::host::{Connection, Host};
use bowline_model::worker::Abilities;
use bowline_model::{EventKind, HostName, JobId, JobStatus, Outcome, RunId, RunStatus, TaskType};

use super::agents::{enroll, join_token};
use super::bench::{Bench, at_most_once, labels, worker_name};
use super::fleets::{host_name, spec};
use crate::{Claimant, ClaimedRun, Enrolled, EventFilter, Evidence, EvidenceTaken, NewJob, RunEvidence};

fn evidence(bench: &Bench, run: &ClaimedRun, outcome: Outcome) -> RunEvidence {
    RunEvidence {
        report: bench.report_of(run, outcome),
        attempt: run.attempt,
        unit: run.job,
        job: None,
        host: HostName::new("h0").expect("a name"),
        host_fence: 7,
        kept: false,
        at: bench.now(),
    }
}

async fn offer(bench: &Bench, runs: Vec<RunEvidence>) -> EvidenceTaken {
    let agent = worker_name("worker");
    let since = bench.now().plus_millis(-60_000);
    let offered = Evidence { tenant: bench.tenant, agent, runs, since };
    bench.ledger.take_evidence(offered).await.expect("the ledger takes evidence")
}

pub async fn an_end_that_the_ledger_lacks_is_taken_over_once(bench: &Bench) {
    let lost = bench.running(NewJob { policy: at_most_once(), ..bench.job() }).await;
    let known = bench.running(bench.job()).await;
    bench.succeed(&known).await;
    bench.silence().await;
    assert_eq!(bench.find(lost.job).await.1[0].status, RunStatus::Lost);
    let again = bench.running(bench.job()).await;
    let runs = || {
        let success = Outcome::Succeeded;
        vec![evidence(bench, &lost, success), evidence(bench, &known, success), evidence(bench, &again, success)]
    };
    let taken = offer(bench, runs()).await;
    assert_eq!(taken, EvidenceTaken { known: 1, taken: 2, unknown: 0, new: 0 });
    assert_eq!(bench.status(lost.job).await, JobStatus::Succeeded);
    assert_eq!(bench.status(again.job).await, JobStatus::Succeeded);
    assert_eq!(offer(bench, runs()).await, EvidenceTaken { known: 3, ..EvidenceTaken::default() });
    // What the agent ships itself is left to that.
    let shipped = bench.running(bench.job()).await;
    let kept = RunEvidence { kept: true, ..evidence(bench, &shipped, Outcome::Succeeded) };
    assert_eq!(offer(bench, vec![kept]).await, EvidenceTaken { known: 1, ..EvidenceTaken::default() });
    assert_eq!(bench.status(shipped.job).await, JobStatus::Running);
}

pub async fn runs_of_jobs_that_are_not_here_are_noted_once(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let stranger = |n: u8, age_ms: i64| {
        let id = RunId::mint(bench.now(), [n; 10]);
        let unit = JobId::mint(bench.now(), [n; 10]);
        let mut told = evidence(bench, &run, Outcome::Succeeded);
        told.report.run = id;
        RunEvidence { unit, job: Some(unit), at: bench.now().plus_millis(-age_ms), ..told }
    };
    // Here, but under another run; too old to tell; and two that are not here.
    let other_run = RunEvidence { unit: run.job, job: Some(run.job), ..stranger(1, 0) };
    let runs = || vec![other_run.clone(), stranger(2, 70_000), stranger(3, 0), stranger(4, 0), stranger(4, 0)];
    let taken = offer(bench, runs()).await;
    assert_eq!(taken, EvidenceTaken { known: 2, taken: 0, unknown: 3, new: 2 });
    assert_eq!(offer(bench, runs()).await.new, 0, "what is noted is noted");
    let page = bench.ledger.list_unknown_runs(bench.tenant, None, 1).await.expect("read");
    assert_eq!((page.items.len(), page.items[0].run), (1, stranger(4, 0).report.run), "the newest first");
    let rest = bench.ledger.list_unknown_runs(bench.tenant, page.next, 10).await.expect("read");
    assert_eq!((rest.items.len(), rest.items[0].run, rest.next), (1, stranger(3, 0).report.run, None));
    let neighbour = bench.ledger.list_unknown_runs(bench.neighbour, None, 10).await.expect("read");
    assert!(neighbour.items.is_empty(), "a neighbour sees none of it");
    let filter = EventFilter { kinds: vec![EventKind::UnknownRunsFound], ..EventFilter::default() };
    assert_eq!(bench.stream(filter, 1).await.len(), 1);
}

/// An end that an agent tells under another job, or under a run of another tenant, settles nothing here.
pub async fn an_end_of_another_job_settles_nothing(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let stranger = JobId::mint(bench.now(), [9; 10]);
    let told = || evidence(bench, &run, Outcome::Succeeded);
    let anonymous = || {
        let mut told = told();
        told.report.job = None;
        told
    };
    for wrong in [
        RunEvidence { unit: stranger, ..anonymous() },
        RunEvidence { unit: stranger, job: Some(run.job), ..anonymous() },
        RunEvidence { job: Some(stranger), ..told() },
    ] {
        let taken = offer(bench, vec![wrong]).await;
        assert_eq!((taken.known, taken.taken, taken.unknown), (0, 0, 1), "it is noted, not believed");
        assert_eq!(bench.status(run.job).await, JobStatus::Running);
    }
    // A run of a neighbour, whatever is said of it.
    let runs = vec![RunEvidence { job: Some(run.job), ..told() }];
    let since = bench.now().plus_millis(-60_000);
    let offered = Evidence { tenant: bench.neighbour, agent: run.worker.clone(), runs, since };
    let taken = bench.ledger.take_evidence(offered).await.expect("the ledger takes evidence");
    assert_eq!((taken.known, taken.taken, taken.unknown), (0, 0, 1));
    assert_eq!(bench.status(run.job).await, JobStatus::Running);
    let right = RunEvidence { job: Some(run.job), ..told() };
    assert_eq!(offer(bench, vec![right]).await.taken, 1);
    assert_eq!(bench.status(run.job).await, JobStatus::Succeeded);
}

/// The same for a part of a command: it belongs to the command that the agent names.
pub async fn an_end_of_a_part_names_its_command(bench: &Bench) {
    bench.hosts(1).await;
    let command = bench.submit(bench.command(spec(), Rollout::default()).await).await;
    let run = bench.begin().await.remove(0);
    let host = run.unit.as_ref().expect("for a host").host.clone();
    let told = |job| RunEvidence { job: Some(job), host: host.clone(), ..evidence(bench, &run, Outcome::Succeeded) };
    let other = bench.submit(bench.command(spec(), Rollout::default()).await).await;
    for wrong in [other, run.job] {
        let taken = offer(bench, vec![told(wrong)]).await;
        assert_eq!((taken.taken, taken.unknown), (0, 1));
    }
    assert_eq!(offer(bench, vec![told(command)]).await.taken, 1);
}

pub async fn hosts_are_leased_under_higher_numbers_than_agents_have_seen(bench: &Bench) {
    let join = join_token(bench, "j1").await;
    assert_eq!(enroll(bench, &join, "worker", 1).await, Enrolled::Done);
    bench.hosts(1).await;
    let command = bench.command(spec(), Rollout::default()).await;
    bench.submit(command).await;
    let first = bench.begin().await.remove(0);
    let host = first.unit.clone().expect("for a host");
    let told =
        RunEvidence { host: host.host.clone(), host_fence: 1_000, ..evidence(bench, &first, Outcome::Succeeded) };
    offer(bench, vec![told]).await;
    let command = bench.command(spec(), Rollout::default()).await;
    bench.submit(command).await;
    let next = bench.begin().await.remove(0);
    assert!(next.unit.as_ref().expect("for a host").host_fence > 1_000, "{next:?}");
}

pub async fn an_agent_speaks_for_the_hosts_that_it_reaches_and_no_others(bench: &Bench) {
    let join = join_token(bench, "j1").await;
    assert_eq!(enroll(bench, &join, "worker", 1).await, Enrolled::Done);
    let of = |agent: &str| Connection::Agent { agent: Some(worker_name(agent)) };
    let through = |dc: &str| Connection::Simulate { through: labels(&[("dc", dc)]) };
    let hosts = [("mine", of("worker")), ("near", through("fra")), ("far", through("ams")), ("theirs", of("another"))];
    let host = |(name, connection): (&str, Connection)| Host { connection, ..Host::named(host_name(name)) };
    bench.put_hosts(hosts.map(host).into(), Vec::new()).await;
    let round = async || {
        let command = bench.command(spec(), Rollout::default()).await;
        bench.submit(command).await;
        bench.conduct().await;
        let mut runs = Vec::new();
        for (agent, dc) in [("worker", "fra"), ("another", "ams")] {
            let has = [(Connection::REACH_LABEL, "simulate"), (Connection::AGENT_LABEL, agent), ("dc", dc)];
            let abilities = Arc::new(Abilities { task_types: [TaskType::command()].into(), labels: labels(&has) });
            runs.extend(bench.claim(Claimant { abilities, ..bench.agent(10) }).await);
        }
        for run in &runs {
            bench.beat(run).await;
            bench.succeed(run).await;
        }
        runs
    };
    let told = |run: &ClaimedRun, host_fence: u64| {
        let host = run.unit.as_ref().expect("for a host").host.clone();
        RunEvidence { host, host_fence, ..evidence(bench, run, Outcome::Succeeded) }
    };
    let first = round().await;
    assert_eq!(first.len(), 4, "{first:?}");
    offer(bench, first.iter().map(|run| told(run, 1_000)).collect()).await;
    let fences = async || -> BTreeMap<String, bool> {
        let units = round().await.into_iter().filter_map(|run| run.unit);
        units.map(|unit| (unit.host.to_string(), unit.host_fence > 1_000)).collect()
    };
    let raised = [("mine", true), ("near", true), ("far", false), ("theirs", false)];
    assert_eq!(fences().await, raised.map(|(host, is_raised)| (host.to_owned(), is_raised)).into());
    // However large the number: there are more after it.
    offer(bench, vec![told(&first[0], u64::MAX), told(&first[0], i64::MAX.unsigned_abs())]).await;
    let highest = round().await.into_iter().filter_map(|run| run.unit).map(|unit| unit.host_fence).max();
    assert!(highest.is_some_and(|fence| fence <= (1 << 40) + 10), "{highest:?}");
}

pub async fn an_agent_that_tells_of_many_runs_takes_no_other_agents_share(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let offer_as = async |agent: &str, first: u32, count: u32, later_ms: i64| {
        let strange = |n: u32| {
            let mut entropy = [0; 10];
            entropy[..4].copy_from_slice(&n.to_be_bytes());
            let at = bench.now().plus_millis(later_ms);
            let mut told = evidence(bench, &run, Outcome::Succeeded);
            told.report.run = RunId::mint(at, entropy);
            RunEvidence { unit: JobId::mint(at, entropy), ..told }
        };
        let runs = (first..first + count).map(strange).collect();
        let since = bench.now().plus_millis(-60_000);
        let offered = Evidence { tenant: bench.tenant, agent: worker_name(agent), runs, since };
        bench.ledger.take_evidence(offered).await.expect("the ledger takes evidence")
    };
    offer_as("quiet", 1_000, 3, 0).await;
    // What one mints itself may look newer than anything else.
    for page in 0..11 {
        offer_as("loud", 1_000_000 + page * 1_000, 1_000, 3_600_000).await;
    }
    let (mut quiet, mut all, mut before) = (0, 0, None);
    loop {
        let page = bench.ledger.list_unknown_runs(bench.tenant, before, 500).await.expect("read");
        all += page.items.len();
        quiet += page.items.iter().filter(|run| run.agent == worker_name("quiet")).count();
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!((quiet, all), (3, 10_000));
}
