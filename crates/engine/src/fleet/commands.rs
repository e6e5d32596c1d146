//! Commands on hosts: from what somebody asked for to what will run where.
//!
//! *Resolved*: a wish whose command is pinned to a version, whose parameters fit, and whose hosts are named one by one.
//! What is approved is the hash of exactly that; when somebody approves, it is resolved again, and must be the same.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bowline_model::audit::Author;
use bowline_model::fleet::{
    ApprovalRule, BadRollout, Cannot, CommandRetries, CommandSpec, HostDigest, HostScope, Named, PinnedCommand,
    Rollout, SCOPE_STEPS_MAX, Scope, approval_hash,
};
use bowline_model::host::{HostRef, NotASelector, Selector, Steps, TooCostly, Vars};
use bowline_model::idempotency::RequestHash;
use bowline_model::resource::{BadSpec, ResourceKind};
use bowline_model::{HostName, InventoryName, JobId, Lane, ResourceName, TaskType, TenantId, Timestamp};
use bowline_store::{
    ApprovalAnswer, ApprovalOrder, FleetRecord, HostRecord, JobOrder, Ledger, NewApproval, NewFleet, Once, OnceKey,
    OnceRequest, OrderAnswer, Origin, ResourceKey, StoreError, StoreResult, Submitted,
};

use super::inventories::{HOSTS_HERE, SELECTION_STEPS_MAX, STEPS_HERE};
use super::resources::check_command_spec;
use super::{BadParams, Inventories, Snapshot, check_params};
use crate::aside;
use crate::intake::{Intake, JobRequest};
use crate::keyed::Keyed;
use crate::secrets::{SecretError, Secrets};

/// Which command.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandChoice {
    /// A command type; its active version unless one is named.
    Named { name: ResourceName, version: Option<u32> },
    /// Written for this one job.
    Inline(Box<CommandSpec>),
}

/// Which hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostChoice {
    Named(Vec<HostRef>),
    Selector(String),
}

/// What somebody asks for.
#[derive(Debug, Clone)]
pub struct CommandRequest {
    pub command: CommandChoice,
    pub params: Vars,
    pub inventory: InventoryName,
    pub hosts: HostChoice,
    pub rollout: Rollout,
    pub deadline_ms: Option<u64>,
    pub lane: Lane,
    pub priority: i16,
    pub run_at: Option<Timestamp>,
    pub idempotency_key: Option<String>,
    pub external_id: Option<String>,
}

