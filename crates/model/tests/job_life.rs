//! The rules of a job's life: the whole table, and what holds whatever happens.

use bowline_model::event::{EventData, EventKind};
use bowline_model::fleet::HostLock;
use bowline_model::fold::{Told, fold};
use bowline_model::job::{Fact, JobKind, JobPolicy, JobState, JobStatus, OnLost, Place, Refused};
use bowline_model::retry::{RetryPolicy, StartRetry};
use bowline_model::{ErrorClass, HostName, Outcome, RunStatus, Timestamp};
use proptest::prelude::*;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn facts() -> Vec<Fact> {
    vec![
        Fact::Due,
        Fact::Claimed,
        Fact::Reported { fence: 2, outcome: Outcome::Succeeded, retry_after_ms: None },
        Fact::Reported { fence: 2, outcome: Outcome::Failed(ErrorClass::Transient), retry_after_ms: None },
        Fact::Reported { fence: 2, outcome: Outcome::Failed(ErrorClass::Transient), retry_after_ms: Some(60_000) },
        Fact::Reported { fence: 2, outcome: Outcome::Failed(ErrorClass::Permanent), retry_after_ms: None },
        Fact::Reported { fence: 2, outcome: Outcome::Failed(ErrorClass::Busy), retry_after_ms: None },
        Fact::Reported { fence: 2, outcome: Outcome::Canceled, retry_after_ms: None },
        Fact::Reported { fence: 1, outcome: Outcome::Succeeded, retry_after_ms: None },
        Fact::LeaseExpired { fence: 2 },
        Fact::LeaseExpired { fence: 1 },
        Fact::Returned { fence: 2 },
        Fact::DeadlinePassed { fence: 2 },
        Fact::CancelRequested,
        Fact::Retried,
        Fact::HostGranted,
        Fact::Blocked,
        Fact::Superseded,
    ]
}

