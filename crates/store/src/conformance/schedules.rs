//! Promises about schedules: every instant is considered once, and its job comes with that or not at all.

use bowline_model::audit::Chain;
use bowline_model::fleet::Rollout;
use bowline_model::idempotency::KeyScope;
use bowline_model::resource::ResourceKind;
use bowline_model::{EventKind, JobId, ResourceName, TenantId, Timestamp};
use tokio::task::JoinSet;

use super::bench::{Bench, body};
use super::tokens::{revoke_all, token};
use crate::{
    AuditFilter, AuditFrom, Deleted, EventFilter, Fired, Firing, JobFilter, NewJob, ResourceKey, ResourceOrder,
    ResourcePut, ResourceStored, ScheduleRecord, ScheduleState, Submitted, TokenRecord, Trigger, Triggered,
};

fn name(text: &str) -> ResourceName {
    ResourceName::new(text).expect("a name")
}

fn key(bench: &Bench, text: &str) -> ResourceKey {
    ResourceKey { tenant: bench.tenant, kind: ResourceKind::Schedule, name: name(text) }
}

/// Stores a version that counts at once.
async fn put(bench: &Bench, text: &str, spec: &str) {
    let put = ResourcePut {
        key: key(bench, text),
        spec: spec.into(),
        note: None,
        source: None,
        by: "ann".into(),
        activate: true,
        seen: None,
    };
    let stored = bench.ledger.put_resource(put).await.expect("the ledger takes resources");
    assert!(matches!(stored, ResourceStored::Stored { active: Some(_), .. }), "{stored:?}");
}

async fn find(bench: &Bench, text: &str) -> ScheduleRecord {
    let found = bench.ledger.find_schedule(bench.tenant, name(text)).await.expect("the ledger can be read");
    found.expect("the schedule is there")
}

async fn state(bench: &Bench, text: &str) -> ScheduleState {
    find(bench, text).await.state.expect("a version counts")
}

/// The names of those that are due, in their order.
async fn due(bench: &Bench) -> Vec<String> {
    let found = bench.ledger.due_schedules(100, Vec::new()).await.expect("the ledger can be read");
    assert_eq!(found.now, bench.now());
    found.due.iter().map(|record| record.name.to_string()).collect()
}

/// Considers everything after what was seen, up to now, and starts nothing.
fn firing(bench: &Bench, record: &ScheduleRecord) -> Firing {
    Firing {
        resource: record.resource,
        tenant: record.tenant,
        name: record.name.clone(),
        version: record.version,
        seen: record.state.as_ref().expect("a version counts").seen,
        to: bench.now(),
        due_at: None,
        jobs: Vec::new(),
        alone: false,
        missed: 0,
        refused: None,
    }
}

/// The job of an instant.
fn job(bench: &Bench, text: &str, instant: Timestamp) -> (Timestamp, NewJob) {
    let key = format!("schedule/{text}/{instant}");
    (instant, NewJob { hash: body(&key), keys: vec![(KeyScope::Schedule, key)], ..bench.job() })
}

async fn fire(bench: &Bench, firing: Firing) -> Fired {
    let mut fired = bench.ledger.fire_schedules(vec![firing]).await.expect("the ledger takes firings");
    assert_eq!(fired.len(), 1, "one firing has one answer");
    fired.remove(0)
}

fn started(fired: Fired) -> Vec<JobId> {
    let Fired::Done { jobs, .. } = fired else { panic!("nobody else fires: {fired:?}") };
    jobs.iter()
        .map(|job| match job {
            Submitted::Accepted { id, .. } => *id,
            other => panic!("a new job should be accepted, but the answer is {other:?}"),
        })
        .collect()
}

async fn jobs(bench: &Bench) -> usize {
    let page = bench.ledger.list_jobs(bench.tenant, JobFilter::default(), None, 1_000).await;
    page.expect("the ledger can be read").items.len()
}

/// What was told of this kind, once it is as much: readers may see an event a moment after its commit.
async fn told(bench: &Bench, kind: EventKind, count: usize) -> Vec<String> {
    bench
        .until("the events are there", async || {
            let filter = EventFilter { tenant: Some(bench.tenant), kinds: vec![kind], ..EventFilter::default() };
            let page = bench.ledger.events_after(Default::default(), filter, 100).await.expect("events can be read");
            let told: Vec<String> = page.events.into_iter().filter_map(|(_, event)| event.data.reason).collect();
            if told.len() == count { Ok(told) } else { Err(told) }
        })
        .await
}