/// Why a command cannot run.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("there is no command {0}")]
    NoCommand(ResourceName),
    #[error("command {name} has no version {version}")]
    NoVersion { name: ResourceName, version: u32 },
    #[error("no version of command {0} is active")]
    NotActive(ResourceName),
    #[error("there is no inventory {0}")]
    NoInventory(InventoryName),
    #[error("there is no host {0}")]
    NoHost(HostRef),
    #[error("selector: {0}")]
    Selector(#[from] NotASelector),
    #[error(
        "{field}: it takes more than {SELECTION_STEPS_MAX} steps for the hosts of this inventory; \
         use fewer terms, or fewer * in them"
    )]
    TooCostly { field: &'static str },
    #[error(
        "command: what it takes from host {host} is too much: at most {SCOPE_STEPS_MAX} bytes of values and places they are \
         looked for in; use fewer or smaller variables"
    )]
    TooMuchOfHost { host: HostName },
    #[error(
        "command: what it takes from all its hosts takes more than {SELECTION_STEPS_MAX} steps; \
         use fewer or smaller variables, or fewer hosts"
    )]
    TooMuchOfHosts,
    #[error("no host is meant by {0:?}")]
    NoHosts(String),
    #[error("at most {max} hosts, these are {hosts}")]
    TooManyHosts { hosts: usize, max: usize },
    #[error(transparent)]
    Spec(#[from] BadSpec),
    #[error(transparent)]
    Params(#[from] BadParams),
    #[error(transparent)]
    Rollout(#[from] BadRollout),
    #[error("{path} on host {host}: {cannot}")]
    Place { path: String, host: HostName, cannot: Cannot },
    #[error("command.secrets.{variable}: {source}")]
    Secret { variable: String, source: SecretError },
    #[error("deadline_ms must be between 1000 and {DEADLINE_MAX_MS} (30 days)")]
    Deadline,
    #[error("the key {key:?} was used before with another body")]
    Key { key: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Bytes of a filled command that count as one step: they are copied and hashed, not searched.
const FILLED_BYTES_PER_STEP: usize = 16;
/// Hosts of one job.
const HOSTS_MAX: usize = 200_000;
const DEADLINE_MAX_MS: u64 = 30 * 24 * 60 * 60 * 1_000;

/// What will run where.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub command: PinnedCommand,
    pub resource: Option<i64>,
    pub snapshot: Arc<Snapshot>,
    /// In the order they are begun.
    pub hosts: Vec<HostRecord>,
    /// What the command names, and what that means now.
    pub named: Named,
    /// What would run on each host, in their order.
    pub digests: Vec<HostDigest>,
    /// Of all of it.
    pub hash: RequestHash,
    /// Who must say yes, if somebody must.
    pub approval: Option<ApprovalRule>,
}

/// The door for commands on hosts.
#[derive(Debug)]
pub struct Commands {
    ledger: Arc<dyn Ledger>,
    secrets: Arc<Secrets>,
    retries: CommandRetries,
}

impl Commands {
    pub fn new(ledger: Arc<dyn Ledger>, secrets: Arc<Secrets>, retries: CommandRetries) -> Self {
        Self { ledger, secrets, retries }
    }

    /// Stores the job, once. An equal ask under the same key is the same job, whatever its hosts would be by now.
    pub async fn submit(
        &self,
        intake: &Intake,
        inventories: &Inventories,
        tenant: TenantId,
        origin: &Origin,
        request: CommandRequest,
    ) -> Result<Submitted, CommandError> {
        let job = match self.prepare(inventories, tenant, request.clone()).await {
            Ok(job) => job,
            Err(error) => {
                let sent = self.find_sent(tenant, &request).await?;
                return sent.ok_or(error).and_then(of_its_own_key);
            }
        };
        let stored = intake.submit(tenant, origin, vec![job]).await?;
        let stored = stored.into_iter().next();
        stored.ok_or_else(|| StoreError::Broken("the ledger gave no answer".to_owned()).into()).and_then(of_its_own_key)
    }

    /// The job this comes to now.
    pub async fn prepare(
        &self,
        inventories: &Inventories,
        tenant: TenantId,
        request: CommandRequest,
    ) -> Result<JobRequest, CommandError> {
        let asked = hash_of(&request);
        let Resolved { command, resource, snapshot, hosts, named, digests, hash, approval } =
            self.resolve(inventories, tenant, &request).await?;
        let fleet = NewFleet {
            inventory: snapshot.id,
            hosts: hosts.iter().map(|record| record.id).collect(),
            command: command.type_name().into(),
            resource,
            lock: command.spec.lock,
            rollout: request.rollout,
            selector: match request.hosts {
                HostChoice::Selector(text) => Some(text),
                HostChoice::Named(_) => None,
            },
            deadline_ms: request.deadline_ms,
            approval: approval.map(|rule| NewApproval {
                hash,
                quorum: rule.quorum,
                four_eyes: rule.four_eyes,
                expires_ms: rule.expires_ms,
                named,
                digests,
            }),
        };
        Ok(JobRequest {
            lane: request.lane,
            task_type: TaskType::command(),
            labels: Default::default(),
            priority: request.priority,
            payload: payload_of(&command).into(),
            policy: None,
            run_at: request.run_at,
            idempotency_key: request.idempotency_key,
            external_id: request.external_id,
            fleet: Some((Arc::new(fleet), asked)),
            id: None,
            flow: None,
        })
    }

    /// Whether there is such a command.
    pub async fn check(&self, tenant: TenantId, choice: &CommandChoice) -> Result<(), CommandError> {
        self.pin(tenant, choice).await.map(drop)
    }

    /// Whether these parameters fit it, as it is now.
    pub async fn check_params(
        &self,
        tenant: TenantId,
        choice: &CommandChoice,
        params: Vars,
    ) -> Result<(), CommandError> {
        let command = self.pin(tenant, choice).await?.command;
        check_params(tenant, command.spec.params.as_ref(), params).await?;
        Ok(())
    }

    /// What became of a command that was sent before, if it has a key.
    pub async fn find_sent(&self, tenant: TenantId, request: &CommandRequest) -> StoreResult<Option<Submitted>> {
        let (key, external_id) = (request.idempotency_key.as_ref(), request.external_id.as_ref());
        match Keyed::new(key, external_id, || hash_of(request)) {
            Some(keyed) => keyed.find(&*self.ledger, tenant).await,
            None => Ok(None),
        }
    }

    /// What would run where, if it were asked for now.
    pub async fn resolve(
        &self,
        inventories: &Inventories,
        tenant: TenantId,
        request: &CommandRequest,
    ) -> Result<Resolved, CommandError> {
        request.rollout.check()?;
        if request.deadline_ms.is_some_and(|ms| !(1_000..=DEADLINE_MAX_MS).contains(&ms)) {
            return Err(CommandError::Deadline);
        }
        let Pinned { mut command, resource, active, rule } = self.pin(tenant, &request.command).await?;
        self.secrets.check_command(tenant, command.name.as_ref(), &command.spec).await.map_err(
            |(variable, source)| match source {
                SecretError::Store(error) => CommandError::Store(error),
                source => CommandError::Secret { variable, source },
            },
        )?;
        // Part of the job from here on, so that another setting later does not change what was accepted.
        command.spec = command.spec.with_retries(&self.retries);
        command.params = check_params(tenant, command.spec.params.as_ref(), request.params.clone()).await?;
        let snapshot = inventories.snapshot(tenant, &request.inventory).await?;
        let snapshot = snapshot.ok_or_else(|| CommandError::NoInventory(request.inventory.clone()))?;
        let (choice, command) = (request.hosts.clone(), Arc::new(command));
        let planned = Arc::clone(&command);
        let plan = within_steps(tenant, &snapshot, move |snapshot, steps| {
            let hosts = choose(snapshot, &choice, steps)?;
            check_places(&planned, snapshot, &hosts, steps)?;
            let approval = match &rule {
                Some(rule) if is_needed(rule, snapshot, &hosts, steps)? => Some(rule.clone()),
                _ => None,
            };
            let digests = digests(&planned, snapshot, &hosts, steps)?;
            Ok((hosts, approval, digests))
        });
        let (hosts, approval, digests) = plan.await?;
        let command = Arc::unwrap_or_clone(command);
        let named = Named { active, secrets: self.secrets.identities(tenant, &command.spec).await? };
        let text = payload_of(&command);
        let inventory = snapshot.name.as_str();
        let hash = approval_hash(&text, &request.rollout, request.deadline_ms, inventory, &named, &digests);
        Ok(Resolved { command, resource, snapshot, hosts, named, digests, hash, approval })
    }

    async fn pin(&self, tenant: TenantId, choice: &CommandChoice) -> Result<Pinned, CommandError> {
        match choice {
            CommandChoice::Inline(spec) => {
                check_command_spec(tenant, spec).await?;
                let command = PinnedCommand { name: None, version: None, spec: (**spec).clone(), params: Vars::new() };
                Ok(Pinned { rule: command.spec.approval.clone(), command, resource: None, active: None })
            }
            CommandChoice::Named { name, version } => {
                let key = ResourceKey { tenant, kind: ResourceKind::Command, name: name.clone() };
                let found = self.ledger.find_resource(key.clone(), *version).await?;
                let Some(found) = found else {
                    let (there, name) = (self.ledger.find_resource(key, None).await?.is_some(), name.clone());
                    return Err(match version {
                        Some(version) if there => CommandError::NoVersion { name, version: *version },
                        _ => CommandError::NoCommand(name),
                    });
                };
                if version.is_none() && found.active.is_none() {
                    return Err(CommandError::NotActive(name.clone()));
                }
                let spec = spec_of(name, &found.version.spec)?;
                let own = found.version.version;
                // Who must say yes is said by the version that counts, whichever runs: an older one would be a way around it.
                let rule = match found.active {
                    Some(active) if active != own => self.rule_of(tenant, name, active).await?,
                    _ => spec.approval.clone(),
                };
                let command = PinnedCommand { name: Some(name.clone()), version: Some(own), spec, params: Vars::new() };
                Ok(Pinned { command, resource: Some(found.id), active: found.active, rule })
            }
        }
    }

    /// The rule about approval in this version of a command type.
    async fn rule_of(
        &self,
        tenant: TenantId,
        name: &ResourceName,
        version: u32,
    ) -> Result<Option<ApprovalRule>, StoreError> {
        let key = ResourceKey { tenant, kind: ResourceKind::Command, name: name.clone() };
        let found = self.ledger.find_resource(key, Some(version)).await?;
        let found =
            found.ok_or_else(|| StoreError::Conflict(format!("command {name} was changed meanwhile; try again")))?;
        Ok(spec_of(name, &found.version.spec)?.approval)
    }

    /// Tries those hosts of a command again that did not succeed, or any other job. An earlier yes was for an earlier try:
    /// whether somebody must be asked is said by the version of the command that counts now.
    pub async fn retry(&self, inventories: &Inventories, order: JobOrder) -> StoreResult<OrderAnswer> {
        let (tenant, job) = (order.tenant, order.job);
        let Some(fleet) = self.ledger.find_fleet(tenant, job).await? else {
            return self.ledger.retry_job(order).await;
        };
        let approval = self.approval_of_retry(inventories, tenant, job, &fleet).await?;
        self.ledger.retry_command(order, approval).await
    }

    /// The same, once for the caller's key.
    pub async fn retry_once(&self, inventories: &Inventories, order: JobOrder, key: OnceKey) -> StoreResult<Once> {
        let (tenant, job) = (order.tenant, order.job);
        let request = match self.ledger.find_fleet(tenant, job).await? {
            None => OnceRequest::RetryJob(order),
            Some(fleet) => {
                let approval = self.approval_of_retry(inventories, tenant, job, &fleet).await?;
                OnceRequest::RetryCommand(order, approval.map(Box::new))
            }
        };
        self.ledger.carry_out_once(key, request).await
    }

    async fn approval_of_retry(
        &self,
        inventories: &Inventories,
        tenant: TenantId,
        job: JobId,
        fleet: &FleetRecord,
    ) -> StoreResult<Option<NewApproval>> {
        let Some((command, _)) = self.stored_command(tenant, job).await? else { return Ok(None) };
        let rule = match &command.name {
            None => command.spec.approval.clone(),
            Some(name) => match self.active_version(tenant, name).await? {
                Some(active) => self.rule_of(tenant, name, active).await?,
                None => command.spec.approval.clone(),
            },
        };
        let Some(rule) = rule else { return Ok(None) };
        if let Some(snapshot) = inventories.snapshot(tenant, &fleet.inventory).await? {
            let targets = self.targets(tenant, job, &snapshot).await?;
            let hosts: Vec<HostRecord> = targets.into_iter().flatten().collect();
            let asked = rule.clone();
            let needed =
                within_steps(tenant, &snapshot, move |snapshot, steps| is_needed(&asked, snapshot, &hosts, steps));
            // A rule that cannot be evaluated asks for approval.
            if !needed.await.unwrap_or(true) {
                return Ok(None);
            }
        }
        // What cannot be resolved any more is asked about, and no vote finds it as it was.
        let unresolved =
            || AsItIs { hash: RequestHash::of_parts(&[b"unresolved"]), named: Named::default(), digests: Vec::new() };
        let now = self.as_it_is(inventories, tenant, job, fleet, true).await?.unwrap_or_else(unresolved);
        Ok(Some(NewApproval {
            hash: now.hash,
            quorum: rule.quorum,
            four_eyes: rule.four_eyes,
            expires_ms: rule.expires_ms,
            named: now.named,
            digests: now.digests,
        }))
    }

    /// Somebody's yes or no to a job that waits for it. `NotFound` when there is no such job.
    pub async fn decide(
        &self,
        inventories: &Inventories,
        tenant: TenantId,
        job: JobId,
        vote: VoteRequest,
    ) -> StoreResult<ApprovalAnswer> {
        let VoteRequest { by, yes, reason, seen } = vote;
        let current = match self.ledger.find_fleet(tenant, job).await? {
            Some(fleet) => {
                let retry = fleet.approval.as_ref().is_some_and(|approval| approval.retry);
                self.as_it_is(inventories, tenant, job, &fleet, retry).await?.map(|now| now.hash)
            }
            // The ledger will not find it either, and records that somebody tried.
            None => None,
        };
        // What cannot be resolved any more is something else than what was asked for.
        let current = current.unwrap_or_else(|| RequestHash::from_bytes([0; 32]));
        self.ledger.decide(ApprovalOrder { tenant, job, by, yes, reason, seen, current }).await
    }

    /// What would run by now. `retry`: on the hosts that were named, instead of those that would be named now.
    async fn as_it_is(
        &self,
        inventories: &Inventories,
        tenant: TenantId,
        job: JobId,
        fleet: &FleetRecord,
        retry: bool,
    ) -> StoreResult<Option<AsItIs>> {
        let Some((command, text)) = self.stored_command(tenant, job).await? else { return Ok(None) };
        let active = match &command.name {
            Some(name) => self.active_version(tenant, name).await?,
            None => None,
        };
        let named = Named { active, secrets: self.secrets.identities(tenant, &command.spec).await? };
        let Some(snapshot) = inventories.snapshot(tenant, &fleet.inventory).await? else { return Ok(None) };
        let digests = match &fleet.selector {
            Some(selector) if !retry => {
                let choice = HostChoice::Selector(selector.clone());
                let digested = within_steps(tenant, &snapshot, move |snapshot, steps| {
                    let hosts = choose(snapshot, &choice, steps)?;
                    digests(&command, snapshot, &hosts, steps)
                });
                match digested.await {
                    Ok(digests) => digests,
                    Err(_) => return Ok(None),
                }
            }
            _ => {
                let targets = self.targets(tenant, job, &snapshot).await?;
                // One that is gone is not tried again. Before anything ran, it is a change.
                if !retry && targets.iter().any(Option::is_none) {
                    return Ok(None);
                }
                let digested = within_steps(tenant, &snapshot, move |snapshot, steps| {
                    let mut all = Vec::with_capacity(targets.len());
                    for host in &targets {
                        all.push(match host {
                            Some(record) => digests(&command, snapshot, std::slice::from_ref(record), steps)?[0],
                            None => HostDigest::NONE,
                        });
                    }
                    Ok(all)
                });
                match digested.await {
                    Ok(digests) => digests,
                    Err(_) => return Ok(None),
                }
            }
        };
        let inventory = snapshot.name.as_str();
        let hash = approval_hash(&text, &fleet.rollout, fleet.deadline_ms, inventory, &named, &digests);
        Ok(Some(AsItIs { hash, named, digests }))
    }

    /// The command of a job, as it was pinned when the job was submitted; `None` if it is no command on hosts.
    pub async fn pinned(&self, tenant: TenantId, job: JobId) -> StoreResult<Option<PinnedCommand>> {
        if self.ledger.find_fleet(tenant, job).await?.is_none() {
            return Ok(None);
        }
        Ok(self.stored_command(tenant, job).await?.map(|(command, _)| command))
    }

    /// The command of a job, and its text.
    async fn stored_command(&self, tenant: TenantId, job: JobId) -> StoreResult<Option<(PinnedCommand, String)>> {
        let Some((record, _)) = self.ledger.find_job(tenant, job).await? else { return Ok(None) };
        let text = record.payload.map(|text| text.to_string()).unwrap_or_default();
        Ok(serde_json::from_str(&text).ok().map(|command| (command, text)))
    }

    async fn active_version(&self, tenant: TenantId, name: &ResourceName) -> StoreResult<Option<u32>> {
        let key = ResourceKey { tenant, kind: ResourceKind::Command, name: name.clone() };
        Ok(self.ledger.find_resource(key, None).await?.and_then(|found| found.active))
    }

    /// The hosts that a job was asked for, as they are now; `None` for one that is not there any more.
    async fn targets(&self, tenant: TenantId, job: JobId, snapshot: &Snapshot) -> StoreResult<Vec<Option<HostRecord>>> {
        let (mut hosts, mut after) = (Vec::new(), 0);
        loop {
            let page = self.ledger.list_targets(tenant, job, after, 5_000).await?;
            hosts.extend(page.items.into_iter().map(|(id, name)| {
                let record = name.and_then(|name| snapshot.find(&name).cloned());
                record.filter(|record| record.id == id)
            }));
            match page.next {
                Some(next) => after = next,
                None => return Ok(hosts),
            }
        }
    }
}

/// A command, and what its type says about it.
struct Pinned {
    command: PinnedCommand,
    resource: Option<i64>,
    /// The version of its type that counts.
    active: Option<u32>,
    /// Who must say yes, according to that version.
    rule: Option<ApprovalRule>,
}

/// A stored command, as it would run now.
struct AsItIs {
    hash: RequestHash,
    named: Named,
    digests: Vec<HostDigest>,
}

fn spec_of(name: &ResourceName, text: &str) -> Result<CommandSpec, StoreError> {
    serde_json::from_str(text).map_err(|e| StoreError::Broken(format!("command {name} cannot be read: {e}")))
}

/// What would run on each host.
fn digests(
    command: &PinnedCommand,
    snapshot: &Snapshot,
    hosts: &[HostRecord],
    steps: &mut Steps,
) -> Result<Vec<HostDigest>, CommandError> {
    let wants = !command.spec.wants_of_host().is_empty();
    let of = |record: &HostRecord| {
        let scope = if wants { scope_of(command, snapshot, record, steps)? } else { HostScope::default() };
        Ok(HostDigest::of(record.id, &record.host, command, &scope))
    };
    hosts.iter().map(of).collect()
}

/// What the command takes from a host, if that is not too much.
fn scope_of(
    command: &PinnedCommand,
    snapshot: &Snapshot,
    record: &HostRecord,
    steps: &mut Steps,
) -> Result<HostScope, CommandError> {
    let mut own = Steps::up_to(SCOPE_STEPS_MAX.min(steps.left()));
    let before = own.left();
    let scope = command.spec.scope_of(&record.host.labels, &snapshot.host_vars(record), &mut own);
    match (scope, steps.take(usize::try_from(before - own.left()).unwrap_or(usize::MAX))) {
        (Ok(scope), Ok(())) => Ok(scope),
        (Err(TooCostly), _) if before == SCOPE_STEPS_MAX => {
            Err(CommandError::TooMuchOfHost { host: record.host.name.clone() })
        }
        _ => Err(CommandError::TooMuchOfHosts),
    }
}

/// A decision somebody wants to make.
#[derive(Debug, Clone)]
pub struct VoteRequest {
    pub by: Author,
    pub yes: bool,
    pub reason: Option<String>,
    /// The hash of what they looked at, if they say so.
    pub seen: Option<RequestHash>,
}

/// Looks through the hosts of a snapshot: here if there are few and few steps do, otherwise on another thread.
async fn within_steps<T: Send + 'static>(
    tenant: TenantId,
    snapshot: &Arc<Snapshot>,
    work: impl Fn(&Snapshot, &mut Steps) -> Result<T, CommandError> + Send + 'static,
) -> Result<T, CommandError> {
    if snapshot.hosts.len() <= HOSTS_HERE {
        let done = work(snapshot, &mut Steps::up_to(STEPS_HERE));
        if !matches!(done, Err(CommandError::TooCostly { .. } | CommandError::TooMuchOfHosts)) {
            return done;
        }
    }
    let snapshot = Arc::clone(snapshot);
    aside::run(tenant, move || work(&snapshot, &mut Steps::up_to(SELECTION_STEPS_MAX))).await
}

fn choose(snapshot: &Snapshot, choice: &HostChoice, steps: &mut Steps) -> Result<Vec<HostRecord>, CommandError> {
    let hosts: Vec<HostRecord> = match choice {
        HostChoice::Selector(text) => {
            let meant = snapshot.select_within(&Selector::parse(text)?, steps);
            let meant = meant.map_err(|TooCostly| CommandError::TooCostly { field: "selector" })?;
            let found: Vec<HostRecord> = meant.into_iter().map(|at| snapshot.hosts[at].clone()).collect();
            if found.is_empty() {
                return Err(CommandError::NoHosts(text.clone()));
            }
            found
        }
        HostChoice::Named(hosts) => {
            let (mut seen, mut found) = (BTreeSet::new(), Vec::with_capacity(hosts.len()));
            let mut numbers = None;
            for host in hosts {
                let record = match host {
                    HostRef::Name(name) => snapshot.find(name),
                    HostRef::Number(number) => {
                        let by_number =
                            || snapshot.hosts.iter().map(|record| (record.id, record)).collect::<HashMap<_, _>>();
                        numbers.get_or_insert_with(by_number).get(number).copied()
                    }
                };
                let record = record.ok_or_else(|| CommandError::NoHost(host.clone()))?;
                if seen.insert(record.id) {
                    found.push(record.clone());
                }
            }
            if found.is_empty() {
                return Err(CommandError::NoHosts("an empty list".to_owned()));
            }
            found
        }
    };
    if hosts.len() > HOSTS_MAX {
        return Err(CommandError::TooManyHosts { hosts: hosts.len(), max: HOSTS_MAX });
    }
    Ok(hosts)
}

/// A place that cannot be filled on some host is named before anything runs anywhere.
fn check_places(
    command: &PinnedCommand,
    snapshot: &Snapshot,
    hosts: &[HostRecord],
    steps: &mut Steps,
) -> Result<(), CommandError> {
    let differs = !command.spec.wants_of_host().is_empty();
    let looked_at = if differs { hosts.len() } else { 1 };
    for record in hosts.iter().take(looked_at) {
        let host = if differs { scope_of(command, snapshot, record, steps)? } else { HostScope::default() };
        let scope = Scope { params: &command.params, host_name: record.host.name.as_str(), host: &host };
        let bytes = command.spec.try_fill(&scope).map_err(|(path, cannot)| CommandError::Place {
            path,
            host: record.host.name.clone(),
            cannot,
        })?;
        if differs {
            // Filled here, and once more for its digest.
            steps.take(bytes / FILLED_BYTES_PER_STEP).map_err(|TooCostly| CommandError::TooMuchOfHosts)?;
        }
    }
    Ok(())
}

fn is_needed(
    rule: &ApprovalRule,
    snapshot: &Snapshot,
    hosts: &[HostRecord],
    steps: &mut Steps,
) -> Result<bool, CommandError> {
    if rule.hosts_over.is_none() && rule.selector.is_none() {
        return Ok(true);
    }
    if rule.hosts_over.is_some_and(|max| hosts.len() > max as usize) {
        return Ok(true);
    }
    let Some(text) = rule.selector.as_deref() else { return Ok(false) };
    // A selector that was checked when it was stored; one that cannot be read any more asks for approval.
    let Ok(selector) = Selector::parse(text) else { return Ok(true) };
    let meant = snapshot.any(&selector, hosts, steps);
    meant.map_err(|TooCostly| CommandError::TooCostly { field: "approval.selector" })
}

fn of_its_own_key(submitted: Submitted) -> Result<Submitted, CommandError> {
    match submitted {
        Submitted::Conflict { key, .. } => Err(CommandError::Key { key }),
        submitted => Ok(submitted),
    }
}

fn payload_of(command: &PinnedCommand) -> String {
    serde_json::to_string(command).expect("a command has text keys and finite numbers, so it can be written as JSON")
}

fn json_of(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data can be written as JSON")
}

/// What was asked for, without the keys. Not what it was resolved to: a second delivery of the same wish is the same wish.
fn hash_of(request: &CommandRequest) -> RequestHash {
    let command = match &request.command {
        CommandChoice::Named { name, version } => json_of(&(name, version)),
        CommandChoice::Inline(spec) => json_of(&**spec),
    };
    let hosts = match &request.hosts {
        HostChoice::Named(hosts) => json_of(hosts),
        HostChoice::Selector(text) => json_of(text),
    };
    RequestHash::of_parts(&[
        &command,
        &json_of(&request.params),
        request.inventory.as_str().as_bytes(),
        &hosts,
        &json_of(&request.rollout),
        &json_of(&request.deadline_ms),
        request.lane.as_str().as_bytes(),
        &request.priority.to_be_bytes(),
        &json_of(&request.run_at),
    ])
}
