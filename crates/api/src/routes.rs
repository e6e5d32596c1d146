//! The table of routes: every path, what it requires, what it takes and gives. The router, the OpenAPI document and the
//! test that walks every route with bad credentials are all made from this one list.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post, put};
use bowline_auth::{Audience, Scope};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::app::App;
use crate::door::{self, Plate};
use crate::{
    agents, audit, bounds, clock, commands, dlq, events, flows, health, hosts, inventories, jobs, lanes, openapi,
    output, resources, schedules, secrets, tenants, tokens, triggers, whoami, workers,
};

/// What a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody. A short list on purpose.
    Open,
    /// Everybody we know, whatever they may do.
    Known,
    Needs {
        scope: Scope,
        audience: Audience,
    },
}

const fn exec(scope: Scope) -> Access {
    Access::Needs { scope, audience: Audience::Exec }
}

const fn control(scope: Scope) -> Access {
    Access::Needs { scope, audience: Audience::Control }
}

type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// One route.
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub operation: &'static str,
    pub summary: &'static str,
    pub access: Access,
    pub takes: Option<MakeSchema>,
    pub query: Option<MakeSchema>,
    pub gives: Option<MakeSchema>,
    pub status: u16,
    /// Another status that says it went well.
    pub or_status: Option<u16>,
    /// Takes a file as it is, instead of JSON.
    pub takes_file: bool,
    /// Gives a file as it is, instead of JSON.
    pub gives_file: bool,
    handler: MethodRouter<App>,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl Route {
    fn new(
        method: &'static str,
        path: &'static str,
        operation: &'static str,
        summary: &'static str,
        access: Access,
        handler: MethodRouter<App>,
    ) -> Self {
        Self {
            method,
            path,
            operation,
            summary,
            access,
            takes: None,
            query: None,
            gives: None,
            status: 200,
            or_status: None,
            takes_file: false,
            gives_file: false,
            handler,
        }
    }

    fn takes_file(mut self) -> Self {
        self.takes_file = true;
        self
    }

    fn gives_file(mut self) -> Self {
        self.gives_file = true;
        self
    }

    fn or_gives(mut self, status: u16) -> Self {
        self.or_status = Some(status);
        self
    }

    fn takes<T: JsonSchema>(mut self) -> Self {
        self.takes = Some(schema_of::<T>);
        self
    }

    fn asks<T: JsonSchema>(mut self) -> Self {
        self.query = Some(schema_of::<T>);
        self
    }

    fn gives<T: JsonSchema>(mut self, status: u16) -> Self {
        self.gives = Some(schema_of::<T>);
        self.status = status;
        self
    }
}

/// Every route there is.
pub fn table() -> Vec<Route> {
    [work(), flow_routes(), command_routes(), fleet(), configuration(), schedule_routes(), trigger_routes(), house()]
        .into_iter()
        .flatten()
        .collect()
}