/// A schedule that was considered just now, and is due again in an hour.
pub(super) async fn considered(bench: &Bench, text: &str) {
    put(bench, text, "1").await;
    let record = find(bench, text).await;
    let firing = Firing { due_at: Some(bench.now().plus_millis(3_600_000)), ..firing(bench, &record) };
    fire(bench, firing).await;
}

pub async fn a_schedule_counts_from_its_activation(bench: &Bench) {
    let waiting = ResourcePut {
        key: key(bench, "nightly"),
        spec: "1".into(),
        note: None,
        source: None,
        by: "ann".into(),
        activate: false,
        seen: None,
    };
    bench.ledger.put_resource(waiting).await.expect("the ledger takes resources");
    assert_eq!(find(bench, "nightly").await.state, None);
    assert!(due(bench).await.is_empty(), "what does not count is not due");
    bench.pass_ms(5_000);
    let order = ResourceOrder { key: key(bench, "nightly"), by: "bob".into(), reason: None };
    bench.ledger.activate_resource(order, 1).await.expect("the ledger takes orders");
    let record = find(bench, "nightly").await;
    assert_eq!((record.version, &*record.spec, record.owner.as_str()), (1, "1", "bob"), "whose word made it count");
    let state = record.state.expect("it counts");
    assert_eq!((state.seen, state.due_at, state.fired, state.job), (bench.now(), Some(bench.now()), None, None));
    assert_eq!(due(bench).await, ["nightly"]);
}

pub async fn a_firing_stores_its_jobs_and_moves_on(bench: &Bench) {
    put(bench, "hourly", "1").await;
    let record = find(bench, "hourly").await;
    bench.pass_ms(10_000);
    let (first, last) = (bench.now().plus_millis(-5_000), bench.now().plus_millis(-1_000));
    let again = bench.now().plus_millis(60_000);
    let decided = Firing {
        jobs: vec![job(bench, "hourly", first), job(bench, "hourly", last)],
        due_at: Some(again),
        missed: 3,
        ..firing(bench, &record)
    };
    let ids = started(fire(bench, decided).await);
    assert_eq!(ids.len(), 2);
    let state = state(bench, "hourly").await;
    assert_eq!((state.seen, state.due_at), (bench.now(), Some(again)));
    assert_eq!((state.fired, state.job), (Some((last, bench.now())), Some(ids[1])));
    assert_eq!((state.missed, state.passed_over, state.refused), (3, 0, None));
    assert!(due(bench).await.is_empty());
    let next = bench.ledger.due_schedules(100, Vec::new()).await.expect("the ledger can be read").next_at;
    assert_eq!(next, Some(again));
    let missed = told(bench, EventKind::ScheduleMissed, 1).await;
    assert!(missed.len() == 1 && missed[0].starts_with("schedule hourly: 3 since"), "{missed:?}");
    assert_eq!(bench.claim(bench.worker("w1")).await.len(), 1, "what was started is work like any other");
}

/// S1: two servers that have read the same decide the same; one of them is told that it is late.
pub async fn only_the_first_of_two_firings_counts(bench: &Bench) {
    put(bench, "hourly", "1").await;
    let record = find(bench, "hourly").await;
    bench.pass_ms(1_000);
    // Without keys: how far it was considered must be enough by itself.
    let decided = || Firing { jobs: vec![(bench.now(), bench.job())], ..firing(bench, &record) };
    started(fire(bench, decided()).await);
    assert_eq!(fire(bench, decided()).await, Fired::Overtaken);
    assert_eq!(jobs(bench).await, 1);
}

pub async fn servers_at_once_start_one_job_for_each_instant(bench: &Bench) {
    for n in 0..5 {
        put(bench, &format!("s{n}"), "1").await;
    }
    bench.pass_ms(1_000);
    let records = bench.ledger.due_schedules(100, Vec::new()).await.expect("the ledger can be read").due;
    assert_eq!(records.len(), 5);
    let mut servers = JoinSet::new();
    for server in 0..8 {
        let mut decided: Vec<Firing> = records
            .iter()
            .map(|record| Firing { jobs: vec![job(bench, record.name.as_str(), bench.now())], ..firing(bench, record) })
            .collect();
        // Each in another order.
        decided.rotate_left(server % 5);
        let ledger = bench.ledger.clone();
        servers.spawn(async move { ledger.fire_schedules(decided).await.expect("the ledger takes firings") });
    }
    let done = servers.join_all().await.into_iter().flatten();
    assert_eq!(done.filter(|fired| matches!(fired, Fired::Done { .. })).count(), 5);
    assert_eq!(jobs(bench).await, 5);
}

