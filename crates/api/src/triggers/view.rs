//! How a trigger is shown.

use bowline_engine::rights;
use bowline_engine::triggers::{Mishap, Standing};
use bowline_model::trigger::{OnRefused, TriggerSpec};
use bowline_model::{JobId, ResourceName, Timestamp};
use bowline_store::{ResourceRecord, StoreError};
use schemars::JsonSchema;
use serde::Serialize;

use crate::actors::ActorView;
use crate::app::App;

#[derive(Debug, Serialize, JsonSchema)]
pub struct TriggerView {
    pub name: ResourceName,
    /// The version that counts; the latest one if none was activated yet.
    pub version: u32,
    /// Whether a version counts at all. If not, nothing is read.
    pub active: bool,
    pub enabled: bool,
    pub description: Option<String>,
    /// The `rabbitmq` it reads from.
    pub broker: String,
    pub queue: String,
    pub on_refused: Option<OnRefused>,
    /// Who applied it last. It starts jobs with the rights of that credential.
    pub owner: ActorView,
    /// Why its queue is not read, where its owner has lost the rights. Whoever applies it again takes it over.
    pub stopped: Option<String>,
    /// How it stands on the server that answers, since that server started. Others may read the same queue.
    pub here: HereView,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TriggerHere")]
pub struct HereView {
    /// Since when the queue is read; `null` while it is not.
    pub reading_since: Option<Timestamp>,
    /// Messages that came, the same one as often as it did.
    pub delivered: u64,
    /// Messages that started something.
    pub started: u64,
    /// Messages whose job was there already.
    pub replayed: u64,
    /// Messages that could not start anything.
    pub refused: u64,
    pub last_job_id: Option<JobId>,
    pub last_error: Option<MishapView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TriggerError")]
pub struct MishapView {
    pub at: Timestamp,
    pub message: String,
}

impl From<Mishap> for MishapView {
    fn from(mishap: Mishap) -> Self {
        Self { at: mishap.at, message: mishap.message }
    }
}

impl From<Standing> for HereView {
    fn from(standing: Standing) -> Self {
        Self {
            reading_since: standing.reading_since,
            delivered: standing.delivered,
            started: standing.started,
            replayed: standing.replayed,
            refused: standing.refused,
            last_job_id: standing.last_job,
            last_error: standing.last_error.map(Into::into),
        }
    }
}

impl TriggerView {
    /// The trigger with the name of its owner, and whether the owner still has the rights.
    pub async fn of(app: &App, record: &ResourceRecord, standing: Standing) -> Result<Self, StoreError> {
        let mut view = Self::unowned(record, standing);
        app.actors.fill(&mut view.owner).await;
        if let (Ok(spec), true) = (serde_json::from_str::<TriggerSpec>(&record.version.spec), view.active) {
            let (needed, now) = (rights::needed_for(&spec.start), app.engine.clock.now());
            let lost = rights::check(&*app.engine.ledger, &view.owner.id, needed, now).await?.err();
            view.stopped = lost.as_ref().map(rights::lost_by_owner);
        }
        Ok(view)
    }

    fn unowned(record: &ResourceRecord, standing: Standing) -> Self {
        // One that cannot be read any more is shown without what it says; its error tells why.
        let spec: Option<TriggerSpec> = serde_json::from_str(&record.version.spec).ok();
        let source = spec.as_ref().map(|spec| &spec.rabbitmq);
        Self {
            name: record.name.clone(),
            version: record.version.version,
            active: record.active.is_some(),
            enabled: spec.as_ref().is_some_and(|spec| spec.enabled),
            description: spec.as_ref().and_then(|spec| spec.description.clone()),
            broker: source.map(|source| source.broker.to_string()).unwrap_or_default(),
            queue: source.map(|source| source.queue.clone()).unwrap_or_default(),
            on_refused: spec.as_ref().map(|spec| spec.on_refused),
            owner: ActorView::unnamed(record.owner.as_deref().unwrap_or(&record.version.by)),
            stopped: None,
            here: standing.into(),
        }
    }
}
