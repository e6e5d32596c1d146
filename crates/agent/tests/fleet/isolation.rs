//! Whom an agent lets commands be, and what it lets them see: judged by what they could do.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bowline_agent::fleet::{FleetAgent, FleetError, IsolationSettings};
use bowline_execute::{Limits, Machine};
use serde_json::{Value, json};

use crate::fake::{Fake, Word, Working};

/// Says that something was not tested. Never where everything must be.
fn not_tested(why: &str) {
    eprintln!("NOT TESTED HERE: {why}");
    assert!(std::env::var_os("CI").is_none(), "this machine must be able to test everything: {why}");
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn commands_run_as_whom_the_agent_was_told_and_as_nobody_else() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let isolation = IsolationSettings {
        run_as: Some("nobody".to_owned()),
        allow_users: vec!["daemon".to_owned()],
        limits: Limits { file_max_bytes: Some(1_000), ..Limits::default() },
        ..IsolationSettings::default()
    };
    let mut settings = fake.settings(&room.path().join("data"));
    settings.isolation = isolation.clone();
    if !Machine::look(None).root {
        let refused = FleetAgent::open(settings).await.err();
        assert!(matches!(refused, Some(FleetError::NotRoot { .. })));
        return not_tested("only root can become another user");
    }
    set_mode(room.path(), 0o700);
    let closed = FleetAgent::open(settings.clone()).await.err();
    assert!(matches!(closed, Some(FleetError::Closed { .. })), "nobody cannot get to its data directory");
    set_mode(room.path(), 0o711);
    let working = Working::start(settings).await;
    let registered = |(word, body): &(Word, Value)| (*word == Word::Register).then(|| body.clone());
    let told = fake.until("its registration", |state| state.bodies.iter().find_map(registered)).await;
    let told = &told["resources"]["isolation"];
    assert_eq!((&told["run_as"], &told["allow_users"]), (&json!("nobody"), &json!(["daemon"])), "{told}");
    assert!(told["machine"]["limits"]["file_max_bytes"] == "process", "{told}");

    let who = "id -un; echo $HOME; head -c 2000 /dev/zero > file; wc -c < file";
    for (user, name) in [(json!(null), "nobody"), (json!("daemon"), "daemon")] {
        let run = fake.queue(&json!({"script": who, "user": user}));
        assert_eq!(fake.until_ended(&run).await["status"], "success");
        let out = fake.get(|state| state.text(&run, "stdout"));
        let lines: Vec<_> = out.lines().collect();
        assert_eq!((lines[0], lines[2]), (name, "1000"), "{out}");
        let started = fake.get(|state| state.events[&run][&1].clone());
        assert_eq!(started["limits"], json!({"file_max_bytes": "process"}));
    }
    for (user, words) in [("root", "does not run commands as root"), ("bin", "it may run them as nobody, daemon")] {
        let run = fake.queue(&json!({"script": who, "user": user}));
        let end = fake.until_ended(&run).await;
        assert_eq!(end["error"]["class"], "permanent", "{end}");
        assert!(end["error"]["message"].as_str().unwrap().contains(words), "{end}");
        let told = fake.get(|state| state.events[&run][&1].clone());
        assert_eq!(told["code"], "USER_NOT_ALLOWED", "{told}");
    }
    working.stop().await;
    fake.assert_right();
}

#[tokio::test]
async fn a_limit_that_nothing_holds_is_refused_where_it_is_asked_for_and_shown_where_it_is_not() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let mut settings = fake.settings(&room.path().join("data"));
    // No group can be made below a file, and nothing else holds a share of the processors.
    settings.isolation.cgroup_parent = Some("/cgroup.procs/group".into());
    settings.isolation.limits = Limits { cpu_max_percent: Some(150), ..Limits::default() };
    let working = Working::start(settings).await;
    let asking = fake.queue(&json!({"argv": ["true"], "limits": {"cpu_max_percent": 50}}));
    let end = fake.until_ended(&asking).await;
    assert_eq!((&end["status"], &end["error"]["class"]), (&json!("failure"), &json!("permanent")), "{end}");
    assert!(end["error"]["message"].as_str().unwrap().contains("nothing on this host holds cpu_max_percent"), "{end}");
    assert_eq!(fake.get(|state| state.events[&asking][&1]["code"].clone()), "NOT_ISOLATED");
    let plain = fake.queue(&json!({"argv": ["true"]}));
    assert_eq!(fake.until_ended(&plain).await["status"], "success");
    let started = fake.get(|state| state.events[&plain][&1].clone());
    assert_eq!(started["unenforced"], json!(["cpu_max_percent"]), "{started}");
    working.stop().await;
    fake.assert_right();
}

#[tokio::test]
async fn a_sandboxed_command_does_not_find_the_credential_and_a_free_one_does() {
    if let Err(why) = Machine::look(None).sandbox() {
        return not_tested(&why.to_string());
    }
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let data = room.path().join("data");
    let working = Working::start(fake.settings(&data)).await;
    let steal = format!("cat {0}/credential.json {0}/agent.key | grep -ac agent-token", data.display());
    for (sandbox, found) in [("none", "1\n"), ("standard", "0\n"), ("strict", "0\n")] {
        let run = fake.queue(&json!({"script": steal, "sandbox": sandbox}));
        fake.until_ended(&run).await;
        assert_eq!(fake.get(|state| state.text(&run, "stdout")), found, "sandbox {sandbox}");
    }
    working.stop().await;
    fake.assert_right();
}

#[tokio::test]
async fn commands_of_a_root_agent_are_somebody_else_unless_their_type_says_root() {
    if !Machine::look(None).root {
        return not_tested("only root can become another user");
    }
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    set_mode(room.path(), 0o711);
    let data = room.path().join("data");
    let steal =
        format!("id -un; cat {0}/credential.json {0}/agent.key 2>/dev/null | grep -ac agent-token", data.display());
    for (run_as, shares, root_may) in [(None, true, true), (Some("nobody".to_owned()), false, false)] {
        let mut settings = fake.settings(&data);
        settings.isolation = IsolationSettings { run_as, ..IsolationSettings::default() };
        fake.set(|state| state.bodies.clear());
        let working = Working::start(settings).await;
        let registered = |(word, body): &(Word, Value)| (*word == Word::Register).then(|| body.clone());
        let told = fake.until("its registration", |state| state.bodies.iter().find_map(registered)).await;
        assert_eq!(told["shares_agent_user"], json!(shares), "{told}");
        let run = fake.queue(&json!({"script": steal}));
        fake.until_ended(&run).await;
        assert_eq!(fake.get(|state| state.text(&run, "stdout")), "nobody\n0\n");
        let run = fake.queue(&json!({"script": steal, "user": "root"}));
        let end = fake.until_ended(&run).await;
        match root_may {
            true => assert_eq!(fake.get(|state| state.text(&run, "stdout")), "root\n1\n"),
            false => assert_eq!(end["error"]["class"], "permanent", "{end}"),
        }
        working.stop().await;
    }
    fake.assert_right();
}