pub async fn a_changed_schedule_overtakes_what_was_decided_before(bench: &Bench) {
    put(bench, "hourly", "1").await;
    let old = find(bench, "hourly").await;
    put(bench, "hourly", "2").await;
    let decided = Firing { jobs: vec![job(bench, "hourly", bench.now())], ..firing(bench, &old) };
    assert_eq!(fire(bench, decided).await, Fired::Overtaken);
    assert_eq!(jobs(bench).await, 0);
    bench.pass_ms(60_000);
    put(bench, "hourly", "3").await;
    let state = state(bench, "hourly").await;
    assert_eq!((state.seen, state.due_at), (bench.now(), Some(bench.now())), "a version counts from its activation");
}

/// F17: a clock that was put back does not bring back what is over.
pub async fn time_that_was_considered_stays_considered(bench: &Bench) {
    put(bench, "hourly", "1").await;
    let record = find(bench, "hourly").await;
    let ahead = bench.now().plus_millis(3_600_000);
    fire(bench, Firing { to: ahead, ..firing(bench, &record) }).await;
    bench.pass_ms(-7_200_000);
    put(bench, "hourly", "2").await;
    assert_eq!(state(bench, "hourly").await.seen, ahead);
}

pub async fn a_schedule_that_was_made_again_starts_no_instant_twice(bench: &Bench) {
    put(bench, "hourly", "1").await;
    let (record, instant) = (find(bench, "hourly").await, bench.now());
    let first = Firing { jobs: vec![job(bench, "hourly", instant)], ..firing(bench, &record) };
    let ids = started(fire(bench, first).await);
    let order = ResourceOrder { key: key(bench, "hourly"), by: "bob".into(), reason: None };
    assert_eq!(bench.ledger.delete_resource(order).await, Ok(Deleted::Done));
    put(bench, "hourly", "1").await;
    let record = find(bench, "hourly").await;
    let second = Firing { jobs: vec![job(bench, "hourly", instant)], ..firing(bench, &record) };
    match fire(bench, second).await {
        Fired::Done { jobs, .. } => {
            assert!(matches!(jobs[..], [Submitted::Replayed { id, .. }] if id == ids[0]), "{jobs:?}");
        }
        Fired::Overtaken => panic!("nobody else fires"),
    }
    assert_eq!(jobs(bench).await, 1);
}

pub async fn at_most_one_job_at_a_time_where_that_is_wanted(bench: &Bench) {
    put(bench, "backup", "1").await;
    let at_once = async |count: i64| {
        bench.pass_ms(10_000);
        let record = find(bench, "backup").await;
        let jobs = (0..count).map(|n| job(bench, "backup", bench.now().plus_millis(n - count))).collect();
        match fire(bench, Firing { jobs, alone: true, ..firing(bench, &record) }).await {
            Fired::Done { jobs, passed_over } => (jobs.len(), passed_over),
            Fired::Overtaken => panic!("nobody else fires"),
        }
    };
    assert_eq!(at_once(3).await, (1, 2), "the latest stands for all");
    assert_eq!(at_once(1).await, (0, 1), "the last one is not over");
    let run = bench.claim(bench.worker("w1")).await.remove(0);
    assert_eq!(at_once(1).await, (0, 1), "the last one runs");
    bench.succeed(&run).await;
    assert_eq!(at_once(1).await, (1, 0));
    assert_eq!(state(bench, "backup").await.passed_over, 4);
    assert_eq!(told(bench, EventKind::SchedulePassedOver, 3).await.len(), 3);
}

pub async fn what_could_not_be_started_is_remembered_and_told(bench: &Bench) {
    put(bench, "hourly", "1").await;
    let (record, instant) = (find(bench, "hourly").await, bench.now());
    bench.pass_ms(2_000);
    let refused = Some((instant, "there is no command restart".to_owned()));
    assert_eq!(started(fire(bench, Firing { refused, ..firing(bench, &record) }).await), []);
    let found = state(bench, "hourly").await;
    let refusal = found.refused.expect("it is remembered");
    assert_eq!((refusal.instant, refusal.at), (instant, bench.now()));
    assert_eq!((refusal.why.as_str(), found.seen), ("there is no command restart", bench.now()));
    let told = told(bench, EventKind::ScheduleRefused, 1).await;
    assert!(told.len() == 1 && told[0].ends_with("there is no command restart"), "{told:?}");
}

