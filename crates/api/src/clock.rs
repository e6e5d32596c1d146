//! `GET /clock` and `POST /clock/accept`: the clock that decides, and a person who believes it.

use axum::Json;
use axum::extract::State;
use bowline_model::Timestamp;
use bowline_store::ClockStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::body::MaybeBody;
use crate::door::Known;
use crate::jobs::reason_of;
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
pub struct ClockView {
    /// The clock is far from the ledger's last known time: expiry, retention, misfires and timeouts wait.
    pub held: bool,
    /// The time the ledger decides by.
    pub now: Timestamp,
    /// What the clock says.
    pub clock: Timestamp,
    /// Since when, in the ledger's time, the clock is not believed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_since: Option<Timestamp>,
    pub says: String,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AcceptRequest {
    /// Kept in the audit trail.
    pub reason: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AcceptedView {
    /// False when the clock was believed already.
    pub changed: bool,
    /// The ledger's time until now.
    pub before: Timestamp,
    /// The ledger's time from now on.
    pub now: Timestamp,
}

fn view(status: &ClockStatus) -> ClockView {
    ClockView {
        held: status.is_held(),
        now: status.now,
        clock: status.clock,
        held_since: status.held_since,
        says: bowline_engine::explain_clock(status),
    }
}

/// `GET /clock`
pub async fn show(State(app): State<App>) -> Json<ClockView> {
    Json(view(&app.engine.ledger.clock_status()))
}

/// `POST /clock/accept`
pub async fn accept(
    State(app): State<App>,
    known: Known,
    MaybeBody(body): MaybeBody<AcceptRequest>,
) -> Result<Json<AcceptedView>, Problem> {
    let accepted = app.engine.ledger.accept_clock(known.author(), reason_of(body.reason)?).await?;
    Ok(Json(AcceptedView { changed: accepted.was_held, before: accepted.before, now: accepted.now }))
}
