//! `GET /openapi.json`: the API in its own words, made from the table of routes.

use std::sync::LazyLock;

use axum::Json;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::routes::{Access, table};

static DOCUMENT: LazyLock<Value> = LazyLock::new(make);

/// The document.
pub fn document() -> &'static Value {
    &DOCUMENT
}

pub async fn show() -> Json<&'static Value> {
    Json(document())
}

fn make() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in table() {
        let mut parameters: Vec<Value> = path_names(route.path)
            .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
            .collect();
        if let Some(query) = route.query {
            let schema = query(&mut generator).to_value();
            parameters.extend(query_parameters(&generator, &schema));
        }
        let mut operation = json!({
            "operationId": route.operation,
            "summary": route.summary,
            "parameters": parameters,
            "responses": {"default": {"$ref": "#/components/responses/Problem"}},
        });
        let good = match route.gives {
            Some(gives) => json!({
                "description": route.summary,
                "content": {"application/json": {"schema": gives(&mut generator).to_value()}},
            }),
            None if route.gives_file => json!({"description": route.summary, "content": files()}),
            None => json!({"description": route.summary}),
        };
        if let Some(status) = route.or_status {
            operation["responses"][status.to_string()] = good.clone();
        }
        operation["responses"][route.status.to_string()] = good;
        if route.takes_file {
            operation["requestBody"] = json!({"content": files()});
        }
        if let Some(takes) = route.takes {
            let schema = takes(&mut generator).to_value();
            operation["requestBody"] = json!({"content": {"application/json": {"schema": schema}}});
        }
        operation["security"] = match route.access {
            Access::Open => json!([]),
            Access::Known => json!([{"bearer": []}]),
            Access::Needs { scope, .. } => json!([{"bearer": [scope.to_string()]}]),
        };
        let entry = paths.entry(route.path.to_owned()).or_insert_with(|| json!({}));
        entry[route.method.to_lowercase()] = operation;
    }
    let schemas: Map<String, Value> = generator.take_definitions(true).into_iter().collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Bowline",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "A resilient automation orchestrator: one durable ledger for everything that must be run and must not be lost.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "responses": {"Problem": {
                "description": "A refusal. Codes are explained in docs/errors.md.",
                "content": {"application/json": {"schema": {
                    "type": "object",
                    "required": ["error", "request_id", "trace_id"],
                    "properties": {
                        "error": {
                            "type": "object",
                            "required": ["code", "message"],
                            "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "details": {}},
                        },
                        "request_id": {"type": "string"},
                        "trace_id": {"type": "string"},
                    },
                }}},
            }},
        },
    })
}

/// A file as it is, in one of the formats that are read and written.
fn files() -> Value {
    let text = || json!({"schema": {"type": "string"}});
    let kinds = ["application/yaml", "application/json", "text/csv", "text/plain"];
    kinds.into_iter().map(|kind| (kind.to_owned(), text())).collect::<Map<String, Value>>().into()
}

fn path_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// A query struct's fields, one parameter each.
fn query_parameters(generator: &schemars::SchemaGenerator, schema: &Value) -> Vec<Value> {
    let name = schema["$ref"].as_str().and_then(|r| r.rsplit('/').next()).unwrap_or("");
    let Some(definition) = generator.definitions().get(name) else { return Vec::new() };
    let Some(fields) = definition["properties"].as_object() else { return Vec::new() };
    fields
        .iter()
        .map(|(name, field)| {
            let description = field["description"].as_str().unwrap_or("");
            json!({"name": name, "in": "query", "required": false, "description": description, "schema": field})
        })
        .collect()
}
