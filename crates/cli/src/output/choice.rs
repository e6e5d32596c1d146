//! `-o json|yaml|table`: how results are printed.

use clap::ValueEnum;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Table,
    /// The server's JSON: one document, or one a line for streams
    Json,
    /// The same as YAML; of `get`, documents that can be applied again
    Yaml,
}

/// A result as a whole document, or nothing where people read it.
pub fn document(result: &serde_json::Value, output: Option<Output>) -> Option<String> {
    match output {
        None | Some(Output::Table) => None,
        Some(Output::Json) => Some(format!("{result}\n")),
        Some(Output::Yaml) => Some(format!("---\n{}", bowline_inventory::document::to_yaml(result))),
    }
}
