//! Secrets of the server, from the reference to the command that uses them: with a real server and a real agent, and with a
//! search through everything either of them leaves behind.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bowline_testkit::{Child, until};
use serde_json::{Value, json};

use crate::support::{Setup, TestServer};

const PATIENCE: Duration = Duration::from_secs(60);
/// Characters that every encoding writes differently.
const VALUE: &str = "p\"a/s&s w%rd-7b3e91c0";

/// A server that logs everything, with a secret in a file and one in its environment.
async fn server() -> TestServer {
    let config = "[log]\nlevel = \"debug\"\n\
                  [secrets.tenants.default]\nplaces = [\"file\", \"env\"]\nenv_prefix = \"ACME_\"\n"
        .to_owned();
    let env = vec![("ACME_KEY".to_owned(), "from-the-environment-4c1".to_owned())];
    let server = TestServer::with(Setup { config, env, ..Setup::default() }).await;
    keep(&server, "db", VALUE, 0o600);
    server
}

fn keep(server: &TestServer, name: &str, value: &str, mode: u32) {
    let directory = server.data_dir().join("secrets/default");
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join(name), value).expect("a file");
    fs::set_permissions(directory.join(name), Permissions::from_mode(mode)).expect("its mode");
}

async fn refer(server: &TestServer, name: &str, spec: Value) {
    let path = format!("/resources/secret_ref/{name}");
    let put = server.send("PUT", &path, &server.admin(), Some(json!({"spec": spec}))).await;
    assert!(put.status < 300, "{}", put.body);
}

struct Agent {
    directory: tempfile::TempDir,
    process: Option<Child>,
    url: String,
}

impl Agent {
    async fn join(server: &TestServer) -> Self {
        let join = server.join_token(json!({})).await;
        server.send("PUT", "/hosts/web1", &server.admin(), Some(json!({}))).await.expect(201);
        let directory = tempfile::tempdir().expect("a directory");
        let mut agent = Self { directory, process: None, url: server.url("") };
        agent.start(Some(&join));
        until(PATIENCE, "the agent has registered", async || {
            let workers = server.get("/workers").await.expect(200);
            workers["workers"].as_array().is_some_and(|list| list.iter().any(|worker| worker["worker_id"] == "web1"))
        })
        .await;
        agent
    }

    fn start(&mut self, join: Option<&str>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        command.args([
            "agent",
            "--share-user",
            "--server",
            &self.url,
            "--name",
            "web1",
            "--log-level",
            "debug",
            "--data",
        ]);
        command.arg(self.data()).args(join.iter().flat_map(|join| ["--join", join]));
        self.process = Some(Child::spawn(command, "agent"));
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("agent")
    }

    fn process(&self) -> &Child {
        self.process.as_ref().expect("the agent runs")
    }
}

async fn output(server: &TestServer, job: &str) -> String {
    let url = server.url(&format!("/jobs/{job}/output?host=web1"));
    let answer = server.http().get(url).bearer_auth(server.admin()).send().await.expect("an answer");
    answer.text().await.expect("a body")
}

/// Every file under these directories that has the text in it.
fn found_in(directories: &[&Path], text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = directories.iter().map(|path| (*path).to_owned()).collect();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else if let Ok(bytes) = fs::read(&path)
            && bytes.windows(text.len()).any(|part| part == text.as_bytes())
        {
            found.push(path);
        }
    }
    found
}

