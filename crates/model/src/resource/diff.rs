//! What changed from one version of a resource to another, field by field.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::secret::{looks_secret, sounds_secret};

/// One place where two versions differ.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "VersionChange")]
pub struct Change {
    /// Where in the spec, as a JSON pointer (RFC 6901).
    pub path: String,
    /// added, removed, changed.
    pub change: &'static str,
    /// Absent if it was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Absent if it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Every place where two specs differ, in the order of the first.
pub fn changes_between(before: &Value, after: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(&mut String::new(), before, after, &mut changes);
    changes
}

/// Changes that a summary names one by one.
const NAMED_MAX: usize = 50;
/// Characters of a value that a summary shows.
const SHOWN_MAX: usize = 200;

/// The same for the audit trail, which keeps it for good: bounded in number and length, and without values that look like
/// secrets. `changes` says how many there are in all.
pub fn summary_of_changes(before: &Value, after: &Value) -> Value {
    let changes = changes_between(before, after);
    let shown: Vec<Value> = changes
        .iter()
        .take(NAMED_MAX)
        .map(|change| {
            let name = change.path.rsplit('/').next().unwrap_or("");
            let mut entry = json!({"path": change.path, "change": change.change});
            for (key, value) in [("before", &change.before), ("after", &change.after)] {
                if let Some(value) = value {
                    entry[key] = shortened(name, value);
                }
            }
            entry
        })
        .collect();
    json!({"changes": changes.len(), "changed": shown})
}

fn shortened(name: &str, value: &Value) -> Value {
    let value = without_secrets(name, value);
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_MAX) {
        None => value,
        Some((end, _)) => json!(format!("{}…", &text[..end])),
    }
}

/// The same without what looks like a secret, also where it stands deep in what was added or removed as a whole.
fn without_secrets(name: &str, value: &Value) -> Value {
    let hidden = || json!("(looks like a secret)");
    match value {
        _ if sounds_secret(name) => hidden(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), without_secrets(name, value))).collect()
        }
        Value::Array(items) => items.iter().map(|item| without_secrets("", item)).collect(),
        value if looks_secret(&value.to_string()).is_some() => hidden(),
        value => value.clone(),
    }
}

fn compare(path: &mut String, before: &Value, after: &Value, changes: &mut Vec<Change>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let added = after.keys().filter(|key| !before.contains_key(*key));
            for key in before.keys().chain(added) {
                step(path, &escaped(key), before.get(key), after.get(key), changes);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for n in 0..before.len().max(after.len()) {
                step(path, &n.to_string(), before.get(n), after.get(n), changes);
            }
        }
        (before, after) if before == after => {}
        (before, after) => changes.push(Change {
            path: path.clone(),
            change: "changed",
            before: Some(before.clone()),
            after: Some(after.clone()),
        }),
    }
}

fn step(path: &mut String, key: &str, before: Option<&Value>, after: Option<&Value>, changes: &mut Vec<Change>) {
    let length = path.len();
    path.push('/');
    path.push_str(key);
    match (before, after) {
        (Some(before), Some(after)) => compare(path, before, after, changes),
        (None, None) => {}
        (before, after) => changes.push(Change {
            path: path.clone(),
            change: if before.is_some() { "removed" } else { "added" },
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
    path.truncate(length);
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn said(before: &Value, after: &Value) -> Value {
        serde_json::to_value(changes_between(before, after)).unwrap()
    }

    #[test]
    fn each_difference_is_named_by_its_place() {
        let before = json!({"argv": ["a", "b", "c"], "env": {"A/B~": null, "C": 1}, "lock": "shared"});
        let after = json!({"argv": ["a", "x"], "env": {"A/B~": 2, "D": null}, "lock": "shared", "cwd": "/"});
        assert_eq!(
            said(&before, &after),
            json!([
                {"path": "/argv/1", "change": "changed", "before": "b", "after": "x"},
                {"path": "/argv/2", "change": "removed", "before": "c"},
                {"path": "/env/A~1B~0", "change": "changed", "before": null, "after": 2},
                {"path": "/env/C", "change": "removed", "before": 1},
                {"path": "/env/D", "change": "added", "after": null},
                {"path": "/cwd", "change": "added", "after": "/"},
            ])
        );
        assert_eq!(
            said(&json!({"a": {}}), &json!({"a": []})),
            json!([{"path": "/a", "change": "changed", "before": {}, "after": []}])
        );
    }

    #[test]
    fn a_summary_is_bounded_and_shows_no_secret() {
        let before = json!({"url": "https://a.example"});
        let after = json!({
            "url": "https://user:hunter22@a.example", "env": {"DB_PASSWORD": "hunter23", "LANG": "C"}, "token": "y", "script": "z".repeat(1_000),
        });
        let summary = summary_of_changes(&before, &after);
        let text = summary.to_string();
        assert_eq!(summary["changes"], 4, "{text}");
        assert!(
            !text.contains("hunter2") && text.contains("LANG") && !text.contains(&"z".repeat(SHOWN_MAX + 1)),
            "{text}"
        );
        assert!(text.contains("https://a.example"), "{text}");
        let many: Value = (0..200).map(|n| (format!("k{n}"), json!(n))).collect::<serde_json::Map<_, _>>().into();
        let summary = summary_of_changes(&json!({}), &many);
        assert_eq!((&summary["changes"], summary["changed"].as_array().map(Vec::len)), (&json!(200), Some(NAMED_MAX)));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), (0..3i64).prop_map(Value::from)];
        leaf.prop_recursive(3, 16, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c/~]{0,2}", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_differs_from_itself_and_every_place_can_be_found(before in any_value(), after in any_value()) {
            prop_assert_eq!(said(&before, &before), json!([]));
            let changes = changes_between(&before, &after);
            prop_assert_eq!(changes.is_empty(), before == after);
            for change in changes {
                prop_assert_eq!(before.pointer(&change.path), change.before.as_ref());
                prop_assert_eq!(after.pointer(&change.path), change.after.as_ref());
            }
        }
    }
}