/// Jobs, what happens to them, and who does them.
fn work() -> Vec<Route> {
    use Scope as S;
    vec![
        Route::new("POST", "/jobs", "submitJob", "Ask for a job", exec(S::JobsWrite), post(jobs::submit))
            .takes::<jobs::SubmitRequest>()
            .gives::<jobs::SubmitAnswer>(202),
        Route::new(
            "POST",
            "/jobs/batch",
            "submitJobs",
            "Ask for up to 1,000 jobs, each answered by itself",
            exec(S::JobsWrite),
            post(jobs::submit_batch),
        )
        .takes::<jobs::BatchRequest>()
        .gives::<jobs::BatchAnswer>(202),
        Route::new("GET", "/jobs", "listJobs", "List jobs, newest first", exec(S::JobsRead), get(jobs::list))
            .asks::<jobs::ListQuery>()
            .gives::<jobs::JobPage>(200),
        Route::new("GET", "/jobs/{id}", "getJob", "A job and its runs", exec(S::JobsRead), get(jobs::get))
            .gives::<jobs::JobAnswer>(200),
        Route::new(
            "POST",
            "/jobs/{id}/cancel",
            "cancelJob",
            "Stop a job: at once if it waits, as soon as its worker confirms if it runs",
            exec(S::JobsWrite),
            post(jobs::cancel),
        )
        .takes::<jobs::OrderRequest>()
        .gives::<jobs::OrderView>(200),
        Route::new(
            "POST",
            "/jobs/{id}/retry",
            "retryJob",
            "Queue a job that ended badly again, with a fresh budget",
            exec(S::JobsWrite),
            post(jobs::retry),
        )
        .takes::<jobs::RetryRequest>()
        .gives::<jobs::OrderView>(200),
        Route::new(
            "GET",
            "/jobs/{id}/events",
            "listJobEvents",
            "What happened to a job, oldest first",
            exec(S::JobsRead),
            get(jobs::events),
        )
        .asks::<jobs::EventsQuery>()
        .gives::<events::EventList>(200),
        Route::new(
            "GET",
            "/jobs/{id}/why",
            "explainJob",
            "What a job is waiting for, as a sentence and as data",
            exec(S::JobsRead),
            get(jobs::why),
        )
        .gives::<jobs::WhyView>(200),
        Route::new("GET", "/lanes", "listLanes", "What waits where", exec(S::ControlRead), get(lanes::list))
            .gives::<lanes::LaneList>(200),
        Route::new(
            "GET",
            "/dlq/{lane}",
            "listDeadLetters",
            "Dead letters of a lane, newest first",
            control(S::DlqRead),
            get(dlq::list),
        )
        .asks::<dlq::ListQuery>()
        .gives::<dlq::DeadLetterPage>(200),
        Route::new(
            "POST",
            "/dlq/{lane}/replay",
            "replayDeadLetters",
            "Make one new job of each chosen dead letter",
            control(S::DlqWrite),
            post(dlq::replay),
        )
        .takes::<dlq::CloseRequest>()
        .gives::<dlq::CloseAnswer>(200),
        Route::new(
            "POST",
            "/dlq/{lane}/purge",
            "purgeDeadLetters",
            "Close each chosen dead letter for good",
            control(S::DlqWrite),
            post(dlq::purge),
        )
        .takes::<dlq::CloseRequest>()
        .gives::<dlq::CloseAnswer>(200),
        Route::new(
            "GET",
            "/events",
            "listEvents",
            "Events in the ledger's order, or newest first",
            exec(S::EventsRead),
            get(events::list),
        )
        .asks::<events::ListQuery>()
        .gives::<events::EventList>(200),
        Route::new(
            "GET",
            "/events/stream",
            "streamEvents",
            "Events as they happen (server-sent events; resume with Last-Event-ID)",
            exec(S::EventsRead),
            get(events::stream),
        )
        .asks::<events::StreamQuery>(),
        Route::new(
            "GET",
            "/events/socket",
            "openEventSocket",
            "Events as they happen (WebSocket; resume with last_event_id)",
            exec(S::EventsRead),
            get(events::socket),
        )
        .asks::<events::StreamQuery>(),
        Route::new(
            "POST",
            "/agents/enroll",
            "enrollAgent",
            "An agent joins with a join token and a key of its own",
            Access::Known,
            post(agents::enroll),
        )
        .takes::<bowline_protocol::EnrollRequest>()
        .gives::<bowline_protocol::EnrollAnswer>(201),
        Route::new(
            "POST",
            "/agents/renew",
            "renewAgent",
            "Renew an agent's credential with the key it enrolled with",
            exec(S::WorkersRun),
            post(agents::renew),
        )
        .takes::<bowline_protocol::RenewRequest>()
        .gives::<bowline_protocol::RenewAnswer>(200),
        Route::new("GET", "/agents", "listAgents", "List agents by name", exec(S::ControlRead), get(agents::list))
            .asks::<agents::ListQuery>()
            .gives::<agents::AgentPage>(200),
        Route::new(
            "GET",
            "/agents/{name}",
            "getAgent",
            "Show an agent: what it was admitted as, by whom, and when it was last seen",
            exec(S::ControlRead),
            get(agents::get),
        )
        .gives::<agents::AgentView>(200),
        Route::new(
            "DELETE",
            "/agents/{name}",
            "removeAgent",
            "Remove an agent: its credential ends, its runs are lost, its name is free",
            control(S::ControlWrite),
            delete(agents::remove),
        )
        .asks::<agents::RemoveQuery>()
        .takes::<agents::RemoveRequest>()
        .gives::<agents::RemovedView>(200),
        Route::new(
            "POST",
            "/workers/register",
            "registerWorker",
            "A worker says who it is and what it takes",
            exec(S::WorkersRun),
            post(workers::register),
        )
        .takes::<bowline_protocol::RegisterRequest>()
        .gives::<bowline_protocol::RegisterAnswer>(200),
        Route::new(
            "GET",
            "/workers/{id}/tasks",
            "takeTasks",
            "A worker waits for tasks (long poll)",
            exec(S::WorkersRun),
            get(workers::tasks),
        )
        .asks::<bowline_protocol::TasksQuery>()
        .gives::<Vec<bowline_protocol::Task>>(200),
        Route::new(
            "POST",
            "/workers/{id}/heartbeat",
            "beat",
            "A worker renews its leases and hears what to stop",
            exec(S::WorkersRun),
            post(workers::heartbeat),
        )
        .takes::<bowline_protocol::HeartbeatRequest>()
        .gives::<bowline_protocol::HeartbeatAnswer>(200),
        Route::new(
            "POST",
            "/workers/{id}/events",
            "shipEvents",
            "An agent brings the news of many runs at once, and how some of them ended",
            exec(S::WorkersRun),
            post(workers::ship),
        )
        .takes::<bowline_protocol::ShipRequest>()
        .gives::<bowline_protocol::ShipAnswer>(200),
        Route::new(
            "POST",
            "/workers/{id}/evidence",
            "offerEvidence",
            "An agent offers what it executed, in case the ledger has forgotten it",
            exec(S::WorkersRun),
            post(workers::offer),
        )
        .takes::<bowline_protocol::EvidenceRequest>()
        .gives::<bowline_protocol::EvidenceAnswer>(200),
        Route::new(
            "GET",
            "/evidence/unknown-runs",
            "listUnknownRuns",
            "List runs that agents executed, of jobs that the ledger does not have",
            exec(S::FleetRead),
            get(workers::list_unknown_runs),
        )
        .asks::<workers::UnknownRunQuery>()
        .gives::<workers::UnknownRunPage>(200),
        Route::new(
            "POST",
            "/runs/{id}/events",
            "tellEvents",
            "A worker tells what happened in its run",
            exec(S::WorkersRun),
            post(workers::tell),
        )
        .takes::<bowline_protocol::EventsRequest>()
        .gives::<bowline_protocol::EventsAck>(200),
        Route::new(
            "PUT",
            "/runs/{id}/output/{stream}",
            "bringOutput",
            "An agent brings a range of a run's output",
            exec(S::WorkersRun),
            put(output::bring),
        )
        .asks::<output::BringQuery>()
        .gives::<output::BroughtView>(200),
        Route::new(
            "POST",
            "/tasks/result",
            "reportResult",
            "A worker tells how its run ended",
            exec(S::WorkersRun),
            post(workers::result),
        )
        .takes::<bowline_protocol::ResultRequest>()
        .gives::<bowline_protocol::ResultAnswer>(200),
        Route::new(
            "GET",
            "/workers",
            "listWorkers",
            "Workers and when they were seen",
            exec(S::ControlRead),
            get(workers::list),
        )
        .gives::<workers::WorkerList>(200),
        Route::new(
            "POST",
            "/workers/{id}/drain",
            "drainWorker",
            "Ask a worker to take no more tasks, or to go on",
            control(S::ControlWrite),
            post(workers::drain),
        )
        .takes::<workers::DrainRequest>()
        .gives::<workers::DrainAnswer>(200),
    ]
}

