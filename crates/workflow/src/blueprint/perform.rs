//! Actions with their values: whether they can be done, what is waited for, and which state follows on which end.

use bowline_model::blueprint::{Action, DispatchTask, ParallelTask, Sleep, Transitions};
use bowline_model::question::AskRule;
use bowline_model::workflow::NodePolicy;
use bowline_model::{ErrorClass, Jitter, JobPolicy, Labels, RetryPolicy, RunError, TaskType, Timestamp};
use serde_json::{Value, json};

use super::States;
use super::data::failure;
use crate::compile::unknown;
use crate::node::{Answer, Call, CallWhat, Ended, Visit, Wait};
use crate::nodes::check_title;

/// Ten years, leap days included. Whoever wants to wait longer has made a mistake.
const WAIT_MILLIS_MAX: u64 = 3_653 * 24 * 60 * 60 * 1_000;
const TASKS_MAX: usize = 10_000;
const CONCURRENCY_MAX: u32 = 1_000;
const RETRIES_MAX: u32 = 999;
/// Words on which an approval goes on.
pub(super) const DECISIONS: [&str; 3] = ["approved", "rejected", "expired"];

/// So many seconds in milliseconds, if that is a time one can wait.
fn millis(seconds: f64, max: u64) -> Result<u64, String> {
    let millis = (seconds * 1_000.0).round();
    if seconds.is_finite() && seconds >= 0.0 && millis <= max as f64 {
        Ok(millis as u64)
    } else {
        Err(format!("must be between 0 and {} seconds", max / 1_000))
    }
}

/// Retries at even distances, as states have them.
pub(super) fn retry(retries: u32, delay_ms: u64) -> RetryPolicy {
    RetryPolicy {
        max_attempts: retries.saturating_add(1),
        base_ms: delay_ms,
        factor: 1.0,
        max_backoff_ms: delay_ms,
        jitter: Jitter::None,
        ..RetryPolicy::default()
    }
}

/// Whether an action can be done, whoever wrote it. The message begins with the place in the action.
pub(super) fn check_action(action: &Action, states: &States) -> Result<(), String> {
    for (path, state) in action.targets() {
        if !states.contains(state) {
            let known = states.iter().map(String::as_str);
            return Err(format!("{path}: {}", unknown("there is no state", state, known)));
        }
    }
    let word = action.word();
    let at = |field: &'static str| move |what: String| format!("{word}.{field}: {what}");
    match action {
        Action::TransitionTo(_) | Action::Set(_) => Ok(()),
        Action::DispatchTask(task) => {
            check_transitions(&task.transitions).map_err(at("transitions"))?;
            let DispatchTask { task_type, timeout_seconds, retries, priority, .. } = task;
            check_task(task_type, *timeout_seconds, *retries, *priority).map_err(|what| format!("{word}.{what}"))
        }
        Action::DispatchParallel(all) => {
            if all.tasks.len() > TASKS_MAX {
                return Err(format!("{word}.tasks: at most {TASKS_MAX}, there are {}", all.tasks.len()));
            }
            if all.concurrency.is_some_and(|number| !(1..=CONCURRENCY_MAX).contains(&number)) {
                return Err(format!("{word}.concurrency: must be between 1 and {CONCURRENCY_MAX}"));
            }
            for (index, task) in all.tasks.iter().enumerate() {
                let ParallelTask { task_type, timeout_seconds, retries, priority, .. } = task;
                check_task(task_type, *timeout_seconds, *retries, *priority)
                    .map_err(|what| format!("{word}.tasks[{index}].{what}"))?;
            }
            Ok(())
        }
        Action::AwaitApproval(approval) => {
            check_transitions(&approval.transitions).map_err(at("transitions"))?;
            if let Some(bad) = approval.transitions.keys().find(|on| !DECISIONS.contains(&on.as_str())) {
                let what = unknown("an approval does not end as", bad, DECISIONS);
                return Err(format!("{word}.transitions.{bad}: {what}; it ends as {}", DECISIONS.join(", ")));
            }
            AskRule::check_quorum(approval.quorum).map_err(at("quorum"))?;
            let checked = approval.timeout_seconds.map(|seconds| millis(seconds, WAIT_MILLIS_MAX));
            match checked.transpose().map_err(at("timeout_seconds"))? {
                Some(0) => Err(format!("{word}.timeout_seconds: must be at least a millisecond")),
                _ => Ok(()),
            }
        }
        Action::RunBlueprint(run) => {
            check_transitions(&run.transitions).map_err(at("transitions"))?;
            if run.version == Some(0) {
                return Err(format!("{word}.version: versions are counted from 1"));
            }
            if !run.data.is_null() && !run.data.is_object() && !run.data.is_string() {
                return Err(format!("{word}.data: the data of a blueprint are an object"));
            }
            Ok(())
        }
        Action::Sleep(Sleep { seconds, until, .. }) => match (seconds, until) {
            (Some(seconds), None) => millis(*seconds, WAIT_MILLIS_MAX).map(drop).map_err(at("seconds")),
            (None, Some(_)) => Ok(()),
            _ => Err(format!("{word}: give one of `seconds` and `until`")),
        },
    }
}

