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

#[cfg(test)]
mod tests {
    use bowline_amqp::DeliveryKey;
    use serde_json::{Map, json};

    use super::super::tests::{TestEngine, name};
    use super::*;
    use crate::secrets::{NoValue, SecretError};

    fn hand_of(test: &TestEngine, on_refused: &str, start: Value) -> Hand {
        let source = json!({"broker": "mq", "queue": "orders"});
        let spec = json!({"rabbitmq": source, "start": start, "on_refused": on_refused});
        Hand {
            ledger: Arc::clone(&test.engine.ledger),
            clock: Arc::clone(&test.engine.clock),
            starter: Arc::clone(&test.engine.starter),
            board: Arc::default(),
            tenant: test.tenant,
            name: name("orders"),
            spec: serde_json::from_value(spec).expect("a trigger"),
            owner: "service:ann".to_owned(),
            stop: CancellationToken::new(),
        }
    }

    fn echo() -> Value {
        json!({"type": "echo"})
    }

    fn delivery(id: &str, body: &str) -> Delivery {
        Delivery {
            key: DeliveryKey::MessageId(id.to_owned()),
            queue: "orders".to_owned(),
            exchange: String::new(),
            routing_key: "orders".to_owned(),
            redelivered: false,
            delivery_tag: 1,
            message_id: Some(id.to_owned()),
            correlation_id: None,
            content_type: None,
            reply_to: None,
            kind: None,
            headers: Map::new(),
            body: body.as_bytes().to_vec(),
        }
    }

    /// One that can never start anything.
    fn malformed(id: &str) -> Delivery {
        Delivery { content_type: Some("application/json".to_owned()), ..delivery(id, "{") }
    }

    /// How many messages were delivered, and how many of them started something, had done so before, or were refused.
    fn counted(hand: &Hand) -> (u64, u64, u64, u64) {
        let standing = hand.board.look();
        (standing.delivered, standing.started, standing.replayed, standing.refused)
    }

