//! A table of mistakes: what is written, and what is said about it.

use serde_json::{Value, json};

use super::{compile, lines};

fn node(id: &str, node_type: &str, config: Value) -> Value {
    json!({"id": id, "type": node_type, "config": config})
}

fn log(id: &str) -> Value {
    node(id, "log", json!({"message": "m"}))
}

fn start() -> Value {
    node("start", "start", json!({}))
}

fn edge(text: &str) -> Value {
    // `a -> b` or `a -true> b`.
    let (source, rest) = text.split_once(" -").unwrap();
    let (on, target) = rest.split_once("> ").unwrap();
    let mut edge = json!({"source": source, "target": target});
    if !on.is_empty() {
        edge["on"] = json!(on);
    }
    edge
}

fn workflow(nodes: Vec<Value>, edges: &[&str]) -> Value {
    json!({"nodes": nodes, "edges": edges.iter().map(|text| edge(text)).collect::<Vec<_>>()})
}

/// One node behind the start.
fn only(node_type: &str, config: Value) -> Value {
    workflow(vec![start(), node("it", node_type, config)], &["start -> it"])
}

/// Behind the start one node that this other one undoes, and more.
fn undone(node: Value, undo: &str, more: Vec<Value>, edges: &[&str]) -> Value {
    let mut nodes = vec![start(), node];
    nodes[1]["undo"] = json!(undo);
    nodes.extend(more);
    workflow(nodes, edges)
}

