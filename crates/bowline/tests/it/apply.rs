//! The command line's `apply` and what belongs to it, with the real program against a real server.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::TestServer;

fn bowline(server: &TestServer, args: &[&str], input: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(["--server", &server.url("")]).args(args).env("BOWLINE_TOKEN", server.admin());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("its input");
    stdin.write_all(input.unwrap_or("").as_bytes()).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn said(output: &Output) -> (i32, String) {
    assert!(output.stderr.is_empty() || output.status.code() != Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code().expect("a code"), text(output))
}

const COMMANDS: &str = "kind: command
name: restart-nginx
spec:
  argv: [systemctl, restart, nginx]
---
kind: command
name: cleanup
spec:
  script: |
    set -e
    rm -rf /tmp/build
  params: {type: object, properties: {days: {type: integer, default: 7}}}
";

const FLEET: &str = "kind: inventory
name: main
spec:
  hosts:
    web1: {labels: {role: web}, groups: [web]}
    web2: {labels: {role: web}, groups: [web]}
  groups:
    web: {vars: {port: 80}}
";

fn write(directory: &Path, name: &str, text: &str) {
    std::fs::write(directory.join(name), text).expect("a file");
}

#[tokio::test]
async fn applying_twice_is_applying_once() {
    let server = TestServer::start().await;
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    write(at, "commands.yaml", COMMANDS);
    write(at, "fleet.yml", FLEET);
    let path = at.to_str().expect("a path");
    let apply = |more: &[&str]| bowline(&server, &[&["apply", "-f", path], more].concat(), None);
    let (code, out) = said(&bowline(&server, &["validate", "-f", path], None));
    assert_eq!((code, out.as_str()), (0, "valid: 3 documents\n"));
    assert_eq!(bowline(&server, &["diff", "-f", path], None).status.code(), Some(1));
    let dry = apply(&["--dry-run"]);
    assert_eq!((dry.status.code(), text(&dry).matches("created").count()), (Some(0), 3), "{}", text(&dry));
    let (code, out) = said(&apply(&[]));
    let wanted = "KIND       NAME           OUTCOME\ncommand    restart-nginx  created v1\ncommand    cleanup        created v1\n\
                  inventory  main           2 created, 1 group changed\n";
    assert_eq!((code, out.as_str()), (0, wanted));
    let (code, out) = said(&apply(&[]));
    assert_eq!((code, out.matches("unchanged").count()), (0, 3), "{out}");
    assert_eq!(said(&bowline(&server, &["diff", "-f", path], None)), (0, String::new()));

    write(at, "commands.yaml", &COMMANDS.replace("/tmp/build", "/tmp/builds"));
    write(at, "fleet.yml", &FLEET.replace("port: 80", "port: 8080"));
    let difference = bowline(&server, &["diff", "-f", path], None);
    assert_eq!(difference.status.code(), Some(1));
    let lines: Vec<String> =
        text(&difference).lines().filter(|l| l.starts_with(['+', '-'])).map(str::to_owned).collect();
    assert_eq!(
        lines,
        [
            "--- command/cleanup (now)",
            "+++ command/cleanup (in the file)",
            "-    rm -rf /tmp/build",
            "+    rm -rf /tmp/builds",
            "--- inventory/main (now)",
            "+++ inventory/main (in the file)",
            "-        port: 80",
            "+        port: 8080",
        ]
    );
    let (code, out) = said(&apply(&["--reason", "more room"]));
    let audit = server.get("/audit?action=resource.put").await.expect(200);
    let reasons: Vec<&Value> = audit["records"].as_array().expect("records").iter().map(|one| &one["reason"]).collect();
    assert!(reasons.contains(&&json!("more room")), "{audit}");
    let audit = server.get("/audit?action=inventory.put").await.expect(200);
    let newest = &audit["records"][0];
    assert_eq!(newest["reason"], "more room", "{audit}");
    let diff: Value = serde_json::from_str(newest["diff"].as_str().expect("a diff")).expect("JSON");
    let port = json!([{"path": "/groups/web/vars/port", "change": "changed", "before": 80, "after": 8080}]);
    assert_eq!(diff["diff"]["changed"], port);
    assert_eq!(code, 0);
    assert!(out.contains("cleanup        updated v2") && out.contains("restart-nginx  unchanged"), "{out}");

    // What is shown can be applied, and changes nothing.
    for what in [&["get", "command", "-o", "yaml"][..], &["get", "inventory", "main"], &["get", "command", "cleanup"]] {
        let shown = text(&bowline(&server, what, None));
        let (code, out) = said(&bowline(&server, &["apply", "-f", "-"], Some(&shown)));
        assert!(code == 0 && out.contains("unchanged") && !out.contains("updated"), "{what:?}: {shown}{out}");
    }
    let (_, out) = said(&bowline(&server, &["rollback", "command", "cleanup", "--reason", "too much"], None));
    assert_eq!(out, "command cleanup: v1 is active now, instead of v2\n");
    assert!(text(&bowline(&server, &["get", "command", "cleanup"], None)).contains("/tmp/build\n"));
    let (_, out) = said(&apply(&[]));
    assert!(out.contains("cleanup        activated v2"), "{out}");
}

#[tokio::test]
async fn a_resource_is_shown_as_it_was_written() {
    let server = TestServer::start().await;
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    let first =
        "# why this is here\nname: tidy\nkind: command\nspec:\n  script: |\n    rm -rf /tmp/build\n  # not yet\n";
    let second = "kind: command\nname: greet # politely\nspec: {timeout_ms: 5_000, argv: [echo, \"hi\"]}\n";
    let second = second.replace("5_000", "5000");
    write(at, "commands.yaml", &format!("{first}---\n{second}"));
    let path = at.join("commands.yaml").to_str().expect("a path").to_owned();
    assert_eq!(said(&bowline(&server, &["apply", "-f", &path], None)).0, 0);
    let shown = |args: &[&str]| text(&bowline(&server, args, None));
    assert_eq!(shown(&["get", "command", "tidy"]), first);
    assert_eq!(shown(&["get", "command", "greet"]), second);
    assert_eq!(shown(&["get", "commands", "-o", "yaml"]), format!("{second}---\n{first}"));
    // A comment alone makes no version, and is kept.
    write(at, "commands.yaml", &format!("{}---\n{second}", first.replace("not yet", "some day")));
    let (_, out) = said(&bowline(&server, &["apply", "-f", &path], None));
    assert_eq!(out.matches("unchanged").count(), 2, "{out}");
    assert_eq!(shown(&["get", "command", "tidy"]), first.replace("not yet", "some day"));
    // What a terminal would obey is written anew, with escapes.
    write(at, "commands.yaml", "kind: command\nname: tidy\nspec: {argv: [\"a\"]} # \u{202e}txet\n");
    assert_eq!(said(&bowline(&server, &["apply", "-f", &path], None)).0, 0);
    let out = shown(&["get", "command", "tidy"]);
    assert!(out.starts_with("kind: command\nname: tidy\n") && !out.contains('\u{202e}'), "{out}");
}

/// What only the ledger can see takes the whole list back, and says which document it was.
#[tokio::test]
async fn documents_are_applied_together_or_not_at_all() {
    let server = TestServer::start().await;
    let command = |name: &str, argv: &str| json!({"kind": "command", "name": name, "spec": {"argv": [argv]}});
    let inventory = |spec: Value| json!({"kind": "inventory", "name": "main", "spec": spec, "place": "fleet.yaml:7"});
    let fleet = json!({"hosts": {"web1": {"groups": ["web"]}}, "groups": {"all-web": {"groups": ["web"]}, "web": {}}});
    let documents = json!([command("restart", "systemctl"), inventory(fleet)]);
    let done = server.post("/apply", json!({"documents": documents, "note": "first"})).await.expect(200);
    assert_eq!(done["results"][0], json!({"kind": "command", "name": "restart", "outcome": "created", "version": 1}));
    let hosts = json!({"created": 1, "changed": 0, "unchanged": 0, "removed": 0, "groups": 2});
    assert_eq!((&done["results"][1]["outcome"], &done["results"][1]["hosts"]), (&json!("updated"), &hosts));
    let again = server.post("/apply", json!({"documents": documents})).await.expect(200);
    assert!(
        again["results"].as_array().is_some_and(|all| all.iter().all(|one| one["outcome"] == "unchanged")),
        "{again}"
    );

    // With the groups that are there already, this one would be in itself.
    let circle = json!({"hosts": {"web2": {}}, "groups": {"web": {"groups": ["all-web"]}}});
    let refused = json!([command("restart", "false"), command("new", "true"), inventory(circle)]);
    let refused = server.post("/apply", json!({"documents": refused})).await;
    assert_eq!((refused.status, refused.code()), (409, "GROUPS_IN_A_CIRCLE"), "{}", refused.body);
    let error = &refused.body["error"];
    assert_eq!((&error["details"]["document"], &error["details"]["place"]), (&json!(2), &json!("fleet.yaml:7")));
    assert!(
        error["message"].as_str().is_some_and(|text| text.starts_with("fleet.yaml:7: inventory main: ")),
        "{error}"
    );
    assert_eq!(server.get("/resources/command/new").await.status, 404, "nothing of it is there");
    let restart = server.get("/resources/command/restart").await.expect(200);
    assert_eq!(restart["resource"]["latest"], 1);
    assert_eq!(server.get("/hosts/web2").await.status, 404);

    for (documents, status, place) in [
        (json!([]), 400, "documents"),
        (json!([command("a", "true"), command("a", "true")]), 400, "documents[1]: command a"),
        (json!([command("a", "true"), {"kind": "comand", "name": "b", "spec": {}}]), 422, "documents[1]: comand b"),
        (
            json!([command("a", "true"), {"kind": "command", "name": "B B", "spec": {}}]),
            400,
            "documents[1]: command B B",
        ),
        (json!([{"kind": "command", "name": "b", "spec": {"argv": 7}}]), 422, "documents[0]: command b: spec.argv"),
        (json!([inventory(json!({"hosts": 7}))]), 400, "fleet.yaml:7: inventory main"),
        (json!([inventory(json!({"unmentioned": "burn"}))]), 400, "fleet.yaml:7: inventory main: spec.unmentioned"),
        (
            Value::Array((0..1_001).map(|n| command(&format!("c{n}"), "true")).collect()),
            400,
            "documents: from 1 to 1000",
        ),
    ] {
        let refused = server.post("/apply", json!({"documents": documents})).await;
        let message = refused.body["error"]["message"].as_str().unwrap_or_default();
        assert!(refused.status == status && message.starts_with(place), "{place}: {} {message}", refused.status);
    }
    let scopes = json!(["resources.write", "resources.read"]);
    let lesser = server.token(json!({"kind": "api", "name": "lesser", "scopes": scopes})).await;
    let mixed = json!({"documents": [command("d", "true"), inventory(json!({"hosts": {}}))]});
    assert_eq!(server.send("POST", "/apply", &lesser, Some(mixed)).await.status, 403);
    assert_eq!(server.get("/resources/command/d").await.status, 404);
}

#[tokio::test]
async fn nothing_is_applied_when_something_is_wrong() {
    let server = TestServer::start().await;
    let documents = format!(
        "{COMMANDS}---\nkind: command\nname: broken\nspec:\n  argv: [a, '{{{{ params.x }}}}']\n---\n{FLEET}---\nkind: comand\nname: x\nspec: {{}}\n"
    );
    let output = bowline(&server, &["apply", "-f", "-"], Some(&documents));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), text(&output).as_str()), (Some(1), ""));
    assert!(errors.contains("standard input:17: command broken: spec.argv[1]: "), "{errors}");
    assert!(
        errors.contains("comand x: there is no such kind of resource; the kinds are: command, rabbitmq, secret_ref"),
        "{errors}"
    );
    assert!(errors.ends_with("nothing was changed\n"), "{errors}");
    assert_eq!(server.get("/resources/command").await.expect(200)["resources"], serde_json::json!([]));
    assert_eq!(server.get("/inventories/main").await.status, 404);
}

