//! Whether a text is the name of a command type, and what that type expects.

use bowline_model::ResourceName;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::client::{Client, Request};
use crate::failure::Failure;

/// A command type, as far as it matters here.
#[derive(Debug, Default)]
pub struct Type {
    /// JSON Schema of its parameters; `None` if this caller may not see it.
    params: Option<Value>,
}

#[derive(Deserialize)]
struct Answer {
    resource: Resource,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    params: Option<Value>,
}

/// The command type of this name, if there is one.
pub async fn find(client: &Client, name: &str) -> Result<Option<Type>, Failure> {
    if ResourceName::new(name).is_err() {
        return Ok(None);
    }
    match client.call(&Request::get(["resources", "command", name])).await {
        Ok(answer) => {
            let Answer { resource } = answer.read()?;
            Ok(Some(Type { params: resource.spec.params }))
        }
        Err(Failure::Refused(refusal)) if refusal.status == 404 => Ok(None),
        // Whoever may not look at types may still run them, and could not run anything else.
        Err(Failure::Refused(refusal)) if refusal.status == 403 => Ok(Some(Type::default())),
        Err(failure) => Err(failure),
    }
}

impl Type {
    /// Parameters as the type wants them. A text stays one where the type wants a text; elsewhere what can be read as
    /// JSON is read as JSON, so that `3` and `true` arrive as what they look like.
    pub fn params(&self, given: &[(String, String)]) -> Result<Map<String, Value>, Failure> {
        let mut params = Map::new();
        for (name, text) in given {
            let value = if self.wants_text(name) { None } else { serde_json::from_str(text).ok() };
            if params.insert(name.clone(), value.unwrap_or_else(|| text.clone().into())).is_some() {
                return Err(Failure::Usage(format!("--param {name} was given twice")));
            }
        }
        Ok(params)
    }

    fn wants_text(&self, name: &str) -> bool {
        let property = self.params.as_ref().and_then(|schema| schema.get("properties")).and_then(|all| all.get(name));
        match property.and_then(|property| property.get("type")) {
            Some(Value::String(kind)) => kind == "string",
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_become_what_the_type_wants() {
        let schema = json!({"properties": {"unit": {"type": "string"}, "n": {"type": "integer"}, "v": {"type": ["string", "null"]}}});
        let of = Type { params: Some(schema) };
        let given = [("unit", "3"), ("n", "3"), ("v", "true"), ("other", "[1]"), ("text", "a b")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let wanted = json!({"unit": "3", "n": 3, "v": "true", "other": [1], "text": "a b"});
        assert_eq!(Value::Object(of.params(&given).unwrap()), wanted);
        let twice = [given[0].clone(), given[0].clone()];
        assert!(matches!(of.params(&twice), Err(Failure::Usage(_))));
    }
}
