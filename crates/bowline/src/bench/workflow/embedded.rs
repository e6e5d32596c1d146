//! An engine in this very process, as a program that embeds it has it.

use std::path::Path;
use std::sync::Arc;

use bowline_engine::builtin::Handlers;
use bowline_engine::flow::{FlowRequest, FlowSubmitted, WorkflowChoice};
use bowline_engine::secrets::Secrets;
use bowline_engine::{Engine, EngineSettings, TenantRules};
use bowline_model::{Lane, TenantId};
use bowline_store::{Ledger, Origin, Retention};
use bowline_supervise::{Meters, Supervisor};
use serde_json::Value;

use crate::config::{Config, ConfigFlags};
use crate::{ledger, objects, secrets};

/// The engine, and the tenant it works for.
pub struct Embedded {
    pub engine: Arc<Engine>,
    pub tenant: TenantId,
    origin: Origin,
    supervisor: Supervisor,
}

impl Embedded {
    pub async fn open(directory: &Path, database_url: Option<&str>) -> anyhow::Result<Self> {
        let flags = ConfigFlags {
            data_dir: Some(directory.to_owned()),
            database_url: database_url.map(str::to_owned),
            ..ConfigFlags::default()
        };
        let config = Config::load(&flags)?;
        let opened = ledger::open(&config, None).await?;
        let shared: Arc<dyn Ledger> = opened.ledger;
        let settings = EngineSettings {
            weights: config.dispatch.weights,
            strategy: config.dispatch.strategy,
            lease: config.lease.times(),
            retention: Retention { finished_jobs_ms: i64::MAX / 2_000, events_ms: i64::MAX / 2_000 },
            job_deadline_ms: None,
            command_retries: Default::default(),
            builtin_slots: config.builtin.slots,
            egress: TenantRules::default(),
            quotas: bowline_engine::QuotaLimits::default(),
            server_name: "bench".to_owned(),
            seed: rand::random(),
        };
        let blobs = objects::open(&config, &*shared, true).await?;
        let places = secrets::sources(&config.server.data_dir);
        let secrets = Secrets::new(Arc::clone(&shared), Arc::clone(&opened.clock), config.secrets.rules(), places);
        let engine = Engine::new(shared, opened.clock, Meters::new(), settings, Handlers::standard(), blobs, secrets)?;
        let supervisor = Supervisor::new();
        engine.start(&supervisor);
        let origin = Origin { actor: "bench".into(), request_id: "bench".into(), ..Origin::default() };
        Ok(Self { engine, tenant: TenantId::from_uuid(uuid::Uuid::from_u128(1)), origin, supervisor })
    }

    /// Begins a run of a workflow that was written for it.
    pub async fn begin(&self, workflow: &WorkflowChoice, input: Value) -> anyhow::Result<FlowSubmitted> {
        let request = FlowRequest {
            workflow: workflow.clone(),
            input,
            debug: false,
            breakpoints: Vec::new(),
            lane: Lane::Default,
            priority: 0,
            run_at: None,
            idempotency_key: None,
            external_id: None,
        };
        let engine = &self.engine;
        let mut answers = engine.flows.submit(engine.hands(), self.tenant, &self.origin, vec![request]).await?;
        answers.pop().ok_or_else(|| anyhow::anyhow!("no answer"))
    }

    pub async fn close(self) {
        self.supervisor.stop().cancel();
        self.engine.ledger.close().await;
    }
}
