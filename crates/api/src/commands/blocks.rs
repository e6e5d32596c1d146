//! `/blocks`: rules that commands may not run somewhere. They count for runs that are about to start.

use axum::Json;
use axum::extract::State;
use bowline_model::{HostName, InventoryName, ResourceName, Timestamp};
use bowline_store::{BlockAnswer, BlockRecord, BlockedPlace, NewBlock, OnceOutcome, OnceRequest};
use hyper::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::actors::ActorView;
use crate::app::App;
use crate::body::{Body, MaybeBody};
use crate::door::Known;
use crate::hosts::{inventory_or_default, selector};
use crate::jobs::reason_of;
use crate::once::{Before, once_key, outcome, strange};
use crate::params::{Nameable, Params, Part};
use crate::problem::Problem;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockRequest {
    /// `main` unless given.
    #[serde(default)]
    pub inventory: Option<InventoryName>,
    /// One host, or a selector for whoever is meant when a run is about to start.
    #[serde(default)]
    pub host: Option<HostName>,
    #[serde(default)]
    pub selector: Option<String>,
    /// A command type; every command unless given. Commands that were written for one job are `ad-hoc`.
    #[serde(default)]
    pub command: Option<ResourceName>,
    pub reason: String,
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BlockView {
    pub id: i64,
    pub inventory: InventoryName,
    pub host: Option<HostName>,
    pub selector: Option<String>,
    pub command: Option<String>,
    pub reason: String,
    pub by: String,
    /// The same, with the name.
    pub actor: ActorView,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// Its time is over; it holds no more.
    pub expired: bool,
    /// It was made before, under this `Idempotency-Key`. It may have been lifted since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BlockList {
    /// Newest first.
    pub blocks: Vec<BlockView>,
}

impl BlockView {
    fn of(block: BlockRecord, actor: ActorView, now: Timestamp) -> Self {
        let (host, selector) = match block.place {
            BlockedPlace::Host(name) => (Some(name), None),
            BlockedPlace::Selector(text) => (None, Some(text)),
        };
        Self {
            id: block.id,
            inventory: block.inventory,
            host,
            selector,
            command: block.command,
            reason: block.reason,
            by: block.by,
            actor,
            created_at: block.at,
            expires_at: block.expires_at,
            expired: block.expires_at.is_some_and(|at| at <= now),
            replayed: false,
        }
    }
}

pub async fn block(
    State(app): State<App>,
    known: Known,
    headers: HeaderMap,
    Body(body): Body<BlockRequest>,
) -> Result<(StatusCode, Json<BlockView>), Problem> {
    let tenant = known.tenant()?;
    if body.reason.trim().len() < 2 {
        return Err(Problem::validation("reason: say why").with(json!({"field": "reason"})));
    }
    let reason = reason_of(Some(body.reason))?.unwrap_or_default();
    let now = app.engine.clock.now();
    if body.expires_at.is_some_and(|at| at <= now) {
        return Err(Problem::validation("expires_at must lie ahead").with(json!({"field": "expires_at"})));
    }
    let place = match (body.host, body.selector) {
        (Some(host), None) => BlockedPlace::Host(host),
        (None, Some(text)) => {
            selector(&text)?;
            BlockedPlace::Selector(text)
        }
        _ => return Err(Problem::validation("give a host or a selector").with(json!({"field": "host"}))),
    };
    let inventory = inventory_or_default(body.inventory);
    let new = NewBlock {
        tenant,
        inventory: inventory.clone(),
        place: place.clone(),
        command: body.command.map(|name| name.to_string()),
        reason,
        by: known.author(),
        expires_at: body.expires_at,
    };
    let (command, by) = (new.command.clone(), new.by.to_string());
    let reason = new.reason.clone();
    let (answer, before) = match once_key(&headers, &[&parts(&new)])? {
        None => (app.engine.ledger.block(new).await?, None),
        Some(once) => {
            let key = once.key.clone();
            let (outcome, before) =
                outcome(&key, app.engine.ledger.carry_out_once(once, OnceRequest::Block(new)).await?)?;
            let OnceOutcome::Block(answer) = outcome else { return Err(strange()) };
            (answer, before)
        }
    };
    match answer {
        BlockAnswer::Made(id) => {
            let replayed = before.is_some();
            let Before { by, at } = before.unwrap_or(Before { by, at: now });
            let record = BlockRecord { id, inventory, place, command, reason, by, at, expires_at: body.expires_at };
            let actor = app.actors.view(&record.by).await;
            Ok((StatusCode::CREATED, Json(BlockView { replayed, ..BlockView::of(record, actor, now) })))
        }
        BlockAnswer::TooMany { what, max } => {
            let message = format!("{what}: the blocks in force use all {max} of this tenant; lift some");
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "QUOTA_EXCEEDED", message);
            Err(problem.with(json!({"quota": what, "max": max})))
        }
        BlockAnswer::NoInventory => Err(InventoryName::nothing()),
        BlockAnswer::NoHost => Err(HostName::nothing()),
    }
}

