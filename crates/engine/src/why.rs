//! Why a job waits: as a sentence for people and as data for programs.

use std::collections::{BTreeMap, BTreeSet};

use bowline_model::host::Connection;
use bowline_model::lease::UNNAMED_MAX_MS;
use bowline_model::{JobKind, JobPolicy, JobStatus, Labels, TaskType, TenantId, Timestamp};
use bowline_store::{JobRecord, RunRecord, StoreResult, WaitingFacts, WorkerRecord};
use serde_json::{Value, json};

/// One thing that holds a job back, or explains where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Reason {
    pub code: &'static str,
    pub sentence: String,
    pub data: Value,
}

/// Jobs that wait for jobs that wait are followed this far.
pub(crate) const DEPTH_MAX: u32 = 4;
/// So many jobs that one run waits for are looked at.
pub(crate) const JOBS_MAX: usize = 5;

impl Reason {
    /// It is another job that holds this one back, and here is why that one waits.
    pub(crate) fn because(&mut self, other: &Why) {
        let Some(first) = other.reasons.first() else { return };
        self.sentence = format!("{}: {}", self.sentence, first.sentence);
        self.data["because"] = json!({"code": first.code, "data": first.data});
    }
}

/// The whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Why {
    pub status: JobStatus,
    pub sentence: String,
    pub reasons: Vec<Reason>,
}

/// What is known about who could take a job.
#[derive(Debug, Clone, Default)]
pub struct Takers {
    pub builtin: bool,
    pub builtin_free: u32,
    pub remote: Vec<WorkerRecord>,
}

impl Takers {
    /// Those that would be able, had they a key to seal secrets to.
    pub(crate) fn without_key(&self, task_type: &TaskType, requires: &Labels) -> Vec<&WorkerRecord> {
        if requires.get(Connection::SEALING_LABEL).is_none() {
            return Vec::new();
        }
        let fits = |w: &&WorkerRecord| {
            let has = |(key, value): (&str, &str)| key == Connection::SEALING_LABEL || w.labels.get(key) == Some(value);
            w.task_types.contains(task_type)
                && w.labels.get(Connection::SEALING_LABEL).is_none()
                && requires.iter().all(has)
        };
        self.remote.iter().filter(fits).collect()
    }

    /// One that would be able if the labels counted that it states itself.
    fn claiming(&self, task_type: &TaskType, requires: &Labels) -> Option<&WorkerRecord> {
        let says = |w: &WorkerRecord, key: &str, value: &str| {
            w.labels.get(key).or_else(|| w.claimed_labels.get(key)) == Some(value)
        };
        self.remote
            .iter()
            .find(|w| w.task_types.contains(task_type) && requires.iter().all(|(key, value)| says(w, key, value)))
    }

    /// What no worker has enough of, among those that have the task type and all other labels.
    fn short(&self, task_type: &TaskType, requires: &Labels) -> Vec<Short> {
        let others = |w: &&WorkerRecord| {
            let amounts: BTreeSet<&str> = requires.amounts().collect();
            let has = |(key, value): (&str, &str)| amounts.contains(key) || w.labels.get(key) == Some(value);
            w.task_types.contains(task_type) && requires.iter().all(has)
        };
        let mut short: BTreeMap<String, Short> = BTreeMap::new();
        for worker in self.remote.iter().filter(others) {
            for (name, required, has) in requires.short_of(&worker.labels) {
                let known = short.entry(name.to_owned());
                let entry = known.or_insert_with(|| Short { name: name.to_owned(), required, most: None });
                entry.most = if has > entry.most { has } else { entry.most };
            }
        }
        short.into_values().collect()
    }

    /// Those that have the task type and the labels.
    pub(crate) fn able(&self, task_type: &TaskType, requires: &Labels) -> Vec<&WorkerRecord> {
        let fits = |w: &&WorkerRecord| w.task_types.contains(task_type) && requires.satisfied_by(&w.labels);
        self.remote.iter().filter(fits).collect()
    }
}

