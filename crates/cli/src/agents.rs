//! `agents list|get|remove`: who executes commands on hosts.

use std::collections::BTreeMap;

use clap::Subcommand;
use serde::Deserialize;
use serde_json::json;

use crate::actor::ActorView;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{Cell, Column, Facts, Paint, Screen, Text};
use crate::whoami::joined;
use crate::workers::labels;

#[derive(Debug, Clone, Subcommand)]
pub enum AgentsCommand {
    /// List the agents
    List,
    /// Show an agent
    Get {
        /// The agent's name
        name: String,
    },
    /// Remove an agent: its credential ends, its runs are lost, and its name can be joined again with a new key
    Remove {
        /// The agent's name
        name: String,
        /// Why; stored in the audit trail
        #[arg(long)]
        reason: String,
    },
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CredentialView {
    token: Text,
    expires_at: Text,
    revoked_at: Text,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AdmittedView {
    join_token: Text,
    by: Option<ActorView>,
    at: Text,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AgentView {
    name: Text,
    status: Text,
    labels: Option<BTreeMap<String, Text>>,
    claimed_labels: Option<BTreeMap<String, Text>>,
    reach: Vec<Text>,
    shares_agent_user: bool,
    secrets_for_shared_user: bool,
    version: Text,
    slots: Text,
    running: Text,
    seen_at: Text,
    public_key: Text,
    credential: CredentialView,
    admitted: AdmittedView,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RemovedView {
    lost_runs: u64,
    returned_runs: u64,
}

const COLUMNS: [Column; 7] = [
    Column::left("AGENT").whole(),
    Column::left("STATUS"),
    Column::left("VERSION"),
    Column::right("RUNS"),
    Column::left("SEEN"),
    Column::left("CREDENTIAL ENDS"),
    Column::left("LABELS").spare(),
];

fn paint(status: &Text) -> Paint {
    match status.as_str() {
        "active" => Paint::Good,
        "busy" | "draining" | "enrolled" => Paint::Busy,
        _ => Paint::Bad,
    }
}

fn row(screen: &Screen, agent: &AgentView) -> Vec<Cell> {
    let shared = agent.shares_agent_user.then(|| "shares_agent_user".to_owned());
    let said = Some(labels(agent.labels.as_ref())).filter(|labels| !labels.is_empty());
    vec![
        (&agent.name).into(),
        Cell::painted(agent.status.as_str(), paint(&agent.status)),
        (&agent.version).into(),
        (&agent.running).into(),
        screen.ago(&agent.seen_at).into(),
        (&agent.credential.expires_at).into(),
        said.into_iter().chain(shared).collect::<Vec<_>>().join(" ").into(),
    ]
}

fn facts(screen: &Screen, agent: &AgentView) -> Facts {
    let yes = |said: bool| if said { "yes" } else { "no" };
    Facts::new()
        .with("agent", agent.name.as_str())
        .painted("status", agent.status.as_str(), paint(&agent.status))
        .with("version", agent.version.as_str())
        .with("labels", labels(agent.labels.as_ref()))
        .with("claimed labels", labels(agent.claimed_labels.as_ref()))
        .with("reach", joined(&agent.reach))
        .with("shares agent user", yes(agent.shares_agent_user))
        .with("secrets for shared user", yes(agent.secrets_for_shared_user))
        .with("runs", format!("{} of {}", agent.running, agent.slots))
        .with("seen", screen.ago(&agent.seen_at))
        .with("public key", agent.public_key.as_str())
        .with("credential", agent.credential.token.as_str())
        .with("credential ends", agent.credential.expires_at.as_str())
        .with("credential revoked", agent.credential.revoked_at.as_str())
        .with("join token", agent.admitted.join_token.as_str())
        .with("admitted by", agent.admitted.by.as_ref().map(|by| by.name.to_string()).unwrap_or_default())
        .with("admitted at", agent.admitted.at.as_str())
}

pub async fn run(client: &Client, screen: &mut Screen, command: AgentsCommand) -> Result<Exit, Failure> {
    match command {
        AgentsCommand::List => {
            let mut listing = Listing::new(screen, "agents", None, &COLUMNS, row);
            listing.read(client, Request::get(["agents"])).await?;
            listing.finish(
                "No agents. Make a token with `bowline token create --kind join --name NAME` and start one with it.",
            )?;
        }
        AgentsCommand::Get { name } => {
            let answer = client.call(&Request::get(["agents", &name])).await?;
            if screen.json() {
                screen.json_line(answer.text())?;
            } else {
                let text = facts(screen, &answer.read()?).render(screen.color());
                screen.text(&text)?;
            }
        }
        AgentsCommand::Remove { name, reason } => remove(client, screen, &name, &reason).await?,
    }
    Ok(Exit::Success)
}

async fn remove(client: &Client, screen: &mut Screen, name: &str, reason: &str) -> Result<(), Failure> {
    let request = Request::delete(["agents", name]).body(json!({ "reason": reason }).to_string());
    let answer = client.call(&request).await?;
    if screen.json() {
        return screen.json_line(answer.text());
    }
    let RemovedView { lost_runs, returned_runs } = answer.read()?;
    screen.line(&format!("agent {} is removed", Text::new(name)))?;
    if lost_runs > 0 {
        screen.note(&format!(
            "{lost_runs} runs are lost; their hosts are reserved until they must have ended, or until `bowline hosts release HOST`"
        ));
    }
    if returned_runs > 0 {
        screen.note(&format!("{returned_runs} runs that it had not accepted were returned to the queue"));
    }
    screen.note(&format!(
        "a new agent joins under this name with `bowline token create --kind join --name {}`",
        Text::new(name)
    ));
    Ok(())
}
