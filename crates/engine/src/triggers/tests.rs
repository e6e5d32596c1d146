//! What the tests of triggers share: an engine whose loops stand still, on a ledger in a directory of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_backbone::MemoryBlobs;
use bowline_model::lane::LaneWeights;
use bowline_model::lease::LeaseTimes;
use bowline_model::worker::Strategy;
use bowline_model::{EventKind, ResourceName, TenantId, Timestamp};
use bowline_store::{Clock, EventFilter, JobFilter, JobRecord, Ledger, ManualClock, Retention};
use bowline_store_sql::{SqlLedger, SqlSettings};
use bowline_supervise::Meters;

use crate::builtin::Handlers;
use crate::secrets::{SecretRules, Secrets};
use crate::{Engine, EngineSettings, QuotaLimits, TenantRules};

pub(super) struct TestEngine {
    pub engine: Arc<Engine>,
    pub tenant: TenantId,
    pub directory: tempfile::TempDir,
}

pub(super) fn name(text: &str) -> ResourceName {
    ResourceName::new(text).expect("a name")
}

impl TestEngine {
    pub fn open() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let clock: Arc<dyn Clock> = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
        let ledger = SqlLedger::open_sqlite(directory.path(), &SqlSettings::new(Arc::clone(&clock)));
        let ledger: Arc<dyn Ledger> = Arc::new(ledger.expect("a ledger"));
        let settings = EngineSettings {
            weights: LaneWeights::default(),
            strategy: Strategy::RoundRobin,
            lease: LeaseTimes { ttl_ms: 3_000, accept_ms: 1_000, heartbeat_ms: 500, deadline_grace_ms: 500 },
            retention: Retention { finished_jobs_ms: i64::MAX / 2_000, events_ms: i64::MAX / 2_000 },
            job_deadline_ms: None,
            command_retries: Default::default(),
            builtin_slots: 0,
            egress: TenantRules::default(),
            quotas: QuotaLimits::default(),
            server_name: "test".to_owned(),
            seed: 1,
        };
        let secrets =
            Secrets::new(Arc::clone(&ledger), Arc::clone(&clock), SecretRules::default(), BTreeMap::default());
        let blobs = Arc::<MemoryBlobs>::default();
        let engine = Engine::new(ledger, clock, Meters::new(), settings, Handlers::standard(), blobs, secrets);
        let tenant = TenantId::mint(Timestamp::from_millis(1), [1; 10]);
        Self { engine: engine.expect("an engine"), tenant, directory }
    }

    /// Every job there is.
    pub async fn jobs(&self) -> Vec<JobRecord> {
        let page = self.engine.ledger.list_jobs(self.tenant, JobFilter::default(), None, 100).await;
        page.expect("the ledger can be read").items
    }

    /// What events of this kind say, oldest first.
    pub async fn reasons(&self, kind: EventKind) -> Vec<String> {
        let filter = EventFilter { tenant: Some(self.tenant), kinds: vec![kind], ..EventFilter::default() };
        let page = self.engine.ledger.events_after(Default::default(), filter, 100).await;
        let events = page.expect("the ledger can be read").events;
        events.into_iter().filter_map(|(_, event)| event.data.reason).collect()
    }
}