fn cases() -> Vec<(&'static str, Value)> {
    let question = |id: &str| node(id, "condition", json!({"expression": "variables.x | default(1) == 1"}));
    vec![
        ("not an object", json!([])),
        ("nothing in it", json!({})),
        (
            "unknown fields and wrong types, all of them",
            json!({
                "nodes": [{"id": "start", "type": "start", "confg": {}}, {"id": 1, "type": "log"}, 7,
                    {"id": "a", "type": "log", "policy": {"retry": {"max_attempts": "many"}}}],
                "edges": [{"source": "start", "traget": "a"}],
                "max_step": 5,
            }),
        ),
        ("lists that are none", json!({"nodes": {}, "edges": "a -> b"})),
        ("no nodes", workflow(vec![], &[])),
        ("b082: two starts", workflow(vec![start(), node("other", "start", json!({}))], &["start -> other"])),
        ("an edge back to the start", workflow(vec![start(), question("a")], &["start -> a", "a -true> start"])),
        ("unknown type", only("http_reqest", json!({}))),
        ("unknown type, nothing near", only("teleport", json!({}))),
        (
            "words without quotes",
            json!({"nodes": [start(), question("a"), log("b")], "edges": [
                {"source": "start", "target": "a"}, {"source": "a", "target": "b", "on": true},
                {"source": "a", "target": "b", "on": null}, {"source": "a", "target": "b", "on": ["x"]}]}),
        ),
        (
            "a word without quotes hides nothing else",
            json!({"nodes": [start(), question("a"), node("b", "http_reqest", json!({})),
                    node("c", "log", json!({"message": "{{ 1 + }}"})), log("d")],
                "edges": [{"source": "start", "target": "a"}, {"source": "a", "target": "b", "on": true},
                    {"source": "a", "target": "c", "on": false}, {"source": "nowhere", "target": "d"}]}),
        ),
        (
            "what follows from a wrong edge is not said",
            workflow(
                vec![
                    start(),
                    log("a"),
                    log("b"),
                    node("c", "log", json!({"message": "{{ steps.a.output }} {{ steps.gone.output }}"})),
                    node("d", "join", json!({})),
                    question("e"),
                ],
                &["start -> a", "a -> bb", "b -> c", "c -> d", "b -failure> d", "d -> e", "e -true> e", "e -false> f"],
            ),
        ),
        (
            "a part that nothing leads to is named once",
            workflow(
                vec![
                    start(),
                    log("lost-2"),
                    log("lost"),
                    node("lost-3", "log", json!({"message": "{{ steps.start.output }}"})),
                    question("round"),
                    question("again"),
                ],
                &["lost -> lost-2", "lost-2 -> lost-3", "round -true> again", "again -true> round"],
            ),
        ),
        (
            "a loop over a text",
            only("foreach", json!({"items": "x", "node": {"type": "task", "config": {"type": "t"}}})),
        ),
        ("a sleep for a thousand years", only("sleep", json!({"until": "2999-01-01T00:00:00Z"}))),
        ("a sleep beyond all days", only("sleep", json!({"until": "9999-12-31T23:59:00Z"}))),
        ("a question without words and time", only("approval", json!({"title": "", "timeout": "0s"}))),
        ("a question without end", only("approval", json!({"title": "?".repeat(1_001), "timeout_ms": 0}))),
        ("an event without time", only("wait_event", json!({"event": "e", "timeout": "0s"}))),
        ("a task without time", only("task", json!({"type": "t", "deadline": "0m"}))),
        ("a message without a body", only("rabbitmq_publish", json!({"broker": "b", "routing_key": "q"}))),
        (
            "ids",
            workflow(
                vec![start(), log("start"), log(""), log("a b"), log("1a"), log(&"x".repeat(256)), log("fine-1")],
                &["start -> fine-1"],
            ),
        ),
        (
            "b082: edges to nowhere",
            workflow(
                vec![start(), log("send_mail")],
                &["start -> send_mial", "strat -> send_mail", "start -> send_mail"],
            ),
        ),
        (
            "two ways at once",
            workflow(
                vec![start(), question("ask"), log("b"), log("c")],
                &[
                    "start -> ask",
                    "ask -true> b",
                    "ask -true> c",
                    "b -> c",
                    "b -> b",
                    "ask -failure> b",
                    "ask -failure> c",
                ],
            ),
        ),
        (
            "always goes alone",
            workflow(vec![start(), log("a"), log("b"), log("c")], &["start -> a", "a -always> b", "a -failure> c"]),
        ),
        (
            "ports that are not there",
            workflow(
                vec![
                    start(),
                    question("ask"),
                    node("which", "switch", json!({"value": 1, "cases": [{"name": "small", "equals": 1}]})),
                    log("a"),
                    node("both", "parallel", json!({})),
                    node("end", "end", json!({})),
                ],
                &[
                    "start -> ask",
                    "ask -> a",
                    "ask -tru> a",
                    "ask -false> which",
                    "which -smal> a",
                    "a -rejected> a",
                    "a -> both",
                    "both -failure> end",
                    "end -> a",
                    "both -> end",
                ],
            ),
        ),
        ("unreachable", workflow(vec![start(), log("a"), log("island")], &["start -> a", "island -> a"])),
        (
            "joins and forks",
            workflow(
                vec![
                    start(),
                    node("fork", "parallel", json!({})),
                    node("one", "join", json!({})),
                    node("many", "join", json!({"mode": {"at_least": 3}})),
                    log("a"),
                    node("bad", "join", json!({"mode": "some"})),
                    node("fork_2", "parallel", json!({})),
                ],
                &[
                    "start -> fork",
                    "fork -> one",
                    "fork -> a",
                    "fork -> many",
                    "a -> many",
                    "one -> bad",
                    "many -> fork_2",
                    "fork -> a",
                ],
            ),
        ),
        (
            "b082: a cycle without a way out",
            workflow(vec![start(), log("a"), log("b"), log("c")], &["start -> a", "a -> b", "b -> c", "c -> a"]),
        ),
        ("b082: a node that follows itself", workflow(vec![start(), log("a")], &["start -> a", "a -> a"])),
        (
            "b082: a cycle that makes more and more paths",
            workflow(
                vec![start(), node("fork", "parallel", json!({})), question("ask"), log("b"), log("c")],
                &["start -> fork", "fork -> ask", "fork -> b", "ask -true> fork", "ask -false> c"],
            ),
        ),
        ("on_error names nothing", {
            let mut workflow = workflow(vec![start(), log("handler")], &["start -> handler"]);
            workflow["on_error"] = json!("handlr");
            workflow
        }),
        ("on_error is the start", {
            let mut workflow = workflow(vec![start()], &[]);
            workflow["on_error"] = json!("start");
            workflow
        }),
        ("numbers", {
            let mut workflow = only("log", json!({"message": "m"}));
            workflow["max_steps"] = json!(0);
            workflow
        }),
        ("variables and policies", {
            let mut workflow = only("log", json!({"message": "m"}));
            workflow["variables"] = json!({"steps": 1, "a-b": 2, "fine": 3});
            workflow["nodes"][1]["policy"] = json!({"timeout_ms": 0, "retry": {"max_attempts": 0}});
            workflow
        }),
        (
            "steps",
            workflow(
                vec![
                    start(),
                    node("http_1", "http_request", json!({"url": "https://example.com/{{ steps.later.output }}"})),
                    node("a", "transform", json!({"value": {"x": [1, "ok\n  {{ steps.htp_1.output.status_code }}"]}})),
                    node("b", "transform", json!({"value": "{{ steps.b.output }}"})),
                    node("later", "transform", json!({"value": "{{ steps['http_1'].output | default(1) }}"})),
                    node("side", "transform", json!({"value": "{{ steps.other_side.output | default(1) }}"})),
                    node("other_side", "transform", json!({"value": "{{ steps[variables.x].output }}"})),
                    node("fork", "parallel", json!({})),
                ],
                &[
                    "start -> http_1",
                    "http_1 -> a",
                    "a -> b",
                    "b -> later",
                    "later -> fork",
                    "fork -> side",
                    "fork -> other_side",
                ],
            ),
        ),
        (
            "expressions",
            workflow(
                vec![
                    start(),
                    node(
                        "a",
                        "http_request",
                        json!({
                            "url": "https://example.com/{{ secrets.x }}", "headers": {"A/B": "{{", "X": "{{ shout('a') }}"},
                            "body": {"lines": ["fine", "{{ 1 + }}"]},
                        }),
                    ),
                    node("b", "condition", json!({"expression": "1 ==="})),
                    node("c", "log", json!({"message": "{{ item }}"})),
                ],
                &["start -> a", "a -> b", "b -true> c"],
            ),
        ),
        (
            "http_request",
            only(
                "http_request",
                json!({
                    "url": "ftp://example.com", "headers": {"Host": "x", "a b": "c", "X": "a\nb", "Y": {"secret_ref": "s", "prefix": "\n"}},
                    "timeout_ms": 0, "accept": [],
                }),
            ),
        ),
        ("http_request without an address", only("http_request", json!({"method": "GET"}))),
        ("http_request, method", only("http_request", json!({"url": "https://example.com", "method": "get"}))),
        ("http_request, unknown field", only("http_request", json!({"url": "https://example.com", "header": {}}))),
        ("http_request, header", only("http_request", json!({"url": "https://example.com", "headers": {"X": 1}}))),
        ("http_request, status", only("http_request", json!({"url": "https://example.com", "accept": [200, 99]}))),
        ("rabbitmq_publish", only("rabbitmq_publish", json!({"broker": "main", "body": 1}))),
        ("variable_set", only("variable_set", json!({"variables": {"steps": 1, "a b": "{{ x }}"}}))),
        ("variable_set, both forms", only("variable_set", json!({"variables": {"a": 1}, "name": "b"}))),
        ("math", only("math", json!({"operation": "divide", "operands": [1], "store_as": "1x"}))),
        ("math, operand", only("math", json!({"operation": "add", "operands": [1, null]}))),
        ("math, operation", only("math", json!({"operation": "plus", "operands": [1, 2]}))),
        ("math, nothing", only("math", json!({}))),
        ("sleep", only("sleep", json!({"duration": "5m", "until": "2030-01-01T00:00:00Z"}))),
        ("sleep, duration", only("sleep", json!({"duration": "5 minutes"}))),
        ("sleep, too long", only("sleep", json!({"duration_ms": 315_705_600_001_u64}))),
        ("sleep, until", only("sleep", json!({"until": "tomorrow"}))),
        (
            "switch",
            only(
                "switch",
                json!({"cases": [
            {"name": "a", "equals": 1}, {"name": "a", "when": "1 == 1"}, {"name": "failure", "when": "true"}, {"name": "c"},
        ], "default": ""}),
            ),
        ),
        ("switch, no cases", only("switch", json!({"value": 1, "cases": []}))),
        ("task", only("task", json!({"type": "bowline.command", "priority": 101}))),
        ("task, type", only("task", json!({"type": "a b"}))),
        ("command", only("command", json!({"command": 7, "priority": -101, "deadline_ms": 0}))),
        ("command, hosts and selector", only("command", json!({"command": "a b", "hosts": ["a"], "selector": "all"}))),
        ("command, selector", only("command", json!({"command": {"name": "x", "versoin": 1}, "selector": "role=="}))),
        ("command, written here", only("command", json!({"command": {"argv": []}, "selector": "all"}))),
        ("command, misspelt", only("command", json!({"command": {"argvv": ["ls"]}, "selector": "all"}))),
        ("approval", only("approval", json!({"title": "{{", "timeout": "soon"}))),
        ("approval, both", only("approval", json!({"title": "?", "timeout": "1d", "timeout_ms": 5}))),
        ("wait_event", only("wait_event", json!({"event": ""}))),
        ("foreach", only("foreach", json!({"items": 7, "concurrency": 0, "node": {"type": "sleep"}}))),
        (
            "foreach, inside",
            only(
                "foreach",
                json!({"items": "{{ item }}", "node": {"type": "http_request", "config": {
                    "url": "https://example.com/{{ item.id }}/{{ steps.nobody.output }}", "body": "{{ itm }}",
                }}}),
            ),
        ),
        (
            "foreach, inside cannot be read",
            only("foreach", json!({"items": [], "node": {"type": "task", "config": {"typ": "x"}}})),
        ),
        ("foreach, misspelt", only("foreach", json!({"items": [], "node": {"type": "http_requests"}}))),
        ("workflow", only("workflow", json!({"name": "x", "version": 0}))),
        ("end", only("end", json!({"failed": 1}))),
        ("undo: unknown", undone(log("a"), "b", vec![log("c")], &["start -> a"])),
        ("undo: itself", undone(log("a"), "a", vec![], &["start -> a"])),
        ("undo: on the way", undone(log("a"), "b", vec![log("b")], &["start -> a", "a -> b"])),
        ("undo: not of this sort", undone(log("a"), "b", vec![node("b", "end", json!({}))], &["start -> a"])),
        ("undo: of a fork", {
            let nodes = vec![log("c"), log("d"), log("b")];
            undone(node("a", "parallel", json!({})), "b", nodes, &["start -> a", "a -> c", "a -> d"])
        }),
        ("undo: of what undoes", {
            let mut both = undone(log("a"), "b", vec![log("b"), log("c")], &["start -> a"]);
            both["nodes"][2]["undo"] = json!("c");
            both
        }),
        ("undo: takes over as well", {
            let mut both = undone(log("a"), "b", vec![log("b")], &["start -> a"]);
            both["on_error"] = json!("b");
            both
        }),
        ("undo: names what comes later", {
            let later = node("b", "log", json!({"message": "{{ steps.c.output }}"}));
            undone(log("a"), "b", vec![later, log("c")], &["start -> a", "a -> c"])
        }),
        ("log", only("log", json!({"message": "m", "level": "loud"}))),
    ]
}

