//! `bowline agent`: executes commands on this host, and on hosts it reaches, for a server it calls.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use bowline_agent::CancellationToken;
use bowline_agent::fleet::{
    FleetAgent, FleetSettings, HostKeyRule, IsolationSettings, Reach, ShownOutput, SimulateSettings, SshSettings,
};
use bowline_execute::Limits;
use bowline_execute::simulate::Simulation;
use clap::{Args, ValueEnum};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{closed, log};

const EXAMPLES: &str = "\
Examples:
  bowline agent --server https://bowline.example.org --join-file web1.join
      The first start, with what `bowline token create --kind join --save web1.join` wrote: makes a
      key, enrolls under the name of this machine, and starts to work
  bowline agent --server https://bowline.example.org
      Every start after that
  bowline agent --join-file fra.join --name fra --reach ssh --ssh-key id_ed25519 --known-hosts hosts
      Reaches hosts that have no agent of their own
  bowline agent --join-file sim-1.join --name sim-1 --reach simulate --latency 20:400 --failure 0.02
      Simulates hosts, to try out rollouts without touching anything

The agent only makes outgoing connections. Commands continue when it is stopped, and the next start reports how they \
ended. The first SIGTERM or Ctrl-C stops it gracefully: what it executes itself may finish, and results are reported. The \
second one stops it at once: commands on this host continue, and the next start reports the rest. Run it as a service with \
KillMode=process: see docs/guide/agents.md.";

/// Flags of `agent`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AgentArgs {
    /// The join token that was created for this agent; needed at the first start only. Others on this machine see the
    /// command line: use --join-file or the environment
    #[arg(long, value_name = "TOKEN", env = "BOWLINE_AGENT_JOIN", hide_env_values = true)]
    pub join: Option<String>,
    /// A file with the join token, or - for standard input: others on this machine see the command line, but not the file
    #[arg(long, value_name = "FILE", env = "BOWLINE_AGENT_JOIN_FILE", conflicts_with = "join")]
    pub join_file: Option<PathBuf>,
    /// How the agent calls itself [default: the name of this machine]
    #[arg(long, value_name = "NAME", env = "BOWLINE_AGENT_NAME")]
    pub name: Option<String>,
    /// Where it keeps its key, its credential and its runs; one agent for one directory
    #[arg(long, value_name = "DIR", env = "BOWLINE_AGENT_DATA", default_value = "./bowline-agent-data")]
    pub data: PathBuf,
    /// How many runs it has in hand at once [default: 16; 256 with --reach ssh, 10000 with --reach simulate]
    #[arg(long, value_name = "N", env = "BOWLINE_AGENT_SLOTS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub slots: Option<u32>,
    /// A label that commands may ask for; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", env = "BOWLINE_AGENT_LABELS", value_delimiter = ',', value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Hosts that it reaches besides its own
    #[arg(long, value_name = "HOW", env = "BOWLINE_AGENT_REACH")]
    pub reach: Option<ReachHow>,
    /// A directory with the values of secrets, one file each, named like the secret
    #[arg(long, value_name = "DIR", env = "BOWLINE_AGENT_SECRETS")]
    pub secrets: Option<PathBuf>,
    /// Let commands on this host gain privileges, by sudo for instance
    #[arg(long, env = "BOWLINE_AGENT_ALLOW_NEW_PRIVILEGES")]
    pub allow_new_privileges: bool,
    #[command(flatten)]
    pub isolation: IsolationArgs,
    /// How long runs inside the agent may take to finish when it is stopped, in seconds
    #[arg(long, value_name = "SECONDS", env = "BOWLINE_AGENT_GRACE", default_value_t = 30)]
    pub grace: u64,
    /// What is logged: error, warn, info, debug, or a filter
    #[arg(long, value_name = "LEVEL", env = "LOG_LEVEL", default_value = "info")]
    pub log_level: String,
    #[command(flatten)]
    pub simulate: SimulateArgs,
    #[command(flatten)]
    pub ssh: SshArgs,
}

