//! Telling what happened to a server that goes away, loses answers, forgets, or does not want to hear.

use std::path::Path;

use serde_json::json;

use crate::fake::{Fake, Reply, State, Word, Working};
use crate::local::until_there;

fn directories(data: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(data.join("runs")).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test]
async fn bytes_go_before_records_and_records_before_the_end_whatever_gets_lost() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    fake.script(
        Word::Ship,
        [Reply::Cut, Reply::LoseAnswer, Reply::Refuse(503, "BUSY"), Reply::LoseAnswer, Reply::LoseAnswer],
    );
    fake.script(Word::Output, [Reply::LoseAnswer, Reply::Refuse(500, "INTERNAL"), Reply::Cut, Reply::LoseAnswer]);
    let working = Working::start(fake.settings(room.path())).await;
    let noisy = fake.queue(&json!({"script": "seq 1 400000; echo bad >&2"}));
    let quiet = fake.queue(&json!({"argv": ["true"]}));
    assert_eq!(fake.until_ended(&noisy).await["status"], "success");
    assert_eq!(fake.until_ended(&quiet).await["exit_code"], 0);
    let text: String = (1..=400_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(fake.get(|state| state.text(&noisy, "stdout")), text);
    assert_eq!(fake.get(|state| state.text(&noisy, "stderr")), "bad\n");
    assert!(fake.get(|state| state.compressed) > 0);
    working.stop().await;
    assert_eq!(directories(room.path()), Vec::<String>::new());
    fake.assert_right();
}

#[tokio::test]
async fn a_run_goes_on_while_the_server_is_away_and_all_of_it_is_told_afterwards() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let working = Working::start(fake.settings(room.path())).await;
    let (go, done) = (room.path().join("go"), room.path().join("done"));
    let script = format!("mkfifo {0}; read line < {0}; seq 1 1000; touch {1}", go.display(), done.display());
    let run = fake.queue(&json!({"script": script}));
    fake.until("it at work", |state| (!state.kinds(&run).is_empty()).then_some(())).await;
    fake.set(|state| state.away = true);
    until_there(&go).await;
    std::fs::write(&go, "go\n").unwrap();
    until_there(&done).await;
    assert!(fake.get(|state| !state.ended.contains_key(&run)));
    fake.set(|state| state.away = false);
    assert_eq!(fake.until_ended(&run).await["status"], "success");
    working.stop().await;
    fake.assert_right();
}

#[tokio::test]
async fn what_the_server_does_not_want_to_hear_is_kept_and_holds_nothing_up() {
    for code in ["RUN_NOT_FOUND", "NOT_YOURS", "STALE_LEASE", "SEQ_CONFLICT"] {
        let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
        let mut settings = fake.settings(room.path());
        settings.slots = 1;
        let working = Working::start(settings.clone()).await;
        let task = crate::fake::task(&json!({"via": "agent"}), "web-1", &json!({"spec": {"argv": ["true"]}}));
        let refused = task["task_id"].as_str().unwrap().to_owned();
        fake.set(|state| {
            state.refuse.insert(refused.clone(), code);
            state.queue.push_back(task);
        });
        // Its slot is free again, or this one would not be taken.
        let next = fake.queue(&json!({"argv": ["true"]}));
        fake.until_ended(&next).await;
        working.stop().await;
        assert_eq!(directories(room.path()), [refused.as_str()], "{code}");
        // The next agent offers it once more. It is refused again, holds nothing up, and is not begun again.
        let offered = |state: &State| {
            let bodies = state.bodies.iter().filter(|(word, _)| *word == Word::Ship).map(|(_, body)| body);
            let news = bodies.flat_map(|body| body["runs"].as_array().into_iter().flatten());
            news.filter(|news| news["run_id"] == refused.as_str() && news["events"] != json!([])).count()
        };
        assert_eq!(fake.get(offered), 1, "{code}");
        let working = Working::start(settings.clone()).await;
        let next = fake.queue(&json!({"argv": ["true"]}));
        fake.until_ended(&next).await;
        fake.until("it offered", |state| (offered(state) == 2).then_some(())).await;
        working.stop().await;
        assert_eq!((fake.get(offered), directories(room.path())), (2, vec![refused.clone()]), "{code}");
        // Once the server wants to hear it, a new agent is enough.
        fake.set(|state| state.refuse.clear());
        let working = Working::start(settings).await;
        assert_eq!(fake.until_ended(&refused).await["status"], "success");
        working.stop().await;
        assert_eq!(directories(room.path()), Vec::<String>::new());
        fake.assert_right();
    }
}