/// B069, B071, B099 and the promise behind them: a value is in the command's environment and nowhere else.
#[tokio::test]
async fn a_value_reaches_the_command_and_nothing_else() {
    let server = server().await;
    refer(&server, "db", json!({"ref": "file://db", "version": "1", "commands": ["*"]})).await;
    refer(&server, "key", json!({"ref": "env://ACME_KEY", "commands": ["*"]})).await;
    let mut agent = Agent::join(&server).await;
    let length = VALUE.len();
    let witness = agent.directory.path().join("witness");
    let script = format!(
        "printf 'plain %s\\n' \"$DB\"
         printf 'base64 %s\\n' \"$(printf %s \"$DB\" | base64 -w0)\"
         printf 'url %s\\n' \"$(printf %s \"$DB\" | sed 's/%/%25/g;s/\"/%22/g;s,/,%2F,g;s/&/%26/g;s/ /%20/g')\"
         printf 'json \"%s\"\\n' \"$(printf %s \"$DB\" | sed 's/\"/\\\\\"/g')\"
         printf 'split %s' \"$(printf %s \"$DB\" | head -c 9)\"; sleep 0.3; printf '%s\\n' \"$(printf %s \"$DB\" | tail -c +10)\"
         printf 'error %s\\n' \"$DB\" >&2
         printf 'length %s %s\\n' \"${{#DB}}\" \"$KEY\"
         tr '\\0' ' ' < /proc/$$/cmdline | grep -c -F \"$DB\" > {file}.new
         mv {file}.new {file}; sleep 2; exit 3",
        file = witness.display(),
    );
    let command = json!({"script": script, "secrets": {"DB": "secret://db", "KEY": "secret://key"}});
    server.send("PUT", "/resources/command/use", &server.admin(), Some(json!({"spec": command}))).await.expect(201);
    let job = server.submit(json!({"command": "use", "selector": "web1"})).await;
    until(PATIENCE, "the command has printed everything", async || witness.exists()).await;
    assert_eq!(fs::read_to_string(&witness).expect("the witness").trim(), "0", "it is on the command line");
    // While it runs: no process shows it on its command line, and neither agent nor keeper nor server in its environment.
    for process in fs::read_dir("/proc").expect("/proc").flatten() {
        let read = |file: &str| fs::read(process.path().join(file)).unwrap_or_default();
        let has = |bytes: &[u8]| bytes.windows(length).any(|part| part == VALUE.as_bytes());
        assert!(!has(&read("cmdline")), "{:?} shows it", process.path());
        if String::from_utf8_lossy(&read("cmdline")).starts_with(env!("CARGO_BIN_EXE_bowline")) {
            assert!(!has(&read("environ")), "{:?} has it in its environment", process.path());
        }
    }
    // The agent goes away and comes back: the keeper has what it needs.
    agent.process().kill_9();
    agent.start(None);
    let ended = server.until_status(&job, "failed").await;
    assert!(!ended.to_string().contains("p\\\"a/s"), "{ended}");
    let shown = until(PATIENCE, "all output is there", async || {
        let text = output(&server, &job).await;
        if text.contains("length") { Ok(text) } else { Err(text) }
    })
    .await;
    let lines: Vec<&str> = shown.lines().collect();
    let expected = ["plain ***", "base64 ***", "url ***", "json \"***\"", "split ***", "length 21 ***"];
    assert_eq!(lines, expected, "{shown}");
    // Another run does not have it, and its environment is its own.
    let other = server.submit(json!({"command": {"argv": ["env"]}, "selector": "web1"})).await;
    server.until_status(&other, "success").await;
    let environment = output(&server, &other).await;
    assert!(environment.contains("BOWLINE_HOST=web1"), "{environment}");
    assert!(!environment.contains("7b3e91c0") && !environment.contains("from-the-environment"), "{environment}");

    let mut server = server;
    let logs = server.child().output_directory();
    let agent_logs = agent.process().output_directory();
    server.stop().await;
    fs::remove_file(server.data_dir().join("secrets/default/db")).expect("the file of the secret");
    let data = server.data_dir();
    let everywhere = [data.as_path(), agent.directory.path(), logs.as_path(), agent_logs.as_path()];
    // Any encoding has this in it, except base64.
    let encoded = "cCJhL3Mmcy";
    for text in ["7b3e91c0", encoded, "from-the-environment"] {
        assert_eq!(found_in(&everywhere, text), Vec::<PathBuf>::new(), "{text} was left behind");
    }
    // The search finds what is there.
    fs::write(agent.data().join("planted"), format!("x{VALUE}y")).expect("a file");
    assert_eq!(found_in(&everywhere, "7b3e91c0"), [agent.data().join("planted")]);
    assert!(!found_in(&everywhere, "secret://db").is_empty(), "names are kept, and found");
}

