//! Runs that are stepped through, pinned and forked, without anything around them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_model::workflow::NodeId;
use bowline_model::{ErrorClass, JobId, JobStatus, RunError, Timestamp};
use serde_json::{Map, Value, json};

use super::{Breakpoint, Flow, HaltedBy, Launch, Message, NotForked, Order, PausedFor, Record, Turning, Waiting};
use crate::expression::Context;
use crate::node::{CallWhat, Ended};
use crate::program::Program;

fn graph(nodes: Value, edges: &[(&str, &str, &str)]) -> Arc<Program> {
    let edges: Vec<Value> = edges.iter().map(|(a, b, on)| json!({"source": a, "target": b, "on": on})).collect();
    let spec = serde_json::from_value(json!({"variables": {"n": 0}, "nodes": nodes, "edges": edges}));
    Arc::new(Program::compile(&spec.expect("a workflow")).expect("no mistakes"))
}

fn blueprint(states: Value) -> Arc<Program> {
    let spec = serde_json::from_value(json!({"start": "first", "states": states}));
    Arc::new(Program::of_blueprint(&spec.expect("a blueprint")).expect("no mistakes"))
}

/// `start`, a node of this type, `after`, `end`.
fn around(node_type: &str, config: &Value, way: &str) -> Arc<Program> {
    let nodes = json!([
        {"id": "start", "type": "start"},
        {"id": "it", "type": node_type, "config": config},
        {"id": "after", "type": "log", "config": {"message": "after"}},
        {"id": "end", "type": "end"},
    ]);
    let mut edges = vec![("start", "it", "success"), ("it", "after", way), ("after", "end", "success")];
    if node_type == "join" {
        // Where only one path can come there is nothing to join.
        edges.push(("start", "it", "failure"));
    }
    graph(nodes, &edges)
}

/// A run that is driven by hand.
struct Run {
    flow: Flow,
    now: Timestamp,
    minted: i64,
    records: Vec<Record>,
    launches: Vec<Launch>,
}

impl Run {
    /// Begins without being stepped through.
    fn new(program: Arc<Program>) -> Self {
        let context = Context::new(json!({"payload": {}}), json!({}), json!({"id": "7"}));
        let now = Timestamp::from_millis(1_800_000_000_000);
        Self { flow: Flow::new(program, context), now, minted: 0, records: Vec::new(), launches: Vec::new() }
    }

    /// Stops after its first node.
    fn stepping(program: Arc<Program>) -> Self {
        let mut run = Self::new(program);
        run.flow.step_by_step();
        run.hear([]);
        run
    }

    /// Takes a turn, and says which nodes were over in it.
    fn hear(&mut self, messages: impl IntoIterator<Item = Message>) -> Vec<String> {
        let minted = &mut self.minted;
        let mut mint = || {
            *minted += 1;
            JobId::mint(Timestamp::from_millis(*minted), [0; 10])
        };
        let turn = self.flow.turn(
            messages,
            &mut Turning { now: self.now, expires: true, mint: &mut mint, limit: 1_000, work: u32::MAX },
        );
        let over = turn.records.iter().filter_map(|record| match record {
            Record::Step(step) => Some(step.node.to_string()),
            _ => None,
        });
        let over = over.collect();
        self.records.extend(turn.records);
        self.launches.extend(turn.launches);
        over
    }

    fn steer(&mut self, order: Order) -> Vec<String> {
        order.check(self.flow.program()).expect("an order that fits");
        self.hear([Message::Steer { order, by: "ada".to_owned(), reason: None }])
    }

    /// Gives an answer to whatever waits first, and says which nodes were over then; nothing if nobody waits.
    fn answer(&mut self) -> Option<Vec<String>> {
        let wait = self.flow.places().find_map(|(node, visit, wait)| Some((node.clone(), visit, wait?.clone())));
        let (node, visit, wait) = wait?;
        Some(match wait {
            Waiting::Until(at) => {
                self.now = at;
                self.hear([Message::Due { at: None }])
            }
            Waiting::Approval { .. } => {
                let by = "ann".to_owned();
                self.hear([Message::Decided { node, visit, approved: true, by, reason: None, named: BTreeMap::new() }])
            }
            Waiting::Event { name, key, .. } => self.hear([Message::Event { name, key, payload: json!({}) }]),
            Waiting::Call { .. } | Waiting::Each { .. } => {
                let job = self.flow.jobs().next();
                let (status, result) = (JobStatus::Succeeded, json!({}));
                self.hear([Message::Ended(Ended { job, status, result, error: None })])
            }
        })
    }

    /// Carries out an order with everything that is waited for, until the run stands still or is over.
    fn carry_out(&mut self, order: Order) -> Vec<String> {
        let mut over = self.steer(order);
        while self.flow.debug().halted.is_none() && self.flow.ending().is_none() {
            over.extend(self.answer().expect("it stands still, waits or is over"));
        }
        over
    }

    fn next(&self) -> Option<&str> {
        self.flow.next().map(|(node, _)| node.as_str())
    }

    fn variable(&self, name: &str) -> &Value {
        self.flow.context().variable(name).expect("a variable")
    }
}