/// What is started again and again.
fn schedule_routes() -> Vec<Route> {
    use Scope as S;
    vec![
        Route::new(
            "GET",
            "/schedules",
            "listSchedules",
            "Schedules by name: when each fires next, and what came of the last time",
            exec(S::JobsRead),
            get(schedules::list),
        )
        .asks::<schedules::ListQuery>()
        .gives::<schedules::SchedulePage>(200),
        Route::new(
            "POST",
            "/schedules/preview",
            "previewSchedule",
            "When a pattern would fire",
            exec(S::JobsRead),
            post(schedules::preview),
        )
        .takes::<schedules::PreviewRequest>()
        .gives::<schedules::PreviewAnswer>(200),
        Route::new(
            "GET",
            "/schedules/{name}",
            "getSchedule",
            "A schedule, what it says and what came of it",
            exec(S::JobsRead),
            get(schedules::get),
        )
        .asks::<schedules::GetQuery>()
        .gives::<schedules::ScheduleAnswer>(200),
        Route::new(
            "POST",
            "/schedules/{name}/trigger",
            "triggerSchedule",
            "Start what a schedule starts, now",
            exec(S::JobsWrite),
            post(schedules::trigger),
        )
        .takes::<schedules::TriggerRequest>()
        .gives::<jobs::SubmitAnswer>(202),
    ]
}

