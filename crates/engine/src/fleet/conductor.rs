//! The conductor: moves commands on hosts on. A reconciler like the others: woken by a bell, it looks and does what there
//! is to do; running it twice, or on two servers, does it once.

use std::sync::Arc;
use std::time::Duration;

use bowline_store::Ledger;
use tokio_util::sync::CancellationToken;

/// Even when nothing rings, look this often: another server may have left something.
const SAFETY_NET: Duration = Duration::from_secs(1);

/// Conducts until the house closes.
pub async fn conduct_forever(ledger: Arc<dyn Ledger>, stop: CancellationToken) -> anyhow::Result<()> {
    let mut bell = ledger.fleet_wake().listen();
    let mut thorough = true;
    loop {
        bell.forget();
        let wait = match ledger.conduct(thorough).await {
            Ok(conducted) if conducted.moved > 0 => Duration::ZERO,
            Ok(_) => SAFETY_NET,
            Err(error) => {
                tracing::warn!(%error, "cannot advance commands on hosts, retrying");
                Duration::from_millis(250)
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            // Whatever nobody rings for is found when it is quiet.
            () = tokio::time::sleep(wait) => thorough = !wait.is_zero(),
            () = bell.rung() => thorough = false,
        }
    }
}
