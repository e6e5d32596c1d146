//! Two classes of small errors that nothing else would notice soon: a stored number that is not read back, and a limit
//! that is off by one. Every limit is tried at its edge and one beyond.

use std::collections::BTreeMap;

use bowline_model::audit::Chain;
use bowline_model::dead_letter::DeadLetterStatus;
use bowline_model::fleet::{ApprovalState, HostLock, Limits, Sweep, Template};
use bowline_model::host::{Pattern, Selector, check_address, check_user};
use bowline_model::job::BadPolicy;
use bowline_model::lane::LaneWeights;
use bowline_model::lease::{BadLeaseTimes, LeaseTimes, UNNAMED_MAX_MS};
use bowline_model::resource::{ResourceKind, Spec};
use bowline_model::retry::StartRetry;
use bowline_model::schedule::{Cron, Zone};
use bowline_model::secret::{HostRule, SecretRef};
use bowline_model::{
    JobKind, JobPolicy, JobState, JobStatus, Labels, Lane, RetryPolicy, RunError, RunStatus, Severity, TaskType,
    Timestamp,
};
use schemars::schema_for;
use serde_json::{Value, json};

#[test]
fn every_stored_code_is_read_back() {
    for status in DeadLetterStatus::ALL {
        assert_eq!(DeadLetterStatus::from_code(status.code()), Some(status));
    }
    for status in JobStatus::ALL {
        assert_eq!(JobStatus::from_code(status.code()), Some(status));
    }
    for status in RunStatus::ALL {
        assert_eq!(RunStatus::from_code(status.code()), Some(status));
    }
    for lane in Lane::ALL {
        assert_eq!(Lane::from_code(lane.code()), Some(lane));
    }
    for state in ApprovalState::ALL {
        assert_eq!(ApprovalState::from_code(state.code()), Some(state));
    }
    for sweep in [Sweep::None, Sweep::Cancel, Sweep::TakeBack, Sweep::Retry] {
        assert_eq!(Sweep::from_code(sweep.code()), sweep);
    }
    let units = [HostLock::Exclusive, HostLock::Shared].map(JobKind::Unit);
    for kind in [JobKind::Task, JobKind::Command, JobKind::Workflow].into_iter().chain(units) {
        assert_eq!(JobKind::from_code(kind.code()), Some(kind));
    }
}

#[test]
fn a_code_nobody_stored_is_nothing() {
    for code in [-1, 0, 99] {
        assert_eq!(DeadLetterStatus::from_code(code), None);
        assert_eq!(JobStatus::from_code(code), None);
        assert_eq!(RunStatus::from_code(code), None);
        assert_eq!(Lane::from_code(code), None);
        assert_eq!(ApprovalState::from_code(code), None);
        assert_eq!(JobKind::from_code(code), None);
    }
}

#[test]
fn every_severity_reads_back_its_own_name() {
    for severity in [Severity::Debug, Severity::Info, Severity::Warning, Severity::Error] {
        let name = serde_json::to_value(severity).expect("a severity is a word");
        assert_eq!(name.as_str().expect("a word").parse(), Ok(severity));
    }
    assert!("loud".parse::<Severity>().is_err());
}

#[test]
fn every_lane_status_and_kind_of_resource_reads_back_its_own_name() {
    for lane in Lane::ALL {
        assert_eq!(lane.to_string().parse(), Ok(lane));
        assert_eq!(serde_json::to_value(lane).expect("a lane is a word"), lane.as_str());
    }
    for status in JobStatus::ALL {
        assert_eq!(status.to_string().parse(), Ok(status));
        assert_eq!(serde_json::to_value(status).expect("a status is a word"), status.as_str());
    }
    for kind in ResourceKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
        assert_eq!(serde_json::to_value(kind).expect("a kind is a word"), kind.as_str());
    }
    let nothing = "none of them";
    assert!(nothing.parse::<Lane>().is_err());
    assert!(nothing.parse::<JobStatus>().is_err());
    assert!(nothing.parse::<ResourceKind>().is_err());
}

#[test]
fn schedules_and_triggers_start_jobs_and_nothing_else_does() {
    let starting: Vec<_> = ResourceKind::ALL.into_iter().filter(|kind| kind.starts_jobs()).collect();
    assert_eq!(starting, [ResourceKind::Schedule, ResourceKind::Trigger]);
}