/// What messages start.
fn trigger_routes() -> Vec<Route> {
    use Scope as S;
    vec![
        Route::new(
            "GET",
            "/triggers",
            "listTriggers",
            "Triggers by name: whether their queues are read, and what came of it",
            exec(S::JobsRead),
            get(triggers::list),
        )
        .asks::<triggers::ListQuery>()
        .gives::<triggers::TriggerPage>(200),
        Route::new(
            "GET",
            "/triggers/{name}",
            "getTrigger",
            "A trigger, what it says and how it stands on this server",
            exec(S::JobsRead),
            get(triggers::get),
        )
        .gives::<triggers::TriggerAnswer>(200),
    ]
}

/// Commands on hosts.
fn command_routes() -> Vec<Route> {
    use Scope as S;
    vec![
        Route::new(
            "GET",
            "/jobs/{id}/hosts",
            "listJobHosts",
            "A command host by host",
            exec(S::JobsRead),
            get(commands::hosts),
        )
        .asks::<commands::HostsQuery>()
        .gives::<commands::UnitPage>(200),
        Route::new(
            "GET",
            "/jobs/{id}/hosts/{host}",
            "getJobHost",
            "One host of a command, with every attempt",
            exec(S::JobsRead),
            get(commands::host),
        )
        .gives::<commands::UnitAnswer>(200),
        Route::new(
            "GET",
            "/jobs/{id}/result",
            "getJobResult",
            "The result of a job, however large it is",
            exec(S::JobsRead),
            get(jobs::result),
        ),
        Route::new(
            "GET",
            "/jobs/{id}/output",
            "readOutput",
            "What a run printed, from any place, also while it grows",
            exec(S::JobsRead),
            get(output::read),
        )
        .asks::<output::OutputQuery>(),
        Route::new(
            "GET",
            "/jobs/{id}/executions",
            "listExecutions",
            "A command host by host, in the words NEW, QUEUED, RUNNING, SUCCESS, FAILED, TIMEOUT, UNREACHABLE, BLOCKED, CANCELLED",
            exec(S::JobsRead),
            get(commands::executions),
        )
        .asks::<commands::HostsQuery>()
        .gives::<commands::ExecutionPage>(200),
        Route::new(
            "POST",
            "/jobs/{id}/approve",
            "approveJob",
            "Say yes to a job that waits for approval",
            control(S::ApprovalsWrite),
            post(commands::approve),
        )
        .takes::<commands::DecideRequest>()
        .gives::<commands::DecidedView>(200),
        Route::new(
            "POST",
            "/jobs/{id}/reject",
            "rejectJob",
            "Say no to a job that waits for approval",
            control(S::ApprovalsWrite),
            post(commands::reject),
        )
        .takes::<commands::DecideRequest>()
        .gives::<commands::DecidedView>(200),
        Route::new(
            "GET",
            "/approvals",
            "listApprovals",
            "Jobs that wait for approval, oldest first",
            exec(S::JobsRead),
            get(commands::approvals),
        )
        .asks::<commands::ApprovalsQuery>()
        .gives::<commands::ApprovalPage>(200),
        Route::new(
            "POST",
            "/webhook/jobs",
            "webhookJob",
            "Ask for a command, once for each external_id",
            exec(S::JobsWrite),
            post(commands::webhook),
        )
        .takes::<commands::WebhookRequest>()
        .gives::<commands::WebhookAnswer>(202),
        Route::new(
            "GET",
            "/webhook/jobs/{id}",
            "getWebhookJob",
            "How a command stands, in the sender's words",
            exec(S::JobsRead),
            get(commands::webhook_job),
        )
        .gives::<commands::WebhookView>(200),
        Route::new(
            "GET",
            "/hosts/{name}/queue",
            "hostQueue",
            "Who is at a host, and who waits for it",
            exec(S::FleetRead),
            get(commands::queue),
        )
        .asks::<hosts::InventoryQuery>()
        .gives::<commands::QueueView>(200),
        Route::new(
            "POST",
            "/hosts/{name}/release",
            "releaseHost",
            "Keep a host no longer for runs that went missing there",
            control(S::FleetWrite),
            post(commands::release),
        )
        .takes::<commands::ReleaseRequest>()
        .gives::<commands::ReleasedView>(200),
        Route::new(
            "GET",
            "/quotas",
            "getQuotas",
            "What this tenant uses, and what it may",
            exec(S::JobsRead),
            get(bounds::quotas),
        )
        .gives::<bounds::QuotasView>(200),
        Route::new(
            "GET",
            "/evaluations",
            "listSetAside",
            "List evaluations that ended the server twice and are set aside",
            exec(S::ResourcesRead),
            get(bounds::evaluations),
        )
        .gives::<bounds::EvaluationList>(200),
        Route::new(
            "POST",
            "/evaluations/resume",
            "resumeEvaluation",
            "Let an evaluation that was set aside go on",
            control(S::ResourcesWrite),
            post(bounds::resume),
        )
        .takes::<bounds::ResumeRequest>()
        .gives::<bounds::ResumedView>(200),
        Route::new(
            "POST",
            "/blocks",
            "blockHosts",
            "Forbid commands on hosts; counts for runs that are about to start",
            control(S::FleetWrite),
            post(commands::block),
        )
        .takes::<commands::BlockRequest>()
        .gives::<commands::BlockView>(201),
        Route::new(
            "GET",
            "/blocks",
            "listBlocks",
            "Where commands are forbidden",
            exec(S::FleetRead),
            get(commands::blocks),
        )
        .asks::<commands::BlocksQuery>()
        .gives::<commands::BlockList>(200),
        Route::new(
            "POST",
            "/blocks/{id}/lift",
            "unblockHosts",
            "Allow commands again",
            control(S::FleetWrite),
            post(commands::unblock),
        )
        .takes::<commands::UnblockRequest>()
        .gives::<commands::UnblockedView>(200),
    ]
}

