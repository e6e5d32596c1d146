//! `workflow`: definitions checked and drawn where they are written, without a server.

mod files;
mod graph;
mod nodes;
mod validate;

use clap::Subcommand;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

#[derive(Debug, Clone, Subcommand)]
pub enum WorkflowCommand {
    /// Say everything that is wrong with workflows in files; no server is asked
    Validate(validate::ValidateArgs),
    /// Draw a workflow, from a file or by the name that the server knows
    Graph(graph::GraphArgs),
    /// The types of nodes there are, and what can be said about each
    Nodes(nodes::NodesArgs),
}

/// Whoever needs a server makes a client of the connection; the others never look for one.
pub async fn run(connection: &Connection, screen: &mut Screen, command: WorkflowCommand) -> Result<Exit, Failure> {
    match command {
        WorkflowCommand::Validate(args) => validate::validate(screen, &args),
        WorkflowCommand::Graph(args) => graph::graph(connection, screen, &args).await,
        WorkflowCommand::Nodes(args) => nodes::nodes(screen, &args),
    }
}
