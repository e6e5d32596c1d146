//! Hosts that do not exist.

use std::time::{Duration, Instant};

use bowline_agent::fleet::{Reach, ShownOutput, SimulateSettings};
use bowline_execute::simulate::Simulation;
use serde_json::{Value, json};

use crate::fake::{Fake, Working, task};

fn world() -> Simulation {
    Simulation { seed: 7, latency_ms: (0, 0), failure: 0.0, timeout: 0.0, disconnect: 0.0 }
}

async fn start(fake: &Fake, data: &std::path::Path, world: Simulation, output: ShownOutput) -> Working {
    let mut settings = fake.settings(data);
    settings.slots = 20_000;
    settings.reach = Some(Reach::Simulate(SimulateSettings { world, output }));
    Working::start(settings).await
}

fn hosts(count: usize) -> Vec<Value> {
    let spec = json!({"spec": {"argv": ["true"]}});
    (0..count).map(|n| task(&json!({"via": "simulate"}), &format!("sim-{n}"), &spec)).collect()
}

fn id(task: &Value) -> String {
    task["task_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_hosts_go_through_in_a_moment() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let working = start(&fake, room.path(), world(), ShownOutput::Failed).await;
    let tasks = hosts(10_000);
    fake.set(|state| state.forget_bodies = true);
    let began = Instant::now();
    fake.set(|state| state.queue.extend(tasks));
    fake.until("ten thousand ends", |state| (state.ended.len() == 10_000).then_some(())).await;
    let took = began.elapsed();
    println!("10,000 simulated hosts took {took:?}; said: {:?}", fake.get(|state| state.said.clone()));
    // Generous: without optimisation, and on a busy machine. What it takes is in the line above.
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert!(fake.get(|state| state.ended.values().all(|end| end["status"] == "success" && end["last_seq"] == 2)));
    working.stop().await;
    fake.assert_right();
}

#[tokio::test]
async fn made_up_hosts_fail_time_out_and_are_canceled_like_others() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let bad = Simulation { failure: 1.0, ..world() };
    let working = start(&fake, room.path(), bad, ShownOutput::Failed).await;
    let tasks = hosts(1);
    let failed = id(&tasks[0]);
    fake.set(|state| state.queue.extend(tasks));
    let end = fake.until_ended(&failed).await;
    assert_eq!((&end["status"], &end["error"]["class"]), (&json!("failure"), &json!("exit")), "{end}");
    assert!(fake.get(|state| state.text(&failed, "stdout")).contains("failed with"));
    assert_eq!(fake.get(|state| state.kinds(&failed)), ["started", "output", "ended"]);
    working.stop().await;

    let slow = Simulation { timeout: 1.0, ..world() };
    let working = start(&fake, room.path(), slow, ShownOutput::None).await;
    let mut tasks = hosts(2);
    tasks[0]["timeout_ms"] = json!(30);
    let (timed_out, canceled) = (id(&tasks[0]), id(&tasks[1]));
    fake.set(|state| state.queue.extend(tasks));
    assert_eq!(fake.until_ended(&timed_out).await["error"]["class"], "timeout");
    fake.until("the other at work", |state| (!state.kinds(&canceled).is_empty()).then_some(())).await;
    fake.set(|state| assert!(state.cancel.insert(canceled.clone())));
    assert_eq!(fake.until_ended(&canceled).await["status"], "canceled");
    working.stop().await;
    fake.assert_right();
}

#[tokio::test]
async fn a_host_that_falls_silent_is_not_named() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let away = Simulation { disconnect: 1.0, ..world() };
    let mut settings = fake.settings(room.path());
    settings.reach = Some(Reach::Simulate(SimulateSettings { world: away, output: ShownOutput::None }));
    settings.grace = Duration::ZERO;
    let working = Working::start(settings).await;
    let tasks = hosts(1);
    let run = id(&tasks[0]);
    fake.set(|state| state.queue.extend(tasks));
    fake.until("it at work", |state| (!state.kinds(&run).is_empty()).then_some(())).await;
    let beats = fake.get(|state| state.said[&crate::fake::Word::Heartbeat]);
    fake.until_said(crate::fake::Word::Heartbeat, beats + 5).await;
    // Once to accept it, and perhaps once more in the moment before it fell silent.
    assert!(fake.get(|state| state.named(&run)) <= 2);
    // It dies with the agent, and nothing is said about it.
    working.stop().await;
    assert!(fake.get(|state| !state.ended.contains_key(&run)));
    fake.assert_right();
}
