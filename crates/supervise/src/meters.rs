//! The meters: what the house counts, under the names operators already know.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct HttpLabels {
    pub route: &'static str,
    pub method: &'static str,
    pub status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RouteLabels {
    pub route: &'static str,
    pub method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ErrorLabels {
    pub route: &'static str,
    pub code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct QueueLabels {
    pub queue: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TypeLabels {
    pub r#type: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct EndLabels {
    pub r#type: String,
    pub status: &'static str,
}

/// A gauge for each lane.
pub type DepthGauge = Family<QueueLabels, Gauge>;
type Millis = Family<RouteLabels, Histogram, fn() -> Histogram>;

/// Every meter of a server.
#[derive(Debug)]
pub struct Meters {
    registry: Registry,
    pub http_requests: Family<HttpLabels, Counter>,
    pub http_millis: Millis,
    pub http_errors: Family<ErrorLabels, Counter>,
    pub queue_depth: DepthGauge,
    pub scheduled: DepthGauge,
    pub running: DepthGauge,
    pub dlq_depth: DepthGauge,
    pub job_millis: Family<TypeLabels, Histogram, fn() -> Histogram>,
    pub retries: Family<TypeLabels, Counter>,
    pub jobs_accepted: Counter,
    pub stale_writes_refused: Counter,
    pub seq_conflicts: Counter,
    pub runs_lost: Counter,
    pub runs_returned: Counter,
    pub handouts_unwritten: Counter,
    pub runs_unnamed: Counter,
    pub runs_corrected: Counter,
    /// Jobs, hosts of commands included, whose last attempt ended, by the status they ended with.
    pub jobs_ended: Family<EndLabels, Counter>,
    pub store_unavailable: Counter,
    pub degraded: Gauge,
    pub clock_held: Gauge,
    pub stream_readers: Gauge,
    pub evaluations_set_aside: Gauge,
    pub stream_readers_cut: Counter,
    pub backlog: Gauge<i64, AtomicI64>,
    /// Schedules and triggers whose owner has lost the rights.
    pub stopped_starters: Gauge,
    pub polls_waiting: Gauge,
}

type AtomicI64 = std::sync::atomic::AtomicI64;

fn millis() -> Histogram {
    Histogram::new([
        1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 60_000.0,
    ])
}

impl Meters {
    pub fn new() -> Arc<Self> {
        let meters = Self {
            registry: Registry::with_prefix("orchestrator"),
            http_requests: Family::default(),
            http_millis: Family::new_with_constructor(millis as fn() -> Histogram),
            http_errors: Family::default(),
            queue_depth: Family::default(),
            scheduled: Family::default(),
            running: Family::default(),
            dlq_depth: Family::default(),
            job_millis: Family::new_with_constructor(millis as fn() -> Histogram),
            retries: Family::default(),
            jobs_accepted: Counter::default(),
            stale_writes_refused: Counter::default(),
            seq_conflicts: Counter::default(),
            runs_lost: Counter::default(),
            runs_returned: Counter::default(),
            handouts_unwritten: Counter::default(),
            runs_unnamed: Counter::default(),
            runs_corrected: Counter::default(),
            jobs_ended: Family::default(),
            store_unavailable: Counter::default(),
            degraded: Gauge::default(),
            clock_held: Gauge::default(),
            stream_readers: Gauge::default(),
            evaluations_set_aside: Gauge::default(),
            stream_readers_cut: Counter::default(),
            backlog: Gauge::default(),
            stopped_starters: Gauge::default(),
            polls_waiting: Gauge::default(),
        };
        Arc::new(meters.registered())
    }

    fn registered(mut self) -> Self {
        let r = &mut self.registry;
        r.register("http_requests", "Requests answered", self.http_requests.clone());
        r.register("http_request_duration_ms", "Time to answer a request", self.http_millis.clone());
        r.register("http_errors", "Requests refused, by code", self.http_errors.clone());
        r.register("queue_depth", "Runs waiting for a worker", self.queue_depth.clone());
        r.register("scheduled", "Jobs waiting for a moment", self.scheduled.clone());
        r.register("running", "Runs a worker has", self.running.clone());
        r.register("dlq_depth", "Open dead letters", self.dlq_depth.clone());
        r.register("job_latency_ms", "Time from acceptance to success", self.job_millis.clone());
        r.register("retry", "Attempts that were followed by another", self.retries.clone());
        r.register("jobs_accepted", "Jobs accepted", self.jobs_accepted.clone());
        r.register("stale_write_rejected", "Writes refused for an outdated lease", self.stale_writes_refused.clone());
        r.register("seq_conflict", "Events refused for a number used before", self.seq_conflicts.clone());
        r.register("runs_lost", "Runs presumed lost", self.runs_lost.clone());
        r.register("runs_returned", "Hand-outs nobody confirmed", self.runs_returned.clone());
        let unwritten = "Runs that went back to the queue because the answer that carried them could not be written";
        r.register("handouts_unwritten", unwritten, self.handouts_unwritten.clone());
        let unnamed =
            "Runs that timed out with a worker that has never named a run; their hand-outs may have been lost";
        r.register("runs_unnamed", unnamed, self.runs_unnamed.clone());
        r.register("runs_corrected", "Runs whose late report was recorded", self.runs_corrected.clone());
        let ended = "Jobs and hosts of commands whose last attempt ended, by type and status";
        r.register("jobs_ended", ended, self.jobs_ended.clone());
        r.register("store_unavailable", "Calls the ledger could not take", self.store_unavailable.clone());
        r.register("clock_held", "1 while the clock is far from the ledger's last known time", self.clock_held.clone());
        r.register("degraded", "1 while the ledger is away", self.degraded.clone());
        r.register("stream_readers", "Readers of the event stream", self.stream_readers.clone());
        let aside = "Evaluations that ended the server twice and are set aside";
        r.register("evaluations_set_aside", aside, self.evaluations_set_aside.clone());
        r.register("stream_readers_cut", "Readers cut for being too slow", self.stream_readers_cut.clone());
        r.register("polls_waiting", "Requests of workers that wait for work", self.polls_waiting.clone());
        r.register(
            "schedules_stopped",
            "Schedules and triggers that start nothing, because the token that applied them was revoked or has expired",
            self.stopped_starters.clone(),
        );
        r.register("commit_backlog", "Submissions waiting to be stored", self.backlog.clone());
        self
    }

    /// All meters in the text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
