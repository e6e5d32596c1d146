//! The commands that ask a server, and the way to each.

use std::process::ExitCode;

use clap::Subcommand;

use crate::agents::AgentsCommand;
use crate::approvals::ApprovalsCommand;
use crate::audit::AuditCommand;
use crate::blocks::BlocksCommand;
use crate::client::Client;
use crate::clock::ClockCommand;
use crate::connection::Connection;
use crate::context::{ContextCommand, LoginArgs};
use crate::dlq::DlqCommand;
use crate::evaluations::EvaluationsCommand;
use crate::events::EventsArgs;
use crate::evidence::EvidenceCommand;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hosts::HostsCommand;
use crate::job::JobCommand;
use crate::output::Screen;
use crate::resource::{ActivateArgs, ApplyArgs, DeleteArgs, DiffArgs, GetArgs, RollbackArgs, ValidateArgs};
use crate::run::RunArgs;
use crate::schedule::ScheduleCommand;
use crate::secret::SecretCommand;
use crate::tenant::TenantCommand;
use crate::token::TokenCommand;
use crate::trigger::TriggerCommand;
use crate::workers::WorkersCommand;
use crate::workflow::WorkflowCommand;
use crate::{
    agents, approvals, audit, blocks, clock, context, dlq, evaluations, events, evidence, hosts, job, lanes, quota,
    repeat, resource, schedule, secret, suggest, tenant, token, trigger, whoami, workers, workflow,
};

// Everything that is done by asking a server. (Not a doc comment: flattened into the binary's commands, it would become
// the description of the whole program.)
#[derive(Debug, Clone, Subcommand)]
pub enum ClientCommand {
    /// Submit, list, watch, cancel and retry jobs
    #[command(subcommand, visible_alias = "jobs")]
    Job(JobCommand),

    Run(Box<RunArgs>),

    /// List, approve and reject commands and workflows that wait for approval
    #[command(subcommand, visible_alias = "approval")]
    Approvals(ApprovalsCommand),

    /// Block commands on hosts
    #[command(subcommand, visible_alias = "block")]
    Blocks(BlocksCommand),

    /// List, replay and purge dead letters: jobs that failed for good
    #[command(subcommand, visible_alias = "dead-letters")]
    Dlq(DlqCommand),

    /// List and resume evaluations that ended the server twice and were set aside
    #[command(subcommand, visible_alias = "evaluation")]
    Evaluations(EvaluationsCommand),

    /// List or follow events
    #[command(visible_alias = "event")]
    Events(EventsArgs),

    /// Manage hosts and inventories
    #[command(subcommand, visible_alias = "host")]
    Hosts(HostsCommand),

    /// Apply configuration files: commands, inventories, workflows and the rest
    Apply(ApplyArgs),

    /// Show what would change if files were applied
    Diff(DiffArgs),

    /// Check configuration files without applying them
    Validate(ValidateArgs),

    /// Show the resources of one kind, or one of them
    Get(GetArgs),

    /// Activate a version of a resource
    Activate(ActivateArgs),

    /// Activate the version before the active one
    Rollback(RollbackArgs),

    /// Delete a resource with all its versions, unless something needs it
    Delete(DeleteArgs),

    /// List and trigger schedules
    #[command(subcommand, visible_alias = "schedules")]
    Schedule(ScheduleCommand),

    /// Show triggers: what messages start
    #[command(subcommand, visible_alias = "triggers")]
    Trigger(TriggerCommand),

    /// List secrets and check that they can be read; values are never shown
    #[command(subcommand, visible_alias = "secrets")]
    Secret(SecretCommand),

    /// Check, draw, run and debug workflows
    #[command(subcommand, visible_alias = "workflows")]
    Workflow(WorkflowCommand),

    /// Show the lanes and what waits in them
    #[command(visible_alias = "lane")]
    Lanes,

    /// Show what this tenant uses, and its limits
    #[command(visible_alias = "quotas")]
    Quota,

    /// List and drain workers
    #[command(visible_alias = "worker")]
    Workers {
        #[command(subcommand)]
        command: Option<WorkersCommand>,
    },

    /// List, show and remove agents
    #[command(subcommand)]
    Agents(AgentsCommand),

    /// List, export and verify the audit trail
    #[command(subcommand)]
    Audit(AuditCommand),

    /// Show the server's clock, and accept it after a jump
    #[command(subcommand)]
    Clock(ClockCommand),

    /// List what agents executed and the ledger does not know
    #[command(subcommand)]
    Evidence(EvidenceCommand),

    /// Create and list tenants
    #[command(subcommand, visible_alias = "tenants")]
    Tenant(TenantCommand),

    /// Create, list and revoke tokens
    #[command(subcommand, visible_alias = "tokens")]
    Token(TokenCommand),

    /// Show who you are to the server, and what you may do
    Whoami,

    /// Save a server and a token as a context, and switch to it
    Login(LoginArgs),