#[test]
fn mistakes_say_what_and_where() {
    let table: Vec<_> = cases().into_iter().map(|(name, value)| format!("## {name}\n{}", lines(value))).collect();
    insta::assert_snapshot!(table.join("\n"));
}

#[test]
fn what_is_fine() {
    let question = |id: &str| node(id, "condition", json!({"expression": "steps.work.output is defined"}));
    let work = || node("work", "transform", json!({"value": "{{ steps.work.output | default(1) }}"}));
    for (name, value) in [
        ("the smallest", workflow(vec![start()], &[])),
        ("one node that undoes two", {
            let undo = node("undo", "log", json!({"message": "{{ steps.a.output }}"}));
            let mut both = undone(log("a"), "undo", vec![log("b"), undo], &["start -> a", "a -> b"]);
            both["nodes"][2]["undo"] = json!("undo");
            both
        }),
        (
            "a loop with an exit",
            workflow(
                vec![start(), work(), question("again"), log("done")],
                &["start -> work", "work -> again", "again -true> work", "again -false> done"],
            ),
        ),
        (
            "a loop whose exit is the end of the path",
            workflow(
                vec![start(), work(), question("again")],
                &["start -> work", "work -> again", "again -true> work"],
            ),
        ),
        (
            "a loop with a fork whose paths meet",
            workflow(
                vec![
                    start(),
                    work(),
                    node("fork", "parallel", json!({})),
                    log("a"),
                    log("b"),
                    node("join", "join", json!({})),
                    question("again"),
                ],
                &[
                    "start -> work",
                    "work -> fork",
                    "fork -> a",
                    "fork -> b",
                    "a -> join",
                    "b -> join",
                    "join -> again",
                    "again -true> work",
                ],
            ),
        ),
        (
            "a failure edge beside a success edge",
            workflow(vec![start(), log("a"), log("b"), log("c")], &["start -> a", "a -> b", "a -failure> c"]),
        ),
        ("a handler that looks at steps", {
            let mut workflow = workflow(
                vec![
                    start(),
                    work(),
                    node("handler", "log", json!({"message": "{{ steps.work.output | default('') }}"})),
                ],
                &["start -> work"],
            );
            workflow["nodes"][1]["config"] = json!({"value": 1});
            workflow["on_error"] = json!("handler");
            workflow
        }),
    ] {
        if let Err(mistakes) = compile(value) {
            panic!("{name}: {mistakes:#?}");
        }
    }
}

#[test]
fn a_program_knows_its_ways() {
    let program = compile(workflow(
        vec![start(), node("ask", "condition", json!({"expression": "true"})), log("a"), log("b")],
        &["start -> ask", "ask -true> a", "ask -false> b", "ask -failure> b"],
    ))
    .unwrap();
    use crate::program::Way;
    assert_eq!(
        program.nodes[1].out,
        [(Way::Port("true".into()), 2), (Way::Port("false".into()), 3), (Way::Failure, 3)]
    );
    assert_eq!((program.start, program.nodes[3].into, program.nodes[1].node_type), (0, 2, "condition"));
    assert_eq!(program.by_id[&"b".into()], 3);
    assert_eq!(program.max_steps, 10_000);
}
