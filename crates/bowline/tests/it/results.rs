//! Results that are too large for the ledger are kept in the object store, and referred to.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Setup, TestServer};

const LIMITS: &str = "[quotas]\ninline_result_bytes = 100000\nresult_bytes = 3000000\n[limits]\nbody_bytes = 4000000\n";

fn bytes_of_results(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.path() {
            path if path.is_dir() => bytes_of_results(&path),
            path if path.to_string_lossy().contains("/result/") => entry.metadata().map_or(0, |file| file.len()),
            _ => 0,
        })
        .sum()
}

async fn fetch(server: &TestServer, path: &str) -> Value {
    let answer = server.http().get(server.url(path)).bearer_auth(server.admin()).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "application/json");
    serde_json::from_slice(&answer.bytes().await.expect("all of it")).expect("JSON")
}

fn cli(server: &TestServer, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(args).args(["--server", &server.url("")]).env("BOWLINE_TOKEN", server.admin());
    command
}

/// Without a pattern, so that packing it gains little.
fn noise(length: usize) -> String {
    let words = (0_u64..).map(|n| format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let mut text: String = words.take(length / 16 + 1).collect();
    text.truncate(length);
    text
}

#[tokio::test]
async fn a_large_result_of_the_built_in_worker_is_referred_to_and_streamed() {
    let server = TestServer::with(Setup { config: LIMITS.to_owned(), ..Setup::default() }).await;
    let payload = json!({"text": noise(2_500_000)});
    let job = server.submit(json!({"type": "echo", "payload": payload})).await;
    let shown = server.until_status(&job, "success").await;
    let stored = &shown["job"]["result_ref"];
    assert_eq!(stored["path"], format!("/jobs/{job}/result"));
    assert_eq!((stored["bytes"].as_u64(), shown["job"].get("result")), (Some(2_500_011), None));
    assert_eq!(fetch(&server, &format!("/jobs/{job}/result")).await, payload);
    assert!(bytes_of_results(&server.data_dir()) > 100_000, "it is in the object store");
    let small = server.submit(json!({"type": "echo", "payload": {"n": 1}})).await;
    let shown = server.until_status(&small, "success").await;
    assert_eq!((&shown["job"]["result"], shown["job"].get("result_ref")), (&json!({"n": 1}), None));
    assert_eq!(fetch(&server, &format!("/jobs/{small}/result")).await, json!({"n": 1}));
    // The command line prints it, and says where it is.
    let printed = cli(&server, &["job", "result", &job]).output().expect("it ends");
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    assert_eq!(serde_json::from_slice::<Value>(&printed.stdout).expect("JSON"), payload);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("result.json");
    let save = ["job", "result", &job, "--save", path.to_str().expect("a text")];
    let saved = cli(&server, &save).output().expect("it ends");
    assert!(saved.status.success() && saved.stdout.is_empty(), "{}", String::from_utf8_lossy(&saved.stderr));
    let text = std::fs::read(&path).expect("the file");
    assert_eq!(serde_json::from_slice::<Value>(&text).expect("JSON"), payload);
    // `-o` chooses the format here as everywhere.
    let printed = cli(&server, &["job", "result", &job, "-o", "json"]).output().expect("it ends");
    assert_eq!(serde_json::from_slice::<Value>(&printed.stdout).expect("JSON"), payload);
    let shown = cli(&server, &["job", "get", &job]).output().expect("it ends");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("2500011 bytes") && shown.contains("bowline job result"), "{shown}");
    let waiting = server.submit(json!({"type": "noop", "run_at": "2030-01-01T00:00:00Z"})).await;
    let none = server.get(&format!("/jobs/{waiting}/result")).await;
    assert_eq!((none.status, none.code()), (404, "RESULT_NOT_FOUND"));
}

#[tokio::test]
async fn a_result_beyond_the_limit_fails_a_built_in_run_and_is_refused_from_a_worker() {
    let server = TestServer::with(Setup { config: LIMITS.to_owned(), ..Setup::default() }).await;
    let job = server.submit(json!({"type": "echo", "payload": noise(3_000_001)})).await;
    let shown = server.until_status(&job, "dead").await;
    let error = shown["job"]["error"]["message"].as_str().expect("why").to_owned();
    assert!(error.contains("3000003") && error.contains("3000000") && error.contains("quotas.result_bytes"), "{error}");

    let token = server.worker("w1", &["t"]).await;
    let job = server.submit(json!({"type": "t"})).await;
    let tasks = server.send("GET", "/workers/w1/tasks?wait=5000", &token, None).await.expect(200);
    let run = tasks[0]["task_id"].as_str().expect("a run").to_owned();
    let end = |result: String| json!({"task_id": run, "fence": 1, "status": "success", "result": result});
    for length in [3_000_001, 3_400_000] {
        let refused = server.send("POST", "/tasks/result", &token, Some(end(noise(length)))).await;
        assert_eq!((refused.status, refused.code()), (413, "RESULT_TOO_LARGE"));
        assert_eq!(refused.body["error"]["details"], json!({"max_bytes": 3_000_000}));
    }
    assert_eq!(bytes_of_results(&server.data_dir()), 0, "nothing of what was refused is kept");
    assert_eq!(server.get(&format!("/jobs/{job}")).await.expect(200)["job"]["status"], "running");
    // Another worker's report leaves nothing behind either.
    let other = server.worker("w2", &["t"]).await;
    assert_eq!(server.send("POST", "/tasks/result", &other, Some(end(noise(200_000)))).await.status, 403);
    assert_eq!(bytes_of_results(&server.data_dir()), 0);
    // The run is the worker's still, and takes a result that fits.
    server.send("POST", "/tasks/result", &token, Some(end(noise(2_000_000)))).await.expect(200);
    let again = server.send("POST", "/tasks/result", &token, Some(end(noise(2_000_000)))).await.expect(200);
    assert_eq!(again["duplicate"], true);
    let shown = server.until_status(&job, "success").await;
    assert_eq!(shown["job"]["result_ref"]["bytes"], 2_000_002);
    assert_eq!(fetch(&server, &format!("/jobs/{job}/result")).await, json!(noise(2_000_000)));
    let used = server.get("/quotas").await.expect(200)["quotas"][1]["used"].as_u64().expect("a number");
    assert!(used >= 2_000_000, "its bytes count for the tenant: {used}");
}

#[tokio::test]
async fn a_workflow_gets_a_reference_to_a_large_result() {
    let server = TestServer::with(Setup { config: LIMITS.to_owned(), ..Setup::default() }).await;
    let workflow = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "big", "type": "task", "config": {"type": "echo", "payload": {"text": "{{ webhook.payload.text }}"}}},
            {"id": "end", "type": "end", "config": {"output": {"got": "{{ steps.big.output.result_ref.bytes }}"}}}
        ],
        "edges": [{"source": "start", "target": "big"}, {"source": "big", "target": "end"}]
    });
    let job = server.submit(json!({"workflow": workflow, "input": {"text": noise(200_000)}})).await;
    let shown = server.until_status(&job, "success").await;
    assert_eq!(shown["job"]["result"]["got"], 200_011, "{}", shown["job"]);
}
