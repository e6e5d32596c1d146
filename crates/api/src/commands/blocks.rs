//! `/blocks`: rules that commands may not run somewhere. They count for runs that are about to start.

use axum::Json;
use axum::extract::State;
use bowline_model::{HostName, InventoryName, ResourceName, Timestamp};
use bowline_store::{BlockAnswer, BlockRecord, BlockedPlace, NewBlock};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::actors::ActorView;
use crate::app::App;
use crate::body::{Body, MaybeBody};
use crate::door::Known;
use crate::hosts::{inventory_or_default, selector};
use crate::jobs::reason_of;
use crate::params::{Nameable, Part};
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
        }
    }
}

pub async fn block(
    State(app): State<App>,
    known: Known,
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
    match app.engine.ledger.block(new).await? {
        BlockAnswer::Made(id) => {
            let record =
                BlockRecord { id, inventory, place, command, reason, by, at: now, expires_at: body.expires_at };
            let actor = app.actors.view(&record.by).await;
            Ok((StatusCode::CREATED, Json(BlockView::of(record, actor, now))))
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

pub async fn blocks(State(app): State<App>, known: Known) -> Result<Json<BlockList>, Problem> {
    let blocks = app.engine.ledger.list_blocks(known.tenant()?).await?;
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
}

pub async fn unblock(
    State(app): State<App>,
    known: Known,
    Part(id): Part,
    MaybeBody(body): MaybeBody<UnblockRequest>,
) -> Result<Json<UnblockedView>, Problem> {
    let nothing = || Problem::not_found("BLOCK_NOT_FOUND", "block");
    let id: i64 = id.parse().map_err(|_| nothing())?;
    let reason = reason_of(body.reason)?;
    match app.engine.ledger.unblock(known.tenant()?, id, known.author(), reason).await? {
        true => Ok(Json(UnblockedView { id, lifted: true })),
        false => Err(nothing()),
    }
}
