//! The engine as one handle: what the API and the binary hold.

use std::sync::Arc;

use bowline_backbone::BlobStore;
use bowline_model::{JobId, JobKind, JobStatus, RunStatus, TenantId};
use bowline_store::{Clock, InboxItem, JobOrder, Ledger, OrderAnswer, StoreResult};
use bowline_supervise::{Meters, Supervisor, TaskKind};
use tokio_util::sync::CancellationToken;

use crate::brokers::Brokers;
use crate::builtin::{BuiltInWorker, Handlers};
use crate::checks::Checks;
use crate::dispatcher::Dispatcher;
use crate::evaluations::{self, Subject};
use crate::fleet::{Commands, Inventories, Resources, conduct_forever, explain_command};
use crate::flow::{Flows, Hands, Round, Standing, turn_forever};
use crate::intake::Intake;
use crate::quotas::{QuotaCounter, Quotas};
use crate::results::Results;
use crate::scheduler::Scheduler;
use crate::secrets::{Secrets, forget_forever};
use crate::settings::EngineSettings;
use crate::starter::Starter;
use crate::tail::Tail;
use crate::triggers::Triggers;
use crate::why::{self, Why};
use crate::{pruner, reaper, timers};

/// Which loops an engine runs. Several engines on one ledger may share the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Services {
    /// For those whom clients and workers talk to: the event tail, the lease reaper.
    pub api: bool,
    /// The built-in worker, timers, schedules, triggers, rollouts, workflows and retention.
    pub background: bool,
}

impl Services {
    pub const ALL: Self = Self { api: true, background: true };
}

/// Everything that moves jobs.
#[derive(Debug)]
pub struct Engine {
    pub ledger: Arc<dyn Ledger>,
    pub clock: Arc<dyn Clock>,
    pub meters: Arc<Meters>,
    pub settings: Arc<EngineSettings>,
    pub intake: Arc<Intake>,
    pub dispatcher: Arc<Dispatcher>,
    pub tail: Arc<Tail>,
    pub builtin: Arc<BuiltInWorker>,
    pub inventories: Arc<Inventories>,
    pub resources: Resources,
    pub commands: Arc<Commands>,
    pub flows: Arc<Flows>,
    pub starter: Arc<Starter>,
    pub scheduler: Arc<Scheduler>,
    pub triggers: Arc<Triggers>,
    pub secrets: Arc<Secrets>,
    pub blobs: Arc<dyn BlobStore>,
    /// Looks at work before it begins.
    pub checks: Arc<Checks>,
    pub quotas: Arc<Quotas>,
    pub results: Arc<Results>,
}

impl Engine {
    pub fn new(
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        meters: Arc<Meters>,
        settings: EngineSettings,
        handlers: Handlers,
        blobs: Arc<dyn BlobStore>,
        secrets: Arc<Secrets>,
    ) -> anyhow::Result<Arc<Self>> {
        let settings = Arc::new(settings);
        let quotas = Quotas::new(settings.quotas);
        let results = Results::new(Arc::clone(&blobs), Arc::clone(&quotas));
        let (own_ledger, own_clock, own_meters) = (Arc::clone(&ledger), Arc::clone(&clock), Arc::clone(&meters));
        let intake = Intake::new(own_ledger, own_clock, own_meters, Arc::clone(&quotas), settings.seed);
        let intake = Arc::new(intake.with_deadline(settings.job_deadline_ms));
        let inventories = Arc::new(Inventories::new(Arc::clone(&ledger)));
        let commands = Commands::new(Arc::clone(&ledger), Arc::clone(&secrets), settings.command_retries);
        let commands = Arc::new(commands);
        let checks = Arc::new(Checks::new(handlers.clone()));
        let flows = Arc::new(Flows::new(
            Arc::clone(&ledger),
            Arc::clone(&clock),
            Arc::clone(&checks),
            Arc::clone(&blobs),
            Arc::clone(&quotas),
        ));
        let starter = Starter::new(
            Arc::clone(&intake),
            Arc::clone(&commands),
            Arc::clone(&inventories),
            Arc::clone(&flows),
            Arc::clone(&checks),
        );
        let starter = Arc::new(starter);
        Ok(Arc::new(Self {
            dispatcher: Dispatcher::new(Arc::clone(&ledger), &settings),
            tail: Tail::new(Arc::clone(&ledger)),
            builtin: BuiltInWorker::new(
                Arc::clone(&ledger),
                Arc::clone(&meters),
                &settings,
                handlers,
                Arc::clone(&results),
            )?,
            resources: Resources::new(
                Arc::clone(&ledger),
                Arc::clone(&secrets),
                Arc::clone(&starter),
                Arc::clone(&checks),
            ),
            scheduler: Scheduler::new(Arc::clone(&ledger), Arc::clone(&starter), Arc::clone(&intake)),
            triggers: Triggers::new(
                Arc::clone(&ledger),
                Arc::clone(&clock),
                Arc::clone(&starter),
                Brokers::new(Arc::clone(&ledger), Arc::clone(&secrets), settings.egress.clone()),
            ),
            starter,
            quotas,
            results,
            commands,
            flows,
            inventories,
            intake,
            secrets,
            blobs,
            checks,
            ledger,
            clock,
            meters,
            settings,
        }))
    }

