//! Keeps the ledger's last known moment, and raises the alarm while the clock is far from it.

use std::sync::Arc;
use std::time::Duration;

use bowline_model::event::EventData;
use bowline_model::{EventKind, TenantId};
use bowline_store::{ClockStatus, Ledger, Notice};
use bowline_supervise::Meters;
use tokio_util::sync::CancellationToken;

/// How far the known moment may be behind the last commit.
const PAUSE: Duration = Duration::from_secs(5);
/// The alarm is repeated in the log this often.
const REMIND: Duration = Duration::from_secs(600);

/// Watches until the server stops. Events about the clock are the home tenant's.
pub async fn watch_clock(
    ledger: Arc<dyn Ledger>,
    meters: Arc<Meters>,
    home: TenantId,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut alarm: Option<tokio::time::Instant> = None;
    loop {
        match ledger.note_time().await {
            Ok(status) => {
                meters.degraded.set(0);
                meters.clock_held.set(i64::from(status.is_held()));
                match (status.is_held(), alarm) {
                    (true, None) => {
                        warn(&status);
                        note(&*ledger, home, EventKind::ClockHeld, &status).await;
                        alarm = Some(tokio::time::Instant::now());
                    }
                    (true, Some(raised)) if raised.elapsed() >= REMIND => {
                        warn(&status);
                        alarm = Some(tokio::time::Instant::now());
                    }
                    (false, Some(_)) => {
                        tracing::warn!(clock.ledger = %status.now, "the clock is believed again");
                        note(&*ledger, home, EventKind::ClockAccepted, &status).await;
                        alarm = None;
                    }
                    (true, Some(_)) | (false, None) => {}
                }
            }
            // The reaper sees it sooner, but a server that only works has none.
            Err(error) => {
                meters.degraded.set(1);
                tracing::debug!(%error, "cannot note the time");
            }
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

fn warn(status: &ClockStatus) {
    tracing::error!(
        clock.says = %status.clock,
        clock.ledger = %status.now,
        "the clock is far from the ledger's last known time; expiry, retention, misfires and timeouts wait for `bowline clock accept`"
    );
}

async fn note(ledger: &dyn Ledger, home: TenantId, kind: EventKind, status: &ClockStatus) {
    let reason = Some(explain(status));
    let notice = Notice { tenant: home, kind, data: EventData { reason, ..EventData::default() } };
    if let Err(error) = ledger.note(notice).await {
        tracing::warn!(event.kind = %kind, %error, "cannot record an event");
    }
}

/// Where the clock stands, in a sentence.
pub fn explain(status: &ClockStatus) -> String {
    let ClockStatus { now, clock, .. } = status;
    if status.is_held() {
        let way = if clock < now { "behind" } else { "ahead of" };
        format!(
            "the clock says {clock}, which is far {way} the ledger's last known time ({now}): expiry, retention, misfires \
             and timeouts wait; set the clock right and restart, or run `bowline clock accept`"
        )
    } else {
        format!("the clock says {clock} and is believed")
    }
}
