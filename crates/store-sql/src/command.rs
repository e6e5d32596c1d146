//! What can be asked of the committer, each with the line on which its answer goes back.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bowline_model::audit::{Author, Deed};
use bowline_model::lease::LeaseTimes;
use bowline_model::{HostName, InventoryName, RunId, TenantId, Timestamp, WorkerName};
use bowline_store::{
    Activated, Activation, AgentRecord, Applied, Applying, ApprovalAnswer, ApprovalOrder, BeatAnswer, BlockAnswer,
    ClaimRules, Claimant, ClaimedRun, ClockAccepted, ClockStatus, Closed, Conducted, DeadLetterOrder, Deleted,
    Enrolled, Evidence, EvidenceTaken, Fired, Firing, FlowAnswer, FlowOrder, Heartbeat, InventoryPut, JobOrder,
    Listened, NewApproval, NewBlock, NewJob, NewOutput, NewSignal, Notice, Once, OnceKey, OrderAnswer, OutputAnswer,
    Promoted, PruneMark, Pruned, PutAnswer, Reaped, ReleaseOrder, RemoveAgent, RemovedAgent, ReportAnswer,
    ResourceOrder, ResourcePut, ResourceStored, Retention, RevokeToken, RevokedTokens, RunReport, SealingKeySet,
    Signaled, StoreError, StoreResult, Submitted, TellAnswer, Tenant, TokenRecord, ToldEvents, Trigger, Triggered,
    TurnAnswer, TurnOrder, WorkerRecord,
};
use tokio::sync::oneshot;

use crate::db::AnyDb;

/// A question for a connection that is not in a transaction.
pub type Look = Box<dyn for<'a> FnOnce(&'a mut AnyDb) -> Pin<Box<dyn Future<Output = ()> + 'a>> + Send>;

/// An agent's new credential.
#[derive(Debug)]
pub struct Renewal {
    pub tenant: TenantId,
    pub name: WorkerName,
    /// The id of the credential that it takes the place of.
    pub used: String,
    pub token: TokenRecord,
    pub overlap_ms: i64,
    pub by: Author,
}

macro_rules! commands {
    ($($name:ident($ask:ty) -> $answer:ty,)*) => {
        /// A wish, and where its answer goes.
        pub enum Command {
            $($name($ask, oneshot::Sender<StoreResult<$answer>>),)*
            Look(Look),
        }

        /// The answer to the wish of the same name.
        #[derive(Debug)]
        pub enum Answer {
            $($name($answer),)*
        }

        impl Command {
            /// Answers the wish; whoever asked may be gone by now.
            pub fn reply(self, answer: StoreResult<Answer>) {
                match (self, answer) {
                    $((Self::$name(_, line), Ok(Answer::$name(answer))) => drop(line.send(Ok(answer))),)*
                    $((Self::$name(_, line), Err(error)) => drop(line.send(Err(error))),)*
                    (Self::Look(_), _) => {}
                    $((Self::$name(_, line), Ok(_)) => {
                        drop(line.send(Err(StoreError::Broken("the answer belongs to another wish".to_owned()))));
                    })*
                }
            }
        }
    };
}