/// Hosts and the inventories that hold them.
fn fleet() -> Vec<Route> {
    use Scope as S;
    vec![
        Route::new(
            "GET",
            "/inventories",
            "listInventories",
            "Inventories, without what is in them",
            exec(S::FleetRead),
            get(inventories::list),
        )
        .gives::<inventories::InventoryList>(200),
        Route::new(
            "GET",
            "/inventories/{name}",
            "getInventory",
            "An inventory and its groups",
            exec(S::FleetRead),
            get(inventories::get),
        )
        .gives::<inventories::InventoryAnswer>(200),
        Route::new(
            "PUT",
            "/inventories/{name}",
            "putInventory",
            "Make a description of hosts and groups true, all of it or nothing",
            control(S::FleetWrite),
            put(inventories::put),
        )
        .asks::<inventories::PutQuery>()
        .takes::<inventories::PutRequest>()
        .gives::<inventories::PutView>(200),
        Route::new(
            "POST",
            "/inventories/{name}/import",
            "importInventory",
            "Make a file true: yaml, json, csv, or one of Ansible's formats",
            control(S::FleetWrite),
            post(inventories::import),
        )
        .asks::<inventories::ImportQuery>()
        .takes_file()
        .gives::<inventories::PutView>(200),
        Route::new(
            "GET",
            "/inventories/{name}/export",
            "exportInventory",
            "An inventory as a file, in any format that can be imported",
            exec(S::FleetRead),
            get(inventories::export),
        )
        .asks::<inventories::ExportQuery>()
        .gives_file(),
        Route::new(
            "POST",
            "/inventories/{name}/select",
            "selectHosts",
            "Which hosts a selector means",
            exec(S::FleetRead),
            post(inventories::select),
        )
        .takes::<inventories::SelectRequest>()
        .gives::<inventories::SelectAnswer>(200),
        Route::new(
            "GET",
            "/hosts",
            "listHosts",
            "Hosts by name, all of them or those a selector means",
            exec(S::FleetRead),
            get(hosts::list),
        )
        .asks::<hosts::ListQuery>()
        .gives::<hosts::HostPage>(200),
        Route::new(
            "GET",
            "/hosts/{name}",
            "getHost",
            "A host, with what it has through its groups",
            exec(S::FleetRead),
            get(hosts::get),
        )
        .asks::<hosts::InventoryQuery>()
        .gives::<hosts::HostAnswer>(200),
        Route::new(
            "PUT",
            "/hosts/{name}",
            "putHost",
            "Make a host, or make it what is said here",
            control(S::FleetWrite),
            put(hosts::put),
        )
        .asks::<hosts::InventoryQuery>()
        .takes::<hosts::PutRequest>()
        .gives::<hosts::PutAnswer>(200)
        .or_gives(201),
        Route::new(
            "DELETE",
            "/hosts/{name}",
            "removeHost",
            "Take a host out of its inventory",
            control(S::FleetWrite),
            delete(hosts::remove),
        )
        .asks::<hosts::InventoryQuery>()
        .gives::<hosts::RemovedView>(200),
    ]
}

