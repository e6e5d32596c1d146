//! The keeper: sees to it that the queues of all triggers that count are read, and no others.
//!
//! A reconciler like the others: woken by a bell or a timer, it asks the ledger which triggers and brokers count, and starts
//! and ends readers until that is so. It holds nothing that a restart would miss.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_amqp::{Broker, ConsumerSettings, News, consume_telling};
use bowline_model::event::EventData;
use bowline_model::resource::ResourceKind;
use bowline_model::trigger::TriggerSpec;
use bowline_model::{ErrorClass, EventKind, ResourceName, TenantId};
use bowline_store::{ActiveStamp, Clock, Ledger, Notice, ResourceKey, StoreResult};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::hand::Hand;
use super::standing::{Board, Standing};
use crate::brokers::Brokers;
use crate::rights::{self, RightsLost};
use crate::starter::Starter;

/// Another server may have changed a trigger; nobody rings for that.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A broker that cannot be found out about is asked for again after so long.
const BROKER_AGAIN: Duration = Duration::from_secs(5);
/// What is in hand when a reader ends may take so long.
const GRACE: Duration = Duration::from_secs(5);
/// Resources of one question to the ledger.
const BITE: u32 = 500;

type Key = (TenantId, ResourceName);
/// What a trigger says, or why that cannot be read.
type ReadSpec = Result<Arc<TriggerSpec>, String>;

/// Reads the queues of triggers.
#[derive(Debug)]
pub struct Triggers {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    starter: Arc<Starter>,
    brokers: Brokers,
    boards: Mutex<HashMap<Key, Arc<Board>>>,
}

/// A queue that is being read.
#[derive(Debug)]
struct Reader {
    stamp: Stamp,
    broker: Broker,
    stop: CancellationToken,
    /// The broker was away or did not let us in: perhaps it has another password by now.
    doubt: Arc<AtomicBool>,
    task: AbortHandle,
}

/// Which versions a reader was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    /// The trigger and its version. One that was deleted and made again is another one.
    trigger: (i64, u32),
    /// The same of its broker; `None` if no version of it counts.
    broker: Option<(i64, u32)>,
    /// Whose rights it has.
    owner: String,
}

/// What is there from one look to the next.
#[derive(Debug, Default)]
struct House {
    readers: HashMap<Key, Reader>,
    /// Also those that were asked to stop and are not over.
    tasks: JoinSet<()>,
    /// Triggers whose broker is not asked for before then.
    not_before: HashMap<Key, Instant>,
    /// Triggers that are not read because their owner has lost the rights. Each is reported once.
    stopped: HashSet<Key>,
    /// What triggers say, of the version that counts. It is read again when another one does.
    specs: HashMap<Key, ((i64, u32), ReadSpec)>,
}

impl House {
    fn end(&mut self, key: &Key, board: &Board) {
        if let Some(reader) = self.readers.remove(key) {
            reader.stop.cancel();
            board.change(|standing| standing.reading_since = None);
        }
    }
}

