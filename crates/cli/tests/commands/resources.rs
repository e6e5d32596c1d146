//! `apply`, `diff`, `validate`, `get`, `activate`, `rollback`, `delete`.

use bowline_cli::Exit;
use serde_json::json;

use crate::fake::{Asked, Fake, Reply, ok, refused};

const TWO: &str = "# what we run
kind: command
name: restart
spec:
  argv: [systemctl, restart, nginx]
---
kind: inventory
name: main
spec:
  hosts:
    web1: {groups: [web]}
  unmentioned: remove
";

/// A file, and the directory that goes with it.
fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

fn answer(asked: &Asked) -> Reply {
    match asked.path() {
        "POST /resources/command/restart/validate" => ok(
            r#"{"valid":true,"would":"update","version":3,"spec":{"argv":["systemctl","restart","nginx"],"idempotent":false}}"#,
        ),
        "POST /apply" => ok(r#"{"results":[{"kind":"command","name":"restart","outcome":"updated","version":3},
                {"kind":"inventory","name":"main","outcome":"updated","hosts":{"created":1,"changed":0,"unchanged":0,"removed":2,"groups":1}}]}"#),
        "GET /resources/command/restart" => ok(
            r#"{"resource":{"kind":"command","name":"restart","active":2,"latest":2,"version":2,"spec":{"argv":["true"],"idempotent":false}}}"#,
        ),
        "POST /inventories/main/import" => ok(
            r#"{"inventory":"main","dry_run":false,"created":1,"changed":0,"unchanged":0,"removed":2,"groups":1,"revision":2}"#,
        ),
        "GET /inventories/main/export" => ok(
            r#"{"hosts":[{"name":"old","connection":{"via":"agent"}},{"name":"web1","connection":{"via":"agent"}}],"groups":[]}"#,
        ),
        _ => refused(404, "NOT_FOUND", "no such path"),
    }
}

#[tokio::test]
async fn everything_is_checked_and_then_applied() {
    let (_directory, path) = file("fleet.yaml", TWO);
    let fake = Fake::start(|asked, _| answer(asked));
    let ran = fake.run(&["apply", "-f", &path, "--note", "why not"]).await;
    insta::assert_snapshot!(ran.out, @r"
    KIND       NAME     OUTCOME
    command    restart  updated v3
    inventory  main     1 created, 2 removed, 1 group changed
    ");
    assert_eq!(ran.exit, Exit::Success);
    assert_eq!(
        fake.lines(),
        [
            "POST /resources/command/restart/validate",
            "POST /inventories/main/import?format=json&unmentioned=remove&dry_run=true",
            "POST /apply",
        ]
    );
    let asked = fake.asked();
    let sent = asked[2].json();
    assert_eq!((&sent["activate"], &sent["note"]), (&json!(true), &json!("why not")));
    let (command, inventory) = (&sent["documents"][0], &sent["documents"][1]);
    assert_eq!((&command["name"], &command["spec"]["argv"][0]), (&json!("restart"), &json!("systemctl")));
    assert!(command["place"].as_str().unwrap().ends_with("fleet.yaml:2"), "{command}");
    assert_eq!(inventory["spec"], json!({"hosts": {"web1": {"groups": ["web"]}}, "unmentioned": "remove"}));
    let ran = fake.run(&["--json", "apply", "-f", &path, "--no-activate"]).await;
    assert_eq!(
        ran.json()["results"][0],
        json!({"kind": "command", "name": "restart", "outcome": "updated", "version": 3})
    );
    assert!(ran.err.contains("are not active yet"), "{}", ran.err);
    assert_eq!(fake.asked()[5].json()["activate"], false);
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let (_directory, path) = file("fleet.yaml", TWO);
    let fake = Fake::start(|asked, _| answer(asked));
    let ran = fake.run(&["apply", "-f", &path, "--dry-run"]).await;
    assert!(ran.out.contains("updated v3") && ran.err.contains("nothing was changed"), "{}{}", ran.out, ran.err);
    let added: Vec<&str> = ran.out.lines().filter(|line| line.starts_with('+')).collect();
    assert!(added.iter().any(|line| line.contains("systemctl")), "{}", ran.out);
    assert!(fake.lines().iter().all(|line| !line.contains("/apply")), "{:?}", fake.lines());
}

#[tokio::test]
async fn one_mistake_stops_all_and_every_mistake_is_told() {
    let (_directory, path) = file("fleet.yaml", TWO);
    let fake = Fake::start(|_, _| refused(422, "VALIDATION_ERROR", "spec.argv: what\u{1b}[2J"));
    for command in ["apply", "diff", "validate"] {
        let ran = fake.run(&[command, "-f", &path]).await;
        assert_eq!(ran.exit, Exit::Refused);
        assert!(ran.err.contains("fleet.yaml:2: command restart: spec.argv: what[2J\n"), "{}", ran.err);
        assert!(ran.err.contains("fleet.yaml:7: inventory main: "), "{}", ran.err);
    }
    assert!(fake.lines().iter().all(|line| line.starts_with("POST") && !line.contains("PUT")));
    let busy = Fake::start(|_, _| refused(403, "FORBIDDEN", "resources.read is missing"));
    assert_eq!(busy.run(&["apply", "-f", &path]).await.exit, Exit::Refused);
    assert_eq!(busy.lines().len(), 1, "what is wrong with the caller is not wrong with each document");
    for wrong in ["kind: command\nname: x\n", "", "a: [", "kind: command\nkind: x\nname: x\nspec: {}\n"] {
        let (_directory, path) = file("x.yaml", wrong);
        assert_eq!(fake.run(&["apply", "-f", &path]).await.exit, Exit::Usage, "{wrong}");
    }
}

#[tokio::test]
async fn what_cannot_be_stored_changes_nothing_and_says_which_document_it_is() {
    let (_directory, path) = file("fleet.yaml", TWO);
    let fake = Fake::start(|asked, _| match asked.path() {
        "POST /apply" => refused(409, "GROUPS_IN_A_CIRCLE", "fleet.yaml:7: inventory main: a circle"),
        _ => answer(asked),
    });
    let ran = fake.run(&["apply", "-f", &path]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Refused, ""));
    assert!(ran.err.contains("nothing was changed") && ran.err.contains("fleet.yaml:7: inventory main"), "{}", ran.err);
}

