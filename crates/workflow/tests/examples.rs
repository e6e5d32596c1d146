//! The examples that people copy from are right, and can be drawn.

use std::path::Path;

use bowline_inventory::document::documents;
use bowline_workflow::compile::read_workflow;
use bowline_workflow::draw::{Statuses, mermaid, svg};
use bowline_workflow::program::Program;

#[test]
fn every_example_compiles() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workflows");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|ending| ending != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("an example");
        for document in documents(&text).expect("YAML") {
            let place = format!("{}: {}", path.display(), document.value["name"]);
            assert_eq!(document.value["kind"], "workflow", "{place}");
            let spec = read_workflow(document.value["spec"].clone()).unwrap_or_else(|e| panic!("{place}: {e:#?}"));
            spec.check().unwrap_or_else(|e| panic!("{place}: {e}"));
            let program = Program::compile(&spec).unwrap_or_else(|e| panic!("{place}: {e:#?}"));
            assert_eq!(program.nodes.len(), spec.nodes.len());
            let (text, picture) = (mermaid(&spec, &Statuses::new()), svg(&spec, &Statuses::new()));
            assert_eq!(text.lines().filter(|line| line.contains("<small>")).count(), spec.nodes.len(), "{place}");
            assert_eq!(picture.matches("<g class=").count(), spec.nodes.len(), "{place}");
            names.push(document.value["name"].to_string());
            if let Some(folder) = std::env::var_os("BOWLINE_DRAW_TO") {
                let file = Path::new(&folder).join(path.with_extension("svg").file_name().expect("a name"));
                std::fs::write(file, picture).expect("written");
            }
        }
    }
    assert!(names.len() >= 4, "{names:?}");
}
