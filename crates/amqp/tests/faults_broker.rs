//! A broker that is killed, restarted, frozen and full: each with evidence that it was.

#[allow(dead_code, reason = "each test program uses its part of it")]
mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_amqp::{AmqpError, ConsumerSettings, Delivery, Published, Publisher, Verdict, consume};
use bowline_testkit::{RabbitMq, until};
use common::{Witness, broker, message};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const PATIENCE: Duration = Duration::from_secs(120);
const LIMIT: Duration = Duration::from_secs(10);
const QUEUE: &str = "read-by-this-test-alone";

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_killed_while_it_is_published_to_has_everything_it_confirmed() {
    let server = RabbitMq::start();
    let address = server.address();
    Witness::of(&address).await.queue(QUEUE).await;
    server.write_down();
    let publisher = Arc::new(Publisher::new(broker(&address)));
    let confirmed: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let failed: Arc<Mutex<Vec<AmqpError>>> = Arc::default();
    let (over, tasks) = (Arc::new(AtomicBool::new(false)), TaskTracker::new());
    for writer in 0..16 {
        let (publisher, over) = (Arc::clone(&publisher), Arc::clone(&over));
        let (confirmed, failed) = (Arc::clone(&confirmed), Arc::clone(&failed));
        tasks.spawn(async move {
            for n in 0.. {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let id = format!("{writer}/{n}");
                match publisher.publish(&message(QUEUE, &id), LIMIT).await {
                    Ok(Published::Confirmed) => drop(confirmed.lock().expect("nobody panics").insert(id)),
                    Ok(other) => panic!("the queue is durable, so {other:?} is a lie"),
                    Err(error) => failed.lock().expect("nobody panics").push(error),
                }
            }
        });
    }
    tasks.close();
    until(PATIENCE, "some hundreds are confirmed", async || confirmed.lock().expect("nobody panics").len() >= 500)
        .await;
    let before = server.pid();
    server.kill();
    assert!(!server.is_running());
    let at_kill = confirmed.lock().expect("nobody panics").len();
    until(PATIENCE, "every writer has felt it", async || failed.lock().expect("nobody panics").len() >= 16).await;
    server.start_again();
    assert_ne!(server.pid(), before, "it is another process");
    until(PATIENCE, "publishing goes on by itself", async || {
        confirmed.lock().expect("nobody panics").len() >= at_kill + 200
    })
    .await;
    over.store(true, Ordering::SeqCst);
    tasks.wait().await;
    let there: Vec<String> = Witness::of(&address).await.drain(QUEUE).await;
    let there: BTreeSet<String> = there.into_iter().collect();
    let confirmed = confirmed.lock().expect("nobody panics");
    let missing: Vec<&String> = confirmed.difference(&there).collect();
    assert!(missing.is_empty(), "{} of {} confirmed messages are gone: {missing:?}", missing.len(), confirmed.len());
    let failed = failed.lock().expect("nobody panics");
    assert!(failed.iter().all(AmqpError::is_transient), "{failed:?}");
    println!("{at_kill} confirmed before the kill, {} in the end, {} attempts failed", confirmed.len(), failed.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_restarted_while_it_is_read_loses_no_message_and_hears_no_early_acknowledgement() {
    const COUNT: usize = 300;
    let server = RabbitMq::start();
    let address = server.address();
    Witness::of(&address).await.queue(QUEUE).await;
    server.write_down();
    let publisher = Publisher::new(broker(&address));
    for n in 0..COUNT {
        assert_eq!(publisher.publish(&message(QUEUE, &format!("m{n}")), LIMIT).await, Ok(Published::Confirmed));
    }
    let handled: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let (again, in_hand, most) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // While the gate is shut, what is in hand stays there.
    let gate = Arc::new(tokio::sync::watch::Sender::new(true));
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let reading = {
        let (broker, stop, gate) = (broker(&address), stop.clone(), Arc::clone(&gate));
        let (handled, again, in_hand, most) =
            (Arc::clone(&handled), Arc::clone(&again), Arc::clone(&in_hand), Arc::clone(&most));
        let settings = ConsumerSettings {
            backoff_max: Duration::from_millis(500),
            ..ConsumerSettings::new(QUEUE, NonZeroU16::new(10).expect("not zero"))
        };
        tasks.spawn(async move {
            let handle = async |delivery: Delivery| {
                most.fetch_max(in_hand.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                if delivery.redelivered {
                    again.fetch_add(1, Ordering::SeqCst);
                }
                let mut gate = gate.subscribe();
                gate.wait_for(|open| *open).await.expect("the gate is there");
                *handled.lock().expect("nobody panics").entry(delivery.key.to_string()).or_default() += 1;
                in_hand.fetch_sub(1, Ordering::SeqCst);
                Verdict::Ack
            };
            consume(&broker, &settings, handle, stop).await;
        })
    };
    until(PATIENCE, "a part is handled", async || handled.lock().expect("nobody panics").len() >= 50).await;
    gate.send_replace(false);
    until(PATIENCE, "ten are in hand", async || in_hand.load(Ordering::SeqCst) == 10).await;
    let (before, done) = (server.pid(), handled.lock().expect("nobody panics").len());
    server.kill();
    server.start_again();
    assert_ne!(server.pid(), before, "it is another process");
    // Nothing that was in hand had been acknowledged: it is all still there.
    let witness = Witness::of(&address).await;
    let waiting = witness.waiting(QUEUE).await as usize;
    assert!(waiting >= COUNT - done, "{waiting} wait, {done} were handled");
    gate.send_replace(true);
    until(PATIENCE, "every message is handled", async || {
        let handled = handled.lock().expect("nobody panics").len();
        if handled == COUNT { Ok(()) } else { Err(handled) }
    })
    .await;
    until(PATIENCE, "the queue is empty", async || witness.waiting(QUEUE).await == 0).await;
    stop.cancel();
    reading.await.expect("it stops");
    assert_eq!(witness.waiting(QUEUE).await, 0, "everything was acknowledged");
    assert!(again.load(Ordering::SeqCst) >= 10, "what was in hand came again: {again:?}");
    assert!(most.load(Ordering::SeqCst) <= 10, "never more in hand than prefetch, over both connections: {most:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_frozen_or_full_is_a_matter_of_time() {
    let server = RabbitMq::start();
    let address = server.address();
    let witness = Witness::of(&address).await;
    witness.queue("q").await;
    let publisher = Publisher::new(broker(&address));
    let short = Duration::from_secs(2);
    assert_eq!(publisher.publish(&message("q", "first"), LIMIT).await, Ok(Published::Confirmed));
    // Frozen: it neither answers nor hangs up.
    server.freeze();
    let error = publisher.publish(&message("q", "frozen"), short).await.expect_err("it cannot answer");
    assert_eq!(error, AmqpError::TimedOut { blocked: false });
    assert!(error.is_transient());
    // Nor does it welcome anybody; and whoever gives up leaves no thread behind that waits for it.
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let others: Vec<Publisher> = (0..5).map(|_| Publisher::new(broker(&address))).collect();
    let before = threads();
    for other in &others {
        let error =
            other.publish(&message("q", "stranger"), Duration::from_millis(300)).await.expect_err("it cannot answer");
        assert!(error.is_transient(), "{error}");
    }
    until(PATIENCE, "no thread waits for a broker that does not answer", async || {
        let now = threads();
        if now <= before { Ok(()) } else { Err(format!("{now} threads, {before} before")) }
    })
    .await;
    server.thaw();
    until(PATIENCE, "it goes on", async || publisher.publish(&message("q", "thawed"), short).await).await;
    // Full: it says so, and takes nothing.
    let _ = server.ctl(&["set_vm_memory_high_watermark", "0.0000001"]);
    let said = until(PATIENCE, "it is full", async || match publisher.publish(&message("q", "full"), short).await {
        Err(error @ AmqpError::TimedOut { blocked: true }) => Ok(error),
        other => Err(other),
    })
    .await;
    assert!(said.is_transient() && said.to_string().contains("memory or disk"), "{said}");
    assert!(server.log().contains("memory resource limit alarm set"), "the broker says it was full");
    let _ = server.ctl(&["set_vm_memory_high_watermark", "0.4"]);
    until(PATIENCE, "it takes messages again", async || publisher.publish(&message("q", "again"), short).await).await;
}
