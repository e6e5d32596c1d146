//! Promises about commands on hosts: every host once, in order, one at a time, and the whole says what its parts did.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_model::fleet::{CommandSpec, HostLock, PinnedCommand, Rollout, Share, Template};
use bowline_model::host::{Connection, Group, Host, Inventory, Vars};
use bowline_model::worker::Abilities;
use bowline_model::{
    ErrorClass, EventKind, GroupName, HostName, InventoryName, JobId, JobStatus, Labels, Outcome, ResourceName,
    RetryPolicy, RunStatus, StartRetry, TaskType,
};
use serde_json::json;
use tokio::task::JoinSet;

use super::bench::{Bench, TIMES, has_rung, labels, worker_name};
use crate::{
    BLOCK_SELECTOR_BYTES_MAX, BLOCKS_MAX, BeatAnswer, BlockAnswer, BlockedPlace, Claimant, ClaimedRun, Deleted,
    EventFilter, FleetRecord, HostLine, InventoryPut, NewBlock, NewFleet, NewJob, OrderAnswer, PruneMark, ReportAnswer,
    ResourceKey, ResourceOrder, ResourcePut, Retention, RunReport, Submitted, UnitFilter, UnitRecord, Unmentioned,
};

pub(super) fn inventory() -> InventoryName {
    InventoryName::new("main").expect("a name")
}

pub(super) fn host_name(text: &str) -> HostName {
    HostName::new(text).expect("a name")
}

fn simulated(name: &str) -> Host {
    Host { connection: Connection::Simulate { through: Labels::default() }, ..Host::named(host_name(name)) }
}

/// A command that says nothing special.
pub(super) fn spec() -> CommandSpec {
    CommandSpec { argv: vec![Template::parse("uptime").expect("a template")], ..CommandSpec::default() }
}

impl Bench {
    pub(super) async fn put_hosts(&self, hosts: Vec<Host>, groups: Vec<Group>) {
        let content = Arc::new(Inventory { hosts, groups });
        let (tenant, by) = (self.tenant, "ops".into());
        let put =
            InventoryPut { tenant, inventory: inventory(), content, unmentioned: Unmentioned::Keep, by, reason: None };
        self.ledger.put_inventory(put).await.expect("the ledger takes inventories");
    }

    /// So many simulated hosts, `h0000` and on.
    pub(super) async fn hosts(&self, count: usize) {
        self.put_hosts((0..count).map(|n| simulated(&format!("h{n:04}"))).collect(), Vec::new()).await;
    }

    /// A command on all hosts there are.
    pub(super) async fn command(&self, spec: CommandSpec, rollout: Rollout) -> NewJob {
        let found = self.ledger.find_inventory(self.tenant, inventory()).await.expect("read").expect("it is there");
        let (mut hosts, mut after) = (Vec::new(), None);
        loop {
            let page = self.ledger.list_hosts(self.tenant, inventory(), after, 100_000).await.expect("read");
            hosts.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let lock = spec.lock;
        let command = PinnedCommand { name: None, version: None, spec, params: Vars::new() };
        NewJob {
            task_type: TaskType::command(),
            payload: serde_json::to_string(&command).expect("JSON").into(),
            fleet: Some(Arc::new(NewFleet {
                inventory: found.id,
                hosts: hosts.iter().map(|host| host.id).collect(),
                command: "uptime".into(),
                resource: None,
                lock,
                rollout,
                selector: Some("all".to_owned()),
                deadline_ms: None,
                approval: None,
            })),
            ..self.job()
        }
    }

    /// A command, accepted.
    pub(super) async fn commanded(&self, spec: CommandSpec, rollout: Rollout) -> JobId {
        let job = self.command(spec, rollout).await;
        self.submit(job).await
    }

    /// Until there is nothing more to do at once; says how often there was.
    pub(super) async fn conduct(&self) -> u64 {
        let mut moved = 0;
        loop {
            match self.ledger.conduct(false).await.expect("the ledger conducts").moved {
                0 => return moved,
                more => moved += more,
            }
        }
    }

    /// An agent that plays hosts.
    pub(super) fn agent(&self, wants: u32) -> Claimant {
        let labels = labels(&[(Connection::REACH_LABEL, "simulate")]);
        let abilities = Arc::new(Abilities { task_types: BTreeSet::from([TaskType::command()]), labels });
        Claimant { abilities, wants, slots: wants, ..self.worker("w1") }
    }

    /// Whatever can start on simulated hosts now, started.
    pub(super) async fn begin(&self) -> Vec<ClaimedRun> {
        self.conduct().await;
        let runs = self.claim(self.agent(5_000)).await;
        for run in &runs {
            self.beat(run).await;
        }
        runs
    }

    pub(super) async fn fleet(&self, job: JobId) -> FleetRecord {
        self.ledger.find_fleet(self.tenant, job).await.expect("the ledger can be read").expect("it is a command")
    }

    async fn units(&self, job: JobId) -> Vec<UnitRecord> {
        let filter = UnitFilter::default();
        self.ledger.list_units(self.tenant, job, filter, None, 10_000).await.expect("read").items
    }

    async fn unit(&self, job: JobId, host: &str) -> UnitRecord {
        let found = self.ledger.find_unit(self.tenant, job, host_name(host)).await.expect("read");
        found.expect("the host was begun").0
    }

    async fn block_all(&self, place: BlockedPlace, command: Option<&str>, expires_in: Option<i64>) -> BlockAnswer {
        let block = NewBlock {
            tenant: self.tenant,
            inventory: inventory(),
            place,
            command: command.map(str::to_owned),
            reason: "maintenance".to_owned(),
            by: "ops".into(),
            expires_at: expires_in.map(|ms| self.now().plus_millis(ms)),
        };
        self.ledger.block(block).await.expect("the ledger takes blocks")
    }
}

/// How many runs each claim gets of a command with 18 arguments of 60,000 bytes, on so many hosts.
pub(super) async fn long_command_on_hosts(bench: &Bench, hosts: usize) -> Vec<usize> {
    bench.hosts(hosts).await;
    let argv = vec![Template::parse(&"x".repeat(60_000)).expect("a template"); 18];
    bench.commanded(CommandSpec { argv, ..CommandSpec::default() }, Rollout::default()).await;
    let mut claims = Vec::new();
    loop {
        match bench.begin().await.len() {
            0 => return claims,
            runs => claims.push(runs),
        }
    }
}

fn on(runs: &[ClaimedRun], host: &str) -> ClaimedRun {
    let is_there = |run: &&ClaimedRun| run.unit.as_ref().is_some_and(|unit| unit.host.as_str() == host);
    runs.iter().find(is_there).unwrap_or_else(|| panic!("nothing runs on {host}")).clone()
}

fn names(runs: &[ClaimedRun]) -> Vec<String> {
    let mut names: Vec<String> = runs.iter().filter_map(|run| Some(run.unit.as_ref()?.host.to_string())).collect();
    names.sort();
    names
}

pub async fn a_command_runs_once_on_every_host_and_succeeds(bench: &Bench) {
    bench.hosts(3).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    assert_eq!(bench.status(job).await, JobStatus::Running);
    let runs = bench.begin().await;
    assert_eq!(names(&runs), ["h0000", "h0001", "h0002"]);
    let unit = runs[0].unit.as_ref().expect("it is for a host");
    assert_eq!((unit.command, unit.lock), (job, HostLock::Exclusive));
    assert!(runs[0].payload.contains("uptime"), "every host is told the command");
    for run in &runs {
        let report = RunReport { exit_code: Some(0), ..bench.report_of(run, Outcome::Succeeded) };
        assert_eq!(bench.report(report).await, ReportAnswer::Recorded(JobStatus::Succeeded));
    }
    assert_eq!(bench.status(job).await, JobStatus::Running, "nobody has looked yet");
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Succeeded);
    let fleet = bench.fleet(job).await;
    assert_eq!((fleet.total, fleet.planned, fleet.tally.of(JobStatus::Succeeded)), (3, 3, 3));
    let units = bench.units(job).await;
    assert!(
        units
            .iter()
            .all(|u| u.run.as_ref().is_some_and(|r| r.exit_code == Some(0) && r.status == RunStatus::Succeeded))
    );
    assert!(bench.begin().await.is_empty());
}

