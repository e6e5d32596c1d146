//! `GET /events`: the ledger's events, page by page.

use axum::Json;
use axum::extract::State;
use bowline_store::Position;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::filter::Wanted;
use crate::app::App;
use crate::door::Known;
use crate::params::{Params, page_size};
use crate::problem::Problem;
use crate::views::EventView;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListQuery {
    #[serde(flatten)]
    pub wanted: Wanted,
    /// `oldest` first unless given.
    pub order: Order,
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

/// Which end a list begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    #[default]
    Oldest,
    Newest,
}

impl Order {
    /// A cursor of one order means nothing in the other.
    const fn list(self) -> &'static str {
        match self {
            Self::Oldest => "events",
            Self::Newest => "events-newest",
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct EventList {
    pub events: Vec<EventView>,
    /// Where to go on. With the oldest first there always is such a place, also when nothing is there yet.
    pub next_cursor: Option<String>,
    /// Whether there is more right now.
    pub more: bool,
}

pub async fn list(
    State(app): State<App>,
    known: Known,
    Params(query): Params<ListQuery>,
) -> Result<Json<EventList>, Problem> {
    let tenant = known.tenant()?;
    let limit = page_size(query.limit, &app)?;
    let list = query.order.list();
    let cursor = query.cursor.map(|text| app.cursors.read(list, tenant, &text)).transpose()?;
    let place: Option<Position> = cursor.map(|text| text.parse()).transpose().map_err(Problem::validation)?;
    let (ledger, filter) = (&app.engine.ledger, query.wanted.filter(&app, tenant).await?);
    let page = match query.order {
        Order::Oldest => ledger.events_after(place.unwrap_or_default(), filter, limit).await?,
        Order::Newest => ledger.events_before(place, filter, limit).await?,
    };
    // Towards the future there always is a place to go on from; the past has an end.
    let goes_on = query.order == Order::Oldest || page.more;
    Ok(Json(EventList {
        events: app.actors.events(page.events).await,
        next_cursor: goes_on.then(|| app.cursors.write(list, tenant, &page.end.to_string())),
        more: page.more,
    }))
}
