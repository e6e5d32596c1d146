//! One node of every type, with a workflow around it that shows where an error at it leads.
//!
//! Whether the node fails is up to the input: `{"by": 0}` makes it fail, `{"by": 2}` does not. So the same definition is the
//! fault and its control.

use std::time::Duration;

use bowline_model::{JobId, JobStatus};
use bowline_store::{FlowAnswer, WaitKind};
use bowline_workflow::nodes::node_types;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{House, node};

/// What can go wrong at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Nothing: it has nothing to compute and nobody to ask.
    Never,
    /// An expression has no value.
    Computes,
    /// Of so many jobs one fails.
    Calls(usize),
    /// An expression that says how long to sleep has no value.
    Sleeps,
    /// Nothing comes.
    Waits,
    /// A person says no.
    Asks,
    /// Too few paths come.
    Gathers,
    /// The run cannot say what its output is.
    Ends,
}

/// A node of one type.
#[derive(Debug)]
pub struct Sample {
    pub node_type: &'static str,
    pub how: How,
    pub config: Value,
    /// The edge that it takes when all is well.
    pub port: &'static str,
    /// What its error says.
    pub says: &'static str,
}

/// How the node's edges lead on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edges {
    /// One for success, one for failure.
    Both,
    /// One that is always taken.
    Always,
    /// One for success; the workflow has an error handler.
    Handler,
    /// One for success, and nothing else.
    Bare,
}

impl Edges {
    pub const ALL: [Self; 4] = [Self::Both, Self::Always, Self::Handler, Self::Bare];
}

/// Every type there is.
///
/// # Panics
/// If a type is not among them: whoever adds a type says here how it fails.
pub fn samples() -> Vec<Sample> {
    let sample = |node_type, how, config, says| Sample { node_type, how, config, port: "success", says };
    let six = "{{6 / webhook.payload.by}}";
    let by = json!("{{webhook.payload.by}}");
    let cases = json!({"value": six, "cases": [{"name": "three", "equals": 3}]});
    let each = json!({
        "items": [2, by], "node": {"type": "task", "config": {"type": "witnessed", "payload": {"by": "{{item}}"}}},
    });
    let command = json!({"command": {"argv": ["true"]}, "hosts": ["h-{{webhook.payload.by}}"]});
    let all = vec![
        sample("start", How::Never, json!({}), ""),
        sample("end", How::Ends, json!({"output": {"n": six}}), "zero"),
        Sample {
            port: "true",
            ..sample("condition", How::Computes, json!({"expression": "6 / webhook.payload.by > 1"}), "zero")
        },
        Sample { port: "three", ..sample("switch", How::Computes, cases, "zero") },
        sample("variable_set", How::Computes, json!({"name": "n", "value": six}), "zero"),
        sample("math", How::Computes, json!({"operation": "divide", "operands": [6, by]}), "zero"),
        sample("transform", How::Computes, json!({"value": {"n": six}}), "zero"),
        sample("log", How::Computes, json!({"message": format!("n is {six}")}), "zero"),
        sample("sleep", How::Sleeps, json!({"duration": format!("{six}s")}), "zero"),
        sample(
            "wait_event",
            How::Waits,
            json!({"event": "paid", "key": "{{webhook.payload.by}}", "timeout": "1h"}),
            "came in time",
        ),
        sample("approval", How::Asks, json!({"title": "Pay {{webhook.payload.by}}?", "four_eyes": false}), "said no"),
        sample(
            "http_request",
            How::Calls(1),
            json!({"method": "POST", "url": "http://sink.test/", "body": {"by": by}}),
            "asked to fail",
        ),
        sample(
            "rabbitmq_publish",
            How::Calls(1),
            json!({"broker": "main", "routing_key": "q", "body": {"by": by}}),
            "asked to fail",
        ),
        sample("task", How::Calls(1), json!({"type": "witnessed", "payload": {"by": by}}), "asked to fail"),
        sample("command", How::Calls(1), command, "fail"),
        sample("workflow", How::Calls(1), json!({"name": "inner", "input": {"by": by}}), "zero"),
        sample("foreach", How::Calls(2), each, "asked to fail"),
        sample("parallel", How::Never, json!({}), ""),
        sample("join", How::Gathers, json!({"mode": {"at_least": 2}}), "only 1 of the 2 paths"),
    ];
    let mut known: Vec<&str> = all.iter().map(|sample| sample.node_type).collect();
    let mut there: Vec<&str> = node_types().iter().map(|view| view.node_type).collect();
    known.sort_unstable();
    there.sort_unstable();
    assert_eq!(known, there, "every type of node is in this table, once");
    all
}

/// What the sample `workflow` calls.
pub fn inner() -> Value {
    crate::row(&[node("half", "math", json!({"operation": "divide", "operands": [6, "{{webhook.payload.by}}"]}))])
}

impl Sample {
    pub fn fails(&self, by: u64) -> bool {
        self.how != How::Never && by == 0
    }

