//! Why a command on hosts stands where it stands: what it waits for, and who is in its way.

use std::collections::{BTreeMap, BTreeSet};

use bowline_model::fleet::PinnedCommand;
use bowline_model::job::Place;
use bowline_model::{ErrorClass, HostName, JobStatus, RunError, TaskType, TenantId, Timestamp, WorkerName};
use bowline_store::{FleetRecord, JobRecord, KeptRecord, Ledger, StoreResult, UnitFilter, WorkerRecord};
use serde_json::{Value, json};

use crate::why::{Reason, Takers, Why};

/// Hosts that are named as examples.
const NAMED_MAX: usize = 5;
/// Hosts of a large command that are looked at one by one.
const LOOKED_AT_MAX: u32 = 100;

/// Explains a command.
pub async fn explain_command(
    ledger: &dyn Ledger,
    tenant: TenantId,
    job: &JobRecord,
    fleet: &FleetRecord,
    alive_since: Timestamp,
) -> StoreResult<Why> {
    let status = job.state.status;
    let mut reasons = match status {
        JobStatus::AwaitingApproval => vec![approval(fleet)],
        JobStatus::Running | JobStatus::Canceling => {
            let mut reasons = vec![progress(status, fleet)];
            reasons.extend(waiting_hosts(ledger, tenant, job, fleet).await?);
            reasons.extend(without_agents(ledger, tenant, job, fleet, alive_since).await?);
            reasons
        }
        JobStatus::Pending => {
            let due = job.state.due_at.unwrap_or(job.updated_at);
            let sentence = format!("it is scheduled for {due}");
            vec![Reason { code: "scheduled", sentence, data: json!({"run_at": due}) }]
        }
        _ => {
            let sentence = match &job.error {
                Some(error) => format!("it has ended as {status}: {}", error.message),
                None => format!("it has ended as {status}"),
            };
            let data = json!({"finished_at": job.finished_at, "error": job.error});
            vec![Reason { code: "finished", sentence, data }]
        }
    };
    reasons.extend(blocked_hosts(ledger, tenant, job, fleet).await?);
    reasons.extend(superseded(ledger, tenant, job, fleet).await?);
    if let (Some(why), false) = (&fleet.stopped, status.is_terminal()) {
        let sentence = format!("no more hosts are begun: {why}");
        reasons.push(Reason { code: "stopped", sentence, data: json!({"reason": why}) });
    }
    Ok(Why::new(status, reasons))
}

/// What did not run because it was not what had been approved.
async fn superseded(
    ledger: &dyn Ledger,
    tenant: TenantId,
    job: &JobRecord,
    fleet: &FleetRecord,
) -> StoreResult<Vec<Reason>> {
    let Some(approval) = &fleet.approval else { return Ok(Vec::new()) };
    let mut reasons = Vec::new();
    if let Some(why) = &approval.superseded {
        let sentence = format!("what was approved has changed, so nothing more of it starts: {why}; ask for it anew");
        reasons.push(Reason { code: "approval_superseded", sentence, data: json!({"reason": why}) });
    }
    if fleet.tally.of(JobStatus::Failed) == 0 {
        return Ok(reasons);
    }
    let filter = UnitFilter { status: Some(JobStatus::Failed), host: None };
    let units = ledger.list_units(tenant, job.id, filter, None, LOOKED_AT_MAX).await?.items;
    let is_superseded = |error: &RunError| error.class == ErrorClass::Superseded;
    let hosts: Vec<&HostName> =
        units.iter().filter(|unit| unit.error.as_ref().is_some_and(is_superseded)).map(|unit| &unit.host).collect();
    if let Some(first) = hosts.first() {
        let sentence = match hosts.len() {
            1 => format!("it did not run on {first}: what would run there is not what was approved"),
            many => format!("it did not run on {many} hosts, such as {first}: what would run there was not approved"),
        };
        let named: Vec<_> = hosts.iter().take(NAMED_MAX).collect();
        reasons.push(Reason { code: "hosts_superseded", sentence, data: json!({"hosts": named}) });
    }
    Ok(reasons)
}

fn approval(fleet: &FleetRecord) -> Reason {
    let approval = fleet.approval.as_ref();
    let given = approval.map_or(0, |a| a.votes.iter().filter(|vote| vote.yes).count());
    let needed = approval.map_or(1, |a| a.quorum);
    let sentence = if needed > 1 {
        format!("it waits for approval on {} hosts: {given} of {needed} people said yes", fleet.total)
    } else {
        format!("it waits for somebody to approve it on {} hosts", fleet.total)
    };
    let data = json!({
        "hosts": fleet.total, "given": given, "needed": needed, "expires_at": approval.and_then(|a| a.expires_at),
    });
    Reason { code: "awaiting_approval", sentence, data }
}

