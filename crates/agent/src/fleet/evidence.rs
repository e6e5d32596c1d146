//! What this agent executed, offered to a server that may have forgotten it.
//!
//! A server restored from an older copy does not know that it was. So whenever we come to one, it is told what we executed, the
//! newest first, until it knows a whole page of it.

use std::sync::Arc;

use bowline_execute::{Ended, Executed, Found, Standing};
use bowline_model::Timestamp;
use bowline_protocol::{EvidenceAnswer, EvidenceRequest, RunEvidence};
use tokio::time::sleep;
use tracing::{debug, info};

use crate::error::chain;
use crate::fleet::outcome::run_end;
use crate::fleet::shared::Fleet;
use crate::server::client::CallError;

/// Enough to notice that something is missing; nobody who knows it all is sent more.
const FIRST_PAGE: usize = 100;
const PAGE: usize = 1_000;

/// Offers now, and again each time the server was away.
pub(crate) async fn evidence_loop(fleet: Arc<Fleet>) {
    loop {
        tokio::select! {
            () = fleet.link.end.cancelled() => return,
            () = offer(&fleet) => {}
        }
        tokio::select! {
            () = fleet.link.end.cancelled() => return,
            () = fleet.link.reunited.notified() => {}
        }
    }
}

async fn offer(fleet: &Fleet) {
    let (mut from, mut page) = (0, FIRST_PAGE);
    loop {
        let executed = fleet.runs.executed(from, page);
        let mut runs: Vec<RunEvidence> = executed.iter().map(from_journal).collect();
        if from == 0 {
            let now = (fleet.clock)();
            let kept = fleet.runs.list().into_iter().filter_map(|found| from_directory(found, now));
            runs.extend(kept.take(PAGE - FIRST_PAGE));
        }
        if runs.is_empty() {
            return;
        }
        let offered = executed.len();
        let Some(answer) = send(fleet, EvidenceRequest { runs }).await else { return };
        let EvidenceAnswer { taken, unknown, .. } = answer;
        if taken + unknown > 0 {
            info!("the server had forgotten how {taken} runs ended, and does not know {unknown} others");
        }
        if taken + unknown == 0 || offered < page {
            return;
        }
        (from, page) = (from + offered, PAGE);
    }
}

/// Until it is answered. `None` if the server does not want it.
async fn send(fleet: &Fleet, request: EvidenceRequest) -> Option<EvidenceAnswer> {
    let mut backoff = fleet.link.backoff();
    loop {
        match fleet.link.client.evidence(fleet.link.worker(), &request).await {
            Ok(answer) => return Some(answer),
            Err(error @ CallError::Refused(_)) => {
                debug!("the server does not take what was executed here: {}", chain(&error));
                return None;
            }
            Err(error) => sleep(backoff.after(&error)).await,
        }
    }
}

fn from_journal(done: &Executed) -> RunEvidence {
    let ended = Ended {
        outcome: done.outcome,
        exit_code: done.exit_code,
        signal: None,
        message: None,
        duration_ms: None,
        stdout_bytes: 0,
        stderr_bytes: 0,
        children: None,
        last_seq: 0,
    };
    RunEvidence {
        run_id: done.run,
        unit_id: done.job,
        job_id: done.command,
        fence: done.fence,
        attempt: done.attempt,
        host: done.host.clone(),
        host_fence: done.host_fence,
        ended: run_end(&ended),
        kept: false,
        at: done.at,
    }
}

/// What has ended and has not been told as a whole. Its records are shipped as ever, if the server knows the run.
fn from_directory(found: Found, now: Timestamp) -> Option<RunEvidence> {
    let Found { run, standing: Standing::Ended(ended), manifest, .. } = found else { return None };
    Some(RunEvidence {
        run_id: run,
        unit_id: manifest.job,
        job_id: manifest.command,
        fence: manifest.fence,
        attempt: manifest.attempt,
        host: manifest.host.clone(),
        host_fence: manifest.host_fence,
        ended: run_end(&ended),
        kept: true,
        at: now,
    })
}
