//! Outcomes on their way to the ledger. What a handler did is never forgotten because the ledger was away when it finished,
//! and a run whose outcome waits here is still ours: its lease is renewed until the outcome is stored.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_model::RunId;
use bowline_store::{Ledger, ReportAnswer, RunReport};
use bowline_supervise::Meters;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How many are brought to the ledger together.
pub const BATCH: u32 = 1_000;

struct Waiting {
    since: Instant,
    report: RunReport,
}

/// Nobody waits for these, and a commit of their own would delay those who do wait: so they come together first.
const GATHER: Duration = Duration::from_millis(1);

/// The reports that are not stored yet, oldest first.
pub struct Outbox {
    waiting: Mutex<VecDeque<Waiting>>,
    put: Notify,
    /// Rung when outcomes have been stored.
    room: Arc<Notify>,
    ledger: Arc<dyn Ledger>,
    meters: Arc<Meters>,
}

impl Outbox {
    pub fn new(ledger: Arc<dyn Ledger>, meters: Arc<Meters>, room: Arc<Notify>) -> Self {
        Self { waiting: Mutex::default(), put: Notify::new(), room, ledger, meters }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn len(&self) -> u32 {
        u32::try_from(self.waiting().len()).unwrap_or(u32::MAX)
    }

    pub fn put(&self, report: RunReport) {
        self.waiting().push_back(Waiting { since: Instant::now(), report });
        self.put.notify_one();
    }

    /// Runs whose outcome has been waiting for longer than this.
    pub fn runs_older_than(&self, age: Duration) -> Vec<RunId> {
        self.waiting().iter().take_while(|w| w.since.elapsed() > age).map(|w| w.report.run).collect()
    }

    /// Stores what is put in, many at a time, for as long as it takes. After `stop` it returns when nothing waits.
    pub async fn serve(&self, stop: CancellationToken) {
        loop {
            // They stay in the box while they are told, so that their leases are renewed until they are stored.
            let batch: Vec<RunReport> = self.waiting().iter().take(BATCH as usize).map(|w| w.report.clone()).collect();
            if batch.is_empty() {
                if stop.is_cancelled() {
                    return;
                }
                tokio::select! {
                    () = self.put.notified() => tokio::time::sleep(GATHER).await,
                    () = stop.cancelled() => {}
                }
                continue;
            }
            let told = batch.len();
            self.tell(batch).await;
            self.waiting().drain(..told);
            self.room.notify_one();
        }
    }

    async fn tell(&self, batch: Vec<RunReport>) {
        let mut pause = Duration::from_millis(20);
        // Asking again is harmless: the second report of a run is a duplicate.
        loop {
            match self.ledger.report(batch.clone()).await {
                Ok(answers) => return self.count(&batch, &answers),
                Err(error) if error.is_transient() => {
                    tracing::warn!(outcomes = batch.len(), %error, "cannot store outcomes of runs, retrying");
                }
                Err(error) => {
                    for report in &batch {
                        tracing::error!(run.id = %report.run, %error, "cannot store the outcome of a run, leaving it to its lease");
                    }
                    return;
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }

    fn count(&self, batch: &[RunReport], answers: &[ReportAnswer]) {
        for (report, answer) in batch.iter().zip(answers) {
            match answer {
                ReportAnswer::NotFound | ReportAnswer::NotYours | ReportAnswer::Finished(_) => {
                    tracing::error!(run.id = %report.run, answer = ?answer, "the ledger refused the outcome of a run of this server");
                }
                ReportAnswer::Stale { .. } => {
                    self.meters.stale_writes_refused.inc();
                }
                ReportAnswer::Corrected(_) => {
                    self.meters.runs_corrected.inc();
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use bowline_model::{JobStatus, Outcome};
    use bowline_store::{Clock, ManualClock};
    use bowline_store_sql::db::{FaultPlan, Injected, Moment};
    use bowline_store_sql::{SqlLedger, SqlSettings};

    use super::*;
    use crate::fixture::{NOW, ledger, worker_name};

    fn run(n: u8) -> RunId {
        RunId::mint(NOW, [n; 10])
    }

    fn report(n: u8) -> RunReport {
        RunReport {
            run: run(n),
            job: None,
            worker: worker_name("w1"),
            tenant: None,
            fence: None,
            outcome: Outcome::Succeeded,
            exit_code: None,
            error: None,
            result: None,
            stored_result: None,
            last_seq: 0,
        }
    }

    #[tokio::test]
    async fn outcomes_that_came_late_are_counted() {
        let meters = Meters::new();
        let outbox = Outbox::new(ledger(), Arc::clone(&meters), Arc::new(Notify::new()));
        let answers = [
            ReportAnswer::Recorded(JobStatus::Succeeded),
            ReportAnswer::Stale { evidence: true },
            ReportAnswer::Stale { evidence: false },
            ReportAnswer::Corrected(JobStatus::Succeeded),
            ReportAnswer::NotFound,
        ];
        outbox.count(&[1, 2, 3, 4, 5].map(report), &answers);
        assert_eq!((meters.stale_writes_refused.get(), meters.runs_corrected.get()), (2, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn runs_whose_outcome_has_been_waiting_for_long_are_named() {
        let outbox = Outbox::new(ledger(), Meters::new(), Arc::new(Notify::new()));
        let after = |ms: u64| outbox.runs_older_than(Duration::from_millis(ms));
        outbox.put(report(1));
        tokio::time::advance(Duration::from_millis(10)).await;
        outbox.put(report(2));
        assert_eq!((after(9), after(10), outbox.len()), (vec![run(1)], vec![], 2));
        tokio::time::advance(Duration::from_millis(10)).await;
        assert_eq!((after(9), after(10)), (vec![run(1), run(2)], vec![run(1)]));
    }

    /// Makes a ledger unavailable.
    #[derive(Debug, Default)]
    struct Outage(AtomicBool);

    impl FaultPlan for Outage {
        fn at(&self, moment: Moment) -> Option<Injected> {
            (moment == Moment::Begin && self.0.load(Ordering::Relaxed)).then_some(Injected::Unavailable)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn outcomes_wait_until_the_ledger_can_store_them() {
        let outage = Arc::new(Outage(AtomicBool::new(true)));
        let faults = Arc::<Outage>::clone(&outage) as Arc<dyn FaultPlan>;
        let settings = SqlSettings::new(ManualClock::at(NOW) as Arc<dyn Clock>);
        let (ledger, driver) = SqlLedger::open_memory(&settings, Some(faults)).expect("a ledger");
        let outbox = Outbox::new(Arc::new(ledger), Meters::new(), Arc::new(Notify::new()));
        let put_during_an_outage = async {
            outbox.put(report(1));
            outbox.put(report(2));
            // Of the paused clock: many tries.
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(outbox.len(), 2);
            outage.0.store(false, Ordering::Relaxed);
            while outbox.len() > 0 {
                tokio::time::sleep(GATHER).await;
            }
        };
        tokio::select! {
            () = driver => panic!("the ledger should work until the end"),
            () = outbox.serve(CancellationToken::new()) => panic!("nobody stopped it"),
            () = put_during_an_outage => {}
        }
    }
}
