//! Leaving: asked by the server, or by whoever runs the agent.

use bowline_agent::fleet::{FleetError, Reach, ShownOutput, SimulateSettings};
use serde_json::json;

use crate::fake::{Fake, Reply, Word, Working, task};
use crate::local::until_there;

#[tokio::test]
async fn an_agent_that_is_asked_to_leave_leaves_commands_to_their_keepers() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let working = Working::start(fake.settings(room.path())).await;
    let go = room.path().join("go");
    let run = fake.queue(&json!({"script": format!("mkfifo {0}; read line < {0}; echo done", go.display())}));
    fake.until("it at work", |state| (!state.kinds(&run).is_empty()).then_some(())).await;
    working.stop().await;
    assert!(fake.get(|state| !state.ended.contains_key(&run)));

    let named = fake.get(|state| state.named(&run));
    let working = Working::start(fake.settings(room.path())).await;
    fake.until("it named again", |state| (state.named(&run) > named).then_some(())).await;
    until_there(&go).await;
    std::fs::write(&go, "go\n").unwrap();
    assert_eq!(fake.until_ended(&run).await["status"], "success");
    assert_eq!(fake.get(|state| state.text(&run, "stdout")), "done\n");
    working.stop().await;
    fake.assert_right();
}

#[tokio::test]
async fn a_server_that_drains_gets_everything_finished_and_nothing_more_is_taken() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let working = Working::start(fake.settings(room.path())).await;
    let go = room.path().join("go");
    let run = fake.queue(&json!({"script": format!("mkfifo {0}; read line < {0}", go.display())}));
    fake.until("it at work", |state| (!state.kinds(&run).is_empty()).then_some(())).await;
    fake.set(|state| state.drain = true);
    let beats = fake.get(|state| state.said[&Word::Heartbeat]);
    fake.until_said(Word::Heartbeat, beats + 2).await;
    let late = fake.queue(&json!({"argv": ["true"]}));
    until_there(&go).await;
    std::fs::write(&go, "go\n").unwrap();
    working.end().await.unwrap();
    assert_eq!(fake.until_ended(&run).await["status"], "success");
    assert!(fake.get(|state| !state.accepted.contains(&late)));
    fake.assert_right();
}

#[tokio::test]
async fn runs_inside_the_agent_get_a_grace() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let mut settings = fake.settings(room.path());
    let world = bowline_execute::simulate::Simulation {
        seed: 1,
        latency_ms: (300, 300),
        failure: 0.0,
        timeout: 0.0,
        disconnect: 0.0,
    };
    settings.reach = Some(Reach::Simulate(SimulateSettings { world, output: ShownOutput::None }));
    let working = Working::start(settings).await;
    let task = task(&json!({"via": "simulate"}), "sim-1", &json!({"spec": {"argv": ["true"]}}));
    let run = task["task_id"].as_str().unwrap().to_owned();
    fake.set(|state| state.queue.push_back(task));
    fake.until("it at work", |state| (!state.kinds(&run).is_empty()).then_some(())).await;
    working.stop().await;
    assert_eq!(fake.get(|state| state.ended[&run]["status"].clone()), "success");
    fake.assert_right();
}

#[tokio::test]
async fn an_agent_whose_token_was_revoked_ends_and_its_commands_do_not() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let working = Working::start(fake.settings(room.path())).await;
    let (go, done) = (room.path().join("go"), room.path().join("done"));
    let script = format!("mkfifo {0}; read line < {0}; touch {1}", go.display(), done.display());
    let run = fake.queue(&json!({"script": script}));
    fake.until("it at work", |state| (!state.kinds(&run).is_empty()).then_some(())).await;
    fake.script(Word::Heartbeat, [Reply::Refuse(401, "UNAUTHENTICATED")]);
    let end = working.end().await;
    assert!(matches!(end, Err(FleetError::Server(_))), "{end:?}");
    until_there(&go).await;
    std::fs::write(&go, "go\n").unwrap();
    until_there(&done).await;
}
