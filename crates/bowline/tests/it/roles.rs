//! `serve --role` and `serve --in-memory`: who does which part of the work, and what stays of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bowline_testkit::{Child, free_port, fresh_database, until};
use serde_json::{Value, json};

use crate::support::{Setup, TestServer};

fn role(role: &str, database: &str, objects: &Path) -> Setup {
    let config = format!("[server]\nrole = {role:?}\nobjects_dir = {:?}\n", objects.display().to_string());
    Setup { database_url: Some(database.to_owned()), config, ..Setup::default() }
}

#[tokio::test]
async fn an_api_server_takes_jobs_that_a_worker_server_executes() {
    let (database, objects) = (fresh_database(), tempfile::tempdir().expect("a directory"));
    let api = TestServer::with(role("api", database.url(), objects.path())).await;
    let echo = api.submit(json!({"type": "echo", "payload": {"n": 1}})).await;
    let nodes = json!([{"id": "start", "type": "start"}, {"id": "task", "type": "task", "config": {"type": "echo"}},
        {"id": "rest", "type": "sleep", "config": {"duration": "1ms"}}, {"id": "end", "type": "end"}]);
    let edges = json!([{"source": "start", "target": "task"}, {"source": "task", "target": "rest"},
        {"source": "rest", "target": "end"}]);
    let execution = api.submit(json!({"workflow": {"nodes": nodes, "edges": edges}})).await;
    // Remote workers are served here, and so nothing else can have taken the job meanwhile.
    let worker = api.worker("remote", &["other"]).await;
    let mine = api.submit(json!({"type": "other"})).await;
    let tasks = api.send("GET", "/workers/remote/tasks?wait=5000", &worker, None).await.expect(200);
    assert_eq!(tasks[0]["job_id"], mine.as_str(), "{tasks}");
    assert_eq!(api.get(&format!("/jobs/{echo}")).await.expect(200)["job"]["status"], "queued");

    let background = TestServer::with(role("worker", database.url(), objects.path())).await;
    for job in [&echo, &execution] {
        api.until_status(job, "success").await;
    }
    // What comes while both are there is heard at once.
    let later = api.submit(json!({"type": "echo"})).await;
    api.until_status(&later, "success").await;

    assert!(!background.data_dir().join("admin.token").exists(), "a token would be of no use there");
    for path in ["/jobs", "/whoami", "/openapi.json"] {
        assert_eq!(background.send("GET", path, &api.admin(), None).await.status, 404, "{path}");
    }
    assert_eq!(background.send("GET", "/metrics", &api.admin(), None).await.status, 200);
    assert_eq!(background.send("GET", "/metrics", "wrong", None).await.status, 401);
    assert_eq!(background.try_send("GET", "/health", None, None).await.expect("an answer").status, 200);
}

fn serve(args: &[&str], env: Option<(&str, &str)>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.arg("serve").args(args);
    for name in ["DATABASE_URL", "PORT", "LOG_LEVEL", "BOWLINE_URL", "BOWLINE_TOKEN", "BOWLINE_CONFIG"] {
        command.env_remove(name);
    }
    command.envs(env);
    command
}

#[test]
fn the_embedded_ledger_belongs_to_one_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    for role in ["api", "worker"] {
        let refused =
            serve(&["--role", role, "--data-dir", &data_dir.display().to_string()], None).output().expect("it runs");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("needs PostgreSQL"), "{said}");
        assert!(!data_dir.exists(), "nothing was made");
    }
}

/// Where a server that keeps nothing keeps it meanwhile.
fn token_file(child: &Child) -> Result<PathBuf, String> {
    let log = child.log();
    let listening = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let file = listening.into_iter().find_map(|line| Some(PathBuf::from(line.get("token.file")?.as_str()?)));
    file.ok_or(log)
}

#[tokio::test]
async fn nothing_is_kept_in_memory() {
    let here = tempfile::tempdir().expect("a directory");
    let listen = format!("127.0.0.1:{}", free_port());
    let start = || {
        let mut command = serve(&["--in-memory", "--listen", &listen], None);
        command.current_dir(here.path()).env("TMPDIR", here.path());
        Child::spawn(command, "bowline")
    };
    let listening = async |child: &Child| {
        let child = until(Duration::from_secs(30), "the server listens", async || token_file(child));
        child.await.parent().expect("a directory").to_owned()
    };
    let child = start();
    let data_dir = listening(&child).await;
    assert!(data_dir.starts_with(here.path()) && data_dir.join("bowline.db").exists(), "{}", data_dir.display());
    child.kill_9();
    child.wait_exit(Duration::from_secs(10)).await;
    // A killed one cannot clean up. The next one does, and then for itself.
    let child = start();
    let next = listening(&child).await;
    assert!(!data_dir.exists() && next.exists());
    child.term();
    assert!(child.wait_exit(Duration::from_secs(30)).await.success(), "{}", child.log());
    assert_eq!(std::fs::read_dir(here.path()).expect("it is there").count(), 0, "nothing was left");

    let url = ("DATABASE_URL", "postgres://localhost/x");
    for (args, env) in [(&["--in-memory"][..], Some(url)), (&["--in-memory", "--data-dir", "x"], None)] {
        let refused = serve(args, env).current_dir(here.path()).output().expect("it runs");
        assert!(!refused.status.success() && !refused.stderr.is_empty(), "{args:?}");
    }
}