/// An amount that a job requires and no worker has.
struct Short {
    name: String,
    required: f64,
    /// What the worker with the most of it has.
    most: Option<f64>,
}

impl Short {
    fn sentence(&self) -> String {
        match self.most {
            Some(most) => format!("the most that one has is {}={most}", self.name),
            None => format!("none says how much {} it has", self.name),
        }
    }
}

/// Explains where a job stands.
pub fn explain(
    job: &JobRecord,
    runs: &[RunRecord],
    facts: WaitingFacts,
    takers: &Takers,
    alive_since: Timestamp,
) -> Why {
    let mut reasons = Vec::new();
    match job.state.status {
        JobStatus::Pending => reasons.push(pending(job)),
        JobStatus::Queued => queued(job, facts, takers, alive_since, &mut reasons),
        JobStatus::Running | JobStatus::Canceling => {
            reasons.push(running(job, runs));
            reasons.extend(unnamed(job, runs, takers));
        }
        JobStatus::AwaitingApproval => reasons.push(Reason {
            code: "awaiting_approval",
            sentence: "it waits for somebody to approve it".to_owned(),
            data: json!({}),
        }),
        JobStatus::Paused => {
            reasons.push(Reason { code: "paused", sentence: "it is paused".to_owned(), data: json!({}) });
        }
        status => reasons.push(Reason {
            code: "finished",
            sentence: match &job.error {
                Some(error) => format!("it has ended as {status}: {}", error.message),
                None => format!("it has ended as {status}"),
            },
            data: json!({"finished_at": job.finished_at, "error": job.error}),
        }),
    }
    if let Some(at) = job.deadline_at {
        reasons.push(Reason {
            code: "deadline",
            sentence: format!("it fails if it has not ended by {at}"),
            data: json!({"deadline_at": at}),
        });
    }
    Why::new(job.state.status, reasons)
}

impl Why {
    /// The first reason is the answer in one sentence.
    pub(crate) fn new(status: JobStatus, reasons: Vec<Reason>) -> Self {
        let sentence = reasons.first().map_or_else(String::new, |r| {
            let mut chars = r.sentence.chars();
            chars.next().map(|c| c.to_uppercase().collect::<String>() + chars.as_str() + ".").unwrap_or_default()
        });
        Self { status, sentence, reasons }
    }
}

fn pending(job: &JobRecord) -> Reason {
    let due = job.state.due_at.unwrap_or(job.updated_at);
    if job.state.attempts == 0 {
        Reason { code: "scheduled", sentence: format!("it is scheduled for {due}"), data: json!({"run_at": due}) }
    } else {
        let last = job.error.as_ref().map(|e| format!(" ({})", e.message)).unwrap_or_default();
        Reason {
            code: "retry_backoff",
            sentence: format!("attempt {} failed{last}; the next one is due at {due}", job.state.attempts),
            data: json!({
                "retry_at": due, "failures": job.state.failures, "max_attempts": job.policy.attempts_max(),
            }),
        }
    }
}

