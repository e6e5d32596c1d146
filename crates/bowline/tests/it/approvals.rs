//! The list of what waits for somebody to say yes: nodes of workflows and commands on hosts, page by page.

use bowline_testkit::fresh_database;
use serde_json::{Value, json};

use crate::support::{Setup, TestServer};

fn asking(title: &str) -> Value {
    json!({
        "nodes": [{"id": "start", "type": "start"}, {"id": "ask", "type": "approval", "config": {"title": title, "four_eyes": false}},
            {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "ask"}, {"source": "ask", "target": "end"}],
    })
}

/// The jobs of all pages of this size, and how many pages there were.
async fn walk(server: &TestServer, size: usize) -> (Vec<String>, usize) {
    let (mut seen, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let page = server.get(&format!("/approvals?limit={size}{cursor}")).await.expect(200);
        let items = page["approvals"].as_array().expect("a list");
        assert!(items.len() <= size, "{page}");
        seen.extend(items.iter().map(|item| item["job_id"].as_str().expect("an id").to_owned()));
        pages += 1;
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (seen, pages),
        }
    }
}

async fn pages_are_whole(setup: Setup) {
    let server = TestServer::with(setup).await;
    server.simulated_hosts(1).await;
    let spec = json!({"spec": {"argv": ["true"], "approval": {"four_eyes": false}}});
    server.send("PUT", "/resources/command/restart", &server.admin(), Some(spec)).await.expect(201);
    let mut expected = Vec::new();
    for n in 0..7 {
        let body = json!({"workflow": asking(&format!("Number {n}?"))});
        expected.push(server.post("/jobs", body).await.expect(202)["job_id"].as_str().expect("an id").to_owned());
    }
    for _ in 0..3 {
        let body = json!({"command": "restart", "selector": "all"});
        expected.push(server.post("/jobs", body).await.expect(202)["job_id"].as_str().expect("an id").to_owned());
    }
    for size in [1, 2, 3, 7, 8, 10, 100] {
        assert_eq!(walk(&server, size).await.0, expected, "in pages of {size}");
    }
    assert_eq!(walk(&server, 100).await.1, 1);
    // What is decided in the middle of a walk throws nobody off.
    let first = server.get("/approvals?limit=3").await.expect(200);
    server.post(&format!("/jobs/{}/approve", expected[2]), json!({})).await.expect(200);
    let cursor = first["next_cursor"].as_str().expect("there is more");
    let second = server.get(&format!("/approvals?limit=2&cursor={cursor}")).await.expect(200);
    assert_eq!(
        (&second["approvals"][0]["title"], &second["approvals"][1]["title"]),
        (&json!("Number 3?"), &json!("Number 4?"))
    );
    let other = server.get("/jobs?limit=1").await.expect(200);
    let other = other["next_cursor"].as_str().expect("there is more");
    assert_eq!(server.get(&format!("/approvals?cursor={other}")).await.status, 400, "a cursor of another list");
}

#[tokio::test]
async fn every_approval_is_on_one_page() {
    pages_are_whole(Setup::default()).await;
}

#[tokio::test]
async fn every_approval_is_on_one_page_on_postgresql() {
    let database = fresh_database();
    pages_are_whole(Setup { database_url: Some(database.url().to_owned()), ..Setup::default() }).await;
}