/// What commands on this host may be and use.
#[derive(Debug, Args)]
#[command(next_help_heading = "Commands on this host")]
pub struct IsolationArgs {
    /// Run commands as this user, unless their type names another one. Needs root [default: nobody for root, otherwise the agent's own user]
    #[arg(long, value_name = "USER", env = "BOWLINE_AGENT_RUN_AS")]
    pub run_as: Option<String>,
    /// Run commands as the agent's own user, with its directory open to them; the fleet shows it as shares_agent_user
    #[arg(long, env = "BOWLINE_AGENT_SHARE_USER", conflicts_with = "run_as")]
    pub share_user: bool,
    /// Another user that command types may name; may be given more than once. Needs root
    #[arg(long = "allow-user", value_name = "USER", env = "BOWLINE_AGENT_ALLOW_USER", value_delimiter = ',')]
    pub allow_users: Vec<String>,
    /// The most processes and threads that one command may have
    #[arg(long, value_name = "N", env = "BOWLINE_AGENT_PIDS_MAX")]
    pub pids_max: Option<u64>,
    /// The most memory that one command may have, such as 512M or 2G
    #[arg(long, value_name = "BYTES", env = "BOWLINE_AGENT_MEMORY_MAX", value_parser = bytes)]
    pub memory_max: Option<u64>,
    /// The largest share of the processors that one command may have, in percent of one
    #[arg(long, value_name = "PERCENT", env = "BOWLINE_AGENT_CPU_MAX")]
    pub cpu_max: Option<u64>,
    /// The largest file that a command may write, such as 10G
    #[arg(long, value_name = "BYTES", env = "BOWLINE_AGENT_FILE_MAX", value_parser = bytes)]
    pub file_max: Option<u64>,
    /// The control group in which each command gets one of its own [default: the agent's own]
    #[arg(long, value_name = "PATH", env = "BOWLINE_AGENT_CGROUP_PARENT")]
    pub cgroup_parent: Option<PathBuf>,
}

/// Hosts that do not exist.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --reach simulate")]
pub struct SimulateArgs {
    /// The same seed plays the same scenes
    #[arg(long, value_name = "NUMBER", env = "BOWLINE_AGENT_SEED", default_value_t = 0)]
    pub seed: u64,
    /// The shortest and the longest run, in milliseconds
    #[arg(long, value_name = "MIN:MAX", env = "BOWLINE_AGENT_LATENCY", default_value = "20:400", value_parser = latency)]
    pub latency: (u64, u64),
    /// The share of runs that fail, from 0 to 1
    #[arg(long, value_name = "P", env = "BOWLINE_AGENT_FAILURE", default_value_t = 0.0, value_parser = share)]
    pub failure: f64,
    /// The share of runs that do not end before their time limit
    #[arg(long, value_name = "P", env = "BOWLINE_AGENT_TIMEOUT", default_value_t = 0.0, value_parser = share)]
    pub timeout: f64,
    /// The share of hosts that fall silent for a while
    #[arg(long, value_name = "P", env = "BOWLINE_AGENT_DISCONNECT", default_value_t = 0.0, value_parser = share)]
    pub disconnect: f64,
    /// Which hosts have output; each one that has costs a request
    #[arg(long, value_name = "WHICH", env = "BOWLINE_AGENT_SHOW_OUTPUT", default_value = "failed")]
    pub show_output: ShowOutput,
}

