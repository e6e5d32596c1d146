//! The audit trail, written: with every privileged wish of a batch comes its record, in the same transaction.
//!
//! What a record says follows from the wish and its answer, so nobody who asks for something can leave it out, and a new
//! wish does not compile before somebody has said whether it is privileged (`Command::author`). Records come last in a
//! transaction, chain by chain in one order: whoever holds the end of a chain waits for nothing but ends of later chains,
//! so two servers never wait for each other in a circle.

use std::collections::BTreeMap;
use std::fmt::Display;

use bowline_model::audit::{Action, AuditRecord, Author, Chain, Deed, Digest};
use bowline_model::fleet::Decided;
use bowline_model::{InventoryName, JobId, TenantId};
use bowline_store::{
    Activated, Activation, Applied, AppliedOne, Applying, ApprovalAnswer, BlockAnswer, BlockedPlace, Closed,
    DeadLetterOrder, Deleted, Enrolled, Fired, FlowAnswer, InventoryPut, JobOrder, NewJob, NotApplied, Once,
    OrderAnswer, PutAnswer, ResourceKey, ResourcePut, ResourceStored, SealingKeySet, Signaled, StoreError, StoreResult,
    Submitted, TokenRecord, Triggered, TurnAnswer,
};
use serde_json::{Value, json};

use super::Desk;
use crate::command::{Answer, Command};
use crate::db::{Db, Sql, Val};
use crate::keyed;

/// The names of things in a record are at most this many; the count says how many there were.
const NAMED_MAX: usize = 100;

/// What one write of a batch changed in configuration, for its record.
#[derive(Debug, Clone)]
pub struct Diff {
    pub of: Changed,
    /// As JSON.
    pub text: String,
}

/// What was changed, and the number that the change gave it: one batch may change a thing twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    Resource(ResourceKey, u32),
    Inventory(TenantId, InventoryName, i64),
}

type Diffs = [Diff];

fn diff_of(diffs: &Diffs, of: &Changed) -> Value {
    let diff = diffs.iter().find(|diff| diff.of == *of);
    diff.and_then(|diff| serde_json::from_str(&diff.text).ok()).unwrap_or_default()
}

/// What is to be recorded of a batch.
pub fn deeds(wishes: &[Command], answers: &[Answer], diffs: &Diffs) -> StoreResult<Vec<Deed>> {
    let mut deeds = Vec::new();
    for (wish, answer) in wishes.iter().zip(answers) {
        if let Some(author) = wish.author() {
            deeds.extend(deed(author, wish, answer, diffs)?);
        }
        deeds.extend(commands_started(wish, answer));
        if let Command::RecordAudit(entries, _) = wish {
            deeds.extend(entries.iter().cloned());
        }
    }
    Ok(deeds)
}

/// The commands on hosts that a write took in: by request, by schedule, by a step of a workflow, also by a step that is stored
/// together with the request. Running something on machines is privileged even where submitting a job is not.
fn commands_started(wish: &Command, answer: &Answer) -> Vec<Deed> {
    let commands = |job| NewJob::with_first_children(job).filter_map(about_command);
    let accepted = |(job, submitted): (_, &Submitted)| match submitted {
        Submitted::Accepted { .. } => Some(commands(job)).into_iter().flatten(),
        Submitted::Replayed { .. } | Submitted::Pruned { .. } | Submitted::Conflict { .. } => {
            None.into_iter().flatten()
        }
    };
    match (wish, answer) {
        (Command::Submit(jobs, _), Answer::Submit(answers)) => jobs.iter().zip(answers).flat_map(accepted).collect(),
        (Command::FireSchedules(firings, _), Answer::FireSchedules(fired)) => {
            let done = firings.iter().zip(fired).filter_map(|(firing, fired)| match fired {
                Fired::Done { jobs, .. } => {
                    // Of those that must not run beside each other, the last ones were taken in.
                    let passed_over = firing.jobs.len().saturating_sub(jobs.len());
                    Some(firing.jobs.iter().skip(passed_over).map(|(_, job)| job).zip(jobs))
                }
                Fired::Overtaken => None,
            });
            done.flatten().flat_map(accepted).collect()
        }
        (Command::TriggerSchedule(trigger, _), Answer::TriggerSchedule(Triggered::Started(submitted))) => {
            accepted((&trigger.job, submitted)).collect()
        }
        (Command::Turn(turns, _), Answer::Turn(answers)) => {
            let stored = turns.iter().zip(answers).filter(|(_, answer)| **answer == TurnAnswer::Stored);
            stored.flat_map(|(order, _)| &order.turn.children).flat_map(commands).collect()
        }
        _ => Vec::new(),
    }
}

