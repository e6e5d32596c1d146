//! What a command leaves running, and the host that others wait for.

use std::path::Path;
use std::time::Duration;

use bowline_testkit::until;
use serde_json::{Value, json};

use super::scene::{Fleet, ask, server};
use crate::support::TestServer;

/// A command that ends at once and leaves a child behind. The child ends when `go` is there, or when it is killed, and for no
/// signal that it can catch.
fn leaving(directory: &Path, leave_children: bool) -> Value {
    let script = format!(
        "(trap 'echo asked >> {0}/words' TERM; echo child >> {0}/words; \
         while [ ! -e {0}/go ]; do sleep 0.05; done) & \
         echo $! > {0}/child; until grep -q child {0}/words; do sleep 0.05; done; echo parent-ended >> {0}/words",
        directory.display()
    );
    let command = json!({"script": script, "leave_children": leave_children});
    json!({"command": command, "selector": "all"})
}

/// A command that sees whether that child is still there.
fn next(directory: &Path) -> Value {
    let script = format!(
        "kill -0 $(cat {0}/child) && echo beside-it >> {0}/words || echo alone >> {0}/words",
        directory.display()
    );
    json!({"command": {"script": script}, "selector": "all"})
}

fn words(directory: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(directory.join("words")).unwrap_or_default();
    let mut words: Vec<String> = text.lines().map(str::to_owned).collect();
    // It may be asked more than once.
    words.dedup();
    words
}

async fn until_said(directory: &Path, word: &str) {
    until(Duration::from_secs(60), &format!("`{word}` is said"), async || {
        let words = words(directory);
        if words.iter().any(|said| said == word) { Ok(()) } else { Err(words) }
    })
    .await;
}

/// The first command has the host, and the second one waits for it. Not seen if the child has been killed meanwhile.
async fn until_waiting(server: &TestServer, directory: &Path, first: &str, second: &str) {
    until(Duration::from_secs(60), "the next command waits for the host", async || {
        let shown = server.get("/hosts/web1/queue").await.expect(200);
        let queue = shown["queue"].as_array().expect("a queue").iter();
        let queue: Vec<(&str, bool)> =
            queue.map(|at| (at["job_id"].as_str().expect("a job"), at["held"] == true)).collect();
        let is_seen = queue.contains(&(first, true)) && queue.contains(&(second, false));
        if is_seen || words(directory).contains(&"alone".to_owned()) { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn a_host_is_free_when_the_children_of_a_command_have_ended() {
    let server = server().await;
    let fleet = Fleet::join(&server, &server.url("")).await;
    let directory = fleet.directory.path();
    let first = ask(&server, leaving(directory, false)).await;
    // The command itself is over, and its child is asked to end.
    until_said(directory, "asked").await;
    let second = ask(&server, next(directory)).await;
    until_waiting(&server, directory, &first, &second).await;
    std::fs::write(directory.join("go"), "").expect("a file");
    server.until_status(&first, "success").await;
    server.until_status(&second, "success").await;
    assert_eq!(words(directory), ["child", "parent-ended", "asked", "alone"]);
}

#[tokio::test]
async fn a_host_is_free_at_once_when_children_may_stay() {
    let server = server().await;
    let fleet = Fleet::join(&server, &server.url("")).await;
    let directory = fleet.directory.path();
    let first = ask(&server, leaving(directory, true)).await;
    server.until_status(&first, "success").await;
    let second = ask(&server, next(directory)).await;
    server.until_status(&second, "success").await;
    assert_eq!(words(directory), ["child", "parent-ended", "beside-it"], "the child was not even asked");
    std::fs::write(directory.join("go"), "").expect("a file");
}
