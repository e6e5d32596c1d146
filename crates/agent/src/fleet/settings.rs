//! What somebody decides about an agent before it starts.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use bowline_execute::simulate::Simulation;
use bowline_execute::{Clock, Limits};
use bowline_model::RetryPolicy;
use bowline_ssh::SshSettings;

/// How an agent is to be. [`FleetSettings::new`] has what most want.
#[derive(Clone)]
pub struct FleetSettings {
    /// The server's address.
    pub server: String,
    /// Whether plain HTTP to another machine is fine. Others on the way can read the credential and change commands.
    pub insecure_http: bool,
    /// Where the agent keeps its key, its credential and its runs. One agent for one directory.
    pub data: PathBuf,
    /// Needed once, at the first start.
    pub join: Option<String>,
    /// Like this machine unless given.
    pub name: Option<String>,
    /// How many runs it has in hand at once.
    pub slots: u32,
    pub labels: BTreeMap<String, String>,
    /// Hosts other than its own.
    pub reach: Option<Reach>,
    /// Where the values of secrets are, one file each.
    pub secrets: Option<PathBuf>,
    /// Whether commands on this host may gain privileges, by `sudo` for instance.
    pub allow_new_privileges: bool,
    /// Whom commands on this host run as, and how much they may use.
    pub isolation: IsolationSettings,
    /// The program that is a keeper, and its first arguments.
    pub keeper: Vec<OsString>,
    /// Says when things happen, for people.
    pub clock: Clock,
    /// How long a request for tasks waits at the server.
    pub poll_wait: Duration,
    /// How long runs inside this process may take to finish when it is asked to leave.
    pub grace: Duration,
    pub backoff: RetryPolicy,
}

/// What an agent lets commands on its own host be and use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IsolationSettings {
    /// Whom commands run as whose type names no user. Unless given `nobody` for an agent that is root, and the agent's own user,
    /// with the agent's directory closed, for one that is not.
    pub run_as: Option<String>,
    /// Commands run as the agent's own user, and its directory is open to them.
    pub share_user: bool,
    /// Whom else command types may name.
    pub allow_users: Vec<String>,
    /// The most that any command may use.
    pub limits: Limits,
    /// The control group in which runs get their own. The agent's own unless given.
    pub cgroup_parent: Option<PathBuf>,
}

/// Hosts that an agent reaches without being there.
#[derive(Debug, Clone)]
pub enum Reach {
    /// Hosts that do not exist.
    Simulate(SimulateSettings),
    /// Hosts without an agent.
    Ssh(SshSettings),
}

#[derive(Debug, Clone, PartialEq)]
pub struct SimulateSettings {
    pub world: Simulation,
    pub output: ShownOutput,
}

/// Which made-up hosts have output. Each one that has costs a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownOutput {
    None,
    Failed,
    All,
}

impl Reach {
    /// What it is called in the label that says so.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Simulate(_) => "simulate",
            Self::Ssh(_) => "ssh",
        }
    }
}

impl FleetSettings {
    pub fn new(server: &str, data: impl Into<PathBuf>, keeper: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            server: server.to_owned(),
            insecure_http: false,
            data: data.into(),
            join: None,
            name: None,
            slots: 16,
            labels: BTreeMap::new(),
            reach: None,
            secrets: None,
            allow_new_privileges: false,
            isolation: IsolationSettings::default(),
            keeper: keeper.into_iter().map(Into::into).collect(),
            clock: std::sync::Arc::new(crate::clock::now),
            poll_wait: Duration::from_secs(20),
            grace: Duration::from_secs(30),
            backoff: RetryPolicy { base_ms: 250, factor: 2.0, max_backoff_ms: 10_000, ..RetryPolicy::default() },
        }
    }
}