/// The same for an action that a handler or a pin chose. Which version of a blueprint runs is said by a definition: a worker
/// could otherwise start one that was replaced, with the approvals that it lacked.
pub(super) fn check_chosen_action(action: &Action, states: &States) -> Result<(), String> {
    check_action(action, states)?;
    match action {
        Action::RunBlueprint(run) if run.version.is_some() => {
            Err(format!("{}.version: only a definition can name a version; the active one runs", action.word()))
        }
        _ => Ok(()),
    }
}

fn check_transitions(transitions: &Transitions) -> Result<(), String> {
    if transitions.is_empty() { Err("say at least one state that follows".to_owned()) } else { Ok(()) }
}

fn check_task(
    task_type: &TaskType,
    timeout: Option<f64>,
    retries: Option<u32>,
    priority: Option<i16>,
) -> Result<(), String> {
    if task_type.is_reserved() {
        return Err(format!("type: types that begin with `{}` are not for everybody", TaskType::RESERVED));
    }
    if let Some(seconds) = timeout {
        let whole = millis(seconds, JobPolicy::TIMEOUT_MAX_MS).map_err(|what| format!("timeout_seconds: {what}"))?;
        if whole == 0 {
            return Err("timeout_seconds: must be at least a millisecond".to_owned());
        }
    }
    if retries.is_some_and(|retries| retries > RETRIES_MAX) {
        return Err(format!("retries: must be between 0 and {RETRIES_MAX}"));
    }
    if priority.is_some_and(|priority| !(-100..=100).contains(&priority)) {
        return Err("priority: must be between -100 and 100".to_owned());
    }
    Ok(())
}

/// What is done for an action: a state to go to, or something to wait for first.
pub(super) enum Doing {
    Go(String),
    Wait(Wait),
}