/// Hosts without an agent.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --reach ssh")]
pub struct SshArgs {
    /// Whom to become on hosts whose connection names nobody [default: the user who starts the agent]
    #[arg(long, value_name = "USER", env = "BOWLINE_AGENT_SSH_USER")]
    pub ssh_user: Option<String>,
    /// A private key to log in with; may be given more than once. Keys of an ssh-agent (SSH_AUTH_SOCK) are tried after it
    #[arg(long = "ssh-key", value_name = "FILE", env = "BOWLINE_AGENT_SSH_KEY", value_delimiter = ',')]
    pub ssh_keys: Vec<PathBuf>,
    /// Known host keys in OpenSSH's format; may be given more than once [default: known_hosts in the data directory]
    #[arg(long, value_name = "FILE", env = "BOWLINE_AGENT_KNOWN_HOSTS", value_delimiter = ',')]
    pub known_hosts: Vec<PathBuf>,
    /// Trust the key of a host that is seen for the first time, and remember it. A changed key is refused all the same
    #[arg(long, env = "BOWLINE_AGENT_ACCEPT_NEW_HOST_KEYS")]
    pub accept_new_host_keys: bool,
    /// How many connections are open at once
    #[arg(long, value_name = "N", env = "BOWLINE_AGENT_SSH_CONNECTIONS", default_value_t = 512)]
    pub ssh_connections: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReachHow {
    /// Hosts that do not exist
    Simulate,
    /// Hosts without an agent
    Ssh,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShowOutput {
    None,
    Failed,
    All,
}

/// Works until it is asked to leave. The first signal asks, the second insists.
pub async fn agent(args: AgentArgs, connection: &bowline_cli::Connection) -> anyhow::Result<ExitCode> {
    let server = connection.server();
    let _level = log::start(&args.log_level, log::AccessLog::Off)?;
    // A command of the same user must not find the credential or the join token in here.
    closed::close_memory();
    let mut settings = settings(&args, server)?;
    settings.insecure_http = connection.insecure_http;
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // A terminal that closes, or a `reload`, does not end the agent: there is nothing to read again.
    let mut hangup = signal(SignalKind::hangup())?;
    let agent = tokio::select! {
        agent = FleetAgent::open(settings) => agent.context("the agent cannot start")?,
        () = either(&mut term, &mut int) => return Ok(ExitCode::SUCCESS),
    };
    greet(&args, server, &agent);
    let stop = CancellationToken::new();
    let day = agent.run(stop.clone());
    tokio::pin!(day);
    let asked_to_leave = async {
        loop {
            tokio::select! {
                () = either(&mut term, &mut int) => return,
                _ = hangup.recv() => tracing::info!("SIGHUP ignored: the agent has no configuration file to read again"),
            }
        }
    };
    let done = tokio::select! {
        done = &mut day => done,
        () = asked_to_leave => {
            if std::io::stderr().is_terminal() {
                eprintln!("\nLeaving: commands go on without the agent. Ctrl-C again to insist.");
            }
            stop.cancel();
            tokio::select! {
                done = &mut day => done,
                () = either(&mut term, &mut int) => {
                    tracing::warn!("left at once, because a second signal insisted");
                    // Not by returning: that would wait for threads that wait for a disk.
                    std::process::exit(1);
                }
            }
        }
    };
    done.context("the agent had to stop")?;
    tracing::info!("closed");
    Ok(ExitCode::SUCCESS)
}

/// The join token, from wherever it was given. A file is not needed any more once the agent has enrolled.
fn join_token(args: &AgentArgs) -> anyhow::Result<Option<String>> {
    let given = args.join.clone().filter(|token| !token.is_empty());
    let Some(path) = args.join_file.as_ref().filter(|path| !path.as_os_str().is_empty()) else { return Ok(given) };
    let read = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin().take(TOKEN_BYTES_MAX))
    } else {
        match std::fs::File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && is_enrolled(&args.data) => return Ok(None),
            Err(error) => Err(error),
            Ok(file) => std::io::read_to_string(file.take(TOKEN_BYTES_MAX)),
        }
    };
    let text = read.with_context(|| format!("the join token cannot be read from {}", path.display()))?;
    Ok(Some(text.trim().to_owned()).filter(|token| !token.is_empty()))
}

fn is_enrolled(data: &Path) -> bool {
    data.join("credential.json").exists()
}

/// The largest text that is read as a token.
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

fn settings(args: &AgentArgs, server: &str) -> anyhow::Result<FleetSettings> {
    let program = std::env::current_exe().context("this program cannot find itself, and so not its keepers")?;
    let mut settings = FleetSettings::new(server, &args.data, [program.into_os_string(), "keeper".into()]);
    settings.join = join_token(args)?;
    settings.name = args.name.clone();
    settings.labels = args.labels.iter().cloned().collect::<BTreeMap<_, _>>();
    settings.secrets = args.secrets.clone();
    settings.allow_new_privileges = args.allow_new_privileges;
    settings.isolation = args.isolation.settings();
    settings.grace = Duration::from_secs(args.grace);
    settings.slots = args.slots.unwrap_or(match args.reach {
        Some(ReachHow::Simulate) => 10_000,
        Some(ReachHow::Ssh) => 256,
        None => settings.slots,
    });
    settings.reach = args.reach.map(|how| match how {
        ReachHow::Simulate => Reach::Simulate(args.simulate.settings()),
        ReachHow::Ssh => Reach::Ssh(args.ssh.settings(&args.data)),
    });
    Ok(settings)
}

impl IsolationArgs {
    fn settings(&self) -> IsolationSettings {
        let limits = Limits {
            pids_max: self.pids_max,
            memory_max_bytes: self.memory_max,
            cpu_max_percent: self.cpu_max,
            file_max_bytes: self.file_max,
        };
        IsolationSettings {
            run_as: self.run_as.clone().filter(|user| !user.is_empty()),
            share_user: self.share_user,
            allow_users: self.allow_users.iter().filter(|user| !user.is_empty()).cloned().collect(),
            limits,
            cgroup_parent: self.cgroup_parent.clone(),
        }
    }
}

impl SimulateArgs {
    fn settings(&self) -> SimulateSettings {
        let world = Simulation {
            seed: self.seed,
            latency_ms: self.latency,
            failure: self.failure,
            timeout: self.timeout,
            disconnect: self.disconnect,
        };
        let output = match self.show_output {
            ShowOutput::None => ShownOutput::None,
            ShowOutput::Failed => ShownOutput::Failed,
            ShowOutput::All => ShownOutput::All,
        };
        SimulateSettings { world, output }
    }
}

