//! Brings outcomes to the ledger, many at a time, for as long as it takes. What a handler did is never forgotten because
//! the ledger was away when it finished.

use std::sync::Arc;
use std::time::Duration;

use bowline_store::{Ledger, ReportAnswer, RunReport};
use bowline_supervise::Meters;
use tokio::sync::mpsc;

const BATCH: usize = 1_000;

/// Reports until every sender is gone.
pub async fn report_forever(
    ledger: Arc<dyn Ledger>,
    meters: Arc<Meters>,
    mut outcomes: mpsc::UnboundedReceiver<RunReport>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        if outcomes.recv_many(&mut batch, BATCH).await == 0 {
            return;
        }
        let mut pause = Duration::from_millis(20);
        // Asking again is harmless: the second report of a run is a duplicate.
        while let Err(error) = ledger.report(batch.clone()).await.map(|answers| count(&meters, &answers)) {
            if !error.is_transient() {
                tracing::error!("{} outcomes cannot be stored and are left to their leases: {error}", batch.len());
                break;
            }
            tracing::warn!("{} outcomes wait for the ledger: {error}", batch.len());
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
        batch.clear();
    }
}

fn count(meters: &Meters, answers: &[ReportAnswer]) {
    for answer in answers {
        match answer {
            ReportAnswer::NotFound | ReportAnswer::NotYours | ReportAnswer::Finished(_) => {
                tracing::error!("the ledger did not take the outcome of a run in this server: {answer:?}");
            }
            ReportAnswer::Stale { .. } => {
                meters.stale_writes_refused.inc();
            }
            ReportAnswer::Corrected(_) => {
                meters.runs_corrected.inc();
            }
            _ => {}
        }
    }
}