pub async fn hosts_are_begun_in_bites(bench: &Bench) {
    bench.hosts(2_500).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    for planned in [1_000, 2_000, 2_500] {
        assert_eq!(bench.ledger.conduct(false).await.expect("it conducts").moved, 1);
        assert_eq!(bench.fleet(job).await.planned, planned);
    }
    assert_eq!(bench.ledger.conduct(false).await.expect("it conducts").moved, 0);
    let hosts: BTreeSet<i64> = bench.units(job).await.iter().map(|unit| unit.host_id).collect();
    assert_eq!(hosts.len(), 2_500);
}

pub async fn a_command_begins_however_many_run_long_before_it(bench: &Bench) {
    bench.hosts(1).await;
    let shared = || CommandSpec { lock: HostLock::Shared, ..spec() };
    for _ in 0..100 {
        bench.commanded(shared(), Rollout::default()).await;
    }
    assert_eq!(bench.begin().await.len(), 100);
    let last = bench.commanded(shared(), Rollout::default()).await;
    let runs = bench.begin().await;
    assert_eq!(runs.len(), 1, "the others run, and it does not wait for them");
    bench.succeed(&runs[0]).await;
    bench.conduct().await;
    assert_eq!(bench.status(last).await, JobStatus::Succeeded);
}

/// Whoever moves commands on sleeps until there is something to do.
pub async fn what_moves_a_command_on_rings(bench: &Bench) {
    bench.hosts(2).await;
    let mut bell = bench.ledger.fleet_wake().listen();
    let job = bench.commanded(spec(), Rollout::default()).await;
    assert!(has_rung(&mut bell).await, "there is a new command");
    let runs = bench.begin().await;
    bell.forget();
    bench.succeed(&runs[0]).await;
    assert!(has_rung(&mut bell).await, "a host has ended");
    bench.cancel(job).await;
    assert!(has_rung(&mut bell).await, "somebody wants it to stop");
    let plain = bench.submit(bench.job()).await;
    bench.cancel(plain).await;
    assert!(!has_rung(&mut bell).await, "a plain job is nobody's host");
}

/// The variables of hosts are read and copied where everybody's writes wait, so a transaction takes a bounded part of them.
pub async fn hosts_with_large_variables_are_begun_a_few_at_a_time(bench: &Bench) {
    let names = ["a", "b", "c", "d"];
    let large = |n: usize| {
        let vars = names.map(|name| (name.to_owned(), json!("x".repeat(60_000)))).into_iter().collect();
        Host { vars, ..simulated(&format!("h{n:04}")) }
    };
    bench.put_hosts((0..70).map(large).collect(), Vec::new()).await;
    let places = names.map(|name| Template::parse(&format!("{{{{ host.vars.{name} }}}}")).expect("a template"));
    let job = bench.commanded(CommandSpec { argv: places.into(), ..spec() }, Rollout::default()).await;
    bench.conduct().await;
    assert_eq!(bench.units(job).await.len(), 70, "every host was begun");
    let told = bench.history(job).await;
    let begun: Vec<u32> = told
        .iter()
        .filter(|(_, event)| event.kind == EventKind::HostsPlanned)
        .filter_map(|(_, event)| event.data.hosts)
        .collect();
    assert!(begun.len() > 1 && begun.iter().sum::<u32>() == 70, "{begun:?}");
}

pub async fn conductors_at_once_begin_every_host_once(bench: &Bench) {
    bench.hosts(3_000).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    let mut conductors = JoinSet::new();
    for _ in 0..6 {
        let ledger = bench.ledger.clone();
        conductors.spawn(async move {
            for _ in 0..6 {
                ledger.conduct(false).await.expect("it conducts");
            }
        });
    }
    conductors.join_all().await;
    bench.conduct().await;
    assert_eq!(bench.fleet(job).await.planned, 3_000);
    assert_eq!(bench.fleet(job).await.tally.all(), 3_000);
}

pub async fn a_failed_host_fails_the_command_and_says_so(bench: &Bench) {
    bench.hosts(3).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    let runs = bench.begin().await;
    let report = RunReport { exit_code: Some(7), ..bench.report_of(&runs[0], Outcome::Failed(ErrorClass::Permanent)) };
    bench.report(report).await;
    bench.succeed(&runs[1]).await;
    bench.succeed(&runs[2]).await;
    bench.conduct().await;
    let (record, _) = bench.find(job).await;
    assert_eq!(record.state.status, JobStatus::Failed);
    assert_eq!(record.error.expect("it says why").message, "of 3 hosts 1 failed");
    let failed = UnitFilter { status: Some(JobStatus::Failed), host: None };
    let failed = bench.ledger.list_units(bench.tenant, job, failed, None, 10).await.expect("read").items;
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].run.as_ref().and_then(|run| run.exit_code), Some(7));
    assert!(bench.dead_letters().await.is_empty(), "the command tells what failed; no letters");
}