#[test]
fn units_are_parts_of_commands_and_nothing_else_is() {
    for lock in [HostLock::Exclusive, HostLock::Shared] {
        assert!(JobKind::Unit(lock).is_unit());
    }
    for kind in [JobKind::Task, JobKind::Command, JobKind::Workflow] {
        assert!(!kind.is_unit(), "{kind:?}");
    }
}

#[test]
fn the_weight_of_each_lane_is_between_1_and_100() {
    let weights = LaneWeights::default();
    assert_eq!(Lane::ALL.map(|lane| weights.of(lane)), [8, 4, 3, 1]);
    for (weight, fits) in [(0, false), (1, true), (100, true), (101, false)] {
        for weights in [
            LaneWeights { critical: weight, ..weights },
            LaneWeights { webhook: weight, ..weights },
            LaneWeights { default: weight, ..weights },
            LaneWeights { low: weight, ..weights },
        ] {
            assert_eq!(weights.check().is_ok(), fits, "{weights:?}");
        }
    }
}

#[test]
fn the_times_of_leases_fit_together_up_to_their_limits() {
    let times = LeaseTimes { ttl_ms: 3_000, accept_ms: 3_000, heartbeat_ms: 1_000, deadline_grace_ms: 0 };
    let least = LeaseTimes { ttl_ms: 3, accept_ms: 1, heartbeat_ms: 1, deadline_grace_ms: 0 };
    for good in [times, least, LeaseTimes::default()] {
        assert_eq!(good.check(), Ok(()), "{good:?}");
    }
    for (bad, why) in [
        (LeaseTimes { heartbeat_ms: 0, ..times }, BadLeaseTimes::Heartbeat),
        (LeaseTimes { heartbeat_ms: 1_001, ..times }, BadLeaseTimes::Heartbeat),
        (LeaseTimes { accept_ms: 0, ..times }, BadLeaseTimes::Accept),
        (LeaseTimes { accept_ms: 3_001, ..times }, BadLeaseTimes::Accept),
        (LeaseTimes { deadline_grace_ms: -1, ..times }, BadLeaseTimes::Grace),
    ] {
        assert_eq!(bad.check(), Err(why), "{bad:?}");
    }
    assert_eq!(UNNAMED_MAX_MS, 600_000, "ten minutes");
}

#[test]
fn the_times_of_jobs_are_taken_up_to_their_limits_and_not_beyond() {
    let check = |timeout_ms, deadline_ms| JobPolicy { timeout_ms, deadline_ms, ..JobPolicy::default() }.check();
    let (week_ms, month_ms) = (604_800_000, 2_592_000_000);
    for deadline_ms in [None, Some(1_000), Some(month_ms)] {
        assert_eq!((check(1, deadline_ms), check(week_ms, deadline_ms)), (Ok(()), Ok(())), "{deadline_ms:?}");
    }
    for timeout_ms in [0, week_ms + 1] {
        assert_eq!(check(timeout_ms, None), Err(BadPolicy::Timeout), "{timeout_ms}");
    }
    for deadline_ms in [999, month_ms + 1] {
        assert_eq!(check(1, Some(deadline_ms)), Err(BadPolicy::Deadline), "{deadline_ms}");
    }
    assert_eq!(JobPolicy::default().timeout_ms, 900_000, "a quarter of an hour");
    let now = Timestamp::from_millis(5);
    let policy = JobPolicy { deadline_ms: Some(1_000), ..JobPolicy::default() };
    assert_eq!(policy.deadline_at(now), Some(Timestamp::from_millis(1_005)));
    assert_eq!(JobPolicy::default().deadline_at(now), None);
}