#[test]
fn the_whole_table() {
    let policy = JobPolicy { retry: RetryPolicy { max_attempts: 3, ..RetryPolicy::default() }, ..JobPolicy::default() };
    let mut table = String::new();
    for status in JobStatus::ALL {
        let due_at = (status == JobStatus::Pending).then_some(at(1));
        let state = JobState { kind: JobKind::Task, status, attempts: 2, failures: 1, losses: 0, fence: 2, due_at };
        for fact in facts() {
            let answer = match state.on(&fact, &policy, at(1_000), 0.5) {
                Ok(step) => format!(
                    "{} attempts={} failures={} losses={} fence={} [{}] {:?}",
                    step.next.status,
                    step.next.attempts,
                    step.next.failures,
                    step.next.losses,
                    step.next.fence,
                    step.event,
                    step.next.place()
                ),
                Err(refused) => format!("refused: {refused}"),
            };
            // What nobody said is not in the table.
            let fact = format!("{fact:?}").replace(", retry_after_ms: None", "");
            table.push_str(&format!("{status} + {fact} -> {answer}\n"));
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_job_that_must_not_be_done_twice_ends_when_its_worker_is_lost() {
    let policy = JobPolicy { on_lost: OnLost::Error, ..JobPolicy::default() };
    let (state, _) = JobState::accepted(None, at(0));
    let state = state.on(&Fact::Claimed, &policy, at(1), 0.0).unwrap().next;
    let step = state.on(&Fact::LeaseExpired { fence: 1 }, &policy, at(2), 0.0).unwrap();
    assert_eq!(step.next.status, JobStatus::Error);
}

#[test]
fn poison_that_kills_its_workers_ends_in_the_dead_letters() {
    let policy = JobPolicy::default();
    let (mut state, _) = JobState::accepted(None, at(0));
    for _ in 0..10 {
        if state.status != JobStatus::Queued {
            break;
        }
        state = state.on(&Fact::Claimed, &policy, at(1), 0.0).unwrap().next;
        let fence = state.fence;
        state = state.on(&Fact::LeaseExpired { fence }, &policy, at(2), 0.0).unwrap().next;
    }
    assert_eq!(state.status, JobStatus::Dead);
    assert_eq!(state.losses, policy.retry.max_losses + 1);
}

#[test]
fn who_is_asked_to_stay_away_does_and_then_waits_as_the_policy_says() {
    let retry = RetryPolicy { base_ms: 1_000, jitter: bowline_model::retry::Jitter::None, ..RetryPolicy::default() };
    let policy = JobPolicy { retry, ..JobPolicy::default() };
    let (state, _) = JobState::accepted(None, at(0));
    let state = state.on(&Fact::Claimed, &policy, at(1), 0.0).unwrap().next;
    let failed = |class, retry_after_ms| {
        let fact = Fact::Reported { fence: 1, outcome: Outcome::Failed(class), retry_after_ms };
        state.on(&fact, &policy, at(10), 0.0).unwrap()
    };
    assert_eq!(failed(ErrorClass::Transient, None).retry_at, Some(at(1_010)));
    assert_eq!(failed(ErrorClass::Transient, Some(60_000)).retry_at, Some(at(61_010)));
    assert_eq!(failed(ErrorClass::Transient, Some(60_000)).next.place(), Place::Timer(at(61_010)));
    // It is no reason to try what cannot be tried.
    assert_eq!(failed(ErrorClass::Permanent, Some(60_000)).next.status, JobStatus::Dead);
}

#[test]
fn a_host_where_nothing_started_is_tried_again_by_a_rule_of_its_own() {
    use ErrorClass::{Exit, Handler, Permanent, Timeout, Transient, Unreachable};
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let rule = Some(StartRetry { max_retries: 2, base_ms: 1_000, max_backoff_ms: 1_500 });
    let unit = JobPolicy { retry: once, retry_not_started: rule, dead_letter: false, ..JobPolicy::default() };
    let plain = JobPolicy { retry_not_started: rule, ..JobPolicy::default() };
    let mut table = String::new();
    for (name, kind, policy) in [("unit", JobKind::Unit(HostLock::Shared), &unit), ("task", JobKind::Task, &plain)] {
        for class in [Unreachable, Transient, Exit, Timeout, Handler, Permanent] {
            for failures in 0..3 {
                let (status, due_at) = (JobStatus::Running, None);
                let state = JobState { kind, status, attempts: failures + 1, failures, losses: 0, fence: 2, due_at };
                let fact = Fact::Reported { fence: 2, outcome: Outcome::Failed(class), retry_after_ms: None };
                let step = state.on(&fact, policy, at(0), 0.5).unwrap();
                let again = step.retry_at.map(|moment| format!(" at {}", moment.as_millis())).unwrap_or_default();
                let (status, event, attempt) = (step.next.status, step.event, failures + 1);
                table.push_str(&format!("{name}, attempt {attempt} {} -> {status} [{event}]{again}\n", class.as_str()));
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[derive(Debug, Clone)]
enum Nudge {
    Due,
    Claim,
    Report { back: u32, outcome: Outcome },
    Expire { back: u32 },
    Return { back: u32 },
    Overdue { back: u32 },
    Deadline,
    Cancel,
    Retry,
    Grant,
    Block,
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Succeeded),
        Just(Outcome::Canceled),
        Just(Outcome::Failed(ErrorClass::Transient)),
        Just(Outcome::Failed(ErrorClass::Permanent)),
        Just(Outcome::Failed(ErrorClass::Timeout)),
        Just(Outcome::Failed(ErrorClass::Unreachable)),
        Just(Outcome::Failed(ErrorClass::Busy)),
    ]
}

fn nudges() -> impl Strategy<Value = Vec<Nudge>> {
    let one = prop_oneof![
        2 => Just(Nudge::Due),
        6 => Just(Nudge::Claim),
        4 => (0u32..3, outcomes()).prop_map(|(back, outcome)| Nudge::Report { back, outcome }),
        2 => (0u32..3).prop_map(|back| Nudge::Expire { back }),
        1 => (0u32..3).prop_map(|back| Nudge::Return { back }),
        1 => (0u32..2).prop_map(|back| Nudge::Overdue { back }),
        1 => Just(Nudge::Deadline),
        1 => Just(Nudge::Cancel),
        1 => Just(Nudge::Retry),
        4 => Just(Nudge::Grant),
        1 => Just(Nudge::Block),
    ];
    prop::collection::vec(one, 0..60)
}

/// Tells an accepted step the way the ledger does.
fn tell(step: &bowline_model::job::Step, fact: &Fact, owned: bool, now: Timestamp) -> Told {
    let fence = match fact {
        Fact::Claimed => Some(step.next.fence),
        Fact::Expired => owned.then_some(step.next.fence),
        Fact::Reported { fence, .. }
        | Fact::LeaseExpired { fence }
        | Fact::Returned { fence }
        | Fact::DeadlinePassed { fence } => Some(*fence),
        Fact::Due | Fact::CancelRequested | Fact::Retried | Fact::HostGranted | Fact::Blocked | Fact::Superseded => {
            None
        }
    };
    let (outcome, class) = match fact {
        Fact::Reported { outcome, .. } => (
            Some(RunStatus::from_outcome(*outcome)),
            match outcome {
                Outcome::Failed(class) => Some(*class),
                _ => None,
            },
        ),
        Fact::LeaseExpired { .. } => (Some(RunStatus::Lost), Some(ErrorClass::Lost)),
        Fact::DeadlinePassed { .. } => (Some(RunStatus::TimedOut), Some(ErrorClass::Timeout)),
        Fact::Returned { .. } => (Some(RunStatus::Returned), None),
        Fact::Expired => (owned.then_some(RunStatus::TimedOut), Some(ErrorClass::Deadline)),
        _ => (None, None),
    };
    Told {
        at: now,
        kind: step.event,
        fence,
        data: EventData { outcome, class, due_at: step.next.due_at, ..EventData::default() },
    }
}

proptest! {
    /// Whatever happens in whatever order: fences only grow, attempts are bounded, a success is final, the place is
    /// unique, stale fences are refused, and the state is the fold of the events.
    #[test]
    fn a_life_keeps_its_promises(
        nudges in nudges(), scheduled: bool, dead_letter: bool, chance in 0.0f64..1.0, on_host: Option<bool>,
    ) {
        let policy = JobPolicy { dead_letter, ..JobPolicy::default() };
        let (mut state, kind) = match on_host {
            Some(granted) => JobState::planned(HostLock::Shared, granted),
            None => JobState::accepted(scheduled.then_some(at(5)), at(0)),
        };
        let host = on_host.map(|_| HostName::new("web1").unwrap());
        let first = EventData { due_at: state.due_at, host, shared: on_host.is_some(), ..EventData::default() };
        let mut history = vec![Told { at: at(0), kind, fence: None, data: first }];
        let mut now = 10;
        for nudge in nudges {
            now += 100_000;
            let back = |n: u32| state.fence.saturating_sub(n);
            let fact = match nudge {
                Nudge::Due => Fact::Due,
                Nudge::Claim => Fact::Claimed,
                Nudge::Report { back: n, outcome } => Fact::Reported { fence: back(n), outcome, retry_after_ms: None },
                Nudge::Expire { back: n } => Fact::LeaseExpired { fence: back(n) },
                Nudge::Return { back: n } => Fact::Returned { fence: back(n) },
                Nudge::Overdue { back: n } => Fact::DeadlinePassed { fence: back(n) },
                Nudge::Deadline => Fact::Expired,
                Nudge::Cancel => Fact::CancelRequested,
                Nudge::Retry => Fact::Retried,
                Nudge::Grant => Fact::HostGranted,
                Nudge::Block => Fact::Blocked,
            };
            match state.on(&fact, &policy, at(now), chance) {
                Ok(step) => {
                    let owned = state.place() == Place::Lease;
                    prop_assert!(step.next.fence >= state.fence, "L1");
                    prop_assert_ne!(state.status, JobStatus::Succeeded, "a success is final");
                    prop_assert!(step.next.failures <= policy.retry.max_attempts, "J2");
                    prop_assert!(step.next.losses <= policy.retry.max_losses + 1, "poison is bounded");
                    if let Place::Timer(due) = step.next.place() {
                        let cap = i64::try_from(policy.retry.max_backoff_ms).unwrap();
                        prop_assert!(due >= at(now) && due <= at(now).plus_millis(cap), "J6");
                    }
                    // Hand-outs that never happened cannot be told about.
                    if state.fence > 0 || !matches!(tell(&step, &fact, owned, at(now)).fence, Some(0)) {
                        history.push(tell(&step, &fact, owned, at(now)));
                        state = step.next;
                    }
                }
                Err(Refused::StaleLease) => {}
                Err(_) => {}
            }
            if let Fact::Reported { fence, .. } = fact
                && fence < state.fence
            {
                prop_assert_eq!(state.on(&fact, &policy, at(now), chance), Err(Refused::StaleLease), "C4");
            }
        }
        let folded = fold(&history).unwrap();
        prop_assert_eq!(folded.state, state, "C6");
        prop_assert!(history.iter().filter(|t| t.kind == EventKind::JobSucceeded).count() <= 1);
    }
}
