//! People are shown by the names of their tokens, wherever the server says them.

use serde_json::{Value, json};

use crate::fake::{Fake, ok};
use crate::jobs::ID;

const TOKEN: &str = "token:2h3463nfj9yk1hn9";

fn ann() -> Value {
    json!({"id": TOKEN, "name": "ann"})
}

fn server() -> Fake {
    Fake::start(|asked, _| {
        let answer = match asked.path() {
            "GET /events" => json!({"events": [{"event_id": "e1", "ts": "2026-01-03T11:59:00Z", "severity": "info",
                "type": "job_canceled", "message": "Canceled", "actor": ann(), "data": {"job_id": ID, "by": TOKEN}}]}),
            "GET /resources/secret_ref" => {
                json!({"resources": [{"name": "db", "active": 1, "by": TOKEN, "actor": ann(),
                "updated_at": "2026-01-03T11:59:00Z", "spec": {"ref": "env:DB"}}]})
            }
            "GET /triggers" => {
                json!({"triggers": [{"name": "orders", "active": true, "enabled": true, "owner": ann()}]})
            }
            "GET /triggers/orders" => json!({"name": "orders", "active": true, "enabled": true, "owner": ann()}),
            path if path.starts_with("GET /dlq/") => json!({"entries": [{"job_id": ID, "status": "purged",
                "closed_by": TOKEN, "closer": ann()}]}),
            path if path.ends_with("/hosts") => json!({"hosts": [{"host": "web1", "status": "blocked", "attempts": 0,
                "blocked": {"block_id": 1, "reason": "repair", "by": TOKEN, "actor": ann()}}], "next_cursor": null}),
            _ => {
                json!({"job": {"id": ID, "status": "canceled", "type": "bowline.command", "created_at": "2026-01-03T11:59:00Z",
                "finished_at": "2026-01-03T11:59:01Z"}, "runs": [], "command": {"inventory": "main", "selector": "all",
                "hosts": {"total": 1, "begun": 0, "by_status": {"new": 1}}, "approval": {"state": "rejected",
                "votes": [{"by": TOKEN, "actor": ann(), "approved": false, "reason": "not today"}]}}})
            }
        };
        ok(answer.to_string())
    })
}

#[tokio::test]
async fn people_are_shown_by_name_and_not_by_the_id_of_a_token() {
    let commands: [&[&str]; 8] = [
        &["events"],
        &["secret", "list"],
        &["trigger", "list"],
        &["trigger", "show", "orders"],
        &["dlq", "list", "low"],
        &["job", "hosts", ID, "--status", "blocked"],
        &["job", "get", ID],
        &["job", "watch", ID],
    ];
    for args in commands {
        let ran = server().run(args).await;
        let said = format!("{}{}", ran.out, ran.err);
        assert!(said.contains("ann") && !said.contains(TOKEN), "{args:?}: {said}");
    }
    let rejected = server().run(&["job", "watch", ID]).await;
    assert!(rejected.out.contains("approval rejected by ann: not today"), "{}", rejected.out);
}
