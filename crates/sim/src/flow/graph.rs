//! Workflows, rolled: blocks in a row from `start` to `end`, some of them with blocks inside.

use bowline_model::workflow::WorkflowSpec;
use serde_json::{Value, json};

use crate::world::World;

/// Events that runs wait for.
pub const EVENTS: [&str; 2] = ["paid", "shipped"];
/// Workflows that others begin, by name. Each has versions; the nodes of a version have its number in their names.
pub const INNER: [&str; 5] = ["inner-work", "inner-nap", "inner-ask", "inner-deep", "inner-broken"];
/// Steps that no rolled run should need.
const STEPS_MAX: u32 = 400;

/// A graph under construction.
struct Draft<'a> {
    world: &'a World,
    nodes: Vec<Value>,
    edges: Vec<Value>,
    /// Added to the name of each node.
    mark: String,
}

/// Where a block begins, and the edges that lead out of it: their source, and when they are taken.
struct Block {
    first: String,
    out: Vec<(String, &'static str)>,
}

impl Block {
    fn of(node: &str, out: &[&'static str]) -> Self {
        Self { first: node.to_owned(), out: out.iter().map(|on| (node.to_owned(), *on)).collect() }
    }
}

impl Draft<'_> {
    fn add(&mut self, node_type: &str, config: Value) -> String {
        let id = format!("{node_type}_{}{}", self.nodes.len(), self.mark);
        self.nodes.push(json!({"id": id, "type": node_type, "config": config}));
        id
    }

    /// The same, with a policy for the jobs it begins.
    fn add_caller(&mut self, node_type: &str, config: Value) -> String {
        let id = self.add(node_type, config);
        let attempts = self.world.between(1, 3);
        let retry = json!({"max_attempts": attempts, "max_losses": 1, "base_ms": 100, "max_backoff_ms": 500});
        if let Some(node) = self.nodes.last_mut() {
            node["policy"] = json!({"retry": retry});
        }
        id
    }

    /// Perhaps with another node that undoes what the last one did. Their names say so, to whoever reads the records.
    fn perhaps_undone(&mut self, node: String) -> String {
        if self.world.chance() >= 0.6 {
            return node;
        }
        let deed = format!("deed_{node}");
        let (node_type, config) = match self.world.between(0, 7) {
            0 => ("log", json!({"message": "undone, after {{execution.error.message}}"})),
            1 | 2 => ("math", json!({"operation": "divide", "operands": [6, 0]})),
            3 => ("sleep", json!({"duration_ms": self.world.between(100, 3_000)})),
            _ => ("task", json!({"type": "work", "payload": {"undo": format!("{{{{steps.{deed}.output}}}}")}})),
        };
        if let Some(last) = self.nodes.last_mut() {
            last["id"] = json!(deed);
            last["undo"] = json!(format!("undo_{node}"));
        }
        self.add_caller(node_type, config);
        if let Some(last) = self.nodes.last_mut() {
            last["id"] = json!(format!("undo_{node}"));
        }
        deed
    }