#[tokio::test]
async fn a_server_that_was_restored_from_an_older_copy_gets_what_it_lacks() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let working = Working::start(fake.settings(room.path())).await;
    let go = room.path().join("go");
    let script = format!("seq 1 5000; mkfifo {0}; read line < {0}; seq 1 10", go.display());
    let run = fake.queue(&json!({"script": script}));
    fake.until("its output", |state| (state.text(&run, "stdout").len() > 20_000).then_some(())).await;
    fake.until("the record of it", |state| state.kinds(&run).contains(&"output".to_owned()).then_some(())).await;
    fake.set(|state| {
        state.events.remove(&run);
        for stored in state.output.values_mut() {
            stored.truncate(100);
        }
    });
    until_there(&go).await;
    std::fs::write(&go, "go\n").unwrap();
    assert_eq!(fake.until_ended(&run).await["status"], "success");
    let text: String = (1..=5_000).chain(1..=10).map(|n| format!("{n}\n")).collect();
    fake.until("all of its output", |state| (state.text(&run, "stdout") == text).then_some(())).await;
    working.stop().await;
    assert_eq!(directories(room.path()), Vec::<String>::new());
}

#[tokio::test]
async fn output_that_takes_long_holds_up_nobody_else() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let working = Working::start(fake.settings(room.path())).await;
    let script = "seq 1 200000; echo done";
    let task = crate::fake::task(&json!({"via": "agent"}), "web-1", &json!({"spec": {"script": script}}));
    let slow = task["task_id"].as_str().unwrap().to_owned();
    fake.set(|state| {
        state.slow.insert(slow.clone());
        state.queue.push_back(task);
    });
    fake.until_said(Word::Output, 1).await;
    // While the first part of it is not answered, others come, write, and are heard to their end.
    for n in 0..20 {
        let other = fake.queue(&json!({"script": format!("echo {n}")}));
        assert_eq!(fake.until_ended(&other).await["status"], "success");
        assert_eq!(fake.get(|state| state.text(&other, "stdout")), format!("{n}\n"));
    }
    assert!(fake.get(|state| !state.ended.contains_key(&slow)), "its own bytes go before its records");
    fake.set(|state| state.slow.clear());
    assert_eq!(fake.until_ended(&slow).await["status"], "success");
    let text: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(fake.get(|state| state.text(&slow, "stdout")), format!("{text}done\n"));
    working.stop().await;
    assert_eq!(directories(room.path()), Vec::<String>::new());
    fake.assert_right();
}

/// Somebody who never stops writing is heard while it writes.
#[tokio::test]
async fn a_run_that_never_stops_writing_is_told_meanwhile() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let working = Working::start(fake.settings(room.path())).await;
    let run = fake.queue(&json!({"script": "while :; do seq 1 1000; done"}));
    for records in [1, 3, 6] {
        fake.until("records of its output", |state| {
            (state.kinds(&run).iter().filter(|kind| *kind == "output").count() >= records).then_some(())
        })
        .await;
    }
    fake.set(|state| {
        state.cancel.insert(run.clone());
    });
    assert_eq!(fake.until_ended(&run).await["status"], "canceled");
    working.stop().await;
    fake.assert_right();
}

