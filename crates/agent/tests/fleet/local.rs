//! Commands on the agent's own host.

use bowline_agent::fleet::FleetError;
use serde_json::json;

use crate::fake::{Fake, Word, Working, task};

#[tokio::test]
async fn a_command_is_executed_and_told_to_its_end_and_then_forgotten() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let secrets = room.path().join("secrets");
    std::fs::create_dir(&secrets).unwrap();
    std::fs::write(secrets.join("db"), "hunter22\n").unwrap();
    let mut settings = fake.settings(&room.path().join("data"));
    settings.secrets = Some(secrets);
    let working = Working::start(settings).await;
    let task = task(
        &json!({"via": "agent"}),
        "web-1",
        &json!({"spec": {"script": "echo $PARAM_WHO at $BOWLINE_HOST, try $BOWLINE_ATTEMPT; echo $PASSWORD >&2; exit 3",
                         "params": {}, "secrets": {"PASSWORD": "db"}},
                "params": {"who": "$(id) ann"}}),
    );
    let run = task["task_id"].as_str().unwrap().to_owned();
    fake.set(|state| state.queue.push_back(task));
    let end = fake.until_ended(&run).await;
    assert_eq!((&end["status"], &end["exit_code"]), (&json!("failure"), &json!(3)));
    assert_eq!(end["error"], json!({"class": "exit", "message": "exit code 3"}));
    assert_eq!(fake.get(|state| state.text(&run, "stdout")), "$(id) ann at web-1, try 1\n");
    let stderr = fake.get(|state| state.text(&run, "stderr"));
    assert!(!stderr.contains("hunter22") && !stderr.is_empty(), "{stderr}");
    let kinds = fake.get(|state| state.kinds(&run));
    assert_eq!((kinds.first().unwrap().as_str(), kinds.last().unwrap().as_str()), ("started", "ended"));
    assert!(fake.get(|state| state.accepted.contains(&run)));
    // Heard to its end, it is not named any more; and its directory is gone.
    let named = fake.get(|state| state.named(&run));
    working.stop().await;
    assert!(fake.get(|state| state.named(&run)) <= named + 1);
    assert_eq!(std::fs::read_dir(room.path().join("data/runs")).unwrap().count(), 0);
    fake.assert_right();
}

#[tokio::test]
async fn what_cannot_begin_is_told_with_its_reason() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let working = Working::start(fake.settings(room.path())).await;
    let local = json!({"via": "agent"});
    let cases = [
        (task(&local, "web-1", &json!({"spec": {"argv": ["x"], "secrets": {"A": "db"}}})), "permanent", "needs db"),
        (task(&local, "web-1", &json!({"spec": {"argv": ["x", "{{ params.a }}"]}})), "permanent", "params.a"),
        (task(&local, "db-7", &json!({"spec": {"argv": ["x"]}})), "permanent", "not on host db-7"),
        (task(&local, "web-1", &json!({"spec": {"argv": ["x"], "cwd": "here"}})), "permanent", "absolute"),
        (task(&json!({"via": "ssh"}), "web-1", &json!({"spec": {"argv": ["x"]}})), "permanent", "cannot reach"),
        (task(&local, "web-1", &json!({"spec": {"agrv": ["x"]}})), "handler", "cannot read"),
        (
            task(&local, "web-1", &json!({"spec": {"argv": ["/no/such/program"]}})),
            "permanent",
            "could not be started: /no/such/program: ",
        ),
    ];
    for (task, class, words) in cases {
        let run = task["task_id"].as_str().unwrap().to_owned();
        fake.set(|state| state.queue.push_back(task));
        let end = fake.until_ended(&run).await;
        assert_eq!(end["error"]["class"], class, "{end}");
        assert!(end["error"]["message"].as_str().unwrap().contains(words), "{end}");
    }
    working.stop().await;
    fake.assert_right();
}

#[tokio::test]
async fn a_host_is_not_used_by_two_and_an_attempt_is_not_made_twice() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let working = Working::start(fake.settings(room.path())).await;
    let fifo = room.path().join("go");
    let script = format!("mkfifo {0}; read line < {0}", fifo.display());
    let mut first = task(&json!({"via": "agent"}), "web-1", &json!({"spec": {"script": script}}));
    first["params"]["host"]["lock"] = json!("exclusive");
    let mut busy = task(&json!({"via": "agent"}), "web-1", &json!({"spec": {"argv": ["true"]}}));
    busy["params"]["host"]["lock"] = json!("exclusive");
    let mut again = task(&json!({"via": "agent"}), "web-1", &json!({"spec": {"argv": ["true"]}}));
    again["params"]["unit_id"] = first["params"]["unit_id"].clone();
    let ids = [&first, &busy, &again].map(|task| task["task_id"].as_str().unwrap().to_owned());

    fake.set(|state| state.queue.push_back(first));
    fake.until("the first one at work", |state| (!state.kinds(&ids[0]).is_empty()).then_some(())).await;
    fake.set(|state| state.queue.push_back(busy));
    let end = fake.until_ended(&ids[1]).await;
    assert_eq!(end["error"]["class"], "busy", "{end}");
    assert!(end["error"]["message"].as_str().unwrap().contains(&ids[0]), "{end}");

    until_there(&fifo).await;
    std::fs::write(&fifo, "go\n").unwrap();
    assert_eq!(fake.until_ended(&ids[0]).await["status"], "success");
    // A server that was restored from an older copy hands the same attempt out once more, under another name.
    fake.set(|state| state.queue.push_back(again));
    let end = fake.until_ended(&ids[2]).await;
    assert_eq!((&end["status"], &end["exit_code"]), (&json!("success"), &json!(0)), "{end}");
    let told = fake.get(|state| state.events[&ids[2]][&1].clone());
    assert_eq!(told["repeated_of"], json!(ids[0]));
    working.stop().await;
    fake.assert_right();
}