/// B067, B068, B072, B073: no values, no foreign places, and nothing shown but references.
#[tokio::test]
async fn a_reference_is_checked_and_a_value_refused() {
    let server = server().await;
    let admin = server.admin();
    let put = async |kind: &str, spec: Value| {
        let path = format!("/resources/{kind}/x");
        server.send("PUT", &path, &admin, Some(json!({"spec": spec}))).await
    };
    for (reference, path) in [
        ("env://PATH", "spec.ref"),
        ("env://ORCH_DB_URL", "spec.ref"),
        ("env://*", "spec.ref"),
        ("file:///etc/shadow", "spec.ref"),
        ("file://../other/db", "spec.ref"),
        ("docker://../x", "spec.ref"),
        ("vault://kv/T2/x", "spec.ref"),
        ("fil\u{435}://db", "spec.ref"),
        (&*format!("file://{}", "x".repeat(100 * 1024)), "spec.ref"),
    ] {
        let answer = put("secret_ref", json!({ "ref": reference })).await;
        assert_eq!((answer.status, answer.code()), (422, "VALIDATION_ERROR"), "{}", answer.body);
        assert_eq!(answer.body["error"]["details"]["path"], path);
        assert!(answer.body.to_string().len() < 1_000, "the answer does not repeat it");
    }
    assert_eq!(put("secret_ref", json!({"ref": "file://x", "value": "hunter22"})).await.status, 422);
    let key = format!("sk_live_{}", "x".repeat(24));
    for spec in [
        json!({"argv": ["curl", "-H", key]}),
        json!({"argv": ["psql"], "env": {"PGPASSWORD": "a", "DB_PASSWORD": "hunter22"}}),
        json!({"script": format!("psql postgres://app:{}@db/main", "hunter22")}),
    ] {
        let answer = put("command", spec.clone()).await;
        assert_eq!((answer.status, answer.code()), (422, "POLICY_VIOLATION"), "{spec}: {}", answer.body);
        assert!(!answer.body.to_string().contains("hunter22"), "{}", answer.body);
        let job = json!({"command": spec, "selector": "all"});
        assert_eq!(server.post("/jobs", job).await.code(), "POLICY_VIOLATION");
    }
    refer(&server, "db", json!({"ref": "file://db", "version": "1", "commands": ["only-this"]})).await;
    let shown = server.get("/resources/secret_ref/db").await.expect(200);
    assert_eq!(shown["resource"]["spec"], json!({"ref": "file://db", "version": "1", "commands": ["only-this"]}));
    server.send("PUT", "/hosts/web1", &admin, Some(json!({}))).await.expect(201);
    for (named, problem) in [("secret://none", "NO_SECRET_REF"), ("secret://db", "NOT_FOR_THIS_COMMAND")] {
        let body = json!({"command": {"argv": ["true"], "secrets": {"A": named}}, "selector": "web1"});
        let answer = server.post("/jobs", body).await;
        assert_eq!((answer.status, answer.code()), (422, "SECRET_NOT_USABLE"), "{}", answer.body);
        let details = &answer.body["error"]["details"];
        assert_eq!((&details["field"], &details["problem"]), (&json!("command.secrets.A"), &json!(problem)));
    }
}

