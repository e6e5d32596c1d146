//! `GET /resources/kinds`: which kinds there are, and what each looks like.

use axum::Json;
use bowline_model::resource::{ResourceKind, Spec};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Debug, Serialize, JsonSchema)]
pub struct KindView {
    pub kind: ResourceKind,
    /// JSON Schema of the kind's `spec`.
    pub schema: Value,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct KindList {
    pub kinds: Vec<KindView>,
}

pub async fn kinds() -> Json<KindList> {
    Json(KindList {
        kinds: ResourceKind::ALL.into_iter().map(|kind| KindView { kind, schema: schema(kind) }).collect(),
    })
}

/// A schema that stands alone.
fn schema(kind: ResourceKind) -> Value {
    let settings = SchemaSettings::draft2020_12();
    let dialect = settings.meta_schema.clone();
    let mut generator = settings.into_generator();
    let mut schema = Spec::schema(kind, &mut generator).to_value();
    let definitions: Map<String, Value> = generator.take_definitions(true).into_iter().collect();
    schema["$schema"] = dialect.map_or(Value::Null, |dialect| dialect.as_ref().into());
    schema["$defs"] = definitions.into();
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_stands_alone() {
        for kind in ResourceKind::ALL {
            let schema = schema(kind);
            let name = schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/")).expect("a reference");
            assert!(schema["$defs"][name]["properties"].is_object(), "{kind}: {schema}");
            assert_eq!(schema["$defs"][name]["additionalProperties"], false, "{kind}: unknown fields are refused");
        }
    }
}