commands! {
    Submit(Vec<NewJob>) -> Vec<Submitted>,
    Claim((Vec<Claimant>, ClaimRules)) -> Vec<ClaimedRun>,
    Report(Vec<RunReport>) -> Vec<ReportAnswer>,
    Heartbeat(Heartbeat) -> Vec<(RunId, BeatAnswer)>,
    Tell(ToldEvents) -> TellAnswer,
    Ship((Vec<ToldEvents>, Vec<RunReport>)) -> (Vec<TellAnswer>, Vec<ReportAnswer>),
    GiveBack(Vec<RunId>) -> (),
    Reclaim(String) -> u64,
    Reap((LeaseTimes, Listened)) -> Reaped,
    Promote(u32) -> Promoted,
    Cancel(JobOrder) -> OrderAnswer,
    Retry(JobOrder) -> OrderAnswer,
    RetryHosts((JobOrder, Option<Box<NewApproval>>)) -> OrderAnswer,
    Replay(DeadLetterOrder) -> Vec<Closed>,
    Purge(DeadLetterOrder) -> Vec<Closed>,
    Once((OnceKey, Box<Command>)) -> Once,
    Note(Notice) -> (),
    CreateTenant((TenantId, String, Author)) -> Option<Tenant>,
    CreateToken((Box<TokenRecord>, Author)) -> bool,
    RevokeToken((RevokeToken, Author)) -> Option<Box<RevokedTokens>>,
    Register(WorkerRecord) -> (),
    Drain((TenantId, WorkerName, bool, Author)) -> bool,
    Enroll((String, Box<AgentRecord>, Box<TokenRecord>, Author)) -> Enrolled,
    RenewAgent(Box<Renewal>) -> bool,
    SetSealingKey((TenantId, WorkerName, [u8; 32], Author)) -> SealingKeySet,
    RemoveAgent(Box<RemoveAgent>) -> Option<RemovedAgent>,
    AddOutput(NewOutput) -> OutputAnswer,
    PlaceForOutput((String, bool)) -> String,
    SetAside(Vec<(TenantId, String)>) -> (),
    ResumeEvaluation((TenantId, String, Author)) -> bool,
    Conduct(bool) -> Conducted,
    Decide(ApprovalOrder) -> ApprovalAnswer,
    Block(NewBlock) -> BlockAnswer,
    Unblock((TenantId, i64, Author, Option<String>)) -> bool,
    Release(ReleaseOrder) -> Option<u64>,
    PutInventory(InventoryPut) -> PutAnswer,
    RemoveHosts((TenantId, InventoryName, Vec<HostName>, Author, Option<String>)) -> u64,
    PutResource(ResourcePut) -> ResourceStored,
    Apply(Vec<Applying>) -> Applied,
    ActivateResource(Box<Activation>) -> Activated,
    DeleteResource(ResourceOrder) -> Deleted,
    Turn(Vec<TurnOrder>) -> Vec<TurnAnswer>,
    KeepDefinition((TenantId, [u8; 32], Arc<str>)) -> i64,
    Steer(FlowOrder) -> FlowAnswer,
    Signal(NewSignal) -> Signaled,
    SpreadSignals(()) -> bool,
    FireSchedules(Vec<Firing>) -> Vec<Fired>,
    TriggerSchedule(Box<Trigger>) -> Triggered,
    Prune((Retention, PruneMark)) -> Pruned,
    RecordAudit(Vec<Deed>) -> (),
    Ping(()) -> Timestamp,
    NoteTime(()) -> (ClockStatus, bool),
    TakeEvidence(Box<Evidence>) -> EvidenceTaken,
    AcceptClock((Author, Option<String>)) -> ClockAccepted,
}

impl Command {
    /// A submission whose caller was sent away while it waited. It will be asked for again, or not at all. Whatever
    /// workers say is stored in any case: hearing late is better than not hearing.
    pub fn is_abandoned(&self) -> bool {
        matches!(self, Self::Submit(_, line) if line.is_closed())
    }