/// One of each type that stands between others, with the edge that is taken.
fn samples() -> BTreeMap<&'static str, (Value, &'static str)> {
    BTreeMap::from([
        ("condition", (json!({"expression": "1 == 1"}), "true")),
        ("switch", (json!({"cases": [{"name": "one", "when": "1 == 1"}]}), "one")),
        ("variable_set", (json!({"name": "n", "value": 1}), "success")),
        ("math", (json!({"expression": "variables.n + 1", "store_as": "n"}), "success")),
        ("transform", (json!({"value": {"a": 1}}), "success")),
        ("log", (json!({"message": "it"}), "success")),
        ("sleep", (json!({"duration_ms": 1_000}), "success")),
        ("wait_event", (json!({"event": "paid"}), "success")),
        ("approval", (json!({"title": "?"}), "success")),
        ("http_request", (json!({"method": "POST", "url": "http://example.com/"}), "success")),
        ("rabbitmq_publish", (json!({"broker": "mq", "routing_key": "a", "body": 1}), "success")),
        ("task", (json!({"type": "echo"}), "success")),
        ("command", (json!({"command": "restart", "hosts": ["web1"]}), "success")),
        ("workflow", (json!({"name": "other"}), "success")),
        (
            "foreach",
            (
                json!({"items": [1, 2, 3], "concurrency": 2, "node": {"type": "task", "config": {"type": "echo"}}}),
                "success",
            ),
        ),
        ("parallel", (json!({}), "success")),
        ("join", (json!({}), "success")),
    ])
}

#[test]
fn a_step_is_one_node_whatever_its_type() {
    let samples = samples();
    for node_type in crate::nodes::names().filter(|name| !matches!(*name, "start" | "end")) {
        let (config, way) = samples.get(node_type).unwrap_or_else(|| panic!("there is no sample of {node_type}"));
        let program = || around(node_type, config, way);
        let mut run = Run::stepping(program());
        for node in ["it", "after"] {
            assert_eq!((run.next(), run.flow.debug().halted), (Some(node), Some(HaltedBy::Step)), "{node_type}");
            assert_eq!(run.carry_out(Order::Step), [node], "{node_type}");
        }
        assert_eq!((run.carry_out(Order::Step), run.flow.ending().is_some()), (vec!["end".to_owned()], true));
        // The same without steps: as far as a node, and as far as a breakpoint.
        let mut run = Run::stepping(program());
        assert_eq!(run.carry_out(Order::RunTo("it".into())), [""; 0], "{node_type}");
        assert_eq!(run.carry_out(Order::RunTo("after".into())), ["it"], "{node_type}");
        assert_eq!(run.flow.debug().halted, Some(HaltedBy::RunTo), "{node_type}");
        let mut run = Run::new(program());
        run.flow.break_at(["it", "after"].map(|node| Breakpoint { node: node.into(), when: None }));
        run.hear([]);
        assert_eq!((run.next(), run.flow.debug().halted), (Some("it"), Some(HaltedBy::Breakpoint)), "{node_type}");
        assert_eq!(run.carry_out(Order::Continue), ["it"], "{node_type}");
        assert_eq!((run.next(), run.flow.debug().halted), (Some("after"), Some(HaltedBy::Breakpoint)), "{node_type}");
        assert_eq!(run.carry_out(Order::Continue), ["after", "end"], "{node_type}");
    }
}

#[test]
fn what_has_happened_before_it_is_waited_for_is_no_reason_to_go_further() {
    let mut run = Run::stepping(around("wait_event", &json!({"event": "paid"}), "success"));
    run.hear([Message::Event { name: "paid".into(), key: None, payload: json!(1) }]);
    assert_eq!(run.steer(Order::Step), ["it"]);
    assert_eq!(run.next(), Some("after"));
    let mut run = Run::stepping(around("sleep", &json!({"duration_ms": 0}), "success"));
    assert_eq!(run.steer(Order::Step), ["it"]);
    let none = json!({"items": [], "node": {"type": "task", "config": {"type": "echo"}}});
    let mut run = Run::stepping(around("foreach", &none, "success"));
    assert_eq!(run.steer(Order::Step), ["it"]);
}

#[test]
fn a_step_into_a_failure_stops_before_whoever_handles_it() {
    let nodes = json!([
        {"id": "start", "type": "start"},
        {"id": "pay", "type": "task", "config": {"type": "pay"}},
        {"id": "help", "type": "log", "config": {"message": "help"}},
        {"id": "end", "type": "end"},
    ]);
    let edges = [
        ("start", "pay", "success"),
        ("pay", "end", "success"),
        ("pay", "help", "failure"),
        ("help", "end", "success"),
    ];
    let mut run = Run::stepping(graph(nodes, &edges));
    assert_eq!(run.steer(Order::Step), [""; 0]);
    let job = run.flow.jobs().next();
    let failed = Ended { job, status: JobStatus::Failed, result: Value::Null, error: None };
    assert_eq!(run.hear([Message::Ended(failed)]), ["pay"]);
    assert_eq!((run.next(), run.flow.debug().halted), (Some("help"), Some(HaltedBy::Step)));
}

/// Two paths: one asks somebody, the other sleeps.
fn side_by_side() -> Arc<Program> {
    let nodes = json!([
        {"id": "start", "type": "start"},
        {"id": "fork", "type": "parallel"},
        {"id": "a", "type": "approval", "config": {"title": "?"}},
        {"id": "b", "type": "sleep", "config": {"duration": "1h"}},
        {"id": "a2", "type": "log", "config": {"message": "a"}},
        {"id": "join", "type": "join"},
        {"id": "end", "type": "end"},
    ]);
    let edges = [
        ("start", "fork", "success"),
        ("fork", "a", "success"),
        ("fork", "b", "success"),
        ("a", "a2", "success"),
        ("a2", "join", "success"),
        ("b", "join", "success"),
        ("join", "end", "success"),
    ];
    graph(nodes, &edges)
}