fn queued(job: &JobRecord, facts: WaitingFacts, takers: &Takers, alive_since: Timestamp, reasons: &mut Vec<Reason>) {
    let able = takers.able(&job.task_type, &job.requires);
    let alive: Vec<&&WorkerRecord> = able.iter().filter(|w| w.seen_at >= alive_since && !w.draining).collect();
    let builtin = takers.builtin && job.requires.is_empty();
    if !builtin && alive.is_empty() {
        let labels = if job.requires.is_empty() {
            String::new()
        } else {
            format!(" with the labels {}", job.requires.described())
        };
        let short = takers.short(&job.task_type, &job.requires);
        let (code, rest) = if able.is_empty() && !takers.without_key(&job.task_type, &job.requires).is_empty() {
            ("no_sealing_key", "no agent that could is given sealed secrets".to_owned())
        } else if able.is_empty() && !short.is_empty() {
            ("resources_short", short.iter().map(Short::sentence).collect::<Vec<_>>().join(", "))
        } else if let (true, Some(w)) = (able.is_empty(), takers.claiming(&job.task_type, &job.requires)) {
            ("no_worker", format!("{} states them itself, and its token does not have them", w.name))
        } else if able.is_empty() {
            ("no_worker", "none has ever registered".to_owned())
        } else if able.iter().all(|w| w.draining) {
            ("workers_draining", "all that could are draining".to_owned())
        } else {
            ("workers_silent", "all that could have gone silent".to_owned())
        };
        reasons.push(Reason {
            code,
            sentence: format!("no worker takes {}{labels}: {rest}", job.task_type),
            data: json!({
                "task_type": job.task_type, "labels": job.requires,
                "short_of": short.iter().map(|s| json!({"name": s.name, "required": s.required, "most": s.most})).collect::<Vec<_>>(),
                "workers": able.iter().map(|w| json!({"worker_id": w.name, "seen_at": w.seen_at, "draining": w.draining})).collect::<Vec<_>>(),
            }),
        });
    }
    if facts.ahead > 0 {
        let many = if facts.ahead >= WaitingFacts::AHEAD_MAX { "at least " } else { "" };
        reasons.push(Reason {
            code: "behind_others",
            sentence: format!("{many}{} runs are ahead of it in its line", facts.ahead),
            data: json!({"ahead": facts.ahead, "lane": job.lane, "priority": job.priority}),
        });
    }
    if reasons.is_empty() {
        let busy = builtin && takers.builtin_free == 0;
        reasons.push(Reason {
            code: if busy { "workers_busy" } else { "next_in_line" },
            sentence: if busy {
                "it is first in its line, and every worker that takes it is busy".to_owned()
            } else {
                "it is first in its line and waits for a worker to ask".to_owned()
            },
            data: json!({"lane": job.lane, "workers": alive.len()}),
        });
    }
}

fn running(job: &JobRecord, runs: &[RunRecord]) -> Reason {
    let run = runs.iter().find(|run| run.fence == job.state.fence);
    let data = json!({
        "run_id": run.map(|r| r.id), "worker_id": run.map(|r| r.worker.clone()),
        "attempt": job.state.attempts, "claimed_at": run.map(|r| r.claimed_at),
    });
    let worker = run.map_or_else(String::new, |r| format!(" with worker {}", r.worker));
    if job.state.status == JobStatus::Canceling {
        let sentence = format!("somebody asked to cancel it; its attempt{worker} has not confirmed yet");
        Reason { code: "canceling", sentence, data }
    } else if job.state.kind == JobKind::Workflow {
        // It is between two steps: it waits for nothing, and has no worker of its own.
        Reason { code: "running", sentence: "it goes on with its next step".to_owned(), data: json!({}) }
    } else {
        Reason { code: "running", sentence: format!("attempt {} is{worker}", job.state.attempts), data }
    }
}

/// A worker that names no runs in its heartbeats may not know of this one: the answer that carried it may have been lost.
fn unnamed(job: &JobRecord, runs: &[RunRecord], takers: &Takers) -> Option<Reason> {
    let run = runs.iter().find(|run| run.fence == job.state.fence)?;
    let worker = takers.remote.iter().find(|worker| worker.name == run.worker && !worker.names_runs)?;
    let limit = job.policy.timeout_ms;
    let limit = if limit == JobPolicy::TIMEOUT_DEFAULT_MS { UNNAMED_MAX_MS } else { limit };
    let until = run.claimed_at.plus_millis(i64::try_from(limit).unwrap_or(i64::MAX));
    Some(Reason {
        code: "unnamed",
        sentence: format!(
            "worker {} names no runs in its heartbeats, so the hand-out may have been lost; the attempt ends at {until} at the latest",
            worker.name
        ),
        data: json!({"worker_id": worker.name, "run_id": run.id, "until": until}),
    })
}

/// Loads what [`explain`] needs about remote workers.
pub async fn takers(
    ledger: &dyn bowline_store::Ledger,
    tenant: TenantId,
    builtin: bool,
    builtin_free: u32,
) -> StoreResult<Takers> {
    Ok(Takers { builtin, builtin_free, remote: ledger.list_workers(tenant).await? })
}
