//! Blueprints as programs: what is refused, and how runs go, without anything around them.

use std::sync::Arc;

use bowline_model::{ErrorClass, JobId, JobStatus, RunError, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::expression::Context;
use crate::flow::{Flow, Launch, Message, Record, Turning};
use crate::node::{CallWhat, Ended};
use crate::program::Program;

fn compile(spec: Value) -> Result<Program, Vec<(String, String)>> {
    let spec = serde_json::from_value(spec).expect("a blueprint");
    Program::of_blueprint(&spec).map_err(|mistakes| mistakes.into_iter().map(|m| (m.path, m.what)).collect())
}

/// A run that is driven by hand.
struct Run {
    flow: Flow,
    now: Timestamp,
    minted: u64,
    launched: Vec<Launch>,
    canceled: Vec<JobId>,
    path: Vec<String>,
}

impl Run {
    fn begin(spec: Value, data: Value) -> Self {
        let program = Arc::new(compile(spec).expect("no mistakes"));
        let execution = json!({"id": "7", "workflow": "order"});
        let context = Context::new(json!({"payload": data}), json!({"id": "ada"}), execution);
        let now = Timestamp::from_millis(1_800_000_000_000);
        let mut run = Self {
            flow: Flow::new(program, context),
            now,
            minted: 0,
            launched: Vec::new(),
            canceled: Vec::new(),
            path: Vec::new(),
        };
        run.hear([]);
        run
    }

    fn hear(&mut self, messages: impl IntoIterator<Item = Message>) {
        let minted = &mut self.minted;
        let mut mint = || {
            *minted += 1;
            JobId::mint(Timestamp::from_millis(i64::try_from(*minted).unwrap_or(0)), [0; 10])
        };
        let turn = self.flow.turn(
            messages,
            &mut Turning { now: self.now, expires: true, mint: &mut mint, limit: 1_000, work: u32::MAX },
        );
        self.launched.extend(turn.launches);
        self.canceled.extend(turn.cancels);
        for record in turn.records {
            if let Record::Step(step) = record {
                self.path.push(step.node.to_string());
            }
        }
    }

    /// The only job that is out.
    fn call(&self) -> &CallWhat {
        &self.launched.last().expect("a job").call.what
    }

    fn payload(&self) -> Value {
        let CallWhat::Task { payload, .. } = self.call() else { panic!("{:?}", self.call()) };
        payload.clone()
    }

    fn succeed(&mut self, result: Value) {
        let job = self.launched.last().map(|launch| launch.job);
        self.hear([Message::Ended(Ended { job, status: JobStatus::Succeeded, result, error: None })]);
    }

    fn fail(&mut self, class: ErrorClass, message: &str) {
        let job = self.launched.last().map(|launch| launch.job);
        let error = Some(RunError::new(class, message));
        self.hear([Message::Ended(Ended { job, status: JobStatus::Failed, result: Value::Null, error })]);
    }

    fn result(&self) -> Value {
        let ending = self.flow.ending().expect("it is over");
        assert_eq!(ending.status, JobStatus::Succeeded, "{:?}", ending.error);
        ending.result.clone()
    }

    fn error(&self) -> String {
        let ending = self.flow.ending().expect("it is over");
        assert_eq!(ending.status, JobStatus::Failed);
        ending.error.as_ref().expect("a reason").message.clone()
    }
}

fn with_states(states: Value) -> Value {
    json!({"start": "a", "states": states})
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let go = |to: &str| json!({"transitions": [{"to": to}]});
    let end = || json!({"final": true});
    for (spec, path, part) in [
        (json!({"start": "b", "states": {"a": end()}}), "start", "did you mean `a`"),
        (with_states(json!({"a": go("bb"), "b": end()})), "states.a.transitions[0].to", "did you mean `b`"),
        (with_states(json!({"a": end(), "b": end()})), "states.b", "nothing leads here"),
        (with_states(json!({"a": {}})), "states.a", "final: true"),
        (with_states(json!({"a": {"final": true, "transitions": [{"to": "a"}]}})), "states.a.transitions", "is final"),
        (
            with_states(json!({"a": {"final": true, "actions": [{"transition_to": "a"}]}})),
            "states.a.actions[0]",
            "is final",
        ),
        (
            with_states(json!({"a": {"transitions": [{"when": "variables.x >", "to": "b"}]}, "b": end()})),
            "states.a.transitions[0].when",
            "line 1",
        ),
        (
            with_states(json!({"a": {"transitions": [{"to": "b"}, {"when": "true", "to": "b"}]}, "b": end()})),
            "states.a.transitions[0]",
            "always taken",
        ),
        (
            with_states(json!({"a": {"actions": [{"transition_to": "b"}, {"transition_to": "b"}]}, "b": end()})),
            "states.a.actions[1]",
            "at most one",
        ),
        (
            with_states(json!({"a": {"actions": [{"transition_to": "b"}, {"set": {"x": 1}}]}, "b": end()})),
            "states.a.actions[1]",
            "before it",
        ),
        (
            with_states(json!({"a": {"actions": [{"transition_to": "b"}], "transitions": [{"to": "b"}]}, "b": end()})),
            "states.a.transitions",
            "never looked at",
        ),
        (
            with_states(json!({"a": {"actions": [{"dispatch_task": {
                "type": "x", "params": {"n": "{{variables.}}"}, "transitions": {"success": "b"}}}]}, "b": end()})),
            "states.a.actions[0].dispatch_task.params.n",
            "column",
        ),
        (
            with_states(json!({"a": {"actions": [{"dispatch_task": {
                "type": "x", "transitions": {"success": "nowhere"}}}]}, "b": end()})),
            "states.a.actions[0].dispatch_task.transitions.success",
            "there is no state `nowhere`",
        ),
        (
            with_states(json!({"a": {"actions": [{"await_approval": {
                "title": "?", "transitions": {"aproved": "b"}}}]}, "b": end()})),
            "states.a.actions[0].await_approval.transitions.aproved",
            "did you mean `approved`",
        ),
        (
            with_states(json!({"a": {"actions": [{"sleep": {"then": "b"}}]}, "b": end()})),
            "states.a.actions[0].sleep",
            "one of",
        ),
        (
            with_states(json!({"a": {"actions": [{"sleep": {"until": "soon", "then": "b"}}]}, "b": end()})),
            "states.a.actions[0].sleep.until",
            "",
        ),
        (
            with_states(
                json!({"a": {"actions": [{"sleep": {"until": "2999-01-01T00:00:00Z", "then": "b"}}]}, "b": end()}),
            ),
            "states.a.actions[0].sleep.until",
            "ten years",
        ),
        (
            with_states(json!({"a": {"actions": [{"await_approval": {
                "title": " ", "transitions": {"approved": "b"}}}]}, "b": end()})),
            "states.a.actions[0].await_approval.title",
            "say what is asked",
        ),
        (
            with_states(json!({"a": {"actions": [{"await_approval": {
                "title": "?", "timeout_seconds": 0.0, "transitions": {"approved": "b"}}}]}, "b": end()})),
            "states.a.actions[0].await_approval.timeout_seconds",
            "at least a millisecond",
        ),
        (with_states(json!({"a": {"retries": 3, "final": true}})), "states.a.retries", "handler"),
        (with_states(json!({"a": {"deadline_ms": 3, "final": true}})), "states.a.deadline_ms", "handler"),
        (with_states(json!({"a": {"handler": "x", "deadline_ms": 0}})), "states.a.deadline_ms", "between 1 and"),
        (with_states(json!({"a": {"handler": "x", "retries": 1000}})), "states.a.retries", "between 0 and 999"),
        (with_states(json!({"a": {"handler": "bowline.x"}})), "states.a.handler", "bowline."),
        (with_states(json!({"a": {"handler": "x", "on_failure": "z"}})), "states.a.on_failure", "no state `z`"),
        (with_states(json!({"a": end(), "b.act": {"handler": "x"}})), "states.b.act", "letters"),
        (
            with_states(json!({"a": {"transitions": [{"when": "steps.c.output", "to": "b"}]}, "b": end()})),
            "states.a.transitions[0].when",
            "there is no state `c`",
        ),
        (json!({"start": "a", "states": {"a": end()}, "max_steps": 0}), "max_steps", "between"),
    ] {
        let mistakes = compile(spec.clone()).expect_err("a mistake");
        let found = mistakes.iter().any(|(at, what)| at == path && what.contains(part));
        assert!(found, "{path}: {part} is not among {mistakes:?}\n{spec}");
    }
    // A handler may lead anywhere, so nobody can say that `b` is not reached.
    compile(with_states(json!({"a": {"handler": "x"}, "b": end()}))).expect("no mistakes");
}

#[test]
fn a_cycle_of_states_needs_a_way_out() {
    let go = |to: &str| json!({"transitions": [{"to": to}]});
    let end = || json!({"final": true});
    let guard = |when: &str| json!({"transitions": [{"when": when, "to": "b"}, {"to": "a"}]});
    let only_guard = json!({"transitions": [{"when": "variables.n > 1", "to": "a"}]});
    let sleep = |to: &str| json!({"actions": [{"sleep": {"seconds": 1.0, "then": to}}]});
    let task = |transitions: Value| json!({"actions": [{"dispatch_task": {"type": "x", "transitions": transitions}}]});
    let ask = |transitions: Value, seconds: Option<f64>| json!({"actions": [{"await_approval": {"title": "?", "transitions": transitions, "timeout_seconds": seconds}}]});
    let both = || json!({"approved": "a", "rejected": "a"});
    for (states, members) in [
        (json!({"a": go("a")}), "`a`"),
        (json!({"a": go("b"), "b": go("a")}), "`a`, `b`"),
        (json!({"a": go("b"), "b": {"actions": [{"transition_to": "a"}]}}), "`a`, `b`"),
        (json!({"a": sleep("b"), "b": guard("variables.n > 1")}), "`a`, `b`"),
        (json!({"a": task(json!({"success": "a"}))}), "`a`"),
        (json!({"a": ask(both(), None)}), "`a`"),
    ] {
        let mistakes = compile(with_states(states.clone())).expect_err("a mistake");
        let what = format!("a run that comes here goes round for ever: {members}");
        assert_eq!(mistakes, [("states.a".to_owned(), what)], "{states}");
    }
    for states in [
        json!({"a": guard("variables.n > 1"), "b": end()}),
        json!({"a": only_guard}),
        json!({"a": go("b"), "b": {"handler": "x", "transitions": [{"to": "a"}]}}),
        json!({"a": task(json!({"success": "a", "failure": "b"})), "b": end()}),
        json!({"a": {"transitions": [{"to": "a"}], "on_failure": "b"}, "b": end()}),
        json!({"a": ask(json!({"approved": "a"}), None)}),
        json!({"a": ask(both(), Some(9.0))}),
    ] {
        assert_eq!(compile(with_states(states.clone())).err(), None, "{states}");
    }
}

#[test]
fn guards_choose_the_first_that_holds() {
    let spec = with_states(json!({
        "a": {"actions": [{"set": {"twice": "{{variables.n * 2}}"}}, {"set": {"text": "{{variables.twice}}!"}}],
              "transitions": [{"when": "variables.twice > 10", "to": "big"}, {"to": "small"}]},
        "big": {"final": true},
        "small": {"failed": true, "message": "only {{variables.twice}}"},
    }));
    let run = Run::begin(spec.clone(), json!({"n": 6}));
    assert_eq!(run.result(), json!({"n": 6, "twice": 12, "text": "12!"}));
    assert_eq!(run.path, ["blueprint.start", "a", "a.act", "big", "big.act"]);
    assert_eq!(Run::begin(spec, json!({"n": 5})).error(), "only 10");
}

#[test]
fn a_handler_is_given_the_data_and_answers_with_actions() {
    let spec = with_states(json!({
        "a": {"handler": "decide", "retries": 2, "retry_delay_ms": 700, "timeout_ms": 9_000},
        "b": {"handler": "last"},
    }));
    let mut run = Run::begin(spec, json!({"n": 1}));
    let policy = &run.launched[0].call.policy;
    let retry = policy.retry.as_ref().expect("retries");
    assert_eq!((retry.max_attempts, retry.delay_ms(0, 0.9), retry.delay_ms(1, 0.1)), (3, 700, 700));
    assert_eq!(policy.timeout_ms, Some(9_000));
    let payload = run.payload();
    assert_eq!((&payload["blueprint"], &payload["state"]), (&json!("order"), &json!("a")));
    assert_eq!((&payload["data"], &payload["task_result"]), (&json!({"n": 1}), &json!(null)));
    // What stands in an answer is not looked at again.
    let task =
        json!({"type": "work", "params": {"text": "{{variables.n}}"}, "transitions": {"success": "b", "odd": "b"}});
    run.succeed(json!({"data": {"m": "{{1 + 1}}"}, "actions": [{"dispatch_task": task}]}));
    assert_eq!(run.payload(), json!({"text": "{{variables.n}}"}));
    run.succeed(json!({"status": "odd", "x": 5}));
    let payload = run.payload();
    assert_eq!(payload["data"], json!({"n": 1, "m": "{{1 + 1}}"}));
    assert_eq!(payload["task_result"]["status"], json!("odd"));
    assert_eq!(payload["task_result"]["result"]["x"], json!(5));
    run.succeed(Value::Null);
    assert_eq!(run.result(), json!({"n": 1, "m": "{{1 + 1}}"}));
}

#[test]
fn bad_answers_of_handlers_fail_with_their_place() {
    let spec = with_states(json!({"a": {"handler": "x"}, "b": {"final": true}}));
    for (answer, part) in [
        (json!({"actions": [{"transition_to": "c"}]}), "actions[0].transition_to: there is no state `c`"),
        (json!({"actions": [{"transition_to": "b"}, {"transition_to": "b"}]}), "actions[1].transition_to: actions[0]"),
        (json!({"actions": [{"jump": "b"}]}), "unknown variant `jump`"),
        (json!({"action": []}), "unknown field `action`"),
        (json!("b"), "must be an object"),
        (json!({"data": {"task_result": 1}}), "data.task_result: no data can have this name"),
        (json!({"data": {"a b": 1}}), "data.a b: "),
        (
            json!({"actions": [{"dispatch_task": {"type": "bowline.workflow", "transitions": {"success": "b"}}}]}),
            "type:",
        ),
        (
            json!({"actions": [{"run_blueprint": {"blueprint": "x", "version": 1, "transitions": {"success": "b"}}}]}),
            "run_blueprint.version: only a definition can name a version",
        ),
        (json!({"actions": [{"sleep": {"seconds": -1.0, "then": "b"}}]}), "sleep.seconds: must be between"),
        (json!({"actions": [{"sleep": {"seconds": 1.0, "until": "x", "then": "b"}}]}), "sleep: give one of"),
    ] {
        let mut run = Run::begin(spec.clone(), json!({"n": 1}));
        run.succeed(answer);
        let error = run.error();
        assert!(error.contains("the handler of state `a` answered badly") && error.contains(part), "{part}: {error}");
        // Nothing is lost: the data are there, and the state can be tried again.
        assert_eq!(run.flow.context().variable("n"), Some(&json!(1)));
        run.hear([Message::Retry]);
        run.succeed(json!({"actions": [{"transition_to": "b"}]}));
        assert_eq!(run.result(), json!({"n": 1}));
    }
}

#[test]
fn a_final_state_leads_nowhere_whatever_its_handler_says() {
    let mut run = Run::begin(with_states(json!({"a": {"handler": "x", "final": true}})), json!({}));
    run.succeed(json!({"actions": [{"transition_to": "a"}]}));
    assert!(run.error().contains("the state is final"), "{}", run.error());
}

#[test]
fn a_state_that_fails_hands_over() {
    let spec = with_states(json!({
        "a": {"handler": "x", "on_failure": "rescue"},
        "rescue": {"handler": "y", "final": true},
    }));
    let mut run = Run::begin(spec, json!({}));
    run.fail(ErrorClass::Transient, "no luck");
    let payload = run.payload();
    assert_eq!((&payload["error"]["message"], &payload["error"]["node"]), (&json!("no luck"), &json!("a")));
    run.succeed(json!({"data": {"saved": true}}));
    assert_eq!(run.result(), json!({"saved": true}));
}

#[test]
fn tasks_go_on_by_how_they_end() {
    let task = |transitions: Value| {
        with_states(json!({
            "a": {"actions": [{"dispatch_task": {"type": "work", "params": {"n": "{{variables.n}}"},
                "timeout_seconds": 1.5, "transitions": transitions}}]},
            "good": {"final": true},
            "bad": {"actions": [{"set": {"why": "{{variables.task_result.error.message}}"}}], "transitions": [{"to": "good"}]},
            "late": {"failed": true},
        }))
    };
    let all = json!({"success": "good", "failure": "bad", "timeout": "late"});
    let mut run = Run::begin(task(all.clone()), json!({"n": 4}));
    assert_eq!((run.payload(), run.launched[0].call.policy.timeout_ms), (json!({"n": 4}), Some(1_500)));
    // A word that no transition knows is a success.
    run.succeed(json!({"status": "fine"}));
    assert_eq!(run.result()["n"], json!(4));
    let mut run = Run::begin(task(all.clone()), json!({"n": 4}));
    run.fail(ErrorClass::Permanent, "broke");
    assert_eq!(run.result()["why"], json!("broke"));
    let mut run = Run::begin(task(all.clone()), json!({"n": 4}));
    run.fail(ErrorClass::Timeout, "slow");
    assert_eq!(run.error(), "the run ended in state `late`");
    // Nobody took it: its time counts from the dispatch, and then nobody wants it any more.
    let mut run = Run::begin(task(all), json!({"n": 4}));
    let job = run.launched[0].job;
    assert_eq!(run.flow.standing().2, Some(run.now.plus_millis(1_500)));
    run.now = run.now.plus_millis(1_499);
    run.hear([Message::Due { at: None }]);
    assert!(run.flow.ending().is_none() && run.canceled.is_empty());
    run.now = run.now.plus_millis(1);
    run.hear([Message::Due { at: None }]);
    assert_eq!((run.error().as_str(), run.canceled.as_slice()), ("the run ended in state `late`", [job].as_slice()));
    assert_eq!(run.flow.context().variable("task_result").map(|told| &told["status"]), Some(&json!("timeout")));
    let mut run = Run::begin(task(json!({"success": "good", "failure": "bad", "other": "late"})), json!({"n": 4}));
    run.fail(ErrorClass::Timeout, "slow");
    assert_eq!(run.result()["why"], json!("slow"));
    let spec = with_states(json!({
        "a": {"actions": [{"dispatch_task": {"type": "work", "transitions": {"success": "good"}}}]},
        "good": {"final": true},
    }));
    let mut run = Run::begin(spec, json!({}));
    run.fail(ErrorClass::Permanent, "broke");
    let error = run.error();
    assert!(error.contains("`failure`") && error.contains("no transition") && error.contains("broke"), "{error}");
}

/// Of several tasks, each has its own time: it begins with its task, however many had to wait for others.
#[test]
fn each_of_several_tasks_has_its_own_time() {
    let task = |n: u32| json!({"type": "work", "params": n, "timeout_seconds": 10.0});
    let spec = with_states(json!({
        "a": {"actions": [{"dispatch_parallel": {
            "tasks": [task(0), task(1), task(2)], "concurrency": 2, "aggregate_into": "b"}}]},
        "b": {"actions": [{"set": {"all": "{{variables.task_result.results}}"}}], "transitions": [{"to": "c"}]},
        "c": {"final": true},
    }));
    let mut run = Run::begin(spec, json!({}));
    let began = run.now;
    run.now = began.plus_millis(4_000);
    let job = Some(run.launched[0].job);
    run.hear([Message::Ended(Ended { job, status: JobStatus::Succeeded, result: json!("fine"), error: None })]);
    assert_eq!(run.launched.len(), 3, "the third has taken the place of the first");
    // What is known of it survives being written down.
    let snapshot = serde_json::to_string(&run.flow.snapshot()).expect("JSON");
    let program = Arc::clone(run.flow.program());
    run.flow = Flow::restore(program, serde_json::from_str(&snapshot).expect("a snapshot")).expect("the same nodes");
    assert_eq!(run.flow.standing().2, Some(began.plus_millis(10_000)));
    run.now = began.plus_millis(10_000);
    run.hear([Message::Due { at: None }]);
    assert_eq!(run.canceled, [run.launched[1].job]);
    assert_eq!(run.flow.standing().2, Some(began.plus_millis(14_000)));
    run.now = began.plus_millis(14_000);
    run.hear([Message::Due { at: None }]);
    assert_eq!(run.canceled, [run.launched[1].job, run.launched[2].job]);
    let statuses: Vec<_> =
        run.result()["all"].as_array().expect("results").iter().map(|result| result["status"].clone()).collect();
    assert_eq!(statuses, ["success", "failure", "failure"]);
}

#[test]
fn a_handler_that_nobody_runs_is_given_up() {
    let spec = with_states(json!({
        "a": {"handler": "x", "timeout_ms": 500, "deadline_ms": 2_000, "retries": 1, "on_failure": "b"},
        "b": {"actions": [{"set": {"why": "{{execution.error.class}}"}}], "transitions": [{"to": "c"}]},
        "c": {"final": true},
    }));
    let mut run = Run::begin(spec, json!({}));
    assert_eq!(run.launched[0].call.policy.timeout_ms, Some(500), "of one attempt");
    run.now = run.now.plus_millis(2_000);
    run.hear([Message::Due { at: None }]);
    assert_eq!((run.result(), run.canceled.len()), (json!({"why": "timeout"}), 1));
}

#[test]
fn data_that_cannot_be_are_refused() {
    for (data, part) in
        [(json!([1]), "an object"), (json!({"task_result": 1}), "task_result"), (json!({"a-b": 1}), "a-b")]
    {
        let error = super::check_data(&data).expect_err("refused");
        assert!(error.contains(part), "{error}");
        let run = Run::begin(with_states(json!({"a": {"final": true}})), data);
        assert!(run.error().contains(part), "{}", run.error());
    }
}

#[test]
fn a_run_folds_to_the_same_again() {
    let spec = with_states(json!({
        "a": {"handler": "x"},
        "b": {"actions": [{"sleep": {"seconds": 60.0, "then": "c"}}]},
        "c": {"final": true},
    }));
    let mut run = Run::begin(spec, json!({"n": 1}));
    run.succeed(json!({"data": {"n": 2}, "actions": [{"transition_to": "b"}]}));
    let (status, _, due) = run.flow.standing();
    assert_eq!((status, due), (JobStatus::Paused, Some(run.now.plus_millis(60_000))));
    let snapshot = serde_json::to_string(&run.flow.snapshot()).expect("JSON");
    let program = Arc::clone(run.flow.program());
    run.flow = Flow::restore(program, serde_json::from_str(&snapshot).expect("a snapshot")).expect("the same nodes");
    run.now = run.now.plus_millis(60_000);
    run.hear([Message::Due { at: None }]);
    assert_eq!(run.result(), json!({"n": 2}));
}

/// Any JSON that is about as large as an answer.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(|n| serde_json::Number::from_f64(n).map_or(Value::Null, Value::Number)),
        prop::sample::select(vec!["a", "b", "c", "work", "{{variables.n}}", "", "2027-01-01T00:00:00Z"])
            .prop_map(Value::from),
    ];
    let actions = "data actions transition_to dispatch_task dispatch_parallel await_approval run_blueprint sleep set";
    let fields =
        "type params transitions success failure tasks aggregate_into title approved blueprint seconds until then n";
    let words: Vec<String> = actions.split(' ').chain(fields.split(' ')).map(ToOwned::to_owned).collect();
    let words = prop::sample::select(words);
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(words.clone(), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever a handler says, the run goes on in a state that there is, waits for something, or is over. Its data stay.
    #[test]
    fn no_answer_breaks_a_run(data in any_json(), actions in prop::collection::vec(any_json(), 0..3), whole in any_json()) {
        let spec = with_states(json!({"a": {"handler": "x", "on_failure": "b"}, "b": {"final": true}, "c": {"final": true}}));
        for answer in [json!({"data": data, "actions": actions}), json!({"actions": actions}), whole] {
            let mut run = Run::begin(spec.clone(), json!({"kept": 1}));
            run.succeed(answer);
            prop_assert!(run.flow.ending().is_some() || run.flow.places().any(|(_, _, wait)| wait.is_some()));
            prop_assert_eq!(run.flow.context().variable("kept"), Some(&json!(1)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 0, ..ProptestConfig::default() })]

    /// What compiles is within the bounds of a graph, whose nodes are twice as many; what does not names no more errors than it
    /// may.
    #[test]
    fn no_blueprint_compiles_beyond_its_bounds(
        states in prop_oneof![1..100_usize, 5_000..5_003_usize, 9_999..10_002_usize],
        sound in Just(true),
    ) {
        let state = |n: usize| {
            let next = if sound { format!("s{}", n + 1) } else { format!("nowhere{n}") };
            let state = if n + 1 == states {
                json!({"final": true})
            } else {
                json!({"transitions": [{"to": next}]})
            };
            (format!("s{n}"), state)
        };
        let all: serde_json::Map<String, Value> = (0..states).map(state).collect();
        let spec = json!({"start": "s0", "states": all});
        match serde_json::from_value(spec).map(|spec| Program::of_blueprint(&spec)) {
            Ok(Ok(program)) => {
                let nodes = program.nodes.len();
                prop_assert!(nodes <= crate::compile::NODES_MAX && states <= 4_999, "{states} states, {nodes} nodes");
            }
            Ok(Err(mistakes)) => {
                prop_assert!(!sound || states > 4_999, "{:?}", mistakes.first());
                prop_assert!(mistakes.len() <= crate::compile::MISTAKES_MAX, "{} errors", mistakes.len());
            }
            Err(error) => prop_assert!(false, "no blueprint: {error}"),
        }
    }
}
