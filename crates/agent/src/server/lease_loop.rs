//! Signs of life: keeping the leases of what is in hand, and hearing what to stop.
//!
//! The only loop that registers again, so that a server that forgot us is told once and not by everybody.

use bowline_model::RunId;
use bowline_protocol::HeartbeatAnswer;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use crate::error::chain;
use crate::server::client::CallError;
use crate::server::link::Link;
use crate::server::registration::register;

/// How many tasks one heartbeat names; more than this would not fit into a body.
const NAMED_MAX: usize = 10_000;

/// Whoever has runs in hand.
pub(crate) trait Holder {
    /// The runs whose leases are to be kept.
    fn named(&self) -> Vec<RunId>;

    /// Does what the answer says. Runs that have left our hand meanwhile are none of its business.
    fn hear(&self, answer: &HeartbeatAnswer, sent_at: Instant);

    /// What becomes of runs when no heartbeat gets through for a whole lease, for the log.
    fn when_cut_off(&self) -> &'static str;
}

/// Sends heartbeats until the end.
pub(crate) async fn lease_loop(link: &Link, holder: &impl Holder) {
    tokio::select! {
        () = link.end.cancelled() => {}
        () = keep_leases(link, holder) => {}
    }
}

/// Ends only when going on makes no sense; the failure has been told to [`Link`] then.
async fn keep_leases(link: &Link, holder: &impl Holder) {
    let worker = link.worker();
    let mut backoff = link.backoff();
    let mut heard_at = Instant::now();
    let mut cut_off = false;
    let mut next_at = Instant::now();
    loop {
        tokio::select! {
            () = sleep_until(next_at) => {}
            () = link.registration.wanted() => {}
        }
        if link.registration.is_forgotten() {
            match register(&link.client, &link.settings.registration, link.backoff(), true).await {
                Ok(terms) => link.registration.renew(terms),
                Err(error) => return link.fail(error),
            }
        }
        let terms = link.registration.terms();
        let sent_at = Instant::now();
        match beat(link, holder).await {
            Ok(()) => {
                if backoff.reset() {
                    link.reunited.notify_one();
                    info!(worker.id = %worker, "worker {worker} is heard again");
                }
                (heard_at, cut_off) = (sent_at, false);
                next_at = sent_at + terms.heartbeat;
            }
            Err(CallError::Refused(refusal)) if matches!(refusal.status, 401 | 403) => {
                return link.fail_unauthorized(refusal);
            }
            Err(CallError::Refused(refusal)) if refusal.status == 404 => {
                warn!(worker.id = %worker, "the server does not know worker {worker} any more; it registers again");
                link.registration.forgotten();
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
                    let (count, silent) = (holder.named().len(), heard_at.elapsed());
                    let then = holder.when_cut_off();
                    warn!(worker.id = %worker, "worker {worker} is cut off since {silent:.0?}; its {count} tasks {then}");
                }
            }
        }
    }
}

/// One heartbeat about everything in hand.
async fn beat(link: &Link, holder: &impl Holder) -> Result<(), CallError> {
    let named = holder.named();
    let mut parts: Vec<&[RunId]> = named.chunks(NAMED_MAX).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    let patience = link.registration.terms().heartbeat;
    for part in parts {
        let sent_at = Instant::now();
        let answer = link.client.heartbeat(link.worker(), part.to_vec(), patience).await?;
        holder.hear(&answer, sent_at);
        if answer.drain {
            link.drain();
        }
    }
    Ok(())
}
