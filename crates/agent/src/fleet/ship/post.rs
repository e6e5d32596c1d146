//! One request with news of many runs: sent again and again until it is answered, in parts if it has to be.

use std::collections::HashMap;

use bowline_model::RunId;
use bowline_protocol::{RunHeard, RunNews, ShipRequest};
use tokio::time::sleep;
use tracing::{debug, info, warn};

use crate::error::chain;
use crate::server::client::{CallError, Refusal};
use crate::server::link::Link;

/// What we call it when the server cannot take a run's news at all, for a reason that it did not give a name.
pub(crate) const UNACCEPTABLE: &str = "UNACCEPTABLE";

/// Brings news, for as long as it takes. `None` when the agent has to leave first.
pub(crate) async fn post(link: &Link, runs: Vec<RunNews>) -> Option<HashMap<RunId, RunHeard>> {
    let mut heard = HashMap::with_capacity(runs.len());
    let mut waiting = vec![ShipRequest { runs }];
    let mut backoff = link.backoff();
    while let Some(request) = waiting.pop() {
        let answer = tokio::select! {
            () = link.end.cancelled() => return None,
            answer = link.client.ship(link.worker(), &request) => answer,
        };
        let pause = match answer {
            Ok(answer) => {
                if backoff.reset() {
                    info!(worker.id = %link.worker(), "the server hears what happened again");
                }
                heard.extend(answer.runs.into_iter().map(|run| (run.run_id, run)));
                continue;
            }
            Err(CallError::Refused(refusal)) => match refusal.status {
                401 | 403 => {
                    link.fail_unauthorized(refusal);
                    link.end.cancelled().await;
                    return None;
                }
                404 => {
                    warn!(worker.id = %link.worker(), "the server does not know agent {} any more", link.worker());
                    tokio::select! {
                        () = link.end.cancelled() => return None,
                        () = link.registration.again() => {}
                    }
                    backoff.pause()
                }
                _ => {
                    divide(request, &refusal, &mut waiting, &mut heard);
                    continue;
                }
            },
            Err(error) => {
                let pause = backoff.after(&error);
                let why = chain(&error);
                if backoff.is_first() {
                    warn!(worker.id = %link.worker(), "the server cannot be told what happened, and nothing is lost: {why}");
                } else {
                    debug!(worker.id = %link.worker(), "the server cannot be told what happened: {why}; again in {pause:?}");
                }
                pause
            }
        };
        waiting.push(request);
        tokio::select! {
            () = link.end.cancelled() => return None,
            () = sleep(pause) => {}
        }
    }
    Some(heard)
}

/// The server cannot take the request. One run in it may be the reason, or its size: halves are tried, and the run that
/// cannot be told even alone is the one that is refused.
fn divide(
    mut request: ShipRequest,
    refusal: &Refusal,
    waiting: &mut Vec<ShipRequest>,
    heard: &mut HashMap<RunId, RunHeard>,
) {
    if request.runs.len() > 1 {
        let rest = request.runs.split_off(request.runs.len() / 2);
        waiting.push(ShipRequest { runs: rest });
        waiting.push(request);
        return;
    }
    let Some(mut news) = request.runs.pop() else { return };
    if refusal.status == 413 && news.events.len() > 1 {
        let rest = news.events.split_off(news.events.len() / 2);
        let later = RunNews { run_id: news.run_id, fence: news.fence, events: rest, ended: news.ended.take() };
        waiting.push(ShipRequest { runs: vec![later] });
        waiting.push(ShipRequest { runs: vec![news] });
        return;
    }
    warn!(run.id = %news.run_id, "the server cannot take what happened in run {}: {refusal}", news.run_id);
    let refused = Some(if refusal.code.is_empty() { UNACCEPTABLE.to_owned() } else { refusal.code.clone() });
    heard.insert(news.run_id, RunHeard { run_id: news.run_id, acknowledged: 0, ended: false, refused });
}
