//! Events: facts in the past tense, append-only.
//!
//! Every change of a job or run is told by exactly one event, and the state is the fold of them (see [`crate::fold`]).
//! The names are stable: they are in ledgers, streams and other people's programs.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::ErrorClass;
use crate::id::{EventId, JobId, RunId, TenantId};
use crate::name::{HostName, WorkerName};
use crate::run::RunStatus;
use crate::time::Timestamp;

/// How loud an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Debug,
    Info,
    Warning,
    Error,
}

impl FromStr for Severity {
    type Err = NotAnEventWord;

    fn from_str(text: &str) -> Result<Self, NotAnEventWord> {
        match text {
            "debug" => Ok(Self::Debug),
            "info" => Ok(Self::Info),
            "warning" => Ok(Self::Warning),
            "error" => Ok(Self::Error),
            _ => Err(NotAnEventWord("severity; the severities are debug, info, warning, error")),
        }
    }
}

/// Why a text is not a word of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown {0}")]
pub struct NotAnEventWord(&'static str);

macro_rules! kinds {
    (@list $first:literal $($text:literal)*) => { concat!($first $(, ", ", $text)*) };
    ($($kind:ident $text:literal $severity:ident $message:literal,)*) => {
        /// What sort of fact it is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum EventKind {
            $(#[serde(rename = $text)] $kind,)*
        }

        impl EventKind {
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$kind => $text,)* }
            }

            pub const fn severity(self) -> Severity {
                match self { $(Self::$kind => Severity::$severity,)* }
            }

            /// The fact as a short sentence for people.
            pub const fn message(self) -> &'static str {
                match self { $(Self::$kind => $message,)* }
            }
        }

        impl FromStr for EventKind {
            type Err = NotAnEventWord;

            fn from_str(text: &str) -> Result<Self, NotAnEventWord> {
                match text {
                    $($text => Ok(Self::$kind),)*
                    _ => Err(NotAnEventWord(concat!("event type; the types are ", kinds!(@list $($text)*)))),
                }
            }
        }
    };
}