#[tokio::test]
async fn a_canceled_command_ends_and_a_stale_one_goes_on() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let working = Working::start(fake.settings(room.path())).await;
    let go = room.path().join("go");
    let stale = fake.queue(&json!({"script": format!("mkfifo {0}; read line < {0}; echo done", go.display())}));
    let canceled = fake.queue(&json!({"argv": ["sleep", "1000"]}));
    for run in [&stale, &canceled] {
        fake.until("it at work", |state| (!state.kinds(run).is_empty()).then_some(())).await;
    }
    fake.set(|state| {
        state.stale.insert(stale.clone());
        state.cancel.insert(canceled.clone());
    });
    assert_eq!(fake.until_ended(&canceled).await["status"], "canceled");
    // It is not named any more, but it goes on, and its end is told.
    let beats = fake.get(|state| state.said[&Word::Heartbeat]);
    fake.until_said(Word::Heartbeat, beats + 2).await;
    let named = fake.get(|state| state.named(&stale));
    fake.until_said(Word::Heartbeat, beats + 4).await;
    assert_eq!(fake.get(|state| state.named(&stale)), named);
    until_there(&go).await;
    std::fs::write(&go, "go\n").unwrap();
    assert_eq!(fake.until_ended(&stale).await["status"], "success");
    assert_eq!(fake.get(|state| state.text(&stale, "stdout")), "done\n");

    // Canceled before it began: it never does.
    let task = task(&json!({"via": "agent"}), "web-1", &json!({"spec": {"argv": ["true"]}}));
    let early = task["task_id"].as_str().unwrap().to_owned();
    fake.set(|state| {
        state.cancel.insert(early.clone());
        state.queue.push_back(task);
    });
    assert_eq!(fake.until_ended(&early).await["status"], "canceled");
    assert_eq!(fake.get(|state| state.kinds(&early)), ["not_started"]);
    working.stop().await;
    fake.assert_right();
}

/// Waits for a file that a command makes.
/// Somebody tidied up. Nobody can say how the command ended; the server hears that, and not that it still runs.
#[tokio::test]
async fn a_run_whose_directory_was_removed_is_told_as_lost() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let (data, go) = (room.path().join("data"), room.path().join("go"));
    let working = Working::start(fake.settings(&data)).await;
    let run = fake.queue(&json!({"script": format!("echo here; mkfifo {0}; read line < {0}", go.display())}));
    fake.until("it at work", |state| (state.text(&run, "stdout") == "here\n").then_some(())).await;
    until_there(&go).await;
    std::fs::remove_dir_all(data.join("runs").join(&run)).unwrap();
    std::fs::write(&go, "go\n").unwrap();
    let told = fake.until("evidence of it", |state| state.evidence.iter().find(|told| told["run_id"] == *run).cloned());
    let told = told.await;
    assert_eq!((&told["ended"]["status"], &told["ended"]["error"]["class"]), (&json!("failure"), &json!("lost")));
    // Its lease is not kept any more, and the agent works on.
    let named = fake.get(|state| state.named(&run));
    let next = fake.queue(&json!({"argv": ["true"]}));
    assert_eq!(fake.until_ended(&next).await["status"], "success");
    assert!(fake.get(|state| state.named(&run)) <= named + 1);
    working.stop().await;
    fake.assert_right();
}

#[tokio::test]
async fn an_agent_whose_data_directory_is_removed_leaves_and_says_why() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let data = room.path().join("data");
    let working = Working::start(fake.settings(&data)).await;
    fake.until_said(Word::Heartbeat, 1).await;
    std::fs::remove_dir_all(&data).unwrap();
    fake.queue(&json!({"argv": ["true"]}));
    let left = working.end().await.unwrap_err();
    assert!(matches!(&left, FleetError::Removed { path } if *path == data), "{left}");
    assert!(left.to_string().contains("was removed"), "{left}");
}

pub async fn until_there(path: &std::path::Path) {
    let there = async {
        while !path.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), there).await.expect("the command makes a file");
}