    /// Who is behind a privileged wish; `None` if it is none. What is privileged is recorded in the audit trail. What
    /// workers say is not, nor is the server's own upkeep, nor the submission of a job, which has its events; a command on
    /// hosts is recorded when it is submitted (`write/audit.rs`).
    pub fn author(&self) -> Option<&Author> {
        match self {
            Self::Cancel(order, _) | Self::Retry(order, _) | Self::RetryHosts((order, _), _) => Some(&order.by),
            Self::Replay(order, _) | Self::Purge(order, _) => Some(&order.by),
            Self::Once((_, write), _) => write.author(),
            Self::CreateTenant((_, _, by), _)
            | Self::CreateToken((_, by), _)
            | Self::RevokeToken((_, by), _)
            | Self::Drain((_, _, _, by), _)
            | Self::Enroll((_, _, _, by), _)
            | Self::SetSealingKey((_, _, _, by), _)
            | Self::Unblock((_, _, by, _), _)
            | Self::ResumeEvaluation((_, _, by), _)
            | Self::RemoveHosts((_, _, _, by, _), _) => Some(by),
            Self::RenewAgent(renewal, _) => Some(&renewal.by),
            Self::RemoveAgent(request, _) => Some(&request.by),
            Self::AcceptClock((by, _), _) => Some(by),
            Self::Decide(order, _) => Some(&order.by),
            Self::Block(block, _) => Some(&block.by),
            Self::Release(order, _) => Some(&order.by),
            Self::Apply(documents, _) => match documents.as_slice() {
                [Applying::Resource(put), ..] => Some(&put.by),
                [Applying::Inventory(put), ..] => Some(&put.by),
                [] => None,
            },
            Self::PutInventory(put, _) => Some(&put.by),
            Self::Steer(order, _) => Some(&order.by),
            Self::Signal(signal, _) => Some(&signal.by),
            Self::PutResource(put, _) => Some(&put.by),
            Self::ActivateResource(activation, _) => Some(&activation.order.by),
            Self::DeleteResource(order, _) => Some(&order.by),
            Self::TriggerSchedule(trigger, _) => Some(&trigger.by),
            Self::Submit(..)
            | Self::FireSchedules(..)
            | Self::Claim(..)
            | Self::Report(..)
            | Self::Heartbeat(..)
            | Self::Tell(..)
            | Self::Ship(..)
            | Self::GiveBack(..)
            | Self::Reclaim(..)
            | Self::Reap(..)
            | Self::Promote(..)
            | Self::Note(..)
            | Self::Register(..)
            | Self::AddOutput(..)
            | Self::PlaceForOutput(..)
            | Self::SetAside(..)
            | Self::Conduct(..)
            | Self::Turn(..)
            | Self::KeepDefinition(..)
            | Self::SpreadSignals(..)
            | Self::Prune(..)
            | Self::RecordAudit(..)
            | Self::Ping(..)
            | Self::NoteTime(..)
            | Self::TakeEvidence(..)
            | Self::Look(_) => None,
        }
    }

    /// Whose write it is; `None` for the server's own, and for what the built-in worker and the server do for several tenants.
    pub fn tenant(&self) -> Option<TenantId> {
        match self {
            Self::Submit(jobs, _) => jobs.first().map(|job| job.tenant),
            Self::Report(reports, _) => reports.first().and_then(|report| report.tenant),
            Self::Heartbeat(beat, _) => beat.tenant,
            Self::Tell(told, _) => told.tenant,
            Self::Ship((told, reports), _) => {
                let of_report = || reports.first().and_then(|report| report.tenant);
                told.first().and_then(|told| told.tenant).or_else(of_report)
            }
            Self::Cancel(order, _) | Self::Retry(order, _) | Self::RetryHosts((order, _), _) => Some(order.tenant),
            Self::Replay(order, _) | Self::Purge(order, _) => Some(order.tenant),
            Self::Note(notice, _) => Some(notice.tenant),
            Self::CreateToken((token, _), _) => token.tenant,
            Self::RevokeToken((order, _), _) => order.tenant,
            Self::Register(worker, _) => Some(worker.tenant),
            Self::Drain((tenant, ..), _)
            | Self::SetSealingKey((tenant, ..), _)
            | Self::ResumeEvaluation((tenant, ..), _)
            | Self::Unblock((tenant, ..), _)
            | Self::RemoveHosts((tenant, ..), _)
            | Self::KeepDefinition((tenant, ..), _) => Some(*tenant),
            Self::Enroll((_, agent, ..), _) => Some(agent.tenant),
            Self::RenewAgent(renewal, _) => Some(renewal.tenant),
            Self::RemoveAgent(request, _) => Some(request.tenant),
            Self::Once((_, write), _) => write.tenant(),
            Self::AddOutput(output, _) => Some(output.tenant),
            Self::Decide(order, _) => Some(order.tenant),
            Self::Block(block, _) => Some(block.tenant),
            Self::Release(order, _) => Some(order.tenant),
            Self::PutInventory(put, _) => Some(put.tenant),
            Self::PutResource(put, _) => Some(put.key.tenant),
            Self::Apply(documents, _) => match documents.first()? {
                Applying::Resource(put) => Some(put.key.tenant),
                Applying::Inventory(put) => Some(put.tenant),
            },
            Self::ActivateResource(activation, _) => Some(activation.order.key.tenant),
            Self::DeleteResource(order, _) => Some(order.key.tenant),
            Self::Steer(order, _) => Some(order.tenant),
            Self::Signal(signal, _) => Some(signal.tenant),
            Self::TriggerSchedule(trigger, _) => Some(trigger.job.tenant),
            Self::TakeEvidence(evidence, _) => Some(evidence.tenant),
            Self::Claim(..)
            | Self::GiveBack(..)
            | Self::Reclaim(..)
            | Self::Reap(..)
            | Self::Promote(..)
            | Self::CreateTenant(..)
            | Self::PlaceForOutput(..)
            | Self::SetAside(..)
            | Self::Conduct(..)
            | Self::Turn(..)
            | Self::SpreadSignals(..)
            | Self::FireSchedules(..)
            | Self::Prune(..)
            | Self::RecordAudit(..)
            | Self::Ping(..)
            | Self::NoteTime(..)
            | Self::AcceptClock(..)
            | Self::Look(_) => None,
        }
    }