/// What an agent finds that was away for long: many events, on disk.
fn backlog(data: &Path, events: u64) -> String {
    let clock: bowline_execute::Clock = std::sync::Arc::new(|| bowline_model::Timestamp::from_millis(1));
    let settings = bowline_execute::Settings::new(["/bin/false"], clock);
    let runs = bowline_execute::Runs::open(data, settings).unwrap();
    let manifest: bowline_execute::Manifest = serde_json::from_value(json!({
        "version": 1, "run": crate::fake::id(crate::fake::next()), "job": crate::fake::id(crate::fake::next()), "host": "web-1",
        "fence": 1, "host_fence": 1, "lock": "shared", "argv": ["x"], "timeout_ms": 1_000,
    }))
    .unwrap();
    let run = manifest.run;
    let mut inside = runs.begin_inside(manifest, &bowline_execute::Secrets::default()).unwrap();
    for number in 0..events {
        let data = json!({"kind": "progress", "number": number, "message": "a hundred bytes or so ".repeat(5)});
        inside.tell(bowline_execute::Happening::Other(data.as_object().unwrap().clone()));
    }
    inside
        .end(bowline_execute::Ended {
            outcome: bowline_execute::EndedAs::Succeeded,
            exit_code: Some(0),
            signal: None,
            message: None,
            children: None,
            duration_ms: None,
            stdout_bytes: 0,
            stderr_bytes: 0,
            last_seq: 0,
        })
        .unwrap();
    run.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_told_in_large_batches() {
    const EVENTS: u64 = 60_000;
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    fake.set(|state| state.forget_bodies = true);
    let run = backlog(room.path(), EVENTS);
    let began = std::time::Instant::now();
    let working = Working::start(fake.settings(room.path())).await;
    assert_eq!(fake.until_ended(&run).await["last_seq"], EVENTS + 1);
    let (took, said) = (began.elapsed(), fake.get(|state| state.said.clone()));
    println!("{EVENTS} events took {took:?}: {:.0} a second; said: {said:?}", EVENTS as f64 / took.as_secs_f64());
    // One to ask what is held, six with ten thousand each, one with the rest and the end.
    assert_eq!(said[&Word::Ship], 8);
    working.stop().await;
    assert_eq!(directories(room.path()), Vec::<String>::new());
    fake.assert_right();
}

#[tokio::test]
async fn a_directory_stays_until_the_server_holds_its_last_record() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let working = Working::start(fake.settings(room.path())).await;
    let task = crate::fake::task(&json!({"via": "agent"}), "web-1", &json!({"spec": {"argv": ["true"]}}));
    let run = task["task_id"].as_str().unwrap().to_owned();
    fake.set(|state| {
        state.one_short.insert(run.clone());
        state.queue.push_back(task);
    });
    fake.until_ended(&run).await;
    // The end was taken, and its last record was not: what is held decides.
    let said = fake.get(|state| state.said[&Word::Ship]);
    fake.until_said(Word::Ship, said + 2).await;
    assert_eq!(directories(room.path()), [run.as_str()]);
    fake.set(|state| state.one_short.clear());
    let gone = async {
        while !directories(room.path()).is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), gone).await.expect("the directory goes once all is held");
    working.stop().await;
}

#[tokio::test]
async fn a_task_that_was_never_confirmed_is_not_started() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    fake.set(|state| {
        state.mute = true;
        state.accept_ms = Some(300);
    });
    let working = Working::start(fake.settings(room.path())).await;
    let mark = room.path().join("started");
    let silent = fake.queue(&json!({"argv": ["touch", mark.to_string_lossy()]}));
    fake.until("a heartbeat that names the task", |state| (state.named(&silent) > 0).then_some(())).await;
    // The accept time passes in silence; the agent asks for other work when it has given this up.
    let polls = fake.get(|state| state.said[&Word::Tasks]);
    fake.until_said(Word::Tasks, polls + 2).await;
    fake.set(|state| state.mute = false);
    let next = fake.queue(&json!({"argv": ["true"]}));
    fake.until_ended(&next).await;
    assert!(!mark.exists(), "silence is not a yes");
    assert!(fake.get(|state| state.kinds(&silent).is_empty()), "nothing of it happened");
    working.stop().await;
}