    /// List, switch and remove saved contexts
    #[command(subcommand, visible_alias = "contexts")]
    Context(ContextCommand),
}

/// Carries out a command on the process's own outputs.
pub async fn run(connection: &Connection, command: ClientCommand) -> ExitCode {
    let mut screen = Screen::stdio(connection);
    let alone = matches!(command, ClientCommand::Login(_) | ClientCommand::Context(_));
    let connection = match if alone { Ok(connection.clone()) } else { context::apply(connection) } {
        Ok(connection) => connection,
        Err(failure) => {
            screen.notes().failure(&failure, screen.json());
            return failure.exit().into();
        }
    };
    run_on(&connection, command, &mut screen).await.into()
}

/// Carries out a command on the given outputs. Failures are told there; what comes back is how it ended.
pub async fn run_on(connection: &Connection, command: ClientCommand, screen: &mut Screen) -> Exit {
    let done = match connection.watch {
        Some(every) => repeat::repeat(connection, command, every, screen).await,
        None => dispatch(connection, command, screen).await,
    };
    match done {
        Ok(exit) => exit,
        Err(failure) => {
            if !failure.is_silent() {
                screen.notes().failure(&failure, screen.json());
            }
            failure.exit()
        }
    }
}

pub(crate) async fn dispatch(
    connection: &Connection,
    command: ClientCommand,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    let done = carry_out(connection, command, screen).await;
    match done {
        // A name with a typing error gets the one that is near.
        Err(Failure::Refused(mut refusal)) => {
            if let Ok(client) = Client::new(connection, screen.notes()) {
                suggest::suggest(&client, &mut refusal).await;
            }
            Err(Failure::Refused(refusal))
        }
        done => done,
    }
}

async fn carry_out(connection: &Connection, command: ClientCommand, screen: &mut Screen) -> Result<Exit, Failure> {
    // What needs no server needs no token either.
    if let ClientCommand::Workflow(command) = command {
        return Box::pin(workflow::run(connection, screen, command)).await;
    }
    if let ClientCommand::Login(args) = &command {
        return Box::pin(context::login(connection, screen, args)).await;
    }
    if let ClientCommand::Context(command) = command {
        return context::run(screen, command);
    }
    let client = Client::new(connection, screen.notes())?;
    match command {
        ClientCommand::Job(command) => Box::pin(job::run(&client, screen, command)).await,
        ClientCommand::Run(args) => Box::pin(crate::run::run(&client, screen, &args)).await,
        ClientCommand::Approvals(command) => Box::pin(approvals::run(&client, screen, command)).await,
        ClientCommand::Blocks(command) => Box::pin(blocks::run(&client, screen, command)).await,
        ClientCommand::Dlq(command) => dlq::run(&client, screen, command).await,
        ClientCommand::Evaluations(command) => evaluations::run(&client, screen, command).await,
        ClientCommand::Quota => quota::run(&client, screen).await,
        ClientCommand::Events(args) => events::run(&client, screen, args).await,
        ClientCommand::Hosts(command) => Box::pin(hosts::run(&client, screen, command)).await,
        ClientCommand::Apply(args) => resource::apply(&client, screen, &args).await,
        ClientCommand::Diff(args) => resource::diff(&client, screen, &args).await,
        ClientCommand::Validate(args) => resource::validate(&client, screen, &args).await,
        ClientCommand::Get(args) => resource::get(&client, screen, &args).await,
        ClientCommand::Activate(args) => resource::activate(&client, screen, &args).await,
        ClientCommand::Rollback(args) => resource::rollback(&client, screen, &args).await,
        ClientCommand::Delete(args) => resource::delete(&client, screen, &args).await,
        ClientCommand::Schedule(command) => schedule::run(&client, screen, command).await,
        ClientCommand::Trigger(command) => trigger::run(&client, screen, command).await,
        ClientCommand::Secret(command) => secret::run(&client, screen, command).await,
        ClientCommand::Workflow(command) => Box::pin(workflow::run(connection, screen, command)).await,
        ClientCommand::Lanes => lanes::run(&client, screen).await,
        ClientCommand::Agents(command) => agents::run(&client, screen, command).await,
        ClientCommand::Workers { command } => workers::run(&client, screen, command).await,
        ClientCommand::Audit(command) => Box::pin(audit::run(&client, screen, command)).await,
        ClientCommand::Clock(command) => clock::run(&client, screen, command).await,
        ClientCommand::Evidence(command) => evidence::run(&client, screen, command).await,
        ClientCommand::Tenant(command) => tenant::run(&client, screen, command).await,
        ClientCommand::Token(command) => token::run(&client, screen, command).await,
        ClientCommand::Whoami => whoami::run(&client, screen).await,
        ClientCommand::Login(args) => Box::pin(context::login(connection, screen, &args)).await,
        ClientCommand::Context(command) => context::run(screen, command),
    }
}