#[tokio::test]
async fn a_fleet_is_kept_from_the_command_line() {
    let server = TestServer::start().await;
    let run = |args: &[&str], input: Option<&str>| bowline(&server, args, input);
    let (code, out) =
        said(&run(&["hosts", "add", "site/web1", "--label", "role=web", "--group", "web", "--var", "port=80"], None));
    assert_eq!((code, out.as_str()), (0, "host site/web1 created\n"));
    let (code, out) = said(&run(&["hosts", "import", "-"], Some("[db]\ndb[1:3] ansible_port=2222\n")));
    assert_eq!((code, out.as_str()), (0, "inventory main: 3 created, 1 group changed\n"));
    let selected = run(&["hosts", "select", "db[1:2] | role=web"], None);
    assert_eq!(text(&selected), "db1\ndb2\nsite/web1\n");
    let (_, list) = said(&run(&["hosts", "list"], None));
    assert!(list.lines().count() == 5 && list.contains("ssh :2222"), "{list}");
    assert!(text(&run(&["hosts", "get", "site/web1"], None)).contains("{\"port\": 80}"));
    let wrong = run(&["hosts", "select", "db1 &"], None);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("at character"), "{wrong:?}");
    let exported = text(&run(&["hosts", "export", "--format", "csv"], None));
    assert!(exported.starts_with("name,") && exported.contains("site/web1"), "{exported}");
    let (code, out) = said(&run(&["hosts", "import", "-", "--format", "csv", "--replace"], Some("name\ndb1\n")));
    assert_eq!((code, out.as_str()), (0, "inventory main: 1 changed, 3 removed, 1 group changed\n"));
    assert_eq!(said(&run(&["hosts", "remove", "db1"], None)).0, 0);
    assert_eq!(run(&["hosts", "remove", "db1"], None).status.code(), Some(1));
}

