//! What is shown of the types is true.

use std::collections::BTreeSet;

use serde_json::json;

use crate::nodes::node_types;

#[test]
fn every_type_has_one_name_and_a_closed_schema() {
    let types = node_types();
    let names: BTreeSet<_> = types.iter().map(|view| view.node_type).collect();
    assert_eq!(names.len(), types.len());
    for view in &types {
        let schema = view.schema.as_value();
        assert_eq!(schema["additionalProperties"], json!(false), "{}: {schema:#}", view.node_type);
        assert!(view.about.ends_with('.'), "{}", view.about);
    }
}

#[test]
fn the_types_and_their_fields() {
    let lines: Vec<_> = node_types()
        .into_iter()
        .map(|view| {
            let schema = view.schema.to_value();
            let required: BTreeSet<_> =
                schema["required"].as_array().into_iter().flatten().filter_map(|name| name.as_str()).collect();
            let fields = schema["properties"].as_object().into_iter().flatten();
            let fields: Vec<_> = fields
                .map(|(name, _)| if required.contains(name.as_str()) { format!("{name}!") } else { name.clone() })
                .collect();
            let inner = if view.in_foreach { " (in foreach)" } else { "" };
            format!("{}{inner} -> [{}]: {}", view.node_type, view.ports.join(", "), fields.join(" "))
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}
