//! The lease reaper: gives up runs whose workers are silent, unconfirmed or overdue.

use std::sync::Arc;
use std::time::Duration;

use bowline_store::{Ledger, Listened, Reaped, ReapedRun};
use bowline_supervise::Meters;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::settings::EngineSettings;
use crate::watermark::Watermark;

/// Looks at the leases until the house closes.
pub async fn reap_forever(
    ledger: Arc<dyn Ledger>,
    settings: Arc<EngineSettings>,
    meters: Arc<Meters>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let times = settings.lease;
    let beat =
        Duration::from_millis(u64::try_from(times.accept_ms.min(times.ttl_ms) / 4).unwrap_or(250).clamp(20, 2_000));
    let mut mark: Option<Watermark> = None;
    let mut looked_at = Instant::now();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(beat) => {}
        }
        // Measured before the ledger is asked: an answer that takes long is a break, too.
        let gap = looked_at.elapsed();
        looked_at = Instant::now();
        let now = match ledger.now().await {
            Ok(now) => now,
            Err(error) => {
                if let Some(mark) = &mut mark {
                    mark.ledger_away();
                }
                meters.degraded.set(1);
                tracing::warn!(%error, "cannot judge leases, the ledger is unavailable");
                continue;
            }
        };
        meters.degraded.set(0);
        let mark = mark.get_or_insert_with(|| Watermark::starting_at(now));
        mark.ledger_answered(now, gap.max(looked_at.elapsed()), beat);
        match ledger.reap(times, Listened { since: mark.since(), until: now }).await {
            Ok(reaped) => {
                meters.runs_lost.inc_by(reaped.lost);
                meters.runs_returned.inc_by(reaped.returned);
                meters.runs_unnamed.inc_by(reaped.unnamed);
                log(&reaped);
            }
            Err(error) => {
                mark.ledger_away();
                tracing::warn!(%error, "cannot judge leases, retrying");
            }
        }
    }
}

/// Names what was given up: the first runs one by one, and how many there are in all.
fn log(reaped: &Reaped) {
    if reaped.given_up() == 0 {
        return;
    }
    for ReapedRun { run, job, worker, host, verdict } in &reaped.runs {
        let host = host.as_deref();
        tracing::warn!(job.id = %job, run.id = %run, worker.id = %worker, host.name = host, verdict, "gave up a run");
    }
    tracing::warn!(
        lost = reaped.lost,
        unconfirmed = reaped.returned,
        overdue = reaped.overdue,
        not_named = reaped.given_up().saturating_sub(reaped.runs.len() as u64),
        "gave up runs"
    );
}
