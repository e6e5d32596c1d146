//! What readers may filter by. A filter narrows; the tenant is the caller's own, whatever it says.

use bowline_model::{EventKind, JobId, Severity, TenantId, Timestamp};
use bowline_store::EventFilter;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::problem::Problem;

/// The filters both endpoints know.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Wanted {
    /// The caller's own; another one is not found.
    pub tenant_id: Option<TenantId>,
    /// One or several, separated by commas.
    pub r#type: Option<String>,
    /// This loud or louder.
    pub severity: Option<String>,
    pub job_id: Option<JobId>,
    pub trace_id: Option<String>,
    /// Events of this actor: its id, such as `token:2h3463nfj9yk1hn9`, or the name of a token, service or worker.
    pub actor: Option<String>,
    /// Events from this moment on. A stream begins with them instead of with the next one.
    pub since: Option<Timestamp>,
}

impl Wanted {
    pub async fn filter(self, app: &App, tenant: TenantId) -> Result<EventFilter, Problem> {
        if self.tenant_id.is_some_and(|asked| asked != tenant) {
            return Err(Problem::not_found("TENANT_NOT_FOUND", "tenant"));
        }
        let kinds: Result<Vec<EventKind>, _> =
            self.r#type.as_deref().unwrap_or("").split(',').filter(|t| !t.is_empty()).map(str::parse).collect();
        let actors = app.actors.named(tenant, self.actor).await?;
        Ok(EventFilter {
            tenant: Some(tenant),
            job: self.job_id,
            kinds: kinds.map_err(Problem::validation)?,
            severity_min: self
                .severity
                .as_deref()
                .map(str::parse::<Severity>)
                .transpose()
                .map_err(Problem::validation)?,
            trace_id: self.trace_id,
            since: self.since,
            actors,
        })
    }
}
