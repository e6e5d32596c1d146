//! `job submit TYPE`.
//!
//! Every submission carries a key, the person's own or one made here, so that a request whose answer was lost can be
//! sent again without making a second job.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bowline_model::{JobId, Lane, Timestamp};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{batch, payload, watch};
use crate::client::{Again, Client, Request};
use crate::duration::Span;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, Screen, Text};
use crate::wait::WaitIfAsked;

#[derive(Debug, Clone, Args)]
pub struct SubmitArgs {
    /// The job type, such as echo or stripe.webhook.process
    #[arg(value_name = "TYPE")]
    task_type: String,
    /// The payload, as JSON; @FILE reads a file, @- standard input [default: {}]
    #[arg(long, value_name = "JSON", conflicts_with = "payload_file")]
    payload: Option<String>,
    /// A file with the payload; - is standard input
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
    /// webhook, critical, default or low [default: the server's]
    #[arg(long)]
    lane: Option<Lane>,
    /// Higher goes first within its lane
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i16>,
    /// Not before this moment
    #[arg(long, value_name = "RFC3339", conflicts_with = "delay")]
    run_at: Option<Timestamp>,
    /// Not before this much time has passed, such as 10m
    #[arg(long = "in", value_name = "DURATION")]
    delay: Option<Span>,
    /// The idempotency key: the same key and the same job is one job [default: a random one]
    #[arg(long)]
    key: Option<String>,
    /// Your own id for the job
    #[arg(long, value_name = "ID")]
    external_id: Option<String>,
    /// How many attempts may fail
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// How long one attempt may take, such as 30s
    #[arg(long, value_name = "DURATION")]
    run_timeout: Option<Span>,
    /// How long the whole job may take before it fails, with all attempts and the wait for a worker, such as 1h
    #[arg(long, value_name = "DURATION")]
    deadline: Option<Span>,
    /// A label its worker must have; repeat for several
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// How much of a resource its worker must have at least, such as gpu=2; repeat for several
    #[arg(long = "require", value_name = "NAME=NUMBER", value_parser = amount)]
    amounts: Vec<(String, String)>,
    #[command(flatten)]
    wait: WaitIfAsked,
    /// Submit this many, in batches. In the payload, the key and the external id, an n in braces becomes the number of
    /// each job, from 1
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["wait", "timeout"],
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    count: Option<u64>,
}

/// Reads a required amount, as the label that asks for it.
fn amount(text: &str) -> Result<(String, String), String> {
    let (name, number) = label(text)?;
    match number.parse::<f64>() {
        Ok(least) if least >= 0.0 && least.is_finite() => Ok((name, format!(">={number}"))),
        _ => Err(format!("{number:?} is no number from 0 up; write NAME=NUMBER, such as gpu=2")),
    }
}

/// Reads a label.
pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a name, = and a value are expected, such as site=fra".to_owned()),
    }
}

/// A job as the API takes it.
#[derive(Debug, Serialize)]
pub struct NewJob<'a> {
    #[serde(rename = "type")]
    task_type: &'a str,
    payload: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<Lane>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<u64>,
    #[serde(skip_serializing_if = "Policy::is_empty")]
    policy: Policy,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Policy {
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<Retry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

impl Policy {
    fn is_empty(&self) -> bool {
        self.retry.is_none() && self.timeout_ms.is_none()
    }
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Retry {
    max_attempts: u32,
}

/// The job that the arguments describe, once or many times.
pub struct Template<'a> {
    args: &'a SubmitArgs,
    payload: String,
    run_at: Option<Timestamp>,
    /// The key of each job, where the person gave one or one had to be made.
    pub key: Option<String>,
}

impl<'a> Template<'a> {
    fn new(args: &'a SubmitArgs, now: Timestamp) -> Result<Self, Failure> {
        let delay = args.delay.map(|delay| now.plus_millis(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)));
        let payload = payload::read(args.payload.as_deref(), args.payload_file.as_ref())?;
        Ok(Self { args, payload, run_at: args.run_at.or(delay), key: args.key.clone() })
    }

    /// Job number `n`, or the only one.
    pub fn job(&self, n: Option<u64>) -> Result<NewJob<'a>, Failure> {
        let args = self.args;
        Ok(NewJob {
            task_type: &args.task_type,
            payload: payload::fill(&self.payload, n)?,
            lane: args.lane,
            priority: args.priority,
            run_at: self.run_at,
            idempotency_key: self.key.as_ref().map(|key| payload::counted(key, n)),
            external_id: args.external_id.as_ref().map(|id| payload::counted(id, n)),
            labels: args
                .labels
                .iter()
                .chain(&args.amounts)
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect(),
            deadline_ms: args.deadline.map(Span::as_millis),
            policy: Policy {
                retry: args.max_attempts.map(|max_attempts| Retry { max_attempts }),
                timeout_ms: args.run_timeout.map(Span::as_millis),
            },
        })
    }
}