fn about_command(job: &NewJob) -> Option<Deed> {
    let fleet = job.fleet.as_ref()?;
    let author = job.origin.author.as_deref().cloned().unwrap_or_else(|| Author {
        request_id: Some(std::sync::Arc::clone(&job.origin.request_id)),
        tenant: Some(job.tenant),
        ..Author::from(&*job.origin.actor)
    });
    let diff = json!({
        "command": &*fleet.command, "inline": fleet.resource.is_none(), "hosts": fleet.hosts.len(),
        "selector": fleet.selector, "sha256": Digest::of(job.payload.as_bytes()),
        "needs_approval": fleet.approval.is_some(),
    });
    Some(Deed {
        chain: Chain::Tenant(job.tenant),
        author,
        action: Action::CommandRun,
        resource: format!("job/{}", job.id),
        diff: Some(diff.to_string()),
        reason: None,
        result: "done".to_owned(),
    })
}

/// Adds the records to their chains.
pub async fn append(db: &mut impl Db, desk: &Desk<'_>, deeds: &[Deed]) -> StoreResult<()> {
    let mut chains: BTreeMap<Chain, Vec<&Deed>> = BTreeMap::new();
    for deed in deeds {
        chains.entry(deed.chain).or_default().push(deed);
    }
    for (chain, deeds) in chains {
        let id = *chain.as_uuid();
        let head = [Val::Id(id), Val::Bytes(Digest::NONE.as_bytes())];
        let head = db.query(HOLD, &head, |row| Ok((row.int(0)?, row.bytes(1)?))).await?;
        let Some((number, hash)) = head.into_iter().next() else {
            return Err(StoreError::Broken(format!("the audit chain {chain} has no end")));
        };
        let (mut number, mut hash) = (u64::try_from(number).unwrap_or(0), digest(hash)?);
        for deed in deeds {
            number += 1;
            let record = AuditRecord::seal(deed, number, hash, desk.now);
            hash = record.hash;
            add(db, chain, &record).await?;
        }
        let end = [Val::Id(id), Val::Int(signed(number)), Val::Bytes(hash.as_bytes())];
        db.execute(MOVE, &end).await?;
    }
    Ok(())
}

