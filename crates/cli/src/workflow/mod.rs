//! `workflow`: definitions checked and drawn where they are written, without a server; and runs of workflows, begun, looked
//! at and gone through step by step.

mod debug;
mod files;
mod fork;
mod graph;
mod list;
mod look;
mod nodes;
mod remote;
mod run;
mod shadow;
mod signal;
mod validate;
mod values;
mod words;

use bowline_model::JobId;
use clap::Subcommand;

pub use remote::RunView;
pub use words::waits;

use crate::client::Client;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job;
use crate::output::Screen;

#[derive(Debug, Clone, Subcommand)]
pub enum WorkflowCommand {
    /// List the workflows and the blueprints that the server has
    List,
    /// List executions, newest first: of one workflow, or of all
    #[command(visible_aliases = ["execs", "history"], alias = "execution")]
    Executions {
        /// The workflow or the blueprint
        name: Option<String>,
        /// Only these: running, sleeping, awaiting_approval, awaiting_event, stepping, success, failed, canceled, error
        #[arg(long)]
        status: Option<String>,
        #[command(flatten)]
        which: job::Which,
    },
    /// List all errors of workflows and blueprints in files, without a server
    Validate(validate::ValidateArgs),
    /// Draw a workflow or a blueprint, from a file or from the server
    Graph(graph::GraphArgs),
    /// List the types of nodes and their fields
    #[command(alias = "node")]
    Nodes(nodes::NodesArgs),
    /// Start an execution, and watch its steps until it ends
    Run(Box<run::RunArgs>),
    /// Debug an execution step by step
    Debug(Box<debug::DebugArgs>),
    /// Show what an execution has done, step by step
    #[command(alias = "step")]
    Steps(look::StepsArgs),
    /// Show the context of an execution, now or after any step
    Context(look::ContextArgs),
    /// Start a new execution from a step of another
    Fork(fork::ForkArgs),
    /// Replay an execution with the answers it got, and show what would be different
    Shadow(shadow::ShadowArgs),
    /// Signal an event to executions
    #[command(alias = "signals")]
    Signal(signal::SignalArgs),
    /// Continue a failed execution where it failed
    Retry(job::RetryArgs),
}

/// Shows the steps of an execution after number `steps`, until it ends.
pub async fn follow(client: &Client, screen: &mut Screen, id: JobId, steps: u32) -> Result<Exit, Failure> {
    run::follow_after(&remote::Remote::new(client, id), screen, steps).await
}

/// A command that needs a server makes a client of the connection; the others never look for one.
pub async fn run(connection: &Connection, screen: &mut Screen, command: WorkflowCommand) -> Result<Exit, Failure> {
    let client = || Client::new(connection, screen.notes());
    match command {
        WorkflowCommand::List => list::list(&client()?, screen).await,
        WorkflowCommand::Executions { name, status, which } => {
            job::executions(&client()?, screen, name.as_deref(), status.as_deref(), &which).await
        }
        WorkflowCommand::Validate(args) => validate::validate(screen, &args),
        WorkflowCommand::Graph(args) => graph::graph(connection, screen, &args).await,
        WorkflowCommand::Nodes(args) => nodes::nodes(screen, &args),
        WorkflowCommand::Run(args) => run::run(&client()?, screen, &args).await,
        WorkflowCommand::Debug(args) => Box::pin(debug::debug(&client()?, screen, &args)).await,
        WorkflowCommand::Steps(args) => look::steps(&client()?, screen, &args).await,
        WorkflowCommand::Context(args) => look::context(&client()?, screen, &args).await,
        WorkflowCommand::Fork(args) => fork::fork(&client()?, screen, &args).await,
        WorkflowCommand::Shadow(args) => shadow::shadow(&client()?, screen, &args).await,
        WorkflowCommand::Signal(args) => signal::signal(&client()?, screen, &args).await,
        WorkflowCommand::Retry(args) => job::retry(&client()?, screen, &args).await,
    }
}