#[tokio::test]
async fn a_difference_is_a_text_and_an_exit_code() {
    let (_directory, path) = file("fleet.yaml", TWO);
    let fake = Fake::start(|asked, _| answer(asked));
    let ran = fake.run(&["diff", "-f", &path]).await;
    assert_eq!((ran.exit, ran.exit.code()), (Exit::Different, 1));
    insta::assert_snapshot!(ran.out, @r#"
    --- command/restart (now)
    +++ command/restart (in the file)
    @@ -2,5 +2,7 @@
     name: restart
     spec:
       argv:
    -    - "true"
    +    - systemctl
    +    - restart
    +    - nginx
       idempotent: false
    --- inventory/main (now)
    +++ inventory/main (in the file)
    @@ -2,10 +2,10 @@
     name: main
     spec:
       hosts:
    -    - name: old
    -      connection:
    -        via: agent
         - name: web1
    +      groups:
    +        - web
           connection:
             via: agent
    -  groups: []
    +  groups:
    +    - name: web
    "#);
    let (_directory, same) = file("same.yaml", "kind: command\nname: restart\nspec: {argv: [\"true\"]}\n");
    let equal = Fake::start(|asked, _| match asked.path() {
        "POST /resources/command/restart/validate" => {
            ok(r#"{"valid":true,"would":"nothing","version":2,"spec":{"argv":["true"],"idempotent":false}}"#)
        }
        _ => answer(asked),
    });
    let ran = equal.run(&["diff", "-f", &same]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, ""));
    assert_eq!(equal.run(&["--json", "diff", "-f", &same]).await.json()["different"], false);
}

#[tokio::test]
async fn every_error_of_every_document_has_its_line() {
    let text = "kind: command
name: restart
spec:
  argv: []
  # a remark
  timeuot: 5m
---
kind: inventory
name: main
spec:
  hosts:
    web1: {}
    web2: {labels: 7}
";
    let (_directory, path) = file("bad.yaml", text);
    let fake = Fake::start(|asked, _| {
        match asked.path() {
        "POST /resources/command/restart/validate" => Reply::Text(
            422,
            r#"{"error":{"code":"VALIDATION_ERROR","message":"spec.timeuot: x (and 1 more)","details":{"path":"spec.timeuot",
                "mistakes":[{"path":"spec.timeuot","what":"x"},{"path":"spec.argv","what":"y"}]}},"request_id":"r"}"#
                .to_owned(),
        ),
        _ => Reply::Text(
            400,
            r#"{"error":{"code":"VALIDATION_ERROR","message":"no labels","details":{"path":"hosts.web2.labels"}},"request_id":"r"}"#
                .to_owned(),
        ),
    }
    });
    for command in ["apply", "validate", "diff"] {
        let ran = fake.run(&[command, "-f", &path, "-o", "json"]).await;
        let wrong = json!([
            {"file": path, "line": 4, "kind": "command", "name": "restart", "path": "spec.argv", "what": "y"},
            {"file": path, "line": 6, "kind": "command", "name": "restart", "path": "spec.timeuot", "what": "x"},
            {"file": path, "line": 13, "kind": "inventory", "name": "main", "path": "spec.hosts.web2.labels", "what": "no labels"},
        ]);
        assert_eq!((ran.exit, &ran.json()["errors"]), (Exit::Refused, &wrong), "{command}: {ran:?}");
        assert_eq!(ran.err, "", "{command}");
    }
    let ran = fake.run(&["apply", "-f", &path]).await;
    assert_eq!(ran.exit, Exit::Refused);
    let lines: Vec<&str> =
        ran.err.lines().filter_map(|line| line.split_once("bad.yaml")).map(|(_, rest)| rest).collect();
    assert_eq!(
        lines,
        [
            ":4: command restart: spec.argv: y",
            ":6: command restart: spec.timeuot: x",
            ":13: inventory main: spec.hosts.web2.labels: no labels"
        ],
        "{}",
        ran.err
    );
}