/// What never started on a host is tried again by a rule of its own, and is `unreachable` when that is used up. What ran is not.
pub async fn a_host_where_nothing_started_is_tried_again_and_then_unreachable(bench: &Bench) {
    bench.hosts(3).await;
    let rule = StartRetry { max_retries: 2, base_ms: 1_000, max_backoff_ms: 60_000 };
    let job = bench.commanded(CommandSpec { retry_not_started: Some(rule), ..spec() }, Rollout::default()).await;
    let runs = bench.begin().await;
    let pending = ReportAnswer::Recorded(JobStatus::Pending);
    assert_eq!(bench.fail(&on(&runs, "h0000"), ErrorClass::Unreachable).await, pending);
    assert_eq!(bench.fail(&on(&runs, "h0001"), ErrorClass::Transient).await, pending);
    let ran = bench.fail(&on(&runs, "h0002"), ErrorClass::Exit).await;
    assert_eq!(ran, ReportAnswer::Recorded(JobStatus::Failed));
    assert!(bench.begin().await.is_empty(), "there is a pause first");
    bench.pass_ms(2_001);
    assert_eq!(bench.promote().await, 2);
    let again = bench.begin().await;
    assert_eq!(names(&again), ["h0000", "h0001"]);
    assert!(again.iter().all(|run| run.attempt == 2));
    assert_eq!(bench.fail(&on(&again, "h0000"), ErrorClass::Unreachable).await, pending);
    bench.succeed(&on(&again, "h0001")).await;
    bench.pass_ms(3_001);
    assert_eq!(bench.promote().await, 1);
    let last = bench.begin().await;
    assert_eq!((names(&last), last[0].attempt), (vec!["h0000".to_owned()], 3));
    let answer = bench.fail(&last[0], ErrorClass::Transient).await;
    assert_eq!(answer, ReportAnswer::Recorded(JobStatus::Unreachable));
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Failed);
    let tally = bench.fleet(job).await.tally;
    let ways = [JobStatus::Failed, JobStatus::Unreachable, JobStatus::Succeeded];
    assert_eq!(ways.map(|status| tally.of(status)), [1, 1, 1]);
}

/// Each way in which a host fails is a state that can be counted and asked for, and the limits of the rollout count them all.
pub async fn hosts_that_time_out_or_cannot_be_reached_say_so(bench: &Bench) {
    bench.hosts(6).await;
    let rollout = Rollout { serial: Some(Share::Hosts(4)), max_failures: Some(Share::Hosts(2)), ..Rollout::default() };
    let job = bench.commanded(spec(), rollout).await;
    let runs = bench.begin().await;
    assert_eq!(bench.fail(&on(&runs, "h0000"), ErrorClass::Timeout).await, ReportAnswer::Recorded(JobStatus::TimedOut));
    let answer = bench.fail(&on(&runs, "h0001"), ErrorClass::Unreachable).await;
    assert_eq!(answer, ReportAnswer::Recorded(JobStatus::Unreachable));
    bench.fail(&on(&runs, "h0002"), ErrorClass::Exit).await;
    bench.succeed(&on(&runs, "h0003")).await;
    bench.conduct().await;
    let (record, _) = bench.find(job).await;
    assert_eq!(record.state.status, JobStatus::Failed);
    assert_eq!(record.error.expect("it says why").message, "3 hosts failed, and 2 may");
    let tally = bench.fleet(job).await.tally;
    let ways = [JobStatus::Failed, JobStatus::TimedOut, JobStatus::Unreachable, JobStatus::Succeeded];
    assert_eq!((ways.map(|status| tally.of(status)), tally.failures()), ([1, 1, 1, 1], 3));
    for (status, host) in [(JobStatus::TimedOut, "h0000"), (JobStatus::Unreachable, "h0001")] {
        let filter = UnitFilter { status: Some(status), host: None };
        let found = bench.ledger.list_units(bench.tenant, job, filter, None, 10).await.expect("read").items;
        assert_eq!(found.iter().map(|unit| unit.host.to_string()).collect::<Vec<_>>(), [host]);
    }
    for (kind, host) in [(EventKind::UnitTimedOut, "h0000"), (EventKind::UnitUnreachable, "h0001")] {
        let filter = EventFilter { job: Some(job), kinds: vec![kind], ..EventFilter::default() };
        let told = bench.stream(filter, 1).await;
        assert_eq!(told[0].1.host.as_ref().map(HostName::as_str), Some(host));
    }
    assert_eq!(bench.retry(job).await, OrderAnswer::Done(JobStatus::Running));
    let again = bench.begin().await;
    assert_eq!(names(&again), ["h0000", "h0001", "h0002"]);
    for run in &again {
        bench.succeed(run).await;
    }
    for run in &bench.begin().await {
        bench.succeed(run).await;
    }
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Succeeded);
}

pub async fn a_host_is_tried_again_as_its_policy_says(bench: &Bench) {
    bench.hosts(1).await;
    let retry =
        RetryPolicy { max_attempts: 2, base_ms: 1_000, jitter: bowline_model::Jitter::None, ..RetryPolicy::default() };
    let job = bench.commanded(CommandSpec { retry: Some(retry), ..spec() }, Rollout::default()).await;
    let runs = bench.begin().await;
    bench.fail(&runs[0], ErrorClass::Transient).await;
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Running);
    assert!(bench.begin().await.is_empty(), "it waits");
    let queue = bench.ledger.host_queue(bench.tenant, inventory(), host_name("h0000")).await.expect("read");
    assert_eq!(queue, Some(HostLine::default()), "and leaves the host to others meanwhile");
    bench.pass_ms(1_001);
    assert_eq!(bench.promote().await, 1);
    let again = bench.begin().await;
    assert_eq!((again.len(), again[0].attempt, again[0].fence), (1, 2, 2));
    bench.succeed(&again[0]).await;
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Succeeded);
}

