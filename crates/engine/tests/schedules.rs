//! The scheduler on a real ledger, with a clock that only the test turns: every instant once, whatever happens to the clock,
//! to the server and to what is to be started.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_engine::builtin::Handlers;
use bowline_engine::fleet::PutError;
use bowline_engine::secrets::{SecretRules, Secrets};
use bowline_engine::{Engine, EngineSettings, TenantRules, TriggerError};
use bowline_model::clock::ClockRules;
use bowline_model::fleet::CommandSpec;
use bowline_model::host::{Host, Inventory};
use bowline_model::lane::LaneWeights;
use bowline_model::lease::LeaseTimes;
use bowline_model::resource::{ResourceKind, Spec};
use bowline_model::worker::Strategy;
use bowline_model::{EventKind, HostName, InventoryName, ResourceName, TenantId, Timestamp};
use bowline_store::{
    Clock, EventFilter, InventoryPut, JobFilter, JobOrder, JobRecord, Ledger, ManualClock, Origin, ResourceKey,
    ResourceOrder, Retention, ScheduleState, Submitted, Unmentioned,
};
use bowline_store_sql::{SqlLedger, SqlSettings};
use bowline_supervise::Meters;
use serde_json::{Value, json};

struct House {
    ledger: Arc<dyn Ledger>,
    clock: Arc<ManualClock>,
    tenant: TenantId,
    engine: Arc<Engine>,
    _directory: tempfile::TempDir,
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a moment")
}

fn name(text: &str) -> ResourceName {
    ResourceName::new(text).expect("a name")
}

fn engine(ledger: &Arc<dyn Ledger>, clock: &Arc<ManualClock>, seed: u64) -> Arc<Engine> {
    engine_by(ledger, Arc::<ManualClock>::clone(clock), seed)
}

fn engine_by(ledger: &Arc<dyn Ledger>, clock: Arc<dyn Clock>, seed: u64) -> Arc<Engine> {
    let settings = EngineSettings {
        weights: LaneWeights::default(),
        strategy: Strategy::RoundRobin,
        lease: LeaseTimes { ttl_ms: 3_000, accept_ms: 1_000, heartbeat_ms: 500, deadline_grace_ms: 500 },
        retention: Retention { finished_jobs_ms: i64::MAX / 2_000, events_ms: i64::MAX / 2_000 },
        job_deadline_ms: None,
        command_retries: Default::default(),
        builtin_slots: 0,
        egress: TenantRules::default(),
        quotas: bowline_engine::QuotaLimits::default(),
        server_name: format!("{seed:x}"),
        seed,
    };
    let secrets = Secrets::new(Arc::clone(ledger), Arc::clone(&clock), SecretRules::default(), BTreeMap::default());
    let blobs = Arc::default() as Arc<bowline_backbone::MemoryBlobs>;
    Engine::new(Arc::clone(ledger), clock, Meters::new(), settings, Handlers::standard(), blobs, secrets)
        .expect("an engine")
}

impl House {
    /// At this moment.
    fn open(now: &str) -> Self {
        let directory = tempfile::tempdir().expect("a place for the ledger");
        let clock = ManualClock::at(at(now));
        let settings = SqlSettings { key_ttl_ms: 60_000, ..SqlSettings::new(clock.clone()) };
        let ledger = SqlLedger::open_sqlite(directory.path(), &settings).expect("a new ledger opens");
        let ledger: Arc<dyn Ledger> = Arc::new(ledger);
        let engine = engine(&ledger, &clock, 1);
        let tenant = TenantId::mint(at(now), [1; 10]);
        Self { ledger, clock, tenant, engine, _directory: directory }
    }