pub async fn schedules_that_are_due_come_longest_waiting_first(bench: &Bench) {
    for text in ["a", "b", "c"] {
        put(bench, text, "1").await;
        bench.pass_ms(1_000);
    }
    assert_eq!(due(bench).await, ["a", "b", "c"]);
    let record = find(bench, "a").await;
    fire(bench, Firing { due_at: Some(bench.now()), ..firing(bench, &record) }).await;
    assert_eq!(due(bench).await, ["b", "c", "a"]);
    let record = find(bench, "b").await;
    fire(bench, Firing { due_at: Some(bench.now().plus_millis(1)), ..firing(bench, &record) }).await;
    assert_eq!(due(bench).await, ["c", "a"]);
    let two = bench.ledger.due_schedules(1, Vec::new()).await.expect("the ledger can be read");
    assert_eq!((two.due.len(), two.next_at), (1, Some(bench.now().plus_millis(1))));
    let other = TenantId::mint(Bench::START, [2; 10]);
    for (except, names) in [(vec![other], 2), (vec![bench.tenant], 0), (vec![other, bench.tenant], 0)] {
        let found = bench.ledger.due_schedules(100, except.clone()).await.expect("the ledger can be read");
        assert_eq!(found.due.len(), names, "{except:?}");
    }
}

pub async fn an_activation_rings(bench: &Bench) {
    let mut bell = bench.ledger.timer_wake().listen();
    put(bench, "hourly", "1").await;
    bell.rung().await;
}

pub async fn a_deleted_schedule_starts_nothing(bench: &Bench) {
    put(bench, "hourly", "1").await;
    let record = find(bench, "hourly").await;
    let order = ResourceOrder { key: key(bench, "hourly"), by: "bob".into(), reason: None };
    assert_eq!(bench.ledger.delete_resource(order).await, Ok(Deleted::Done));
    assert!(due(bench).await.is_empty());
    let decided = Firing { jobs: vec![job(bench, "hourly", bench.now())], ..firing(bench, &record) };
    assert_eq!(fire(bench, decided).await, Fired::Overtaken);
    let found = bench.ledger.find_schedule(bench.tenant, name("hourly")).await.expect("the ledger can be read");
    assert_eq!((found, jobs(bench).await), (None, 0));
}

fn trigger(bench: &Bench, record: &ScheduleRecord) -> Trigger {
    Trigger {
        resource: record.resource,
        name: record.name.clone(),
        version: record.version,
        job: bench.job(),
        alone: false,
        by: "ops".into(),
        reason: Some("the night was too short".to_owned()),
    }
}

pub async fn a_trigger_starts_a_job_and_is_recorded(bench: &Bench) {
    put(bench, "backup", "1").await;
    let (record, seen) = (find(bench, "backup").await, state(bench, "backup").await.seen);
    bench.pass_ms(500);
    let wish = trigger(bench, &record);
    let answer = bench.ledger.trigger_schedule(wish.clone()).await.expect("the ledger takes orders");
    assert!(matches!(answer, Triggered::Started(Submitted::Accepted { id, .. }) if id == wish.job.id), "{answer:?}");
    // An answer that was lost is asked for again.
    let again = bench.ledger.trigger_schedule(Trigger { alone: true, ..wish.clone() }).await;
    assert!(matches!(again, Ok(Triggered::Started(Submitted::Replayed { id, .. })) if id == wish.job.id), "{again:?}");
    let found = state(bench, "backup").await;
    assert_eq!((found.job, found.seen, found.fired), (Some(wish.job.id), seen, None), "no instant was considered");
    put(bench, "backup", "2").await;
    assert_eq!(bench.ledger.trigger_schedule(trigger(bench, &record)).await, Ok(Triggered::Overtaken));
    let filter = AuditFilter { action: Some("schedule.trigger".to_owned()), ..AuditFilter::default() };
    let chain = Chain::Tenant(bench.tenant);
    let records = bench.ledger.list_audit(chain, filter, AuditFrom::After(0), 10).await.expect("it can be read").items;
    let results: Vec<(&str, &str, &str)> =
        records.iter().map(|r| (r.actor.as_str(), r.resource.as_str(), r.result.as_str())).collect();
    let schedule = "resource/schedule/backup";
    assert_eq!(
        results,
        [
            ("ops", schedule, "done"),
            ("ops", schedule, "unchanged"),
            ("ops", schedule, "refused: it was changed meanwhile, or is gone"),
        ]
    );
    assert_eq!(records[0].reason.as_deref(), Some("the night was too short"));
}

