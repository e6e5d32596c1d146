//! What is shown of a step, checked against a spy that sits where the nodes are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bowline_model::{ErrorClass, JobId, JobStatus, RunError, Timestamp};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::expression::{Context, Reference, Scope, Template};
use crate::flow::{Message, Order, Turning};
use crate::node::{Answer, Done, Ended, Next, Node, Ports, Visit, Wait};
use crate::program::Program;

/// What nodes really received, in the order in which they were entered.
type Seen = Arc<Mutex<Vec<(Place, Value)>>>;

/// Stands in front of a node, and writes down what it is entered with.
#[derive(Debug)]
struct Spy {
    id: NodeId,
    inner: Box<dyn Node>,
    seen: Seen,
}

impl Node for Spy {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        let next = self.inner.enter(visit);
        let received = match &next {
            Ok(Next::Wait(Wait::Call(call))) => payload(call),
            Ok(Next::Wait(Wait::Each { calls, .. })) => calls.iter().map(payload).collect(),
            Ok(Next::Wait(Wait::Until(at))) => json!({ "until": at }),
            Ok(Next::Wait(Wait::Event { name, key, expires_at })) => {
                json!({"event": name, "key": key, "expires_at": expires_at})
            }
            Ok(Next::Wait(Wait::Approval { title, expires_at, rule })) => {
                json!({"title": title, "expires_at": expires_at, "quorum": rule.quorum, "four_eyes": rule.four_eyes})
            }
            _ if self.inner.shape() == Shape::Start => visit.context.webhook()["payload"].clone(),
            _ => Value::Object(self.inner.references().into_iter().filter_map(|path| value_of(path, visit)).collect()),
        };
        let mut seen = self.seen.lock().unwrap();
        // A question that is asked again is another question.
        seen.retain(|(place, _)| *place != (self.id.clone(), visit.number));
        seen.push(((self.id.clone(), visit.number), received));
        drop(seen);
        next
    }

    fn answered(&self, visit: Visit<'_>, answer: Answer) -> Result<Next, RunError> {
        self.inner.answered(visit, answer)
    }

    fn references(&self) -> Vec<&Reference> {
        self.inner.references()
    }

    fn received(&self, context: &Context) -> Value {
        self.inner.received(context)
    }

    fn ports(&self) -> Ports {
        self.inner.ports()
    }

    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn pinned(&self, output: &Value) -> Result<Done, String> {
        self.inner.pinned(output)
    }

    fn asks_people(&self) -> bool {
        self.inner.asks_people()
    }

    fn has_effect(&self) -> bool {
        self.inner.has_effect()
    }
}

fn payload(call: &Call) -> Value {
    let CallWhat::Task { payload, .. } = &call.what else { panic!("only tasks are started here") };
    payload.clone()
}

/// The value of a path as an expression has it.
fn value_of(path: &Reference, visit: Visit<'_>) -> Option<(String, Value)> {
    let template = Template::compile(&format!("{{{{ {path} }}}}"), Scope::workflow()).expect("a path is an expression");
    Some((path.to_string(), template.value(visit.context).ok()?))
}

/// One part of a workflow, between `a` and `b`.
#[derive(Debug, Clone, Copy)]
enum Part {
    Set,
    Math,
    Condition,
    Task,
    Sleep,
    Event,
    Approval,
    Foreach,
    Fork,
}

fn part() -> impl Strategy<Value = Part> {
    use Part::*;
    proptest::sample::select(vec![Set, Math, Condition, Task, Sleep, Event, Approval, Foreach, Fork])
}

