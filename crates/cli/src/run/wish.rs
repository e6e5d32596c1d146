//! What is asked of the server.

use bowline_model::Lane;
use bowline_model::fleet::Rollout;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::args::RunArgs;
use super::named;
use super::words::{self, NotWords};
use crate::client::Client;
use crate::duration::Span;
use crate::failure::Failure;
use crate::output::Screen;

/// A command on hosts, as `POST /jobs` takes it, and what to call it.
pub struct Wish<'a> {
    /// `"systemctl restart nginx"`
    pub title: String,
    args: &'a RunArgs,
    command: Value,
    params: Map<String, Value>,
}

#[derive(Serialize)]
struct Body<'a> {
    command: &'a Value,
    #[serde(skip_serializing_if = "Map::is_empty")]
    params: &'a Map<String, Value>,
    inventory: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    hosts: &'a [String],
    #[serde(skip_serializing_if = "is_plain")]
    rollout: Rollout,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<Lane>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a str>,
}

fn is_plain(rollout: &Rollout) -> bool {
    *rollout == Rollout::default()
}

impl<'a> Wish<'a> {
    /// Finds out what the arguments mean: a command type that exists, or a command of their own.
    pub async fn of(client: &Client, screen: &Screen, args: &'a RunArgs) -> Result<Self, Failure> {
        let text = args.command.as_deref().unwrap_or_default();
        let of = if args.argv.is_empty() && !args.own.shell { named::find(client, text).await? } else { None };
        if let Some(of) = of {
            if let Some(option) = args.own.used() {
                return Err(Failure::Usage(format!(
                    "{option} is for commands that are not a type, and {text} is one; it says so itself. After -- it is \
                     a program"
                )));
            }
            let params = of.params(&args.params)?;
            return Ok(Self { title: format!("{text:?}"), args, command: text.into(), params });
        }
        if let Some((name, _)) = args.params.first() {
            let why = if args.command.is_some() && !args.own.shell {
                format!("there is no command type {text:?}; `bowline get command` shows which there are")
            } else {
                "this is not one".to_owned()
            };
            return Err(Failure::Usage(format!("--param {name} is for command types, and {why}")));
        }
        let (title, what) = if args.own.shell {
            (format!("{text:?}"), json!({ "script": text }))
        } else {
            let argv = if args.argv.is_empty() { split(text)? } else { args.argv.clone() };
            if args.command.is_some() && argv.len() == 1 {
                screen.note(&format!("{text:?} is not a command type; running it as a program"));
            }
            let literal: Vec<String> = argv.iter().map(|word| words::literal(word)).collect();
            (format!("{:?}", words::join(&argv)), json!({ "argv": literal }))
        };
        Ok(Self { title, args, command: spec(args, what), params: Map::new() })
    }

    /// As JSON.
    pub fn body(&self) -> Result<String, Failure> {
        let args = self.args;
        let rollout = Rollout { canary: args.canary, serial: args.serial, max_failures: args.max_failures };
        rollout.check().map_err(|why| Failure::Usage(why.to_string()))?;
        let body = Body {
            command: &self.command,
            params: &self.params,
            inventory: &args.inventory,
            selector: args.target.on.as_deref(),
            hosts: &args.target.hosts,
            rollout,
            deadline_ms: args.deadline.map(Span::as_millis),
            lane: args.lane,
            idempotency_key: args.key.as_deref(),
            external_id: args.external_id.as_deref(),
        };
        serde_json::to_string(&body).map_err(|error| Failure::Usage(error.to_string()))
    }
}

/// The command with what was said about it. What was not said is the server's to decide.
fn spec(args: &RunArgs, what: Value) -> Value {
    let mut spec = match what {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let own = &args.own;
    if let Some(timeout) = own.run_timeout {
        spec.insert("timeout_ms".to_owned(), timeout.as_millis().into());
    }
    if own.shared {
        spec.insert("lock".to_owned(), "shared".into());
    }
    if own.idempotent {
        spec.insert("idempotent".to_owned(), true.into());
    }
    if let Some(retries) = own.retries {
        spec.insert("retry".to_owned(), json!({ "max_attempts": retries + 1 }));
    }
    spec.into()
}

fn split(text: &str) -> Result<Vec<String>, Failure> {
    words::split(text).map_err(|why| {
        Failure::Usage(match why {
            NotWords::Shell(c) => format!(
                "no shell reads the command, so {c:?} would be an ordinary character in it: quote it ('{}') if it is \
                 one, or add --shell to make all of it a script for /bin/sh",
                if c == '\n' { "\\n".to_owned() } else { c.to_string() }
            ),
            why => format!("the command {text:?} cannot be understood: {why}"),
        })
    })
}