    /// Jobs that a run with this node begins.
    pub fn calls(&self) -> usize {
        if let How::Calls(calls) = self.how { calls } else { 0 }
    }

    /// A workflow around it.
    pub fn workflow(&self, edges: Edges) -> Value {
        let it = node("it", self.node_type, self.config.clone());
        let mut nodes = vec![it];
        let mut lines = Vec::new();
        let line = |source: &str, target: &str, on: &str| json!({"source": source, "target": target, "on": on});
        if self.node_type != "start" {
            nodes.insert(0, node("start", "start", json!({})));
        }
        match self.how {
            _ if self.node_type == "start" => {}
            How::Gathers => {
                nodes.push(node("fork", "parallel", json!({})));
                nodes.push(node("a", "transform", json!({"value": 1})));
                nodes.push(node(
                    "b",
                    "math",
                    json!({"operation": "divide", "operands": [6, "{{webhook.payload.by}}"]}),
                ));
                nodes.push(node("aside", "log", json!({"message": "this path ends here"})));
                for (source, target, on) in [
                    ("start", "fork", "success"),
                    ("fork", "a", "success"),
                    ("fork", "b", "success"),
                    ("a", "it", "success"),
                    ("b", "it", "success"),
                    ("b", "aside", "failure"),
                ] {
                    lines.push(line(source, target, on));
                }
            }
            _ => lines.push(line("start", "it", "success")),
        }
        let mut lead = |to: &str, on: &str, output: Value| {
            nodes.push(node(to, "end", json!({"output": output})));
            lines.push(line("it", to, on));
        };
        let fork = self.node_type == "parallel";
        match edges {
            _ if self.how == How::Ends => {}
            Edges::Always if !fork => lead("anyway", "always", json!("anyway")),
            Edges::Both if !fork => {
                lead("good", self.port, json!("good"));
                lead("bad", "failure", json!({"bad": "{{steps.it.output.error.message}}"}));
            }
            _ => lead("good", self.port, json!("good")),
        }
        let mut workflow = json!({});
        if edges == Edges::Handler {
            nodes.push(node("rescue", "end", json!({"output": {"rescued": "{{execution.error.node}}"}})));
            workflow["on_error"] = json!("rescue");
        }
        workflow["nodes"] = json!(nodes);
        workflow["edges"] = json!(lines);
        workflow
    }

    /// Where a run of that workflow ends, and with what: all of its output, or a part of its error.
    pub fn ends(&self, edges: Edges, by: u64) -> (JobStatus, Value) {
        let good = match (self.how, edges) {
            (How::Ends, _) => json!({"n": 3}),
            (_, Edges::Always) if self.node_type != "parallel" => json!("anyway"),
            _ => json!("good"),
        };
        if !self.fails(by) {
            return (JobStatus::Succeeded, good);
        }
        match edges {
            Edges::Handler => (JobStatus::Succeeded, json!({"rescued": "it"})),
            Edges::Always if self.how != How::Ends => (JobStatus::Succeeded, good),
            Edges::Both if self.how != How::Ends => (JobStatus::Succeeded, json!({"bad": self.says})),
            _ => (JobStatus::Failed, json!(self.says)),
        }
    }
}

/// Says yes or no to so many approvals, as the inputs of their runs say, and says how many there were.
pub async fn decide_all(house: &House, approvals: usize) -> usize {
    let mut decided = 0;
    for _ in 0..1_000 {
        let waits = house.engine.ledger.list_waits(house.tenant, WaitKind::Approval, None, 1_000).await;
        for wait in waits.expect("an answer").items {
            let yes = &*wait.wait.name != "Pay 0?";
            // By its node: one that was put twice by mistake would not be the only one.
            let node = Some(&*wait.wait.node);
            let answer = house.engine.flows.decide(house.tenant, wait.job, node, yes, house.author(), None).await;
            let answer = answer.expect("an answer");
            decided += usize::from(answer == FlowAnswer::Taken);
        }
        if decided >= approvals {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    decided
}

/// Tells of the event that runs with `by: 2` wait for, once so many of them do, and says how many heard of it.
pub async fn pay(house: &House, waiting: usize) -> u64 {
    for _ in 0..1_000 {
        let waits = house.engine.ledger.list_waits(house.tenant, WaitKind::Event, None, 1_000).await;
        if waits.expect("an answer").items.iter().filter(|wait| wait.wait.key.as_deref() == Some("2")).count()
            >= waiting
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let paid = house.engine.flows.signal(house.tenant, "paid", Some("2".to_owned()), json!(1), house.author());
    paid.await.expect("an answer")
}

/// Waits until nothing happens any more unless time passes: every run is over, or has a moment to wait for. Time must not
/// pass before that, or leases would run out.
pub async fn until_only_time_helps(house: &House, jobs: impl Iterator<Item = JobId>, until: Instant) {
    for job in jobs {
        loop {
            let state = house.job(job).await.state;
            let waits = state.status == JobStatus::Paused && state.due_at.is_some();
            if waits || state.status.is_terminal() || Instant::now() > until {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