    #[tokio::test]
    async fn a_message_starts_one_job_however_often_it_is_delivered() {
        let test = TestEngine::open();
        let hand = hand_of(&test, "reject", echo());
        let first = delivery("m1", r#"{"n": 1}"#);
        assert_eq!(hand.take(first.clone()).await, Verdict::Ack);
        assert_eq!(hand.take(Delivery { redelivered: true, ..first }).await, Verdict::Ack);
        assert_eq!(counted(&hand), (2, 1, 1, 0));
        let jobs = test.jobs().await;
        assert_eq!(jobs.len(), 1);
        assert_eq!(hand.board.look().last_job, Some(jobs[0].id));
        assert_eq!((&*jobs[0].origin.actor, &*jobs[0].origin.request_id), ("service:ann", "trigger/orders/m1"));
        let whole = test.engine.ledger.find_job(test.tenant, jobs[0].id).await.expect("read").expect("a job").0;
        let payload: Value = serde_json::from_str(whole.payload.as_deref().expect("a payload")).expect("JSON");
        assert_eq!(payload["message"]["body"], json!({"n": 1}));
    }

    #[tokio::test]
    async fn a_message_id_with_another_body_is_refused() {
        let test = TestEngine::open();
        let hand = hand_of(&test, "reject", echo());
        assert_eq!(hand.take(delivery("m1", "1")).await, Verdict::Ack);
        assert_eq!(hand.take(delivery("m1", "2")).await, Verdict::Reject);
        assert_eq!((counted(&hand), test.jobs().await.len()), ((2, 1, 0, 1), 1));
        let reasons = test.reasons(EventKind::TriggerRefused).await;
        assert!(reasons.len() == 1 && reasons[0].contains("was used before with another body"), "{reasons:?}");
    }

    #[tokio::test]
    async fn a_job_has_the_correlation_id_of_its_message_if_that_is_a_short_plain_word() {
        let test = TestEngine::open();
        let hand = hand_of(&test, "reject", echo());
        let (longest, longer) = ("x".repeat(CORRELATION_MAX), "x".repeat(CORRELATION_MAX + 1));
        let (longest, own) = (longest.as_str(), "trigger/orders");
        for (id, given, expected) in [
            ("none", None, own),
            ("plain", Some("order-7/a"), "order-7/a"),
            ("longest", Some(longest), longest),
            ("longer", Some(longer.as_str()), own),
            ("empty", Some(""), own),
            ("words", Some("two words"), own),
            ("foreign", Some("gr\u{fc}n"), own),
        ] {
            let delivery = Delivery { correlation_id: given.map(ToOwned::to_owned), ..delivery(id, "1") };
            assert_eq!(hand.take(delivery).await, Verdict::Ack);
            let request_id = format!("trigger/orders/{id}");
            let jobs = test.jobs().await;
            let job = jobs.iter().find(|job| *job.origin.request_id == *request_id).expect("a job");
            assert_eq!(job.origin.correlation_id.as_deref(), Some(expected), "{id}");
        }
    }

    #[tokio::test]
    async fn a_message_that_can_never_start_anything_is_reported_and_then_rejected_or_given_back() {
        for (on_refused, verdict, reports) in
            [("reject", Verdict::Reject, 2), ("requeue", Verdict::Requeue(REFUSED_PAUSE), 1)]
        {
            let test = TestEngine::open();
            let hand = hand_of(&test, on_refused, echo());
            assert_eq!(hand.take(malformed("m1")).await, verdict);
            let reasons = test.reasons(EventKind::TriggerRefused).await;
            assert!(reasons.len() == 1 && reasons[0].starts_with("trigger orders: message m1: "), "{reasons:?}");
            // One that is given back comes again and again. It is reported once.
            assert_eq!(hand.take(Delivery { redelivered: true, ..malformed("m1") }).await, verdict);
            assert_eq!(test.reasons(EventKind::TriggerRefused).await.len(), reports, "{on_refused}");
            assert_eq!((counted(&hand), test.jobs().await.len()), ((2, 0, 0, 2), 0));
            let trouble = hand.board.look().last_error.expect("trouble").message;
            assert!(trouble.starts_with("message m1 is refused: "), "{trouble}");
        }
    }

    #[tokio::test]
    async fn a_message_for_a_workflow_that_is_not_there_is_refused() {
        let test = TestEngine::open();
        let hand = hand_of(&test, "reject", json!({"workflow": "ship"}));
        assert_eq!(hand.take(delivery("m1", "1")).await, Verdict::Reject);
        let reasons = test.reasons(EventKind::TriggerRefused).await;
        assert_eq!(reasons, ["trigger orders: message m1: there is no workflow ship"]);
    }

    #[tokio::test]
    async fn a_refusal_that_the_ledger_can_never_record_holds_no_message() {
        let test = TestEngine::open();
        let hand = hand_of(&test, "reject", echo());
        hand.stop.cancel();
        let file = rusqlite::Connection::open(test.directory.path().join("bowline.db")).expect("the ledger's file");
        file.busy_timeout(Duration::from_secs(20)).expect("a timeout");
        let rule = "create trigger no_events before insert on event begin select raise(abort, 'no events'); end";
        file.execute_batch(rule).expect("a rule");
        assert_eq!(hand.take(malformed("m1")).await, Verdict::Reject);
        assert_eq!(counted(&hand), (1, 0, 0, 1));
    }

    #[tokio::test]
    async fn a_message_goes_back_at_once_if_its_trigger_stops_while_the_ledger_is_unavailable() {
        let test = TestEngine::open();
        let hand = hand_of(&test, "reject", echo());
        hand.stop.cancel();
        test.engine.ledger.close().await;
        for delivery in [delivery("m1", "1"), malformed("m2")] {
            assert_eq!(hand.take(delivery).await, Verdict::Requeue(Duration::ZERO));
        }
        assert_eq!(counted(&hand), (2, 0, 0, 0));
        let trouble = hand.board.look().last_error.expect("trouble").message;
        assert!(trouble.starts_with("message m2 is held: "), "{trouble}");
    }

    #[tokio::test]
    async fn a_message_is_held_for_ten_minutes_before_it_goes_back_to_its_queue() {
        let test = TestEngine::open();
        let hand = hand_of(&test, "reject", echo());
        test.engine.ledger.close().await;
        tokio::time::pause();
        let start = Instant::now();
        assert_eq!(hand.take(delivery("m1", "1")).await, Verdict::Requeue(PAUSE_MAX));
        let held = start.elapsed();
        assert!((HOLD_MAX..HOLD_MAX + PAUSE_MAX).contains(&held), "{held:?}");
    }

    #[tokio::test]
    async fn a_message_waits_while_the_owner_of_its_trigger_lacks_the_rights() {
        let test = TestEngine::open();
        let hand = Hand { owner: "token:gone".to_owned(), ..hand_of(&test, "reject", echo()) };
        hand.stop.cancel();
        assert_eq!(hand.take(delivery("m1", "1")).await, Verdict::Requeue(Duration::ZERO));
        assert_eq!((counted(&hand), test.jobs().await.len()), ((1, 0, 0, 0), 0));
        let trouble = hand.board.look().last_error.expect("trouble").message;
        assert!(trouble.contains("token gone does not exist"), "{trouble}");
    }

    #[test]
    fn what_may_be_there_in_a_moment_is_asked_for_again() {
        let secret = |source| StartError::Command(CommandError::Secret { variable: "TOKEN".to_owned(), source });
        let unavailable = NoValue::Unavailable("it is locked".to_owned());
        assert!(may_help(&secret(SecretError::Unavailable { name: name("key"), source: unavailable })));
        assert!(!may_help(&secret(SecretError::NoRef(name("key")))));
        assert!(may_help(&StartError::Store(StoreError::Unavailable("closing".to_owned()))));
        assert!(may_help(&StartError::Command(CommandError::Store(StoreError::Busy("later".to_owned())))));
        assert!(!may_help(&StartError::Store(StoreError::Broken("no".to_owned()))));
        assert!(!may_help(&StartError::Key { key: "k".to_owned() }));
    }
}
