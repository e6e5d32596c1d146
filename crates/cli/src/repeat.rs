//! `--watch`: a list shown again and again, for every command that shows something.
//!
//! On a terminal each picture takes the place of the one before. Elsewhere they follow one another, with an empty line between
//! them; with `-o json` each is a line.

use std::time::Duration;

use crate::agents::AgentsCommand;
use crate::approvals::ApprovalsCommand;
use crate::audit::AuditCommand;
use crate::blocks::BlocksCommand;
use crate::clock::ClockCommand;
use crate::command::{ClientCommand, dispatch};
use crate::connection::Connection;
use crate::context::ContextCommand;
use crate::dlq::DlqCommand;
use crate::duration::Span;
use crate::evaluations::EvaluationsCommand;
use crate::evidence::EvidenceCommand;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hosts::HostsCommand;
use crate::interrupt::Interrupts;
use crate::job::JobCommand;
use crate::output::Screen;
use crate::schedule::ScheduleCommand;
use crate::secret::SecretCommand;
use crate::tenant::TenantCommand;
use crate::token::TokenCommand;
use crate::trigger::TriggerCommand;
use crate::workers::WorkersCommand;
use crate::workflow::WorkflowCommand;

/// No server is asked more often.
const LEAST: Duration = Duration::from_millis(200);

/// Whether a command only shows something, so that it can be shown again.
fn only_shows(command: &ClientCommand) -> bool {
    match command {
        ClientCommand::Lanes | ClientCommand::Quota | ClientCommand::Get(_) | ClientCommand::Whoami => true,
        ClientCommand::Events(args) => !args.follows(),
        ClientCommand::Agents(command) => matches!(command, AgentsCommand::List | AgentsCommand::Get { .. }),
        ClientCommand::Audit(command) => matches!(command, AuditCommand::List(_)),
        ClientCommand::Context(command) => matches!(command, ContextCommand::List),
        ClientCommand::Workers { command } => matches!(command, None | Some(WorkersCommand::List)),
        ClientCommand::Job(command) => matches!(
            command,
            JobCommand::List(_)
                | JobCommand::Get { .. }
                | JobCommand::Hosts(_)
                | JobCommand::Events { .. }
                | JobCommand::Why { .. }
        ),
        ClientCommand::Approvals(command) => {
            matches!(command, ApprovalsCommand::List { .. } | ApprovalsCommand::Show { .. })
        }
        ClientCommand::Blocks(command) => matches!(command, BlocksCommand::List { .. }),
        ClientCommand::Dlq(command) => matches!(command, DlqCommand::List(_)),
        ClientCommand::Evaluations(command) => matches!(command, EvaluationsCommand::List),
        ClientCommand::Evidence(EvidenceCommand::List) => true,
        ClientCommand::Hosts(command) => matches!(
            command,
            HostsCommand::List(_)
                | HostsCommand::Get(_)
                | HostsCommand::Select(_)
                | HostsCommand::Queue(_)
                | HostsCommand::Inventories
        ),
        ClientCommand::Schedule(command) => matches!(command, ScheduleCommand::List | ScheduleCommand::Next(_)),
        ClientCommand::Trigger(command) => matches!(command, TriggerCommand::List | TriggerCommand::Show { .. }),
        ClientCommand::Secret(command) => matches!(command, SecretCommand::List),
        ClientCommand::Workflow(command) => {
            matches!(
                command,
                WorkflowCommand::List
                    | WorkflowCommand::Executions { .. }
                    | WorkflowCommand::Steps(_)
                    | WorkflowCommand::Context(_)
            )
        }
        ClientCommand::Clock(command) => matches!(command, ClockCommand::Show),
        ClientCommand::Tenant(command) => matches!(command, TenantCommand::List),
        ClientCommand::Token(command) => matches!(command, TokenCommand::List { .. }),
        _ => false,
    }
}

/// Shows what the command shows until Ctrl-C, or until it cannot be shown. A server that is away for a while is no end.
pub async fn repeat(
    connection: &Connection,
    command: ClientCommand,
    every: Span,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    if !only_shows(&command) {
        let what = "--watch is for commands that list or show something; `job watch`, `events --follow` and `--wait` follow \
                    what happens";
        return Err(Failure::Usage(what.to_owned()));
    }
    let (every, mut interrupts) = (Duration::from_millis(every.as_millis()).max(LEAST), Interrupts::listen());
    let mut shown = false;
    loop {
        screen.start_picture(shown)?;
        let done = tokio::select! {
            done = Box::pin(dispatch(connection, command.clone(), screen)) => done,
            () = interrupts.next() => return Ok(Exit::Success),
        };
        screen.end_picture()?;
        match done {
            Ok(_) => shown = true,
            Err(failure) if shown && is_passing(&failure) => screen.notes().failure(&failure, screen.json()),
            Err(failure) => return Err(failure),
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = interrupts.next() => return Ok(Exit::Success),
        }
    }
}

fn is_passing(failure: &Failure) -> bool {
    match failure {
        Failure::Unreachable { .. } => true,
        Failure::Refused(refusal) => refusal.status >= 500 || refusal.status == 429,
        _ => false,
    }
}
