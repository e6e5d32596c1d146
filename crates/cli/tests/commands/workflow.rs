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
async fn steps_are_shown_with_what_they_received() {
    const JOB: &str = "01a1e511-6739-7000-8013-000000000001";
    let fake = Fake::start(|request, _| match request.path() {
        path if path.ends_with("/steps") => ok(r#"{"steps":[
            {"n":1,"node":"start","type":"start","visit":1,"status":"success","exit":"success","output":{},"input":{"to":3},
             "previous":[],"next":["pay"],"origin":"own"},
            {"n":2,"node":"pay","type":"task","visit":1,"status":"success","exit":"success","output":{"ok":true},"input":null,
             "input_bytes":70000,"previous":["start"],"next":["a","b"],"origin":"own"},
            {"n":3,"node":"end","type":"end","visit":1,"status":"success","exit":{"end":{"failed":false}},"output":1,"input":{},
             "previous":[],"next":[],"origin":"own"}],
            "edits":[],"next":null,"skipped":[{"node":"refund","type":"log","status":"skipped"}],"skipped_count":3,
            "created_by":{"id":"token:x","name":"ann"}}"#),
        _ => ok(r#"{"job":{"status":"success","result":1},
                    "workflow":{"name":"order","steps":3,"created_by":{"id":"token:x","name":"ann"}}}"#),
    });
    let ran = fake.run(&["workflow", "steps", JOB]).await;
    let wanted = "\
order, created by ann
✓   1  start  start  {}
       to pay; input {\"to\":3}
✓   2  pay  task  {\"ok\":true}
       from start; to a, b; input of 70000 bytes
✓   3  end  end  1
-      refund  log  skipped
-      2 more nodes were skipped
success after 3 steps
1
";
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, wanted));
    let said = fake.run(&["--json", "workflow", "steps", JOB]).await.json();
    assert_eq!((&said["created_by"]["name"], &said["skipped"][0]["node"]), (&"ann".into(), &"refund".into()));
    assert_eq!((&said["steps"][0]["input"]["to"], &said["skipped_count"]), (&3.into(), &3.into()));
}

#[tokio::test]
async fn a_workflow_from_a_file_is_started_by_its_name() {
    let fake = Fake::start(|_, _| ok(r#"{"job_id":"01a1e511-6739-7000-8013-000000000001","status":"running"}"#));
    let (_directory, path) = file(GOOD);
    assert_eq!(fake.run(&["workflow", "run", &path, "--no-wait"]).await.exit, Exit::Success);
    assert_eq!(fake.run(&["workflow", "run", "small", "--no-wait"]).await.exit, Exit::Success);
    let (_directory, alone) = file("nodes:\n  - {id: start, type: start}\nedges: []\n");
    assert_eq!(fake.run(&["workflow", "run", &alone, "--no-wait"]).await.exit, Exit::Success);
    let names: Vec<_> = fake.asked().iter().map(|request| request.json()["name"].clone()).collect();
    assert_eq!(names, ["small".into(), serde_json::Value::Null, serde_json::Value::Null]);
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
        ":7: spec.nodes[1].type: there is no type of node `htp_request`; did you mean `http_request`?",
        ":9: spec.edges[0].target: there is no node `aks`; did you mean `ask`?",
        ":11: nodes: there is no node of type `start`, where a run would begin",
    ];
    let expected: String = lines.iter().map(|line| format!("{path}{line}\n")).collect();
    assert_eq!(ran.out, expected);
    let said = fake.run(&["--json", "workflow", "validate", &path]).await.json();
    assert_eq!((said["valid"].as_bool(), said["errors"].as_array().map(Vec::len)), (Some(false), Some(3)));
    let first = &said["errors"][0];
    assert_eq!(
        (&first["file"], &first["line"], &first["path"]),
        (&path.into(), &7.into(), &"spec.nodes[1].type".into())
    );
    assert!(fake.lines().is_empty());
}

/// A directory is checked whole: a file that cannot be read hides no errors of the others.
#[tokio::test]
async fn a_directory_is_checked_whole() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("a.yaml"), GOOD).unwrap();
    std::fs::write(at("b.yaml"), "nodes: []\nnodes: []\n").unwrap();
    std::fs::write(at("c.yaml"), BAD).unwrap();
    let fake = nobody();
    let ran = fake.run(&["workflow", "validate", directory.path().to_str().unwrap(), "--json"]).await;
    let said = ran.json();
    assert_eq!((ran.exit, &said["valid"]), (Exit::Usage, &false.into()), "{said}");
    let places: Vec<_> =
        said["errors"].as_array().unwrap().iter().map(|error| (&error["file"], &error["line"])).collect();
    assert_eq!(places[0], (&at("b.yaml").into(), &2.into()), "{said}");
    assert!(places.len() == 4 && places[1..].iter().all(|place| *place.0 == at("c.yaml")), "{said}");
}

