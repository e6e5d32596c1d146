//! `-o json|yaml|table`: every command takes it and prints what was asked for.

use std::collections::BTreeMap;
use std::path::Path;

use bowline_cli::Exit;
use clap::CommandFactory;

use crate::fake::{Cli, Fake, Ran, Reply, ok, run};
use crate::jobs::ID;

/// The commands, each with arguments it accepts. A new command is missing here until it has a line.
const COMMANDS: &[(&str, &str)] = &[
    ("activate", "workflow order 1 --reason good"),
    ("agents get", "a1"),
    ("agents list", ""),
    ("agents remove", "a1 --reason gone"),
    ("apply", "-f DIR/order.yaml"),
    ("approvals approve", ID),
    ("approvals list", ""),
    ("approvals reject", "ID --reason no"),
    ("approvals show", ID),
    ("audit export", ""),
    ("audit list", ""),
    ("audit verify", ""),
    ("blocks add", "--on role=web --reason repair"),
    ("blocks lift", "1 --reason done"),
    ("blocks list", ""),
    ("clock accept", "--reason checked"),
    ("clock show", ""),
    ("context list", ""),
    ("context remove", "nowhere"),
    ("context use", "nowhere"),
    ("delete", "workflow order --yes --reason gone"),
    ("diff", "-f DIR/order.yaml"),
    ("dlq list", ""),
    ("dlq purge", "low --all --reason old --yes"),
    ("dlq replay", "low --all --reason fixed"),
    ("evaluations list", ""),
    ("evaluations resume", "schedule:nightly"),
    ("events", ""),
    ("evidence list", ""),
    ("get", "workflow order"),
    ("hosts add", "web1"),
    ("hosts export", ""),
    ("hosts get", "web1"),
    ("hosts import", "DIR/hosts.csv"),
    ("hosts inventories", ""),
    ("hosts list", ""),
    ("hosts queue", "web1"),
    ("hosts release", "web1 --reason gone"),
    ("hosts remove", "web1"),
    ("hosts select", "role=web"),
    ("job cancel", ID),
    ("job events", ID),
    ("job get", ID),
    ("job hosts", ID),
    ("job list", ""),
    ("job logs", "ID --host web1"),
    ("job result", ID),
    ("job retry", ID),
    ("job submit", "echo"),
    ("job watch", ID),
    ("job why", ID),
    ("lanes", ""),
    ("login", "URL"),
    ("quota", ""),
    ("rollback", "workflow order --reason bad"),
    ("run", "uptime --on web1 --no-wait"),
    ("schedule list", ""),
    ("schedule next", "nightly"),
    ("schedule trigger", "nightly"),
    ("secret check", "db"),
    ("secret list", ""),
    ("tenant create", "acme"),
    ("tenant list", ""),
    ("token create", "--name ci"),
    ("token list", ""),
    ("token revoke", "t1"),
    ("trigger list", ""),
    ("trigger show", "orders"),
    ("validate", "-f DIR/order.yaml"),
    ("whoami", ""),
    ("workers drain", "w1"),
    ("workers list", ""),
    ("workers undrain", "w1"),
    ("workflow context", ID),
    ("workflow debug", "ID --plain"),
    ("workflow executions", ""),
    ("workflow fork", "ID --from-step 1 --no-wait"),
    ("workflow graph", "DIR/order.yaml"),
    ("workflow list", ""),
    ("workflow nodes", ""),
    ("workflow retry", ID),
    ("workflow run", "order --no-wait"),
    ("workflow shadow", ID),
    ("workflow signal", "paid --key order=7"),
    ("workflow steps", ID),
    ("workflow validate", "DIR/order.yaml"),
];

const ORDER: &str = "kind: workflow
name: order
spec:
  nodes:
    - {id: start, type: start}
    - {id: done, type: end}
  edges:
    - {source: start, target: done}
";

fn leaves(command: &clap::Command, path: &str, found: &mut Vec<String>) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let path = format!("{path} {}", sub.get_name()).trim().to_owned();
        if sub.has_subcommands() { leaves(sub, &path, found) } else { found.push(path) }
    }
}

