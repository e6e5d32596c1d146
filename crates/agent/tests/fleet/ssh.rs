//! Commands on hosts without an agent, over a real sshd.

use std::path::Path;

use bowline_agent::fleet::{FleetSettings, Reach, SshSettings};
use bowline_testkit::Sshd;
use serde_json::{Value, json};

use crate::crash::Process;
use crate::fake::{Fake, JOIN, Working, task};
use crate::local::until_there;

fn settings(fake: &Fake, sshd: &Sshd, data: &Path) -> FleetSettings {
    let mut ssh = SshSettings::new(sshd.user());
    ssh.key_files = vec![sshd.client_key()];
    ssh.known_hosts = vec![sshd.known_hosts(["127.0.0.1"])];
    let mut settings = fake.settings(data);
    settings.reach = Some(Reach::Ssh(ssh));
    settings
}

fn connection(sshd: &Sshd) -> Value {
    json!({"via": "ssh", "address": "127.0.0.1", "port": sshd.port()})
}

fn id(task: &Value) -> String {
    task["task_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_command_over_ssh_is_told_like_any_other() {
    let (fake, sshd, room) = (Fake::start().await, Sshd::start(), tempfile::tempdir().unwrap());
    let secrets = room.path().join("secrets");
    std::fs::create_dir(&secrets).unwrap();
    std::fs::write(secrets.join("db"), "hunter22").unwrap();
    let mut settings = settings(&fake, &sshd, &room.path().join("data"));
    settings.secrets = Some(secrets);
    let working = Working::start(settings).await;
    let script = "echo $PARAM_WHO on $BOWLINE_HOST; echo $PASSWORD >&2; cat; exit 3";
    let spec = json!({"script": script, "params": {}, "secrets": {"PASSWORD": "db"}, "stdin": "in\n"});
    let task = task(&connection(&sshd), "db-7", &json!({"spec": spec, "params": {"who": "$(id)"}}));
    let run = id(&task);
    fake.set(|state| state.queue.push_back(task));
    let end = fake.until_ended(&run).await;
    assert_eq!((&end["exit_code"], &end["error"]["message"]), (&json!(3), &json!("exit code 3")), "{end}");
    assert_eq!(fake.get(|state| state.text(&run, "stdout")), "$(id) on db-7\nin\n");
    assert_eq!(fake.get(|state| state.text(&run, "stderr")), "***\n");
    let kinds = fake.get(|state| state.kinds(&run));
    assert_eq!((kinds[0].as_str(), kinds.last().unwrap().as_str()), ("connecting", "ended"));
    let registered = fake.get(|state| {
        let said = state.bodies.iter().find(|said| said.0 == crate::fake::Word::Register);
        said.unwrap().1["labels"].clone()
    });
    assert_eq!(registered, json!({"bowline/reach": "ssh"}));
    working.stop().await;
    assert_eq!(std::fs::read_dir(room.path().join("data/runs")).unwrap().count(), 0);
    fake.assert_right();
}

#[tokio::test]
async fn a_host_that_cannot_be_reached_and_a_command_that_is_canceled() {
    let (fake, sshd, room) = (Fake::start().await, Sshd::start(), tempfile::tempdir().unwrap());
    let working = Working::start(settings(&fake, &sshd, room.path())).await;
    let (started, spec) = (room.path().join("started"), |text: String| json!({"spec": {"script": text}}));
    let mut first = task(&connection(&sshd), "db-7", &spec(format!("touch {}; sleep 1000", started.display())));
    first["params"]["host"]["lock"] = json!("exclusive");
    let mut busy = task(&connection(&sshd), "db-7", &spec("true".to_owned()));
    busy["params"]["host"]["lock"] = json!("exclusive");
    let mut nobody = task(&json!({"via": "ssh", "address": "127.0.0.1", "port": 1}), "db-8", &spec("true".to_owned()));
    nobody["params"]["host"]["id"] = json!(8);
    let (first_id, busy_id, nobody_id) = (id(&first), id(&busy), id(&nobody));
    fake.set(|state| state.queue.push_back(first));
    until_there(&started).await;
    fake.set(|state| state.queue.extend([busy, nobody]));
    let end = fake.until_ended(&busy_id).await;
    assert!(end["error"]["message"].as_str().unwrap().contains(&first_id), "{end}");
    let end = fake.until_ended(&nobody_id).await;
    assert_eq!((&end["status"], &end["error"]["class"]), (&json!("failure"), &json!("unreachable")), "{end}");
    fake.set(|state| assert!(state.cancel.insert(first_id.clone())));
    assert_eq!(fake.until_ended(&first_id).await["status"], "canceled");
    working.stop().await;
    fake.assert_right();
}

#[tokio::test]
async fn an_agent_that_is_killed_in_the_middle_says_so_and_starts_nothing_again() {
    let (fake, sshd, room) = (Fake::start().await, Sshd::start(), tempfile::tempdir().unwrap());
    let (data, starts) = (room.path().join("data"), room.path().join("starts"));
    let known_hosts = sshd.known_hosts(["127.0.0.1"]);
    let start = || {
        let (key, known) = (sshd.client_key(), known_hosts.clone());
        let more = [sshd.user().into(), key.into_os_string(), known.into_os_string()];
        Process::start(&fake, &data, JOIN, more)
    };
    let mut first = start();
    let script = format!("echo before; echo x >> {}; sleep 1000", starts.display());
    let task = task(&connection(&sshd), "db-7", &json!({"spec": {"script": script}}));
    let run = id(&task);
    fake.set(|state| state.queue.push_back(task.clone()));
    fake.until("its output", |state| (state.text(&run, "stdout") == "before\n").then_some(())).await;
    until_there(&starts).await;
    first.kill();
    let _second = start();
    let end = fake.until_ended(&run).await;
    assert_eq!((&end["error"]["class"], end.get("exit_code")), (&json!("lost"), None), "{end}");
    // The same attempt, handed out under another name.
    let mut again = task;
    again["task_id"] = json!(crate::fake::id(crate::fake::next()));
    let again_id = id(&again);
    fake.set(|state| state.queue.push_back(again));
    assert_eq!(fake.until_ended(&again_id).await["error"]["class"], "lost");
    assert_eq!(std::fs::read_to_string(&starts).unwrap(), "x\n", "one start");
    fake.assert_right();
}

#[tokio::test]
async fn what_a_command_leaves_running_ends_with_it_unless_its_type_wants_it_to_stay() {
    let (fake, sshd, room) = (Fake::start().await, Sshd::start(), tempfile::tempdir().unwrap());
    let working = Working::start(settings(&fake, &sshd, room.path())).await;
    let pid_file = |name: &str| room.path().join(name);
    let script =
        |name: &str| format!("setsid sleep 1000 >/dev/null 2>&1 & echo $! > {}; exit 0", pid_file(name).display());
    let is_there = |name: &str| {
        let pid = std::fs::read_to_string(pid_file(name)).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z")
    };
    let ended = task(&connection(&sshd), "db-7", &json!({"spec": {"script": script("ended")}}));
    let ended_id = id(&ended);
    fake.set(|state| state.queue.push_back(ended));
    let end = fake.until_ended(&ended_id).await;
    assert_eq!((&end["status"], &end["result"]), (&json!("success"), &json!({"children": {"ended": 1}})), "{end}");
    assert!(!is_there("ended"), "the run ends when they are gone");
    assert!(fake.get(|state| state.kinds(&ended_id)).contains(&"children".to_owned()));
    let stays = task(&connection(&sshd), "db-7", &json!({"spec": {"script": script("stays"), "leave_children": true}}));
    let stays_id = id(&stays);
    fake.set(|state| state.queue.push_back(stays));
    let end = fake.until_ended(&stays_id).await;
    assert_eq!(end["result"], json!({"children": {"left": 1}}), "{end}");
    assert!(is_there("stays"));
    let pid = std::fs::read_to_string(pid_file("stays")).unwrap();
    std::process::Command::new("kill").arg(pid.trim()).status().unwrap();
    working.stop().await;
    fake.assert_right();
}
