//! One record of the trail, and the form in which it is hashed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::author::Author;
use super::chain::Chain;
use super::digest::Digest;
use crate::time::Timestamp;

/// What can be done with authority. The texts never change: they are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    ClockAccept,
    TenantCreate,
    TokenCreate,
    TokenRevoke,
    AgentEnroll,
    AgentRenew,
    AgentSealingKey,
    AgentRemove,
    WorkerDrain,
    WorkerResume,
    JobCancel,
    JobRetry,
    JobApprove,
    JobReject,
    DeadLetterReplay,
    DeadLetterPurge,
    BlockSet,
    BlockLift,
    HostRelease,
    WorkflowSteer,
    WorkflowSignal,
    InventoryPut,
    HostRemove,
    ResourcePut,
    ResourceActivate,
    ResourceRollback,
    ResourceDelete,
    ScheduleTrigger,
    EvaluationResume,
    CommandRun,
    SecretCheck,
    AccessRefused,
}

impl Action {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClockAccept => "clock.accept",
            Self::TenantCreate => "tenant.create",
            Self::TokenCreate => "token.create",
            Self::TokenRevoke => "token.revoke",
            Self::AgentEnroll => "agent.enroll",
            Self::AgentRenew => "agent.renew",
            Self::AgentSealingKey => "agent.sealing_key",
            Self::AgentRemove => "agent.remove",
            Self::WorkerDrain => "worker.drain",
            Self::WorkerResume => "worker.resume",
            Self::JobCancel => "job.cancel",
            Self::JobRetry => "job.retry",
            Self::JobApprove => "job.approve",
            Self::JobReject => "job.reject",
            Self::DeadLetterReplay => "dead_letter.replay",
            Self::DeadLetterPurge => "dead_letter.purge",
            Self::BlockSet => "block.set",
            Self::BlockLift => "block.lift",
            Self::HostRelease => "host.release",
            Self::WorkflowSteer => "workflow.steer",
            Self::WorkflowSignal => "workflow.signal",
            Self::InventoryPut => "inventory.put",
            Self::HostRemove => "host.remove",
            Self::ResourcePut => "resource.put",
            Self::ResourceActivate => "resource.activate",
            Self::ResourceRollback => "resource.rollback",
            Self::ResourceDelete => "resource.delete",
            Self::ScheduleTrigger => "schedule.trigger",
            Self::EvaluationResume => "evaluation.resume",
            Self::CommandRun => "command.run",
            Self::SecretCheck => "secret.check",
            Self::AccessRefused => "access.refused",
        }
    }
}

/// What was done, before it has a place in a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    pub chain: Chain,
    pub author: Author,
    pub action: Action,
    /// The thing it was done to, such as `job/…` or `resource/command_type/restart`.
    pub resource: String,
    /// What changed, as JSON. Numbers, names and sums of contents; never contents, which may be secret.
    pub diff: Option<String>,
    pub reason: Option<String>,
    /// `done`, `unchanged`, `not_found`, or `refused: …`.
    pub result: String,
}

/// A record in its chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRecord {
    /// Its place: 1, 2, 3 and so on, without a gap.
    pub number: u64,
    pub at: Timestamp,
    pub actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<String>,
    /// What the actor might do at that moment, separated by spaces.
    pub scopes: String,
    pub action: String,
    pub resource: String,
    /// What changed, as JSON in a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    pub result: String,
    /// The hash of the record before; zeros for the first.
    pub prev: Digest,
    /// Its own.
    pub hash: Digest,
}

/// Begins every hash of a record, so that it is never mistaken for a hash of something else.
const DOMAIN: &[u8] = b"bowline audit record 1";

impl AuditRecord {
    /// The record that comes next in its chain.
    pub fn seal(deed: &Deed, number: u64, prev: Digest, at: Timestamp) -> Self {
        let own = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(str::to_owned);
        let author = &deed.author;
        let mut record = Self {
            number,
            at,
            actor: author.name.to_string(),
            on_behalf_of: own(&author.on_behalf_of),
            scopes: author.scopes.to_string(),
            action: deed.action.as_str().to_owned(),
            resource: deed.resource.clone(),
            diff: deed.diff.clone(),
            reason: deed.reason.clone(),
            request_id: own(&author.request_id),
            ip: own(&author.ip),
            result: deed.result.clone(),
            prev,
            hash: Digest::NONE,
        };
        record.hash = record.hash_in(deed.chain);
        record
    }

    /// U1: the hash of the domain, the chain, the record before, and everything this one says.
    pub fn hash_in(&self, chain: Chain) -> Digest {
        let mut bytes = Vec::with_capacity(512);
        put(&mut bytes, Some(DOMAIN));
        put(&mut bytes, Some(chain.as_bytes()));
        put(&mut bytes, Some(self.prev.as_bytes()));
        self.write_canonical(&mut bytes);
        Digest::of(&bytes)
    }

    /// Every field in a fixed order; numbers and moments in decimal, moments in microseconds.
    fn write_canonical(&self, bytes: &mut Vec<u8>) {
        put(bytes, Some(self.number.to_string().as_bytes()));
        put(bytes, Some(self.at.as_micros().to_string().as_bytes()));
        put(bytes, Some(self.actor.as_bytes()));
        put(bytes, self.on_behalf_of.as_ref().map(String::as_bytes));
        put(bytes, Some(self.scopes.as_bytes()));
        put(bytes, Some(self.action.as_bytes()));
        put(bytes, Some(self.resource.as_bytes()));
        put(bytes, self.diff.as_ref().map(String::as_bytes));
        put(bytes, self.reason.as_ref().map(String::as_bytes));
        put(bytes, self.request_id.as_ref().map(String::as_bytes));
        put(bytes, self.ip.as_ref().map(String::as_bytes));
        put(bytes, Some(self.result.as_bytes()));
    }
}

/// One part: a 1, its length in eight bytes, and itself; or a 0 where there is none. So parts cannot flow into one another,
/// and nothing is not the same as an empty text.
pub(super) fn put(bytes: &mut Vec<u8>, part: Option<&[u8]>) {
    match part {
        None => bytes.push(0),
        Some(part) => {
            bytes.push(1);
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part);
        }
    }
}