/// Resources: what people configure, version by version.
fn configuration() -> Vec<Route> {
    use Scope as S;
    vec![
        Route::new(
            "POST",
            "/apply",
            "applyDocuments",
            "Store several documents at once, all or nothing; needs resources.write, and fleet.write for inventories",
            control(S::ResourcesRead),
            post(resources::apply),
        )
        .takes::<resources::ApplyRequest>()
        .gives::<resources::AppliedView>(200),
        Route::new(
            "POST",
            "/secrets/{name}/check",
            "checkSecret",
            "Whether the value of a secret can be had now; it is not shown",
            control(S::ResourcesRead),
            post(secrets::check),
        )
        .gives::<secrets::CheckView>(200),
        Route::new(
            "GET",
            "/resources/kinds",
            "listKinds",
            "The kinds of resources, each with its JSON Schema",
            exec(S::ResourcesRead),
            get(resources::kinds),
        )
        .gives::<resources::KindList>(200),
        Route::new(
            "GET",
            "/resources/{kind}",
            "listResources",
            "Resources of a kind by name",
            exec(S::ResourcesRead),
            get(resources::list),
        )
        .asks::<resources::ListQuery>()
        .gives::<resources::ResourcePage>(200),
        Route::new(
            "POST",
            "/resources/{kind}/validate",
            "validateSpec",
            "Whether a spec could be stored; nothing is",
            exec(S::ResourcesRead),
            post(resources::validate),
        )
        .takes::<resources::PutRequest>()
        .gives::<resources::ValidView>(200),
        Route::new(
            "GET",
            "/resources/{kind}/{name}",
            "getResource",
            "A resource, in the version that counts or in another",
            exec(S::ResourcesRead),
            get(resources::get),
        )
        .asks::<resources::GetQuery>()
        .gives::<resources::ResourceAnswer>(200),
        Route::new(
            "PUT",
            "/resources/{kind}/{name}",
            "putResource",
            "Store a version, unless the latest says the same",
            control(S::ResourcesWrite),
            put(resources::put),
        )
        .takes::<resources::PutRequest>()
        .gives::<resources::StoredView>(200)
        .or_gives(201),
        Route::new(
            "DELETE",
            "/resources/{kind}/{name}",
            "deleteResource",
            "Delete a resource with all its versions, unless something needs it",
            control(S::ResourcesWrite),
            delete(resources::delete),
        )
        .asks::<resources::DeleteQuery>()
        .takes::<resources::DeleteRequest>()
        .gives::<resources::DeletedView>(200),
        Route::new(
            "POST",
            "/resources/{kind}/{name}/validate",
            "validateResource",
            "Whether a version could be stored, and what that would do; nothing is",
            exec(S::ResourcesRead),
            post(resources::validate_named),
        )
        .takes::<resources::PutRequest>()
        .gives::<resources::ValidView>(200),
        Route::new(
            "GET",
            "/resources/{kind}/{name}/versions",
            "listVersions",
            "The versions of a resource, newest first",
            exec(S::ResourcesRead),
            get(resources::versions),
        )
        .asks::<resources::VersionsQuery>()
        .gives::<resources::VersionPage>(200),
        Route::new(
            "GET",
            "/resources/{kind}/{name}/diff",
            "diffVersions",
            "What changed from one version to another",
            exec(S::ResourcesRead),
            get(resources::diff),
        )
        .asks::<resources::DiffQuery>()
        .gives::<resources::DiffAnswer>(200),
        Route::new(
            "POST",
            "/resources/{kind}/{name}/activate",
            "activateVersion",
            "Let another version count",
            control(S::ResourcesWrite),
            post(resources::activate),
        )
        .takes::<resources::ActivateRequest>()
        .gives::<resources::ActivatedView>(200),
        Route::new(
            "POST",
            "/resources/{kind}/{name}/rollback",
            "rollBackResource",
            "Let the highest version below the active one count",
            control(S::ResourcesWrite),
            post(resources::rollback),
        )
        .takes::<resources::RollbackRequest>()
        .gives::<resources::ActivatedView>(200),
    ]
}