    /// The same, and a clock that is far from what the ledger knows is not believed.
    fn open_doubting(now: &str) -> Self {
        let directory = tempfile::tempdir().expect("a place for the ledger");
        let clock = ManualClock::at(at(now));
        let settings = SqlSettings { clock_rules: Some(ClockRules::default()), ..SqlSettings::new(clock.clone()) };
        let ledger = SqlLedger::open_sqlite(directory.path(), &settings).expect("a new ledger opens");
        let deciding = ledger.clock();
        let ledger: Arc<dyn Ledger> = Arc::new(ledger);
        let engine = engine_by(&ledger, deciding, 1);
        let tenant = TenantId::mint(at(now), [1; 10]);
        Self { ledger, clock, tenant, engine, _directory: directory }
    }

    async fn try_put(&self, kind: ResourceKind, text: &str, spec: Value) -> Result<(), PutError> {
        let spec = Spec::from_value(kind, spec)?;
        let put = self.engine.resources.put(self.tenant, name(text), &spec, None, "service:ann".into(), true, None);
        put.await.map(drop)
    }

    /// A schedule that starts an echo, with these fields besides.
    async fn put(&self, text: &str, mut fields: Value) {
        if fields.get("start").is_none() {
            fields["start"] = json!({"type": "echo", "payload": {"n": 1}});
        }
        self.try_put(ResourceKind::Schedule, text, fields).await.expect("a good schedule");
    }

    /// Turns the clock and lets the scheduler look until it has nothing more to do; how many jobs it started.
    async fn look_at(&self, now: &str) -> u64 {
        self.clock.set(at(now));
        let mut started = 0;
        for _ in 0..20 {
            started += self.engine.scheduler.look().await.expect("the ledger is there").started;
            if self.ledger.due_schedules(1, Vec::new()).await.expect("the ledger is there").due.is_empty() {
                return started;
            }
        }
        panic!("the scheduler does not come to rest");
    }

    async fn state(&self, text: &str) -> ScheduleState {
        let found = self.ledger.find_schedule(self.tenant, name(text)).await.expect("the ledger can be read");
        found.expect("it is there").state.expect("it counts")
    }

    /// Every job there is, oldest first.
    async fn jobs(&self) -> Vec<JobRecord> {
        let page = self.ledger.list_jobs(self.tenant, JobFilter::default(), None, 1_000).await;
        let mut jobs = page.expect("the ledger can be read").items;
        jobs.reverse();
        jobs
    }

    /// For which instants there are jobs, oldest first.
    async fn instants(&self) -> Vec<String> {
        self.jobs().await.iter().map(|job| job.origin.request_id.to_string()).collect()
    }

    async fn told(&self, kind: EventKind) -> Vec<String> {
        let filter = EventFilter { tenant: Some(self.tenant), kinds: vec![kind], ..EventFilter::default() };
        let page = self.ledger.events_after(Default::default(), filter, 100).await.expect("events can be read");
        page.events.into_iter().filter_map(|(_, event)| event.data.reason).collect()
    }

