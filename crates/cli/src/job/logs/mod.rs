//! `job logs ID`: what a command wrote on its hosts.

mod ended;
mod paper;
mod pump;

use bowline_model::JobId;
use clap::{Args, ValueEnum};
use tokio::sync::mpsc;

use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::fleet::{self, UnitView};
use crate::job_ref::OneJob;
use crate::output::time::thousands;
use crate::output::{Screen, Text};
pub use ended::{Shown, show_output};
use paper::{Layout, Paper};
use pump::{News, Source};

/// Hosts that are followed at once.
const FOLLOW_MAX: usize = 20;
/// Pieces that may wait to be printed; when there are more, whoever brings them waits.
const WAITING_MAX: usize = 64;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline job logs ID --host web1
  bowline job logs ID --stream stderr --prefix | grep -i error
  bowline job logs ID -f")]
pub struct LogsArgs {
    #[command(flatten)]
    job: OneJob,
    /// Only this host; repeat for several [default: every host that was started]
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// The stream
    #[arg(long, value_enum, default_value_t = Stream::Both)]
    stream: Stream,
    /// Continue until the command has ended
    #[arg(long, short)]
    follow: bool,
    /// Start every line with its host instead of putting each host under a heading
    #[arg(long)]
    prefix: bool,
    /// On a terminal, too, every byte as it was written; it may be anything
    #[arg(long)]
    raw: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Stream {
    Stdout,
    Stderr,
    Both,
}

impl Stream {
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Stdout => &["stdout"],
            Self::Stderr => &["stderr"],
            Self::Both => &["stdout", "stderr"],
        }
    }
}

pub async fn logs(client: &Client, screen: &mut Screen, args: &LogsArgs) -> Result<Exit, Failure> {
    let id = args.job.resolve(client).await?;
    let hosts = if args.hosts.is_empty() { hosts_of(client, id, args).await? } else { args.hosts.clone() };
    if args.follow && hosts.len() > FOLLOW_MAX {
        return Err(Failure::Usage(format!(
            "{} hosts are too many to follow at once; name up to {FOLLOW_MAX} of them with --host",
            thousands(hosts.len() as u64)
        )));
    }
    let sources: Vec<Source> = hosts
        .iter()
        .flat_map(|host| args.stream.names().iter().map(|stream| Source { host: host.clone(), stream }))
        .collect();
    let several = hosts.len() > 1;
    let layout = if screen.json() {
        Layout::Json
    } else if args.prefix || (args.follow && sources.len() > 1) {
        // What comes at the same time cannot stand under headings.
        Layout::Prefix { host: several || args.prefix }
    } else {
        Layout::Headings { host: several }
    };
    let mut paper = Paper::new(layout, screen, args.raw, &sources);
    if args.follow {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let pumps = sources.iter().enumerate().map(|(at, source)| {
            let sender = sender.clone();
            async move { pump::follow(client, id, source, at, &sender).await }
        });
        let pumps: Vec<_> = pumps.collect();
        drop(sender);
        let ((), printed) = tokio::join!(pump::all(pumps), print(screen, &mut paper, receiver));
        printed?;
    } else {
        for (at, source) in sources.iter().enumerate() {
            let (sender, receiver) = mpsc::channel(WAITING_MAX);
            let reading = async move { pump::read(client, id, source, at, &sender).await };
            let ((), printed) = tokio::join!(reading, print(screen, &mut paper, receiver));
            printed?;
        }
    }
    if !screen.json() && !paper.wrote() {
        screen.note(if hosts.is_empty() { "no host was begun" } else { "nothing was written" });
    }
    Ok(Exit::Success)
}

/// The hosts that may have written something; when following, also those that may still do.
async fn hosts_of(client: &Client, id: JobId, args: &LogsArgs) -> Result<Vec<String>, Failure> {
    let mut hosts = Vec::new();
    fleet::read_units(client, id, None, u64::MAX, |units: Vec<UnitView>| {
        let units = units.into_iter().filter(|unit| args.follow || unit.attempts.as_str() != "0");
        hosts.extend(units.map(|unit| unit.host.to_string()));
    })
    .await?;
    Ok(hosts)
}

async fn print(screen: &mut Screen, paper: &mut Paper, mut news: mpsc::Receiver<News>) -> Result<(), Failure> {
    while let Some(news) = news.recv().await {
        match news {
            News::Bytes(at, bytes) => paper.take(screen, at, &bytes)?,
            News::End(at) => paper.end(screen, at)?,
            News::Lost(host, failure) => {
                screen.note(&format!(
                    "{}: {}; going on where it was",
                    Text::new(&host),
                    Text::new(&failure.to_string())
                ));
            }
            News::Failed(failure) => return Err(failure),
        }
    }
    Ok(())
}