/// Runs of workflows.
fn flow_routes() -> Vec<Route> {
    use Scope as S;
    vec![
        Route::new(
            "GET",
            "/workflows/node-types",
            "listNodeTypes",
            "What a workflow can be made of, with JSON Schemas",
            exec(S::ResourcesRead),
            get(flows::node_types),
        )
        .gives::<flows::NodeTypeList>(200),
        Route::new(
            "GET",
            "/jobs/{id}/steps",
            "listSteps",
            "What a run of a workflow has done, step by step",
            exec(S::JobsRead),
            get(flows::steps),
        )
        .asks::<flows::StepsQuery>()
        .gives::<flows::StepList>(200),
        Route::new(
            "GET",
            "/jobs/{id}/context",
            "getContext",
            "What a run of a workflow knows, now or after any step",
            exec(S::JobsRead),
            get(flows::context),
        )
        .asks::<flows::ContextQuery>()
        .gives::<flows::ContextView>(200),
        Route::new(
            "GET",
            "/jobs/{id}/graph",
            "drawRun",
            "A run of a workflow as a picture (Mermaid or SVG), or what it is made of (JSON)",
            exec(S::JobsRead),
            get(flows::graph),
        )
        .asks::<flows::GraphQuery>(),
        Route::new(
            "POST",
            "/jobs/{id}/steer",
            "steerRun",
            "Stop a run of a workflow, let it take a step, change what it knows, let it go on",
            exec(S::JobsWrite),
            post(flows::steer),
        )
        .takes::<flows::SteerRequest>()
        .gives::<flows::SteeredView>(200),
        Route::new(
            "POST",
            "/jobs/{id}/fork",
            "forkRun",
            "A new run that goes on from a step of another",
            exec(S::JobsWrite),
            post(flows::fork),
        )
        .takes::<flows::ForkRequest>()
        .gives::<flows::ForkView>(202),
        Route::new(
            "POST",
            "/jobs/{id}/shadow",
            "shadowRun",
            "A run once more with the answers it got, and what would be different; nothing is carried out",
            exec(S::JobsRead),
            post(flows::shadow),
        )
        .takes::<flows::ShadowRequest>()
        .gives::<flows::ShadowView>(200),
        Route::new(
            "POST",
            "/jobs/{id}/signal",
            "tellRun",
            "Something happened, for one run; it remembers it until it waits for it",
            exec(S::JobsWrite),
            post(flows::tell),
        )
        .takes::<flows::TellRequest>()
        .gives::<flows::SignaledView>(200),
        Route::new(
            "POST",
            "/signals/{event}",
            "signalRuns",
            "Something happened, for every run that waits for it now",
            exec(S::JobsWrite),
            post(flows::signal),
        )
        .takes::<flows::SignalRequest>()
        .gives::<flows::SignaledView>(200),
    ]
}