/// What makes two requests under one key the same.
fn parts(block: &NewBlock) -> Vec<u8> {
    let place = match &block.place {
        BlockedPlace::Host(host) => ("host", host.as_str()),
        BlockedPlace::Selector(text) => ("selector", text.as_str()),
    };
    json!([block.inventory, place, block.command, block.reason, block.expires_at]).to_string().into_bytes()
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BlocksQuery {
    /// What this actor forbade, such as `token:2h3463nfj9yk1hn9`, or a token of this name.
    pub actor: Option<String>,
}

pub async fn blocks(
    State(app): State<App>,
    known: Known,
    Params(query): Params<BlocksQuery>,
) -> Result<Json<BlockList>, Problem> {
    let tenant = known.tenant()?;
    let actors = app.actors.named(tenant, query.actor).await?;
    let mut blocks = app.engine.ledger.list_blocks(tenant).await?;
    blocks.retain(|block| actors.as_ref().is_none_or(|actors| actors.contains(&block.by)));
    let now = app.engine.clock.now();
    let mut views = Vec::with_capacity(blocks.len());
    for block in blocks {
        let actor = app.actors.view(&block.by).await;
        views.push(BlockView::of(block, actor, now));
    }
    Ok(Json(BlockList { blocks: views }))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UnblockRequest {
    /// Kept with the event that tells of it.
    pub reason: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct UnblockedView {
    pub id: i64,
    pub lifted: bool,
    /// It was lifted before, under this `Idempotency-Key`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

pub async fn unblock(
    State(app): State<App>,
    known: Known,
    Part(id): Part,
    headers: HeaderMap,
    MaybeBody(body): MaybeBody<UnblockRequest>,
) -> Result<Json<UnblockedView>, Problem> {
    let nothing = || Problem::not_found("BLOCK_NOT_FOUND", "block");
    let id: i64 = id.parse().map_err(|_| nothing())?;
    let reason = reason_of(body.reason)?;
    let said = reason.as_ref().map_or_else(Vec::new, |reason| [b"reason ", reason.as_bytes()].concat());
    let (tenant, by) = (known.tenant()?, known.author());
    let (lifted, replayed) = match once_key(&headers, &[b"unblock", &said])? {
        None => (app.engine.ledger.unblock(tenant, id, by, reason).await?, false),
        Some(once) => {
            let key = once.key.clone();
            let request = OnceRequest::Unblock { tenant, block: id, by, reason };
            let (outcome, before) = outcome(&key, app.engine.ledger.carry_out_once(once, request).await?)?;
            let OnceOutcome::Unblock(lifted) = outcome else { return Err(strange()) };
            (lifted, before.is_some())
        }
    };
    if lifted { Ok(Json(UnblockedView { id, lifted, replayed })) } else { Err(nothing()) }
}
