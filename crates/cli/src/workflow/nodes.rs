//! `workflow nodes [TYPE]`: what a workflow can be made of.

use bowline_workflow::nodes::{NodeTypeView, node_types};
use clap::Args;
use serde_json::Value;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Cell, Column, Paint, Screen};

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline workflow nodes
  bowline workflow nodes http_request")]
pub struct NodesArgs {
    /// Only this type, with everything about its fields
    node_type: Option<String>,
}

const TYPES: [Column; 3] = [Column::left("TYPE").whole(), Column::left("FIELDS"), Column::left("EDGES")];
const FIELDS: [Column; 3] = [Column::left("FIELD").whole(), Column::left("TYPE"), Column::left("WHAT IT SAYS")];

pub fn nodes(screen: &mut Screen, args: &NodesArgs) -> Result<Exit, Failure> {
    let mut types = node_types();
    if let Some(wanted) = &args.node_type {
        types.retain(|view| view.node_type == wanted);
        if types.is_empty() {
            let what = format!("there is no type of node {wanted:?}; `bowline workflow nodes` lists them");
            return Err(Failure::Usage(what));
        }
    }
    if screen.json() {
        for view in &types {
            screen.json_line(&serde_json::to_string(view).unwrap_or_default())?;
        }
        return Ok(Exit::Success);
    }
    match (&args.node_type, types.as_slice()) {
        (Some(_), [one]) => show(screen, one)?,
        _ => {
            let rows: Vec<Vec<Cell>> = types
                .iter()
                .map(|view| {
                    let fields: Vec<_> = fields(view).map(|field| field.word()).collect();
                    vec![
                        Cell::new(view.node_type),
                        Cell::new(fields.join(" ")),
                        Cell::painted(view.ports.join(", "), Paint::Quiet),
                    ]
                })
                .collect();
            screen.table(&TYPES, &rows)?;
            screen.note("* must be given; every node may also have `failure` or `always` edges");
        }
    }
    Ok(Exit::Success)
}

fn show(screen: &mut Screen, view: &NodeTypeView) -> Result<(), Failure> {
    screen.line(&format!("{}: {}", view.node_type, view.about))?;
    let ports = match view.node_type {
        _ if view.ports.is_empty() => "none".to_owned(),
        // All its edges are taken, so there is nothing to say about when.
        "parallel" => view.ports.join(", "),
        _ => format!("{}, failure, always", view.ports.join(", ")),
    };
    screen.line(&format!("Edges: {ports}"))?;
    let rows: Vec<Vec<Cell>> = fields(view)
        .map(|field| vec![Cell::new(field.word()), Cell::new(&field.kind), Cell::new(&field.about)])
        .collect();
    if rows.is_empty() {
        return screen.line("It has no fields.");
    }
    screen.table(&FIELDS, &rows)
}

/// One field of a configuration, as its schema has it.
struct Field {
    name: String,
    required: bool,
    kind: String,
    about: String,
}

impl Field {
    fn word(&self) -> String {
        if self.required { format!("{}*", self.name) } else { self.name.clone() }
    }
}

fn fields(view: &NodeTypeView) -> impl Iterator<Item = Field> {
    let schema = view.schema.as_value();
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let definitions = &schema["$defs"];
    let mut fields: Vec<Field> = properties
        .map(|(name, field)| {
            let meant = resolve(field, definitions);
            let about = [field, meant].iter().find_map(|schema| schema["description"].as_str()).unwrap_or_default();
            Field {
                name: name.clone(),
                required: required.contains(&name.as_str()),
                kind: kind(field, definitions),
                about: about.replace('\n', " "),
            }
        })
        .collect();
    // What must be given comes first.
    fields.sort_by_key(|field| !field.required);
    fields.into_iter()
}

/// What a schema refers to, if it refers to anything.
fn resolve<'a>(schema: &'a Value, definitions: &'a Value) -> &'a Value {
    let alternatives = schema["anyOf"].as_array().into_iter().flatten();
    let schema = alternatives.clone().find(|schema| schema["$ref"].is_string()).unwrap_or(schema);
    let name = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/$defs/"));
    name.map_or(schema, |name| &definitions[name])
}

/// In a word or two.
fn kind(schema: &Value, definitions: &Value) -> String {
    let schema = resolve(schema, definitions);
    let words: Vec<&str> = match &schema["type"] {
        Value::String(word) => vec![word],
        Value::Array(words) => words.iter().filter_map(Value::as_str).filter(|word| *word != "null").collect(),
        _ => Vec::new(),
    };
    let values: Vec<&Value> = match (&schema["enum"], &schema["oneOf"]) {
        (Value::Array(values), _) => values.iter().collect(),
        (_, Value::Array(choices)) => choices.iter().map(|choice| &choice["const"]).collect(),
        _ => Vec::new(),
    };
    let values: Vec<&str> = values.into_iter().filter_map(Value::as_str).collect();
    match (values.is_empty(), words.is_empty()) {
        (false, _) => values.join("|"),
        (true, false) => words.join("|").replace("array", "list").replace("string", "text"),
        (true, true) => "any".to_owned(),
    }
}