#[test]
fn a_step_is_one_node_of_all_paths() {
    let mut run = Run::stepping(side_by_side());
    let mut taken = Vec::new();
    while run.flow.ending().is_none() {
        let over = run.carry_out(Order::Step);
        assert_eq!(over.len(), 1, "{taken:?} {over:?}");
        taken.extend(over);
    }
    assert_eq!(taken, ["fork", "a", "b", "a2", "join", "end"]);
}

#[test]
fn what_takes_long_holds_the_other_paths_back_until_the_next_step() {
    let mut run = Run::stepping(side_by_side());
    run.steer(Order::Step);
    assert_eq!(run.steer(Order::Step), [""; 0]);
    // One has begun and the other has not; it is a person who is waited for, not the debugger.
    assert_eq!((run.next(), run.flow.standing().1), (Some("b"), Some(PausedFor::Approval)));
    assert_eq!(run.hear([Message::GoOn]), [""; 0]);
    assert_eq!(run.next(), Some("b"));
    // It can be stored like this, and read again.
    let text = serde_json::to_string(&run.flow.snapshot()).expect("JSON");
    let snapshot = serde_json::from_str(&text).expect("a snapshot");
    run.flow = Flow::restore(Arc::clone(run.flow.program()), snapshot).expect("the same program");
    assert_eq!(run.hear([Message::GoOn]), [""; 0]);
    assert_eq!(run.next(), Some("b"));
    // Another step begins the other one, and the first that is over stops the run.
    run.steer(Order::Step);
    assert_eq!(run.next(), None);
    assert_eq!(run.answer(), Some(vec!["a".to_owned()]));
    assert_eq!((run.next(), run.flow.debug().halted), (Some("a2"), Some(HaltedBy::Step)));
    assert_eq!(run.answer(), Some(vec!["b".to_owned()]));
    assert_eq!(run.next(), Some("a2"));
    assert_eq!(run.carry_out(Order::Step), ["a2"]);
    assert_eq!(run.next(), Some("join"));
    assert_eq!(run.flow.stands_at().map(NodeId::as_str), Some("join"));
    assert_eq!(run.carry_out(Order::Continue), ["join", "end"]);
}

#[test]
fn breakpoints_hold_on_every_path_and_where_paths_meet() {
    let mut run = Run::new(side_by_side());
    run.flow.break_at(["a", "b", "join"].map(|node| Breakpoint { node: node.into(), when: None }));
    run.hear([]);
    let mut stops = Vec::new();
    while run.flow.ending().is_none() {
        stops.push(run.next().expect("a node").to_owned());
        run.carry_out(Order::Continue);
    }
    assert_eq!(stops, ["a", "b", "join"]);
    let mut run = Run::stepping(side_by_side());
    run.carry_out(Order::RunTo("join".into()));
    assert_eq!((run.next(), run.flow.debug().halted), (Some("join"), Some(HaltedBy::RunTo)));
}

#[test]
fn a_step_of_a_blueprint_is_one_node_of_a_state() {
    let states = json!({
        "first": {"handler": "ask", "transitions": [{"to": "work"}]},
        "work": {"actions": [{"dispatch_task": {"type": "t", "transitions": {"success": "several"}}}]},
        "several": {"actions": [{"dispatch_parallel": {"aggregate_into": "ask", "concurrency": 1,
            "tasks": [{"type": "t"}, {"type": "t"}]}}]},
        "ask": {"actions": [{"await_approval": {"title": "?", "transitions": {"approved": "rest"}}}]},
        "rest": {"actions": [{"sleep": {"seconds": 60, "then": "other"}}]},
        "other": {"actions": [{"run_blueprint": {"blueprint": "b", "transitions": {"success": "done"}}}]},
        "done": {"final": true},
    });
    let mut run = Run::stepping(blueprint(states));
    let mut taken = Vec::new();
    while run.flow.ending().is_none() {
        let over = run.carry_out(Order::Step);
        assert_eq!(over.len(), 1, "{taken:?} {over:?}");
        taken.extend(over);
    }
    let states = ["first", "work", "several", "ask", "rest", "other", "done"];
    let nodes: Vec<String> = states.iter().flat_map(|state| [(*state).to_owned(), format!("{state}.act")]).collect();
    assert_eq!(taken, nodes);
    assert_eq!(run.flow.ending().map(|ending| ending.status), Some(JobStatus::Succeeded));
}

fn pin(node: &str, output: Value) -> Order {
    Order::Pin { node: node.into(), output }
}