fn progress(status: JobStatus, fleet: &FleetRecord) -> Reason {
    let (live, all) = (fleet.tally.live(), fleet.tally.all());
    let counts: serde_json::Map<String, Value> =
        fleet.tally.counts().map(|(status, units)| (status.as_str().to_owned(), json!(units))).collect();
    let data = json!({"total": fleet.total, "begun": fleet.planned, "by_status": counts});
    if status == JobStatus::Canceling {
        let sentence = format!("it is being stopped; {live} hosts have not confirmed yet");
        return Reason { code: "canceling", sentence, data };
    }
    let running = fleet.tally.of(JobStatus::Running);
    let sentence = match live - running {
        0 => format!("{} of {} hosts are done, {running} are at it", all - live, fleet.total),
        waiting => {
            format!("{} of {} hosts are done, {running} are at it, {waiting} wait", all - live, fleet.total)
        }
    };
    Reason { code: "running", sentence, data }
}

/// What is wanting at hosts that nobody takes on.
#[derive(Default)]
struct Wanting {
    hosts: Vec<HostName>,
    agents: BTreeSet<WorkerName>,
}

impl Wanting {
    fn add(&mut self, host: &HostName, agents: &[&WorkerRecord]) {
        self.hosts.push(host.clone());
        self.agents.extend(agents.iter().map(|agent| agent.name.clone()));
    }

    fn reason(&self, code: &'static str, because: &str) -> Option<Reason> {
        let first = self.hosts.first()?;
        let sentence = match self.hosts.len() {
            1 => format!("{first} waits because {because}"),
            many => format!("{many} hosts, such as {first}, wait because {because}"),
        };
        let hosts: Vec<_> = self.hosts.iter().take(NAMED_MAX).collect();
        let agents: Vec<_> = self.agents.iter().take(NAMED_MAX).collect();
        Some(Reason { code, sentence, data: json!({"hosts": hosts, "agents": agents}) })
    }
}

/// Hosts whose turn it is, and that no agent takes on.
async fn without_agents(
    ledger: &dyn Ledger,
    tenant: TenantId,
    job: &JobRecord,
    fleet: &FleetRecord,
    alive_since: Timestamp,
) -> StoreResult<Vec<Reason>> {
    let command: Option<PinnedCommand> = job.payload.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let Some(command) = command.filter(|_| fleet.tally.of(JobStatus::Queued) > 0) else { return Ok(Vec::new()) };
    let task_type = TaskType::command();
    let workers = Takers { remote: ledger.list_workers(tenant).await?, ..Takers::default() };
    let filter = UnitFilter { status: Some(JobStatus::Queued), host: None };
    let units = ledger.list_units(tenant, job.id, filter, None, LOOKED_AT_MAX).await?.items;
    let [mut none, mut keyless, mut shared, mut draining, mut silent] = std::array::from_fn(|_| Wanting::default());
    for unit in units {
        let found = ledger.find_host(tenant, fleet.inventory.clone(), unit.host.clone()).await?;
        let Some(record) = found else { continue };
        let requires = command.spec.requires(&record.host);
        let able = workers.able(&task_type, &requires);
        let without_key = workers.without_key(&task_type, &requires);
        if able.iter().any(|agent| agent.seen_at >= alive_since && !agent.draining) {
            continue;
        }
        match (able.is_empty(), without_key.is_empty()) {
            (true, true) => none.add(&unit.host, &[]),
            (true, false) if without_key.iter().all(|agent| agent.shares_agent_user) => {
                shared.add(&unit.host, &without_key);
            }
            (true, false) => keyless.add(&unit.host, &without_key),
            (false, _) if able.iter().all(|agent| agent.draining) => draining.add(&unit.host, &able),
            (false, _) => silent.add(&unit.host, &able),
        }
    }
    let no_key = "the command needs secrets and their agents have shown no key to seal them to; start a current version \
                  of the agent there";
    let withheld = "the command needs secrets, and commands of their agents may run as the agent's own user and read its key; start \
                    the agent with --run-as, or join it with a token made with --secrets-for-shared-user";
    let reasons = [
        shared.reason("secrets_withheld", withheld),
        none.reason("no_agent", "no agent that could reach it has ever registered"),
        silent.reason("agents_silent", "the agents that could have gone silent"),
        draining.reason("agents_draining", "the agents that could are draining"),
        keyless.reason("no_sealing_key", no_key),
    ];
    Ok(reasons.into_iter().flatten().collect())
}

/// The name that people know an actor by. A token that is not stored any more keeps its id.
async fn name_of(ledger: &dyn Ledger, actor: &str) -> StoreResult<String> {
    Ok(match actor.split_once(':') {
        Some(("token" | "join", id)) => {
            ledger.find_token(id.to_owned()).await?.map_or_else(|| actor.to_owned(), |token| token.name)
        }
        Some((_, name)) if !name.is_empty() => name.to_owned(),
        _ => actor.to_owned(),
    })
}

