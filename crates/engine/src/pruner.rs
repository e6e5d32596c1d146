//! The pruner: removes what is older than its time, a bite at a time.

use std::sync::Arc;
use std::time::Duration;

use bowline_store::Ledger;
use tokio_util::sync::CancellationToken;

use crate::settings::EngineSettings;

const PAUSE: Duration = Duration::from_secs(60);
/// Between bites others get the ledger.
const BREATH: Duration = Duration::from_millis(50);

/// Prunes until the house closes.
pub async fn prune_forever(
    ledger: Arc<dyn Ledger>,
    settings: Arc<EngineSettings>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut wait = PAUSE;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait) => {}
        }
        wait = match ledger.prune(settings.retention).await {
            Ok(pruned) => {
                if pruned.jobs > 0 {
                    tracing::info!(jobs = pruned.jobs, events = pruned.events, "pruned {} old jobs", pruned.jobs);
                }
                if pruned.more { BREATH } else { PAUSE }
            }
            Err(error) => {
                tracing::warn!("nothing was pruned: {error}");
                PAUSE
            }
        };
    }
}
