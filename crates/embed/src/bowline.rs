//! Bowline, open.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::Engine;
use bowline_engine::flow::{BlueprintChoice, FlowRequest, WorkflowChoice};
use bowline_engine::results::ReadResultError;
use bowline_model::audit::Author;
use bowline_model::{JobId, Lane, ResourceName, TenantId};
use bowline_store::{FlowAnswer, JobOrder, OrderAnswer, Origin, StoreError, Submitted};
use bowline_supervise::Supervisor;
use serde::Serialize;
use serde_json::Value;

use crate::builder::{AUTHOR, Builder};
use crate::error::Error;
use crate::outcome::Outcome;

/// How long running handlers may take to finish when everything closes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Even when no bell rings, look this often.
const SAFETY_NET: Duration = Duration::from_secs(1);

/// Bowline, open. Close it with [`close`](Self::close); what is dropped instead is a crash, and survives like one.
#[derive(Debug)]
pub struct Bowline {
    engine: Arc<Engine>,
    supervisor: Supervisor,
    tenant: TenantId,
    author: Author,
}

impl Drop for Bowline {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

impl Bowline {
    /// With everything in memory: for tests, and for work that may be forgotten with the process. It is SQLite all the same,
    /// so nothing behaves otherwise than on disk.
    pub fn in_memory() -> Builder {
        Builder::new(None)
    }

    /// With everything in a directory, which one process at a time may have.
    pub fn open(directory: impl Into<PathBuf>) -> Builder {
        Builder::new(Some(directory.into()))
    }

    pub(crate) fn new(engine: Arc<Engine>, supervisor: Supervisor, tenant: TenantId, author: Author) -> Self {
        Self { engine, supervisor, tenant, author }
    }

    /// The engine itself, for everything that has no method here: steps, debugging, time travel, lists.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The tenant that everything belongs to.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Begins a run of a blueprint with these data. When this returns, the run is stored and will not be forgotten.
    pub async fn start(&self, blueprint: &str, data: impl Serialize) -> Result<JobId, Error> {
        self.begin(blueprint, data, None).await
    }

    /// The same; but the same key and the same data give the same run, however often this is called.
    pub async fn start_once(&self, key: &str, blueprint: &str, data: impl Serialize) -> Result<JobId, Error> {
        self.begin(blueprint, data, Some(key.to_owned())).await
    }

    async fn begin(&self, blueprint: &str, data: impl Serialize, key: Option<String>) -> Result<JobId, Error> {
        let input = serde_json::to_value(data)
            .map_err(|error| Error::Data { path: "data".to_owned(), what: error.to_string() })?;
        let name = ResourceName::new(blueprint)?;
        let request = FlowRequest {
            workflow: WorkflowChoice::Blueprint(BlueprintChoice::Named { name, version: None }),
            input,
            debug: false,
            breakpoints: Vec::new(),
            lane: Lane::Default,
            priority: 0,
            run_at: None,
            idempotency_key: key,
            external_id: None,
        };
        let origin = Origin { actor: AUTHOR.into(), request_id: "embedded".into(), ..Origin::default() };
        let engine = &self.engine;
        let submitted = engine.flows.submit(engine.hands(), self.tenant, &origin, vec![request]).await;
        match submitted.map_err(Error::Start)?.pop().map(|answer| answer.submitted) {
            Some(Submitted::Accepted { id, .. } | Submitted::Replayed { id, .. } | Submitted::Pruned { id, .. }) => {
                Ok(id)
            }
            Some(Submitted::Conflict { id, .. }) => Err(Error::Data {
                path: "data".to_owned(),
                what: format!("the key belongs to job {id}, which has other data"),
            }),
            None => Err(Error::Store(StoreError::Broken("no answer for a new job".to_owned()))),
        }
    }

