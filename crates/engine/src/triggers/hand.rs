//! One message: from its delivery to the verdict that the broker hears.
//!
//! Enters: a delivery. Leaves: a verdict, and never `Ack` before the ledger said that it has the job.

use std::sync::Arc;
use std::time::Duration;

use bowline_amqp::{Delivery, Verdict};
use bowline_model::event::EventData;
use bowline_model::trigger::{OnRefused, TriggerSpec};
use bowline_model::{ErrorClass, EventKind, ResourceName, TenantId};
use bowline_store::{Clock, Ledger, Notice, Origin, StoreError, Submitted};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::message::{ask_of, patch_of, printable};
use super::standing::Board;
use crate::fleet::CommandError;
use crate::rights;
use crate::starter::{StartError, Starter};

/// Between two asks for a message that is held.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a message is held before it goes back to its queue. A queue may count how often that happens and give up in the
/// end, so it must be seldom; and a broker does not wait for ever either.
const HOLD_MAX: Duration = Duration::from_secs(600);
/// Before a message that was refused goes back to its queue, where that is wanted.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);
/// Longer reasons are cut.
const WHY_MAX: usize = 1_000;
/// Longer correlation ids are not taken over.
const CORRELATION_MAX: usize = 128;

/// Takes the messages of one trigger.
#[derive(Debug)]
pub(super) struct Hand {
    pub ledger: Arc<dyn Ledger>,
    pub clock: Arc<dyn Clock>,
    pub starter: Arc<Starter>,
    pub board: Arc<Board>,
    pub tenant: TenantId,
    pub name: ResourceName,
    pub spec: TriggerSpec,
    /// Who applied the trigger last: whose rights it has, and who asks for its jobs.
    pub owner: String,
    /// The trigger is not read any more.
    pub stop: CancellationToken,
}

/// What came of a try.
enum Tried {
    Done(Verdict),
    /// Nothing is known or nothing could be asked; and why.
    Later(String),
}

impl Hand {
    pub async fn take(&self, delivery: Delivery) -> Verdict {
        self.board.change(|standing| standing.delivered += 1);
        let patch = patch_of(&delivery);
        let (since, mut pause) = (Instant::now(), PAUSE_MIN);
        loop {
            let why = match self.try_once(&delivery, patch.as_ref()).await {
                Tried::Done(verdict) => return verdict,
                Tried::Later(why) => why,
            };
            let id = printable(delivery.key.as_str());
            tracing::warn!(trigger.name = %self.name, message.id = %id, error = %why, "holding a message of a trigger");
            self.board.trouble(self.clock.now(), format!("message {id} is held: {why}"));
            if since.elapsed() >= HOLD_MAX {
                return Verdict::Requeue(pause);
            }
            tokio::select! {
                () = self.stop.cancelled() => return Verdict::Requeue(Duration::ZERO),
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn try_once(&self, delivery: &Delivery, patch: Result<&Value, &String>) -> Tried {
        let patch = match patch {
            Ok(patch) => patch,
            Err(why) => return self.refuse(delivery, why).await,
        };
        let needed = rights::needed_for(&self.spec.start);
        match rights::check(&*self.ledger, &self.owner, needed, self.clock.now()).await {
            Ok(Ok(())) => {}
            // The message stays in its queue until somebody takes the trigger over; the reconciler ends this reader soon.
            Ok(Err(lost)) => return Tried::Later(rights::lost_by_owner(&lost)),
            Err(error) => return Tried::Later(error.to_string()),
        }
        let ask = ask_of(&self.name, delivery);
        let origin = self.origin(&ask.key, delivery);
        match self.starter.start_once(self.tenant, &self.spec.start, ask, &origin, Some(patch)).await {
            Ok(Submitted::Accepted { id, .. }) => {
                self.board.change(|standing| {
                    standing.started += 1;
                    standing.last_job = Some(id);
                });
                Tried::Done(Verdict::Ack)
            }
            Ok(Submitted::Replayed { id, .. } | Submitted::Pruned { id, .. }) => {
                self.board.change(|standing| {
                    standing.replayed += 1;
                    standing.last_job = Some(id);
                });
                Tried::Done(Verdict::Ack)
            }
            Ok(Submitted::Conflict { key, .. }) => self.refuse(delivery, &StartError::Key { key }.to_string()).await,
            Err(error) if may_help(&error) => Tried::Later(error.to_string()),
            Err(error) => self.refuse(delivery, &error.to_string()).await,
        }
    }

    /// Who asks for the job, and under which names it can be found.
    fn origin(&self, key: &str, delivery: &Delivery) -> Origin {
        let fits =
            |id: &&String| !id.is_empty() && id.len() <= CORRELATION_MAX && id.chars().all(|c| c.is_ascii_graphic());
        let correlation = delivery.correlation_id.as_ref().filter(fits);
        let correlation = correlation.map_or_else(|| format!("trigger/{}", self.name), Clone::clone);
        Origin {
            email: None,
            actor: self.owner.as_str().into(),
            request_id: key.into(),
            trace_id: None,
            correlation_id: Some(correlation.into()),
            author: None,
        }
    }

    /// A message that can never start anything: told first, and then away with it.
    async fn refuse(&self, delivery: &Delivery, why: &str) -> Tried {
        let (name, id) = (&self.name, printable(delivery.key.as_str()));
        let why: String = why.chars().take(WHY_MAX).collect();
        let again = self.spec.on_refused == OnRefused::Requeue;
        // One that comes again and again is told once.
        if !again || !delivery.redelivered {
            let reason = Some(format!("trigger {name}: message {id}: {why}"));
            let data = EventData { reason, ..EventData::default() };
            let notice = Notice { tenant: self.tenant, kind: EventKind::TriggerRefused, data };
            match self.ledger.note(notice).await {
                Err(error) if error.is_transient() => return Tried::Later(error.to_string()),
                Err(error) => {
                    tracing::error!(trigger.name = %name, message.id = %id, %error, "cannot record a refused message of a trigger");
                }
                Ok(()) => {}
            }
        }
        tracing::warn!(trigger.name = %name, message.id = %id, error = %why, "refused a message of a trigger");
        let at = self.clock.now();
        self.board.change(|standing| standing.refused += 1);
        self.board.trouble(at, format!("message {id} is refused: {why}"));
        Tried::Done(if again { Verdict::Requeue(REFUSED_PAUSE) } else { Verdict::Reject })
    }
}

/// Whether asking again later may help.
fn may_help(error: &StartError) -> bool {
    match error {
        StartError::Command(CommandError::Secret { source, .. }) => source.class() == ErrorClass::Transient,
        error => error.store().is_some_and(StoreError::is_transient),
    }
}