/// Whatever changes hosts takes a reason, and the audit trail has it.
#[tokio::test]
async fn changes_of_hosts_have_a_reason() {
    let server = TestServer::start().await;
    let run = |args: &[&str]| said(&bowline(&server, args, None));
    let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
    std::fs::write(file.path(), "hosts:\n  web1: {labels: {role: web}}\n").expect("written");
    let path = file.path().to_str().expect("a path");
    run(&["hosts", "import", path, "--reason", "import it"]);
    run(&["hosts", "add", "web1", "--var", "port=80", "--reason", "add it"]);
    run(&["hosts", "remove", "web1", "--reason", "remove it"]);
    server
        .send(
            "PUT",
            "/inventories/main",
            &server.admin(),
            Some(json!({"hosts": [{"name": "web2"}], "reason": "put it"})),
        )
        .await
        .expect(200);
    let audit = server.get("/audit").await.expect(200);
    let records = audit["records"].as_array().expect("records").iter();
    let hosts =
        records.filter(|one| one["action"].as_str().is_some_and(|a| a == "inventory.put" || a == "host.remove"));
    let reasons: Vec<&str> = hosts.filter_map(|one| one["reason"].as_str()).collect();
    assert_eq!(reasons, ["put it", "remove it", "add it", "import it"], "{audit}");
    let events = server.get("/events?type=inventory_changed").await.expect(200).to_string();
    assert!(events.contains(": remove it"), "{events}");
    let long = server.send("DELETE", &format!("/hosts/web2?reason={}", "x".repeat(1_001)), &server.admin(), None).await;
    assert_eq!((long.status, long.code()), (400, "VALIDATION_ERROR"));
}