#[test]
fn a_pin_that_does_not_fit_is_refused_with_the_place() {
    let says = |node_type: &str, output: Value| {
        let (config, way) = samples().remove(node_type).expect("a sample");
        pin("it", output).check(&around(node_type, &config, way)).err().unwrap_or_default()
    };
    let ways = "this names no way on; the ways are `true`, `false`";
    assert_eq!(says("condition", json!({"result": "maybe"})), format!("pin.output.result: {ways}"));
    assert_eq!(says("condition", json!({"n": 1})), format!("pin.output: {ways}"));
    assert_eq!(says("condition", json!({"result": false})), "");
    assert_eq!(says("switch", json!({"case": "zzz"})), "pin.output.case: this names no way on; the ways are `one`");
    assert_eq!(says("switch", json!({"case": "one"})), "");
    assert_eq!(says("join", json!({})), "pin.output: a join says how many paths have come, so it cannot be pinned");
    assert_eq!(says("math", json!(7)), "pin.output.result: must be a number, for the variable `n`");
    assert_eq!(says("variable_set", json!({"m": 1})), "pin.output.n: is missing; the node sets this variable");
    assert_eq!(
        says("variable_set", json!({"n": "x".repeat(300_000)})).split(" has").next(),
        Some("pin.output: n: a variable")
    );
    assert_eq!(says("approval", json!({})), "pin.output.approved: is missing; say `true` or `false`");
    let no_edge = "this leads on by `rejected`, and no such edge leaves the node";
    assert_eq!(says("approval", json!({"approved": false})), format!("pin.output: {no_edge}"));
    assert_eq!(says("approval", json!({"approved": true})), "");
    // Whoever only has an output to give can be given any.
    for node_type in ["http_request", "task", "sleep", "foreach", "wait_event", "parallel", "transform", "log"] {
        assert_eq!(says(node_type, json!(7)), "", "{node_type}");
    }
}

#[test]
fn a_pin_of_a_state_says_what_follows() {
    let program = blueprint(json!({
        "first": {"actions": [{"dispatch_task": {"type": "t", "transitions": {"success": "done", "failure": "bad"}}}]},
        "bad": {"failed": true},
        "done": {"final": true},
    }));
    let says = |node: &str, output: Value| pin(node, output).check(&program).err().unwrap_or_default();
    assert_eq!(says("first.act", json!({"ok": 1})), "pin.output.to: name the state that follows");
    assert!(says("first.act", json!({"to": "dome"})).starts_with("pin.output.to: there is no state"));
    assert_eq!(
        says("done.act", json!({"to": "bad"})),
        "pin.output.to: the state is final, so nothing leads on from it"
    );
    assert_eq!(says("done.act", json!({})), "");
    assert!(says("blueprint.start", json!({})).starts_with("pin.output: this node makes data"));
    assert!(says("first", json!({"actions": [{"transition_to": "nowhere"}]})).starts_with("pin.output.actions[0]."));
    assert!(says("first", json!({"data": {"n": 1}})).starts_with("pin.output.data: "));
    assert_eq!(says("first", json!({"actions": [{"transition_to": "done"}]})), "");
    let mut run = Run::stepping(Arc::clone(&program));
    run.steer(pin("first.act", json!({"to": "bad", "status": "failure"})));
    assert_eq!(run.carry_out(Order::Continue), ["first", "first.act", "bad", "bad.act"]);
    assert_eq!(run.flow.ending().map(|ending| ending.status), Some(JobStatus::Failed));
    assert_eq!(run.variable("task_result"), &json!({"status": "failure"}));
}

#[test]
fn what_is_pinned_sets_variables_and_leads_on_as_the_node_would() {
    for (node_type, output) in [("math", json!({"result": 9})), ("variable_set", json!({"n": 9}))] {
        let (config, way) = samples().remove(node_type).expect("a sample");
        let mut run = Run::stepping(around(node_type, &config, way));
        run.steer(pin("it", output));
        assert_eq!(run.carry_out(Order::Continue), ["it", "after", "end"]);
        assert_eq!(run.variable("n"), &json!(9), "{node_type}");
    }
    // A pinned end ends everything, as an end does.
    let mut run = Run::stepping(side_by_side());
    run.steer(pin("b", json!({})));
    run.steer(pin("end", json!({"well": true})));
    run.carry_out(Order::Continue);
    assert_eq!(run.flow.ending().map(|ending| ending.result.clone()), Some(json!({"well": true})));
}

/// A loop ends although the node that counts is pinned.
#[test]
fn a_loop_around_a_pinned_node_ends() {
    let nodes = json!([
        {"id": "start", "type": "start"},
        {"id": "add", "type": "math", "config": {"expression": "variables.n + 1", "store_as": "n"}},
        {"id": "more", "type": "condition", "config": {"expression": "variables.n < 3"}},
        {"id": "end", "type": "end"},
    ]);
    let edges =
        [("start", "add", "success"), ("add", "more", "success"), ("more", "add", "true"), ("more", "end", "false")];
    let mut run = Run::stepping(graph(nodes, &edges));
    run.steer(pin("add", json!({"result": 3})));
    assert_eq!(run.carry_out(Order::Continue), ["add", "more", "end"]);
}

/// What was pinned before it was checked.
#[test]
fn an_old_pin_that_does_not_fit_fails_its_node() {
    let (config, way) = samples().remove("condition").expect("a sample");
    let mut run = Run::stepping(around("condition", &config, way));
    let old = r#"[{"is":"steered","order":{"pin":{"node":"it","output":{"result":"maybe"}}},"by":"ada","at":"2027-01-15T08:00:00Z"}]"#;
    for record in super::read_records(old).expect("a record of before") {
        run.flow.apply(&record);
    }
    assert_eq!(run.carry_out(Order::Continue), ["it"]);
    let error = run.flow.ending().and_then(|ending| ending.error.clone()).expect("an error");
    assert!(error.message.contains("what is pinned does not fit: output.result: this names no way on"), "{error:?}");
}

