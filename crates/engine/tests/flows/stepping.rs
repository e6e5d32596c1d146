//! One step is one node, a fork is not more than its run, and what people change by hand can be seen.

use bowline_engine::flow::{ContextView, Definition, Forking, LookError};
use bowline_model::workflow::NodeId;
use bowline_model::{JobId, JobStatus};
use bowline_store::{FlowAnswer, Submitted};
use bowline_workflow::flow::{Breakpoint, Order};
use serde_json::{Map, Value, json};

use crate::{House, ask, id_of, node, result_of, row};

async fn debug(house: &House, workflow: Value) -> JobId {
    let mut request = ask(workflow, json!(null));
    request.debug = true;
    id_of(&house.submit(request).await)
}

async fn steer(house: &House, job: JobId, order: Order) {
    let taken = house.engine.flows.steer(house.tenant, job, order, house.author(), Some("to see".into())).await;
    assert_eq!(taken.expect("steered"), FlowAnswer::Taken);
}

/// Waits until a run stands still, and says after how many steps and before which node.
async fn stands(house: &House, job: JobId, steps: u32) -> Option<String> {
    for _ in 0..1_000 {
        let run = house.engine.ledger.find_flow(house.tenant, job).await.expect("a look").expect("a run");
        if run.paused_for.as_deref() == Some("debug") && run.steps >= steps {
            assert_eq!(run.steps, steps, "{:?}", house.path(job).await);
            return run.node;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it does not stand still: {:?} {:?}", house.job(job).await.state, house.path(job).await);
}

/// Orders are heard in turns of their own: waits until one is.
async fn heard(house: &House, job: JobId, order: impl Fn(&ContextView) -> bool) {
    for _ in 0..1_000 {
        if order(&context(house, job, None).await) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it does not hear what it was told: {:?}", context(house, job, None).await);
}

async fn waits_for(house: &House, job: JobId, what: &str) {
    for _ in 0..1_000 {
        let run = house.engine.ledger.find_flow(house.tenant, job).await.expect("a look").expect("a run");
        if run.paused_for.as_deref() == Some(what) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it does not wait for {what}: {:?}", house.job(job).await.state);
}

fn called(house: &House) -> usize {
    house.witness.lock().expect("nobody panicked").len()
}

async fn fork(house: &House, job: JobId, forking: Forking) -> Result<JobId, LookError> {
    let engine = &house.engine;
    match engine.flows.fork(engine.hands(), house.tenant, job, &house.origin(), forking).await? {
        Submitted::Accepted { id, .. } => Ok(id),
        other => panic!("{other:?}"),
    }
}

fn from(from_step: u32, debug: bool) -> Forking {
    Forking { from_step, variables: Map::new(), definition: None, debug, key: None }
}

async fn context(house: &House, job: JobId, step: Option<u32>) -> ContextView {
    house.engine.flows.context(house.tenant, job, step).await.expect("a context")
}

fn pay(id: &str) -> Value {
    node(id, "http_request", json!({"method": "POST", "url": format!("http://example.com/{id}")}))
}

#[tokio::test]
async fn one_step_pays_and_does_not_ship() {
    let house = House::open().await;
    let each = json!({"items": [1, 2, 3], "node": {"type": "task", "config": {"type": "witnessed"}}});
    let workflow = row(&[
        pay("pay"),
        node("ship", "task", json!({"type": "witnessed"})),
        pay("mail"),
        node("each", "foreach", each),
        node("nap", "sleep", json!({"duration_ms": 1_000})),
        node("ask", "approval", json!({"title": "?", "four_eyes": false})),
        node("told", "wait_event", json!({"event": "paid"})),
        node("log", "log", json!({"message": "x"})),
    ]);
    let job = debug(&house, workflow).await;
    assert_eq!(stands(&house, job, 1).await.as_deref(), Some("pay"));
    for (steps, calls, next) in [(2, 1, "ship"), (3, 2, "mail"), (4, 3, "each"), (5, 6, "nap")] {
        steer(&house, job, Order::Step).await;
        assert_eq!(stands(&house, job, steps).await.as_deref(), Some(next));
        assert_eq!(called(&house), calls, "before {next}");
    }
    steer(&house, job, Order::Step).await;
    waits_for(&house, job, "sleep").await;
    house.clock.advance_ms(1_000);
    assert_eq!(stands(&house, job, 6).await.as_deref(), Some("ask"));
    // Whoever dies meanwhile has forgotten nothing.
    let house = house.die_and_return().await;
    steer(&house, job, Order::Step).await;
    waits_for(&house, job, "approval").await;
    let decided = house.engine.flows.decide(house.tenant, job, None, true, house.author(), None).await;
    assert_eq!(decided.expect("decided"), FlowAnswer::Taken);
    assert_eq!(stands(&house, job, 7).await.as_deref(), Some("told"));
    steer(&house, job, Order::Step).await;
    waits_for(&house, job, "event").await;
    house.engine.flows.tell(house.tenant, job, "paid", None, json!(1), house.author()).await.expect("told");
    assert_eq!(stands(&house, job, 8).await.as_deref(), Some("log"));
    steer(&house, job, Order::Step).await;
    assert_eq!(stands(&house, job, 9).await.as_deref(), Some("end"));
    steer(&house, job, Order::Step).await;
    house.until(job, JobStatus::is_terminal).await;
    house.check().await;
}

/// It has failed in the turn in which it was begun.
#[tokio::test]
async fn a_job_that_cannot_be_made_is_one_step_too() {
    let house = House::open().await;
    let mut workflow = row(&[node("call", "workflow", json!({"name": "nowhere"})), pay("pay")]);
    workflow["edges"].as_array_mut().unwrap().push(json!({"source": "call", "target": "pay", "on": "failure"}));
    let job = debug(&house, workflow).await;
    steer(&house, job, Order::Step).await;
    assert_eq!(stands(&house, job, 2).await.as_deref(), Some("pay"));
    assert_eq!(called(&house), 0);
    house.check().await;
}

#[tokio::test]
async fn a_fork_does_not_carry_out_what_is_pinned() {
    let house = House::open().await;
    let workflow =
        row(&[node("log", "log", json!({"message": "x"})), pay("pay"), node("more", "log", json!({"message": "y"}))]);
    let job = debug(&house, workflow.clone()).await;
    let pinned = json!({"status_code": 200});
    steer(&house, job, Order::Pin { node: NodeId::from("pay"), output: pinned.clone() }).await;
    steer(&house, job, Order::Break(Breakpoint { node: NodeId::from("more"), when: None })).await;
    heard(&house, job, |view| !view.debug.breakpoints.is_empty()).await;
    // Also from where the run stands now.
    let other = fork(&house, job, from(1, false)).await.expect("a fork");
    house.until(other, JobStatus::is_terminal).await;
    assert_eq!(house.steps(other).await[1].step.output, pinned);
    steer(&house, job, Order::Unbreak(NodeId::from("more"))).await;
    steer(&house, job, Order::Continue).await;
    house.until(job, JobStatus::is_terminal).await;
    let again = fork(&house, job, from(2, false)).await.expect("a fork");
    house.until(again, JobStatus::is_terminal).await;
    assert_eq!(house.path(again).await, ["pay", "more", "end"]);
    assert_eq!(called(&house), 0, "nobody was paid");
    // A person's yes is for one run.
    let asking = row(&[node("ask", "approval", json!({"title": "?", "four_eyes": false}))]);
    let job = debug(&house, asking.clone()).await;
    steer(&house, job, Order::Pin { node: NodeId::from("ask"), output: json!({"approved": true}) }).await;
    heard(&house, job, |view| !view.debug.pins.is_empty()).await;
    let asked = fork(&house, job, from(1, false)).await.expect("a fork");
    waits_for(&house, asked, "approval").await;
    // The same run with a definition in which a pin fits no more.
    let spec = |target: &str| {
        json!({"start": "first", "states": {
            "first": {"actions": [{"dispatch_task": {"type": "witnessed", "transitions": {"success": target}}}]},
            target: {"final": true},
        }})
    };
    let choice = bowline_engine::flow::BlueprintChoice::Inline {
        name: "pay".to_owned(),
        spec: serde_json::from_value(spec("done")).expect("a blueprint"),
    };
    let mut request = ask(row(&[]), json!({}));
    (request.workflow, request.debug) = (bowline_engine::flow::WorkflowChoice::Blueprint(choice), true);
    let job = id_of(&house.submit(request).await);
    steer(&house, job, Order::Pin { node: NodeId::from("first.act"), output: json!({"to": "done"}) }).await;
    heard(&house, job, |view| !view.debug.pins.is_empty()).await;
    let definition = Some(Definition::Blueprint(serde_json::from_value(spec("over")).expect("a blueprint")));
    let refused = fork(&house, job, Forking { definition, ..from(1, false) }).await;
    assert!(matches!(&refused, Err(LookError::Bad(what)) if what.contains("first.act")), "{refused:?}");
    assert_eq!(called(&house), 0, "nobody was paid");
    house.check().await;
}

#[tokio::test]
async fn a_fork_that_is_debugged_stops_before_anything_begins() {
    let house = House::open().await;
    let workflow = row(&[pay("pay"), pay("mail")]);
    let record = house.run(workflow, json!(null)).await;
    assert_eq!(called(&house), 2);
    let job = fork(&house, record.id, from(1, true)).await.expect("a fork");
    assert_eq!(stands(&house, job, 1).await.as_deref(), Some("pay"));
    steer(&house, job, Order::Pin { node: NodeId::from("pay"), output: json!({}) }).await;
    steer(&house, job, Order::Step).await;
    assert_eq!(stands(&house, job, 2).await.as_deref(), Some("mail"));
    assert_eq!(called(&house), 2, "what was pinned first is not carried out");
    // From the beginning, too.
    let first = fork(&house, record.id, from(0, true)).await.expect("a fork");
    assert_eq!(stands(&house, first, 0).await.as_deref(), Some("start"));
    // A fork that is debugged keeps breakpoints, one that is not runs through.
    steer(&house, job, Order::Break(Breakpoint { node: NodeId::from("end"), when: None })).await;
    heard(&house, job, |view| !view.debug.breakpoints.is_empty()).await;
    steer(&house, job, Order::Continue).await;
    assert_eq!(stands(&house, job, 3).await.as_deref(), Some("end"));
    let stopping = fork(&house, job, from(2, true)).await.expect("a fork");
    stands(&house, stopping, 2).await;
    assert!(context(&house, stopping, None).await.debug.breakpoints.contains_key(&NodeId::from("end")));
    let through = fork(&house, job, from(2, false)).await.expect("a fork");
    assert_eq!(house.until(through, JobStatus::is_terminal).await.state.status, JobStatus::Succeeded);
    house.check().await;
}

#[tokio::test]
async fn a_pin_that_leads_nowhere_is_refused() {
    let house = House::open().await;
    let mut workflow = row(&[node("if", "condition", json!({"expression": "1 == 1"})), pay("pay")]);
    workflow["edges"][1]["on"] = json!("true");
    let job = debug(&house, workflow).await;
    let order = Order::Pin { node: NodeId::from("if"), output: json!({"result": "maybe"}) };
    let refused = house.engine.flows.steer(house.tenant, job, order, house.author(), None).await;
    assert!(matches!(&refused, Err(LookError::Bad(what)) if what.starts_with("pin.output.result: ")), "{refused:?}");
    assert!(context(&house, job, None).await.debug.pins.is_empty());
    house.check().await;
}

fn counting() -> Value {
    let add = |id: &str| node(id, "math", json!({"expression": "variables.n + 1", "store_as": "n"}));
    let log = node("log", "log", json!({"message": "x"}));
    let mut workflow = row(&[add("a"), log, add("b"), node("out", "end", json!({"output": "{{variables.n}}"}))]);
    workflow["variables"] = json!({"n": 0});
    workflow
}

#[tokio::test]
async fn what_people_change_is_shown_as_theirs() {
    let house = House::open().await;
    let job = debug(&house, counting()).await;
    steer(&house, job, Order::Step).await;
    stands(&house, job, 2).await;
    let edit = |value: u32| Order::Edit(Map::from_iter([("n".to_owned(), json!(value))]));
    steer(&house, job, edit(5)).await;
    steer(&house, job, Order::Step).await;
    stands(&house, job, 3).await;
    let paths = |view: &ContextView| view.diff.iter().map(|changed| changed.path.clone()).collect::<Vec<_>>();
    let second = context(&house, job, Some(2)).await;
    assert_eq!(
        (paths(&second), &second.context["variables"]["n"]),
        (vec!["steps.a".into(), "variables.n".into()], &json!(1))
    );
    let [edit_seen] = &second.edits[..] else { panic!("{:?}", second.edits) };
    assert_eq!((edit_seen.after_step, edit_seen.by.as_str(), edit_seen.reason.as_deref()), (2, "ada", Some("to see")));
    let changed = &edit_seen.changed[0];
    assert_eq!((changed.path.as_str(), &changed.before, &changed.after), ("variables.n", &json!(1), &json!(5)));
    // The step after it has changed nothing but its own output.
    let third = context(&house, job, Some(3)).await;
    assert_eq!((paths(&third), third.edits.len()), (vec!["steps.log".to_owned()], 0));
    assert_eq!(third.context["variables"]["n"], json!(5));
    let page = |from, limit| house.engine.flows.steps(house.tenant, job, from, limit);
    assert_eq!(page(1, 100).await.expect("steps").edits, second.edits);
    assert_eq!(page(2, 1).await.expect("steps").edits, second.edits);
    assert_eq!(page(1, 1).await.expect("steps").edits, []);
    assert_eq!(page(3, 100).await.expect("steps").edits, []);
    // Whoever goes on from here goes on with what was set here; and may set something else.
    steer(&house, job, edit(40)).await;
    heard(&house, job, |view| !view.edits.is_empty()).await;
    let now = context(&house, job, None).await;
    assert_eq!((&now.context["variables"]["n"], paths(&now)), (&json!(40), vec!["steps.log".to_owned()]));
    let result = async |forking| {
        let forked = fork(&house, job, forking).await.expect("a fork");
        result_of(&house.until(forked, JobStatus::is_terminal).await)
    };
    assert_eq!(result(from(3, false)).await, json!(41));
    let variables = Map::from_iter([("n".to_owned(), json!(7))]);
    assert_eq!(result(Forking { variables, ..from(3, false) }).await, json!(8));
    assert_eq!(result(from(2, false)).await, json!(6));
    assert_eq!(result(from(1, false)).await, json!(2));
    // What is set before the first step of a fork belongs to it, not to the other run.
    let forked = fork(&house, job, from(2, true)).await.expect("a fork");
    stands(&house, forked, 2).await;
    steer(&house, forked, edit(100)).await;
    steer(&house, forked, Order::Continue).await;
    assert_eq!(result_of(&house.until(forked, JobStatus::is_terminal).await), json!(101));
    let steps = house.engine.flows.steps(house.tenant, forked, 1, 100).await.expect("steps");
    assert_eq!((steps.steps[0].step.n, steps.edits.len(), steps.edits[0].after_step), (3, 1, 2));
    assert_eq!(steps.edits[0].changed[0].before, json!(5));
    house.check().await;
}
