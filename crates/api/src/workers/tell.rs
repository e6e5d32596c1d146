//! `POST /runs/{id}/events`: a worker tells what happened in its run.

use axum::Json;
use axum::extract::State;
use bowline_model::RunId;
use bowline_protocol::{EventsAck, EventsRequest};
use bowline_store::{EVENT_BYTES_MAX, TellAnswer, ToldEvent, ToldEvents};
use hyper::StatusCode;
use serde_json::json;

use super::result::no_run;
use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::params::Named;
use crate::problem::Problem;

const EVENTS_MAX: usize = 1_000;
/// Events with more than a run may report.
pub(super) const EVENTS_TOO_LARGE: &str = "EVENTS_TOO_LARGE";
/// A number this far is a mistake; the gap before it would never be filled.
pub(super) const SEQ_MAX: u64 = 1 << 40;

pub async fn tell(
    State(app): State<App>,
    known: Known,
    Named(run): Named<RunId>,
    Body(body): Body<EventsRequest>,
) -> Result<Json<EventsAck>, Problem> {
    let tenant = known.tenant()?;
    let worker = known.own_worker()?;
    if body.events.is_empty() || body.events.len() > EVENTS_MAX {
        return Err(Problem::validation(format!("between 1 and {EVENTS_MAX} events at once")));
    }
    if let Some(bad) = body.events.iter().find(|e| e.seq == 0 || e.seq > SEQ_MAX) {
        return Err(Problem::validation(format!("seq {} is not between 1 and {SEQ_MAX}", bad.seq)));
    }
    let mut lengths: Vec<(u64, u64)> =
        body.events.iter().map(|event| (event.seq, event.data.get().len() as u64)).collect();
    lengths.sort_unstable();
    let events = body
        .events
        .into_iter()
        .map(|e| ToldEvent { seq: e.seq, at: e.at, detail: Box::<str>::from(e.data).into() })
        .collect();
    let told = ToldEvents { run, worker, tenant: Some(tenant), fence: body.fence, events };
    match app.engine.ledger.tell(told).await? {
        TellAnswer::Held { acked, added, .. } => {
            // Those that were there already come first: a worker that missed the answer sends on from there.
            let new = lengths.iter().rev().take(usize::try_from(added).unwrap_or(usize::MAX));
            app.engine.quotas.count_bytes(tenant, new.map(|(_, bytes)| bytes).sum());
            Ok(Json(EventsAck { acknowledged: acked, added }))
        }
        TellAnswer::Full => {
            let message = format!("the details of all events of a run have at most {EVENT_BYTES_MAX} bytes");
            let problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, EVENTS_TOO_LARGE, message);
            Err(problem.with(json!({"bytes_max": EVENT_BYTES_MAX})))
        }
        TellAnswer::SeqConflict(seq) => {
            app.engine.meters.seq_conflicts.inc();
            let message = format!("event {seq} of this run was told before with other content");
            Err(Problem::conflict("SEQ_CONFLICT", message).with(json!({"seq": seq})))
        }
        TellAnswer::Stale => {
            app.engine.meters.stale_writes_refused.inc();
            Err(Problem::conflict("STALE_LEASE", "this fence is not the run's"))
        }
        TellAnswer::NotYours => Err(Problem::forbidden("this run was not handed to you")),
        TellAnswer::NotFound => Err(no_run()),
    }
}
