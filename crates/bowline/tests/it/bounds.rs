//! No tenant can take the server down: what is too much is refused, and the others do not notice.

use std::path::Path;
use std::time::Duration;

use bowline_testkit::until;
use serde_json::{Value, json};

use crate::support::TestServer;

/// Each definition names the next one twice: 2^`levels` errors, in a schema of a few hundred bytes.
fn bomb(levels: usize) -> Value {
    let mut defs: serde_json::Map<String, Value> = (0..levels)
        .map(|n| {
            let next = json!({"$ref": format!("#/$defs/a{}", n + 1)});
            (format!("a{n}"), json!({"anyOf": [next.clone(), next]}))
        })
        .collect();
    defs.insert(format!("a{levels}"), json!(false));
    json!({"type": "object", "additionalProperties": true, "$ref": "#/$defs/a0", "$defs": defs})
}

fn files_under(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.filter_map(Result::ok) {
        if entry.path().is_dir() {
            found.extend(files_under(&entry.path()));
        } else {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn a_schema_that_unfolds_to_too_much_is_refused_wherever_it_comes_from() {
    let server = TestServer::start().await;
    server.simulated_hosts(1).await;
    let spec = json!({"spec": {"argv": ["true"], "params": bomb(26)}});
    let refused = server.send("PUT", "/resources/command/bomb", &server.admin(), Some(spec)).await;
    assert_eq!((refused.status, refused.code()), (422, "VALIDATION_ERROR"));
    assert!(refused.body.to_string().contains("unfolds to"), "{}", refused.body);
    let inline = json!({"command": {"argv": ["true"], "params": bomb(26)}, "params": {"a": 1}, "selector": "all"});
    let refused = server.post("/jobs", inline).await;
    assert_eq!(refused.status, 422, "{}", refused.body);
    server.get("/healthz").await.expect(200);
}

#[tokio::test]
async fn a_schema_that_was_stored_before_there_was_a_bound_is_found_and_harms_nobody() {
    let mut server = TestServer::start().await;
    server.simulated_hosts(1).await;
    let harmless = json!({"spec": {"argv": ["true"], "params": {"type": "object"}}});
    server.send("PUT", "/resources/command/old", &server.admin(), Some(harmless)).await.expect(201);
    let start = json!({"command": "old", "params": {"a": 1}, "selector": "all"});
    let schedule = json!({"spec": {"every_ms": 1000, "start": start}});
    server.send("PUT", "/resources/schedule/again", &server.admin(), Some(schedule)).await.expect(201);
    server.stop().await;
    let ledger =
        rusqlite::Connection::open(server.data_dir().join("bowline.db")).expect("the ledger of a stopped server");
    let spec = json!({"argv": ["true"], "params": bomb(26)}).to_string();
    let changed = ledger.execute(
        "update resource_version set spec = ?1 where resource = (select id from resource where name = 'old')",
        [&spec],
    );
    assert_eq!(changed.expect("written"), 1, "the evidence of the fault");
    drop(ledger);
    let found = server.command("doctor").env("BOWLINE_URL", server.url("")).output().expect("doctor runs");
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(!found.status.success() && text.contains("command old version 1") && text.contains("unfolds to"), "{text}");

    server.start_again().await;
    let refused = server.post("/jobs", json!({"command": "old", "params": {"a": 1}, "selector": "all"})).await;
    assert_eq!(refused.status, 422, "{}", refused.body);
    until(Duration::from_secs(30), "the schedule says why it starts nothing", async || {
        let shown = server.get("/schedules/again").await.expect(200).to_string();
        if shown.contains("unfolds to") { Ok(()) } else { Err(shown) }
    })
    .await;
    server.get("/healthz").await.expect(200);
}

#[tokio::test]
async fn an_agent_brings_no_more_than_its_command_allows_and_what_is_refused_is_gone() {
    let server = TestServer::start().await;
    server.simulated_hosts(1).await;
    let agent = server.agent("agent-1", json!({"bowline/reach": "simulate"})).await;
    let spec = json!({"argv": ["x"], "output_max_bytes": 1024});
    server.post("/jobs", json!({"command": spec, "selector": "all"})).await.expect(202);
    let run = agent.tasks(1).await.remove(0)["task_id"].clone();
    let objects = server.data_dir().join("objects/runs");

    let long = agent.bring(&run, "stdout", 0, &[b'x'; 1025]).await;
    assert_eq!((long.status, long.code()), (413, "OUTPUT_TOO_LONG"));
    assert_eq!(long.body["error"]["details"]["output_max_bytes"], 1024);
    assert_eq!(files_under(&objects), [""; 0]);

    agent.bring(&run, "stdout", 0, &[b'x'; 1000]).await.expect(200);
    assert_eq!(agent.bring(&run, "stdout", 1000, &[b'y'; 25]).await.code(), "OUTPUT_TOO_LONG");
    assert_eq!(agent.bring(&run, "stderr", 0, &[b'y'; 1024]).await.expect(200)["stored"], 1024, "each stream");
    // Behind a gap nothing is compared before it is written, so the ledger decides.
    agent.bring(&run, "stdout", 1010, b"first").await.expect(200);
    for other in [&b"other"[..], b"third", b"forth"] {
        assert_eq!(agent.bring(&run, "stdout", 1010, other).await.code(), "OUTPUT_CONFLICT");
    }
    let left = files_under(&objects);
    assert_eq!(left.len(), 3, "two ranges of stdout, one of stderr: {left:?}");
}