impl Triggers {
    pub fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>, starter: Arc<Starter>, brokers: Brokers) -> Arc<Self> {
        Arc::new(Self { ledger, clock, starter, brokers, boards: Mutex::default() })
    }

    /// How a trigger stands on this server.
    pub fn standing(&self, tenant: TenantId, name: &ResourceName) -> Standing {
        self.boards().get(&(tenant, name.clone())).map(|board| board.look()).unwrap_or_default()
    }

    /// Reads until the house closes. What is in hand then is finished, or goes back to its queue.
    pub async fn serve(self: Arc<Self>, stop: CancellationToken) -> anyhow::Result<()> {
        let mut house = House::default();
        loop {
            if let Err(error) = self.look(&mut house, &stop).await {
                tracing::warn!(%error, "cannot reconcile triggers, retrying");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
        // Their tokens are children of ours.
        while house.tasks.join_next().await.is_some() {}
        Ok(())
    }

    /// Makes the readers what they should be.
    async fn look(&self, house: &mut House, stop: &CancellationToken) -> StoreResult<()> {
        self.bury(house);
        let triggers = self.active(ResourceKind::Trigger).await?;
        let brokers = if triggers.is_empty() { Vec::new() } else { self.active(ResourceKind::Rabbitmq).await? };
        let stamp_of = |stamp: &ActiveStamp| (stamp.id, stamp.version);
        let brokers: HashMap<Key, (i64, u32)> =
            brokers.iter().map(|stamp| ((stamp.tenant, stamp.name.clone()), stamp_of(stamp))).collect();
        let mut wanted = HashSet::new();
        // Many triggers have few owners.
        let mut rights_of: HashMap<(&str, &[&'static str]), Result<(), RightsLost>> = HashMap::new();
        for stamp in &triggers {
            let (tenant, owner) = (&stamp.tenant, stamp.owner.as_str());
            let key = (*tenant, stamp.name.clone());
            let board = self.board(&key);
            let Some(spec) = self.spec(house, &key, stamp).await? else { continue };
            let spec = match spec {
                Ok(spec) => spec,
                Err(error) => {
                    board.trouble(self.clock.now(), format!("the trigger cannot be read: {error}"));
                    continue;
                }
            };
            if !spec.enabled {
                continue;
            }
            let needed = rights::needed_for(&spec.start);
            let rights = match rights_of.get(&(owner, needed)) {
                Some(known) => known.clone(),
                None => {
                    let found = rights::check(&*self.ledger, owner, needed, self.clock.now()).await?;
                    rights_of.insert((owner, needed), found.clone());
                    found
                }
            };
            if let Err(lost) = rights {
                // Messages wait in the queue until somebody takes the trigger over.
                self.report_stopped(house, key, &board, rights::lost_by_owner(&lost)).await;
                continue;
            }
            house.stopped.remove(&key);
            wanted.insert(key.clone());
            let broker = brokers.get(&(*tenant, spec.rabbitmq.broker.clone())).copied();
            let stamp = Stamp { trigger: stamp_of(stamp), broker, owner: owner.to_owned() };
            self.settle(house, stop, key, stamp, &spec, owner).await;
        }
        for key in house.readers.keys().filter(|key| !wanted.contains(*key)).cloned().collect::<Vec<_>>() {
            house.end(&key, &self.board(&key));
        }
        house.not_before.retain(|key, _| wanted.contains(key));
        let there: HashSet<Key> = triggers.iter().map(|stamp| (stamp.tenant, stamp.name.clone())).collect();
        house.specs.retain(|key, _| there.contains(key));
        self.boards().retain(|key, _| there.contains(key));
        Ok(())
    }

    /// What a trigger says, read only if it says something else than before; nothing if another version counts by now.
    async fn spec(&self, house: &mut House, key: &Key, stamp: &ActiveStamp) -> StoreResult<Option<ReadSpec>> {
        if let Some((version, spec)) = house.specs.get(key)
            && *version == (stamp.id, stamp.version)
        {
            return Ok(Some(spec.clone()));
        }
        let key_of = ResourceKey { tenant: key.0, kind: ResourceKind::Trigger, name: key.1.clone() };
        let found = self.ledger.find_resource(key_of, Some(stamp.version)).await?;
        let Some(found) = found.filter(|found| found.id == stamp.id) else { return Ok(None) };
        let spec = serde_json::from_str(&found.version.spec).map(Arc::new).map_err(|error| error.to_string());
        house.specs.insert(key.clone(), ((stamp.id, stamp.version), spec.clone()));
        Ok(Some(spec))
    }

    async fn report_stopped(&self, house: &mut House, key: Key, board: &Board, why: String) {
        if house.stopped.contains(&key) {
            return;
        }
        let (tenant, name) = &key;
        let reason = Some(format!("trigger {name} is not read: {why}"));
        let notice = Notice {
            tenant: *tenant,
            kind: EventKind::TriggerRefused,
            data: EventData { reason, ..EventData::default() },
        };
        tracing::warn!(trigger.name = %name, error = %why, "not reading the queue of a trigger");
        board.trouble(self.clock.now(), why);
        match self.ledger.note(notice).await {
            Ok(()) => drop(house.stopped.insert(key)),
            // It is tried again with the next evaluation.
            Err(error) => {
                tracing::warn!(trigger.name = %key.1, %error, "cannot record that a trigger is not read, retrying");
            }
        }
    }

    /// Readers that fell are made anew.
    fn bury(&self, house: &mut House) {
        while let Some(ended) = house.tasks.try_join_next() {
            if let Err(error) = ended {
                tracing::error!(%error, "the reader of a trigger failed, restarting");
            }
        }
        let fallen: Vec<Key> =
            house.readers.iter().filter(|(_, reader)| reader.task.is_finished()).map(|(key, _)| key.clone()).collect();
        for key in fallen {
            let board = self.board(&key);
            board.trouble(self.clock.now(), "its reader fell, and is started again".to_owned());
            house.end(&key, &board);
        }
    }

    /// Sees to one trigger that is to be read.
    async fn settle(
        &self,
        house: &mut House,
        stop: &CancellationToken,
        key: Key,
        stamp: Stamp,
        spec: &TriggerSpec,
        owner: &str,
    ) {
        let board = self.board(&key);
        let same_trigger = match house.readers.get(&key) {
            Some(reader) if reader.stamp == stamp && !reader.doubt.load(Ordering::Relaxed) => return,
            Some(reader) => reader.stamp.trigger == stamp.trigger && reader.stamp.owner == stamp.owner,
            None => false,
        };
        if !same_trigger {
            house.end(&key, &board);
        }
        if house.not_before.get(&key).is_some_and(|at| Instant::now() < *at) {
            return;
        }
        let broker = match self.brokers.find(key.0, &spec.rabbitmq.broker).await {
            Ok(broker) => broker,
            Err(error) => {
                board.trouble(self.clock.now(), error.message);
                house.not_before.insert(key.clone(), Instant::now() + BROKER_AGAIN);
                if error.class != ErrorClass::Transient {
                    house.end(&key, &board);
                }
                return;
            }
        };
        house.not_before.remove(&key);
        if let Some(reader) = house.readers.get_mut(&key)
            && reader.broker.is_same(&broker)
        {
            reader.stamp = stamp;
            // While the broker is away there is nothing new to find out every second.
            reader.doubt.store(false, Ordering::Relaxed);
            return;
        }
        house.end(&key, &board);
        let (stop, doubt) = (stop.child_token(), Arc::new(AtomicBool::new(false)));
        let hand = Hand {
            ledger: Arc::clone(&self.ledger),
            clock: Arc::clone(&self.clock),
            starter: Arc::clone(&self.starter),
            board,
            tenant: key.0,
            name: key.1.clone(),
            spec: spec.clone(),
            owner: owner.to_owned(),
            stop: stop.clone(),
        };
        let task = house.tasks.spawn(read(broker.clone(), Arc::new(hand), Arc::clone(&doubt)));
        house.readers.insert(key, Reader { stamp, broker, stop, doubt, task });
    }

    async fn active(&self, kind: ResourceKind) -> StoreResult<Vec<ActiveStamp>> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let page = self.ledger.list_active_stamps(kind, after, BITE).await?;
            all.extend(page.items);
            match page.next {
                Some(next) => after = next,
                None => return Ok(all),
            }
        }
    }

    fn boards(&self) -> MutexGuard<'_, HashMap<Key, Arc<Board>>> {
        self.boards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn board(&self, key: &Key) -> Arc<Board> {
        Arc::clone(self.boards().entry(key.clone()).or_default())
    }
}

/// Reads a queue until it is asked to stop.
async fn read(broker: Broker, hand: Arc<Hand>, doubt: Arc<AtomicBool>) {
    let source = &hand.spec.rabbitmq;
    let prefetch = NonZeroU16::new(source.prefetch).unwrap_or(NonZeroU16::MIN);
    let settings = ConsumerSettings { grace: GRACE, ..ConsumerSettings::new(&source.queue, prefetch) };
    let tell = |news: News<'_>| {
        // What comes later is the next reader's to tell.
        if hand.stop.is_cancelled() {
            return;
        }
        let now = hand.clock.now();
        match news {
            News::Reading => hand.board.change(|standing| standing.reading_since = Some(now)),
            News::Interrupted(error) => {
                doubt.store(true, Ordering::Relaxed);
                hand.board.change(|standing| standing.reading_since = None);
                hand.board.trouble(now, error.to_string());
            }
        }
    };
    let take = |delivery| {
        let hand = Arc::clone(&hand);
        async move { hand.take(delivery).await }
    };
    consume_telling(&broker, &settings, take, hand.stop.clone(), &tell).await;
}

