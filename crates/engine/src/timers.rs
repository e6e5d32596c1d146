//! Timers: queues jobs whose moment has come, on time after any pause, and in bounded bites after a long one.

use std::sync::Arc;
use std::time::Duration;

use bowline_store::{Clock, Ledger};
use tokio_util::sync::CancellationToken;

const BITE: u32 = 500;
/// Even when nothing is due, look this often: another server may have set a timer.
const SAFETY_NET: Duration = Duration::from_secs(1);

/// Promotes due jobs until the house closes.
pub async fn promote_forever(
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut bell = ledger.timer_wake().listen();
    loop {
        bell.forget();
        let wait = match ledger.promote(BITE).await {
            Ok(promoted) if promoted.moved == u64::from(BITE) => Duration::ZERO,
            Ok(promoted) => promoted.next_due_at.map_or(SAFETY_NET, |due| {
                let millis = due.as_micros() - clock.now().as_micros();
                Duration::from_micros(u64::try_from(millis).unwrap_or(0)).clamp(Duration::from_millis(2), SAFETY_NET)
            }),
            Err(error) => {
                tracing::warn!(%error, "cannot promote due timers, retrying");
                Duration::from_millis(250)
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait) => {}
            () = bell.rung() => {}
        }
    }
}