    /// Whether a worker says it about work that has started, and loses leases or outcomes where it cannot.
    pub const fn is_of_running_work(&self) -> bool {
        matches!(self, Self::Heartbeat(..) | Self::Report(..) | Self::Tell(..) | Self::Ship(..))
    }

    /// About how much memory it holds while it waits: the texts that tenants choose the length of.
    pub fn bytes(&self) -> usize {
        let of_reports =
            |reports: &[RunReport]| reports.iter().filter_map(|r| r.result.as_ref()).map(|r| r.len()).sum::<usize>();
        let of_events = |told: &ToldEvents| told.events.len() * 256;
        match self {
            Self::Submit(jobs, _) => jobs.iter().map(|job| job.payload.len()).sum(),
            Self::Report(reports, _) => of_reports(reports),
            Self::Tell(told, _) => of_events(told),
            Self::Ship((told, reports), _) => told.iter().map(of_events).sum::<usize>() + of_reports(reports),
            Self::Steer(order, _) => order.message.len(),
            Self::Signal(signal, _) => signal.message.len(),
            Self::PutResource(put, _) => put.spec.len(),
            Self::KeepDefinition((_, _, body), _) => body.len(),
            Self::Once((_, write), _) => write.bytes(),
            _ => 256,
        }
    }

    /// How much of a batch it takes up.
    pub fn weight(&self) -> usize {
        match self {
            Self::Submit(jobs, _) => jobs.len().max(1),
            Self::Report(reports, _) => reports.len().max(1),
            Self::Claim((claimants, _), _) => claimants.iter().map(|c| c.wants as usize).sum::<usize>().max(1),
            Self::Tell(told, _) => told.events.len().max(1),
            Self::Ship((told, reports), _) => told.iter().map(|t| t.events.len()).sum::<usize>() + reports.len().max(1),
            Self::Heartbeat(beat, _) => beat.runs.len().max(1),
            Self::RecordAudit(entries, _) => entries.len().max(1),
            Self::Turn(turns, _) => turns.iter().map(|order| 1 + order.turn.children.len()).sum::<usize>().max(1),
            Self::FireSchedules(firings, _) => {
                firings.iter().map(|firing| firing.jobs.len().max(1)).sum::<usize>().max(1)
            }
            Self::TakeEvidence(evidence, _) => evidence.runs.len().max(1),
            Self::Conduct(..) => 1_000,
            Self::Signal(..) | Self::SpreadSignals(..) => 500,
            Self::PutInventory(put, _) => put.content.hosts.len().max(1),
            Self::Apply(documents, _) => documents
                .iter()
                .map(|document| match document {
                    Applying::Resource(_) => 1,
                    Applying::Inventory(put) => put.content.hosts.len().max(1),
                })
                .sum::<usize>()
                .max(1),
            _ => 1,
        }
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Command").field("weight", &self.weight()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::audit::{Action, Chain};
    use bowline_model::host::{Host, Inventory};
    use bowline_model::idempotency::RequestHash;
    use bowline_model::resource::ResourceKind;
    use bowline_model::{JobId, JobStatus, Labels, Lane, Outcome, ResourceName, TaskType};
    use bowline_store::{FlowStanding, NewTurn, Origin, ResourceKey, ToldEvent, Unmentioned};

    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1);