pub async fn a_batch_begins_when_the_one_before_is_over(bench: &Bench) {
    bench.hosts(5).await;
    let rollout = Rollout { serial: Some(Share::Hosts(2)), ..Rollout::default() };
    let job = bench.commanded(spec(), rollout).await;
    let mut done = 0;
    for size in [2, 2, 1] {
        let runs = bench.begin().await;
        assert_eq!(runs.len(), size, "after {done}");
        for (n, run) in runs.iter().enumerate() {
            assert!(bench.begin().await.is_empty(), "host {n} is still at it");
            bench.succeed(run).await;
        }
        done += size;
    }
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Succeeded);
}

pub async fn a_failing_canary_stops_the_command(bench: &Bench) {
    bench.hosts(5).await;
    let rollout = Rollout { canary: Some(Share::Hosts(1)), ..Rollout::default() };
    let job = bench.commanded(spec(), rollout).await;
    let runs = bench.begin().await;
    assert_eq!(runs.len(), 1);
    bench.fail(&runs[0], ErrorClass::Permanent).await;
    assert!(bench.begin().await.is_empty());
    assert_eq!(bench.status(job).await, JobStatus::Failed);
    let fleet = bench.fleet(job).await;
    assert_eq!((fleet.planned, fleet.stopped.as_deref()), (1, Some("1 of 1 canary hosts failed")));
    let left = bench.ledger.list_unplanned(bench.tenant, job, 0, 3).await.expect("read");
    assert_eq!(left.items.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["h0001", "h0002", "h0003"]);
    let rest =
        bench.ledger.list_unplanned(bench.tenant, job, left.next.expect("there is more"), 3).await.expect("read");
    assert_eq!((rest.items.len(), rest.next), (1, None));
}

/// In pages of any size: each host once, in the order in which they are begun.
pub async fn hosts_of_a_command_are_listed_in_pages(bench: &Bench) {
    bench.hosts(5).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    bench.conduct().await;
    let wanted: Vec<String> = (0..5).map(|n| format!("h{n:04}")).collect();
    let ledger = &bench.ledger;
    for limit in [1, 2, 5, 6] {
        let (mut units, mut after) = (Vec::new(), None);
        loop {
            let page = ledger.list_units(bench.tenant, job, UnitFilter::default(), after, limit).await.expect("read");
            assert!((1..=limit as usize).contains(&page.items.len()), "{} of {limit}", page.items.len());
            units.extend(page.items.into_iter().map(|unit| unit.host.to_string()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(units, wanted, "{limit} at a time");
        let (mut targets, mut after) = (Vec::new(), 0);
        loop {
            let page = ledger.list_targets(bench.tenant, job, after, limit).await.expect("read");
            assert!((1..=limit as usize).contains(&page.items.len()), "{} of {limit}", page.items.len());
            targets.extend(page.items.into_iter().filter_map(|(_, name)| name).map(|name| name.to_string()));
            let Some(next) = page.next else { break };
            after = next;
        }
        assert_eq!(targets, wanted, "{limit} at a time");
    }
    let gone = vec![host_name("h0001")];
    ledger.remove_hosts(bench.tenant, inventory(), gone, "ops".into(), None).await.expect("orders");
    let targets = ledger.list_targets(bench.tenant, job, 0, 10).await.expect("read").items;
    let names: Vec<Option<&str>> = targets.iter().map(|(_, name)| name.as_ref().map(HostName::as_str)).collect();
    assert_eq!(names[..3], [Some("h0000"), None, Some("h0002")], "one that was taken out has no name any more");
}

pub async fn too_many_failures_take_back_what_has_not_begun(bench: &Bench) {
    bench.hosts(10).await;
    let rollout = Rollout { max_failures: Some(Share::Percent(10)), ..Rollout::default() };
    let job = bench.commanded(spec(), rollout).await;
    bench.conduct().await;
    let runs = bench.claim(bench.agent(4)).await;
    bench.fail(&runs[0], ErrorClass::Permanent).await;
    bench.conduct().await;
    assert_eq!(bench.fleet(job).await.stopped, None, "one in ten may fail");
    bench.fail(&runs[1], ErrorClass::Permanent).await;
    bench.conduct().await;
    let fleet = bench.fleet(job).await;
    assert_eq!(fleet.stopped.as_deref(), Some("2 hosts failed, and 10% may"));
    assert_eq!((fleet.tally.of(JobStatus::Canceled), fleet.tally.of(JobStatus::Running)), (6, 2));
    let kinds = vec![EventKind::JobStopped, EventKind::JobCanceled];
    let told = bench.stream(EventFilter { job: Some(job), kinds, ..EventFilter::default() }, 7).await;
    let why = "2 hosts failed, and 10% may";
    assert!(told.iter().all(|(_, event)| event.data.reason.as_deref() == Some(why)), "{told:?}");
    assert_eq!(bench.status(job).await, JobStatus::Running, "what runs may finish");
    bench.succeed(&runs[2]).await;
    bench.succeed(&runs[3]).await;
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Failed);
}

pub async fn a_canceled_command_stops_on_its_hosts(bench: &Bench) {
    bench.hosts(3).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    bench.conduct().await;
    let runs = bench.claim(bench.agent(1)).await;
    bench.beat(&runs[0]).await;
    assert_eq!(bench.cancel(job).await, OrderAnswer::Done(JobStatus::Canceling));
    assert_eq!(bench.cancel(job).await, OrderAnswer::Unchanged(JobStatus::Canceling));
    bench.conduct().await;
    assert!(bench.claim(bench.agent(5)).await.is_empty(), "nothing more begins");
    assert_eq!(bench.beat(&runs[0]).await, BeatAnswer::Cancel, "what runs is told");
    assert_eq!(bench.status(job).await, JobStatus::Canceling);
    bench.report(bench.report_of(&runs[0], Outcome::Canceled)).await;
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Canceled);
    assert_eq!(bench.fleet(job).await.tally.of(JobStatus::Canceled), 3);
}

pub async fn a_command_past_its_time_is_stopped_and_fails(bench: &Bench) {
    bench.hosts(2).await;
    let mut wish = bench.command(spec(), Rollout::default()).await;
    let fleet = wish.fleet.as_deref().cloned().expect("a command");
    wish.fleet = Some(Arc::new(NewFleet { deadline_ms: Some(60_000), ..fleet }));
    let job = bench.submit(wish).await;
    bench.conduct().await;
    let runs = bench.claim(bench.agent(1)).await;
    bench.beat(&runs[0]).await;
    bench.pass_ms(60_001);
    assert_eq!(bench.promote().await, 1);
    bench.conduct().await;
    assert_eq!(bench.beat(&runs[0]).await, BeatAnswer::Cancel);
    bench.report(bench.report_of(&runs[0], Outcome::Canceled)).await;
    bench.conduct().await;
    let (record, _) = bench.find(job).await;
    assert_eq!((record.state.status, record.error.map(|e| e.class)), (JobStatus::Failed, Some(ErrorClass::Deadline)));
}

pub async fn a_command_for_later_begins_at_its_moment(bench: &Bench) {
    bench.hosts(1).await;
    let wish =
        NewJob { run_at: Some(bench.now().plus_millis(5_000)), ..bench.command(spec(), Rollout::default()).await };
    let job = bench.submit(wish).await;
    assert_eq!(bench.status(job).await, JobStatus::Pending);
    assert!(bench.begin().await.is_empty());
    bench.pass_ms(5_001);
    bench.promote().await;
    assert_eq!(bench.begin().await.len(), 1);
}

/// C7, in the ledger's part of it.
pub async fn a_host_has_one_exclusive_run_at_a_time_in_order(bench: &Bench) {
    bench.hosts(1).await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(bench.commanded(spec(), Rollout::default()).await);
    }
    for nth in 0..3 {
        let runs = bench.begin().await;
        assert_eq!(runs.len(), 1, "one at a time");
        assert_eq!(runs[0].unit.as_ref().map(|unit| unit.command), Some(jobs[nth]), "in the order they came");
        let line = bench.ledger.host_queue(bench.tenant, inventory(), host_name("h0000")).await.expect("read");
        let line: Vec<(JobId, bool)> = line.expect("a host").turns.iter().map(|turn| (turn.job, turn.held)).collect();
        let wanted: Vec<(JobId, bool)> = jobs[nth..].iter().enumerate().map(|(n, job)| (*job, n == 0)).collect();
        assert_eq!(line, wanted);
        assert!(bench.begin().await.is_empty());
        bench.succeed(&runs[0]).await;
    }
    bench.conduct().await;
    for job in jobs {
        assert_eq!(bench.status(job).await, JobStatus::Succeeded);
    }
}