#[test]
fn a_fork_keeps_what_is_pinned_where_it_fits() {
    let (config, way) = samples().remove("http_request").expect("a sample");
    let mut run = Run::stepping(around("http_request", &config, way));
    run.steer(pin("it", json!({"status_code": 200})));
    let mut other = Run::new(Arc::clone(run.flow.program()));
    other.flow = run.flow.fork(Arc::clone(run.flow.program())).expect("a fork");
    assert_eq!(other.hear([]), ["it", "after", "end"]);
    assert_eq!(other.flow.context().output("it"), Some(&json!({"status_code": 200})));
    // Where the node only calculates, what does not fit is forgotten.
    let (config, way) = samples().remove("condition").expect("a sample");
    let fork = run.flow.fork(around("condition", &config, way)).expect("a fork");
    assert_eq!(fork.debug().pins, BTreeMap::new());
    // Nor is a yes for one run a yes for another.
    let ask = around("approval", &json!({"title": "?"}), "success");
    let mut asked = Run::stepping(Arc::clone(&ask));
    asked.steer(pin("it", json!({"approved": true})));
    assert_eq!(asked.flow.fork(ask).expect("a fork").debug().pins, BTreeMap::new());
    // What would do something is not done because its pin does not fit any more.
    let states = |target: &str| {
        blueprint(json!({
            "first": {"actions": [{"dispatch_task": {"type": "pay", "transitions": {"success": target}}}]},
            target: {"final": true},
        }))
    };
    let mut run = Run::stepping(states("done"));
    run.steer(pin("first.act", json!({"to": "done"})));
    let refused = run.flow.fork(states("finished")).expect_err("refused");
    assert!(matches!(&refused, NotForked::Pin { node, .. } if node == "first.act"), "{refused}");
    // The same for the nodes of a workflow.
    let mut run = Run::stepping(around("log", &json!({"message": "x"}), "success"));
    run.steer(pin("it", json!({"result": "expired"})));
    let refused = run.flow.fork(around("wait_event", &json!({"event": "paid"}), "success")).expect_err("refused");
    assert!(matches!(&refused, NotForked::Pin { node, .. } if node == "it"), "{refused}");
}

#[test]
fn a_fork_that_is_debugged_stands_still_at_once() {
    let mut run = Run::stepping(around("task", &json!({"type": "pay"}), "success"));
    run.carry_out(Order::Step);
    let fork = |run: &Run| {
        let mut other = Run::new(Arc::clone(run.flow.program()));
        other.flow = run.flow.fork(Arc::clone(run.flow.program())).expect("a fork");
        other.flow.stand_still();
        other
    };
    let mut other = fork(&run);
    assert_eq!(other.hear([]), [""; 0]);
    assert_eq!((other.next(), other.flow.standing().1), (Some("after"), Some(PausedFor::Debug)));
    assert_eq!(other.carry_out(Order::Step), ["after"]);
    // From the beginning, nothing has begun either; and at the end there is nothing to stand still for.
    let mut first = fork(&Run::new(Arc::clone(run.flow.program())));
    assert_eq!((first.hear([]), first.next()), (Vec::new(), Some("start")));
    run.carry_out(Order::Continue);
    let mut last = fork(&run);
    last.hear([]);
    assert_eq!(last.flow.ending().map(|ending| ending.status), Some(JobStatus::Succeeded));
}

#[test]
fn an_edit_remembers_what_was_there_before() {
    let mut run = Run::stepping(around("log", &json!({"message": "it"}), "success"));
    let set = |name: &str| Order::Edit(Map::from_iter([(name.to_owned(), json!(5))]));
    run.steer(set("n"));
    run.steer(set("m"));
    let befores: Vec<&Map<String, Value>> = run
        .records
        .iter()
        .filter_map(|record| if let Record::Steered { before, .. } = record { Some(before) } else { None })
        .collect();
    assert_eq!(befores, [&Map::from_iter([("n".to_owned(), json!(0))]), &Map::new()]);
}

#[test]
fn many_edits_in_a_row_put_a_question_once_more() {
    let mut run = Run::new(around("approval", &json!({"title": "Pay {{variables.n}}?"}), "success"));
    run.hear([]);
    let asked = |run: &Run| run.records.iter().filter(|record| matches!(record, Record::Began { .. })).count();
    assert_eq!(asked(&run), 1);
    let edit = |n: u32| Message::Steer {
        order: Order::Edit(Map::from_iter([("n".to_owned(), json!(n))])),
        by: "ada".to_owned(),
        reason: None,
    };
    run.hear((0..100).map(edit));
    assert_eq!(asked(&run), 2, "not once for each of them");
    let titles = run.flow.places().filter_map(|(_, _, wait)| match wait {
        Some(Waiting::Approval { title, .. }) => Some(title.clone()),
        _ => None,
    });
    assert_eq!(titles.collect::<Vec<_>>(), ["Pay 99?"]);
    // Nothing changed, so nothing is put again.
    run.hear([Message::GoOn]);
    assert_eq!(asked(&run), 2);
}

