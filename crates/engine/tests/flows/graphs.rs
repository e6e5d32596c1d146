//! How runs find their way.

use bowline_model::JobStatus;
use serde_json::json;

use crate::{House, node, result_of, row};

#[tokio::test]
async fn what_needs_nobody_is_over_when_it_is_accepted() {
    let house = House::open().await;
    let workflow = row(&[
        node(
            "double",
            "math",
            json!({"operation": "multiply", "operands": ["{{webhook.payload.n}}", 2], "store_as": "twice"}),
        ),
        node("out", "end", json!({"output": {"n": "{{variables.twice}}", "of": "{{execution.id}}"}})),
    ]);
    let submitted = house.submit(crate::ask(workflow, json!({"n": 21}))).await;
    let job = crate::id_of(&submitted);
    let record = house.job(job).await;
    assert_eq!(record.state.status, JobStatus::Succeeded, "{:?}", record.error);
    assert_eq!(result_of(&record), json!({"n": 42, "of": job}));
    assert_eq!(submitted.result.as_deref(), record.result.as_deref());
    assert_eq!(house.path(job).await, ["start", "double", "out"]);
    house.check().await;
}

#[tokio::test]
async fn a_condition_leads_one_way() {
    let house = House::open().await;
    let workflow = json!({
        "nodes": [
            node("start", "start", json!({})),
            node("big", "condition", json!({"expression": "{{webhook.payload.n}} > 10"})),
            node("yes", "end", json!({"output": "big"})),
            node("no", "end", json!({"output": "small"})),
        ],
        "edges": [
            {"source": "start", "target": "big"},
            {"source": "big", "target": "yes", "on": "true"},
            {"source": "big", "target": "no", "on": "false"},
        ],
    });
    assert_eq!(result_of(&house.run(workflow.clone(), json!({"n": 11})).await), json!("big"));
    assert_eq!(result_of(&house.run(workflow, json!({"n": 10})).await), json!("small"));
}

#[tokio::test]
async fn a_task_is_a_job_of_its_own_and_its_result_the_output() {
    let house = House::open().await;
    let workflow = row(&[
        node("echo", "task", json!({"type": "echo", "payload": {"hello": "{{webhook.payload.name}}"}})),
        node("out", "end", json!({"output": "{{steps.echo.output}}"})),
    ]);
    let record = house.run(workflow, json!({"name": "bob"})).await;
    assert_eq!(record.state.status, JobStatus::Succeeded, "{:?}", record.error);
    assert_eq!(result_of(&record), json!({"hello": "bob"}));
    house.check().await;
}

#[tokio::test]
async fn a_failed_task_is_tried_again_and_then_goes_where_the_edges_say() {
    let house = House::open().await;
    let retry = json!({"retry": {"max_attempts": 3, "base_ms": 0}});
    let work = |failures: u32| json!({"id": "work", "type": "task", "config": {"type": "flaky", "payload": {"failures": failures}}, "policy": retry});
    let workflow = |failures| {
        json!({
            "nodes": [
                node("start", "start", json!({})),
                work(failures),
                node("good", "end", json!({"output": "{{steps.work.output.attempt}}"})),
                node("bad", "end", json!({"output": "{{steps.work.output.error.message}}"})),
            ],
            "edges": [
                {"source": "start", "target": "work"},
                {"source": "work", "target": "good"},
                {"source": "work", "target": "bad", "on": "failure"},
            ],
        })
    };
    assert_eq!(result_of(&house.run(workflow(2), json!(null)).await), json!(3));
    assert_eq!(result_of(&house.run(workflow(3), json!(null)).await), json!("not yet"));
    house.check().await;
}

#[tokio::test]
async fn an_error_handler_takes_over_once() {
    let house = House::open().await;
    let mut workflow =
        row(&[node("half", "math", json!({"operation": "divide", "operands": [1, "{{webhook.payload.by}}"]}))]);
    let nodes = workflow["nodes"].as_array_mut().unwrap();
    nodes.push(node("rescue", "end", json!({"output": "{{execution.error.node}}"})));
    workflow["on_error"] = json!("rescue");
    assert_eq!(result_of(&house.run(workflow.clone(), json!({"by": 0})).await), json!("half"));
    workflow["on_error"] = json!(null);
    workflow["nodes"].as_array_mut().unwrap().pop();
    let record = house.run(workflow, json!({"by": 0})).await;
    assert_eq!(record.state.status, JobStatus::Failed);
    assert!(record.error.unwrap().message.starts_with("node \"half\": "));
}

fn fork(mode: serde_json::Value, branches: &[serde_json::Value]) -> serde_json::Value {
    let mut nodes = vec![node("start", "start", json!({})), node("fork", "parallel", json!({}))];
    let mut edges = vec![json!({"source": "start", "target": "fork"})];
    for branch in branches {
        nodes.push(branch.clone());
        edges.push(json!({"source": "fork", "target": branch["id"]}));
        edges.push(json!({"source": branch["id"], "target": "join"}));
    }
    nodes.push(node("join", "join", json!({"mode": mode})));
    nodes.push(node("out", "end", json!({"output": "{{steps.join.output.arrived}}"})));
    edges.push(json!({"source": "join", "target": "out"}));
    json!({"nodes": nodes, "edges": edges})
}