/// A server that knows one of everything. An answer has what any command reads in it.
fn server() -> Fake {
    Fake::start(|asked, _| match asked.path() {
        path if path.ends_with("/export") => {
            let json = asked.line.contains("format=json");
            Reply::Text(200, if json { r#"{"hosts":{}}"# } else { "hosts: {}\n" }.to_owned())
        }
        path if path.ends_with("/output") => {
            let first = !asked.line.contains("offset=") || asked.line.contains("offset=0");
            Reply::Bytes { bytes: if first { b"hello\n".to_vec() } else { Vec::new() }, next_offset: None }
        }
        path if path.ends_with("/result") => ok(r#"{"total":7}"#),
        path if path.ends_with("/select") => ok(r#"{"inventory":"main","selector":"web1","count":1,"hosts":["web1"]}"#),
        path if path.ends_with("/validate") => {
            ok(r#"{"valid":true,"would":"update","version":2,"spec":{"nodes":["start"]}}"#)
        }
        path if path.starts_with("GET /jobs/") && path.ends_with("/hosts") => {
            ok(r#"{"hosts":[{"host":"web1","status":"success","attempts":1}],"next_cursor":null}"#)
        }
        "POST /apply" => ok(r#"{"results":[{"outcome":"created","version":1}]}"#),
        path if path.ends_with("/context") => ok(r#"{"step":1,"steps":1,"context":{},"places":[],"diff":[]}"#),
        path if path.ends_with("/shadow") => ok(r#"{"steps":1,"differences":[],"unlisted":0}"#),
        path if path.starts_with("POST /signals") => ok(r#"{"runs":1}"#),
        path if path.starts_with("POST /dlq/") => ok(r#"{"results":[],"changed":0}"#),
        path if path.ends_with("/import") => ok(r#"{"created":1,"changed":0,"unchanged":0,"removed":0,"groups":0}"#),
        _ => ok(everything()),
    })
}

fn everything() -> String {
    EVERYTHING.replace("ID", ID).replace('\n', "")
}

const EVERYTHING: &str = r#"{
"id":"ID","job_id":"ID","number":7,"name":"n","status":"success","state":"approved","chain":"system","ok":true,"valid":true,
"job":{"id":"ID","number":7,"status":"success","type":"echo"},"runs":[],"jobs":[],
"command":{"inventory":"main","hosts":{"total":1,"begun":1,"by_status":{"success":1}}},
"workflow":{"name":"order","steps":1},"steps":[],"step":1,"context":{},"places":[],"diff":[],"skipped":[],
"hosts":[],"host":{"name":"web1"},"groups":[],"vars":{},"inventories":[],"inventory":{"name":"main"},
"events":[],"entries":[],"results":[],"changed":true,"workers":[],"agents":[],"tenants":[],"tokens":[],"triggers":[],
"schedules":[],"records":[],"lanes":[],"blocks":[],"approvals":[],"set_aside":[],"evidence":[],"quotas":[],"usage":[],
"resources":[],"resource":{"kind":"workflow","name":"order","version":1,"active":1,"latest":1,"spec":{"nodes":[]}},
"versions":[],"plan":[],"documents":[],"changes":[],"errors":[],"differences":[],"unlisted":0,"next":null,"occurrences":[],
"fires":[],"turns":[],"waiting":[],"delivered":[],"total":0,"count":0,"next_cursor":null}"#;

async fn ran(fake: &Fake, command: &str, args: &str, directory: &Path, output: &str) -> Ran {
    let args = args.replace("DIR", directory.to_str().unwrap()).replace("ID", ID).replace("URL", &fake.url);
    let words = command.split(' ').chain(args.split_whitespace()).chain(["-o"]).chain(output.split(' '));
    let args: Vec<&str> = words.collect();
    match command {
        // It brings its own server.
        "login" => run(["bowline", "--token", "t0ken"].into_iter().chain(args), None).await,
        _ => fake.run(&args).await,
    }
}

#[tokio::test]
async fn every_command_prints_the_format_that_was_asked_for() {
    let mut found = Vec::new();
    leaves(&Cli::command(), "", &mut found);
    found.retain(|path| path != "serve");
    let known: BTreeMap<&str, &str> = COMMANDS.iter().copied().collect();
    let missing: Vec<_> = found.iter().filter(|path| !known.contains_key(path.as_str())).collect();
    assert!(missing.is_empty(), "no arguments to try these with: {missing:?}");
    assert_eq!(found.len(), known.len(), "and no others");
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("order.yaml"), ORDER).unwrap();
    std::fs::write(directory.path().join("hosts.csv"), "name\nweb1\n").unwrap();
    let mut wrong = Vec::new();
    for (command, args) in COMMANDS {
        for output in ["json", "yaml", "table"] {
            let fake = server();
            eprintln!("{command} -o {output}");
            let ran = ran(&fake, command, args, directory.path(), output).await;
            let fine = match output {
                "json" => ran.out.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()),
                // Documents of a resource or an inventory are written without the line that separates them.
                "yaml" => !ran.out.starts_with('{') && bowline_inventory::document::documents(&ran.out).is_ok(),
                _ => !ran.out.starts_with('{') || is_json_by_nature(command),
            };
            let said = !ran.out.trim().is_empty()
                || matches!(*command, "context use" | "context remove" | "audit export" | "workflow list");
            if !fine || !said {
                wrong.push(format!("{command} -o {output}: {:?} {:?} {:?}", ran.exit, ran.out, ran.err));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What these print is JSON, also for people: the result of a job, and records for programs that check them.
fn is_json_by_nature(command: &str) -> bool {
    matches!(command, "job result" | "audit export")
}

#[tokio::test]
async fn an_inventory_is_printed_in_each_format() {
    let directory = tempfile::tempdir().unwrap();
    let fake = server();
    let get = async |output| ran(&fake, "get", "inventory main", directory.path(), output).await;
    assert!(get("table").await.out.starts_with("INVENTORY"), "{:?}", get("table").await);
    assert_eq!(get("json").await.json()["inventory"]["name"], "main");
    assert!(get("yaml").await.out.starts_with("kind: inventory\nname: main\nspec:\n"));
    let fake = Fake::start(|asked, _| match asked.path() {
        "GET /inventories" => ok(r#"{"inventories":[{"name":"a"},{"name":"b"}]}"#),
        _ => Reply::Text(200, "hosts: {}\n".to_owned()),
    });
    let all = ran(&fake, "get", "inventories", directory.path(), "yaml").await;
    assert_eq!(all.exit, Exit::Success, "{all:?}");
    assert_eq!(
        all.out,
        "kind: inventory\nname: a\nspec:\n  hosts: {}\n---\nkind: inventory\nname: b\nspec:\n  hosts: {}\n"
    );
}

/// What only shows something can be shown again and again.
#[tokio::test]
async fn every_command_that_shows_something_can_be_watched() {
    const SHOW: [&str; 9] = ["list", "get", "show", "why", "executions", "steps", "context", "inventories", "select"];
    const ALSO: [&str; 6] = ["lanes", "quota", "whoami", "events", "job hosts", "job events"];
    let directory = tempfile::tempdir().unwrap();
    for (command, args) in COMMANDS {
        let shows = SHOW.contains(&command.rsplit(' ').next().unwrap()) || ALSO.contains(command);
        // It reads a file of its own, and Ctrl-C ends it.
        if !shows || *command == "context list" {
            continue;
        }
        // The second picture cannot be shown.
        let fake = Fake::start(|_, before| match before {
            0 => ok(everything()),
            _ => crate::fake::refused(400, "BAD_REQUEST", "no more"),
        });
        let ran = ran(&fake, command, args, directory.path(), "json --watch=1ms").await;
        assert_eq!(ran.exit, Exit::Refused, "{command}: {ran:?}");
    }
}