kinds! {
    JobEnqueued "job_enqueued" Info "Job queued",
    JobScheduled "job_scheduled" Info "Job scheduled for later",
    JobDue "job_due" Debug "Job is due and was queued",
    JobStarted "job_started" Info "Job handed to a worker",
    RunAccepted "run_accepted" Debug "Worker confirmed the run",
    RunProgressed "run_progressed" Debug "Worker reported progress",
    RunFailed "run_failed" Warning "Attempt failed, another one follows",
    RunLost "run_lost" Warning "Worker went silent, another attempt follows",
    RunRefused "run_refused" Warning "Executor was busy and began nothing, the run is offered again",
    RunReturned "run_returned" Warning "Worker never confirmed the run, it went back to the queue",
    RunCorrected "run_corrected" Warning "A worker we had given up reported how its attempt ended",
    JobSucceeded "job_succeeded" Info "Job succeeded",
    JobFailed "job_failed" Error "Job failed",
    JobDeadLettered "job_deadlettered" Error "Job moved to the dead letters",
    JobErrored "job_errored" Error "Job ended because its worker was lost",
    JobCancelRequested "job_cancel_requested" Info "Cancellation requested",
    JobCanceled "job_canceled" Info "Job canceled",
    JobCorrected "job_corrected" Warning "Job took the outcome a worker reported late",
    JobRetried "job_retried" Info "Job queued again by a person",
    HostAwaited "host_awaited" Info "Waits for its host, where somebody else is",
    HostGranted "host_granted" Debug "Host is free, run queued",
    UnitBlocked "unit_blocked" Warning "Forbidden on its host, not run",
    UnitSuperseded "unit_superseded" Warning "What was approved for this host has changed, not run",
    UnitTimedOut "unit_timed_out" Error "Run took longer than it may, no other attempt follows",
    UnitUnreachable "unit_unreachable" Error "Host could not be reached, no other attempt follows",
    JobOpened "job_opened" Info "Job began on its hosts",
    JobAwaitsApproval "job_awaits_approval" Info "Job waits for approval",
    JobApproved "job_approved" Info "Job approved",
    JobApprovalNoted "job_approval_noted" Info "One of several approvals given",
    JobRejected "job_rejected" Warning "Job rejected",
    JobSuperseded "job_superseded" Warning "What was to be approved has changed, job canceled",
    JobApprovalExpired "job_approval_expired" Warning "Nobody decided in time, job canceled",
    ApprovalSuperseded "approval_superseded" Warning "What was approved has changed, nothing more of it starts",
    JobDeadlinePassed "job_deadline_passed" Warning "Job did not end before its deadline, its runs are stopped",
    JobStopped "job_stopped" Warning "Too many hosts failed, no more are begun",
    FlowOpened "workflow_started" Info "Workflow began",
    FlowPaused "workflow_paused" Info "Workflow waits",
    FlowAwaits "workflow_awaits" Info "A branch of the workflow waits while others continue",
    FlowResumed "workflow_resumed" Debug "Workflow goes on",
    FlowWoken "workflow_woken" Debug "A moment that the workflow waited for has come",
    FlowSteered "workflow_steered" Info "Somebody steered the workflow",
    FlowLogged "workflow_logged" Info "A node of the workflow logged something",
    HostsPlanned "hosts_planned" Debug "More hosts of the job were begun",
    HostBlocked "host_blocked" Info "Commands were forbidden on hosts",
    HostUnblocked "host_unblocked" Info "Commands were allowed on hosts again",
    HostReleased "host_released" Info "A host that was kept for a missing run was released",
    JobReplayed "job_replayed" Info "Dead letter replayed as a new job",
    DeadLetterPurged "dead_letter_purged" Info "Dead letter purged",
    UnknownRunsFound "unknown_runs_found" Warning "An agent executed runs of jobs that the ledger does not have",
    ClockHeld "clock_held" Error "The clock is far from the last known time, expiry and retention wait",
    ClockAccepted "clock_accepted" Warning "The clock is believed again",
    ServerStarted "server_started" Info "Server started",
    AgentEnrolled "agent_enrolled" Info "An agent joined",
    AgentRenewed "agent_renewed" Info "An agent's credential was renewed",
    AgentSealingKeySet "agent_sealing_key_set" Info "An agent has shown the key to which its secrets are sealed",
    AgentSealingKeyChanged "agent_sealing_key_changed" Warning "Secrets of an agent are sealed to another key from now on",
    AgentRemoved "agent_removed" Warning "An agent was removed, its credential ended",
    WorkerRegistered "worker_registered" Info "Worker registered",
    InventoryChanged "inventory_changed" Info "Hosts or groups of an inventory changed",
    ResourceStored "resource_stored" Info "A new version of a resource was stored",
    ResourceActivated "resource_activated" Info "A version of a resource became the active one",
    ResourceDeleted "resource_deleted" Info "A resource was deleted",
    ScheduleMissed "schedule_missed" Warning "Instants of a schedule were missed and got no job",
    SchedulePassedOver "schedule_passed_over" Info "Instants of a schedule got no job, its last one is not over",
    ScheduleRefused "schedule_refused" Error "A schedule could not start anything",
    TriggerRefused "trigger_refused" Error "A message could not start anything",
    EvaluationSetAside "evaluation_set_aside" Error "An evaluation ended the server twice and is set aside",
    EvaluationResumed "evaluation_resumed" Info "An evaluation that was set aside goes on",
    TokenCreated "token_created" Info "Token created",
    TokenRevoked "token_revoked" Info "Token revoked",
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an event says beyond its kind. Every field is there only where it means something.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EventData {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerName>,
    /// The run was confirmed with the hand-out itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
    /// How the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ErrorClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the job is due: its `run_at`, or the end of its backoff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The job made of a dead letter, or the dead letter's job on the new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The last number the executor gave to an event of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seq: Option<u64>,
    /// What the executor itself had to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
    /// The host it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostName>,
    /// How many hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// The job is a run of a workflow, and this many of its steps are over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// The node of a workflow that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Others may be on the host meanwhile.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// When it happened by the executor's own clock. Nothing is decided by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told_at: Option<Timestamp>,
}

/// JSON as an executor gave it, to the last digit. Two are equal when they differ in nothing but spaces.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Detail(Box<RawValue>);

impl Detail {
    /// The JSON text as it is kept.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl FromStr for Detail {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.to_owned()).map(Self)
    }
}