/// A word without quotes is an error in the shape; the others are found in the same round, in the order of the file.
#[tokio::test]
async fn errors_of_the_shape_hide_no_others() {
    let text = "nodes:
  - {id: start, type: start}
  - {id: ask, type: condition, config: {expression: 'webhook.payload.x >'}}
  - {id: call, type: http_reqest, clour: red}
  - {id: done, type: end}
edges:
  - {source: start, target: ask}
  - {source: ask, target: call, on: true}
  - {source: ask, target: done, on: false}
  - {source: nowhere, target: done}
";
    let (fake, (_directory, path)) = (nobody(), file(text));
    let ran = fake.run(&["workflow", "validate", &path]).await;
    let lines: Vec<&str> = ran.out.lines().map(|line| line.strip_prefix(path.as_str()).unwrap()).collect();
    let places: Vec<String> = lines.iter().map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        places,
        [
            ":3 nodes[1].config.expression",
            ":4 nodes[2].clour",
            ":4 nodes[2].type",
            ":8 edges[1].on",
            ":9 edges[2].on",
            ":10 edges[3].source"
        ],
        "{}",
        ran.out
    );
}

const BAD_BLUEPRINT: &str = "kind: workflow
name: good
spec:
  nodes: [{id: start, type: start}, {id: done, type: end}]
  edges: [{source: start, target: done}]
---
# everything that can be wrong with the parts of it
kind: blueprint
name: wrong
spec:
  start: begin
  states:
    begin:
      retries: 3
      transitions:
        - {when: 'variables.total >', to: nowhere}
        - {to: done}
        - {to: alone}
    alone: {}
    done: {final: true, message: 'why'}
    lost: {actions: [{transition_to: dnoe}]}
---
start: a
states:
  a: {transitons: [{to: b}]}
";

/// Each mistake has the file, the line of its document, and the path in it.
#[tokio::test]
async fn a_blueprint_is_checked_without_a_server() {
    let fake = nobody();
    let order = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/order-blueprint.yaml");
    let remote = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/order-remote/order.yaml");
    let ran = fake.run(&["workflow", "validate", order, remote]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, "valid: 2 blueprints\n"));
    let (_directory, path) = file(BAD_BLUEPRINT);
    let ran = fake.run(&["workflow", "validate", &path]).await;
    assert_eq!(ran.exit, Exit::Refused);
    insta::assert_snapshot!(ran.out.replace(&path, "w.yaml"));
    let said = fake.run(&["--json", "workflow", "validate", &path]).await.json();
    assert_eq!((&said["workflows"], &said["blueprints"]), (&1.into(), &2.into()), "{said}");
    assert!(fake.lines().is_empty());
}

#[tokio::test]
async fn a_blueprint_is_drawn_as_its_states_with_the_guards_on_their_ways() {
    let order = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/order-blueprint.yaml");
    let fake = Fake::start(|asked, _| match asked.path() {
        "GET /resources/blueprint/turn" => {
            ok(r#"{"resource":{"spec":{"start":"a","states":{"a":{"transitions":[{"to":"b"}]},"b":{"final":true}}}}}"#)
        }
        _ => refused(404, "RESOURCE_NOT_FOUND", "there is none"),
    });
    let drawn = fake.run(&["workflow", "graph", order]).await;
    assert_eq!(drawn.exit, Exit::Success, "{}", drawn.err);
    insta::assert_snapshot!(drawn.out);
    assert!(fake.lines().is_empty());
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("order.svg");
    let ran = fake.run(&["workflow", "graph", order, "--save", picture.to_str().unwrap()]).await;
    assert_eq!(ran.exit, Exit::Success, "{}", ran.err);
    let svg = std::fs::read_to_string(picture).unwrap();
    assert!(svg.contains("variables.total &gt; 100") && svg.contains("approved"), "{svg}");
    // By its name, too. A workflow of that name would have been meant first.
    let by_name = fake.run(&["workflow", "graph", "turn"]).await;
    assert!(by_name.exit == Exit::Success && by_name.out.contains("n0 --> n1"), "{}{}", by_name.out, by_name.err);
    assert_eq!(fake.lines(), ["GET /resources/workflow/turn", "GET /resources/blueprint/turn"]);
    assert_eq!(fake.run(&["workflow", "graph", "nothing"]).await.exit, Exit::Refused);
    // What cannot be read cannot be drawn, and why.
    let (_directory, path) = file("start: a\nstates:\n  a: {transitons: []}\n");
    let ran = fake.run(&["workflow", "graph", &path]).await;
    assert!(ran.exit == Exit::Usage && ran.err.contains("states.a.transitons"), "{}", ran.err);
}

#[tokio::test]
async fn a_blueprint_in_a_file_is_begun_with_its_data() {
    let fake = Fake::start(|_, _| {
        Reply::Text(202, r#"{"job_id":"019a8b5e-0000-7000-8000-000000000001","number":1}"#.to_owned())
    });
    let (_directory, path) = file("start: a\nstates:\n  a: {final: true}\n");
    let ran = fake.run(&["workflow", "run", &path, "--set", "n=1", "--no-wait"]).await;
    assert_eq!(ran.exit, Exit::Success, "{}", ran.err);
    let sent = fake.asked()[0].json();
    assert_eq!(sent["blueprint"]["start"], "a");
    assert_eq!((&sent["data"]["n"], sent.get("workflow"), sent.get("input")), (&1.into(), None, None), "{sent}");
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
    assert_eq!(fake.run(&["workflow", "graph", &path, "--save", &picture]).await.exit, Exit::Success);
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
