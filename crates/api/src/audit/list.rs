//! `GET /audit`: records of the audit trail, as they stand in their chain.

use axum::Json;
use axum::extract::State;
use bowline_auth::Scope;
use bowline_model::audit::{AuditRecord, Chain};
use bowline_model::{TenantId, Timestamp};
use bowline_store::{AuditFilter, AuditFrom};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::door::Known;
use crate::events::Order;
use crate::params::{Params, page_size};
use crate::problem::Problem;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "AuditQuery")]
pub struct ListQuery {
    /// The caller's own tenant unless given; another one, or `system`, is for administrators.
    pub chain: Option<Chain>,
    /// Who, such as `token:0123456789abcdef`, or a token of this name.
    pub actor: Option<String>,
    /// What, such as `token.revoke`.
    pub action: Option<String>,
    /// To which thing, such as `job/…`; `job` is every job.
    pub resource: Option<String>,
    /// From this moment on.
    pub since: Option<Timestamp>,
    /// Before this moment.
    pub until: Option<Timestamp>,
    /// `newest` first unless given.
    pub order: Order,
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self {
            chain: None,
            actor: None,
            action: None,
            resource: None,
            since: None,
            until: None,
            order: Order::Newest,
            limit: None,
            cursor: None,
        }
    }
}

/// A record as it stands in its chain, and the name of its actor. The name is not part of the record's hash.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AuditRecordView")]
pub struct RecordView {
    #[serde(flatten)]
    pub record: AuditRecord,
    pub actor_name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AuditPage {
    pub chain: Chain,
    pub records: Vec<RecordView>,
    pub next_cursor: Option<String>,
}

pub async fn list(
    State(app): State<App>,
    known: Known,
    Params(query): Params<ListQuery>,
) -> Result<Json<AuditPage>, Problem> {
    let own = known.tenant()?;
    let chain = query.chain.unwrap_or(Chain::Tenant(own));
    if chain != Chain::Tenant(own) && !known.0.scopes.allows(Scope::Admin) {
        return Err(Problem::not_found("TENANT_NOT_FOUND", "tenant"));
    }
    let limit = page_size(query.limit, &app)?;
    // A cursor of one order means nothing in the other, nor in another chain.
    let (list, owner) = match query.order {
        Order::Oldest => ("audit", TenantId::from_uuid(*chain.as_uuid())),
        Order::Newest => ("audit-newest", TenantId::from_uuid(*chain.as_uuid())),
    };
    let place: Option<u64> = match query.cursor {
        None => None,
        Some(text) => Some(app.cursors.read(list, owner, &text)?.parse().map_err(Problem::validation)?),
    };
    let from = match query.order {
        Order::Oldest => AuditFrom::After(place.unwrap_or(0)),
        Order::Newest => AuditFrom::Before(place),
    };
    let filter = AuditFilter {
        actors: app.actors.named(own, query.actor).await?,
        action: query.action,
        resource: query.resource,
        since: query.since,
        until: query.until,
    };
    // What was refused up to now is part of what is asked for.
    app.refusals.write().await;
    let page = app.engine.ledger.list_audit(chain, filter, from, limit).await?;
    let mut records = Vec::with_capacity(page.items.len());
    for record in page.items {
        let actor_name = app.actors.view(&record.actor).await.name;
        records.push(RecordView { record, actor_name });
    }
    Ok(Json(AuditPage {
        chain,
        records,
        next_cursor: page.next.map(|number| app.cursors.write(list, owner, &number.to_string())),
    }))
}