    /// A line on which nobody listens any more.
    fn line<T>() -> oneshot::Sender<StoreResult<T>> {
        oneshot::channel().0
    }

    fn tenant() -> TenantId {
        TenantId::mint(AT, [1; 10])
    }

    fn worker() -> WorkerName {
        WorkerName::new("w1").expect("a name")
    }

    fn job(payload: &str) -> NewJob {
        NewJob {
            id: JobId::mint(AT, [1; 10]),
            tenant: tenant(),
            lane: Lane::Default,
            task_type: TaskType::new("mail.send").expect("a type"),
            requires: Labels::default(),
            priority: 0,
            payload: payload.into(),
            policy: None,
            run_at: None,
            keys: Vec::new(),
            hash: RequestHash::of_parts(&[b"a"]),
            origin: Origin::default(),
            replay_of: None,
            fleet: None,
            flow: None,
        }
    }

    fn report(result: &str) -> RunReport {
        RunReport {
            run: RunId::mint(AT, [1; 10]),
            job: None,
            worker: worker(),
            tenant: None,
            fence: None,
            outcome: Outcome::Succeeded,
            error: None,
            result: Some(result.into()),
            stored_result: None,
            exit_code: None,
            last_seq: 0,
        }
    }

    fn told(count: u64) -> ToldEvents {
        let events = (1..=count).map(|seq| ToldEvent { seq, at: None, detail: "{}".into() }).collect();
        ToldEvents { run: RunId::mint(AT, [1; 10]), worker: worker(), tenant: None, fence: None, events }
    }

    fn steering(message: &str) -> FlowOrder {
        FlowOrder {
            tenant: tenant(),
            job: JobId::mint(AT, [1; 10]),
            message: message.into(),
            ends: None,
            vote: None,
            change: None,
            action: Action::WorkflowSteer,
            about: serde_json::json!({}),
            by: "ann".into(),
            reason: None,
            once: None,
        }
    }

    fn signal(message: &str) -> NewSignal {
        let (name, message, by) = ("paid".into(), message.into(), "ann".into());
        NewSignal { tenant: tenant(), name, key: None, message, by, once: None }
    }

    fn resource(spec: &str) -> ResourcePut {
        let name = ResourceName::new("a").expect("a name");
        let key = ResourceKey { tenant: tenant(), kind: ResourceKind::Workflow, name };
        let (spec, by) = (spec.into(), "ann".into());
        ResourcePut { key, spec, source: None, note: None, by, activate: true, seen: None }
    }

    fn inventory(hosts: usize) -> InventoryPut {
        let host = |n: usize| Host::named(HostName::new(&format!("h{n}")).expect("a name"));
        InventoryPut {
            tenant: tenant(),
            inventory: InventoryName::new("main").expect("a name"),
            content: Arc::new(Inventory { hosts: (0..hosts).map(host).collect(), groups: Vec::new() }),
            unmentioned: Unmentioned::Keep,
            by: "ann".into(),
            reason: None,
        }
    }

    fn definition(body: &str) -> Command {
        Command::KeepDefinition((tenant(), [1; 32], body.into()), line())
    }

    fn under_a_key(write: Command) -> Command {
        let key = OnceKey { key: "k".to_owned(), hash: RequestHash::of_parts(&[b"a"]) };
        Command::Once((key, Box::new(write)), line())
    }

    fn heartbeat(runs: u8) -> Heartbeat {
        let runs = (0..runs).map(|n| RunId::mint(AT, [n; 10])).collect();
        Heartbeat { worker: worker(), tenant: None, runs, bare: false }
    }