/// Hosts where it may not run, and by whose order.
async fn blocked_hosts(
    ledger: &dyn Ledger,
    tenant: TenantId,
    job: &JobRecord,
    fleet: &FleetRecord,
) -> StoreResult<Option<Reason>> {
    let many = fleet.tally.of(JobStatus::Blocked);
    if many == 0 {
        return Ok(None);
    }
    let filter = UnitFilter { status: Some(JobStatus::Blocked), host: None };
    let named = u32::try_from(NAMED_MAX).unwrap_or(u32::MAX);
    let units = ledger.list_units(tenant, job.id, filter, None, named).await?.items;
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    for by in units.iter().filter_map(|unit| unit.blocked_by.as_ref()).map(|rule| rule.by.as_str()) {
        if !names.contains_key(by) {
            names.insert(by, name_of(ledger, by).await?);
        }
    }
    let hosts: Vec<Value> = units
        .iter()
        .map(|unit| match &unit.blocked_by {
            None => json!({"host": unit.host}),
            Some(rule) => json!({
                "host": unit.host, "block_id": rule.block, "reason": rule.reason, "by": rule.by,
                "name": names.get(rule.by.as_str()), "expires_at": rule.expires_at,
            }),
        })
        .collect();
    let Some(first) = units.first() else { return Ok(None) };
    let by = first.blocked_by.as_ref().map_or_else(String::new, |rule| {
        let until = rule.expires_at.map_or_else(String::new, |at| format!(" until {at}"));
        let name = names.get(rule.by.as_str()).map_or(rule.by.as_str(), String::as_str);
        format!(" (block {} by {name}{until}: {})", rule.block, rule.reason)
    });
    let sentence = match many {
        1 => format!("it may not run on {}{by}", first.host),
        many => format!("it may not run on {many} hosts, such as {}{by}", first.host),
    };
    Ok(Some(Reason { code: "hosts_blocked", sentence, data: json!({"count": many, "hosts": hosts}) }))
}

/// A missing run, for programs.
fn kept(kept: &KeptRecord) -> Value {
    json!({
        "run_id": kept.run, "agent": kept.agent, "job_id": kept.job, "command": kept.command,
        "since": kept.since, "until": kept.until,
    })
}

/// Hosts where somebody else is or may be, and who.
async fn waiting_hosts(
    ledger: &dyn Ledger,
    tenant: TenantId,
    job: &JobRecord,
    fleet: &FleetRecord,
) -> StoreResult<Option<Reason>> {
    if fleet.tally.of(JobStatus::Pending) == 0 {
        return Ok(None);
    }
    let filter = UnitFilter { status: Some(JobStatus::Pending), host: None };
    let units = ledger.list_units(tenant, job.id, filter, None, 100).await?.items;
    let waiting: Vec<_> = units.into_iter().filter(|unit| unit.state.place() == Place::Host).collect();
    let Some(first) = waiting.first() else { return Ok(None) };
    let mut hosts = Vec::new();
    let mut held_by = None;
    let mut kept_for = None;
    for unit in waiting.iter().take(NAMED_MAX) {
        let line = ledger.host_queue(tenant, fleet.inventory.clone(), unit.host.clone()).await?.unwrap_or_default();
        let ahead: Vec<Value> = line
            .turns
            .iter()
            .take_while(|turn| turn.job != job.id)
            .map(|turn| json!({"job_id": turn.job, "command": turn.command, "held": turn.held}))
            .collect();
        if held_by.is_none() {
            held_by = line.turns.iter().find(|turn| turn.held).map(|turn| (turn.command.clone(), turn.job_number));
        }
        let kept: Vec<Value> = line.kept.iter().map(kept).collect();
        hosts.push(json!({"host": unit.host, "ahead": ahead, "kept": kept}));
        if kept_for.is_none() {
            kept_for = line.kept.into_iter().next().map(|kept| (unit.host.clone(), kept));
        }
    }
    // Whoever waits behind somebody who runs is told of that one first: it will come to an end by itself.
    if let (None, Some((host, kept))) = (&held_by, kept_for) {
        let (run, agent, until) = (kept.run, kept.agent, kept.until);
        let sentence = match waiting.len() {
            1 => format!("host {host} is kept until {until}, because run {run} of agent {agent} went missing there"),
            many => format!(
                "{many} hosts wait; {host} is kept until {until}, because run {run} of agent {agent} went missing there"
            ),
        };
        return Ok(Some(Reason { code: "host_kept", sentence, data: json!({"hosts": hosts}) }));
    }
    let holder = held_by.map_or_else(String::new, |(command, number)| format!(" (job #{number}, {command})"));
    let sentence = match waiting.len() {
        1 => format!("host {} is held by another command{holder}", first.host),
        many => format!("{many} hosts are held by other commands, such as {}{holder}", first.host),
    };
    Ok(Some(Reason { code: "host_busy", sentence, data: json!({"hosts": hosts}) }))
}