#[cfg(test)]
mod tests {
    use bowline_store::{ResourceOrder, ResourcePut};
    use serde_json::{Value, json};

    use super::super::tests::{TestEngine, name};
    use super::*;

    fn reading(queue: &str) -> Value {
        json!({"rabbitmq": {"broker": "mq", "queue": queue}, "start": {"type": "echo"}})
    }

    fn key_of(test: &TestEngine, text: &str) -> ResourceKey {
        ResourceKey { tenant: test.tenant, kind: ResourceKind::Trigger, name: name(text) }
    }

    async fn put(test: &TestEngine, text: &str, spec: Value, by: &str) {
        let (key, spec) = (key_of(test, text), spec.to_string().into());
        let put = ResourcePut { key, spec, source: None, note: None, by: by.into(), activate: true, seen: None };
        test.engine.ledger.put_resource(put).await.expect("stored");
    }

    async fn delete(test: &TestEngine, text: &str) {
        let order = ResourceOrder { key: key_of(test, text), by: "ops".into(), reason: None };
        test.engine.ledger.delete_resource(order).await.expect("deleted");
    }

    async fn stamp_of(test: &TestEngine, text: &str) -> ActiveStamp {
        let stamps = test.engine.triggers.active(ResourceKind::Trigger).await.expect("read");
        stamps.into_iter().find(|stamp| stamp.name == name(text)).expect("an active trigger")
    }