async fn add(db: &mut impl Db, chain: Chain, record: &AuditRecord) -> StoreResult<()> {
    let params = [
        Val::Id(*chain.as_uuid()),
        Val::Int(signed(record.number)),
        Val::At(record.at),
        Val::Text(&record.actor),
        Val::OptText(record.on_behalf_of.as_deref()),
        Val::Text(&record.scopes),
        Val::Text(&record.action),
        Val::Text(&record.resource),
        Val::OptText(record.diff.as_deref()),
        Val::OptText(record.reason.as_deref()),
        Val::OptText(record.request_id.as_deref()),
        Val::OptText(record.ip.as_deref()),
        Val::Text(&record.result),
        Val::Bytes(record.prev.as_bytes()),
        Val::Bytes(record.hash.as_bytes()),
    ];
    db.execute(ADD, &params).await.map(drop)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn digest(bytes: Vec<u8>) -> StoreResult<Digest> {
    let bytes = bytes.try_into().map_err(|_| StoreError::Broken("a hash has the wrong length".to_owned()))?;
    Ok(Digest::from_bytes(bytes))
}

/// The same for a write under a key. One that was made before is recorded as it was then, with the result `unchanged`.
fn deed_of_once(author: &Author, write: &Command, once: &Once, diffs: &Diffs) -> StoreResult<Vec<Deed>> {
    let of = |outcome| {
        let answer = keyed::answer(write, outcome);
        let answer = answer.ok_or_else(|| StoreError::Broken("the outcome belongs to another write".to_owned()))?;
        deed(author, write, &answer, diffs)
    };
    let with_result = |deeds: Vec<Deed>, result: &str| {
        deeds.into_iter().map(|deed| Deed { result: result.to_owned(), ..deed }).collect()
    };
    match once {
        Once::Done(outcome) => of(outcome),
        Once::Replayed { outcome, .. } => Ok(with_result(of(outcome)?, "unchanged")),
        Once::KeyConflict => {
            let deeds = of(&keyed::refused(write))?;
            Ok(with_result(deeds, "refused: the key was used before with another body"))
        }
    }
}

/// What a wish and its answer come to; nothing where configuration was put that is there already.
fn deed(author: &Author, wish: &Command, answer: &Answer, diffs: &Diffs) -> StoreResult<Vec<Deed>> {
    let form = |tenant: Option<TenantId>, action, resource: String| Form {
        chain: Chain::of(tenant),
        author: author.clone(),
        action,
        resource,
        diff: None,
        reason: None,
    };
    let deed = match (wish, answer) {
        (Command::CreateTenant((id, name, _), _), Answer::CreateTenant(made)) => {
            let form = form(None, Action::TenantCreate, format!("tenant/{id}")).with(json!({"name": name}));
            form.if_so(made.is_some(), "refused: the name is taken")
        }
        (Command::AcceptClock((_, reason), _), Answer::AcceptClock(accepted)) => {
            let form = form(None, Action::ClockAccept, "clock".to_owned()).why(reason.as_deref());
            let form = form.with(json!({"time": {"from": accepted.before, "to": accepted.now}}));
            form.result(if accepted.was_held { "done" } else { "unchanged" })
        }
        (Command::CreateToken((token, _), _), Answer::CreateToken(made)) => {
            let form = form(token.tenant, Action::TokenCreate, format!("token/{}", token.id));
            form.with(about_token(token)).if_so(*made, "refused: the id is taken")
        }
        (Command::RevokeToken((order, _), _), Answer::RevokeToken(None)) => {
            let owner = order.tenant.or(author.tenant);
            form(owner, Action::TokenRevoke, format!("token/{}", short(&order.id))).result("not_found")
        }
        (Command::RevokeToken(..), Answer::RevokeToken(Some(revoked))) => {
            // Each in the chain of its own tenant: an administrator makes tokens for others.
            let about = |token: &TokenRecord| {
                form(token.tenant, Action::TokenRevoke, format!("token/{}", token.id)).with(about_token(token))
            };
            let named = Some(about(&revoked.token)).filter(|_| revoked.token.revoked_at.is_none());
            let reason = format!("made with token {}", revoked.token.id);
            let also = revoked.also.iter().map(|token| about(token).why(Some(&reason)));
            return Ok(named.into_iter().chain(also).map(|form| form.result("done")).collect());
        }
        (Command::ResumeEvaluation((tenant, subject, _), _), Answer::ResumeEvaluation(resumed)) => {
            let form = form(Some(*tenant), Action::EvaluationResume, format!("evaluation/{subject}"));
            form.if_so(*resumed, "not_found")
        }
        (Command::Drain((tenant, name, draining, _), _), Answer::Drain(there)) => {
            let action = if *draining { Action::WorkerDrain } else { Action::WorkerResume };
            form(Some(*tenant), action, format!("worker/{name}")).if_so(*there, "not_found")
        }
        (Command::Enroll((_, agent, _, _), _), Answer::Enroll(enrolled)) => {
            let key = Digest::from_bytes(agent.public_key).to_string();
            let form = form(Some(agent.tenant), Action::AgentEnroll, format!("agent/{}", agent.name));
            form.with(json!({"public_key": key, "token": agent.token})).result(match enrolled {
                Enrolled::Done => "done",
                Enrolled::NotWelcome => "refused: the join token is used, revoked or expired",
                Enrolled::NameTaken => "refused: the name is taken",
                Enrolled::KeyTaken => "refused: the key is taken",
            })
        }
        (Command::RenewAgent(renewal, _), Answer::RenewAgent(renewed)) => {
            let form = form(Some(renewal.tenant), Action::AgentRenew, format!("agent/{}", renewal.name));
            form.with(json!({"token": renewal.token.id, "replaces": renewal.used}))
                .if_so(*renewed, "refused: it is not the agent's credential")
        }
        (Command::SetSealingKey((tenant, name, key, _), _), Answer::SetSealingKey(answer)) => {
            let form = form(Some(*tenant), Action::AgentSealingKey, format!("agent/{name}"));
            let form = form.with(json!({
                "sealing_key": Digest::from_bytes(*key).to_string(), "first": *answer == SealingKeySet::First,
            }));
            match answer {
                SealingKeySet::First | SealingKeySet::Replaced => form.result("done"),
                SealingKeySet::NotFound => form.result("not_found"),
                SealingKeySet::Unchanged => return Ok(Vec::new()),
            }
        }
        (Command::RemoveAgent(request, _), Answer::RemoveAgent(removed)) => {
            let form = form(Some(request.tenant), Action::AgentRemove, format!("agent/{}", request.name));
            let form = form.why(Some(&request.reason));
            match removed {
                Some(removed) => {
                    let key = Digest::from_bytes(removed.public_key).to_string();
                    let (lost, returned) = (removed.lost_runs, removed.returned_runs);
                    let tokens = &removed.credentials;
                    let about =
                        json!({"public_key": key, "tokens": tokens, "lost_runs": lost, "returned_runs": returned});
                    form.with(about).result("done")
                }
                None => form.result("not_found"),
            }
        }
        (Command::Cancel(order, _), Answer::Cancel(answer)) => about_job(form, Action::JobCancel, order, *answer),
        (Command::Retry(order, _), Answer::Retry(answer))
        | (Command::RetryHosts((order, _), _), Answer::RetryHosts(answer)) => {
            about_job(form, Action::JobRetry, order, *answer)
        }
        (Command::Replay(order, _), Answer::Replay(closed)) => {
            about_letters(form, Action::DeadLetterReplay, order, closed)
        }
        (Command::Purge(order, _), Answer::Purge(closed)) => {
            about_letters(form, Action::DeadLetterPurge, order, closed)
        }
        (Command::Once((_, write), _), Answer::Once(once)) => return deed_of_once(author, write, once, diffs),
        (Command::Decide(order, _), Answer::Decide(answer)) => {
            let action = if order.yes { Action::JobApprove } else { Action::JobReject };
            let form = form(Some(order.tenant), action, format!("job/{}", order.job)).why(order.reason.as_deref());
            match answer {
                ApprovalAnswer::Decided(decided, status) => {
                    let decision = match decided {
                        Decided::Noted { .. } => "noted",
                        Decided::Approved => "approved",
                        Decided::Rejected => "rejected",
                        Decided::Superseded => "superseded",
                    };
                    form.with(json!({"decision": decision, "status": status.as_str()})).result("done")
                }
                // A4: whoever decides second is refused, and that they tried is known.
                ApprovalAnswer::Refused(refused) => form.refused(refused),
                ApprovalAnswer::NotNeeded => form.refused("it needs no approval"),
                ApprovalAnswer::NotFound => form.result("not_found"),
            }
        }
        (Command::Block(block, _), Answer::Block(answer)) => {
            let place = match &block.place {
                BlockedPlace::Host(host) => json!({"inventory": block.inventory, "host": host}),
                BlockedPlace::Selector(text) => json!({"inventory": block.inventory, "selector": text}),
            };
            let resource = match answer {
                BlockAnswer::Made(id) => format!("block/{id}"),
                BlockAnswer::NoInventory | BlockAnswer::NoHost | BlockAnswer::TooMany { .. } => {
                    format!("inventory/{}", block.inventory)
                }
            };
            let form = form(Some(block.tenant), Action::BlockSet, resource).why(Some(&block.reason));
            let form = form.with(json!({"place": place, "command": block.command, "expires_at": block.expires_at}));
            match answer {
                BlockAnswer::TooMany { what, .. } => form.refused(format!("too many {what}")),
                answer => form.if_so(matches!(answer, BlockAnswer::Made(_)), "not_found"),
            }
        }
        (Command::Unblock((tenant, id, _, reason), _), Answer::Unblock(lifted)) => {
            let form = form(Some(*tenant), Action::BlockLift, format!("block/{id}")).why(reason.as_deref());
            form.if_so(*lifted, "not_found")
        }
        (Command::PutInventory(put, _), Answer::PutInventory(answer)) => {
            return Ok(about_inventory(form, put, answer, diffs).into_iter().collect());
        }
        (Command::Apply(documents, _), Answer::Apply(answer)) => {
            return Ok(about_documents(form, documents, answer, diffs));
        }
        (Command::Steer(order, _), Answer::Steer(answer)) => {
            let form =
                form(Some(order.tenant), order.action, format!("job/{}", order.job)).why(order.reason.as_deref());
            let form = form.with(order.about.clone());
            match answer {
                FlowAnswer::Taken | FlowAnswer::Noted { .. } => form.result("done"),
                FlowAnswer::Replayed => form.result("unchanged"),
                FlowAnswer::Refused(refused) => form.refused(refused),
                FlowAnswer::Withdrawn => form.refused("the question was withdrawn"),
                FlowAnswer::DecisionAhead | FlowAnswer::Approved => form.refused("a decision was taken before"),
                FlowAnswer::Finished(status) => form.refused(format!("it is {status}")),
                FlowAnswer::NobodyWaits => form.refused("nobody waits for this"),
                FlowAnswer::NotFound => form.result("not_found"),
                FlowAnswer::KeyConflict => form.refused("the key was used before with another body"),
                FlowAnswer::Full(_) => form.refused("too much waits for the execution already"),
            }
        }
        (Command::Signal(signal, _), Answer::Signal(count)) => {
            let form = form(Some(signal.tenant), Action::WorkflowSignal, format!("event/{}", signal.name));
            match count {
                Signaled::Told(runs) => form.with(json!({"key": signal.key, "runs": runs})).result("done"),
                Signaled::Replayed(runs) => form.with(json!({"key": signal.key, "runs": runs})).result("unchanged"),
                Signaled::KeyConflict => form.refused("the key was used before with another body"),
                Signaled::Full(_) => form.refused("too many signals wait to be taken in already"),
            }
        }
        (Command::Release(order, _), Answer::Release(released)) => {
            let host = format!("host/{}/{}", order.inventory, order.host);
            let form = form(Some(order.tenant), Action::HostRelease, host).why(Some(&order.reason));
            match released {
                Some(0) => form.result("unchanged"),
                Some(runs) => form.with(json!({"missing_runs": runs})).result("done"),
                None => form.result("not_found"),
            }
        }
        (Command::RemoveHosts((tenant, inventory, hosts, _, reason), _), Answer::RemoveHosts(removed)) => {
            let form = form(Some(*tenant), Action::HostRemove, format!("inventory/{inventory}"));
            let form = form.why(reason.as_deref());
            let named: Vec<_> = hosts.iter().take(NAMED_MAX).collect();
            form.with(json!({"removed": removed, "mentioned": named})).if_so(*removed > 0, "not_found")
        }
        (Command::PutResource(put, _), Answer::PutResource(stored)) => {
            return Ok(about_resource(form, put, stored, diffs).into_iter().collect());
        }
        (Command::ActivateResource(activation, _), Answer::ActivateResource(activated)) => {
            let Activation { order, version, rollback, .. } = activation.as_ref();
            let action = if *rollback { Action::ResourceRollback } else { Action::ResourceActivate };
            let form = form(Some(order.key.tenant), action, named(&order.key)).why(order.reason.as_deref());
            match activated {
                Activated::Done { before } => {
                    form.with(json!({"active": {"from": before, "to": version}})).result("done")
                }
                Activated::Unchanged => form.with(json!({"active": version})).result("unchanged"),
                Activated::NotFound => form.with(json!({"version": version})).result("not_found"),
                Activated::Replayed { version, .. } => form.with(json!({"active": version})).result("unchanged"),
                Activated::KeyConflict => form.refused("the key was used before with another body"),
            }
        }
        (Command::DeleteResource(order, _), Answer::DeleteResource(deleted)) => {
            let form = form(Some(order.key.tenant), Action::ResourceDelete, named(&order.key));
            let form = form.why(order.reason.as_deref());
            match deleted {
                Deleted::Done => form.result("done"),
                Deleted::InUse(by) => form.refused(format_args!("in use: {by}")),
                Deleted::NotFound => form.result("not_found"),
            }
        }
        (Command::TriggerSchedule(trigger, _), Answer::TriggerSchedule(answer)) => {
            let name = format!("resource/schedule/{}", trigger.name);
            let form = form(Some(trigger.job.tenant), Action::ScheduleTrigger, name).why(trigger.reason.as_deref());
            match answer {
                Triggered::Started(Submitted::Accepted { id, .. }) => form.with(json!({"job": id})).result("done"),
                Triggered::Started(Submitted::Replayed { id, .. } | Submitted::Pruned { id, .. }) => {
                    form.with(json!({"job": id})).result("unchanged")
                }
                Triggered::Started(Submitted::Conflict { .. }) => {
                    form.refused("the key was used before with another body")
                }
                Triggered::Busy(job) => form.with(json!({"job": job})).refused("its last job is not over"),
                Triggered::Overtaken => form.refused("it was changed meanwhile, or is gone"),
            }
        }
        // C13: what is privileged and has no record is not done.
        _ => return Err(StoreError::Broken("a privileged wish has no record".to_owned())),
    };
    Ok(vec![deed])
}

/// A record that is being filled in.
struct Form {
    chain: Chain,
    author: Author,
    action: Action,
    resource: String,
    diff: Option<String>,
    reason: Option<String>,
}

impl Form {
    fn with(mut self, diff: Value) -> Self {
        self.diff = Some(diff.to_string());
        self
    }

    fn why(mut self, reason: Option<&str>) -> Self {
        self.reason = reason.map(str::to_owned);
        self
    }

    fn result(self, result: impl Into<String>) -> Deed {
        let Self { chain, author, action, resource, diff, reason } = self;
        Deed { chain, author, action, resource, diff, reason, result: result.into() }
    }

    fn refused(self, why: impl Display) -> Deed {
        self.result(format!("refused: {why}"))
    }

    fn if_so(self, done: bool, otherwise: &str) -> Deed {
        self.result(if done { "done" } else { otherwise })
    }
}

fn about_token(token: &TokenRecord) -> Value {
    json!({
        "kind": token.kind, "name": token.name, "scopes": token.scopes, "labels": token.labels.canonical(),
        "admission": token.admission,
        "audiences": token.audiences, "made_by": token.made_by, "expires_at": token.expires_at,
    })
}

fn about_job(
    form: impl Fn(Option<TenantId>, Action, String) -> Form,
    action: Action,
    order: &JobOrder,
    answer: OrderAnswer,
) -> Deed {
    let form = form(Some(order.tenant), action, format!("job/{}", order.job)).why(order.reason.as_deref());
    match answer {
        OrderAnswer::Done(status) => form.with(json!({"status": status.as_str()})).result("done"),
        OrderAnswer::Unchanged(status) => form.with(json!({"status": status.as_str()})).result("unchanged"),
        OrderAnswer::Finished(status) => form.refused(format_args!("it is over: {}", status.as_str())),
        OrderAnswer::NotFrom(status) => form.refused(format_args!("it is {}", status.as_str())),
        OrderAnswer::LetterClosed => form.refused("its dead letter is closed"),
        OrderAnswer::NeedsApproval(_) => form.refused("it was approved, and a second try needs approval by others"),
        OrderAnswer::NotFound => form.result("not_found"),
    }
}

fn about_inventory(
    form: impl Fn(Option<TenantId>, Action, String) -> Form,
    put: &InventoryPut,
    answer: &PutAnswer,
    diffs: &Diffs,
) -> Option<Deed> {
    let form = form(Some(put.tenant), Action::InventoryPut, format!("inventory/{}", put.inventory));
    let form = form.why(put.reason.as_deref());
    match answer {
        PutAnswer::Circle(group) => Some(form.refused(format_args!("the group {group} would be in itself"))),
        PutAnswer::Done(counts) if counts.created + counts.changed + counts.removed + counts.groups == 0 => None,
        PutAnswer::Done(counts) => {
            let hosts: Vec<_> = put.content.hosts.iter().take(NAMED_MAX).map(|host| &host.name).collect();
            let diff = diff_of(diffs, &Changed::Inventory(put.tenant, put.inventory.clone(), counts.revision));
            let form = form.with(json!({
                "created": counts.created, "changed": counts.changed, "removed": counts.removed,
                "groups": counts.groups, "revision": counts.revision, "mentioned": hosts, "diff": diff,
            }));
            Some(form.result("done"))
        }
    }
}

fn about_resource(
    form: impl Fn(Option<TenantId>, Action, String) -> Form,
    put: &ResourcePut,
    stored: &ResourceStored,
    diffs: &Diffs,
) -> Option<Deed> {
    let form = form(Some(put.key.tenant), Action::ResourcePut, named(&put.key)).why(put.note.as_deref());
    let sum = Digest::of(put.spec.as_bytes());
    match stored {
        ResourceStored::Stored { version, active } => {
            let diff = diff_of(diffs, &Changed::Resource(put.key.clone(), *version));
            let diff = json!({"version": version, "active": active, "sha256": sum, "diff": diff});
            Some(form.with(diff).result("done"))
        }
        ResourceStored::Unchanged { activated: false, .. } => None,
        ResourceStored::Unchanged { version, .. } => {
            Some(form.with(json!({"active": version, "sha256": sum})).result("done"))
        }
        ResourceStored::Overtaken { latest } => {
            Some(form.refused(format_args!("version {latest} was stored meanwhile")))
        }
    }
}

/// Each document has a record of its own. Of a refused list, the one because of which nothing was changed.
fn about_documents(
    form: impl Fn(Option<TenantId>, Action, String) -> Form + Copy,
    documents: &[Applying],
    answer: &Applied,
    diffs: &Diffs,
) -> Vec<Deed> {
    match answer {
        Applied::Done(done) => documents
            .iter()
            .zip(done)
            .filter_map(|(document, done)| match (document, done) {
                (Applying::Resource(put), AppliedOne::Resource(stored)) => about_resource(form, put, stored, diffs),
                (Applying::Inventory(put), AppliedOne::Inventory(counts)) => {
                    about_inventory(form, put, &PutAnswer::Done(*counts), diffs)
                }
                _ => None,
            })
            .collect(),
        Applied::Refused { document, why } => {
            let deed = match (documents.get(*document), why) {
                (Some(Applying::Resource(put)), NotApplied::Overtaken { latest }) => {
                    about_resource(form, put, &ResourceStored::Overtaken { latest: *latest }, diffs)
                }
                (Some(Applying::Inventory(put)), NotApplied::Circle(group)) => {
                    about_inventory(form, put, &PutAnswer::Circle(group.clone()), diffs)
                }
                _ => None,
            };
            deed.into_iter().collect()
        }
    }
}

fn about_letters(
    form: impl Fn(Option<TenantId>, Action, String) -> Form,
    action: Action,
    order: &DeadLetterOrder,
    closed: &[Closed],
) -> Deed {
    let (mut jobs, mut done): (Vec<(JobId, Option<JobId>)>, u64) = (Vec::new(), 0);
    for entry in closed {
        let (job, new) = match entry {
            Closed::Replayed { job, new_job } => (*job, Some(*new_job)),
            Closed::Purged { job } => (*job, None),
            Closed::Already { .. } | Closed::NotFound { .. } => continue,
        };
        done += 1;
        if jobs.len() < NAMED_MAX {
            jobs.push((job, new));
        }
    }
    let jobs: Vec<Value> = jobs
        .into_iter()
        .map(|(job, new)| new.map_or_else(|| json!({"job": job}), |new| json!({"job": job, "new_job": new})))
        .collect();
    let form = form(Some(order.tenant), action, format!("dlq/{}", order.lane)).why(Some(&order.reason));
    form.with(json!({"closed": done, "passed_over": closed.len() as u64 - done, "jobs": jobs}))
        .if_so(done > 0, "unchanged")
}

fn named(key: &ResourceKey) -> String {
    format!("resource/{}/{}", key.kind, key.name)
}

/// An id that somebody made up may be anything.
fn short(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).take(64).collect()
}

/// The end of a chain, made if there was none, and held until the transaction is over.
const HOLD: Sql = Sql::Same(
    "insert into audit_chain (chain, number, hash) values ($1, 0, $2)
     on conflict (chain) do update set number = audit_chain.number returning number, hash",
);
const ADD: Sql = Sql::Same(
    "insert into audit (chain, number, at, actor, on_behalf_of, scopes, action, resource, diff, reason, request_id, ip,
                        result, prev, hash)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
);
const MOVE: Sql = Sql::Same("update audit_chain set number = $2, hash = $3 where chain = $1");