pub async fn those_who_share_a_host_do_not_pass_one_who_wants_it_alone(bench: &Bench) {
    bench.hosts(1).await;
    let shared = || CommandSpec { lock: HostLock::Shared, ..spec() };
    bench.commanded(shared(), Rollout::default()).await;
    bench.commanded(shared(), Rollout::default()).await;
    let first = bench.begin().await;
    assert_eq!(first.len(), 2, "two share");
    let alone = bench.commanded(spec(), Rollout::default()).await;
    let late = bench.commanded(shared(), Rollout::default()).await;
    assert!(bench.begin().await.is_empty());
    bench.succeed(&first[0]).await;
    assert!(bench.begin().await.is_empty(), "one of them is still there");
    bench.succeed(&first[1]).await;
    let second = bench.begin().await;
    assert_eq!(second.iter().map(|run| run.unit.as_ref().map(|u| u.command)).collect::<Vec<_>>(), [Some(alone)]);
    bench.succeed(&second[0]).await;
    let third = bench.begin().await;
    assert_eq!(third.iter().map(|run| run.unit.as_ref().map(|u| u.command)).collect::<Vec<_>>(), [Some(late)]);
}

pub async fn a_waiting_host_that_is_canceled_lets_the_next_one_in(bench: &Bench) {
    bench.hosts(1).await;
    let first = bench.commanded(spec(), Rollout::default()).await;
    let runs = bench.begin().await;
    let second = bench.commanded(spec(), Rollout::default()).await;
    let third = bench.commanded(spec(), Rollout::default()).await;
    bench.conduct().await;
    bench.cancel(second).await;
    bench.conduct().await;
    assert_eq!(bench.status(second).await, JobStatus::Canceled);
    bench.succeed(&runs[0]).await;
    let next = bench.begin().await;
    assert_eq!(next.iter().map(|run| run.unit.as_ref().map(|u| u.command)).collect::<Vec<_>>(), [Some(third)]);
    assert_eq!(bench.status(first).await, JobStatus::Succeeded);
}

/// L1, for hosts.
pub async fn whoever_has_a_host_alone_has_a_higher_fence_for_it(bench: &Bench) {
    bench.hosts(1).await;
    let mut last = 0;
    for _ in 0..3 {
        bench.commanded(spec(), Rollout::default()).await;
        let runs = bench.begin().await;
        let fence = runs[0].unit.as_ref().expect("for a host").host_fence;
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        bench.succeed(&runs[0]).await;
    }
    let shared = || CommandSpec { lock: HostLock::Shared, ..spec() };
    for _ in 0..2 {
        bench.commanded(shared(), Rollout::default()).await;
        let runs = bench.begin().await;
        let fence = runs[0].unit.as_ref().expect("for a host").host_fence;
        assert_eq!(fence, last, "those who share begin in any order");
    }
}

pub async fn a_run_goes_to_the_agent_of_its_host(bench: &Bench) {
    let own = |name: &str, agent: Option<&str>| Host {
        connection: Connection::Agent { agent: agent.map(worker_name) },
        ..Host::named(host_name(name))
    };
    bench.put_hosts(vec![own("web1", None), own("web2", Some("other"))], vec![]).await;
    bench.commanded(spec(), Rollout::default()).await;
    bench.conduct().await;
    let agent = |name: &str| {
        let labels = labels(&[(Connection::AGENT_LABEL, name)]);
        let abilities = Arc::new(Abilities { task_types: BTreeSet::from([TaskType::command()]), labels });
        Claimant { abilities, wants: 5, slots: 5, ..bench.worker(name) }
    };
    assert!(bench.claim(bench.agent(5)).await.is_empty(), "who plays hosts is not asked");
    assert!(bench.claim(agent("web2")).await.is_empty());
    assert_eq!(names(&bench.claim(agent("other")).await), ["web2"]);
    assert_eq!(names(&bench.claim(agent("web1")).await), ["web1"]);
}

