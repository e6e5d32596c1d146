//! `POST /jobs/{id}/retry`: queue a job that ended badly again.

use axum::Json;
use axum::extract::State;
use bowline_model::JobId;

use super::order::{OrderRequest, OrderView, show};
use crate::app::App;
use crate::body::MaybeBody;
use crate::door::Known;
use crate::params::Named;
use crate::problem::Problem;

pub async fn retry(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    MaybeBody(body): MaybeBody<OrderRequest>,
) -> Result<Json<OrderView>, Problem> {
    show(job, app.engine.ledger.retry_job(body.order(&known, job)?).await?, "be retried")
}