/// The answer to `POST /jobs`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Accepted {
    pub job_id: Text,
    pub number: Text,
    pub status: Text,
    idempotency: Option<Idempotency>,
}

impl Accepted {
    /// The job was there before, under the same key.
    pub fn is_replayed(&self) -> bool {
        self.idempotency.as_ref().is_some_and(|known| known.replayed)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Idempotency {
    replayed: bool,
}

/// A key that nobody has used.
pub fn new_key() -> String {
    format!("cli-{:032x}", rand::random::<u128>())
}

pub async fn submit(client: &Client, screen: &mut Screen, args: &SubmitArgs) -> Result<Exit, Failure> {
    let mut template = Template::new(args, screen.now())?;
    if let Some(count) = args.count {
        for (name, text) in [("--key", &args.key), ("--external-id", &args.external_id)] {
            if count > 1 && text.as_ref().is_some_and(|text| !payload::counts(text)) {
                return Err(Failure::Usage(format!("with --count, {name} needs {{n}} in it: each job has its own")));
            }
        }
        if template.key.is_none() && args.external_id.is_none() {
            template.key = Some(format!("{}-{{n}}", new_key()));
        }
        return batch::submit(client, screen, &template, count).await;
    }
    let body = serde_json::to_string(&template.job(None)?).map_err(|error| Failure::Usage(error.to_string()))?;
    // A name of the person's own makes it safe to ask again; where there is none, this does.
    let made_up = (args.key.is_none() && args.external_id.is_none()).then(new_key);
    let request = Request::post(["jobs"]).body(body).idempotency_key(made_up).again(Again::Patient);
    let answer = client.call(&request).await?;
    let wait = args.wait.wait();
    if screen.json() && wait.is_no() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let accepted: Accepted = answer.read()?;
    if !screen.json() {
        let status = Paint::of_status(accepted.status.as_str()).on(accepted.status.as_str(), screen.color());
        let again = if accepted.is_replayed() { " (the same job as before, by its key)" } else { "" };
        screen.line(&format!("job {} (#{}) {status}{again}", accepted.job_id, accepted.number))?;
    }
    if !wait.is_no() {
        let id: JobId = accepted.job_id.as_str().parse().map_err(|_| client.strange("it has no job id".to_owned()))?;
        let show = watch::Show::OnlyTheEnd;
        let watching = async |screen: &mut Screen| Box::pin(watch::watch(client, screen, id, show)).await;
        return wait.limit().watch(screen, id, watching).await;
    }
    screen.note(&format!("follow it with `bowline job watch {}`", accepted.job_id));
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_required_amount_is_a_label_with_a_comparison() {
        assert_eq!(amount("gpu=2"), Ok(("gpu".into(), ">=2".into())));
        assert_eq!(amount("memory_gb=1.5"), Ok(("memory_gb".into(), ">=1.5".into())));
        for text in ["gpu", "gpu=", "gpu=two", "gpu=-1", "gpu=inf", "=2"] {
            assert!(amount(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn labels_have_a_name_and_a_value() {
        assert_eq!(label("site=fra=1"), Ok(("site".into(), "fra=1".into())));
        for text in ["site", "=fra", "site=", ""] {
            assert!(label(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn made_up_keys_differ() {
        assert_ne!(new_key(), new_key());
        assert_eq!(new_key().len(), 36);
    }
}