/// Running something on machines is recorded, whoever starts it: also when its time has come, and only if it was started.
pub async fn a_command_that_a_schedule_starts_is_recorded(bench: &Bench) {
    bench.hosts(1).await;
    put(bench, "nightly", "1").await;
    let record = find(bench, "nightly").await;
    bench.pass_ms(1_000);
    let mut commands = Vec::new();
    for _ in 0..4 {
        commands.push(bench.command(super::fleets::spec(), Rollout::default()).await);
    }
    let wanted: Vec<String> = commands[1..3].iter().map(|command| format!("job/{}", command.id)).collect();
    let [passed_over, fired, triggered, late] = <[NewJob; 4]>::try_from(commands).expect("four commands");
    let latest = fired.id;
    let jobs = vec![(bench.now().plus_millis(-500), passed_over), (bench.now(), fired)];
    let fired = fire(bench, Firing { jobs, alone: true, ..firing(bench, &record) }).await;
    assert_eq!(started(fired), [latest], "the latest stands for all");
    let answer = bench.ledger.trigger_schedule(Trigger { job: triggered, ..trigger(bench, &record) }).await;
    assert!(matches!(answer, Ok(Triggered::Started(Submitted::Accepted { .. }))), "{answer:?}");
    let jobs = vec![(bench.now(), late)];
    assert_eq!(fire(bench, Firing { jobs, ..firing(bench, &record) }).await, Fired::Overtaken);
    let filter = AuditFilter { action: Some("command.run".to_owned()), ..AuditFilter::default() };
    let chain = Chain::Tenant(bench.tenant);
    let records = bench.ledger.list_audit(chain, filter, AuditFrom::After(0), 10).await.expect("it can be read").items;
    assert_eq!(records.into_iter().map(|record| record.resource).collect::<Vec<_>>(), wanted);
}

pub async fn a_trigger_waits_for_the_last_job_where_that_is_wanted(bench: &Bench) {
    put(bench, "backup", "1").await;
    let record = find(bench, "backup").await;
    bench.pass_ms(1_000);
    let ids =
        started(fire(bench, Firing { jobs: vec![job(bench, "backup", bench.now())], ..firing(bench, &record) }).await);
    let wish = || Trigger { alone: true, ..trigger(bench, &record) };
    assert_eq!(bench.ledger.trigger_schedule(wish()).await, Ok(Triggered::Busy(ids[0])));
    let run = bench.claim(bench.worker("w1")).await.remove(0);
    bench.succeed(&run).await;
    let answer = bench.ledger.trigger_schedule(wish()).await;
    assert!(matches!(answer, Ok(Triggered::Started(Submitted::Accepted { .. }))), "{answer:?}");
}

pub async fn schedules_are_listed_by_name(bench: &Bench) {
    for text in ["c", "a", "b"] {
        put(bench, text, "1").await;
    }
    let page = bench.ledger.list_schedules(bench.tenant, None, 2).await.expect("the ledger can be read");
    let names: Vec<&str> = page.items.iter().map(|record| record.name.as_str()).collect();
    assert_eq!((names, page.next.as_ref().map(ResourceName::as_str)), (vec!["a", "b"], Some("b")));
    let page = bench.ledger.list_schedules(bench.tenant, page.next, 2).await.expect("the ledger can be read");
    assert_eq!((page.items.len(), page.items[0].name.as_str(), page.next), (1, "c", None));
}