#[test]
fn retries_are_taken_up_to_their_limits_and_not_beyond() {
    let retry = RetryPolicy::default();
    for good in [
        RetryPolicy { max_attempts: 1, max_losses: 0, base_ms: 0, factor: 1.0, max_backoff_ms: 0, ..retry.clone() },
        RetryPolicy {
            max_attempts: 1_000,
            max_losses: 1_000,
            base_ms: 86_400_000,
            factor: 100.0,
            max_backoff_ms: 604_800_000,
            ..retry.clone()
        },
    ] {
        assert_eq!(good.check(), Ok(()), "{good:?}");
    }
    for (bad, field) in [
        (RetryPolicy { max_attempts: 1_001, ..retry.clone() }, "max_attempts"),
        (RetryPolicy { max_losses: 1_001, ..retry.clone() }, "max_losses"),
        (RetryPolicy { base_ms: 86_400_001, ..retry.clone() }, "base_ms"),
        (RetryPolicy { max_backoff_ms: 604_800_001, ..retry.clone() }, "max_backoff_ms"),
        (RetryPolicy { factor: 0.9, ..retry.clone() }, "factor"),
        (RetryPolicy { factor: 100.1, ..retry.clone() }, "factor"),
        (RetryPolicy { factor: f64::INFINITY, ..retry.clone() }, "factor"),
    ] {
        assert_eq!(bad.check().map_err(|bad| bad.field), Err(field), "{bad:?}");
        let policy = JobPolicy { retry: bad, ..JobPolicy::default() };
        assert!(matches!(policy.check(), Err(BadPolicy::Retry(_))), "{policy:?}");
    }
    let unstarted = |max_retries| {
        let rule = StartRetry { max_retries, ..StartRetry::default() };
        JobPolicy { retry_not_started: Some(rule), ..JobPolicy::default() }
    };
    assert!(unstarted(999).check().is_ok() && unstarted(1_000).check().is_err());
    let most = [JobPolicy::default(), unstarted(9), unstarted(1)].map(|policy| policy.attempts_max());
    assert_eq!(most, [4, 10, 4], "of those that may fail and those that may not start, the more");
}

#[test]
fn what_a_command_may_use_is_taken_up_to_its_limits_and_not_beyond() {
    let none = Limits::default();
    for good in [
        none,
        Limits {
            pids_max: Some(1),
            memory_max_bytes: Some(1 << 20),
            cpu_max_percent: Some(1),
            file_max_bytes: Some(1),
        },
        Limits {
            pids_max: Some(4_194_304),
            memory_max_bytes: Some(u64::MAX),
            cpu_max_percent: Some(100_000),
            file_max_bytes: Some(u64::MAX),
        },
    ] {
        assert_eq!(good.check(), Ok(()), "{good:?}");
    }
    for (bad, field) in [
        (Limits { pids_max: Some(0), ..none }, "pids_max"),
        (Limits { pids_max: Some(4_194_305), ..none }, "pids_max"),
        (Limits { memory_max_bytes: Some((1 << 20) - 1), ..none }, "memory_max_bytes"),
        (Limits { cpu_max_percent: Some(0), ..none }, "cpu_max_percent"),
        (Limits { cpu_max_percent: Some(100_001), ..none }, "cpu_max_percent"),
        (Limits { file_max_bytes: Some(0), ..none }, "file_max_bytes"),
    ] {
        assert_eq!(bad.check().map_err(|(field, _)| field), Err(field), "{bad:?}");
    }
}

#[test]
fn names_labels_and_addresses_are_taken_up_to_their_limits_and_not_beyond() {
    let name = |length: usize| "x".repeat(length);
    assert!(TaskType::new(&name(128)).is_ok() && TaskType::new(&name(129)).is_err());
    assert!(check_address(&name(253)).is_ok() && check_address(&name(254)).is_err());
    assert!(check_user(&name(128)).is_ok() && check_user(&name(129)).is_err());
    assert!(HostRule::parse(&name(253)).is_ok() && HostRule::parse(&name(254)).is_err());

    let labels = |number: usize| (0..number).map(|n| (format!("l{n}"), "x".to_owned())).collect::<BTreeMap<_, _>>();
    assert!(Labels::new(labels(32)).is_ok() && Labels::new(labels(33)).is_err());
    assert!(Labels::required(labels(32)).is_ok() && Labels::required(labels(33)).is_err());
    let resources = |number: usize| (0..number).map(|n| (format!("r{n}"), 1.0)).collect::<BTreeMap<_, _>>();
    assert!(Labels::default().with_resources(&resources(32)).is_ok());
    assert!(Labels::default().with_resources(&resources(33)).is_err());
}

#[test]
fn texts_with_a_form_of_their_own_say_so_in_their_schemas() {
    for (schema, name, field, value) in [
        (schema_for!(Timestamp), "Timestamp", "format", json!("date-time")),
        (schema_for!(Cron), "Cron", "maxLength", json!(256)),
        (schema_for!(Zone), "TimeZone", "default", json!("UTC")),
        (schema_for!(Template), "Template", "maxLength", json!(65_536)),
        (schema_for!(SecretRef), "SecretRef", "maxLength", json!(136)),
        (schema_for!(Chain), "AuditChain", "description", json!("A tenant's id, or `system`")),
    ] {
        assert_eq!(schema.get("title"), Some(&json!(name)));
        assert_eq!(schema.get("type"), Some(&json!("string")), "{name}");
        assert_eq!(schema.get(field), Some(&value), "{name}");
    }
}