/// Begins what an action says.
pub(super) fn begin(action: Action, visit: Visit<'_>) -> Result<Doing, RunError> {
    let later = |millis: u64| visit.now.plus_millis(i64::try_from(millis).unwrap_or(i64::MAX));
    let wait = match action {
        Action::TransitionTo(state) => return Ok(Doing::Go(state)),
        Action::Set(_) => return Err(failure("`set` leads nowhere")),
        Action::DispatchTask(task) => {
            let DispatchTask { task_type, params, timeout_seconds, retries, labels, priority, .. } = task;
            let call = task_call(task_type, params, labels, priority, timeout_seconds, retries)?;
            Wait::Call(Box::new(call))
        }
        Action::DispatchParallel(all) => {
            let concurrency = all.concurrency.unwrap_or(CONCURRENCY_MAX);
            let calls: Result<Vec<Call>, RunError> = all
                .tasks
                .into_iter()
                .map(|task| {
                    let ParallelTask { task_type, params, timeout_seconds, retries, labels, priority } = task;
                    task_call(task_type, params, labels, priority, timeout_seconds, retries)
                })
                .collect();
            Wait::Each { calls: calls?, concurrency, stop_on_failure: all.fail_fast }
        }
        Action::AwaitApproval(approval) => {
            let span = approval.timeout_seconds.map(|seconds| millis(seconds, WAIT_MILLIS_MAX));
            let expires_at = span.transpose().map_err(failure)?.map(later);
            check_title(&approval.title).map_err(|what| failure(format!("await_approval.title: {what}")))?;
            let rule = AskRule::of(approval.quorum, approval.four_eyes);
            Wait::Approval { title: approval.title, expires_at, rule }
        }
        Action::RunBlueprint(run) => {
            super::data::check_data(&run.data).map_err(|what| failure(format!("run_blueprint.data: {what}")))?;
            let what = CallWhat::Blueprint { name: run.blueprint.to_string(), version: run.version, data: run.data };
            let policy = NodePolicy::default();
            Wait::Call(Box::new(Call { what, policy, timeout_ms: JobPolicy::TIMEOUT_MAX_MS, deadline_ms: None }))
        }
        Action::Sleep(Sleep { seconds, until, then }) => {
            let until: Timestamp = match (seconds, until) {
                (Some(seconds), _) => later(millis(seconds, WAIT_MILLIS_MAX).map_err(failure)?),
                (None, Some(text)) => text.parse().map_err(|error| failure(format!("sleep.until: {error}")))?,
                (None, None) => return Err(failure("sleep: give one of `seconds` and `until`")),
            };
            if until > later(WAIT_MILLIS_MAX) {
                return Err(failure("sleep.until: this is more than ten years away"));
            }
            if until <= visit.now {
                return Ok(Doing::Go(then));
            }
            Wait::Until(until)
        }
    };
    Ok(Doing::Wait(wait))
}

fn task_call(
    task_type: TaskType,
    payload: Value,
    labels: Labels,
    priority: Option<i16>,
    timeout_seconds: Option<f64>,
    retries: Option<u32>,
) -> Result<Call, RunError> {
    let deadline_ms = timeout_seconds.map(|seconds| millis(seconds, JobPolicy::TIMEOUT_MAX_MS));
    let deadline_ms = deadline_ms.transpose().map_err(failure)?;
    let retry = retries.map(|retries| RetryPolicy { max_attempts: retries + 1, ..RetryPolicy::default() });
    // It counts from the dispatch. No attempt can take longer than all of it, so a worker hears the same number.
    let policy = NodePolicy { retry, timeout_ms: deadline_ms };
    let what = CallWhat::Task { task_type, payload, lane: None, labels, priority };
    Ok(Call { what, policy, timeout_ms: JobPolicy::default().timeout_ms, deadline_ms })
}

/// Which state follows, and what the run remembers of it: `task_result`, unless nobody said anything.
pub(super) fn follow(action: &Action, answer: Answer) -> Result<(String, Option<Value>), RunError> {
    match (action, answer) {
        (
            Action::DispatchTask(DispatchTask { transitions, .. })
            | Action::RunBlueprint(bowline_model::blueprint::RunBlueprint { transitions, .. }),
            Answer::Ended(ended),
        ) => {
            let (word, error) = word_of(&ended, transitions);
            let result = json!({"status": word, "job_id": ended.job, "result": ended.result, "error": error});
            next(action.word(), transitions, &word, error.as_ref()).map(|state| (state, Some(result)))
        }
        (Action::DispatchParallel(all), Answer::Each(ended)) => Ok((all.aggregate_into.clone(), Some(gathered(ended)))),
        (Action::AwaitApproval(approval), Answer::Decided { approved, by, reason }) => {
            let word = if approved { "approved" } else { "rejected" };
            let result = json!({"status": word, "by": by, "reason": reason});
            let because = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let said = RunError::new(ErrorClass::Permanent, format!("{by} said no{because}"));
            let error = (!approved).then_some(&said);
            next("await_approval", &approval.transitions, word, error).map(|state| (state, Some(result)))
        }
        (Action::AwaitApproval(approval), Answer::Expired) => {
            let result = json!({"status": "expired", "by": null, "reason": null});
            let error = RunError::new(ErrorClass::Timeout, "nobody decided in time");
            next("await_approval", &approval.transitions, "expired", Some(&error)).map(|state| (state, Some(result)))
        }
        (Action::Sleep(sleep), Answer::Due) => Ok((sleep.then.clone(), None)),
        (action, other) => Err(failure(format!("`{}` did not wait for {}", action.word(), other.word()))),
    }
}

