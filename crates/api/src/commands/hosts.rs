//! `GET /jobs/{id}/hosts`: a command host by host, those that were begun first.

use axum::Json;
use axum::extract::State;
use bowline_model::{HostName, JobId};
use bowline_store::UnitFilter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::UnitView;
use crate::app::App;
use crate::door::Known;
use crate::jobs::no_job;
use crate::params::{Named, Params, page_size};
use crate::problem::Problem;
use crate::views::job_status;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostsQuery {
    /// Only hosts that stand here; `new` are those that were not begun.
    pub status: Option<String>,
    pub host: Option<HostName>,
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct UnitPage {
    pub hosts: Vec<UnitView>,
    pub next_cursor: Option<String>,
}

/// Where a page begins: after a host that was begun, or after so many that were not.
enum Place {
    Begun(Option<i64>),
    New(u64),
}

impl Place {
    fn read(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("b", id) => id.parse().ok().map(|id| Self::Begun(Some(id))),
            ("n", count) => count.parse().ok().map(Self::New),
            _ => None,
        }
    }
}

/// One page of a command's hosts.
pub async fn page(
    app: &App,
    known: &Known,
    job: JobId,
    query: HostsQuery,
) -> Result<(Vec<UnitView>, Option<String>), Problem> {
    let tenant = known.tenant()?;
    let limit = page_size(query.limit, app)?;
    let ledger = &app.engine.ledger;
    let (record, _) = ledger.find_job(tenant, job).await?.ok_or_else(no_job)?;
    if ledger.find_fleet(tenant, job).await?.is_none() {
        return Err(Problem::conflict("NOT_A_COMMAND", "this job runs on no hosts"));
    }
    let list = format!("hosts of {job} {:?} {:?}", query.status, query.host);
    let only_new = query.status.as_deref() == Some("new");
    let mut place = match query.cursor {
        None if only_new => Place::New(0),
        None => Place::Begun(None),
        Some(text) => {
            let place = app.cursors.read(&list, tenant, &text)?;
            Place::read(&place).ok_or_else(|| Problem::validation("the cursor does not belong to this list"))?
        }
    };
    let mut items: Vec<UnitView> = Vec::new();
    if let Place::Begun(after) = place {
        let status = query.status.as_deref().map(job_status).transpose().map_err(Problem::validation)?;
        let filter = UnitFilter { status, host: query.host.clone() };
        let page = ledger.list_units(tenant, job, filter, after, limit).await?;
        for unit in page.items {
            items.push(app.actors.unit(unit).await);
        }
        if let Some(next) = page.next {
            return Ok((items, Some(app.cursors.write(&list, tenant, &format!("b:{next}")))));
        }
        place = Place::New(0);
    }
    let Place::New(after) = place else { return Ok((items, None)) };
    if (query.status.is_some() && !only_new) || query.host.is_some() {
        return Ok((items, None));
    }
    let room = limit.saturating_sub(u32::try_from(items.len()).unwrap_or(u32::MAX));
    if room == 0 {
        return Ok((items, Some(app.cursors.write(&list, tenant, &format!("n:{after}")))));
    }
    let page = ledger.list_unplanned(tenant, job, after, room).await?;
    let over = record.state.status.is_terminal();
    items.extend(page.items.into_iter().map(|(id, name)| UnitView::new(id, name, over)));
    Ok((items, page.next.map(|next| app.cursors.write(&list, tenant, &format!("n:{next}")))))
}

pub async fn hosts(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    Params(query): Params<HostsQuery>,
) -> Result<Json<UnitPage>, Problem> {
    let (hosts, next_cursor) = page(&app, &known, job, query).await?;
    Ok(Json(UnitPage { hosts, next_cursor }))
}
