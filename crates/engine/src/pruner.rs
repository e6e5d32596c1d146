//! The pruner: removes what is older than its time, a bite at a time.

use std::sync::Arc;
use std::time::Duration;

use bowline_backbone::{BlobStore, Key};
use bowline_model::RunId;
use bowline_store::{Ledger, PruneMark};
use tokio_util::sync::CancellationToken;

use crate::settings::EngineSettings;

/// Between one sweep through the old jobs and the next, unless they are kept for less.
const PAUSE: Duration = Duration::from_secs(300);
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Between bites others get the ledger.
const BREATH: Duration = Duration::from_millis(50);

/// Prunes until the house closes.
pub async fn prune_forever(
    ledger: Arc<dyn Ledger>,
    blobs: Arc<dyn BlobStore>,
    settings: Arc<EngineSettings>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let kept_ms = settings.retention.finished_jobs_ms.min(settings.retention.events_ms);
    let pause = Duration::from_millis(u64::try_from(kept_ms).unwrap_or(0)).clamp(PAUSE_MIN, PAUSE);
    let mut wait = pause;
    let mut from = PruneMark::default();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait) => {}
        }
        wait = match ledger.prune(settings.retention, from).await {
            Ok(pruned) => {
                if pruned.jobs > 0 {
                    tracing::info!(jobs = pruned.jobs, events = pruned.events, "pruned old jobs");
                }
                if pruned.definitions > 0 {
                    tracing::info!(definitions = pruned.definitions, "pruned definitions that no execution needs");
                }
                forget_output(&*blobs, &pruned.outputs).await;
                from = pruned.next.unwrap_or_default();
                if pruned.next.is_some() { BREATH } else { pause }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot prune, retrying");
                pause
            }
        };
    }
}

/// The ledger knows of these no more. What cannot be removed now is waste, not damage.
async fn forget_output(blobs: &dyn BlobStore, runs: &[RunId]) {
    for run in runs {
        let Ok(prefix) = Key::new(&format!("runs/{}", run.as_uuid().simple())) else { continue };
        if let Err(error) = blobs.remove(&prefix).await {
            tracing::warn!(run.id = %run, %error, "cannot remove the output of a pruned run");
        }
    }
}
