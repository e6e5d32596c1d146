//! `workflow run NAME|FILE`: begin a run, and watch its steps until it ends.

use std::time::Duration;

use bowline_model::{JobId, Lane, Timestamp};
use clap::Args;
use serde_json::{Value, json};

use super::files::{self, Kind, Target};
use super::remote::Remote;
use super::{values, words};
use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::job::{Accepted, Waiting, new_key};
use crate::output::{Paint, Screen};
use crate::wait::WaitByDefault;

/// How often a run is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What a run begins with, whoever begins it.
#[derive(Debug, Clone, Args)]
pub struct BeginArgs {
    /// Which one, if the file has several
    #[arg(long)]
    name: Option<String>,
    /// The kind of the name [default: a workflow, or a blueprint if there is no such workflow]
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// The input, as JSON; @FILE reads a file, @- standard input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Add a field to the input: JSON if it can be read as such, text otherwise; NAME=@FILE reads a file; repeat for
    /// several
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::pair)]
    set: Vec<(String, Value)>,
    /// Stop before this node, and only if the condition holds where one is given; repeat for several
    #[arg(long = "break", value_name = "NODE[:CONDITION]")]
    breakpoints: Vec<String>,
    /// webhook, critical, default or low, for what it does on workers [default: the server's]
    #[arg(long)]
    lane: Option<Lane>,
    /// Not before this moment
    #[arg(long, value_name = "RFC3339")]
    run_at: Option<Timestamp>,
    /// The idempotency key: the same key and the same request is one execution [default: a random one]
    #[arg(long)]
    key: Option<String>,
    /// Your own id for the execution
    #[arg(long, value_name = "ID")]
    external_id: Option<String>,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline workflow run order --set id=7
  bowline workflow run order@3 --input @order.json --no-wait
  bowline workflow run order.yaml --break 'charge:{{ variables.total > 100 }}'

A name is one that the server has, with @VERSION for another version than the active one. If a workflow and a blueprint have \
the same name, the workflow is run unless --kind says otherwise. A file is sent along and need not be \
applied before. Ends with exit code 0 if the execution succeeded, 1 if it failed, 3 if it was canceled. Ctrl-C leaves it running.")]
pub struct RunArgs {
    /// A workflow or a blueprint that the server has, a file with one, or - for standard input
    #[arg(value_name = "NAME|FILE")]
    what: String,
    #[command(flatten)]
    begin: BeginArgs,
    /// Stop after each node; `workflow debug JOB` continues
    #[arg(long)]
    debug: bool,
    #[command(flatten)]
    wait: WaitByDefault,
}

impl BeginArgs {
    /// The body of `POST /jobs`.
    fn body(
        &self,
        kind: Kind,
        (definition, name): (&Value, Option<&str>),
        input: Option<&Value>,
        debug: bool,
    ) -> Value {
        let mut body = json!({ kind.word(): definition });
        if let Some(name) = name {
            body["name"] = name.into();
        }
        if let Some(input) = input {
            let field = if kind == Kind::Blueprint { "data" } else { "input" };
            body[field] = input.clone();
        }
        if debug {
            body["debug"] = true.into();
        }
        if !self.breakpoints.is_empty() {
            body["breakpoints"] = self.breakpoints.iter().map(|text| breakpoint(text)).collect();
        }
        if let Some(lane) = self.lane {
            body["lane"] = lane.as_str().into();
        }
        if let Some(at) = self.run_at {
            body["run_at"] = at.to_string().into();
        }
        if let Some(id) = &self.external_id {
            body["external_id"] = id.as_str().into();
        }
        body
    }

    /// Begins the run; answers with the server's text and the job.
    pub async fn begin(
        &self,
        client: &Client,
        screen: &Screen,
        what: &str,
        debug: bool,
    ) -> Result<(crate::client::Answer, JobId), Failure> {
        let key = self.key.clone().or_else(|| self.external_id.is_none().then(new_key));
        // Read once: standard input has it only once.
        let input = values::input(self.input.as_deref(), &self.set)?;
        let ask = async |kind: Kind, definition: &Value, name: Option<&str>| {
            let body = self.body(kind, (definition, name), input.as_ref(), debug).to_string();
            let request = Request::post(["jobs"]).body(body).idempotency_key(key.clone()).again(Again::Patient);
            client.call(&request).await
        };
        let answer = match files::target(what, self.name.as_deref())? {
            Target::Written(written) => {
                if let Some(kind) = self.kind.filter(|kind| *kind != written.kind) {
                    let (is, not) = (written.kind.word(), kind.word());
                    return Err(Failure::Usage(format!("{what} has a {is}, not a {not}")));
                }
                ask(written.kind, &written.spec, written.name.as_deref()).await?
            }
            Target::Stored(name) => {
                let definition = stored(&name)?;
                match ask(self.kind.unwrap_or(Kind::Workflow), &definition, None).await {
                    Err(Failure::Refused(no)) if self.kind.is_none() && no.code.as_str() == "WORKFLOW_NOT_FOUND" => {
                        match ask(Kind::Blueprint, &definition, None).await {
                            // The first question is the one that was meant, so its answer is the one to tell.
                            Err(Failure::Refused(neither)) if neither.code.as_str() == "BLUEPRINT_NOT_FOUND" => {
                                return Err(Failure::Refused(no));
                            }
                            Ok(answer) => {
                                screen
                                    .note(&format!("this is a run of the blueprint {name}; there is no such workflow"));
                                answer
                            }
                            Err(other) => return Err(other),
                        }
                    }
                    other => other?,
                }
            }
        };
        let accepted: Accepted = answer.read()?;
        let id = accepted.job_id.as_str().parse().map_err(|_| client.strange("it has no job id".to_owned()))?;
        Ok((answer, id))
    }
}