#[tokio::test]
async fn paths_part_and_meet_again() {
    let house = House::open().await;
    let echo = |id: &str| node(id, "task", json!({"type": "echo", "payload": id}));
    let all = house.run(fork(json!("all"), &[echo("a"), echo("b"), echo("c")]), json!(null)).await;
    assert_eq!((all.state.status, result_of(&all)), (JobStatus::Succeeded, json!(3)));
    // One of them never ends; nobody waits for it, and it is stopped.
    let endless = node("endless", "task", json!({"type": "endless"}));
    let any = house.run(fork(json!("any"), &[echo("a"), endless.clone()]), json!(null)).await;
    assert_eq!((any.state.status, result_of(&any)), (JobStatus::Succeeded, json!(1)));
    let two = house.run(fork(json!({"at_least": 2}), &[echo("a"), echo("b"), endless]), json!(null)).await;
    assert_eq!((two.state.status, result_of(&two)), (JobStatus::Succeeded, json!(2)));
    for _ in 0..500 {
        let running = house.engine.ledger.lane_depths(None).await.unwrap().iter().map(|d| d.running).sum::<u64>();
        if running == 0 {
            return house.check().await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("what nobody wants any more still runs");
}

#[tokio::test]
async fn a_foreach_begins_so_many_at_a_time_and_tells_of_each() {
    let house = House::open().await;
    let config = json!({
        "items": "{{webhook.payload.items}}", "concurrency": 2, "fail_if_any": false,
        "node": {"type": "task", "config": {"type": "flaky", "payload": {"failures": "{{item}}"}}},
    });
    let mut each = node("each", "foreach", config);
    each["policy"] = json!({"retry": {"max_attempts": 1, "base_ms": 0}});
    let workflow = row(&[each, node("out", "end", json!({"output": "{{steps.each.output}}"}))]);
    let record = house.run(workflow.clone(), json!({"items": [0, 1, 0, 0, 1]})).await;
    let result = result_of(&record);
    assert_eq!(record.state.status, JobStatus::Succeeded, "{:?}", record.error);
    assert_eq!((&result["succeeded"], &result["failed"]), (&json!(3), &json!(2)));
    assert_eq!(result["items"].as_array().unwrap().len(), 5);
    let none = house.run(workflow, json!({"items": []})).await;
    assert_eq!(result_of(&none)["items"], json!([]));
    house.check().await;
}

#[tokio::test]
async fn whoever_takes_over_from_a_foreach_knows_which_items_are_done() {
    let house = House::open().await;
    let config = json!({
        "items": "{{webhook.payload.items}}",
        "node": {"type": "task", "config": {"type": "flaky", "payload": {"failures": "{{item}}"}}},
    });
    let mut each = node("each", "foreach", config);
    each["policy"] = json!({"retry": {"max_attempts": 1, "base_ms": 0}});
    let workflow = json!({
        "nodes": [
            node("start", "start", json!({})), each, node("out", "end", json!({"output": "{{steps.each.output}}"})),
        ],
        "edges": [{"source": "start", "target": "each"}, {"source": "each", "target": "out", "on": "failure"}],
    });
    let record = house.run(workflow, json!({"items": [0, 0, 1, 0]})).await;
    let result = result_of(&record);
    assert_eq!((&result["succeeded"], &result["failed"], &result["skipped"]), (&json!(3), &json!(1), &json!(0)));
    let statuses: Vec<_> =
        result["items"].as_array().expect("items").iter().map(|item| item["status"].clone()).collect();
    assert_eq!(statuses, ["succeeded", "succeeded", "failed", "succeeded"]);
    let why = result["error"]["message"].as_str().expect("a reason");
    assert!(why.starts_with("1 of 4 items have failed; item 2:"), "{why}");
    house.check().await;
}

#[tokio::test]
async fn a_loop_ends_by_its_condition_or_by_its_budget() {
    let house = House::open().await;
    let workflow = |limit: u32, max_steps: u32| {
        json!({
            "max_steps": max_steps,
            "variables": {"n": 0},
            "nodes": [
                node("start", "start", json!({})),
                node("add", "math", json!({"operation": "add", "operands": ["{{variables.n}}", 1], "store_as": "n"})),
                node("more", "condition", json!({"expression": format!("{{{{variables.n}}}} < {limit}")})),
                node("out", "end", json!({"output": "{{variables.n}}"})),
            ],
            "edges": [
                {"source": "start", "target": "add"},
                {"source": "add", "target": "more"},
                {"source": "more", "target": "add", "on": "true"},
                {"source": "more", "target": "out", "on": "false"},
            ],
        })
    };
    let record = house.run(workflow(3_000, 10_000), json!(null)).await;
    assert_eq!(result_of(&record), json!(3_000));
    assert_eq!(house.steps(record.id).await.len(), 6_002);
    let record = house.run(workflow(3_000, 100), json!(null)).await;
    assert_eq!(record.state.status, JobStatus::Failed);
    assert!(record.error.unwrap().message.contains("100 steps"));
    house.check().await;
}

#[tokio::test]
async fn the_same_ask_is_the_same_run() {
    let house = House::open().await;
    let workflow = row(&[node("echo", "task", json!({"type": "echo", "payload": 1}))]);
    let mut request = crate::ask(workflow, json!(1));
    request.idempotency_key = Some("k".to_owned());
    let first = house.submit(request.clone()).await;
    let second = house.submit(request.clone()).await;
    assert_eq!(crate::id_of(&first), crate::id_of(&second));
    assert!(matches!(second.submitted, bowline_store::Submitted::Replayed { .. }));
    request.input = json!(2);
    let other = house.submit(request).await;
    assert!(matches!(other.submitted, bowline_store::Submitted::Conflict { .. }));
}

/// Paths part and meet in every round of a loop; what is late for one round is not taken for a part of the next.
#[tokio::test]
async fn a_join_in_a_loop_gathers_in_every_round() {
    let house = House::open().await;
    let rounds = |mode: &str, slow: serde_json::Value| {
        json!({
            "variables": {"n": 0},
            "nodes": [
                node("start", "start", json!({})),
                node("fork", "parallel", json!({})),
                // Two edges lead on from here, and one of them is taken.
                node("odd", "condition", json!({"expression": "{{variables.n}} == 1"})),
                slow,
                node("join", "join", json!({"mode": mode})),
                node("add", "math", json!({"operation": "add", "operands": ["{{variables.n}}", 1], "store_as": "n"})),
                node("more", "condition", json!({"expression": "{{variables.n}} < 3"})),
                node("out", "end", json!({"output": "{{variables.n}}"})),
            ],
            "edges": [
                {"source": "start", "target": "fork"},
                {"source": "fork", "target": "odd"},
                {"source": "fork", "target": "slow"},
                {"source": "odd", "target": "join", "on": "true"},
                {"source": "odd", "target": "join", "on": "false"},
                {"source": "slow", "target": "join"},
                {"source": "join", "target": "add"},
                {"source": "add", "target": "more"},
                {"source": "more", "target": "fork", "on": "true"},
                {"source": "more", "target": "out", "on": "false"},
            ],
        })
    };
    let echo = node("slow", "task", json!({"type": "echo", "payload": 1}));
    let all = house.run(rounds("all", echo), json!(null)).await;
    assert_eq!((all.state.status, result_of(&all)), (JobStatus::Succeeded, json!(3)));
    let joins = house.path(all.id).await.iter().filter(|node| *node == "join").count();
    assert_eq!(joins, 3);
    // Nobody waits for those who are slow, in any round.
    let nap = node("slow", "sleep", json!({"duration": "1h"}));
    let any = house.run(rounds("any", nap), json!(null)).await;
    assert_eq!((any.state.status, result_of(&any)), (JobStatus::Succeeded, json!(3)));
    assert!(!house.path(any.id).await.contains(&"slow".to_owned()));
    house.check().await;
}

#[tokio::test]
async fn a_run_whose_paths_multiply_without_end_is_ended() {
    const NODES: usize = 60;
    let house = House::open().await;
    let name = |n: usize| format!("p{n}");
    let mut nodes = vec![node("start", "start", json!({})), node("meet", "join", json!({}))];
    let mut edges = vec![json!({"source": "start", "target": "p0"})];
    for n in 0..NODES {
        nodes.push(node(&name(n), "parallel", json!({})));
        edges.push(json!({"source": name(n), "target": "meet"}));
        edges.extend((n + 1..NODES).map(|later| json!({"source": name(n), "target": name(later)})));
    }
    let record = house.run(json!({"nodes": nodes, "edges": edges}), json!(null)).await;
    assert_eq!(record.state.status, JobStatus::Failed);
    let error = record.error.expect("an error").message;
    assert!(error.contains("more than 10000 paths at once"), "{error}");
    house.check().await;
}

/// The context of a run is the seed's: who began it has an address, even if nobody knows which.
#[tokio::test]
async fn whoever_begins_a_run_has_an_address_that_may_be_unknown() {
    let house = House::open().await;
    let output = json!({"id": "{{user.id}}", "email": "{{user.email}}", "text": "to {{user.email}}"});
    let record = house.run(row(&[node("out", "end", json!({"output": output}))]), json!(null)).await;
    assert_eq!(result_of(&record), json!({"id": "ada", "email": null, "text": "to null"}));
    house.check().await;
}
