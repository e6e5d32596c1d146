//! Where brokers may be. A real broker at `127.0.0.1`, which is allowed, stands for the outside; a witness at the same port of
//! another address of this machine, which is not, counts whoever comes.

#[allow(dead_code, reason = "each test program uses its part of it")]
mod common;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_amqp::{AmqpError, Broker, ConsumerSettings, News, Published, Publisher, Verdict, consume_telling};
use bowline_connect::egress::{EgressRules, Judge, Resolver};
use bowline_testkit::{BrokerAddress, ScriptedServer, shared_rabbitmq};
use common::{Witness, broker, message, rules, unique};
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(30);

/// Names with the answers they give, one after the other; the last one stays.
struct Names {
    answers: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    asked: AtomicUsize,
}

impl Names {
    fn of(names: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let parse = |list: &&[&str]| list.iter().map(|text| text.parse().expect("an address")).collect();
        let answers = names.iter().map(|(name, lists)| ((*name).to_owned(), lists.iter().map(parse).collect()));
        Arc::new(Self { answers: Mutex::new(answers.collect()), asked: AtomicUsize::new(0) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait::async_trait]
impl Resolver for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().expect("nobody panicked");
        let list = answers.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(if list.len() > 1 { list.remove(0) } else { list[0].clone() })
    }
}

/// The broker under another name, or what is at its port of another address.
fn called(address: &BrokerAddress, host: &str, names: &Arc<Names>) -> Broker {
    let mut broker = broker(address);
    broker.url.host = host.to_owned();
    broker.judge = Judge::with_resolver(rules(), Arc::<Names>::clone(names));
    broker
}

/// Whoever must not be reached, at the broker's own port. Tests run side by side, so each has an address of its own.
fn witness(address: &BrokerAddress, inside: &str) -> ScriptedServer {
    ScriptedServer::start_at(&format!("{inside}:{}", address.port), |_, _| Ok(()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_is_judged_by_every_address_it_has_and_not_by_its_name() {
    const INSIDE: &str = "127.0.0.2";
    let address = shared_rabbitmq();
    let inside = witness(&address, INSIDE);
    let (eyes, queue) = (Witness::of(&address).await, unique("judged"));
    eyes.queue(&queue).await;
    let names = Names::of(&[
        ("good.example", &[&["127.0.0.1"]]),
        ("bad.example", &[&[INSIDE]]),
        ("mixed.example", &[&["127.0.0.1", INSIDE]]),
        ("metadata.example", &[&["169.254.169.254"]]),
    ]);
    let good = Publisher::new(called(&address, "good.example", &names));
    assert_eq!(good.publish(&message(&queue, "good"), LIMIT).await, Ok(Published::Confirmed));
    for host in ["bad.example", "mixed.example", "metadata.example", INSIDE, "::ffff:127.0.0.2", "10.0.0.1"] {
        let refused = called(&address, host, &names);
        let expected = AmqpError::Denied { address: refused.url.clone() };
        let error = Publisher::new(refused).publish(&message(&queue, host), LIMIT).await.expect_err(host);
        assert_eq!(error, expected);
        assert!(!error.is_transient(), "another try goes to the same place");
        let said = error.to_string();
        assert!(said.starts_with("EGRESS_DENIED: ") && said.contains(host), "{said}");
        assert!(said.contains("`allow_networks` under [egress]"), "{said}");
        assert!(host == INSIDE || !said.replace(host, "").contains("127.0.0"), "it is no map of our network: {said}");
    }
    // A port of some other service, at an address that is allowed.
    let mut elsewhere = called(&address, "good.example", &names);
    elsewhere.url.port = 25;
    let error = Publisher::new(elsewhere).publish(&message(&queue, "x"), LIMIT).await.expect_err("a closed port");
    assert!(matches!(error, AmqpError::DeniedPort { .. }), "{error}");
    assert!(error.to_string().contains("`allow_ports` under [egress]"), "{error}");
    // Who is not known is not denied: it may be known later.
    let unknown = called(&address, "unknown.example", &names);
    let error = Publisher::new(unknown).publish(&message(&queue, "x"), LIMIT).await.expect_err("nobody knows it");
    assert!(matches!(&error, AmqpError::Unreachable { why, .. } if why.contains("resolved")), "{error}");
    assert!(error.is_transient());
    assert_eq!(inside.connections(), 0, "nobody came to where nobody may go");
    assert_eq!(eyes.drain(&queue).await, ["good"]);
    // The evidence that the witness sees who comes.
    let all = EgressRules { allow_networks: vec!["127.0.0.0/8".parse().expect("a network")], ..rules() };
    let mut reached = called(&address, "bad.example", &names);
    reached.judge = Judge::with_resolver(all, Arc::<Names>::clone(&names));
    let said = Publisher::new(reached).publish(&message(&queue, "x"), Duration::from_secs(1)).await;
    assert!(said.is_err(), "it is no broker");
    assert_eq!(inside.connections(), 1);
}

/// A name that is good when it is judged and bad when it is asked again is never asked again.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_judged_is_what_is_dialled() {
    const INSIDE: &str = "127.0.0.3";
    let address = shared_rabbitmq();
    let inside = witness(&address, INSIDE);
    let (eyes, queue) = (Witness::of(&address).await, unique("dialled"));
    eyes.queue(&queue).await;
    let names = Names::of(&[("turncoat.example", &[&["127.0.0.1"], &[INSIDE]])]);
    let first = Publisher::new(called(&address, "turncoat.example", &names));
    assert_eq!(first.publish(&message(&queue, "first"), LIMIT).await, Ok(Published::Confirmed));
    assert_eq!(names.asked(), 1);
    // The next connection is judged anew.
    let second = Publisher::new(called(&address, "turncoat.example", &names));
    let error = second.publish(&message(&queue, "second"), LIMIT).await.expect_err("it has changed its mind");
    assert!(matches!(error, AmqpError::Denied { .. }), "{error}");
    assert_eq!((names.asked(), inside.connections()), (2, 0));
    // The connection that was made before is the one to whom it was allowed.
    assert_eq!(first.publish(&message(&queue, "third"), LIMIT).await, Ok(Published::Confirmed));
    assert_eq!(eyes.drain(&queue).await, ["first", "third"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_reads_only_where_it_may_go() {
    const INSIDE: &str = "127.0.0.4";
    let address = shared_rabbitmq();
    let inside = witness(&address, INSIDE);
    let (eyes, queue) = (Witness::of(&address).await, unique("read"));
    eyes.queue(&queue).await;
    let sent = Publisher::new(broker(&address)).publish(&message(&queue, "m"), LIMIT).await;
    assert_eq!(sent, Ok(Published::Confirmed));
    // Denied, unknown for a moment, and then where it should be.
    let names = Names::of(&[("queue.example", &[&[INSIDE], &["127.0.0.1", "10.0.0.1"], &[], &["127.0.0.1"]])]);
    let (stop, news) = (CancellationToken::new(), Mutex::new(Vec::new()));
    let backoff = Duration::from_millis(1);
    let settings = ConsumerSettings { backoff, ..ConsumerSettings::new(&queue, NonZeroU16::MIN) };
    let tell = |told: News<'_>| {
        news.lock().expect("nobody panicked").push(match told {
            News::Reading => "reading".to_owned(),
            News::Interrupted(AmqpError::Denied { .. }) => "denied".to_owned(),
            News::Interrupted(error) => format!("transient: {}", error.is_transient()),
        });
    };
    let take = async |_| {
        stop.cancel();
        Verdict::Ack
    };
    let broker = called(&address, "queue.example", &names);
    let reading = consume_telling(&broker, &settings, take, stop.clone(), &tell);
    tokio::time::timeout(LIMIT, reading).await.expect("it is read in the end");
    assert_eq!(*news.lock().expect("nobody panicked"), ["denied", "denied", "transient: true", "reading"]);
    assert_eq!((names.asked(), inside.connections(), eyes.waiting(&queue).await), (4, 0, 0));
}