impl SshArgs {
    fn settings(&self, data: &Path) -> SshSettings {
        let user = self.ssh_user.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_else(|| "root".to_owned());
        let mut settings = SshSettings::new(user);
        settings.key_files.clone_from(&self.ssh_keys);
        settings.agent_socket = std::env::var_os("SSH_AUTH_SOCK").filter(|path| !path.is_empty()).map(PathBuf::from);
        settings.known_hosts.clone_from(&self.known_hosts);
        if settings.known_hosts.is_empty() {
            settings.known_hosts.push(data.join("known_hosts"));
        }
        if self.accept_new_host_keys {
            settings.host_keys = HostKeyRule::AcceptNew { remember_in: settings.known_hosts[0].clone() };
        }
        settings.connections_max = self.ssh_connections;
        settings
    }
}

fn greet(args: &AgentArgs, server: &str, agent: &FleetAgent) {
    let reach = match args.reach {
        Some(ReachHow::Simulate) => "this host, and hosts that do not exist",
        Some(ReachHow::Ssh) => "this host, and others over SSH",
        None => "this host",
    };
    println!("Bowline {} works as agent {} for {server}", env!("CARGO_PKG_VERSION"), agent.name());
    println!("  data     {}", args.data.display());
    println!("  reaches  {reach}");
    println!("  here     {}", agent.isolation());
    let labels = agent.given_labels().canonical();
    if !labels.is_empty() {
        println!("  labels   {labels} (from its join token)");
    }
    println!();
}

async fn either(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a label is KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn latency(text: &str) -> Result<(u64, u64), String> {
    let number =
        |part: &str| part.trim().parse::<u64>().map_err(|_| format!("`{part}` is not a number of milliseconds"));
    match text.split_once(':') {
        Some((least, most)) => {
            let (least, most) = (number(least)?, number(most)?);
            if least <= most { Ok((least, most)) } else { Err("the shortest is longer than the longest".to_owned()) }
        }
        None => number(text).map(|both| (both, both)),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (number, factor) = match text.chars().last().map(|unit| unit.to_ascii_uppercase()) {
        Some('K') => (&text[..text.len() - 1], 1 << 10),
        Some('M') => (&text[..text.len() - 1], 1 << 20),
        Some('G') => (&text[..text.len() - 1], 1 << 30),
        Some('T') => (&text[..text.len() - 1], 1 << 40),
        _ => (text, 1),
    };
    let number = number.parse::<u64>().map_err(|_| format!("`{text}` is not a number of bytes, such as 512M"))?;
    number.checked_mul(factor).ok_or_else(|| format!("`{text}` is too much"))
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_or_refused() {
        assert_eq!(latency("20:400"), Ok((20, 400)));
        assert_eq!(latency("7"), Ok((7, 7)));
        assert!(latency("9:1").is_err() && latency("a:b").is_err() && latency("").is_err());
        assert_eq!(share("0.25"), Ok(0.25));
        assert!(share("1.5").is_err() && share("-1").is_err() && share("NaN").is_err());
        assert_eq!(label("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(label("a").is_err());
        assert_eq!((bytes("512"), bytes("2k"), bytes("3M")), (Ok(512), Ok(2_048), Ok(3 << 20)));
        assert!(bytes("").is_err() && bytes("M").is_err() && bytes("1.5G").is_err() && bytes("99999999T").is_err());
    }

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        agent: AgentArgs,
    }

    #[test]
    fn a_join_token_may_come_from_a_file() {
        use clap::Parser;
        let directory = tempfile::tempdir().unwrap();
        let (file, data) = (directory.path().join("web1.join"), directory.path().join("data"));
        let join = |file: &Path| {
            let words =
                ["agent".as_ref(), "--join-file".as_ref(), file.as_os_str(), "--data".as_ref(), data.as_os_str()];
            join_token(&Program::try_parse_from(words).unwrap().agent)
        };
        let error = format!("{:#}", join(&file).unwrap_err());
        assert!(error.contains("web1.join"), "{error}");
        std::fs::write(&file, " token\n").unwrap();
        assert_eq!(join(&file).unwrap().as_deref(), Some("token"));
        // Once it has enrolled, the file may go.
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("credential.json"), "{}").unwrap();
        assert_eq!(join(&file).unwrap(), None);
        assert!(Program::try_parse_from(["agent", "--join", "a", "--join-file", "b"]).is_err());
    }
}