/// Whether a secret can be had is said by the server and by the command line, and what is wrong with it.
#[tokio::test]
async fn secrets_are_listed_and_tried_without_being_shown() {
    let server = server().await;
    keep(&server, "open", "hunter22", 0o644);
    refer(&server, "db", json!({"ref": "file://db", "commands": ["*"]})).await;
    refer(&server, "open", json!({"ref": "file://open"})).await;
    refer(&server, "none", json!({"ref": "env://ACME_NONE"})).await;
    let check = async |name: &str| server.post(&format!("/secrets/{name}/check"), json!({})).await;
    let fine = check("db").await.expect(200);
    assert_eq!((&fine["ok"], &fine["ref"]), (&json!(true), &json!("file://db")));
    let open = check("open").await.expect(200);
    assert_eq!((&open["ok"], &open["problem"]), (&json!(false), &json!("NO_VALUE")));
    assert!(open["message"].as_str().is_some_and(|text| text.contains("by others")), "{open}");
    assert_eq!(check("none").await.expect(200)["problem"], "NO_VALUE");
    assert_eq!(check("nothing").await.code(), "RESOURCE_NOT_FOUND");
    let bowline = |args: &'static [&'static str]| {
        let (url, token) = (server.url(""), server.admin());
        tokio::task::spawn_blocking(move || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
            let output = command.args(["--server", &url]).args(args).env("BOWLINE_TOKEN", token).output();
            let output = output.expect("the program runs");
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
        })
    };
    let (code, listed) = bowline(&["secret", "list"]).await.expect("it ends");
    assert!(code == Some(0) && listed.contains("env://ACME_NONE") && listed.contains("every command"), "{listed}");
    let (code, checked) = bowline(&["secret", "check"]).await.expect("it ends");
    assert_eq!(code, Some(1), "{checked}");
    assert!(checked.contains("db (file://db): ok") && checked.contains("open (file://open): secret open"), "{checked}");
    assert_eq!(bowline(&["secret", "check", "db"]).await.expect("it ends").0, Some(0));
    for text in [listed, checked, open.to_string()] {
        assert!(!text.contains("hunter22") && !text.contains("7b3e91c0"), "{text}");
    }
}

/// What cannot be resolved fails for good, before anything is begun, and does not say where it was looked for.
#[tokio::test]
async fn a_secret_without_a_value_fails_the_host_and_nothing_is_begun() {
    let server = server().await;
    refer(&server, "gone", json!({"ref": "file://not-there", "commands": ["*"]})).await;
    let agent = Agent::join(&server).await;
    let witness = agent.directory.path().join("witness");
    let spec = json!({
        "argv": ["touch", witness], "secrets": {"A": "secret://gone"}, "retry": {"max_attempts": 3},
    });
    let job = server.submit(json!({"command": spec, "selector": "web1"})).await;
    server.until_status(&job, "failed").await;
    let hosts = server.get(&format!("/jobs/{job}/hosts")).await.expect(200);
    let error = &hosts["hosts"][0]["error"];
    assert_eq!(error["class"], "permanent", "{hosts}");
    assert_eq!(error["message"], "it was not begun: secret gone has no value that can be used");
    assert!(!witness.exists());
    // Once it is there, the same job succeeds.
    keep(&server, "not-there", "now-it-is", 0o600);
    server.post(&format!("/jobs/{job}/retry"), json!({"reason": "the value is there"})).await.expect(200);
    server.until_status(&job, "success").await;
    assert!(witness.exists());
}