pub async fn a_command_gets_what_it_asks_about_each_host(bench: &Bench) {
    let group = |name: &str| GroupName::new(name).expect("a name");
    let vars = |value: serde_json::Value| value.as_object().cloned().expect("an object");
    let web = Host {
        labels: labels(&[("role", "web")]),
        groups: BTreeSet::from([group("fra")]),
        vars: vars(json!({"port": 80, "password": "not for everybody"})),
        ..simulated("web1")
    };
    let fra = Group { name: group("fra"), groups: BTreeSet::new(), vars: vars(json!({"port": 1, "zone": "eu"})) };
    bench.put_hosts(vec![web], vec![fra]).await;
    let argv = ["echo", "{{ host.labels.role }}", "{{ host.vars.port }}", "{{ host.vars.zone }}"];
    let argv = argv.iter().map(|text| Template::parse(text).expect("a template")).collect();
    bench.commanded(CommandSpec { argv, ..CommandSpec::default() }, Rollout::default()).await;
    let runs = bench.begin().await;
    let scope = runs[0].unit.as_ref().and_then(|unit| unit.scope.clone()).expect("there is something to know");
    let scope: serde_json::Value = serde_json::from_str(&scope).expect("JSON");
    assert_eq!(scope, json!({"labels": {"role": "web"}, "vars": {"port": 80, "zone": "eu"}}));
}

pub async fn a_block_in_the_last_moment_counts(bench: &Bench) {
    bench.hosts(3).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    bench.conduct().await;
    let made = bench.block_all(BlockedPlace::Host(host_name("h0001")), Some("uptime"), None).await;
    assert!(matches!(made, BlockAnswer::Made(_)));
    bench.block_all(BlockedPlace::Host(host_name("h0000")), Some("reboot"), None).await;
    let runs = bench.begin().await;
    assert_eq!(names(&runs), ["h0000", "h0002"], "another command's block is not ours");
    let blocked = bench.unit(job, "h0001").await;
    assert_eq!((blocked.state.status, blocked.state.attempts, blocked.run), (JobStatus::Blocked, 0, None));
    let rule = blocked.blocked_by.expect("it says by what");
    assert_eq!((rule.reason.as_str(), rule.by.as_str(), rule.expires_at), ("maintenance", "ops", None));
    assert!(matches!(made, BlockAnswer::Made(id) if id == rule.block));
    assert_eq!(bench.unit(job, "h0000").await.blocked_by, None);
    for run in &runs {
        bench.succeed(run).await;
    }
    bench.conduct().await;
    let (record, _) = bench.find(job).await;
    assert_eq!(record.state.status, JobStatus::Failed, "it did not run everywhere, and says so");
    assert_eq!(record.error.expect("it says why").message, "of 3 hosts 1 blocked");
    assert!(bench.ledger.unblock(bench.tenant, rule.block, "ops".into(), None).await.expect("orders"));
    bench.retry(job).await;
    assert_eq!(names(&bench.begin().await), ["h0001"]);
    assert_eq!(bench.unit(job, "h0001").await.blocked_by, None, "that was before");
}

pub async fn a_block_by_selector_holds_for_whoever_is_meant_then(bench: &Bench) {
    let group = |name: &str| GroupName::new(name).expect("a name");
    let inner = Host { groups: BTreeSet::from([group("inner")]), ..simulated("deep") };
    let labeled = Host { labels: labels(&[("env", "prod")]), ..simulated("labeled") };
    let outer = Group { name: group("outer"), groups: BTreeSet::from([group("inner")]), vars: Vars::new() };
    bench.put_hosts(vec![inner, labeled, simulated("other")], vec![outer]).await;
    bench.block_all(BlockedPlace::Selector("@outer | env=prod".to_owned()), None, None).await;
    bench.commanded(spec(), Rollout::default()).await;
    assert_eq!(names(&bench.begin().await), ["other"]);
}

pub async fn a_block_ends_by_itself_or_by_order(bench: &Bench) {
    bench.hosts(1).await;
    bench.block_all(BlockedPlace::Selector("all".to_owned()), None, Some(10_000)).await;
    let BlockAnswer::Made(id) = bench.block_all(BlockedPlace::Host(host_name("h0000")), None, None).await else {
        panic!("the host is there");
    };
    assert_eq!(bench.ledger.list_blocks(bench.tenant).await.expect("read").len(), 2);
    assert!(bench.ledger.unblock(bench.tenant, id, "ops".into(), None).await.expect("orders"));
    assert!(!bench.ledger.unblock(bench.tenant, id, "ops".into(), None).await.expect("orders"));
    bench.commanded(spec(), Rollout::default()).await;
    assert!(bench.begin().await.is_empty(), "one of them still holds");
    bench.pass_ms(10_001);
    bench.commanded(spec(), Rollout::default()).await;
    assert_eq!(bench.begin().await.len(), 1);
    let nobody = bench.block_all(BlockedPlace::Host(host_name("nobody")), None, None).await;
    assert_eq!(nobody, BlockAnswer::NoHost);
}

pub async fn blocks_are_told_with_who_and_why(bench: &Bench) {
    bench.hosts(1).await;
    let place = BlockedPlace::Host(host_name("h0000"));
    let BlockAnswer::Made(one) = bench.block_all(place, Some("uptime"), None).await else { panic!("it is made") };
    let place = BlockedPlace::Selector("all".to_owned());
    let BlockAnswer::Made(two) = bench.block_all(place, None, None).await else { panic!("it is made") };
    assert_eq!(bench.ledger.unblock(bench.tenant, one, "eve".into(), Some("done".to_owned())).await, Ok(true));
    let kinds = vec![EventKind::HostBlocked, EventKind::HostUnblocked];
    let stream = bench.stream(EventFilter { kinds, ..EventFilter::default() }, 3).await;
    let told: Vec<_> = stream
        .iter()
        .map(|(_, event)| (event.data.by.clone().unwrap_or_default(), event.data.reason.clone().unwrap_or_default()))
        .collect();
    assert_eq!(
        told,
        [
            ("ops".to_owned(), format!("block {one}: uptime on h0000: maintenance")),
            ("ops".to_owned(), format!("block {two}: every command on all: maintenance")),
            ("eve".to_owned(), format!("block {one}: done")),
        ]
    );
}

