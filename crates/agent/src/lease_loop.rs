//! Signs of life: keeping the leases of what is in hand, and hearing what to stop.
//!
//! The only loop that registers again, so that a server that forgot us is told once and not by everybody.

use std::sync::Arc;

use bowline_model::RunId;
use bowline_protocol::HeartbeatAnswer;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use crate::client::CallError;
use crate::error::chain;
use crate::lease::StopReason;
use crate::registration::register;
use crate::shared::Shared;

/// How many tasks one heartbeat names; more than this would not fit into a body.
const NAMED_MAX: usize = 10_000;

/// Sends heartbeats until the end.
pub(crate) async fn lease_loop(shared: Arc<Shared>) {
    tokio::select! {
        () = shared.end.cancelled() => {}
        () = keep_leases(&shared) => {}
    }
}

/// Ends only when going on makes no sense; the failure has been told to [`Shared`] then.
async fn keep_leases(shared: &Shared) {
    let worker = shared.worker();
    let mut backoff = shared.backoff();
    let mut heard_at = Instant::now();
    let mut cut_off = false;
    let mut next_at = Instant::now();
    loop {
        tokio::select! {
            () = sleep_until(next_at) => {}
            () = shared.registration.wanted() => {}
        }
        if shared.registration.is_forgotten() {
            match register(&shared.client, &shared.settings.registration, shared.backoff(), true).await {
                Ok(terms) => shared.registration.renew(terms),
                Err(error) => return shared.fail(error),
            }
        }
        let terms = shared.registration.terms();
        let sent_at = Instant::now();
        match beat(shared).await {
            Ok(()) => {
                if backoff.reset() {
                    info!(worker.id = %worker, "worker {worker} is heard again");
                }
                (heard_at, cut_off) = (sent_at, false);
                next_at = sent_at + terms.heartbeat;
            }
            Err(CallError::Refused(refusal)) if matches!(refusal.status, 401 | 403) => {
                return shared.fail_unauthorized(refusal);
            }
            Err(CallError::Refused(refusal)) if refusal.status == 404 => {
                warn!(worker.id = %worker, "the server does not know worker {worker} any more; it registers again");
                shared.registration.forgotten();
                next_at = Instant::now() + backoff.pause().min(terms.heartbeat);
                // The bell is for others; our own pause comes first, or a server that forgets at once would be stormed.
                sleep_until(next_at).await;
            }
            Err(error) => {
                // A lease is at stake: never slower than the usual beat, however busy the server is.
                next_at = Instant::now() + backoff.after(&error).min(terms.heartbeat);
                let why = chain(&error);
                if backoff.is_first() {
                    warn!(worker.id = %worker, "a heartbeat of worker {worker} did not get through: {why}");
                } else {
                    debug!(worker.id = %worker, "a heartbeat of worker {worker} did not get through: {why}");
                }
                if !cut_off && heard_at.elapsed() >= terms.lease {
                    cut_off = true;
                    let (count, silent) = (shared.hand.named().len(), heard_at.elapsed());
                    let then = if shared.settings.stop_when_cut_off { "stop" } else { "go on and are reported late" };
                    warn!(worker.id = %worker, "worker {worker} is cut off since {silent:.0?}; its {count} tasks {then}");
                }
            }
        }
    }
}

/// One heartbeat about everything in hand.
async fn beat(shared: &Shared) -> Result<(), CallError> {
    let named = shared.hand.named();
    let mut parts: Vec<&[RunId]> = named.chunks(NAMED_MAX).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    let patience = shared.registration.terms().heartbeat;
    for part in parts {
        let sent_at = Instant::now();
        let answer = shared.client.heartbeat(shared.worker(), part.to_vec(), patience).await?;
        hear(shared, &answer, sent_at);
    }
    Ok(())
}

/// Does what the answer says. Tasks that have left our hand meanwhile are none of its business.
fn hear(shared: &Shared, answer: &HeartbeatAnswer, sent_at: Instant) {
    for (runs, reason) in [(&answer.renewed, None), (&answer.cancel, Some(StopReason::Canceled))] {
        for lease in runs.iter().filter_map(|run| Some((run, shared.hand.find(*run)?))) {
            let (run, lease) = lease;
            lease.renew(sent_at);
            if reason.is_some_and(|reason| lease.stop(reason)) {
                info!(run.id = %run, "task {run} was canceled; its handler is asked to stop");
            }
        }
    }
    for run in &answer.stale {
        if shared.hand.find(*run).is_some_and(|lease| lease.stop(StopReason::Stale)) {
            warn!(run.id = %run, "task {run} is not ours any more; its handler is asked to stop");
        }
    }
    if answer.drain && !shared.draining.is_cancelled() {
        let worker = shared.worker();
        info!(worker.id = %worker, "the server asks worker {worker} to finish and leave");
        shared.draining.cancel();
    }
}
