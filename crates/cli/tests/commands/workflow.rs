//! `workflow validate`, `workflow graph`, `workflow nodes`.

use bowline_cli::Exit;

use crate::fake::{Fake, Reply, ok, refused};

const GOOD: &str = "kind: workflow
name: small
spec:
  nodes:
    - {id: start, type: start}
    - {id: done, type: end}
  edges:
    - {source: start, target: done}
";

const BAD: &str = "# two mistakes
kind: workflow
name: wrong
spec:
  nodes:
    - {id: start, type: start}
    - {id: ask, type: htp_request}
  edges:
    - {source: start, target: aks}
---
nodes: []
edges: []
";

fn file(text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.yaml");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

/// A server that nobody should ask.
fn nobody() -> Fake {
    Fake::start(|_, _| refused(500, "ASKED", "nobody should have asked"))
}

#[tokio::test]
async fn a_workflow_is_checked_without_a_server() {
    let (fake, (_directory, path)) = (nobody(), file(GOOD));
    let ran = fake.run(&["workflow", "validate", &path]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, "valid: 1 workflow\n"));
    let (_directory, path) = file(BAD);
    let ran = fake.run(&["workflow", "validate", &path]).await;
    assert_eq!(ran.exit, Exit::Refused);
    let lines = [
        ":2: spec.nodes[1].type: there is no type of node `htp_request`; did you mean `http_request`?",
        ":2: spec.edges[0].target: there is no node `aks`; did you mean `ask`?",
        ":2: spec.nodes[1]: no path leads from the start to `ask`",
        ":11: nodes: there is no node of type `start`, where a run would begin",
    ];
    let expected: String = lines.iter().map(|line| format!("{path}{line}\n")).collect();
    assert_eq!(ran.out, expected);
    let said = fake.run(&["--json", "workflow", "validate", &path]).await.json();
    assert_eq!((said["valid"].as_bool(), said["mistakes"].as_array().map(Vec::len)), (Some(false), Some(4)));
    assert!(fake.lines().is_empty());
}

#[tokio::test]
async fn what_is_no_workflow_is_said() {
    let fake = nobody();
    for text in ["kind: command\nname: x\nspec: {}\n", "name: x\n", ""] {
        let (_directory, path) = file(text);
        assert_eq!(fake.run(&["workflow", "validate", &path]).await.exit, Exit::Usage, "{text}");
    }
    assert_eq!(fake.run(&["workflow", "graph", "nowhere/x.yaml"]).await.exit, Exit::Usage);
    assert!(fake.lines().is_empty());
}

#[tokio::test]
async fn a_workflow_is_drawn_from_a_file_or_by_name() {
    let (_directory, path) = file(GOOD);
    let fake = Fake::start(|_, _| {
        ok(r#"{"resource":{"name":"small","spec":{"nodes":[{"id":"begin","type":"start"}],"edges":[]}}}"#)
    });
    let drawn = fake.run(&["workflow", "graph", &path]).await;
    assert!(drawn.out.starts_with("flowchart TD\n") && drawn.out.contains("n0 --> n1"), "{}", drawn.out);
    assert!(fake.lines().is_empty());
    let by_name = fake.run(&["workflow", "graph", "small", "--format", "mermaid"]).await;
    assert!(by_name.out.contains("begin"), "{}", by_name.out);
    assert_eq!(fake.lines(), ["GET /resources/workflow/small"]);
    let picture = format!("{path}.svg");
    assert_eq!(fake.run(&["workflow", "graph", &path, "-o", &picture]).await.exit, Exit::Success);
    assert!(std::fs::read_to_string(picture).unwrap().starts_with("<svg "));
}

#[tokio::test]
async fn the_types_of_nodes_are_listed() {
    let fake = nobody();
    let all = fake.run(&["workflow", "nodes"]).await;
    insta::assert_snapshot!(all.out);
    let one = fake.run(&["workflow", "nodes", "http_request"]).await;
    insta::assert_snapshot!(one.out);
    assert_eq!(fake.run(&["workflow", "nodes", "teleport"]).await.exit, Exit::Usage);
    assert_eq!(fake.run(&["--json", "workflow", "nodes", "log"]).await.json()["type"], "log");
}

#[tokio::test]
async fn the_server_s_mistakes_are_told_a_line_each() {
    let (_directory, path) = file(GOOD);
    const BODY: &str = r#"{"error":{"code":"VALIDATION_ERROR","message":"spec.a: b (and 1 more)","details":{"path":"spec.a",
        "mistakes":[{"path":"spec.a","what":"b"},{"path":"spec.c","what":"d"}]}},"request_id":"r"}"#;
    let fake = Fake::start(|_, _| Reply::Text(422, BODY.to_owned()));
    let ran = fake.run(&["apply", "-f", &path]).await;
    assert_eq!(ran.exit, Exit::Refused);
    assert!(
        ran.err.contains("workflow small: spec.a: b\n") && ran.err.contains("workflow small: spec.c: d\n"),
        "{}",
        ran.err
    );
}