pub async fn blocks_that_cost_too_much_hold_and_there_are_only_so_many(bench: &Bench) {
    let long = format!("{}z", "a".repeat(240));
    bench.put_hosts(vec![simulated(&long)], Vec::new()).await;
    let costly = vec!["*b*"; 4_000].join("|");
    let bytes = i64::try_from(costly.len()).expect("small");
    let mut made = 0;
    let answer = loop {
        match bench.block_all(BlockedPlace::Selector(costly.clone()), None, Some(10_000)).await {
            BlockAnswer::Made(_) => made += 1,
            answer => break answer,
        }
    };
    assert_eq!(answer, BlockAnswer::TooMany { what: "block_selectors", max: BLOCK_SELECTOR_BYTES_MAX });
    assert_eq!(made, BLOCK_SELECTOR_BYTES_MAX / bytes);
    let job = bench.commanded(spec(), Rollout::default()).await;
    assert!(bench.begin().await.is_empty(), "no rule is skipped because it costs too much");
    assert_eq!(bench.unit(job, &long).await.state.status, JobStatus::Blocked);
    bench.pass_ms(10_001);
    for _ in 0..BLOCKS_MAX {
        let free = bench.block_all(BlockedPlace::Selector("none".to_owned()), None, None).await;
        assert!(matches!(free, BlockAnswer::Made(_)), "those that ended count no more");
    }
    let answer = bench.block_all(BlockedPlace::Selector("none".to_owned()), None, None).await;
    assert_eq!(answer, BlockAnswer::TooMany { what: "blocks", max: BLOCKS_MAX });
    bench.commanded(spec(), Rollout::default()).await;
    assert_eq!(bench.begin().await.len(), 1);
}

/// Another version of the server may have written its selector.
pub async fn a_block_that_cannot_be_read_holds_its_inventory_and_nothing_else(bench: &Bench) {
    bench.hosts(1).await;
    let BlockAnswer::Made(id) = bench.block_all(BlockedPlace::Selector("((".to_owned()), Some("uptime"), None).await
    else {
        panic!("the ledger does not read selectors");
    };
    let job = bench.commanded(spec(), Rollout::default()).await;
    let plain = bench.submit(bench.job()).await;
    let neighbour = bench.submit(NewJob { tenant: bench.neighbour, ..bench.job() }).await;
    bench.conduct().await;
    let mine = bench.claim(Claimant { abilities: bench.worker("w1").abilities, ..bench.insider(10) }).await;
    let others: BTreeSet<JobId> = mine.iter().map(|run| run.job).collect();
    assert_eq!(others, BTreeSet::from([plain, neighbour]));
    assert!(bench.begin().await.is_empty(), "what may be forbidden does not run");
    let unit = bench.unit(job, "h0000").await;
    assert_eq!(unit.state.status, JobStatus::Blocked);
    bench.conduct().await;
    assert!(bench.ledger.unblock(bench.tenant, id, "ops".into(), None).await.expect("orders"));
    bench.retry(job).await;
    assert_eq!(names(&bench.begin().await), ["h0000"]);
}

pub async fn nothing_runs_on_a_host_that_was_taken_out(bench: &Bench) {
    bench.hosts(2).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    let hosts = vec![host_name("h0000")];
    bench.ledger.remove_hosts(bench.tenant, inventory(), hosts, "ops".into(), None).await.expect("orders");
    let runs = bench.begin().await;
    assert_eq!(names(&runs), ["h0001"]);
    assert_eq!(bench.unit(job, "h0000").await.state.status, JobStatus::Canceled);
}

/// Late truth reaches the whole.
pub async fn a_lost_host_that_did_succeed_corrects_its_command(bench: &Bench) {
    bench.hosts(2).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    let runs = bench.begin().await;
    bench.succeed(&on(&runs, "h0001")).await;
    let named = bench.silence().await.runs;
    assert_eq!(
        (named.len(), named[0].job, named[0].host.as_deref()),
        (1, job, Some("h0000")),
        "the command and its host"
    );
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Failed);
    assert_eq!(bench.unit(job, "h0000").await.state.status, JobStatus::Error, "it is not idempotent: a person decides");
    let answer = bench.succeed(&on(&runs, "h0000")).await;
    assert_eq!(answer, ReportAnswer::Corrected(JobStatus::Succeeded));
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Succeeded);
}

pub async fn only_what_did_not_succeed_runs_again(bench: &Bench) {
    bench.hosts(4).await;
    let rollout = Rollout { canary: Some(Share::Hosts(3)), ..Rollout::default() };
    let job = bench.commanded(spec(), rollout).await;
    let runs = bench.begin().await;
    bench.succeed(&on(&runs, "h0000")).await;
    bench.fail(&on(&runs, "h0001"), ErrorClass::Permanent).await;
    bench.fail(&on(&runs, "h0002"), ErrorClass::Timeout).await;
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Failed);
    assert_eq!(bench.retry(job).await, OrderAnswer::Done(JobStatus::Running));
    let again = bench.begin().await;
    assert_eq!(names(&again), ["h0001", "h0002"]);
    assert!(again.iter().all(|run| run.fence == 2));
    for run in &again {
        bench.succeed(run).await;
    }
    let rest = bench.begin().await;
    assert_eq!(names(&rest), ["h0003"], "and what had not begun goes on");
    bench.succeed(&rest[0]).await;
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Succeeded);
    assert_eq!(bench.retry(job).await, OrderAnswer::Finished(JobStatus::Succeeded));
}

pub async fn the_same_command_asked_twice_is_one(bench: &Bench) {
    bench.hosts(2).await;
    let wish =
        NewJob { keys: vec![super::bench::external_id("deploy-7")], ..bench.command(spec(), Rollout::default()).await };
    let job = bench.submit(wish.clone()).await;
    let again = bench.ask(NewJob { id: bench.job_id(), ..wish }).await;
    assert!(matches!(again, Submitted::Replayed { id, .. } if id == job), "{again:?}");
    assert_eq!(bench.begin().await.len(), 2);
}

pub async fn a_list_of_jobs_shows_commands_and_not_their_hosts(bench: &Bench) {
    bench.hosts(30).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    bench.begin().await;
    let page = bench.ledger.list_jobs(bench.tenant, Default::default(), None, 10).await.expect("read");
    assert_eq!(page.items.iter().map(|record| record.id).collect::<Vec<_>>(), [job]);
    assert_eq!(page.items[0].command.as_deref(), Some("uptime"), "by the first word of what is executed");
    assert_eq!(page.next, None);
    let script = CommandSpec { argv: Vec::new(), script: Some("exit 0".to_owned()), ..spec() };
    let script = bench.commanded(script, Rollout::default()).await;
    assert_eq!(bench.find(script).await.0.command.as_deref(), Some("script"));
    let mut named = bench.command(spec(), Rollout::default()).await;
    named.payload = r#"{"name":"restart-service","version":1,"spec":{"argv":["systemctl"]}}"#.into();
    let named = bench.submit(named).await;
    assert_eq!(bench.find(named).await.0.command.as_deref(), Some("restart-service"));
    let task = bench.submit(bench.job()).await;
    assert_eq!(bench.find(task).await.0.command, None);
}

