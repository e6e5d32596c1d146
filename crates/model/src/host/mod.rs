//! Hosts: where commands run. What a host is, how hosts are grouped, and how people say which ones they mean.

mod effective;
mod groups;
mod host_ref;
mod inventory;
mod pattern;
mod selector;
mod ssh;
mod steps;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::{GroupName, HostName, Labels, WorkerName};

pub use effective::{GroupVars, HostVars};
pub use groups::{GroupTree, GroupsInACircle};
pub use host_ref::HostRef;
pub use inventory::{
    GROUP_VARS_BYTES_MAX, GROUPS_MAX, Group, HOST_GROUPS_MAX, HOSTS_MAX, Host, Inventory, NESTED_MAX, TooManyGroups,
    TooManyVars, VARS_BYTES_MAX, Vars, check_group_vars, check_groups, json_bytes,
};
pub use pattern::{NotAPattern, Pattern};
pub use selector::{NotASelector, Selector};
pub use ssh::{InvalidConnection, check_address, check_user};
pub use steps::{Steps, TooCostly};

/// How a host is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "via", rename_all = "snake_case", deny_unknown_fields)]
pub enum Connection {
    /// An agent runs there.
    Agent {
        /// How it calls itself; like the host unless given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<WorkerName>,
    },
    /// Some agent reaches it by SSH.
    Ssh {
        /// Its name unless given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<String>,
        /// 22 unless given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// The agent's own user unless given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// Labels an agent must have to be the one.
        #[serde(default, skip_serializing_if = "Labels::is_empty")]
        through: Labels,
    },
    /// It does not exist; some agent plays it.
    Simulate {
        /// Labels an agent must have to be the one.
        #[serde(default, skip_serializing_if = "Labels::is_empty")]
        through: Labels,
    },
}

impl Default for Connection {
    fn default() -> Self {
        Self::Agent { agent: None }
    }
}

impl Connection {
    /// Refuses what no tool should be given as an address, a user or a port.
    pub fn check(&self) -> Result<(), InvalidConnection> {
        let Self::Ssh { address, port, user, .. } = self else { return Ok(()) };
        address.as_deref().map_or(Ok(()), check_address)?;
        user.as_deref().map_or(Ok(()), check_user)?;
        if *port == Some(0) { Err(InvalidConnection::Port) } else { Ok(()) }
    }

    /// What an agent must have to reach a host of this name: labels that its join token gave it.
    pub fn required_labels(&self, host: &HostName) -> Labels {
        let (own, through) = match self {
            Self::Agent { agent } => {
                let name = agent.as_ref().map_or_else(|| host.as_str().to_owned(), |name| name.as_str().to_owned());
                return Labels::of([(Self::AGENT_LABEL, name.as_str())]);
            }
            Self::Ssh { through, .. } => ("ssh", through),
            Self::Simulate { through } => ("simulate", through),
        };
        let pairs = through.iter().chain([(Self::REACH_LABEL, own)]);
        Labels::of(pairs)
    }

    /// Every agent has its own name under this label.
    pub const AGENT_LABEL: &'static str = "bowline/agent";
    /// Agents that reach hosts other than their own say how under this label.
    pub const REACH_LABEL: &'static str = "bowline/reach";
    /// Agents that have shown a key to seal secrets to have this label, with the sort of key. The server gives it.
    pub const SEALING_LABEL: &'static str = "bowline/sealing";
    pub const SEALING: &'static str = "x25519";
}

/// What a selector can ask about a host.
#[derive(Debug, Clone, Copy)]
pub struct HostFacts<'a> {
    pub name: &'a HostName,
    pub labels: &'a Labels,
    /// Its groups and all groups those are in.
    pub groups: &'a BTreeSet<GroupName>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_must_have_the_labels_that_a_connection_asks_for() {
        let web1 = HostName::new("web1").expect("a name");
        let required = |connection: Connection| connection.required_labels(&web1).canonical();
        assert_eq!(required(Connection::default()), "bowline/agent=web1");
        let other = Some(WorkerName::new("other").expect("a name"));
        assert_eq!(required(Connection::Agent { agent: other }), "bowline/agent=other");
        let through = Labels::of([("site", "fra")]);
        let simulated = Connection::Simulate { through: through.clone() };
        assert_eq!(required(simulated), "bowline/reach=simulate site=fra");
        let ssh = Connection::Ssh { address: None, port: None, user: None, through };
        assert_eq!(required(ssh), "bowline/reach=ssh site=fra");
    }
}