/// A document that is none hides nothing that is wrong with the others.
#[tokio::test]
async fn documents_without_their_shape_hide_no_others() {
    let (_directory, path) =
        file("two.yaml", "kind: command\nname: a\nsepc: {}\n---\nkind: command\nname: b\nspec:\n  argv: []\n");
    let fake = Fake::start(|_, _| {
        let error = r#"{"error":{"code":"VALIDATION_ERROR","message":"empty","details":{"path":"spec.argv"}},"request_id":"r"}"#;
        Reply::Text(422, error.to_owned())
    });
    let ran = fake.run(&["validate", &path, "--json"]).await;
    let said = ran.json();
    let lines: Vec<_> = said["errors"].as_array().unwrap().iter().map(|error| error["line"].as_u64()).collect();
    assert_eq!(lines, [Some(3), Some(8)], "{said}");
    let ran = fake.run(&["validate", &path]).await;
    assert!(ran.err.contains(&format!("{path}:8: command b: spec.argv: empty\n")), "{}", ran.err);
}

/// What only the whole list shows (a command that is not there) has its line as well.
#[tokio::test]
async fn what_is_wrong_with_all_documents_together_has_its_line() {
    let text = "# first\nkind: command\nname: restart\nspec: {argv: [x]}\n---\nkind: schedule\nname: nightly\nspec:\n  \
                cron: '0 3 * * *'\n  start:\n    command: gone\n";
    let (_directory, path) = file("two.yaml", text);
    let place = path.clone();
    let fake = Fake::start(move |asked, _| {
        match asked.path() {
        "POST /apply" => Reply::Text(
            422,
            json!({"error": {"code": "VALIDATION_ERROR", "message": format!("{place}:6: schedule nightly: spec.start.command: there is no command gone"),
                "details": {"document": 1, "path": "spec.start.command"}}, "request_id": "r"})
            .to_string(),
        ),
        _ => ok(r#"{"valid":true,"would":"create","version":1,"spec":{}}"#),
    }
    });
    let ran = fake.run(&["apply", &path]).await;
    assert_eq!(ran.exit, Exit::Refused);
    let said =
        format!("{path}:11: schedule nightly: spec.start.command: there is no command gone\nnothing was changed\n");
    assert_eq!(ran.err, said);
}

#[tokio::test]
async fn what_is_shown_can_be_applied() {
    let fake = Fake::start(|asked, _| match asked.path() {
        "GET /resources/command" => ok(r#"{"resources":[
            {"kind":"command","name":"a","active":2,"latest":3,"version":2,"updated_at":"2026-01-03T11:00:00Z","by":"token:x","note":"why","spec":{"argv":["x"]}},
            {"kind":"command","name":"b","active":null,"latest":1,"version":1,"updated_at":"2026-01-03T11:00:00Z","by":"token:x","note":null,"spec":{"script":"set -e\nid\n"}}],
            "next_cursor":null}"#),
        _ => answer(asked),
    });
    let ran = fake.run(&["get", "command", "restart"]).await;
    assert_eq!(ran.out, "kind: command\nname: restart\nspec:\n  argv:\n    - \"true\"\n  idempotent: false\n");
    insta::assert_snapshot!(fake.run(&["get", "command"]).await.out, @r"
    NAME  ACTIVE  LATEST  SHOWN  CHANGED  BY       NOTE
    a          2       3      2  1h ago   token:x  why
    b       none       1      1  1h ago   token:x
    ");
    insta::assert_snapshot!(fake.run(&["get", "command", "-o", "yaml"]).await.out, @r"
    kind: command
    name: a
    spec:
      argv:
        - x
    ---
    kind: command
    name: b
    spec:
      script: |
        set -e
        id
    ");
    assert_eq!(fake.run(&["get", "command", "-o", "json"]).await.json()["resources"][1]["name"], "b");
    fake.run(&["get", "command", "restart", "--version", "2"]).await;
    assert!(fake.lines().contains(&"GET /resources/command/restart?version=2".to_owned()));
    let inventory = fake.run(&["get", "inventory", "main"]).await.out;
    assert!(inventory.starts_with("kind: inventory\nname: main\nspec:\n  {\"hosts\""), "{inventory}");
}

#[tokio::test]
async fn workflows_are_listed_with_blueprints() {
    let fake = Fake::start(|asked, _| {
        let kind = asked.path().rsplit('/').next().unwrap().to_owned();
        ok(json!({"resources": [{"kind": kind, "name": format!("a-{kind}"), "active": 1, "latest": 1, "version": 1}]})
            .to_string())
    });
    insta::assert_snapshot!(fake.run(&["workflow", "list"]).await.out, @r"
    NAME        KIND      ACTIVE  LATEST  SHOWN  CHANGED  BY  NOTE
    a-workflow  workflow       1       1      1
    a-blueprint  blueprint       1       1      1
    ");
    assert_eq!(fake.run(&["workflow", "list", "-o", "json"]).await.json()["resources"].as_array().unwrap().len(), 2);
}

/// A name with a typing error gets the one that is near.
#[tokio::test]
async fn the_name_that_was_meant_is_said() {
    let fake = Fake::start(|asked, _| {
        match (asked.path(), asked.body.as_str()) {
        ("GET /resources/workflow", _) => ok(r#"{"resources":[{"name":"order"},{"name":"refund"}]}"#),
        ("GET /schedules", _) => ok(r#"{"schedules":[{"name":"nightly"}]}"#),
        ("POST /jobs", _) => refused(422, "WORKFLOW_NOT_FOUND", "there is no workflow ordr"),
        ("GET /resources/wrokflow", _) => Reply::Text(
            404,
            r#"{"error":{"code":"KIND_NOT_FOUND","message":"no such kind","details":{"kinds":["command","workflow"]}}}"#
                .to_owned(),
        ),
        (path, _) if path.contains("schedules") => refused(404, "SCHEDULE_NOT_FOUND", "there is no such schedule"),
        _ => refused(404, "RESOURCE_NOT_FOUND", "there is no such resource"),
    }
    });
    for (args, near) in [
        (["get", "workflow", "ordr"].as_slice(), "order"),
        (&["schedule", "trigger", "nigthly"], "nightly"),
        (&["get", "wrokflows"], "workflow"),
        (&["workflow", "run", "ordr", "--kind", "workflow"], "order"),
    ] {
        let ran = fake.run(args).await;
        assert_eq!(ran.exit, Exit::Refused);
        assert!(ran.err.contains(&format!("hint: did you mean {near}?\n")), "{args:?}: {}", ran.err);
    }
    let far = fake.run(&["get", "workflow", "payroll"]).await;
    assert!(!far.err.contains("did you mean"), "{}", far.err);
}

#[tokio::test]
async fn orders_say_why() {
    let fake = Fake::start(|asked, _| match asked.path() {
        "DELETE /resources/command/a" => ok(r#"{"deleted":true}"#),
        _ => ok(r#"{"kind":"command","name":"a","active":2,"before":3,"changed":true}"#),
    });
    let ran = fake.run(&["rollback", "command", "a", "--reason", " it broke "]).await;
    assert_eq!(ran.out, "command a: v2 is active now, instead of v3\n");
    fake.run(&["activate", "command", "a", "2", "--reason", "it works"]).await;
    assert_eq!(
        fake.run_answering(&["delete", "command", "a", "--reason", "gone"], Some("n\n")).await.exit,
        Exit::Refused
    );
    assert_eq!(fake.run(&["delete", "command", "a", "--reason", "gone"]).await.out, "command a is deleted\n");
    let asked = fake.asked();
    assert_eq!(
        (asked[0].line.as_str(), asked[0].json()),
        ("POST /resources/command/a/rollback", json!({"reason": "it broke"}))
    );
    assert_eq!(asked[1].json(), json!({"version": 2, "reason": "it works"}));
    assert_eq!((asked[2].line.as_str(), asked[2].json()), ("DELETE /resources/command/a", json!({"reason": "gone"})));
}