    /// Starts every loop under the supervisor.
    pub fn start(self: &Arc<Self>, supervisor: &Supervisor) {
        self.start_services(Services::ALL, supervisor);
    }

    /// Starts the loops of these services under the supervisor.
    pub fn start_services(self: &Arc<Self>, services: Services, supervisor: &Supervisor) {
        self.start_common(supervisor);
        if services.api {
            self.start_api(supervisor);
        }
        if services.background {
            self.start_background(supervisor);
        }
    }

    /// What whoever takes jobs needs, and whoever executes them: hand-outs, quotas, secrets.
    fn start_common(self: &Arc<Self>, supervisor: &Supervisor) {
        let stop = supervisor.stop();
        let (engine, token) = (Arc::clone(self), stop.clone());
        supervisor.start(TaskKind::Dispatcher, move || Arc::clone(&engine.dispatcher).serve(token.clone()));
        let (engine, token) = (Arc::clone(self), stop.clone());
        supervisor.start(TaskKind::QuotaCounter, move || Arc::clone(&engine).count_forever(token.clone()));
        let (engine, token) = (Arc::clone(self), stop.clone());
        supervisor.start(TaskKind::SecretCache, move || forget_forever(Arc::clone(&engine.secrets), token.clone()));
    }

    /// What belongs to those whom clients and workers talk to. Silence counts only where somebody listens, so leases are judged
    /// here.
    fn start_api(self: &Arc<Self>, supervisor: &Supervisor) {
        let stop = supervisor.stop();
        let (engine, token) = (Arc::clone(self), stop.clone());
        supervisor.start(TaskKind::EventTail, move || Arc::clone(&engine.tail).serve(token.clone()));
        let (engine, token) = (Arc::clone(self), stop.clone());
        supervisor.start(TaskKind::LeaseReaper, move || {
            let (ledger, settings) = (Arc::clone(&engine.ledger), Arc::clone(&engine.settings));
            reaper::reap_forever(ledger, settings, Arc::clone(&engine.meters), token.clone())
        });
    }

    /// What moves jobs without anybody asking for it.
    fn start_background(self: &Arc<Self>, supervisor: &Supervisor) {
        let stop = supervisor.stop();
        let (engine, token) = (Arc::clone(self), stop.clone());
        supervisor.start(TaskKind::Timers, move || {
            timers::promote_forever(Arc::clone(&engine.ledger), Arc::clone(&engine.clock), token.clone())
        });
        let (engine, token) = (Arc::clone(self), stop.clone());
        supervisor.start(TaskKind::Scheduler, move || Arc::clone(&engine.scheduler).serve(token.clone()));
        let (engine, token) = (Arc::clone(self), stop.clone());
        supervisor.start(TaskKind::Triggers, move || Arc::clone(&engine.triggers).serve(token.clone()));
        let (engine, token) = (Arc::clone(self), stop.clone());
        supervisor.start(TaskKind::Conductor, move || conduct_forever(Arc::clone(&engine.ledger), token.clone()));
        let (engine, token) = (Arc::clone(self), stop.clone());
        supervisor.start(TaskKind::Turner, move || turn_forever(Arc::clone(&engine), token.clone()));
        let (engine, token) = (Arc::clone(self), stop.clone());
        supervisor.start(TaskKind::Pruner, move || {
            let (ledger, blobs) = (Arc::clone(&engine.ledger), Arc::clone(&engine.blobs));
            pruner::prune_forever(ledger, blobs, Arc::clone(&engine.settings), token.clone())
        });
        if self.settings.builtin_slots > 0 {
            let (engine, token) = (Arc::clone(self), stop.clone());
            supervisor.start(TaskKind::BuiltInWorker, move || {
                Arc::clone(&engine.builtin).serve(Arc::clone(&engine.dispatcher), token.clone())
            });
        }
    }