    /// How a job ended, if it has.
    pub async fn outcome(&self, job: JobId) -> Result<Option<Outcome>, Error> {
        let found = self.engine.ledger.find_job(self.tenant, job).await?;
        let (record, runs) = found.ok_or(Error::NotFound(job))?;
        if !record.state.status.is_terminal() {
            return Ok(None);
        }
        let stored = runs.iter().find(|run| record.result_bytes.is_some() && run.fence == record.state.fence);
        let text = match stored {
            Some(run) => {
                Some(self.engine.results.read(&*self.engine.ledger, run.id).await.map_err(|error| match error {
                    ReadResultError::Ledger(error) => Error::Store(error),
                    ReadResultError::Damaged => {
                        Error::Store(StoreError::Broken(format!("the result of job {job} is damaged")))
                    }
                })?)
            }
            None => record.result,
        };
        let result = text.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
        Ok(Some(Outcome { status: record.state.status, result, error: record.error }))
    }

    /// Waits until a job is over.
    pub async fn wait(&self, job: JobId) -> Result<Outcome, Error> {
        let mut bell = self.engine.ledger.event_wake().listen();
        loop {
            bell.forget();
            if let Some(outcome) = self.outcome(job).await? {
                return Ok(outcome);
            }
            tokio::select! {
                () = bell.rung() => {}
                () = tokio::time::sleep(SAFETY_NET) => {}
            }
        }
    }

    /// Says yes to what a run waits for.
    pub async fn approve(&self, job: JobId, reason: Option<&str>) -> Result<(), Error> {
        self.decide(job, true, reason).await
    }

    /// Says no to what a run waits for.
    pub async fn reject(&self, job: JobId, reason: Option<&str>) -> Result<(), Error> {
        self.decide(job, false, reason).await
    }

    async fn decide(&self, job: JobId, yes: bool, reason: Option<&str>) -> Result<(), Error> {
        let (by, reason) = (self.author.clone(), reason.map(ToOwned::to_owned));
        match self.engine.flows.decide(self.tenant, job, None, yes, by, reason).await? {
            FlowAnswer::Taken | FlowAnswer::Replayed | FlowAnswer::Noted { .. } => Ok(()),
            FlowAnswer::Refused(refused) => Err(Error::Refused { job, why: refused.to_string() }),
            FlowAnswer::Withdrawn | FlowAnswer::DecisionAhead | FlowAnswer::Approved => Err(Error::NobodyWaits(job)),
            FlowAnswer::NotFound => Err(Error::NotFound(job)),
            FlowAnswer::NobodyWaits | FlowAnswer::KeyConflict | FlowAnswer::Full(_) => Err(Error::NobodyWaits(job)),
            FlowAnswer::Finished(status) => Err(Error::Finished { job, status }),
        }
    }

    /// The questions that wait for a decision, each with its run.
    pub async fn approvals(&self, job: JobId) -> Result<Vec<String>, Error> {
        let flow = self.engine.ledger.find_flow(self.tenant, job).await?.ok_or(Error::NotFound(job))?;
        let open = flow.waits.iter().filter(|wait| wait.wait.kind == bowline_store::WaitKind::Approval);
        Ok(open.map(|wait| wait.wait.name.to_string()).collect())
    }

    /// Stops a job, and everything that it began.
    pub async fn cancel(&self, job: JobId, reason: Option<&str>) -> Result<(), Error> {
        let reason = reason.map(ToOwned::to_owned);
        let order = JobOrder { tenant: self.tenant, job, by: self.author.clone(), reason };
        match self.engine.cancel_job(order).await? {
            OrderAnswer::NotFound => Err(Error::NotFound(job)),
            OrderAnswer::Finished(status) => Err(Error::Finished { job, status }),
            _ => Ok(()),
        }
    }

    /// Finishes what runs, and closes the ledger. What has not finished by then goes on when it is opened again.
    pub async fn close(self) {
        let left = self.supervisor.close(PATIENCE).await;
        if left.is_empty() {
            self.engine.ledger.close().await;
        }
    }
}
