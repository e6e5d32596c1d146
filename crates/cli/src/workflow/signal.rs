//! `workflow signal JOB|EVENT`: something happened, for one run or for whoever waits for it.

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use super::remote::Remote;
use super::values;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job_ref::JobRef;
use crate::output::Screen;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline workflow signal payment.received --key 4711 --payload '{\"amount\": 5}'
  bowline workflow signal JOB payment.received

An execution that is named keeps the event until it waits for it. Without one, the event goes to those that wait for it now.")]
pub struct SignalArgs {
    /// An execution, followed by the event; or the event alone
    #[arg(value_name = "JOB|EVENT")]
    what: String,
    /// The event, after an execution
    event: Option<String>,
    /// The key of the event; a wait without a key accepts any
    #[arg(long)]
    key: Option<String>,
    /// The output of the waiting node, as JSON; @FILE reads a file
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Signaled {
    runs: u64,
}

pub async fn signal(client: &Client, screen: &mut Screen, args: &SignalArgs) -> Result<Exit, Failure> {
    let mut body = json!({});
    if let Some(key) = &args.key {
        body["key"] = key.as_str().into();
    }
    if let Some(payload) = &args.payload {
        body["payload"] = values::json("--payload", payload)?;
    }
    let answer = match (args.what.parse::<JobRef>(), &args.event) {
        (Ok(job), Some(event)) => {
            let id = job.resolve(client).await?;
            body["event"] = event.as_str().into();
            Remote::new(client, id).signal(&body).await?
        }
        (Ok(JobRef::Id(_)), None) => {
            return Err(Failure::Usage("say which event: `workflow signal JOB EVENT`".to_owned()));
        }
        (Err(_), Some(_)) => {
            return Err(Failure::Usage(format!(
                "{:?} is not a workflow run: its id or its number is expected",
                args.what
            )));
        }
        (_, None) => client.call(&Request::post(["signals", &args.what]).body(body.to_string())).await?,
    };
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let signaled: Signaled = answer.read()?;
    screen.line(&match signaled.runs {
        0 => "no execution waits for it".to_owned(),
        1 => "1 execution was signaled".to_owned(),
        runs => format!("{runs} executions were signaled"),
    })?;
    Ok(Exit::Success)
}
