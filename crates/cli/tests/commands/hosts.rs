//! `hosts`: what is asked, and what people see of the answers.

use bowline_cli::Exit;
use serde_json::json;

use crate::fake::{Fake, Reply, ok, refused};

const HOSTS: &str = r#"{"hosts":[
{"id":1,"name":"db1","inventory":"main","labels":{"role":"db"},"groups":[],"vars":{},
 "connection":{"via":"ssh","address":"10.0.0.9","port":2222,"user":"ops"},"created_at":"2026-01-03T11:00:00Z","updated_at":"2026-01-03T11:59:00Z"},
{"id":2,"name":"site/web1","inventory":"main","labels":{"role":"web","site":"fra"},"groups":["web","prod"],"vars":{},
 "connection":{"via":"agent"},"created_at":"2026-01-03T11:00:00Z","updated_at":"2026-01-03T11:00:00Z"}],"total":2,"next_cursor":null}"#;

#[tokio::test]
async fn hosts_are_a_table() {
    let fake = Fake::with(&[("GET /hosts", HOSTS)]);
    let ran = fake.run(&["hosts", "list", "--on", "role=web | db*"]).await;
    insta::assert_snapshot!(ran.out, @r"
    HOST       REACHED BY             GROUPS     LABELS             CHANGED
    db1        ssh ops@10.0.0.9:2222             role=db            1m ago
    site/web1  agent                  web, prod  role=web site=fra  1h ago
    ");
    assert_eq!(fake.lines(), ["GET /hosts?inventory=main&selector=role%3Dweb+%7C+db*&limit=100"]);
    assert_eq!(fake.run(&["--json", "hosts", "list"]).await.json()["total"], 2);
    let none = Fake::with(&[("GET /hosts", r#"{"hosts":[],"next_cursor":null}"#)]);
    assert!(none.run(&["hosts", "list"]).await.out.contains("bowline hosts import"));
    assert!(none.run(&["hosts", "list", "--selector", "x"]).await.out.contains("No host is meant"));
}

#[tokio::test]
async fn a_host_is_shown_with_what_it_has_through_its_groups() {
    let fake = Fake::start(|_, _| {
        ok(
            r#"{"host":{"name":"site/web1","inventory":"main","labels":{"role":"web"},"groups":["web"],"vars":{},"connection":{"via":"agent"},
            "created_at":"2026-01-03T11:00:00Z","updated_at":"2026-01-03T11:00:00Z"},"all_groups":["prod","web"],"effective_vars":{"port":80}}"#,
        )
    });
    let ran = fake.run(&["hosts", "get", "site/web1", "--inventory", "i"]).await;
    insta::assert_snapshot!(ran.out, @r#"
    name        site/web1
    inventory   main
    reached by  agent
    labels      role=web
    groups      web
    all groups  prod, web
    created     1h ago
    changed     1h ago
    variables   {"port": 80}
    "#);
    assert_eq!(fake.lines(), ["GET /hosts/site%2Fweb1?inventory=i"]);
}

#[tokio::test]
async fn a_host_is_added_as_it_was_said() {
    let fake = Fake::start(|_, _| Reply::Text(201, r#"{"outcome":"created","host":{}}"#.to_owned()));
    let ran = fake
        .run(&[
            "hosts",
            "add",
            "db1",
            "--label",
            "role=db",
            "--group",
            "a",
            "--group",
            "b",
            "--var",
            "port=5432",
            "--var",
            "user=ann",
            "--via",
            "ssh",
            "--address",
            "10.0.0.9",
            "--user",
            "ops",
            "--through",
            "site=fra",
        ])
        .await;
    assert_eq!(ran.out, "host db1 created\n");
    assert_eq!(fake.asked()[0].line, "PUT /hosts/db1?inventory=main");
    assert_eq!(
        fake.asked()[0].json(),
        json!({"labels": {"role": "db"}, "groups": ["a", "b"], "vars": {"port": 5432, "user": "ann"},
            "connection": {"via": "ssh", "address": "10.0.0.9", "user": "ops", "through": {"site": "fra"}}})
    );
    assert_eq!(fake.run(&["hosts", "add", "x"]).await.exit, Exit::Success);
    assert_eq!(fake.asked()[1].json(), json!({"connection": {"via": "agent"}}));
    for wrong in [["--port", "22"], ["--through", "a=b"]] {
        let line = [&["hosts", "add", "x"], &wrong[..]].concat();
        assert_eq!(fake.run(&line).await.exit, Exit::Usage, "{line:?}");
    }
    assert_eq!(fake.lines().len(), 2);
}

#[tokio::test]
async fn hosts_that_are_not_there_do_not_hold_up_the_others() {
    let fake = Fake::start(|asked, _| match asked.path() {
        "DELETE /hosts/gone" => refused(404, "HOST_NOT_FOUND", "there is no such host"),
        _ => ok(r#"{"removed":true}"#),
    });
    let ran = fake.run(&["hosts", "remove", "a", "gone", "b"]).await;
    assert_eq!(
        (ran.out.as_str(), ran.exit),
        ("host a removed\nhost gone is not there\nhost b removed\n", Exit::Refused)
    );
    let ran = fake.run(&["--json", "hosts", "remove", "a"]).await;
    assert_eq!((ran.json(), ran.exit), (json!({"results": [{"name": "a", "removed": true}]}), Exit::Success));
}

const WOULD: &str = r#"{"inventory":"main","dry_run":true,"created":1200,"changed":1,"unchanged":3,"removed":2,"groups":1,"revision":4,
    "names":{"created":["a","b"],"changed":["c"],"removed":["d","e"]}}"#;

#[tokio::test]
async fn a_file_is_imported_and_told_first_when_hosts_would_go() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fleet.csv");
    std::fs::write(&path, "name,groups\na,web\n").unwrap();
    let path = path.to_str().unwrap();
    let fake = Fake::with(&[("POST /inventories/main/import", WOULD)]);
    let ran = fake.run(&["hosts", "import", path, "--dry-run"]).await;
    insta::assert_snapshot!(ran.out, @r"
    + a
    + b
    + … and 1,198 more
    ~ c
    - d
    - e
    inventory main: 1,200 created, 1 changed, 3 unchanged, 2 removed, 1 group changed
    ");
    assert_eq!(ran.err, "this was a dry run: nothing was changed\n");
    let asked = &fake.asked()[0];
    assert_eq!(asked.line, "POST /inventories/main/import?file=fleet.csv&dry_run=true");
    assert_eq!(
        (asked.header("content-type").as_deref(), asked.body.as_str()),
        (Some("application/octet-stream"), "name,groups\na,web\n")
    );
    let ran = fake.run_answering(&["hosts", "import", path, "--replace"], Some("n\n")).await;
    assert_eq!(ran.exit, Exit::Refused);
    assert!(ran.err.contains("2 hosts of the inventory main are not in this file"), "{}", ran.err);
    assert_eq!(fake.lines().len(), 2, "only asked, nothing done");
    let ran =
        fake.run(&["hosts", "import", path, "--replace", "--yes", "--format", "csv", "--inventory", "main"]).await;
    assert_eq!(ran.exit, Exit::Success);
    assert_eq!(fake.lines()[2], "POST /inventories/main/import?format=csv&file=fleet.csv&unmentioned=remove");
    assert_eq!(fake.run(&["hosts", "import", "/nowhere/at/all"]).await.exit, Exit::Usage);
}

#[tokio::test]
async fn an_export_is_passed_on_as_it_is() {
    let fake = Fake::start(|_, _| Reply::Text(200, "hosts:\n  - name: a\n".to_owned()));
    let ran = fake.run(&["hosts", "export"]).await;
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("hosts:\n  - name: a\n", ""));
    assert_eq!(fake.lines(), ["GET /inventories/main/export?format=yaml"]);
}

#[tokio::test]
async fn a_selector_is_tried_before_it_is_used() {
    let fake = Fake::with(&[(
        "POST /inventories/main/select",
        r#"{"count":1234,"hosts":["a","b"],"selector":"all","revision":1}"#,
    )]);
    let ran = fake.run(&["hosts", "select", "all"]).await;
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("a\nb\n… and 1,232 more\n", "1,234 hosts\n"));
    assert_eq!(fake.asked()[0].json(), json!({"selector": "all"}));
}

#[tokio::test]
async fn inventories_are_listed() {
    let fake = Fake::with(&[(
        "GET /inventories",
        r#"{"inventories":[{"name":"main","hosts":12345,"groups":3,"revision":7,"created_at":"2026-01-03T11:00:00Z","updated_at":"2026-01-03T11:00:00Z"}]}"#,
    )]);
    let ran = fake.run(&["hosts", "inventories"]).await;
    assert_eq!(ran.out, "INVENTORY   HOSTS  GROUPS  REVISION  CHANGED\nmain       12,345       3         7  1h ago\n");
    assert_eq!(fake.run(&["get", "inventory"]).await.out, ran.out);
}

#[tokio::test]
async fn what_is_not_there_comes_with_a_hint() {
    let fake = Fake::start(|_, _| refused(404, "INVENTORY_NOT_FOUND", "there is no such inventory"));
    let ran = fake.run(&["hosts", "list", "--inventory", "x"]).await;
    assert!(ran.err.contains("hint: `bowline hosts inventories` shows"), "{}", ran.err);
}
