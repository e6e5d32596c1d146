//! What people and other systems say to a run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bowline_model::audit::{Action, Author};
use bowline_model::idempotency::RequestHash;
use bowline_model::question::question_hash;
use bowline_model::workflow::NodeId;
use bowline_model::{JobId, TenantId};
use bowline_store::{FlowAnswer, FlowChange, FlowOrder, FlowVote, NewSignal, OnceKey, Signaled, StoreResult, WaitKind};
use bowline_workflow::flow::{Message, Order};
use bowline_workflow::program::Program;
use serde_json::{Map, Value, json};

use super::Flows;
use super::look::LookError;
use super::named::hash_of_named;
use crate::fleet::VoteRequest;

/// An order in a word, without what it contains.
pub(super) fn word(order: &Order) -> String {
    match order {
        Order::Pause => "pause".to_owned(),
        Order::Step => "step".to_owned(),
        Order::Continue => "continue".to_owned(),
        Order::RunTo(node) => format!("run to {node}"),
        Order::Break(point) => format!("break at {}", point.node),
        Order::Unbreak(node) => format!("no more break at {node}"),
        Order::Edit(variables) => {
            format!("edit {}", variables.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
        }
        Order::Pin { node, .. } => format!("pin {node}"),
        Order::Unpin(node) => format!("unpin {node}"),
    }
}

/// Whether an order can be carried out; of several variables, which one is wrong.
fn check(order: &Order, program: &Program) -> Result<(), String> {
    let Order::Edit(variables) = order else { return order.check(program) };
    variables.iter().try_for_each(|(name, value)| {
        let one = Order::Edit(Map::from_iter([(name.clone(), value.clone())]));
        one.check(program).map_err(|what| format!("order.edit.{name}: {what}"))
    })
}

fn text(message: &Message) -> Arc<str> {
    serde_json::to_string(message).unwrap_or_default().into()
}

impl Flows {
    /// Steers a run: steps, breakpoints, changed variables, pinned outputs.
    pub async fn steer(
        &self,
        tenant: TenantId,
        job: JobId,
        order: Order,
        by: Author,
        reason: Option<String>,
    ) -> Result<FlowAnswer, LookError> {
        self.steer_once(tenant, job, order, by, reason, None).await
    }

    /// The same; with a caller's key, once for that key.
    pub async fn steer_once(
        &self,
        tenant: TenantId,
        job: JobId,
        order: Order,
        by: Author,
        reason: Option<String>,
        once: Option<OnceKey>,
    ) -> Result<FlowAnswer, LookError> {
        // Read first: what is decided after this was not known to the caller.
        let Some(record) = self.ledger.find_flow(tenant, job).await? else { return Ok(FlowAnswer::NotFound) };
        let room = self.room(tenant, job, None).await?;
        let run = self.look_at(&room, tenant, job, None).await?;
        check(&order, run.flow.program()).map_err(LookError::Bad)?;
        let about = json!({"order": word(&order)});
        let change = order.changes_what_follows().then_some(FlowChange { decisions: record.decisions });
        let message = text(&Message::Steer { order, by: by.to_string(), reason: reason.clone() });
        let action = Action::WorkflowSteer;
        let order = FlowOrder { tenant, job, message, ends: None, vote: None, change, action, about, by, reason, once };
        Ok(self.send(order).await?)
    }

    /// Stores a message, if there is room for it in what the tenant may store.
    async fn send(&self, order: FlowOrder) -> StoreResult<FlowAnswer> {
        let room = self.quotas.reserve(order.tenant, order.message.len() as u64)?;
        room.storing(self.ledger.steer_flow(order), |answer| *answer == FlowAnswer::Taken).await
    }

    /// Decides what a run waits for: this node's approval, or the only one there is.
    pub async fn decide(
        &self,
        tenant: TenantId,
        job: JobId,
        node: Option<&str>,
        yes: bool,
        by: Author,
        reason: Option<String>,
    ) -> Result<FlowAnswer, LookError> {
        self.vote(tenant, job, node, VoteRequest { by, yes, reason, seen: None }).await
    }

    /// The same, by somebody who may say what they have looked at.
    pub async fn vote(
        &self,
        tenant: TenantId,
        job: JobId,
        node: Option<&str>,
        vote: VoteRequest,
    ) -> Result<FlowAnswer, LookError> {
        let VoteRequest { by, yes: approved, reason, seen } = vote;
        let Some(record) = self.ledger.find_flow(tenant, job).await? else { return Ok(FlowAnswer::NotFound) };
        let mut waits = record
            .waits
            .iter()
            .map(|w| &w.wait)
            .filter(|wait| wait.kind == WaitKind::Approval && node.is_none_or(|node| *wait.node == *node));
        let (first, second) = (waits.next(), waits.next());
        if second.is_some() && node.is_none() {
            let nodes: Vec<&str> = record.waits.iter().map(|w| &*w.wait.node).collect();
            return Err(LookError::Bad(format!(
                "several nodes wait for approval; name one of them: {}",
                nodes.join(", ")
            )));
        }
        let Some(wait) = first else { return Ok(FlowAnswer::NobodyWaits) };
        let (node, visit) = (Arc::clone(&wait.node), wait.visit);
        // The question that is open now, and what the names behind it mean now. If it is put again before the vote is counted,
        // or if it was put when they meant something else, the vote was about another one.
        let mut current = wait.question.map_or(RequestHash::from_bytes([0; 32]), |question| question.hash);
        let mut named = BTreeMap::new();
        if approved {
            named = self.named_behind_job(tenant, job, &NodeId(Arc::clone(&node))).await?;
            current = question_hash(current, hash_of_named(&named));
        }
        let message = text(&Message::Decided {
            node: NodeId(Arc::clone(&node)),
            visit,
            approved,
            by: by.to_string(),
            reason: reason.clone(),
            named,
        });
        let action = if approved { Action::JobApprove } else { Action::JobReject };
        let about = json!({"node": node, "visit": visit});
        let vote = Some(FlowVote { yes: approved, seen, current });
        let ends = Some((node, visit));
        let order = FlowOrder { tenant, job, message, ends, vote, change: None, action, about, by, reason, once: None };
        Ok(self.ledger.steer_flow(order).await?)
    }

    /// Tells one run of something that happened. It is remembered until the run waits for it.
    pub async fn tell(
        &self,
        tenant: TenantId,
        job: JobId,
        event: &str,
        key: Option<String>,
        payload: Value,
        by: Author,
    ) -> StoreResult<FlowAnswer> {
        self.tell_once(tenant, job, Told { event, key, payload, once: None }, by).await
    }

    /// The same; with a caller's key, once for that key.
    pub async fn tell_once(&self, tenant: TenantId, job: JobId, told: Told<'_>, by: Author) -> StoreResult<FlowAnswer> {
        let Told { event, key, payload, once } = told;
        let about = json!({"event": event, "key": key});
        let message = text(&Message::Event { name: event.into(), key, payload });
        let action = Action::WorkflowSignal;
        let order = FlowOrder {
            tenant,
            job,
            message,
            ends: None,
            vote: None,
            change: None,
            action,
            about,
            by,
            reason: None,
            once,
        };
        self.send(order).await
    }

    /// Tells every run that waits for it of something that happened, and says how many do.
    pub async fn signal(
        &self,
        tenant: TenantId,
        event: &str,
        key: Option<String>,
        payload: Value,
        by: Author,
    ) -> StoreResult<u64> {
        match self.signal_once(tenant, Told { event, key, payload, once: None }, by).await? {
            Signaled::Told(runs) | Signaled::Replayed(runs) => Ok(runs),
            Signaled::KeyConflict | Signaled::Full(_) => Ok(0),
        }
    }

    /// The same; with a caller's key, once for that key.
    pub async fn signal_once(&self, tenant: TenantId, told: Told<'_>, by: Author) -> StoreResult<Signaled> {
        let Told { event, key, payload, once } = told;
        let message = text(&Message::Event { name: event.into(), key: key.clone(), payload });
        // It is stored once, and then recorded by each execution that hears it.
        let waiting = self.ledger.count_waiting(tenant, event.into(), key.clone()).await?;
        self.quotas.has_room(tenant, waiting.saturating_mul(message.len() as u64))?;
        let room = self.quotas.reserve(tenant, message.len() as u64)?;
        let signal = self.ledger.signal_flows(NewSignal { tenant, name: event.into(), key, message, by, once });
        let answer = room.storing(signal, |answer| matches!(answer, Signaled::Told(runs) if *runs > 0)).await?;
        if matches!(answer, Signaled::Told(runs) if runs > 0) {
            self.spreading.store(true, Ordering::Relaxed);
        }
        Ok(answer)
    }
}

/// Something that happened, for runs that wait for it.
#[derive(Debug)]
pub struct Told<'a> {
    pub event: &'a str,
    pub key: Option<String>,
    pub payload: Value,
    /// The caller's key for telling it.
    pub once: Option<OnceKey>,
}
