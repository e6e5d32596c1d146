//! Why a run of a workflow stands where it stands: what it waits for, and where.

use bowline_model::{JobId, JobStatus, TenantId, Timestamp};
use bowline_store::{JobRecord, StoreError, StoreResult};
use bowline_workflow::flow::{Flow, Waiting};
use serde_json::json;

use super::Flows;
use super::look::LookError;
use crate::why::Reason;

/// Places that are told of. A run can be at thousands.
const PLACES_MAX: usize = 20;
/// Of a question that somebody is asked, this much is told in the sentence.
const TITLE_MAX: usize = 100;

/// What a run waits for, and the job that it waits for, if it is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    pub reason: Reason,
    pub job: Option<JobId>,
}

impl Flows {
    /// What a run that is not over waits for: what a person can do something about comes first, what only time ends last.
    pub async fn why(&self, tenant: TenantId, job: &JobRecord) -> StoreResult<Vec<Standing>> {
        let room = match self.room(tenant, job.id, None).await {
            Ok(room) => room,
            Err(LookError::NotFound) => return Ok(Vec::new()),
            // What it waits for is in what cannot be read; the rest of the answer can be given.
            Err(large @ LookError::TooLarge { .. }) => {
                let reason = Reason { code: "too_large", sentence: large.to_string(), data: json!({}) };
                return Ok(vec![Standing { reason, job: None }]);
            }
            Err(LookError::Store(error)) => return Err(error),
            Err(other) => return Err(StoreError::Broken(other.to_string())),
        };
        let run = match self.look_at(&room, tenant, job.id, None).await {
            Ok(run) => run,
            Err(LookError::NotFound) => return Ok(Vec::new()),
            Err(LookError::Store(error)) => return Err(error),
            Err(other) => return Err(StoreError::Broken(other.to_string())),
        };
        let waits = self.ledger.find_flow(tenant, job.id).await?.map(|flow| flow.waits).unwrap_or_default();
        let since = |node: &str, visit: u32| {
            let wait = waits.iter().find(|record| *record.wait.node == *node && record.wait.visit == visit);
            wait.map(|record| record.since)
        };
        Ok(standing(job, &run.flow, since))
    }
}

fn standing(job: &JobRecord, flow: &Flow, since: impl Fn(&str, u32) -> Option<Timestamp>) -> Vec<Standing> {
    if job.state.status == JobStatus::Canceling {
        let left = flow.jobs().count();
        let sentence = match left {
            0 => "somebody asked to cancel it; it stops with its next step".to_owned(),
            1 => "somebody asked to cancel it; a job that it began has not ended yet".to_owned(),
            left => format!("somebody asked to cancel it; {left} jobs that it began have not ended yet"),
        };
        return vec![Standing {
            reason: Reason { code: "canceling", sentence, data: json!({"jobs": left}) },
            job: flow.jobs().next(),
        }];
    }
    let mut found: Vec<(u8, Standing)> = Vec::new();
    let halted = flow.debug().halted;
    for (node, visit, wait) in flow.places().take(PLACES_MAX) {
        let at = if visit > 1 { format!("`{node}` (visit {visit})") } else { format!("`{node}`") };
        let mut job_id = None;
        let (rank, code, sentence, data) = match wait {
            None if halted.is_some() => (
                0,
                "in_debugger",
                format!("it stands in the debugger at {at}; `bowline workflow debug {}` goes on with it", job.id),
                json!({"node": node, "visit": visit, "halted": halted}),
            ),
            None => (5, "running", format!("it goes on at {at}"), json!({"node": node, "visit": visit})),
            Some(Waiting::Approval { title, expires_at, .. }) => {
                let since = since(node.as_str(), visit);
                let sentence = format!(
                    "it waits at {at} for somebody's approval (`{}`){}{}",
                    brief(title),
                    told(", since", since),
                    told("; until", *expires_at)
                );
                let data =
                    json!({"node": node, "visit": visit, "title": title, "since": since, "expires_at": expires_at});
                (1, "awaiting_approval", sentence, data)
            }
            Some(Waiting::Event { name, key, expires_at }) => {
                let since = since(node.as_str(), visit);
                let which = key.as_ref().map(|key| format!(" (key `{}`)", brief(key))).unwrap_or_default();
                let sentence = format!(
                    "it waits at {at} for the event `{name}`{which}{}{}",
                    told(", since", since),
                    told("; until", *expires_at)
                );
                let data = json!({
                    "node": node, "visit": visit, "event": name, "key": key, "since": since, "expires_at": expires_at,
                });
                (2, "awaiting_event", sentence, data)
            }
            Some(Waiting::Call { .. }) if flow.refused_until(node, visit).is_some() => {
                let again_at = flow.refused_until(node, visit);
                let until = told("; it is tried again at", again_at);
                let sentence =
                    format!("there was no room for the job of {at}: a quota of this tenant is used up{until}");
                let data = json!({"node": node, "visit": visit, "again_at": again_at});
                (2, "no_room", sentence, data)
            }
            Some(Waiting::Call { job, .. }) => {
                job_id = Some(*job);
                let data = json!({"node": node, "visit": visit, "job_id": job});
                (3, "awaiting_job", format!("it waits at {at} for job {job}"), data)
            }
            Some(Waiting::Each { .. }) => {
                let (running, ended, items) = flow.items(node, visit).unwrap_or_default();
                let sentence = format!("it waits at {at} for {running} jobs at once; {ended} of {items} have ended");
                let mut data =
                    json!({"node": node, "visit": visit, "running": running, "ended": ended, "items": items});
                match flow.refused_until(node, visit) {
                    Some(again_at) => {
                        data["again_at"] = json!(again_at);
                        let more = format!("; there was no room for others, which are tried again from {again_at} on");
                        (2, "no_room", sentence + &more, data)
                    }
                    None => (3, "awaiting_jobs", sentence, data),
                }
            }
            Some(Waiting::Until(moment)) => {
                let data = json!({"node": node, "visit": visit, "until": moment});
                (4, "sleeping", format!("it sleeps at {at} until {moment}"), data)
            }
        };
        found.push((rank, Standing { reason: Reason { code, sentence, data }, job: job_id }));
    }
    if halted.is_some() && found.iter().all(|(rank, _)| *rank > 0) {
        let sentence = format!("it is held in the debugger; `bowline workflow debug {}` goes on with it", job.id);
        let reason = Reason { code: "in_debugger", sentence, data: json!({"halted": halted}) };
        found.push((0, Standing { reason, job: None }));
    }
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, standing)| standing).collect()
}

/// `WORD MOMENT`, if there is one.
fn told(word: &str, moment: Option<Timestamp>) -> String {
    moment.map(|moment| format!("{word} {moment}")).unwrap_or_default()
}

/// A text on one line, as far as there is room.
fn brief(text: &str) -> String {
    let mut line: String = text.chars().take(TITLE_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(TITLE_MAX).is_some() {
        line.push('…');
    }
    line
}