/// Three tasks in a row, the first in a loop that is gone round twice, each undone by another task; then one that fails.
fn undoable() -> Arc<Program> {
    let task = |id: &str, undo: Option<&str>| {
        let mut task = json!({"id": id, "type": "task", "config": {"type": "work"}});
        if let Some(undo) = undo {
            task["undo"] = json!(undo);
            task["config"]["payload"] = json!({"did": id});
        }
        task
    };
    let undo = |id: &str, of: &str| {
        let payload = json!({"undo": format!("{{{{steps.{of}.output}}}}"), "why": "{{execution.error.message}}"});
        json!({"id": id, "type": "task", "config": {"type": "work", "payload": payload}})
    };
    let add = json!({"operation": "add", "operands": ["{{variables.n}}", 1], "store_as": "n"});
    let nodes = json!([
        {"id": "start", "type": "start"},
        task("reserve", Some("release")),
        {"id": "add", "type": "math", "config": add},
        {"id": "more", "type": "condition", "config": {"expression": "variables.n < 2"}},
        task("charge", Some("refund")),
        task("ship", None),
        {"id": "end", "type": "end"},
        undo("release", "reserve"),
        undo("refund", "charge"),
    ]);
    graph(
        nodes,
        &[
            ("start", "reserve", "success"),
            ("reserve", "add", "success"),
            ("add", "more", "success"),
            ("more", "reserve", "true"),
            ("more", "charge", "false"),
            ("charge", "ship", "success"),
            ("ship", "end", "success"),
        ],
    )
}

impl Run {
    /// The job that is waited for ends like this.
    fn end_job(&mut self, result: Result<Value, &str>) -> Vec<String> {
        let job = self.flow.jobs().next();
        let ended = match result {
            Ok(result) => Ended { job, status: JobStatus::Succeeded, result, error: None },
            Err(text) => {
                let error = RunError::new(ErrorClass::Permanent, text);
                Ended { job, status: JobStatus::Failed, result: Value::Null, error: Some(error) }
            }
        };
        self.hear([Message::Ended(ended)])
    }

