//! The document behind a version, as it was written. It is shown instead of the spec, so it must say the same.

use std::sync::Arc;

use bowline_inventory::document::documents;
use bowline_model::resource::ResourceKind;
use bowline_model::{ResourceName, TenantId};
use serde_json::{Value, json};

use crate::problem::Problem;

/// Bytes of one document.
const SOURCE_MAX: usize = 1 << 20;

/// What a document has to say.
struct Claimed {
    kind: ResourceKind,
    name: ResourceName,
    spec: Value,
}

/// The document if there is one, after a check that it describes this resource and says what `spec` says.
pub async fn checked(
    tenant: TenantId,
    source: Option<String>,
    kind: ResourceKind,
    name: &ResourceName,
    spec: &Value,
) -> Result<Option<Arc<str>>, Problem> {
    let Some(source) = source else { return Ok(None) };
    let claimed = Claimed { kind, name: name.clone(), spec: spec.clone() };
    let check = move || check(&source, &claimed).map(|()| source.into());
    let checked: Result<Arc<str>, String> = bowline_engine::aside::run(tenant, check).await;
    checked.map(Some).map_err(|what| Problem::validation(format!("source: {what}")).with(json!({"field": "source"})))
}

fn check(source: &str, claimed: &Claimed) -> Result<(), String> {
    if source.len() > SOURCE_MAX {
        return Err(format!("it has {} bytes, and may have {SOURCE_MAX}; leave it out", source.len()));
    }
    let mut found = documents(source).map_err(|error| error.to_string())?;
    let (Some(document), true) = (found.pop(), found.is_empty()) else {
        return Err("exactly one YAML document is expected".to_owned());
    };
    // Numbers of the request were read by the JSON parser, so these take the same way.
    let written: Value = serde_json::from_str(&document.value.to_string()).map_err(|error| error.to_string())?;
    let same = written["kind"] == claimed.kind.as_str()
        && written["name"] == claimed.name.as_str()
        && written["spec"] == claimed.spec;
    if same { Ok(()) } else { Err("it must have the kind, name and spec of the request".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(spec: Value) -> Claimed {
        Claimed { kind: ResourceKind::Command, name: ResourceName::new("greet").unwrap(), spec }
    }

    #[test]
    fn a_document_that_says_the_same_is_taken_however_it_is_written() {
        let spec = json!({"argv": ["echo", "x"], "limits": {"cpu": 0.1}});
        for source in [
            "kind: command\nname: greet\nspec:\n  # why\n  argv: [echo, x]\n  limits: {cpu: 0.1}\n",
            "---\nname: greet\nspec: {limits: {cpu: 0.10}, argv: [echo, \"x\"]}\nkind: command\n",
            r#"{"kind": "command", "name": "greet", "spec": {"argv": ["echo", "x"], "limits": {"cpu": 0.1}}}"#,
        ] {
            assert_eq!(check(source, &claimed(spec.clone())), Ok(()), "{source}");
        }
    }

    #[test]
    fn a_document_that_says_something_else_is_refused() {
        let spec = json!({"argv": ["echo", "x"]});
        for source in [
            "kind: command\nname: greet\nspec: {argv: [echo, y]}\n",
            "kind: command\nname: other\nspec: {argv: [echo, x]}\n",
            "kind: workflow\nname: greet\nspec: {argv: [echo, x]}\n",
            "kind: command\nname: greet\nspec: {argv: [echo, x]}\n---\nkind: command\n",
            "kind: command\nname: greet\n",
            "# nothing\n",
            "kind: [\n",
        ] {
            assert!(check(source, &claimed(spec.clone())).is_err(), "{source}");
        }
        let long = format!("kind: command\nname: greet\nspec: {{argv: [echo, x]}}\n#{}\n", "x".repeat(SOURCE_MAX));
        assert!(check(&long, &claimed(spec)).unwrap_err().contains("leave it out"));
    }
}