/// The parts one after the other, as a program whose nodes are watched.
fn program(parts: &[Part]) -> (Arc<Program>, Seen) {
    let (mut nodes, mut edges) = (vec![json!({"id": "start", "type": "start"})], Vec::new());
    let mut from = vec![("start".to_owned(), "success")];
    let mut add = |id: &str, node_type: &str, config: Value, from: &mut Vec<(String, &'static str)>| {
        nodes.push(json!({"id": id, "type": node_type, "config": config}));
        edges.extend(from.drain(..).map(|(source, on)| json!({"source": source, "target": id, "on": on})));
        from.push((id.to_owned(), "success"));
    };
    let task = |label: &str| json!({"type": "pay", "payload": {"is": label, "n": "{{ variables.n }}"}});
    for (k, part) in parts.iter().enumerate() {
        let id = format!("p{k}");
        match part {
            Part::Set => add(&id, "variable_set", json!({"name": "n", "value": "{{ variables.n + 1 }}"}), &mut from),
            Part::Math => {
                add(&id, "math", json!({"expression": "variables.n * 3", "store_as": "n"}), &mut from);
            }
            Part::Condition => {
                add(&id, "condition", json!({"expression": "variables.n % 2 == 0"}), &mut from);
                let mut even = vec![(id.clone(), "true")];
                add(&format!("{id}_even"), "log", json!({"message": "{{ variables.n }}"}), &mut even);
                from = vec![(id, "false"), even.remove(0)];
            }
            Part::Task => {
                add(&id, "task", task(&id), &mut from);
                // A failure leads on, too.
                from.push((id, "failure"));
            }
            Part::Sleep => add(&id, "sleep", json!({"duration": "{{ variables.n }}s"}), &mut from),
            Part::Event => add(&id, "wait_event", json!({"event": "e", "key": "{{ variables.n }}"}), &mut from),
            Part::Approval => add(&id, "approval", json!({"title": "n is {{ variables.n }}"}), &mut from),
            Part::Foreach => {
                let config = json!({"type": "pay", "payload": "{{ item }} of {{ variables.n }}"});
                let config = json!({
                    "items": "{{ webhook.payload.list }}", "concurrency": 1, "fail_if_any": false,
                    "node": {"type": "task", "config": config},
                });
                add(&id, "foreach", config, &mut from);
            }
            Part::Fork => {
                add(&id, "parallel", json!({}), &mut from);
                let mut ends = Vec::new();
                for way in ["x", "y"] {
                    let mut path = from.clone();
                    add(&format!("{id}_{way}"), "task", task(way), &mut path);
                    ends.extend(path.into_iter().flat_map(|(id, on)| [(id.clone(), on), (id, "failure")]));
                }
                from = ends;
                let mut join = std::mem::take(&mut from);
                add(&format!("{id}_join"), "join", json!({"mode": "all"}), &mut join);
                from = join;
            }
        }
    }
    add("end", "end", json!({"output": "{{ variables.n }}"}), &mut from);
    let spec = json!({"variables": {"n": 1}, "nodes": nodes, "edges": edges});
    let spec = serde_json::from_value(spec).expect("a workflow");
    let mut program = Program::compile(&spec).expect("no mistakes");
    let seen = Seen::default();
    for node in &mut program.nodes {
        let inner = std::mem::replace(&mut node.node, Box::new(Nothing));
        node.node = Box::new(Spy { id: node.id.clone(), inner, seen: Arc::clone(&seen) });
    }
    (Arc::new(program), seen)
}

#[derive(Debug)]
struct Nothing;

impl Node for Nothing {
    fn enter(&self, _: Visit<'_>) -> Result<Next, RunError> {
        Ok(Done::with(Value::Null))
    }
}

/// Carries a program out; `rolls` says who answers first and how, and where people change `n` meanwhile.
fn carry_out(program: &Arc<Program>, rolls: &[u8]) -> (Context, Vec<Record>) {
    let list = json!({"payload": {"list": [1, "two", {"three": 3}]}});
    let context = Context::new(list, json!({}), json!({"id": "7"}));
    let mut flow = Flow::new(Arc::clone(program), context.clone());
    let (mut minted, mut now) = (0, Timestamp::from_millis(1_800_000_000_000));
    let (mut records, mut messages, mut rolls) = (Vec::new(), Vec::new(), rolls.iter().cycle());
    while flow.ending().is_none() {
        let mut mint = || {
            minted += 1;
            JobId::mint(Timestamp::from_millis(minted), [0; 10])
        };
        let turn = flow.turn(
            std::mem::take(&mut messages),
            &mut Turning { now, expires: true, mint: &mut mint, limit: 1_000, work: u32::MAX },
        );
        records.extend(turn.records);
        let roll = rolls.next().copied().unwrap_or_default();
        if roll % 5 == 0 {
            let variables = Map::from_iter([("n".to_owned(), json!(roll))]);
            messages.push(Message::Steer { order: Order::Edit(variables), by: "ann".to_owned(), reason: None });
        }
        let waits: Vec<_> =
            flow.places().filter_map(|(node, visit, wait)| Some((node.clone(), visit, wait?))).collect();
        let Some((node, visit, wait)) = waits.get(usize::from(roll) % waits.len().max(1)).cloned() else { continue };
        messages.push(match wait {
            Waiting::Until(at) => {
                now = *at;
                Message::Due { at: None }
            }
            Waiting::Approval { .. } => Message::Decided {
                node,
                visit,
                approved: true,
                by: "ann".to_owned(),
                reason: None,
                named: BTreeMap::new(),
            },
            Waiting::Event { name, key, .. } => {
                Message::Event { name: Arc::clone(name), key: key.clone(), payload: json!({}) }
            }
            Waiting::Call { job, .. } => ended(*job, roll),
            Waiting::Each { .. } => ended(flow.jobs().nth(usize::from(roll) % flow.jobs().count()).unwrap(), roll),
        });
    }
    (context, records)
}

fn ended(job: JobId, roll: u8) -> Message {
    let failed = roll.is_multiple_of(3);
    let error = failed.then(|| RunError::new(ErrorClass::Permanent, "no"));
    let status = if failed { JobStatus::Failed } else { JobStatus::Succeeded };
    Message::Ended(Ended { job: Some(job), status, result: json!(roll), error })
}

