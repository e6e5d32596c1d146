//! The documents say what the code does.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Texts in capitals with underscores that stand in quotes in the API's sources: its error codes.
fn codes_in_source(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).expect("the sources") {
        let path = entry.expect("an entry").path();
        // What can be wrong with a body has words of its own, under one code.
        if path.is_dir() && !path.ends_with("strict") {
            codes_in_source(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source");
            for quoted in text.split('"').skip(1).step_by(2) {
                let shouted = quoted.len() > 5 && quoted.chars().all(|c| c.is_ascii_uppercase() || c == '_');
                if shouted && quoted.contains('_') && !quoted.starts_with("CARGO") && quoted != "WAIT_APPROVAL" {
                    found.insert(quoted.to_owned());
                }
            }
        }
    }
}

#[test]
fn every_error_code_is_explained() {
    let mut codes = BTreeSet::new();
    codes_in_source(&root().join("crates/api/src"), &mut codes);
    assert!(codes.contains("VALIDATION_ERROR") && codes.contains("STALE_LEASE"), "{codes:?}");
    let text = std::fs::read_to_string(root().join("docs/errors.md")).expect("docs/errors.md");
    let missing: Vec<_> = codes.iter().filter(|code| !text.contains(&format!("### {code}"))).collect();
    assert!(missing.is_empty(), "docs/errors.md does not explain {missing:?}");
}

#[test]
fn the_list_of_routes_and_what_they_require() {
    let mut list = String::new();
    for route in bowline_api::table() {
        let access = match route.access {
            bowline_api::Access::Open => "anybody".to_owned(),
            bowline_api::Access::Known => "everybody we know".to_owned(),
            bowline_api::Access::Needs { scope, audience } => format!("{scope} ({})", audience.text()),
        };
        list.push_str(&format!("{:6} {:34} {access}\n", route.method, route.path));
    }
    insta::assert_snapshot!(list);
}

#[test]
fn the_openapi_document_is_what_clients_rely_on() {
    insta::assert_json_snapshot!(bowline_api::openapi_document());
}

#[test]
fn few_routes_are_open_to_anybody() {
    let open = bowline_api::table().iter().filter(|r| r.access == bowline_api::Access::Open).count();
    assert!(open <= 8, "{open}");
}
