//! What is unusual and allowed: loops over nothing and over ten thousand, loops in children in loops, joins that cannot have what
//! they want, joins that wait for each other, runs that call themselves, and a cancel that has far to go.

use std::time::Duration;

use bowline_model::resource::Spec;
use bowline_model::{JobId, JobStatus, ResourceName};
use bowline_store::{JobOrder, JobRecord};
use serde_json::{Value, json};

use crate::{House, node, result_of, row};

async fn store(house: &House, name: &str, workflow: Value) {
    let spec = Spec::Workflow(Box::new(serde_json::from_value(workflow).expect("a workflow")));
    let name = ResourceName::new(name).expect("a name");
    house.engine.resources.put(house.tenant, name, &spec, None, house.author(), true, None).await.expect("stored");
}

/// Waits longer than others do.
async fn until_over(house: &House, job: JobId) -> JobRecord {
    for _ in 0..12_000 {
        let record = house.job(job).await;
        if record.state.status.is_terminal() {
            return record;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", house.job(job).await.state);
}

/// All jobs of the house, whatever they belong to.
async fn all_jobs(house: &House) -> Vec<JobRecord> {
    let ledger = &house.engine.ledger;
    ledger.list_jobs(house.tenant, Default::default(), None, 1_000).await.expect("jobs").items
}

fn each(items: Value, inner: Value) -> Value {
    let config = json!({"items": items, "concurrency": 1_000, "node": inner});
    row(&[node("each", "foreach", config), node("out", "end", json!({"output": "{{steps.each.output}}"}))])
}

#[tokio::test]
async fn a_loop_over_ten_thousand_ends_and_one_more_is_too_many() {
    let house = House::open().await;
    let echo = json!({"type": "task", "config": {"type": "echo", "payload": "{{item * 2}}"}});
    let mut workflow = each(json!("{{webhook.payload}}"), echo);
    // All of it is more than an expression may give.
    let item = |n: u32| format!("{{{{steps.each.output.items[{n}]}}}}");
    workflow["nodes"][2]["config"]["output"] = json!({
        "succeeded": "{{steps.each.output.succeeded}}", "failed": "{{steps.each.output.failed}}",
        "skipped": "{{steps.each.output.skipped}}", "count": "{{length(steps.each.output.items)}}",
        "some": [item(0), item(1), item(999), item(1_000), item(9_999)],
    });
    let items = |count: u32| json!((0..count).collect::<Vec<_>>());
    let job = house.begin(workflow.clone(), items(10_000)).await;
    let record = until_over(&house, job).await;
    assert_eq!(record.state.status, JobStatus::Succeeded, "{:?}", record.error);
    let result = result_of(&record);
    assert_eq!((&result["succeeded"], &result["failed"], &result["skipped"]), (&json!(10_000), &json!(0), &json!(0)));
    // In the order of the list, whoever was done first.
    let some = [0, 1, 999, 1_000, 9_999].map(|n| json!({"status": "succeeded", "output": n * 2}));
    assert_eq!((&result["count"], &result["some"]), (&json!(10_000), &json!(some)));
    workflow["nodes"][2]["config"]["output"] = json!("{{steps.each.output}}");
    let none = house.run(workflow.clone(), items(0)).await;
    assert_eq!(result_of(&none), json!({"items": [], "succeeded": 0, "failed": 0, "skipped": 0}));
    let many = house.run(workflow.clone(), items(10_001)).await;
    assert_eq!(many.state.status, JobStatus::Failed);
    assert!(many.error.is_some_and(|error| error.message.contains("at most 10000 elements, there are 10001")));
    let no_list = house.run(workflow, json!({"a": 1})).await;
    assert!(no_list.error.is_some_and(|error| error.message.contains("must be a list")));
}

#[tokio::test]
async fn loops_in_children_in_loops_tell_of_every_item() {
    let house = House::open().await;
    let task = json!({"type": "task", "config": {"type": "witnessed", "payload": {"by": "{{item}}"}}});
    let mut inner = each(json!("{{webhook.payload.list}}"), task);
    inner["nodes"][1]["config"]["fail_if_any"] = json!(false);
    store(&house, "inner", inner).await;
    let child = json!({"type": "workflow", "config": {"name": "inner", "input": {"list": "{{item}}"}}});
    let record = house.run(each(json!([[1, 2, 3], [], [0, 4]]), child), json!(null)).await;
    assert_eq!(record.state.status, JobStatus::Succeeded, "{:?}", record.error);
    let result = result_of(&record);
    let counts: Vec<Value> = result["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| json!([item["output"]["succeeded"], item["output"]["failed"]]))
        .collect();
    assert_eq!(counts, [json!([3, 0]), json!([0, 0]), json!([1, 1])], "{result}");
    assert_eq!(result["items"][0]["output"]["items"][2]["output"], json!({"by": 3}));
    house.check().await;
}

/// Branches between a fork and a join; what fails leads to `lost`, where its path ends.
fn branches(mode: Value, types: &[&str]) -> Value {
    let mut nodes = vec![node("start", "start", json!({})), node("fork", "parallel", json!({}))];
    let mut edges = vec![json!({"source": "start", "target": "fork"})];
    for (n, task_type) in types.iter().enumerate() {
        let id = format!("b{n}");
        let mut branch = node(&id, "task", json!({"type": task_type, "payload": {"by": 0}}));
        branch["policy"] = json!({"retry": {"max_attempts": 1}});
        nodes.push(branch);
        edges.push(json!({"source": "fork", "target": id}));
        edges.push(json!({"source": id, "target": "join"}));
        edges.push(json!({"source": id, "target": "lost", "on": "failure"}));
    }
    nodes.push(node("lost", "log", json!({"message": "lost"})));
    nodes.push(node("join", "join", json!({"mode": mode})));
    nodes.push(node("out", "end", json!({"output": "{{steps.join.output.arrived}}"})));
    nodes.push(node("short", "end", json!({"output": "{{execution.error.message}}"})));
    edges.push(json!({"source": "join", "target": "out"}));
    edges.push(json!({"source": "join", "target": "short", "on": "failure"}));
    json!({"nodes": nodes, "edges": edges})
}

#[tokio::test]
async fn a_join_goes_with_those_who_can_come_or_says_that_they_cannot() {
    let house = House::open().await;
    // `witnessed` fails with this payload, `echo` does not.
    for (mode, types, result) in [
        (json!({"at_least": 2}), &["echo", "witnessed", "echo"][..], json!(2)),
        (
            json!({"at_least": 2}),
            &["witnessed", "witnessed", "echo"],
            json!("only 1 of the 2 paths that it waits for came"),
        ),
        (json!("all"), &["witnessed", "echo", "witnessed"], json!(1)),
        (json!("any"), &["witnessed", "witnessed", "echo"], json!(1)),
    ] {
        let record = house.run(branches(mode.clone(), types), json!(null)).await;
        assert_eq!((record.state.status, result_of(&record)), (JobStatus::Succeeded, result), "{mode} of {types:?}");
    }
    // Nobody comes, so nothing goes on: the run ends with its last path, and well, because all failures were seen to.
    let record = house.run(branches(json!("any"), &["witnessed", "witnessed"]), json!(null)).await;
    assert_eq!(record.state.status, JobStatus::Succeeded, "{:?}", record.error);
    assert!(!house.path(record.id).await.contains(&"join".to_owned()));
    house.check().await;
}

/// The first to come is enough; the others are stopped when the run is over, not left to run for ever.
#[tokio::test]
async fn those_who_lost_the_race_are_stopped() {
    let house = House::open().await;
    let record = house.run(branches(json!("any"), &["endless", "echo", "endless"]), json!(null)).await;
    assert_eq!((record.state.status, result_of(&record)), (JobStatus::Succeeded, json!(1)));
    for _ in 0..1_000 {
        let jobs = all_jobs(&house).await;
        if jobs.iter().all(|job| job.state.status.is_terminal()) {
            let canceled = jobs.iter().filter(|job| job.state.status == JobStatus::Canceled).count();
            assert_eq!((jobs.len(), canceled), (4, 2));
            return house.check().await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("somebody still runs");
}

/// Each of two joins waits for the other one. Nobody else is there, so one of them goes with what it has.
#[tokio::test]
async fn joins_that_wait_for_each_other_do_not_wait_for_ever() {
    let house = House::open().await;
    let workflow = |mode: Value, beside: Value| {
        let mut nodes = vec![
            node("start", "start", json!({})),
            node("fork", "parallel", json!({})),
            node("a", "log", json!({"message": "a"})),
            node("b", "log", json!({"message": "b"})),
            node("left", "join", json!({"mode": mode})),
            node("right", "join", json!({"mode": mode})),
            node("on", "condition", json!({"expression": "true"})),
            node("back", "condition", json!({"expression": "false"})),
            node(
                "out",
                "end",
                json!({"output": {
                "left": "{{steps.left.output.arrived}}", "right": "{{steps.right.output.arrived}}"}}),
            ),
        ];
        let mut edges = vec![
            json!({"source": "start", "target": "fork"}),
            json!({"source": "fork", "target": "a"}),
            json!({"source": "fork", "target": "b"}),
            json!({"source": "a", "target": "left"}),
            json!({"source": "b", "target": "right"}),
            json!({"source": "left", "target": "on"}),
            json!({"source": "on", "target": "right", "on": "true"}),
            json!({"source": "on", "target": "out", "on": "false"}),
            json!({"source": "right", "target": "back"}),
            json!({"source": "back", "target": "left", "on": "true"}),
            json!({"source": "back", "target": "out", "on": "false"}),
        ];
        if !beside.is_null() {
            edges.push(json!({"source": "fork", "target": beside["id"]}));
            nodes.push(beside);
        }
        json!({"nodes": nodes, "edges": edges})
    };
    let both = house.run(workflow(json!("all"), Value::Null), json!(null)).await;
    assert_eq!(result_of(&both), json!({"left": 1, "right": 2}), "{:?}", both.error);
    // Somebody who is under way elsewhere, and cannot come, does not hold them up.
    let beside = node("beside", "wait_event", json!({"event": "never"}));
    let both = house.run(workflow(json!("all"), beside), json!(null)).await;
    assert_eq!(result_of(&both), json!({"left": 1, "right": 2}), "{:?}", both.error);
    let two = house.run(workflow(json!({"at_least": 2}), Value::Null), json!(null)).await;
    assert_eq!(two.state.status, JobStatus::Failed);
    assert!(two.error.is_some_and(|error| error.message.contains("only 1 of the 2 paths")));
    house.check().await;
}

#[tokio::test]
async fn a_run_that_calls_itself_ends_at_the_sixteenth_level() {
    let house = House::open().await;
    let again = node("again", "workflow", json!({"name": "itself", "input": "{{webhook.payload + 1}}"}));
    let workflow = row(&[again]);
    store(&house, "itself", workflow.clone()).await;
    let job = house.begin(workflow, json!(0)).await;
    let record = until_over(&house, job).await;
    assert_eq!(record.state.status, JobStatus::Failed);
    let error = record.error.expect("an error").message;
    assert!(error.contains("at most 16 levels deep"), "{error}");
    // The one that was asked for, and sixteen below it; each has failed for the same reason.
    let jobs = all_jobs(&house).await;
    assert_eq!(jobs.len(), 17);
    for job in jobs {
        assert_eq!(job.state.status, JobStatus::Failed);
        assert!(job.error.is_some_and(|error| error.message.contains("at most 16 levels deep")));
    }
    house.check().await;
}

#[tokio::test]
async fn a_cancel_goes_all_the_way_down() {
    let house = House::open().await;
    store(&house, "third", row(&[node("work", "task", json!({"type": "endless"}))])).await;
    let two = json!({"items": [1, 2], "node": {"type": "workflow", "config": {"name": "third"}}});
    store(&house, "second", row(&[node("each", "foreach", two)])).await;
    store(&house, "first", row(&[node("second", "workflow", json!({"name": "second"}))])).await;
    let job = house.begin(row(&[node("first", "workflow", json!({"name": "first"}))]), json!(null)).await;
    // Four levels of runs, the lowest of them twice, each with a task that runs for ever.
    let under_way = async |wanted: &dyn Fn(&[JobRecord]) -> bool| {
        for _ in 0..1_000 {
            let jobs = all_jobs(&house).await;
            if wanted(&jobs) {
                return jobs;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let jobs = all_jobs(&house).await;
        panic!("{:?}", jobs.iter().map(|job| (&job.task_type, job.state.status)).collect::<Vec<_>>());
    };
    let endless = |job: &&JobRecord| job.task_type.as_str() == "endless" && job.state.status == JobStatus::Running;
    under_way(&|jobs| jobs.iter().filter(endless).count() == 2).await;
    let order = JobOrder { tenant: house.tenant, job, by: house.author(), reason: None };
    house.engine.cancel_job(order).await.expect("taken");
    let jobs = under_way(&|jobs| jobs.iter().all(|job| job.state.status.is_terminal())).await;
    assert_eq!(jobs.len(), 7);
    for job in jobs {
        assert_eq!(job.state.status, JobStatus::Canceled, "{} {:?}", job.task_type, job.error);
    }
    house.check().await;
}

#[tokio::test]
async fn a_switch_tells_values_apart_as_expressions_do() {
    let house = House::open().await;
    let cases = json!([
        {"name": "nothing", "equals": null},
        {"name": "one", "equals": 1},
        {"name": "text", "equals": "1"},
        {"name": "list", "equals": ["{{1 + 1}}", {"a": []}]},
        {"name": "large", "when": "webhook.payload > 100"},
    ]);
    let mut nodes = vec![
        node("start", "start", json!({})),
        node("which", "switch", json!({"value": "{{webhook.payload}}", "cases": cases})),
    ];
    let mut edges = vec![json!({"source": "start", "target": "which"})];
    for name in ["nothing", "one", "text", "list", "large", "failure"] {
        let output = if name == "failure" { "{{execution.error.message}}" } else { name };
        nodes.push(node(&format!("to_{name}"), "end", json!({"output": output})));
        edges.push(json!({"source": "which", "target": format!("to_{name}"), "on": name}));
    }
    let workflow = json!({"nodes": nodes, "edges": edges});
    for (value, way) in [
        (json!(null), "nothing"),
        (json!(1), "one"),
        (json!(1.0), "one"),
        (json!("1"), "text"),
        (json!([2, {"a": []}]), "list"),
        (json!(101), "large"),
        (json!(7), "no case fits, and there is no default"),
    ] {
        let record = house.run(workflow.clone(), value.clone()).await;
        assert_eq!(result_of(&record), json!(way), "{value}: {:?}", record.error);
    }
    house.check().await;
}
