//! `GET /resources/{kind}/{name}/diff`: what changed from one version to another, field by field.

use axum::Json;
use axum::extract::State;
use bowline_model::ResourceName;
use bowline_model::resource::ResourceKind;
use bowline_store::StoreError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::view::{found, key};
use crate::app::App;
use crate::door::Known;
use crate::params::{NamedPair, Params};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiffQuery {
    /// The one before `to` unless given; 0 is before there was any.
    pub from: Option<u32>,
    /// The active one unless given; the latest, if none is active.
    pub to: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "VersionDiff")]
pub struct DiffAnswer {
    pub from: u32,
    pub to: u32,
    pub changes: Vec<Change>,
}

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

pub async fn diff(
    State(app): State<App>,
    known: Known,
    NamedPair(kind, name): NamedPair<ResourceKind, ResourceName>,
    Params(query): Params<DiffQuery>,
) -> Result<Json<DiffAnswer>, Problem> {
    let key = key(known.tenant()?, kind, name);
    let to = found(&app, key.clone(), query.to).await?.version;
    let from = query.from.unwrap_or(to.version - 1);
    let before = match from {
        0 => Value::Object(serde_json::Map::new()),
        from => value(&found(&app, key, Some(from)).await?.version.spec)?,
    };
    let mut changes = Vec::new();
    compare(&mut String::new(), &before, &value(&to.spec)?, &mut changes);
    Ok(Json(DiffAnswer { from, to: to.version, changes }))
}

fn value(spec: &str) -> Result<Value, Problem> {
    serde_json::from_str(spec).map_err(|error| StoreError::Broken(format!("a stored spec is no JSON: {error}")).into())
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
        let mut changes = Vec::new();
        compare(&mut String::new(), before, after, &mut changes);
        serde_json::to_value(changes).unwrap()
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
            let mut changes = Vec::new();
            compare(&mut String::new(), &before, &after, &mut changes);
            prop_assert_eq!(changes.is_empty(), before == after);
            for change in changes {
                prop_assert_eq!(before.pointer(&change.path), change.before.as_ref());
                prop_assert_eq!(after.pointer(&change.path), change.after.as_ref());
            }
        }
    }
}