#[test]
fn a_workflow_for_later_waits_and_one_for_now_or_earlier_starts() {
    let now = Timestamp::from_millis(1_000);
    let later = Timestamp::from_millis(1_001);
    let accepted = |run_at| {
        let (state, event) = JobState::accepted_flow(run_at, now);
        (state.status, state.due_at, event.as_str())
    };
    assert_eq!(accepted(Some(later)), (JobStatus::Pending, Some(later), "job_scheduled"));
    for run_at in [None, Some(now), Some(Timestamp::from_millis(1))] {
        assert_eq!(accepted(run_at), (JobStatus::Running, None, "workflow_started"), "{run_at:?}");
    }
}

fn read(kind: ResourceKind, value: Value) -> Result<Spec, String> {
    let spec = Spec::from_value(kind, value).map_err(|bad| bad.to_string())?;
    spec.check().map_err(|bad| bad.to_string())?;
    Ok(spec)
}

/// A document in which one field is set.
fn with(mut document: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let parent = document.pointer_mut(parent).expect("the parent is there").as_object_mut().expect("an object");
    parent.insert(field.to_owned(), value);
    document
}

fn text(length: usize) -> Value {
    Value::from("x".repeat(length))
}

#[test]
fn fields_of_resources_are_taken_up_to_their_limit_and_not_beyond() {
    use ResourceKind::{Command, Rabbitmq, Schedule, SecretRef, Trigger};
    let schedule = json!({"every_ms": 60_000, "start": {"workflow": "w"}});
    let trigger = json!({"rabbitmq": {"broker": "mq", "queue": "q"}, "start": {"workflow": "w"}});
    let secret = json!({"ref": "env://TOKEN", "commands": ["*"]});
    let broker = json!({"url": "amqp://mq/v", "username": "u", "password": {"secret_ref": "mq"}});
    let command = json!({"argv": ["id"]});
    let script = json!({"script": "id"});
    let day_ms = 24 * 60 * 60 * 1_000_u64;
    let many = |number: usize| Value::from(vec!["x"; number]);
    let names = |number: usize| (0..number).map(|n| (format!("V{n}"), Value::from("x"))).collect::<Value>();
    #[rustfmt::skip]
    let limits: Vec<(ResourceKind, &Value, &str, Value, Value)> = vec![
        (Schedule, &schedule, "/description", text(1_000), text(1_001)),
        (Schedule, &schedule, "/every_ms", json!(1_000), json!(999)),
        (Schedule, &schedule, "/every_ms", json!(366 * day_ms), json!(366 * day_ms + 1)),
        (Schedule, &schedule, "/misfire_max", json!(1), json!(0)),
        (Schedule, &schedule, "/misfire_max", json!(1_000), json!(1_001)),
        (Schedule, &schedule, "/grace_ms", json!(1_000), json!(999)),
        (Schedule, &schedule, "/grace_ms", json!(day_ms), json!(day_ms + 1)),
        (Schedule, &schedule, "/jitter_ms", json!(day_ms), json!(day_ms + 1)),
        (Trigger, &trigger, "/description", text(1_000), text(1_001)),
        (Trigger, &trigger, "/rabbitmq/queue", text(255), text(256)),
        (Trigger, &trigger, "/rabbitmq/queue", text(1), text(0)),
        (Trigger, &trigger, "/rabbitmq/prefetch", json!(1), json!(0)),
        (Trigger, &trigger, "/rabbitmq/prefetch", json!(1_000), json!(1_001)),
        (SecretRef, &secret, "/description", text(1_000), text(1_001)),
        (SecretRef, &secret, "/version", text(64), text(65)),
        (SecretRef, &secret, "/commands", many(1_000), many(1_001)),
        (Rabbitmq, &broker, "/description", text(1_000), text(1_001)),
        (Rabbitmq, &broker, "/username", text(255), text(256)),
        (Rabbitmq, &broker, "/username", text(1), text(0)),
        (Command, &command, "/argv", many(256), many(257)),
        (Command, &command, "/env", names(128), names(129)),
        (Command, &command, "/kill_grace_ms", json!(600_000), json!(600_001)),
        (Command, &command, "/output_max_bytes", json!(64_u64 << 30), json!((64_u64 << 30) + 1)),
        (Command, &script, "/script", text(65_536), text(65_537)),
    ];
    for (kind, document, pointer, edge, beyond) in limits {
        let at_edge = read(kind, with(document.clone(), pointer, edge));
        assert!(at_edge.is_ok(), "{kind:?} {pointer}: the edge itself is refused: {:?}", at_edge.err());
        assert!(read(kind, with(document.clone(), pointer, beyond)).is_err(), "{kind:?} {pointer}: beyond the edge");
    }
}