    /// The queue that a trigger names, as the reconciler knows it.
    async fn queue_of(test: &TestEngine, house: &mut House, stamp: &ActiveStamp) -> Option<String> {
        let key = (stamp.tenant, stamp.name.clone());
        let spec = test.engine.triggers.spec(house, &key, stamp).await.expect("read")?;
        Some(spec.expect("a trigger").rabbitmq.queue.clone())
    }

    fn trouble(test: &TestEngine, text: &str) -> Option<String> {
        let standing = test.engine.triggers.standing(test.tenant, &name(text));
        standing.last_error.map(|error| error.message)
    }

    #[tokio::test]
    async fn a_trigger_is_what_its_active_version_says() {
        let (test, mut house) = (TestEngine::open(), House::default());
        put(&test, "orders", reading("first"), "ann").await;
        put(&test, "returns", reading("returns"), "ann").await;
        let first = stamp_of(&test, "orders").await;
        for _ in 0..2 {
            assert_eq!(queue_of(&test, &mut house, &first).await.as_deref(), Some("first"));
        }
        put(&test, "orders", reading("second"), "ann").await;
        let second = stamp_of(&test, "orders").await;
        assert_eq!(queue_of(&test, &mut house, &second).await.as_deref(), Some("second"));
        // One that is made again counts its versions from the beginning, and is another one.
        delete(&test, "orders").await;
        put(&test, "orders", reading("third"), "ann").await;
        let third = stamp_of(&test, "orders").await;
        assert!(third.id != first.id && third.version == first.version, "{first:?} {third:?}");
        assert_eq!(queue_of(&test, &mut house, &third).await.as_deref(), Some("third"));
        assert_eq!(queue_of(&test, &mut house, &first).await, None, "it is not there any more");
    }

    #[tokio::test]
    async fn a_trigger_whose_owner_has_lost_the_rights_is_reported_once() {
        let (test, mut house, stop) = (TestEngine::open(), House::default(), CancellationToken::new());
        let triggers = &test.engine.triggers;
        put(&test, "orders", reading("first"), "token:gone").await;
        for _ in 0..2 {
            triggers.look(&mut house, &stop).await.expect("read");
        }
        let reasons = test.reasons(EventKind::TriggerRefused).await;
        assert!(reasons.len() == 1 && reasons[0].starts_with("trigger orders is not read: "), "{reasons:?}");
        assert!(trouble(&test, "orders").is_some_and(|why| why.contains("token gone does not exist")));
        // Somebody takes it over, and its broker is looked for.
        put(&test, "orders", reading("second"), "service:ann").await;
        triggers.look(&mut house, &stop).await.expect("read");
        let why = trouble(&test, "orders");
        assert!(why.as_ref().is_some_and(|why| why.contains("there is no resource rabbitmq mq")), "{why:?}");
        // Those rights are lost, too.
        put(&test, "orders", reading("third"), "token:gone").await;
        triggers.look(&mut house, &stop).await.expect("read");
        assert_eq!(test.reasons(EventKind::TriggerRefused).await.len(), 2);
        delete(&test, "orders").await;
        triggers.look(&mut house, &stop).await.expect("read");
        assert_eq!(trouble(&test, "orders"), None, "nothing is known of a trigger that was deleted");
    }

    #[tokio::test]
    async fn a_trigger_that_is_disabled_is_left_alone_and_one_that_cannot_be_read_says_so() {
        let (test, mut house, stop) = (TestEngine::open(), House::default(), CancellationToken::new());
        let mut disabled = reading("first");
        disabled["enabled"] = json!(false);
        put(&test, "disabled", disabled, "ann").await;
        put(&test, "unreadable", json!({"queue": 1}), "ann").await;
        put(&test, "enabled", reading("first"), "ann").await;
        test.engine.triggers.look(&mut house, &stop).await.expect("read");
        assert_eq!(trouble(&test, "disabled"), None);
        assert!(trouble(&test, "unreadable").is_some_and(|why| why.starts_with("the trigger cannot be read: ")));
        assert!(trouble(&test, "enabled").is_some_and(|why| why.contains("rabbitmq mq")));
        assert!(house.readers.is_empty());
    }
}
