//! What `run` takes.

use bowline_model::Lane;
use bowline_model::fleet::Share;
use clap::Args;

use crate::duration::Span;
use crate::source;
use crate::wait::WaitByDefault;

/// Run a command on hosts, and watch it
///
/// COMMAND is the name of a command type, or a program with its arguments: the text is split as a shell would split it,
/// but no shell reads it, and nothing in it is expanded. After -- every word is taken as it is.
///
/// When it has ended, the output is shown: of one host plainly, of a few under headings, of many in groups of hosts that
/// wrote the same. Of one host, standard output and standard error are those of the command.
///
/// Ends with exit code 0 if it succeeded on every host, 1 if it did not, 3 if it was canceled or not approved. The first
/// Ctrl-C asks the server to cancel and goes on watching; the second leaves.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline run uptime --on 'role=web'
  bowline run --on all -- systemctl restart nginx
  bowline run restart --param unit=nginx --on '@prod & role=web' --canary 2 --serial 10%
  bowline run --shell 'df -h / | tail -1' --hosts web1,web2
  bowline run \"apt-get -q update\" --on all --retries 2 --idempotent --no-wait")]
pub struct RunArgs {
    /// A command type, or a program with its arguments in one text
    #[arg(value_name = "COMMAND", required_unless_present = "argv", conflicts_with = "argv")]
    pub command: Option<String>,
    /// A program and its arguments, word by word
    #[arg(last = true, value_name = "ARGV")]
    pub argv: Vec<String>,
    #[command(flatten)]
    pub target: Target,
    /// The inventory that knows the hosts
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub inventory: String,
    /// Start with this many hosts, such as 2 or 5%, and stop if one of them fails
    #[arg(long, value_name = "SHARE")]
    pub canary: Option<Share>,
    /// This many hosts at a time, such as 50 or 10% [default: all at once]
    #[arg(long, value_name = "SHARE")]
    pub serial: Option<Share>,
    /// Start no more hosts when more than this many have failed, such as 0 or 5%
    #[arg(long, value_name = "SHARE")]
    pub max_failures: Option<Share>,
    /// How long the whole command may take, such as 10m
    #[arg(long, value_name = "DURATION")]
    pub deadline: Option<Span>,
    /// A parameter of the command type; NAME=@FILE reads a file; repeat for several
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = param)]
    pub params: Vec<(String, String)>,
    /// webhook, critical, default or low [default: the server's]
    #[arg(long)]
    pub lane: Option<Lane>,
    /// The idempotency key: the same key and the same request is one job [default: a random one]
    #[arg(long)]
    pub key: Option<String>,
    /// Your own id for the job
    #[arg(long, value_name = "ID")]
    pub external_id: Option<String>,
    #[command(flatten)]
    pub wait: WaitByDefault,
    /// Do not show what the hosts wrote
    #[arg(long)]
    pub no_output: bool,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    pub yes: bool,
    /// Show every host at the end, not only the first fifty
    #[arg(long)]
    pub all: bool,
    // The last one: its heading counts for everything below.
    #[command(flatten)]
    pub own: OwnArgs,
}

/// Which hosts.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub struct Target {
    /// The hosts that this selector matches, such as 'role=web & site!=fra'; all is every host
    #[arg(long, value_name = "SELECTOR")]
    pub on: Option<String>,
    /// These hosts
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub hosts: Vec<String>,
}

/// What a command says about itself. A command type has said it already.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "For a command that is not a type")]
pub struct OwnArgs {
    /// The command is a script for /bin/sh
    #[arg(long, conflicts_with = "argv")]
    pub shell: bool,
    /// How long it may take on one host, such as 5m [default: 15m]
    #[arg(long, value_name = "DURATION")]
    pub run_timeout: Option<Span>,
    /// Other shared commands may run on the host at the same time
    #[arg(long)]
    pub shared: bool,
    /// Running it twice does no harm: it is tried again when its outcome is unknown
    #[arg(long)]
    pub idempotent: bool,
    /// How often it is tried again on a host where it failed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..1_000))]
    pub retries: Option<u32>,
}

impl OwnArgs {
    /// The first option that was used.
    pub fn used(&self) -> Option<&'static str> {
        let given = [
            ("--shell", self.shell),
            ("--run-timeout", self.run_timeout.is_some()),
            ("--shared", self.shared),
            ("--idempotent", self.idempotent),
            ("--retries", self.retries.is_some()),
        ];
        given.into_iter().find(|(_, used)| *used).map(|(name, _)| name)
    }
}

fn param(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), source::value(value)?)),
        _ => Err("a name, = and a value are expected, such as unit=nginx".to_owned()),
    }
}