impl PartialEq for Detail {
    fn eq(&self, other: &Self) -> bool {
        without_spaces(self.0.get()).eq(without_spaces(other.0.get()))
    }
}

/// The bytes of a JSON text that mean something.
fn without_spaces(text: &str) -> impl Iterator<Item = u8> {
    let (mut quoted, mut escaped) = (false, false);
    text.bytes().filter(move |byte| {
        if !quoted {
            quoted = *byte == b'"';
            return !byte.is_ascii_whitespace();
        }
        quoted = escaped || *byte != b'"';
        escaped = !escaped && *byte == b'\\';
        true
    })
}

impl JsonSchema for Detail {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        serde_json::Value::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        serde_json::Value::json_schema(generator)
    }

    fn inline_schema() -> bool {
        serde_json::Value::inline_schema()
    }
}

impl EventData {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A fact, as readers get it.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: EventId,
    pub at: Timestamp,
    pub tenant: TenantId,
    pub kind: EventKind,
    pub job: Option<JobId>,
    /// Which host of the job, where it has several.
    pub host: Option<HostName>,
    /// Which hand-out of the job it is about.
    pub fence: Option<u32>,
    /// The executor's own number, where the executor said it.
    pub seq: Option<u64>,
    pub data: EventData,
    pub trace_id: Option<String>,
    pub correlation_id: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back_its_own_name() {
        for kind in EventKind::ALL {
            assert_eq!(kind.as_str().parse::<EventKind>(), Ok(*kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }

    #[test]
    fn details_are_equal_but_for_spaces() {
        let detail = |text: &str| text.parse::<Detail>().expect("JSON");
        assert_eq!(detail(r#"{"a": [1, "x y\" z"]}"#), detail("{\"a\":[1,\n\"x y\\\" z\"]}"));
        for (one, other) in [("1.0", "1.00"), ("12345678901234567890", "12345678901234567891"), (r#""a b""#, r#""ab""#)]
        {
            assert_ne!(detail(one), detail(other));
        }
    }

    #[test]
    fn a_quote_inside_a_text_does_not_end_it_and_an_escaped_backslash_before_a_quote_does() {
        let detail = |text: &str| text.parse::<Detail>().expect("JSON");
        assert_ne!(detail(r#"["a\" b"]"#), detail(r#"["a\"b"]"#));
        assert_eq!(detail(r#"["a\\", "b c"]"#), detail(r#"["a\\","b c"]"#));
        assert_ne!(detail(r#"["a\\", "b c"]"#), detail(r#"["a\\", "bc"]"#));
    }

    #[test]
    fn a_detail_is_any_json_to_a_reader_of_schemas() {
        let (details, values) = (schemars::schema_for!(Vec<Detail>), schemars::schema_for!(Vec<serde_json::Value>));
        assert_eq!(details, values);
    }

    #[test]
    fn a_detail_is_kept_to_the_letter() {
        let text = "{ \"price\": 1.50 }";
        assert_eq!(text.parse::<Detail>().expect("JSON").as_str(), text);
        assert!("{".parse::<Detail>().is_err());
    }

    #[test]
    fn data_that_say_something_are_not_empty() {
        assert!(EventData::default().is_empty());
        assert!(!EventData { steps: Some(0), ..EventData::default() }.is_empty());
    }

    #[test]
    fn the_names_are_stable() {
        let list: String =
            EventKind::ALL.iter().map(|k| format!("{k} ({:?}): {}\n", k.severity(), k.message())).collect();
        insta::assert_snapshot!(list);
    }
}