pub async fn nobody_sees_or_fires_a_neighbours_schedule(bench: &Bench) {
    put(bench, "hourly", "1").await;
    let found = bench.ledger.find_schedule(bench.neighbour, name("hourly")).await.expect("the ledger can be read");
    assert_eq!(found, None);
    let page = bench.ledger.list_schedules(bench.neighbour, None, 10).await.expect("the ledger can be read");
    assert!(page.items.is_empty());
    // The same name there is another schedule.
    let neighbours = ResourcePut {
        key: ResourceKey { tenant: bench.neighbour, ..key(bench, "hourly") },
        spec: "2".into(),
        source: None,
        note: None,
        by: "eve".into(),
        activate: true,
        seen: None,
    };
    bench.ledger.put_resource(neighbours).await.expect("the ledger takes resources");
    let records = bench.ledger.due_schedules(10, Vec::new()).await.expect("the ledger can be read").due;
    let tenants: Vec<_> = records.iter().map(|record| record.tenant).collect();
    assert_eq!(tenants.len(), 2);
    assert!(tenants.contains(&bench.tenant) && tenants.contains(&bench.neighbour));
}

/// A schedule has the rights of the one who applied it last, also if that changed nothing else.
pub async fn a_schedule_belongs_to_the_one_who_applied_it_last(bench: &Bench) {
    let spec = r#"{"every_ms":1000}"#;
    let by = |who: &str| ResourcePut {
        key: key(bench, "nightly"),
        spec: spec.into(),
        note: None,
        source: None,
        by: who.into(),
        activate: true,
        seen: None,
    };
    let owned = async |owner: &str| -> Vec<String> {
        let found = bench.ledger.list_owned(vec!["token:none".to_owned(), owner.to_owned()]).await.expect("read");
        found.iter().map(|one| format!("{} {} {}", one.kind, one.name, one.owner)).collect()
    };
    let applied = async |put| bench.ledger.put_resource(put).await.expect("the ledger takes resources");
    applied(by("token:ann")).await;
    assert_eq!(find(bench, "nightly").await.owner, "token:ann");
    let seen = state(bench, "nightly").await.seen;
    bench.pass_ms(500);
    let again = applied(by("token:bob")).await;
    assert_eq!(again, ResourceStored::Unchanged { version: 1, active: Some(1), activated: false });
    assert_eq!(find(bench, "nightly").await.owner, "token:bob");
    assert_eq!(state(bench, "nightly").await.seen, seen, "what was considered stays considered");
    assert_eq!(due(bench).await, ["nightly"]);
    assert_eq!(bench.ledger.due_schedules(1, Vec::new()).await.expect("read").due[0].owner, "token:bob");
    assert_eq!(owned("token:ann").await, Vec::<String>::new());
    assert_eq!(owned("token:bob").await, ["schedule nightly token:bob"]);
    // A version that is stored and does not count changes nothing; one that is activated does.
    let stored = ResourcePut { spec: r#"{"every_ms":2000}"#.into(), activate: false, ..by("token:eve") };
    applied(stored).await;
    assert_eq!(find(bench, "nightly").await.owner, "token:bob");
    let order = |who: &str| ResourceOrder { key: key(bench, "nightly"), by: who.into(), reason: None };
    bench.ledger.activate_resource(order("token:eve"), 2).await.expect("an answer");
    assert_eq!(find(bench, "nightly").await.owner, "token:eve");
    bench.ledger.activate_resource(order("token:ann"), 2).await.expect("an answer");
    assert_eq!(find(bench, "nightly").await.owner, "token:ann", "the same version, activated by another one");
    let active = bench.ledger.list_active(ResourceKind::Schedule, 0, 10).await.expect("read").items;
    assert_eq!(active[0].1.owner.as_deref(), Some("token:ann"));

    // Those whose owner has ended are counted.
    let stopped = async || bench.ledger.count_stopped().await.expect("read");
    let token = TokenRecord { made_by: None, expires_at: None, ..token(bench, "ann") };
    assert!(bench.ledger.create_token(token, "root".into()).await.expect("the ledger takes tokens"));
    assert_eq!(stopped().await, 0);
    revoke_all(bench, "ann", None, false).await.expect("revoked");
    assert_eq!(stopped().await, 1);
    applied(ResourcePut { spec: r#"{"every_ms":2000}"#.into(), ..by("service:ops") }).await;
    assert_eq!(stopped().await, 0);
    let expiring = TokenRecord { made_by: None, ..super::tokens::token(bench, "kim") };
    assert!(bench.ledger.create_token(expiring, "root".into()).await.expect("the ledger takes tokens"));
    applied(ResourcePut { spec: r#"{"every_ms":2000}"#.into(), ..by("token:kim") }).await;
    assert_eq!(stopped().await, 0);
    bench.pass_ms(1_000);
    assert_eq!(stopped().await, 1);
}