/// What the server has by a name, or by a name and a version.
fn stored(name: &str) -> Result<Value, Failure> {
    let Some((name, version)) = name.split_once('@') else { return Ok(name.into()) };
    let version: u32 =
        version.parse().map_err(|_| Failure::Usage(format!("{version:?} is no version; NAME@3 is the third one")))?;
    Ok(json!({"name": name, "version": version}))
}

/// `NODE` or `NODE:CONDITION`; a condition may stand without its braces.
pub fn breakpoint(text: &str) -> Value {
    match text.split_once(':') {
        Some((node, when)) => json!({"node": node.trim(), "when": condition(when)}),
        None => json!({"node": text.trim()}),
    }
}

/// A condition as the server wants it, with its braces.
pub fn condition(text: &str) -> String {
    let text = text.trim();
    if text.contains("{{") { text.to_owned() } else { format!("{{{{ {text} }}}}") }
}

pub async fn run(client: &Client, screen: &mut Screen, args: &RunArgs) -> Result<Exit, Failure> {
    let (answer, id) = args.begin.begin(client, screen, &args.what, args.debug).await?;
    let wait = args.wait.wait();
    if wait.is_no() && screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    if !screen.json() {
        let accepted: Accepted = answer.read()?;
        let status = Paint::of_status(accepted.status.as_str()).on(accepted.status.as_str(), screen.color());
        let again = if accepted.is_replayed() { " (the same run as before, by its key)" } else { "" };
        screen.line(&format!("job {id} (#{}) {status}{again}", accepted.number))?;
    }
    if wait.is_no() {
        screen.note(&format!("look at it with `bowline workflow steps {id}`"));
        return Ok(Exit::Success);
    }
    wait.limit().watch(screen, id, async |screen| follow(&Remote::new(client, id), screen).await).await
}

/// Shows the steps of a run as they end, and how it ended.
pub async fn follow(remote: &Remote<'_>, screen: &mut Screen) -> Result<Exit, Failure> {
    follow_after(remote, screen, 0).await
}

/// The same for the steps after number `shown`.
pub async fn follow_after(remote: &Remote<'_>, screen: &mut Screen, mut shown: u32) -> Result<Exit, Failure> {
    let (id, mut interrupts) = (remote.id, Interrupts::listen());
    let bar = screen.status();
    let (mut said, mut waiting): (Vec<String>, Waiting) = (Vec::new(), Waiting::new());
    loop {
        let answer = remote.job().await?;
        let detail: super::remote::RunDetail = answer.read()?;
        let view = detail.view()?;
        if view.steps > shown {
            for step in remote.steps(shown + 1).await? {
                shown = shown.max(step.n);
                if !screen.json() {
                    let line = words::step(screen, &step);
                    screen.line(&line)?;
                }
            }
        }
        if let Some(exit) = detail.job.end() {
            drop(bar);
            if screen.json() {
                screen.json_line(answer.text())?;
            } else {
                for line in words::ending(screen, &detail) {
                    screen.line(&line)?;
                }
            }
            return Ok(exit);
        }
        let waits = words::waits(screen, view);
        bar.say(match (waits.as_slice(), view.node.as_str()) {
            ([], "") => detail.job.status.to_string(),
            ([], node) => format!("{} at {node}, {shown} steps", detail.job.status),
            (waits, _) => waits.join("\n"),
        });
        if waits != said && !screen.json() {
            // On a terminal it stands in the last line anyway.
            for line in waits.iter().filter(|line| !said.contains(line) && !screen.live()) {
                screen.note(line);
            }
            if view.waits.iter().any(|wait| wait.kind.as_str() == "approval") {
                screen.note(&format!("approve it with `bowline approvals approve {id}`"));
            }
        }
        said = waits;
        // What a paused execution waits for has been said.
        if detail.job.status.as_str() != "paused" {
            let standing = format!("{} {} {shown}", detail.job.status, view.node);
            waiting.tell(remote.client, screen, id, standing).await?;
        }
        if view.paused_for.as_str() == "debug" {
            drop(bar);
            screen.note(&format!("continue with `bowline workflow debug {id}`"));
            return Ok(Exit::Success);
        }
        tokio::select! {
            () = interrupts.next() => {
                drop(bar);
                screen.note(&format!("the execution continues; come back with `bowline workflow steps {id}`, stop it with `bowline job cancel {id}`"));
                return Ok(Exit::Interrupted);
            }
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakpoints_have_a_node_and_perhaps_a_condition() {
        assert_eq!(breakpoint("charge"), json!({"node": "charge"}));
        let wanted = json!({"node": "charge", "when": "{{ variables.n > 3 }}"});
        assert_eq!(breakpoint("charge: variables.n > 3"), wanted);
        assert_eq!(breakpoint("charge:{{ variables.n > 3 }}"), wanted);
    }
}