#[test]
fn a_schedule_may_end_when_it_starts_and_not_before() {
    let spec = |ends: &str| json!({"cron": "0 * * * *", "start": {"workflow": "w"}, "starts_at": "2030-01-01T00:00:00Z", "ends_at": ends});
    assert!(read(ResourceKind::Schedule, spec("2030-01-01T00:00:00Z")).is_ok());
    let before = read(ResourceKind::Schedule, spec("2029-12-31T23:59:59Z")).expect_err("it ends before it starts");
    assert!(before.contains("must not be before starts_at"), "{before}");
}

#[test]
fn jitter_reaches_its_whole_range_and_no_further() {
    let spec = json!({"every_ms": 60_000, "jitter_ms": 2, "start": {"workflow": "w"}});
    let Ok(Spec::Schedule(spec)) = read(ResourceKind::Schedule, spec) else { panic!("a good schedule") };
    let instant = Timestamp::from_millis(60_000);
    let late: std::collections::BTreeSet<i64> =
        (0..100).map(|n| spec.due_at(&format!("s{n}"), instant).as_millis() - instant.as_millis()).collect();
    assert_eq!(Vec::from_iter(late), [0, 1, 2]);
}

#[test]
fn an_error_in_what_is_started_says_where_it_stands() {
    for (kind, document) in [
        (ResourceKind::Schedule, json!({"every_ms": 60_000, "start": {"command": "c", "hosts": []}})),
        (
            ResourceKind::Trigger,
            json!({"rabbitmq": {"broker": "mq", "queue": "q"}, "start": {"command": "c", "hosts": []}}),
        ),
    ] {
        let bad = Spec::from_value(kind, document).and_then(|spec| spec.check()).expect_err("no host is named");
        assert!(bad.path.starts_with("start."), "{kind:?}: {}", bad.path);
    }
}

#[test]
fn texts_are_read_up_to_their_limit_and_not_beyond() {
    let padded = |length: usize| format!("{:length$}", "* * * * *");
    assert!(padded(256).parse::<Cron>().is_ok());
    assert!(padded(257).parse::<Cron>().is_err());

    assert!(Template::parse(&"x".repeat(65_536)).is_ok());
    assert!(Template::parse(&"x".repeat(65_537)).is_err());

    assert!(Selector::parse(&format!("{:16384}", "web1")).is_ok());
    assert!(Selector::parse(&format!("{:16385}", "web1")).is_err());
    let nested = |levels: usize| format!("{}web1{}", "(".repeat(levels), ")".repeat(levels));
    let deepest = (1..200).take_while(|levels| Selector::parse(&nested(*levels)).is_ok()).last();
    assert!(deepest.is_some_and(|levels| (60..=64).contains(&levels)), "{deepest:?} levels");

    assert!(Pattern::parse(&"?".repeat(64)).is_ok());
    assert!(Pattern::parse(&"?".repeat(65)).is_err());
}

#[test]
fn a_long_message_is_cut_at_its_limit_and_a_shorter_one_is_whole() {
    let message = |length: usize| RunError::new(bowline_model::ErrorClass::Permanent, "x".repeat(length)).message;
    assert_eq!(message(4_096).len(), 4_096);
    assert_eq!(message(4_097), format!("{}…", "x".repeat(4_096)));
}

#[test]
fn what_says_what_runs_on_hosts_is_known_by_it() {
    let says = |kind, value| read(kind, value).expect("a good document").has_command();
    let inline = json!({"command": {"argv": ["id"]}, "hosts": ["web1"]});
    assert!(says(ResourceKind::Command, json!({"argv": ["id"]})));
    assert!(says(ResourceKind::Schedule, json!({"every_ms": 60_000, "start": inline})));
    assert!(!says(ResourceKind::Schedule, json!({"every_ms": 60_000, "start": {"workflow": "w"}})));
    assert!(!says(ResourceKind::SecretRef, json!({"ref": "env://TOKEN", "commands": ["*"]})));
}