    async fn verify(&self) {
        let verified = self.ledger.verify(10).await.expect("a ledger can be verified");
        assert_eq!(verified.faults, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_schedule_fires_at_its_instants_and_at_no_other_time() {
    let house = House::open("2026-01-01T00:00:10Z");
    house.put("quarterly", json!({"cron": "*/15 * * * *"})).await;
    for (now, started) in [
        ("2026-01-01T00:00:20Z", 0),
        ("2026-01-01T00:14:59.9Z", 0),
        ("2026-01-01T00:15:00Z", 1),
        ("2026-01-01T00:15:01Z", 0),
        ("2026-01-01T00:30:30Z", 1),
    ] {
        assert_eq!(house.look_at(now).await, started, "{now}");
    }
    let jobs = house.jobs().await;
    assert_eq!(&*jobs[0].origin.request_id, "schedule/quarterly/2026-01-01T00:15:00.000000Z");
    assert_eq!(jobs[0].origin.correlation_id.as_deref(), Some("schedule/quarterly"));
    assert_eq!(&*jobs[0].origin.actor, "service:ann", "its owner asks for its jobs");
    let state = house.state("quarterly").await;
    assert_eq!((state.job, state.due_at), (Some(jobs[1].id), Some(at("2026-01-01T00:45:00Z"))));
    let whole = house.ledger.find_job(house.tenant, jobs[0].id).await.expect("readable").expect("there").0;
    assert_eq!(whole.payload.as_deref(), Some(r#"{"n":1}"#));
    house.verify().await;
}

#[tokio::test]
async fn a_clock_that_is_held_starts_nothing_and_then_the_rule_for_missed_instants_holds() {
    for (misfire, jobs) in [("skip", 0), ("once", 1)] {
        let house = House::open_doubting("2026-01-01T00:30:00Z");
        house.put("hourly", json!({"cron": "0 * * * *", "misfire": misfire})).await;
        assert_eq!(house.look_at("2026-01-01T00:30:01Z").await, 0);
        house.ledger.note_time().await.expect("the time is noted");
        // A year too late, and two hours later an instant is due by the ledger's own time.
        for now in ["2027-02-01T00:30:00Z", "2027-02-01T02:30:00Z"] {
            house.clock.set(at(now));
            house.ledger.note_time().await.expect("the time is noted");
            assert_eq!(house.engine.scheduler.look().await.expect("the ledger is there").started, 0, "{misfire}");
        }
        assert!(house.ledger.clock_status().is_held());
        assert_eq!(house.ledger.due_schedules(1, Vec::new()).await.expect("readable").due.len(), 1);
        assert_eq!(house.jobs().await.len(), 0);
        house.ledger.accept_clock("ops".into(), None).await.expect("accepted");
        assert_eq!(house.look_at("2027-02-01T02:30:01Z").await, jobs, "{misfire}");
        assert!(house.state("hourly").await.missed > 1_000, "{misfire}");
        assert_eq!(house.look_at("2027-02-01T03:00:00Z").await, 1, "{misfire}: and then it goes on");
        house.verify().await;
    }
}

#[tokio::test]
async fn a_server_that_was_down_for_a_day_follows_the_rule_for_missed_instants() {
    for (misfire, jobs, missed) in [("skip", 0, 24), ("once", 1, 23), ("all", 24, 0)] {
        let house = House::open("2026-01-01T00:30:00Z");
        house.put("hourly", json!({"cron": "0 * * * *", "misfire": misfire})).await;
        assert_eq!(house.look_at("2026-01-01T00:30:01Z").await, 0);
        // Down; and longer than a key is remembered.
        assert_eq!(house.look_at("2026-01-02T00:30:00Z").await, jobs, "{misfire}");
        assert_eq!(house.state("hourly").await.missed, missed, "{misfire}");
        assert_eq!(house.told(EventKind::ScheduleMissed).await.len(), usize::from(missed > 0), "{misfire}");
        assert_eq!(house.look_at("2026-01-02T00:59:00Z").await, 0, "{misfire}: nothing is made up for twice");
        assert_eq!(house.look_at("2026-01-02T01:00:00Z").await, 1, "{misfire}: and then it goes on");
        house.verify().await;
    }
}

#[tokio::test]
async fn a_clock_that_is_moved_by_a_day_either_way_fires_no_instant_twice() {
    let house = House::open("2026-01-10T11:30:00Z");
    house.put("hourly", json!({"cron": "0 * * * *"})).await;
    assert_eq!(house.look_at("2026-01-10T12:00:00Z").await, 1);
    assert_eq!(house.look_at("2026-01-11T12:00:00Z").await, 1, "a day ahead: one for all that were missed");
    assert_eq!(house.look_at("2026-01-10T12:30:00Z").await, 0, "and back: it waits for time to come again");
    for hour in 13..24 {
        assert_eq!(house.look_at(&format!("2026-01-10T{hour}:00:00Z")).await, 0);
    }
    assert_eq!(house.look_at("2026-01-11T12:00:30Z").await, 0);
    assert_eq!(house.look_at("2026-01-11T13:00:00Z").await, 1);
    // Put back, changed meanwhile: what was considered stays considered.
    house.clock.set(at("2026-01-11T11:00:00Z"));
    house.put("hourly", json!({"cron": "0 * * * *", "description": "changed"})).await;
    assert_eq!(house.look_at("2026-01-11T12:00:00Z").await, 0);
    assert_eq!(house.look_at("2026-01-11T14:00:00Z").await, 1);
    let mut instants = house.instants().await;
    let all = instants.len();
    instants.sort();
    instants.dedup();
    assert_eq!((instants.len(), all), (4, 4));
}

#[tokio::test]
async fn two_engines_on_one_ledger_start_one_job_for_each_instant() {
    let house = House::open("2026-01-01T00:00:00Z");
    let other = engine(&house.ledger, &house.clock, 2);
    for n in 0..10 {
        house.put(&format!("s{n}"), json!({"cron": "* * * * *"})).await;
    }
    let mut started = [0, 0];
    for minute in 1..=30 {
        house.clock.set(at(&format!("2026-01-01T00:{minute:02}:00.5Z")));
        let (one, two) = tokio::join!(house.engine.scheduler.look(), other.scheduler.look());
        started[0] += one.expect("the ledger is there").started;
        started[1] += two.expect("the ledger is there").started;
    }
    assert_eq!(started[0] + started[1], 300);
    let mut instants = house.instants().await;
    instants.sort();
    instants.dedup();
    assert_eq!(instants.len(), 300, "each schedule and instant has its own job");
    house.verify().await;
}

#[tokio::test]
async fn what_cannot_be_started_is_seen_and_stops_nothing() {
    let house = House::open("2026-01-01T00:00:00Z");
    let content = Inventory { hosts: vec![Host::named(HostName::new("a").expect("a name"))], groups: Vec::new() };
    let inventory = InventoryPut {
        tenant: house.tenant,
        inventory: InventoryName::new("main").expect("a name"),
        content: Arc::new(content),
        unmentioned: Unmentioned::Keep,
        by: "ops".into(),
        reason: None,
    };
    house.ledger.put_inventory(inventory).await.expect("inventories");
    let schedule = json!({"cron": "* * * * *", "start": {"command": "restart", "selector": "all"}});
    let refused = house.try_put(ResourceKind::Schedule, "restarts", schedule.clone()).await.expect_err("no command");
    assert_eq!(refused.to_string(), "start.command: there is no command restart");
    house.try_put(ResourceKind::Command, "restart", json!({"argv": ["true"]})).await.expect("a command");
    house.put("restarts", schedule).await;
    house.put("echoes", json!({"cron": "* * * * *"})).await;
    assert_eq!(house.look_at("2026-01-01T00:01:00Z").await, 2);
    assert_eq!(house.jobs().await.iter().filter(|job| job.command.as_deref() == Some("restart")).count(), 1);
    // The command is over, and then gone.
    for job in house.jobs().await {
        let order = JobOrder { tenant: house.tenant, job: job.id, by: "ops".into(), reason: None };
        house.ledger.cancel_job(order).await.expect("orders");
    }
    while house.ledger.conduct(true).await.expect("conducting").moved > 0 {}
    let key = ResourceKey { tenant: house.tenant, kind: ResourceKind::Command, name: name("restart") };
    let gone = house.ledger.delete_resource(ResourceOrder { key, by: "ops".into(), reason: None }).await;
    assert_eq!(gone, Ok(bowline_store::Deleted::Done));
    assert_eq!(house.look_at("2026-01-01T00:02:00Z").await, 1, "the other one goes on");
    let refusal = house.state("restarts").await.refused.expect("it is seen");
    assert_eq!((refusal.instant, refusal.why.as_str()), (at("2026-01-01T00:02:00Z"), "there is no command restart"));
    assert_eq!(house.told(EventKind::ScheduleRefused).await.len(), 1);
    assert_eq!(house.look_at("2026-01-01T00:02:30Z").await, 0, "it is not tried again for the same instant");
    assert_eq!(house.told(EventKind::ScheduleRefused).await.len(), 1);
    house.try_put(ResourceKind::Command, "restart", json!({"argv": ["true"]})).await.expect("a command");
    assert_eq!(house.look_at("2026-01-01T00:03:00Z").await, 2, "later instants are not stopped");
    house.verify().await;
}

#[tokio::test]
async fn a_change_counts_from_its_activation_and_what_is_disabled_starts_nothing() {
    let house = House::open("2026-01-01T00:30:00Z");
    house.put("s", json!({"cron": "0 * * * *"})).await;
    assert_eq!(house.look_at("2026-01-01T01:00:00Z").await, 1);
    house.clock.set(at("2026-01-01T06:30:00Z"));
    house.put("s", json!({"cron": "0 * * * *", "enabled": false})).await;
    assert_eq!(house.look_at("2026-01-01T12:00:00Z").await, 0);
    house.clock.set(at("2026-01-01T18:30:00Z"));
    house.put("s", json!({"cron": "0 */2 * * *"})).await;
    assert_eq!(house.look_at("2026-01-01T18:30:00Z").await, 0, "nothing is made up for from before");
    assert_eq!(house.look_at("2026-01-01T19:00:00Z").await, 0);
    assert_eq!(house.look_at("2026-01-01T20:00:00Z").await, 1);
}

#[tokio::test]
async fn a_job_that_is_not_over_keeps_the_next_one_away_where_that_is_wanted() {
    let house = House::open("2026-01-01T00:00:00Z");
    house.put("backup", json!({"cron": "* * * * *", "overlap": "skip"})).await;
    assert_eq!(house.look_at("2026-01-01T00:01:00Z").await, 1);
    assert_eq!(house.look_at("2026-01-01T00:02:00Z").await, 0);
    let origin = Origin { actor: "ops".into(), request_id: "r".into(), ..Origin::default() };
    let order = || house.engine.scheduler.trigger(house.tenant, name("backup"), &origin, "ops".into(), None, None);
    let job = house.jobs().await[0].id;
    assert!(matches!(order().await, Err(TriggerError::Busy(busy)) if busy == job));
    let cancel = JobOrder { tenant: house.tenant, job, by: "ops".into(), reason: None };
    house.ledger.cancel_job(cancel).await.expect("orders");
    assert!(matches!(order().await, Ok(Submitted::Accepted { .. })));
    assert_eq!(house.look_at("2026-01-01T00:03:00Z").await, 0, "what a person started counts, too");
    assert_eq!(house.state("backup").await.passed_over, 2);
}

#[tokio::test]
async fn a_delay_is_part_of_the_job_and_not_of_the_instant() {
    let house = House::open("2026-01-01T00:00:00Z");
    house.put("calm", json!({"cron": "* * * * *", "jitter_ms": 50_000})).await;
    assert_eq!(house.look_at("2026-01-01T00:01:00Z").await, 1);
    let job = house.jobs().await.remove(0);
    let due_at = job.state.due_at.expect("it waits for its moment");
    assert!((1..=50_000).contains(&due_at.millis_since(at("2026-01-01T00:01:00Z"))), "{due_at}");
}

#[tokio::test]
async fn a_workflow_is_begun_at_each_instant() {
    let house = House::open("2026-01-01T00:00:00Z");
    let schedule = json!({"cron": "* * * * *", "start": {"workflow": "release", "input": {"n": 1}}});
    let refused = house.try_put(ResourceKind::Schedule, "releases", schedule.clone()).await.expect_err("no workflow");
    assert_eq!(refused.to_string(), "start.workflow: there is no workflow release");
    let workflow = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "end", "type": "end", "config": {"output": "{{webhook.payload.n}}"}},
        ],
        "edges": [{"source": "start", "target": "end"}],
    });
    house.try_put(ResourceKind::Workflow, "release", workflow).await.expect("a workflow");
    house.try_put(ResourceKind::Schedule, "releases", schedule).await.expect("a schedule");
    assert_eq!(house.look_at("2026-01-01T00:01:00Z").await, 1);
    assert_eq!(house.look_at("2026-01-01T00:01:30Z").await, 0);
    house.engine.flows.round(house.engine.hands()).await.expect("a round");
    let job = house.jobs().await.remove(0);
    let (record, _) = house.ledger.find_job(house.tenant, job.id).await.expect("read").expect("a job");
    assert_eq!(record.result.as_deref(), Some("1"));
}

#[tokio::test]
async fn parameters_of_a_scheduled_command_must_fit() {
    let house = House::open("2026-01-01T00:00:00Z");
    let spec: CommandSpec = serde_json::from_value(json!({
        "argv": ["true"], "params": {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
    }))
    .expect("a command");
    let spec = serde_json::to_value(spec).expect("JSON");
    house.try_put(ResourceKind::Command, "clean", spec).await.expect("a command");
    let with =
        |params: Value| json!({"cron": "@daily", "start": {"command": "clean", "selector": "all", "params": params}});
    let refused =
        house.try_put(ResourceKind::Schedule, "cleaning", with(json!({}))).await.expect_err("days is missing");
    assert!(refused.to_string().starts_with("start.params: "), "{refused}");
    house.try_put(ResourceKind::Schedule, "cleaning", with(json!({"days": 3}))).await.expect("it fits");
}

/// A workflow whose patterns take a while to compile.
fn slow_workflow() -> Value {
    let node = |n: usize| {
        let value = format!("{{{{ 'a' | matches('[a-z{n}]{{900}}') }}}}");
        json!({"id": format!("n{n}"), "type": "transform", "config": {"value": value}})
    };
    let mut nodes = vec![json!({"id": "n0", "type": "start"})];
    nodes.extend((1..=30).map(node));
    let edges: Vec<Value> =
        (1..=30).map(|n| json!({"source": format!("n{}", n - 1), "target": format!("n{n}")})).collect();
    json!({"nodes": nodes, "edges": edges})
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_go_on_while_another_tenants_take_long_to_prepare() {
    let house = House::open("2026-03-01T11:59:00Z");
    let slow = TenantId::mint(at("2026-03-01T00:00:00Z"), [2; 10]);
    let put = async |kind: ResourceKind, text: &str, spec: Value| {
        let spec = Spec::from_value(kind, spec).expect("a spec");
        let put = house.engine.resources.put(slow, name(text), &spec, None, "service:ann".into(), true, None);
        put.await.expect("stored");
    };
    put(ResourceKind::Workflow, "slow", slow_workflow()).await;
    put(ResourceKind::Schedule, "first", json!({"cron": "0 12 * * *", "start": {"workflow": "slow"}})).await;
    house.put("second", json!({"cron": "0 12 * * *"})).await;
    house.clock.set(at("2026-03-01T12:00:00Z"));
    // Another server, which has not compiled anything yet.
    let other = engine(&house.ledger, &house.clock, 2);
    let stop = tokio_util::sync::CancellationToken::new();
    let events = async || {
        let page = house.ledger.list_jobs(slow, JobFilter::default(), None, 10).await.expect("read");
        (house.jobs().await, page.items)
    };
    let (quick, slow) = tokio::select! {
        ended = Arc::clone(&other.scheduler).serve(stop.clone()) => panic!("{ended:?}"),
        both = async {
            loop {
                let (quick, slow) = events().await;
                if let ([quick], [slow]) = (&quick[..], &slow[..]) {
                    break (quick.number, slow.number);
                }
                tokio::task::yield_now().await;
            }
        } => both,
    };
    assert!(quick < slow, "one tenant's schedule waited for another's: {quick}, {slow}");
}