/// An agent without a key waits with the secrets it would need, and the job says so; once it shows a key it gets them. Nobody
/// else can show one for it.
#[tokio::test]
async fn an_agent_without_a_key_gets_no_secrets() {
    let server = server().await;
    refer(&server, "db", json!({"ref": "file://db", "commands": ["*"]})).await;
    server.send("PUT", "/hosts/web1", &server.admin(), Some(json!({}))).await.expect(201);
    let key = crate::support::agent::AgentKey::make();
    let join = server.join_token(json!({})).await;
    let body = key.request(&join, "web1");
    let enrolled = server.send("POST", "/agents/enroll", &join, Some(body)).await.expect(201);
    let token = enrolled["token"].as_str().expect("a token").to_owned();
    let agent = crate::support::agent::TestAgent { server: &server, name: "web1".to_owned(), token };
    agent.register(json!({})).await.expect(200);
    assert_eq!(agent.register(json!({"bowline/sealing": "x25519"})).await.status, 403, "the label is given, not taken");

    let spec = json!({"argv": ["true"], "secrets": {"A": "secret://db"}});
    let job = server.submit(json!({"command": spec, "selector": "web1"})).await;
    let why = until(PATIENCE, "the reason is known", async || {
        let why = server.get(&format!("/jobs/{job}/why")).await.expect(200);
        let reasons = why["reasons"].as_array().cloned().unwrap_or_default();
        reasons.into_iter().find(|reason| reason["code"] == "no_sealing_key").ok_or_else(|| why.to_string())
    })
    .await;
    assert_eq!(why["data"], json!({"hosts": ["web1"], "agents": ["web1"]}), "{why}");
    assert!(agent.nothing_comes().await, "it has no key");

    let opening = bowline_seal::OpeningKey::make();
    let public = opening.sealing_key().to_bytes();
    let show = async |offer: Value| {
        let body = json!({"worker_id": "web1", "task_types": ["bowline.command"], "slots": 10, "sealing": offer, "shares_agent_user": false});
        agent.send("POST", "/workers/register", body).await
    };
    let forged = crate::support::agent::AgentKey::make();
    for offer in [
        forged.sealing_offer("web1", &public),
        key.sealing_offer("web2", &public),
        key.sealing_offer("web1", &[0; 32]),
        json!({"public_key": "", "signature": ""}),
        json!([]),
    ] {
        assert_eq!(show(offer.clone()).await.status, 400, "{offer}");
    }
    assert!(agent.nothing_comes().await, "still none");
    show(key.sealing_offer("web1", &public)).await.expect(200);
    let task = agent.tasks(1).await.remove(0);
    let (sealed, fence) = (task["sealed"].as_str().expect("an envelope"), task["fence"].as_u64().expect("a fence"));
    assert!(!task.to_string().contains("7b3e91c0"));
    use base64::Engine as _;
    let envelope = base64::engine::general_purpose::STANDARD.decode(sealed).expect("base64");
    let run = task["task_id"].as_str().and_then(|id| id.parse().ok()).expect("a run");
    let addressed = bowline_seal::Addressed { run, fence: u32::try_from(fence).expect("a fence") };
    let opened = bowline_seal::open(&envelope, &opening, addressed).expect("it is for us");
    assert_eq!(opened["secret://db"].reveal(), VALUE);
    // A worker that is no agent cannot have any.
    let worker = server.token(json!({"kind": "worker", "name": "w1"})).await;
    let body = json!({"worker_id": "w1", "task_types": ["mail"], "sealing": forged.sealing_offer("w1", &public)});
    assert_eq!(server.send("POST", "/workers/register", &worker, Some(body)).await.status, 403);
}

/// A secret is approved by where it is, not by what it says: a rotation between the approval and the start changes nothing, a
/// reference that points elsewhere does.
#[tokio::test]
async fn a_rotated_secret_is_still_what_was_approved() {
    let server = server().await;
    refer(&server, "db", json!({"ref": "file://db", "commands": ["use"]})).await;
    let mut agent = Agent::join(&server).await;
    let command = json!({
        "script": "printf 'length %s\\n' \"${#DB}\"", "secrets": {"DB": "secret://db"}, "approval": {"four_eyes": false},
    });
    server.send("PUT", "/resources/command/use", &server.admin(), Some(json!({"spec": command}))).await.expect(201);
    let approved = async || {
        let job = server.submit(json!({"command": "use", "selector": "web1"})).await;
        server.post(&format!("/jobs/{job}/approve"), json!({})).await.expect(200);
        job
    };
    drop(agent.process.take());
    let job = approved().await;
    keep(&server, "db", "rotated-value", 0o600);
    agent.start(None);
    server.until_status(&job, "success").await;
    assert_eq!(output(&server, &job).await, "length 13\n");

    drop(agent.process.take());
    let job = approved().await;
    keep(&server, "other", "another-value", 0o600);
    refer(&server, "db", json!({"ref": "file://other", "commands": ["use"]})).await;
    agent.start(None);
    let ended = server.until_status(&job, "failed").await;
    assert_eq!(ended["job"]["error"]["class"], "superseded", "{ended}");
}
