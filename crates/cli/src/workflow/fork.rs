//! `workflow fork JOB --from-step N`: a new run that goes on from a step of another.

use std::path::PathBuf;

use bowline_model::JobId;
use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::remote::Remote;
use super::{files, run, values};
use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job_ref::OneJob;
use crate::output::{Screen, Text};
use crate::wait::WaitByDefault;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline workflow fork JOB --from-step 3 --set total=5
  bowline workflow fork JOB --from-step 0 --definition order.yaml

The new execution has the context of the other one after that step, and continues from there; the other one is not changed.")]
pub struct ForkArgs {
    #[command(flatten)]
    job: OneJob,
    /// The step after which it continues; 0 is the start
    #[arg(long, value_name = "N")]
    from_step: u32,
    /// A variable to set before it continues: JSON if it can be read as such, text otherwise; NAME=@FILE
    /// reads a file; repeat for several
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::pair)]
    set: Vec<(String, Value)>,
    /// A file with another definition to continue with
    #[arg(long, value_name = "FILE")]
    definition: Option<PathBuf>,
    /// Stop after each node; `workflow debug JOB` continues
    #[arg(long)]
    debug: bool,
    #[command(flatten)]
    wait: WaitByDefault,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Forked {
    job_id: Text,
    number: Text,
}

/// The body of a fork.
pub fn body(from_step: u32, set: &[(String, Value)], definition: Option<Value>, debug: bool) -> Value {
    let variables: Map<String, Value> = set.iter().cloned().collect();
    let mut body = json!({ "from_step": from_step });
    if !variables.is_empty() {
        body["patch"] = json!({ "variables": variables });
    }
    if let Some(definition) = definition {
        body["definition"] = definition;
    }
    if debug {
        body["debug"] = true.into();
    }
    body
}

pub async fn fork(client: &Client, screen: &mut Screen, args: &ForkArgs) -> Result<Exit, Failure> {
    let definition = args.definition.as_ref().map(|path| files::one(path, None)).transpose()?.map(|one| one.spec);
    let body = body(args.from_step, &args.set, definition, args.debug);
    let (job, wait) = (args.job.resolve(client).await?, args.wait.wait());
    let answer = Remote::new(client, job).fork(&body).await?;
    if wait.is_no() && screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let forked: Forked = answer.read()?;
    let id: JobId = forked.job_id.as_str().parse().map_err(|_| client.strange("it has no job id".to_owned()))?;
    if !screen.json() {
        screen.line(&format!("job {id} (#{}) continues from step {} of {}", forked.number, args.from_step, job))?;
    }
    if wait.is_no() {
        screen.note(&format!("look at it with `bowline workflow steps {id}`"));
        return Ok(Exit::Success);
    }
    wait.limit().watch(screen, id, async |screen| run::follow(&Remote::new(client, id), screen).await).await
}
