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