/// How a job ended, in a word that the transitions know if possible; and why it failed, if it did.
fn word_of(ended: &Ended, transitions: &Transitions) -> (String, Option<RunError>) {
    match ended.clone().into_result() {
        Ok(result) => {
            let says = result.get("status").and_then(Value::as_str).filter(|word| transitions.contains_key(*word));
            (says.unwrap_or("success").to_owned(), None)
        }
        Err(error) => {
            let timeout = error.class == ErrorClass::Timeout && transitions.contains_key("timeout");
            (if timeout { "timeout" } else { "failure" }.to_owned(), Some(error))
        }
    }
}

/// The state for a word. Without one, the state has failed, for the reason of whoever it waited for.
fn next(what: &str, transitions: &Transitions, word: &str, error: Option<&RunError>) -> Result<String, RunError> {
    if let Some(state) = transitions.get(word) {
        return Ok(state.clone());
    }
    let nowhere = format!("{what} ended with `{word}`, and no transition says what follows");
    Err(match error {
        Some(error) => RunError::new(error.class, format!("{nowhere}: {}", error.message)),
        None => failure(nowhere),
    })
}

/// What became of several tasks, in their order.
fn gathered(ended: Vec<Option<Ended>>) -> Value {
    let (mut succeeded, mut failed, mut skipped) = (0_u32, 0_u32, 0_u32);
    let results: Vec<Value> = ended
        .into_iter()
        .map(|ended| {
            let Some(ended) = ended else {
                skipped += 1;
                return json!({"status": "skipped"});
            };
            let job = ended.job;
            match ended.into_result() {
                Ok(result) => {
                    succeeded += 1;
                    json!({"status": "success", "job_id": job, "result": result})
                }
                Err(error) => {
                    failed += 1;
                    json!({"status": "failure", "job_id": job, "error": error})
                }
            }
        })
        .collect();
    let status = if failed + skipped == 0 { "success" } else { "failure" };
    json!({"status": status, "results": results, "succeeded": succeeded, "failed": failed, "skipped": skipped})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_of_a_state_are_at_even_distances_however_long() {
        for delay_ms in [1, 5_000, 7 * 24 * 60 * 60 * 1_000] {
            let policy = retry(3, delay_ms);
            assert_eq!([1, 2, 3].map(|n| policy.delay_ms(n, 0.9)), [delay_ms; 3]);
            assert_eq!((policy.max_attempts, policy.factor), (4, 1.0));
        }
    }

    #[test]
    fn a_dispatched_task_is_tried_once_more_than_it_is_retried() {
        let task_type = TaskType::new("pay").expect("a task type");
        let call = |retries| {
            let call = task_call(task_type.clone(), Value::Null, Labels::default(), None, Some(1.5), retries);
            let call = call.expect("a call");
            (call.policy.retry.map(|retry| retry.max_attempts), call.deadline_ms)
        };
        assert_eq!(call(Some(4)), (Some(5), Some(1_500)));
        assert_eq!(call(None), (None, Some(1_500)));
    }
}