fn steps(records: &[Record]) -> Vec<&Step> {
    records.iter().filter_map(Record::as_step).collect()
}

fn places(records: &[Record]) -> Vec<Place> {
    steps(records).into_iter().map(|step| (step.node.clone(), step.visit)).collect()
}

proptest! {
    /// From the beginning, everything is known and as it was. From any later point, what is known is the same.
    #[test]
    fn what_is_shown_of_a_step_is_what_its_node_received(
        parts in prop::collection::vec(part(), 1..8),
        rolls in prop::collection::vec(any::<u8>(), 1..24),
        cut in any::<prop::sample::Index>(),
    ) {
        let (program, seen) = program(&parts);
        let (context, records) = carry_out(&program, &rolls);
        let truth: HashMap<Place, Value> = seen.lock().unwrap().drain(..).collect();
        let mut details = Details::from_start(Flow::new(Arc::clone(&program), context.clone()), places(&records));
        let shown: Vec<(u32, Option<StepDetail>)> = records.iter().filter_map(|record| details.apply(record)).collect();
        prop_assert_eq!(shown.len(), steps(&records).len());
        for (step, (n, detail)) in steps(&records).into_iter().zip(&shown) {
            prop_assert_eq!(step.n, *n);
            let detail = detail.as_ref().expect("nothing was reached before the beginning");
            match truth.get(&(step.node.clone(), step.visit)) {
                Some(received) => prop_assert_eq!(&detail.input, received, "{}", step.node),
                // Only joins are never entered.
                None => prop_assert_eq!(&detail.input, &json!({"arrived": step.output["arrived"]})),
            }
            prop_assert_eq!(detail.previous.is_empty(), step.n == 1, "{}", step.node);
            prop_assert_eq!(detail.next.is_empty(), step.node.as_str() == "end", "{}", step.node);
        }
        let cut = cut.index(records.len());
        let mut flow = Flow::new(program, context);
        for record in &records[..cut] {
            flow.apply(record);
        }
        let mut later = Details::from_here(flow, places(&records));
        for (n, detail) in records[cut..].iter().filter_map(|record| later.apply(record)) {
            let whole = &shown[n as usize - 1].1;
            prop_assert!(detail.is_none() || detail == *whole, "step {}: {:?} and {:?}", n, detail, whole);
        }
    }
}

#[test]
fn a_step_names_the_nodes_before_and_after_it() {
    let (program, _) = program(&[Part::Fork, Part::Condition]);
    let (context, records) = carry_out(&program, &[1]);
    let mut details = Details::from_start(Flow::new(Arc::clone(&program), context), places(&records));
    let shown = records.iter().filter_map(|record| {
        let (n, detail) = details.apply(record)?;
        let (detail, step) = (detail?, *steps(&records).get(n as usize - 1)?);
        let names = |nodes: &[NodeId]| nodes.iter().map(NodeId::as_str).collect::<Vec<_>>().join("+");
        Some(format!("{} > {} > {}", names(&detail.previous), step.node, names(&detail.next)))
    });
    let shown: Vec<String> = shown.collect();
    assert_eq!(
        shown,
        [
            " > start > p0",
            "start > p0 > p0_x+p0_y",
            "p0 > p0_y > p0_join",
            "p0 > p0_x > p0_join",
            "p0_y+p0_x > p0_join > p1",
            "p0_join > p1 > end",
            "p1 > end > ",
        ]
    );
    let mut flow = details.flow;
    assert_eq!(flow.unreached().map(NodeId::as_str).collect::<Vec<_>>(), ["p1_even"]);
    flow.apply(&Record::Retried { at: Timestamp::default() });
    assert_eq!(flow.unreached().count(), 1);
}

#[test]
fn a_pinned_node_received_nothing() {
    let (program, _) = program(&[Part::Task]);
    let mut flow = Flow::new(Arc::clone(&program), Context::new(json!({"payload": 1}), json!({}), json!({})));
    let mut details = Details::from_start(flow.clone(), [(NodeId::from("p0"), 1)]);
    let pin = Order::Pin { node: "p0".into(), output: json!({"said": 1}) };
    let mut mint = || JobId::mint(Timestamp::default(), [0; 10]);
    let steer = Message::Steer { order: pin, by: "ann".to_owned(), reason: None };
    let now = Timestamp::from_millis(1_800_000_000_000);
    let turn = flow.turn([steer], &mut Turning { now, expires: true, mint: &mut mint, limit: 10, work: u32::MAX });
    let shown: Vec<_> = turn.records.iter().filter_map(|record| details.apply(record)).collect();
    let (n, detail) = shown.first().expect("the step");
    assert_eq!((*n, detail.as_ref().map(|detail| &detail.input)), (2, Some(&Value::Null)));
}