    fn lead(&mut self, out: &[(String, &'static str)], to: &str) {
        for (source, on) in out {
            self.edges.push(json!({"source": source, "target": to, "on": on}));
        }
    }

    /// Blocks one after the other.
    fn row(&mut self, blocks: u64, depth: u32) -> Block {
        let mut row: Option<Block> = None;
        for _ in 0..blocks {
            let next = self.block(depth);
            row = Some(match row {
                None => next,
                Some(before) => {
                    self.lead(&before.out, &next.first);
                    Block { first: before.first, out: next.out }
                }
            });
        }
        row.unwrap_or_else(|| self.pure())
    }

    fn block(&mut self, depth: u32) -> Block {
        match self.world.between(0, if depth == 0 { 11 } else { 16 }) {
            0 | 1 => self.pure(),
            2 => {
                let long = self.world.chance() < 0.2;
                let millis = if long { self.world.between(8_000, 16_000) } else { self.world.between(100, 3_000) };
                let nap = self.add("sleep", json!({"duration_ms": millis}));
                Block::of(&nap, &["success"])
            }
            3 | 4 => self.task(),
            5 | 6 => self.event(),
            7 => self.approval(),
            8 => self.each(),
            9 => {
                let name = INNER[usize::try_from(self.world.between(0, 5)).unwrap_or(0)];
                let child = self.add_caller("workflow", json!({"name": name, "input": {"by": "its parent"}}));
                let child = self.perhaps_undone(child);
                self.failing(&child, &["success"])
            }
            10 => {
                let by = i32::from(self.world.chance() < 0.5);
                let half = self.add("math", json!({"operation": "divide", "operands": [6, by]}));
                self.failing(&half, &["success"])
            }
            11..14 => self.paths(depth),
            _ => self.round(depth),
        }
    }

    /// What it leads to, and perhaps another way for when it fails.
    fn failing(&mut self, node: &str, out: &[&'static str]) -> Block {
        let mut block = Block::of(node, out);
        match self.world.between(0, 10) {
            0..4 => {
                let mend = self.add("log", json!({"message": "it failed: {{execution.error.message}}"}));
                self.lead(&[(node.to_owned(), "failure")], &mend);
                block.out.push((mend, "success"));
            }
            4 | 5 => block.out.push((node.to_owned(), "failure")),
            6 if out == ["success"] => block.out = vec![(node.to_owned(), "always")],
            _ => {}
        }
        block
    }

    fn pure(&mut self) -> Block {
        let node = match self.world.between(0, 5) {
            0 => self.add("transform", json!({"value": {"n": "{{variables.n}}"}})),
            1 => self.add("log", json!({"message": "n is {{variables.n}}"})),
            2 => {
                // Long enough that a few of them are worth a snapshot.
                let text = "x".repeat(usize::try_from(self.world.between(4_000, 9_000)).unwrap_or(1));
                self.add("variable_set", json!({"name": "text", "value": text}))
            }
            3 => self.add("variable_set", json!({"variables": {"a": "{{variables.n}}", "b": [1, "{{variables.n}}"]}})),
            _ => self.count(),
        };
        Block::of(&node, &["success"])
    }

    fn count(&mut self) -> String {
        self.add("math", json!({"operation": "add", "operands": ["{{variables.n}}", 1], "store_as": "n"}))
    }

    fn task(&mut self) -> Block {
        let task = self.add_caller("task", json!({"type": "work", "payload": {"n": "{{variables.n}}"}}));
        let task = self.perhaps_undone(task);
        self.failing(&task, &["success"])
    }

    fn event(&mut self) -> Block {
        let name = EVENTS[usize::from(self.world.chance() < 0.5)];
        let mut config = json!({"event": name, "timeout_ms": self.world.between(1_000, 9_000)});
        if self.world.chance() < 0.5 {
            config["key"] = json!("{{webhook.payload.ask}}");
        }
        let wait = self.add("wait_event", config);
        match self.world.chance() < 0.7 {
            true => Block::of(&wait, &["success", "expired"]),
            false => self.failing(&wait, &["success"]),
        }
    }

    fn approval(&mut self) -> Block {
        let ask = self.add(
            "approval",
            json!({"title": "Go on?", "four_eyes": false, "timeout_ms": self.world.between(1_000, 9_000)}),
        );
        match self.world.chance() < 0.7 {
            true => Block::of(&ask, &["success", "rejected", "expired"]),
            false => self.failing(&ask, &["success", "expired"]),
        }
    }

    fn each(&mut self) -> Block {
        let items: Vec<u64> = (0..self.world.between(0, 5)).collect();
        let inner = match self.world.chance() < 0.6 {
            true => json!({"type": "task", "config": {"type": "work", "payload": {"item": "{{item}}"}}}),
            false => json!({"type": "workflow", "config": {"name": INNER[1], "input": "{{item}}"}}),
        };
        let config = json!({
            "items": items, "concurrency": self.world.between(1, 4), "node": inner,
            "fail_if_any": self.world.chance() < 0.5, "stop_on_failure": self.world.chance() < 0.3,
        });
        let each = self.add_caller("foreach", config);
        let each = self.perhaps_undone(each);
        self.failing(&each, &["success"])
    }

    /// Paths part and meet again.
    fn paths(&mut self, depth: u32) -> Block {
        let fork = self.add("parallel", json!({}));
        let paths = self.world.between(2, 4);
        let mut ends = Vec::new();
        for _ in 0..paths {
            let blocks = self.world.between(1, 3);
            let path = self.row(blocks, depth - 1);
            self.lead(&[(fork.clone(), "success")], &path.first);
            ends.extend(path.out);
        }
        let mode = match self.world.between(0, 4) {
            0 => json!("any"),
            1 => json!({"at_least": 2}),
            _ => json!("all"),
        };
        let join = self.add("join", json!({"mode": mode}));
        self.lead(&ends, &join);
        Block { first: fork, out: vec![(join, "success")] }
    }

    /// The same again, until it was often enough.
    fn round(&mut self, depth: u32) -> Block {
        let blocks = self.world.between(1, 3);
        let body = self.row(blocks, depth - 1);
        let count = self.count();
        self.lead(&body.out, &count);
        let rounds = self.world.between(1, 5);
        let more = self.add("condition", json!({"expression": format!("{{{{variables.n}}}} < {rounds}")}));
        self.lead(&[(count, "success")], &more);
        self.lead(&[(more.clone(), "true")], &body.first);
        Block { first: body.first, out: vec![(more, "false")] }
    }
}

/// A workflow that nobody has written before.
pub fn roll(world: &World) -> WorkflowSpec {
    let mut draft = Draft { world, nodes: Vec::new(), edges: Vec::new(), mark: String::new() };
    draft.nodes.push(json!({"id": "start", "type": "start"}));
    let blocks = world.between(1, 6);
    let row = draft.row(blocks, 2);
    draft.lead(&[("start".to_owned(), "success")], &row.first);
    // Some fail after all is done, so that there is much to undo.
    let failed = world.chance() < 0.3;
    let config = json!({"output": {"n": "{{variables.n}}"}, "failed": failed});
    draft.nodes.push(json!({"id": "end", "type": "end", "config": config}));
    draft.lead(&row.out, "end");
    let handled = world.chance() < 0.6;
    if handled {
        draft.nodes.push(json!({"id": "rescue", "type": "end", "config": {"output": "rescued"}}));
    }
    spec(draft, handled)
}

/// A version of a workflow that others begin.
pub fn inner(world: &World, name: &str, version: u64) -> WorkflowSpec {
    let mut draft = Draft { world, nodes: Vec::new(), edges: Vec::new(), mark: format!("_v{version}") };
    draft.nodes.push(json!({"id": "start", "type": "start"}));
    let block = match name {
        "inner-work" => draft.task(),
        "inner-nap" => {
            let nap = draft.add("sleep", json!({"duration_ms": world.between(200, 4_000)}));
            let more = draft.pure();
            draft.lead(&[(nap.clone(), "success")], &more.first);
            Block { first: nap, out: more.out }
        }
        "inner-ask" => draft.approval(),
        "inner-deep" => {
            let child = draft.add_caller("workflow", json!({"name": INNER[0], "input": {"by": "a child"}}));
            draft.failing(&child, &["success"])
        }
        _ => {
            let half = draft.add("math", json!({"operation": "divide", "operands": [6, 0]}));
            Block::of(&half, &["success"])
        }
    };
    draft.lead(&[("start".to_owned(), "success")], &block.first);
    draft.nodes.push(json!({"id": "end", "type": "end"}));
    draft.lead(&block.out, "end");
    spec(draft, false)
}

fn spec(draft: Draft<'_>, handled: bool) -> WorkflowSpec {
    let mut workflow =
        json!({"nodes": draft.nodes, "edges": draft.edges, "variables": {"n": 0}, "max_steps": STEPS_MAX});
    if handled {
        workflow["on_error"] = json!("rescue");
    }
    serde_json::from_value(workflow).expect("a rolled workflow has the shape of one")
}
