//! `hosts add NAME`.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Where;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::label;
use crate::output::{Screen, Text};
use crate::source;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline hosts add web1 --label role=web --group web
  bowline hosts add db1 --via ssh --address 10.0.0.9 --user ops --var backup=true

What is not said is not kept: a host that is there becomes what this command says.")]
pub struct AddArgs {
    /// The host's name: letters, digits and . _ : / @ -
    name: String,
    /// A label; repeat for several
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// A group it is in; repeat for several
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// A variable: JSON, or a plain text; @FILE reads a file; repeat for several
    #[arg(long = "var", value_name = "NAME=JSON", value_parser = variable)]
    vars: Vec<(String, Value)>,
    /// How it is reached
    #[arg(long, value_enum, default_value_t = Via::Agent)]
    via: Via,
    /// With --via agent: how the agent calls itself [default: like the host]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// With --via ssh: where it is [default: its name]
    #[arg(long)]
    address: Option<String>,
    /// With --via ssh: the port [default: 22]
    #[arg(long)]
    port: Option<u16>,
    /// With --via ssh: who to log in as [default: the agent's own user]
    #[arg(long)]
    user: Option<String>,
    /// With --via ssh or simulate: a label the agent must have; repeat for several
    #[arg(long = "through", value_name = "NAME=VALUE", value_parser = label)]
    through: Vec<(String, String)>,
    /// Why; kept in the audit trail
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    place: Where,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// An agent runs there
    Agent,
    /// Some agent reaches it by SSH
    Ssh,
    /// It does not exist; some agent plays it
    Simulate,
}

/// A name and a value. What is no JSON is a text: `user=ann` needs no quotes.
fn variable(text: &str) -> Result<(String, Value), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            let value = source::value(value)?;
            Ok((name.to_owned(), serde_json::from_str(&value).unwrap_or_else(|_| value.into())))
        }
        _ => Err("a name, = and a value are expected, such as port=8080".to_owned()),
    }
}

#[derive(Serialize)]
struct NewHost<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    vars: BTreeMap<&'a str, &'a Value>,
    connection: NewConnection<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct NewConnection<'a> {
    via: Via,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    through: BTreeMap<&'a str, &'a str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Added {
    outcome: Text,
}

fn pairs(list: &[(String, String)]) -> BTreeMap<&str, &str> {
    list.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

impl AddArgs {
    /// An option that says nothing about this way of reaching a host is a mistake.
    fn check(&self) -> Result<(), Failure> {
        let ssh_only = self.address.is_some() || self.port.is_some() || self.user.is_some();
        let wrong = match self.via {
            Via::Agent if ssh_only => Some("--address, --port and --user need --via ssh"),
            Via::Agent if !self.through.is_empty() => Some("--through needs --via ssh or --via simulate"),
            Via::Ssh | Via::Simulate if self.agent.is_some() => Some("--agent needs --via agent"),
            Via::Simulate if ssh_only => Some("--address, --port and --user need --via ssh"),
            _ => None,
        };
        wrong.map_or(Ok(()), |wrong| Err(Failure::Usage(wrong.to_owned())))
    }
}

pub async fn add(client: &Client, screen: &mut Screen, args: &AddArgs) -> Result<Exit, Failure> {
    args.check()?;
    let host = NewHost {
        labels: pairs(&args.labels),
        groups: &args.groups,
        vars: args.vars.iter().map(|(name, value)| (name.as_str(), value)).collect(),
        connection: NewConnection {
            via: args.via,
            agent: args.agent.as_deref(),
            address: args.address.as_deref(),
            port: args.port,
            user: args.user.as_deref(),
            through: pairs(&args.through),
        },
        reason: args.reason.as_deref(),
    };
    let body = serde_json::to_string(&host).map_err(|error| Failure::Usage(error.to_string()))?;
    let request = Request::put(["hosts", &args.name]).query("inventory", &args.place.inventory).body(body);
    let answer = client.call(&request).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let added: Added = answer.read()?;
    screen.line(&format!("host {} {}", Text::new(&args.name), added.outcome))?;
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_variable_is_json_or_a_text() {
        assert_eq!(variable("port=80").unwrap().1, json!(80));
        assert_eq!(variable("on=true").unwrap().1, json!(true));
        assert_eq!(variable("list=[1,\"a\"]").unwrap().1, json!([1, "a"]));
        assert_eq!(variable("user=ann").unwrap().1, json!("ann"));
        assert_eq!(variable("empty=").unwrap().1, json!(""));
        assert!(variable("=1").is_err() && variable("x").is_err());
    }
}
