//! `POST /jobs/{id}/cancel`: stop a job. Work it already did stays done.

use axum::Json;
use axum::extract::State;
use bowline_model::JobId;

use super::order::{OrderRequest, OrderView, show};
use crate::app::App;
use crate::body::MaybeBody;
use crate::door::Known;
use crate::params::Named;
use crate::problem::Problem;

pub async fn cancel(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    MaybeBody(body): MaybeBody<OrderRequest>,
) -> Result<Json<OrderView>, Problem> {
    show(job, app.engine.cancel_job(body.order(&known, job)?).await?, "be canceled")
}
