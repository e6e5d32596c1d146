//! The part of `POST /jobs` that asks for a command on hosts.

use axum::Json;
use bowline_auth::Scope;
use bowline_engine::fleet::{CommandChoice, CommandRequest, HostChoice};
use bowline_model::fleet::{CommandSpec, Rollout};
use bowline_model::host::Vars;
use bowline_model::{HostName, InventoryName, Lane, ResourceName, Timestamp};
use bowline_store::Submitted;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::app::App;
use crate::context::Context;
use crate::door::Known;
use crate::hosts::inventory_or_default;
use crate::jobs::{IdempotencyView, SubmitAnswer};
use crate::problem::Problem;
use crate::views::job_word;

/// Which command: the name of a type, a type and a version, or a command written for this one job.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
pub enum CommandField {
    Name(ResourceName),
    Version(VersionedName),
    Inline(Box<CommandSpec>),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionedName {
    pub name: ResourceName,
    /// The active one unless given.
    #[serde(default)]
    pub version: Option<u32>,
}

impl<'de> Deserialize<'de> for CommandField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let value = Value::deserialize(deserializer)?;
        match &value {
            Value::String(name) => ResourceName::new(name).map(Self::Name).map_err(D::Error::custom),
            Value::Object(fields) if fields.contains_key("name") => {
                serde_json::from_value(value).map(Self::Version).map_err(D::Error::custom)
            }
            Value::Object(_) => serde_json::from_value(value).map(Self::Inline).map_err(D::Error::custom),
            _ => Err(D::Error::custom("the name of a command, or an object")),
        }
    }
}

/// Everything about a command that `POST /jobs` can say.
#[derive(Debug)]
pub struct CommandWish {
    pub command: CommandField,
    pub params: Option<Vars>,
    pub inventory: Option<InventoryName>,
    pub hosts: Option<Vec<HostName>>,
    pub selector: Option<String>,
    pub rollout: Option<Rollout>,
    pub deadline_ms: Option<u64>,
    pub lane: Option<Lane>,
    pub priority: i16,
    pub run_at: Option<Timestamp>,
    pub idempotency_key: Option<String>,
    pub external_id: Option<String>,
}

impl CommandWish {
    fn request(self, known: &Known) -> Result<CommandRequest, Problem> {
        let command = match self.command {
            CommandField::Name(name) => CommandChoice::Named { name, version: None },
            CommandField::Version(VersionedName { name, version }) => CommandChoice::Named { name, version },
            CommandField::Inline(spec) => {
                // Whoever may only run what others have written cannot write it into the wish.
                known.require(Scope::FleetWrite)?;
                CommandChoice::Inline(spec)
            }
        };
        let hosts = match (self.hosts, self.selector) {
            (Some(names), None) => HostChoice::Names(names),
            (None, Some(text)) => HostChoice::Selector(text),
            (None, None) => {
                let message = "a command needs hosts or a selector; the selector `all` is every host";
                return Err(Problem::validation(message).with(json!({"field": "hosts"})));
            }
            (Some(_), Some(_)) => {
                let message = "give hosts or a selector, not both";
                return Err(Problem::validation(message).with(json!({"field": "selector"})));
            }
        };
        Ok(CommandRequest {
            command,
            params: self.params.unwrap_or_default(),
            inventory: inventory_or_default(self.inventory),
            hosts,
            rollout: self.rollout.unwrap_or_default(),
            deadline_ms: self.deadline_ms,
            lane: self.lane.unwrap_or_default(),
            priority: self.priority,
            run_at: self.run_at,
            idempotency_key: self.idempotency_key,
            external_id: self.external_id,
        })
    }

    /// Stores the wish; answers with the job.
    pub async fn store(self, app: &App, known: &Known, context: &Context) -> Result<Submitted, Problem> {
        let tenant = known.tenant()?;
        let request = self.request(known)?;
        let (engine, origin) = (&app.engine, context.origin(&known.actor()));
        let stored = engine.commands.submit(&engine.intake, &engine.inventories, tenant, &origin, request).await?;
        Ok(stored)
    }
}

pub async fn submit(
    app: &App,
    known: &Known,
    context: Context,
    wish: CommandWish,
) -> Result<(StatusCode, Json<SubmitAnswer>), Problem> {
    let key = wish.idempotency_key.clone();
    let (job_id, number, status, queued_at, replayed) = match wish.store(app, known, &context).await? {
        Submitted::Accepted { id, number, status, at } => (id, number, status, at, false),
        Submitted::Replayed { id, number, status, at } => (id, number, status, at, true),
        Submitted::Conflict { key, .. } => return Err(crate::jobs::key_conflict(&key)),
    };
    let answer = SubmitAnswer {
        job_id,
        number,
        status: job_word(status),
        queued_at,
        idempotency: IdempotencyView { key, replayed },
        result: None,
        error: None,
        request_id: context.request_id,
        trace_id: context.trace_id,
    };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}