    /// What the job that is waited for was given.
    fn asked(&self) -> Value {
        match &self.launches.last().expect("a job").call.what {
            CallWhat::Task { payload, .. } => payload.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn at(&self) -> Vec<&str> {
        self.flow.places().map(|(node, ..)| node.as_str()).collect()
    }
}

/// Until everything was done and the last of it has failed.
fn about_to_undo() -> Run {
    let mut run = Run::new(undoable());
    run.hear([]);
    run.end_job(Ok(json!("first")));
    run.end_job(Ok(json!("second")));
    run.end_job(Ok(json!("paid")));
    assert_eq!(run.at(), ["ship"]);
    run.end_job(Err("no ship"));
    run
}

#[test]
fn what_was_done_is_undone_in_the_reverse_order_and_with_what_was_known_then() {
    let mut run = about_to_undo();
    let why = "no ship";
    assert_eq!((run.at(), run.asked()), (vec!["refund"], json!({"undo": "paid", "why": why})));
    assert_eq!(run.flow.standing().0, JobStatus::Running);
    assert_eq!(run.end_job(Ok(json!(null))), ["refund"]);
    assert_eq!((run.at(), run.asked()), (vec!["release"], json!({"undo": "second", "why": why})));
    assert_eq!(run.flow.context().execution()["undoing"], json!({"node": "reserve", "visit": 2}));
    // Whoever reads the records, or a snapshot, sees the same.
    let mut folded = Flow::new(undoable(), Run::new(undoable()).flow.context().clone());
    run.records.iter().for_each(|record| folded.apply(record));
    let restored = Flow::restore(undoable(), run.flow.snapshot()).expect("the same nodes");
    let text = |flow: &Flow| serde_json::to_value(flow.snapshot()).expect("JSON");
    assert_eq!((text(&folded), text(&restored)), (text(&run.flow), text(&run.flow)));
    assert!(matches!(run.flow.fork(undoable()), Err(NotForked::Undoing)));
    run.end_job(Ok(json!(null)));
    assert_eq!(run.asked()["undo"], json!("first"));
    run.end_job(Ok(json!(null)));
    let ending = run.flow.ending().expect("it is over");
    assert_eq!(
        (ending.status, &*ending.error.as_ref().expect("an error").message),
        (JobStatus::Failed, "node \"ship\": no ship")
    );
    // Nothing of it is left, so whoever tries it again begins again.
    assert_eq!(run.hear([Message::Retry]), ["start"]);
    assert_eq!((run.at(), run.variable("n")), (vec!["reserve"], &json!(0)));
    assert!(run.flow.context().output("charge").is_none() && run.flow.context().execution().get("error").is_none());
    assert_eq!(run.flow.places().next().map(|(_, visit, _)| visit), Some(3), "no visit is made twice");
    for answer in ["third", "fourth", "paid again", "shipped"] {
        run.end_job(Ok(json!(answer)));
    }
    assert_eq!(run.flow.ending().map(|ending| ending.status), Some(JobStatus::Succeeded));
}

#[test]
fn what_cannot_be_undone_keeps_nothing_else_from_it_and_is_tried_again() {
    let mut run = about_to_undo();
    run.end_job(Err("the bank is closed"));
    assert_eq!(run.at(), ["release"]);
    run.end_job(Ok(json!(null)));
    run.end_job(Err("no such shelf"));
    let told = &run.flow.ending().expect("it is over").error.as_ref().expect("an error").message;
    assert_eq!(told, "node \"ship\": no ship; could not be undone: \"charge\", \"reserve\"");
    run.hear([Message::Retry]);
    assert_eq!((run.at(), run.asked()["undo"].clone()), (vec!["refund"], json!("paid")));
    run.end_job(Ok(json!(null)));
    assert_eq!((run.at(), run.asked()["undo"].clone()), (vec!["release"], json!("first")));
    // Somebody who stops it leaves it to be undone later.
    run.hear([Message::Cancel]);
    run.end_job(Err("stopped"));
    assert_eq!(run.flow.ending().map(|ending| ending.status), Some(JobStatus::Canceled));
    run.hear([Message::Retry]);
    assert_eq!((run.at(), run.asked()["undo"].clone()), (vec!["release"], json!("first")));
    run.end_job(Ok(json!(null)));
    let told = &run.flow.ending().expect("it is over").error.as_ref().expect("an error").message;
    assert_eq!(told, "node \"ship\": no ship");
}

#[test]
fn only_what_was_done_is_undone() {
    // Canceled: nobody said that it should be undone.
    let mut run = Run::new(undoable());
    run.hear([]);
    run.end_job(Ok(json!("first")));
    run.hear([Message::Cancel]);
    run.end_job(Err("stopped"));
    assert_eq!(run.flow.ending().map(|ending| ending.status), Some(JobStatus::Canceled));
    // Pinned: only said, not done. Forked: done by another run.
    let mut run = Run::new(undoable());
    run.steer(Order::Pin { node: "reserve".into(), output: json!("said") });
    run.hear([]);
    assert_eq!(run.at(), ["charge"]);
    let mut other = Run::new(undoable());
    run.end_job(Ok(json!("paid")));
    other.flow = run.flow.fork(undoable()).expect("a fork");
    other.hear([]);
    other.end_job(Err("no ship"));
    assert_eq!(other.flow.ending().map(|ending| ending.status), Some(JobStatus::Failed));
    run.end_job(Err("no ship"));
    assert_eq!(run.at(), ["refund"]);
    run.end_job(Ok(json!(null)));
    assert_eq!(run.flow.ending().map(|ending| ending.status), Some(JobStatus::Failed));
}

#[test]
fn undoing_is_stepped_through_as_well() {
    let mut run = Run::stepping(undoable());
    while run.at() != ["refund"] {
        let waits = run.flow.jobs().next();
        match waits {
            Some(_) if run.at() == ["ship"] => drop(run.end_job(Err("no ship"))),
            Some(_) => drop(run.end_job(Ok(json!("done")))),
            None => drop(run.steer(Order::Step)),
        }
    }
    assert_eq!((run.flow.debug().halted, run.next()), (Some(HaltedBy::Step), Some("refund")));
    assert!(run.flow.jobs().next().is_none(), "nothing begins before somebody says so");
    run.steer(Order::Step);
    assert_eq!(run.end_job(Ok(json!(null))), ["refund"]);
    assert_eq!((run.flow.debug().halted, run.next()), (Some(HaltedBy::Step), Some("release")));
}

#[test]
fn a_run_that_took_too_many_steps_is_undone() {
    let nodes = json!([
        {"id": "start", "type": "start"},
        {"id": "do", "type": "log", "config": {"message": "do"}, "undo": "undo"},
        {"id": "undo", "type": "log", "config": {"message": "undo"}},
        {"id": "more", "type": "condition", "config": {"expression": "true"}},
        {"id": "end", "type": "end"},
    ]);
    let edges = json!([
        {"source": "start", "target": "do"}, {"source": "do", "target": "more"},
        {"source": "more", "target": "do", "on": "true"}, {"source": "more", "target": "end", "on": "false"},
    ]);
    let spec = serde_json::from_value(json!({"nodes": nodes, "edges": edges, "max_steps": 6})).expect("a workflow");
    let mut run = Run::new(Arc::new(Program::compile(&spec).expect("no mistakes")));
    let over = run.hear([]);
    assert_eq!(over, ["start", "do", "more", "do", "more", "do", "undo", "undo", "undo"]);
    assert_eq!(run.flow.ending().map(|ending| ending.status), Some(JobStatus::Failed));
}

/// Whoever comes to an `any` join second finds that it has gone on, however much is still to be done behind it.
#[test]
fn an_any_join_goes_on_once() {
    let task = |id: &str| json!({"id": id, "type": "task", "config": {"type": "work"}});
    let nodes = json!([
        {"id": "start", "type": "start"},
        {"id": "fork", "type": "parallel"},
        {"id": "quick", "type": "log", "config": {"message": "quick"}},
        task("slow"),
        {"id": "join", "type": "join", "config": {"mode": "any"}},
        task("one"), task("two"), task("three"), task("four"),
        {"id": "end", "type": "end"},
    ]);
    let edges = [
        ("start", "fork", "success"),
        ("fork", "quick", "success"),
        ("fork", "slow", "success"),
        ("quick", "join", "success"),
        ("slow", "join", "success"),
        ("join", "one", "success"),
        ("one", "two", "success"),
        ("two", "three", "success"),
        ("three", "four", "success"),
        ("four", "end", "success"),
    ];
    let mut run = Run::new(graph(nodes, &edges));
    let mut path = run.hear([]);
    while run.flow.ending().is_none() {
        path.extend(run.answer().expect("it waits for a task or is over"));
    }
    assert_eq!(path.iter().filter(|node| *node == "join").count(), 1, "{path:?}");
    assert_eq!(path.iter().filter(|node| *node == "one").count(), 1, "{path:?}");
}

#[test]
fn what_an_execution_remembers_is_bounded_in_number_and_size() {
    let program = around("wait_event", &json!({"event": "other"}), "success");
    let mut flow = Flow::new(program, Context::new(json!({}), json!({}), json!({})));
    let remember = |flow: &mut Flow, payload: Value| {
        flow.apply(&Record::Signal { name: "paid".into(), key: None, payload });
        flow.remembered()
    };
    for _ in 0..2_500 {
        let (count, bytes) = remember(&mut flow, json!(1));
        assert!(count <= 2_000 && bytes <= 2_000 * 20, "{count} {bytes}");
    }
    for _ in 0..40 {
        let (_, bytes) = remember(&mut flow, json!("x".repeat(1 << 20)));
        assert!(bytes <= 16 << 20, "{bytes}");
    }
    let kept = flow.remembered();
    let again = Flow::restore(Arc::clone(flow.program()), flow.snapshot()).expect("the same nodes");
    assert_eq!(again.remembered(), kept, "a snapshot knows as much");
}

/// A person comes before an event, an event before the clock, and work before all of them.
#[test]
fn a_run_that_waits_on_several_paths_says_what_it_waits_for() {
    let nodes = json!([
        {"id": "start", "type": "start"},
        {"id": "all", "type": "parallel"},
        {"id": "nap", "type": "sleep", "config": {"duration_ms": 5_000}},
        {"id": "paid", "type": "wait_event", "config": {"event": "paid", "timeout_ms": 60_000}},
        {"id": "ask", "type": "approval", "config": {"title": "Go on?", "timeout_ms": 9_000}},
        {"id": "work", "type": "task", "config": {"type": "work"}},
        {"id": "meet", "type": "join", "config": {"mode": "all"}},
        {"id": "end", "type": "end"},
    ]);
    let mut edges = vec![("start", "all", "success"), ("meet", "end", "success")];
    for node in ["nap", "paid", "ask", "work"] {
        edges.extend([("all", node, "success"), (node, "meet", "success")]);
    }
    let mut run = Run::new(graph(nodes, &edges));
    run.hear([]);
    let nap_ends = run.now.plus_millis(5_000);
    assert_eq!(run.flow.standing(), (JobStatus::Running, None, Some(nap_ends)));
    let job = run.flow.jobs().next();
    run.hear([Message::Ended(Ended { job, status: JobStatus::Succeeded, result: json!({}), error: None })]);
    assert_eq!(run.flow.standing(), (JobStatus::Paused, Some(PausedFor::Approval), Some(nap_ends)));
    let (node, by) = ("ask".into(), "ann".to_owned());
    run.hear([Message::Decided { node, visit: 1, approved: true, by, reason: None, named: BTreeMap::new() }]);
    assert_eq!(run.flow.standing(), (JobStatus::Paused, Some(PausedFor::Event), Some(nap_ends)));
    run.hear([Message::Event { name: "paid".into(), key: None, payload: json!(1) }]);
    assert_eq!(run.flow.standing(), (JobStatus::Paused, Some(PausedFor::Sleep), Some(nap_ends)));
    run.now = nap_ends.plus_millis(-1);
    assert_eq!(run.hear([Message::Due { at: None }]), Vec::<String>::new(), "a millisecond too early");
    run.now = nap_ends;
    assert_eq!(run.hear([Message::Due { at: None }]), ["nap", "meet", "end"]);
    assert_eq!(run.flow.standing(), (JobStatus::Succeeded, None, None));
}

#[test]
fn the_oldest_of_too_many_early_events_is_forgotten() {
    let nodes = json!([
        {"id": "start", "type": "start"},
        {"id": "nap", "type": "sleep", "config": {"duration_ms": 1_000}},
        {"id": "first", "type": "wait_event", "config": {"event": "e", "key": "0"}},
        {"id": "end", "type": "end"},
    ]);
    let edges = [("start", "nap", "success"), ("nap", "first", "success"), ("first", "end", "success")];
    let program = graph(nodes, &edges);
    for (events, hears_the_first) in [(2_000, true), (2_001, false)] {
        let mut run = Run::new(Arc::clone(&program));
        run.hear([]);
        let early = |n: u32| Message::Event { name: "e".into(), key: Some(n.to_string()), payload: json!(n) };
        run.hear((0..events).map(early));
        run.now = run.now.plus_millis(1_000);
        run.hear([Message::Due { at: None }]);
        assert_eq!(run.flow.ending().is_some(), hears_the_first, "of {events}");
    }
}

#[test]
fn a_run_takes_as_many_steps_as_it_may_and_not_one_more() {
    let around = |max_steps: u32| {
        let spec = json!({
            "max_steps": max_steps,
            "nodes": [{"id": "start", "type": "start"}, {"id": "say", "type": "log", "config": {"message": "a"}},
                      {"id": "end", "type": "end"}],
            "edges": [{"source": "start", "target": "say"}, {"source": "say", "target": "end"}],
        });
        let spec = serde_json::from_value(spec).expect("a workflow");
        let mut run = Run::new(Arc::new(Program::compile(&spec).expect("no mistakes")));
        run.hear([]);
        (run.flow.steps(), run.flow.ending().map(|ending| ending.status))
    };
    assert_eq!(around(3), (3, Some(JobStatus::Succeeded)));
    assert_eq!(around(2), (2, Some(JobStatus::Failed)));
}