pub async fn events_name_the_host_and_the_command(bench: &Bench) {
    bench.hosts(1).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    let runs = bench.begin().await;
    bench.succeed(&runs[0]).await;
    bench.conduct().await;
    let filter = EventFilter { job: Some(job), ..EventFilter::default() };
    let told = bench.stream(filter, 7).await;
    let told: Vec<(EventKind, Option<&str>)> =
        told.iter().map(|(_, event)| (event.kind, event.host.as_ref().map(HostName::as_str))).collect();
    let host = Some("h0000");
    assert_eq!(
        told,
        [
            (EventKind::JobOpened, None),
            (EventKind::JobEnqueued, host),
            (EventKind::HostsPlanned, None),
            (EventKind::JobStarted, host),
            (EventKind::RunAccepted, host),
            (EventKind::JobSucceeded, host),
            (EventKind::JobSucceeded, None),
        ]
    );
}

pub async fn a_resource_cannot_be_deleted_while_a_command_needs_it(bench: &Bench) {
    bench.hosts(1).await;
    let key = ResourceKey {
        tenant: bench.tenant,
        kind: bowline_model::resource::ResourceKind::Command,
        name: ResourceName::new("uptime").expect("a name"),
    };
    let put = ResourcePut {
        key: key.clone(),
        spec: "{}".into(),
        note: None,
        source: None,
        by: "ann".into(),
        activate: true,
        seen: None,
    };
    bench.ledger.put_resource(put).await.expect("the ledger takes resources");
    let id = bench.ledger.find_resource(key.clone(), None).await.expect("read").expect("there").id;
    let mut wish = bench.command(spec(), Rollout::default()).await;
    let fleet = wish.fleet.as_deref().cloned().expect("a command");
    wish.fleet = Some(Arc::new(NewFleet { resource: Some(id), ..fleet }));
    bench.submit(wish).await;
    let delete = || bench.ledger.delete_resource(ResourceOrder { key: key.clone(), by: "ann".into(), reason: None });
    assert!(matches!(delete().await.expect("orders"), Deleted::InUse(_)));
    let runs = bench.begin().await;
    bench.succeed(&runs[0]).await;
    bench.conduct().await;
    assert_eq!(delete().await.expect("orders"), Deleted::Done);
}

pub async fn retention_takes_a_command_with_its_hosts(bench: &Bench) {
    bench.hosts(3).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    for run in bench.begin().await {
        bench.succeed(&run).await;
    }
    bench.conduct().await;
    let living = bench.commanded(spec(), Rollout::default()).await;
    let runs = bench.begin().await;
    bench.succeed(&runs[0]).await;
    bench.pass_ms(100_000);
    let retention = Retention { finished_jobs_ms: 50_000, events_ms: 50_000 };
    for _ in 0..2 {
        bench.ledger.prune(retention, PruneMark::default()).await.expect("it prunes");
        bench.verifies().await;
    }
    assert_eq!(bench.ledger.find_job(bench.tenant, job).await.expect("read"), None);
    assert_eq!(bench.ledger.find_fleet(bench.tenant, job).await.expect("read"), None);
    assert_eq!(bench.units(living).await.len(), 3, "the hosts of a command that lives stay, also those that are done");
}

pub async fn nobody_sees_or_moves_a_neighbours_command(bench: &Bench) {
    bench.hosts(1).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    bench.conduct().await;
    bench.block_all(BlockedPlace::Selector("none*".to_owned()), None, None).await;
    let (ledger, stranger) = (&bench.ledger, bench.neighbour);
    assert_eq!(ledger.find_fleet(stranger, job).await.expect("read"), None);
    assert_eq!(ledger.find_unit(stranger, job, host_name("h0000")).await.expect("read"), None);
    assert!(ledger.list_units(stranger, job, UnitFilter::default(), None, 10).await.expect("read").items.is_empty());
    assert!(ledger.list_unplanned(stranger, job, 0, 10).await.expect("read").items.is_empty());
    assert!(ledger.list_blocks(stranger).await.expect("read").is_empty());
    assert_eq!(ledger.host_queue(stranger, inventory(), host_name("h0000")).await.expect("read"), None);
    let theirs = Claimant { tenant: Some(stranger), ..bench.agent(5) };
    assert!(bench.claim(theirs).await.is_empty());
    let blocks = ledger.list_blocks(bench.tenant).await.expect("read");
    assert!(!ledger.unblock(stranger, blocks[0].id, "eve".into(), None).await.expect("orders"));
}

/// Chaos in small: many commands on few hosts, agents that fail, vanish and come back; in the end everything is over.
pub async fn many_commands_on_few_hosts_all_end(bench: &Bench) {
    bench.hosts(6).await;
    let mut jobs = Vec::new();
    for n in 0..8 {
        let lock = if n % 3 == 0 { HostLock::Shared } else { HostLock::Exclusive };
        let spec = CommandSpec { lock, idempotent: n % 2 == 0, timeout_ms: 10_000, ..spec() };
        jobs.push(bench.commanded(spec, Rollout { serial: Some(Share::Hosts(4)), ..Rollout::default() }).await);
    }
    for round in 0..400 {
        let runs = bench.begin().await;
        let mut hosts: Vec<&HostName> = Vec::new();
        for run in runs.iter().filter(|run| run.unit.as_ref().is_some_and(|unit| unit.lock == HostLock::Exclusive)) {
            let host = &run.unit.as_ref().expect("for a host").host;
            assert!(!hosts.contains(&host), "{host} was given twice");
            hosts.push(host);
        }
        for (n, run) in runs.iter().enumerate() {
            match (round + n) % 7 {
                0 => drop(bench.fail(run, ErrorClass::Transient).await),
                1 => {}
                _ => drop(bench.succeed(run).await),
            }
        }
        if round == 20 {
            bench.cancel(jobs[7]).await;
        }
        bench.pass_ms(TIMES.ttl_ms + 1);
        bench.reap().await;
        bench.promote().await;
        let mut over = true;
        for job in &jobs {
            over &= bench.status(*job).await.is_terminal();
        }
        if over {
            bench.verifies().await;
            return;
        }
    }
    panic!("some command never ended");
}