    fn claim(wants: &[u32]) -> Command {
        let claimant = |wants: &u32| Claimant {
            worker: worker(),
            tenant: None,
            passes_over: Arc::default(),
            abilities: Arc::default(),
            wants: *wants,
            busy: 0,
            slots: 8,
            accepts_at_once: false,
        };
        let rules = ClaimRules { weights: Default::default(), strategy: Default::default() };
        Command::Claim((wants.iter().map(claimant).collect(), rules), line())
    }

    fn turn(children: usize) -> TurnOrder {
        let standing = NewTurn::standing("[]".into(), (0, 1), FlowStanding::of(JobStatus::Running));
        let turn = NewTurn { children: (0..children).map(|_| job("{}")).collect(), ..standing };
        TurnOrder { flow: 1, version: 1, heard: Vec::new(), turn }
    }

    fn firing(jobs: usize) -> Firing {
        Firing {
            resource: 1,
            tenant: tenant(),
            name: ResourceName::new("a").expect("a name"),
            version: 1,
            seen: AT,
            to: AT,
            due_at: None,
            jobs: (0..jobs).map(|_| (AT, job("{}"))).collect(),
            alone: false,
            missed: 0,
            refused: None,
        }
    }

    fn entry() -> Deed {
        Deed {
            chain: Chain::Tenant(tenant()),
            author: "ann".into(),
            action: Action::AccessRefused,
            resource: "route/GET /jobs".to_owned(),
            diff: None,
            reason: None,
            result: "refused".to_owned(),
        }
    }

    #[test]
    fn texts_that_tenants_choose_count_with_their_length() {
        let cases = [
            (Command::Submit(vec![job("12345"), job("123")], line()), 8),
            (Command::Report(vec![report("1234"), report("12")], line()), 6),
            (Command::Tell(told(3), line()), 3 * 256),
            (Command::Ship((vec![told(2), told(1)], vec![report("1234")]), line()), 3 * 256 + 4),
            (Command::Steer(steering("12345"), line()), 5),
            (Command::Signal(signal("1234567"), line()), 7),
            (Command::PutResource(resource("{}"), line()), 2),
            (definition("123456"), 6),
            (under_a_key(definition("123456")), 6),
            (Command::Ping((), line()), 256),
        ];
        for (n, (write, bytes)) in cases.into_iter().enumerate() {
            assert_eq!(write.bytes(), bytes, "case {n}");
        }
    }

    #[test]
    fn a_write_takes_as_much_of_a_batch_as_there_is_in_it() {
        let cases = [
            (Command::Submit(vec![job("{}"), job("{}")], line()), 2),
            (Command::Submit(Vec::new(), line()), 1),
            (Command::Report(vec![report("1"), report("1"), report("1")], line()), 3),
            (claim(&[3, 4]), 7),
            (claim(&[0]), 1),
            (Command::Tell(told(3), line()), 3),
            (Command::Ship((vec![told(2), told(1)], vec![report("1"), report("1")]), line()), 5),
            (Command::Heartbeat(heartbeat(4), line()), 4),
            (Command::Heartbeat(heartbeat(0), line()), 1),
            (Command::RecordAudit(vec![entry(), entry()], line()), 2),
            (Command::Turn(vec![turn(2), turn(0)], line()), 4),
            (Command::FireSchedules(vec![firing(2), firing(0)], line()), 3),
            (Command::Conduct(false, line()), 1_000),
            (Command::Signal(signal("{}"), line()), 500),
            (Command::SpreadSignals((), line()), 500),
            (Command::PutInventory(inventory(3), line()), 3),
            (Command::Apply(vec![Applying::Resource(resource("{}")), Applying::Inventory(inventory(3))], line()), 4),
            (Command::Ping((), line()), 1),
        ];
        for (n, (write, weight)) in cases.into_iter().enumerate() {
            assert_eq!(write.weight(), weight, "case {n}");
        }
    }

    #[test]
    fn only_a_submission_is_abandoned_by_its_caller() {
        let (kept, _answer) = oneshot::channel();
        assert!(!Command::Submit(vec![job("{}")], kept).is_abandoned(), "somebody waits for the answer");
        assert!(Command::Submit(vec![job("{}")], line()).is_abandoned());
        assert!(!Command::Report(vec![report("1")], line()).is_abandoned(), "what workers say is stored in any case");
    }
}
