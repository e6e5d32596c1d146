//! `workflow debug NAME|FILE|JOB`: through a run step by step.
//!
//! On a terminal a key is a command, and what else must be known is asked for. Elsewhere, and with --plain, each line of
//! standard input is a command. Both end in the same [`session`].

mod keys;
mod lines;
mod session;
mod show;
mod words;

use std::io::IsTerminal;

use clap::Args;

use super::remote::Remote;
use super::run::BeginArgs;
use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job_ref::JobRef;
use crate::output::Screen;
use session::Session;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline workflow debug order.yaml --set id=7
  bowline workflow debug JOB
  printf 'step\\ncontext\\ncontinue\\n' | bowline workflow debug order

An execution that is started here stops after each node. One that exists already is shown as it is; `pause` stops it. On a terminal, \
? lists the keys.")]
pub struct DebugArgs {
    /// An execution, a workflow that the server has, or a file with one
    #[arg(value_name = "NAME|FILE|JOB")]
    what: String,
    #[command(flatten)]
    begin: BeginArgs,
    /// Read lines instead of keys
    #[arg(long)]
    plain: bool,
}

pub async fn debug(client: &Client, screen: &mut Screen, args: &DebugArgs) -> Result<Exit, Failure> {
    // A name or a file comes before the end of an id that looks the same.
    let id = match args.what.parse::<JobRef>() {
        Ok(job @ (JobRef::Id(_) | JobRef::Last)) => job.resolve(client).await?,
        Ok(job) if args.what.trim_start_matches('#').chars().all(|c| c.is_ascii_digit()) => job.resolve(client).await?,
        _ => args.begin.begin(client, screen, &args.what, true).await?.1,
    };
    let mut session = Session::new(Remote::new(client, id));
    session.open(screen).await?;
    if screen.live() && !args.plain && std::io::stdin().is_terminal() {
        keys::serve(&mut session, screen).await
    } else {
        lines::serve(&mut session, screen).await
    }
}