    /// Counts what tenants use, and learns which evaluations other servers set aside.
    async fn count_forever(self: Arc<Self>, stop: CancellationToken) -> anyhow::Result<()> {
        let mut counter = QuotaCounter::default();
        loop {
            if let Err(error) = self.refresh_set_aside().await {
                tracing::debug!(%error, "cannot read which evaluations are set aside, retrying");
            }
            let wait = counter.count(&self.quotas, &*self.ledger).await;
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
                () = self.quotas.soon(wait) => {}
            }
        }
    }

    /// Learns from the ledger which evaluations are set aside.
    pub async fn refresh_set_aside(&self) -> StoreResult<()> {
        let aside = self.ledger.list_set_aside(None).await?;
        self.meters.evaluations_set_aside.set(i64::try_from(aside.len()).unwrap_or(i64::MAX));
        let subject = |record: bowline_store::SetAsideRecord| Subject { tenant: record.tenant, name: record.subject };
        evaluations::current().refresh(aside.into_iter().map(subject));
        Ok(())
    }

    /// Cancels a job. If it runs in this process, its handler hears of it at once; other workers hear of it with their
    /// next heartbeat.
    pub async fn cancel_job(&self, order: JobOrder) -> StoreResult<OrderAnswer> {
        let (tenant, job) = (order.tenant, order.job);
        let answer = self.ledger.cancel_job(order).await?;
        if let OrderAnswer::Done(bowline_model::JobStatus::Canceling) = answer {
            self.stop_builtin(tenant, job).await;
        }
        Ok(answer)
    }

    /// Asks the built-in worker to stop what it does for a job that is being canceled. Nothing is lost if it does not hear
    /// of it now: its next heartbeat says so.
    pub(crate) async fn stop_builtin(&self, tenant: TenantId, job: JobId) {
        let Ok(Some((record, runs))) = self.ledger.find_job(tenant, job).await else { return };
        if record.state.status != bowline_model::JobStatus::Canceling {
            return;
        }
        for run in runs.iter().filter(|run| matches!(run.status, RunStatus::Starting | RunStatus::Running)) {
            self.builtin.cancel(run.id);
        }
    }

    /// Gives a run of a workflow its turn if something came in for it. Whoever has told it something may call this to see it heard
    /// at once; otherwise the turner does.
    pub async fn turn_flow(&self, tenant: TenantId, job: JobId) -> StoreResult<()> {
        let Some(flow) = self.ledger.flow_number(tenant, job).await? else { return Ok(()) };
        let round = self.flows.round_of(self.hands(), flow).await?;
        self.stop_unwanted(round).await;
        Ok(())
    }

    /// Gives runs of one tenant their turns, to hear what came in for them; how many had one.
    pub(crate) async fn turn_some_flows(&self, inbox: Vec<InboxItem>) -> StoreResult<usize> {
        let round = self.flows.turns(self.hands(), inbox).await?;
        let turned = round.turned;
        self.stop_unwanted(round).await;
        Ok(turned)
    }

    async fn stop_unwanted(&self, round: Round) {
        for (tenant, job) in round.unwanted {
            self.stop_builtin(tenant, job).await;
        }
    }

    /// What runs of workflows begin jobs with.
    pub fn hands(&self) -> Hands<'_> {
        Hands { intake: &self.intake, starter: &self.starter }
    }

    /// Why a job stands where it stands; `None` if the tenant has no such job.
    pub async fn why(&self, tenant: TenantId, job: JobId) -> StoreResult<Option<Why>> {
        self.why_at_depth(tenant, job, 0).await
    }

    /// A run of a workflow may wait for a job, and that one for another.
    async fn why_at_depth(&self, tenant: TenantId, job: JobId, depth: u32) -> StoreResult<Option<Why>> {
        let Some((record, runs)) = self.ledger.find_job(tenant, job).await? else { return Ok(None) };
        let alive_since = self.clock.now().plus_millis(-2 * self.settings.lease.ttl_ms);
        if let Some(fleet) = self.ledger.find_fleet(tenant, job).await? {
            return explain_command(&*self.ledger, tenant, &record, &fleet, alive_since).await.map(Some);
        }
        if record.state.kind == JobKind::Workflow
            && matches!(record.state.status, JobStatus::Running | JobStatus::Paused | JobStatus::Canceling)
        {
            let mut reasons = Vec::new();
            for (place, Standing { mut reason, job }) in self.flows.why(tenant, &record).await?.into_iter().enumerate()
            {
                if let Some(job) = job.filter(|_| depth < why::DEPTH_MAX && place < why::JOBS_MAX)
                    && let Some(why) = Box::pin(self.why_at_depth(tenant, job, depth + 1)).await?
                {
                    reason.because(&why);
                }
                reasons.push(reason);
            }
            if !reasons.is_empty() {
                return Ok(Some(Why::new(record.state.status, reasons)));
            }
        }
        let facts = self.ledger.waiting_facts(tenant, job).await?;
        let builtin =
            self.settings.builtin_slots > 0 && self.builtin.abilities().task_types.contains(&record.task_type);
        let free = self.builtin.slots().saturating_sub(self.builtin.busy());
        let takers = why::takers(&*self.ledger, tenant, builtin, free).await?;
        Ok(Some(why::explain(&record, &runs, facts, &takers, alive_since)))
    }
}