/// Tokens, tenants, and what the server says about itself.
fn house() -> Vec<Route> {
    use Access::Open;
    use Scope as S;
    vec![
        Route::new(
            "POST",
            "/tokens",
            "createToken",
            "Make a token; it is shown once",
            control(S::TokensWrite),
            post(tokens::create),
        )
        .takes::<tokens::CreateRequest>()
        .gives::<tokens::CreatedView>(201),
        Route::new(
            "GET",
            "/tokens",
            "listTokens",
            "Tokens, without their secrets",
            control(S::TokensWrite),
            get(tokens::list),
        )
        .asks::<tokens::ListQuery>()
        .gives::<tokens::TokenList>(200),
        Route::new(
            "POST",
            "/tokens/{id}/revoke",
            "revokeToken",
            "Revoke a token, and the API tokens made with it",
            control(S::TokensWrite),
            post(tokens::revoke),
        )
        .asks::<tokens::RevokeQuery>()
        .gives::<tokens::RevokedView>(200),
        Route::new(
            "GET",
            "/audit",
            "listAudit",
            "What was done with authority, by whom and why",
            control(S::AuditRead),
            get(audit::list),
        )
        .asks::<audit::ListQuery>()
        .gives::<audit::AuditPage>(200),
        Route::new("POST", "/tenants", "createTenant", "Make a tenant", control(S::Admin), post(tenants::create))
            .takes::<tenants::CreateRequest>()
            .gives::<tenants::TenantView>(201),
        Route::new("GET", "/tenants", "listTenants", "Every tenant", control(S::Admin), get(tenants::list))
            .gives::<tenants::TenantList>(200),
        Route::new("GET", "/clock", "getClock", "The clock that decides", control(S::ControlRead), get(clock::show))
            .gives::<clock::ClockView>(200),
        Route::new(
            "POST",
            "/clock/accept",
            "acceptClock",
            "Believe a clock that is far from the ledger's last known time",
            control(S::Admin),
            post(clock::accept),
        )
        .takes::<clock::AcceptRequest>()
        .gives::<clock::AcceptedView>(200),
        Route::new("GET", "/whoami", "whoAmI", "Who the caller is and may do", Access::Known, get(whoami::show))
            .gives::<whoami::CallerView>(200),
        Route::new(
            "GET",
            "/metrics",
            "readMetrics",
            "Meters for Prometheus",
            control(S::MetricsRead),
            get(health::metrics),
        ),
        Route::new("GET", "/healthz", "isAlive", "Whether the process is alive", Open, get(health::alive))
            .gives::<health::HealthView>(200),
        Route::new("GET", "/readyz", "isReady", "Whether requests should be sent here", Open, get(health::ready))
            .gives::<health::HealthView>(200),
        Route::new("GET", "/health", "health", "Whether the parts are well", Open, get(health::health))
            .gives::<health::HealthView>(200),
        Route::new("GET", "/openapi.json", "openApi", "This document", Open, get(openapi::show)),
    ]
}

/// The paths of a server that has no public API.
const HEALTH: [&str; 4] = ["/healthz", "/readyz", "/health", "/metrics"];

/// The router, with the door before every route.
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    let health_only = app.settings.health_only;
    for route in table().into_iter().filter(|route| !health_only || HEALTH.contains(&route.path)) {
        let plate = Plate { path: route.path, method: route.method, access: route.access };
        let handler = route.handler.layer(from_fn_with_state((app.clone(), plate), door::pass));
        router = router.route(route.path, handler);
    }
    router.method_not_allowed_fallback(door::wrong_method).fallback(door::lost).with_state(app)
}
