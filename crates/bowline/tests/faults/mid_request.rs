//! F05: the server is killed while its own `http_request` waits for an answer.
//!
//! Whether the other side did what it was asked, nobody knows. The next attempt asks again under the same key and with a
//! higher fence, so that it is done once; and one result is recorded.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bowline_testkit::{ScriptedServer, fresh_database, until};
use serde_json::{Value, json};

use crate::support::{SHORT_LEASES, Setup, TestServer};

/// The other side: its first call waits until it is let go or hung up on; the others are answered at once.
pub struct Receiver {
    pub server: ScriptedServer,
    /// Calls that were hung up on before they were answered.
    cut: Arc<AtomicUsize>,
    let_go: Arc<AtomicBool>,
}

impl Receiver {
    pub fn start() -> Self {
        let (cut, let_go, calls) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default(), AtomicUsize::new(0));
        let (cuts, go) = (Arc::clone(&cut), Arc::clone(&let_go));
        let server = ScriptedServer::start(move |_, stream| {
            let call = calls.fetch_add(1, Ordering::SeqCst) + 1;
            stream.set_read_timeout(Some(Duration::from_millis(20)))?;
            while call == 1 && !go.load(Ordering::SeqCst) {
                match stream.peek(&mut [0; 1]) {
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    _ => {
                        cuts.fetch_add(1, Ordering::SeqCst);
                        return Ok(());
                    }
                }
            }
            let body = json!({"call": call}).to_string();
            ScriptedServer::answer(stream, "200 OK", "content-type: application/json\r\n", &body)
        });
        Self { server, cut, let_go }
    }

    pub fn cut(&self) -> usize {
        self.cut.load(Ordering::SeqCst)
    }

    pub fn let_go(&self) {
        self.let_go.store(true, Ordering::SeqCst);
    }

    pub async fn is_called(&self) {
        until(Duration::from_secs(20), "the call has arrived", async || !self.server.requests().is_empty()).await;
    }
}

pub fn config() -> String {
    format!("{SHORT_LEASES}[egress]\nallow_networks = [\"127.0.0.1/32\"]\n")
}

/// One call was cut off before it was answered; the next one came under the same key with a higher fence, and its answer is
/// the one result.
pub fn asked_again(shown: &Value, calls: &[String], cut: usize) -> Result<(), String> {
    let job = shown["job"]["id"].as_str().unwrap_or("");
    if (cut, calls.len()) != (1, 2) {
        return Err(format!("{cut} of {} calls were cut off", calls.len()));
    }
    let told = |name| calls.iter().map(|call| ScriptedServer::header(call, name)).collect::<Vec<_>>();
    let keys = told("idempotency-key");
    if keys != [Some(job), Some(job)] {
        return Err(format!("the calls of job {job} came under the keys {keys:?}"));
    }
    let fences: Vec<Option<u64>> = told("bowline-fence").into_iter().map(|fence| fence?.parse().ok()).collect();
    if fences[0].is_none() || fences[0] >= fences[1] {
        return Err(format!("the fences do not grow: {fences:?}"));
    }
    let runs = shown["runs"].as_array().cloned().unwrap_or_default();
    let ended: Vec<_> = runs.iter().map(|run| (run["status"].as_str(), run["fence"].as_u64())).collect();
    if ended != [(Some("lost"), fences[0]), (Some("success"), fences[1])] {
        return Err(format!("the attempts ended as {ended:?}"));
    }
    if shown["job"]["result"]["body"] == json!({"call": 2}) {
        return Ok(());
    }
    Err(format!("the result is {}", shown["job"]["result"]))
}

async fn the_next_attempt_asks_again(setup: Setup) {
    let receiver = Receiver::start();
    let mut server = TestServer::with(setup).await;
    let job = server
        .submit(json!({"type": "http_request", "payload": {"method": "POST", "url": receiver.server.url("/pay")}}))
        .await;
    receiver.is_called().await;
    assert_eq!(receiver.cut(), 0, "the call is under way");
    let killed = server.child().pid();
    server.kill_9();
    until(Duration::from_secs(20), "the call was cut off", async || receiver.cut() == 1).await;
    server.start_again().await;
    assert_ne!(server.child().pid(), killed);
    let shown = server.until_status(&job, "success").await;
    let calls = receiver.server.requests();
    asked_again(&shown, &calls, receiver.cut()).expect("one effect");

    // The control: the same story with a key for each attempt, with fences that stand still, with two results.
    let other_key = vec![calls[0].clone(), calls[1].replace(&job, "a key of its own")];
    assert!(asked_again(&shown, &other_key, 1).is_err());
    let stands_still = vec![calls[0].clone(), calls[1].replace("bowline-fence: 2", "bowline-fence: 1")];
    assert!(asked_again(&shown, &stands_still, 1).is_err());
    let mut doubled = shown.clone();
    doubled["runs"][0]["status"] = json!("success");
    assert!(asked_again(&doubled, &calls, 1).is_err());
    assert!(asked_again(&shown, &calls, 0).is_err(), "nothing was cut off");

    server.stop().await;
    server.assert_verified();
}

#[tokio::test]
async fn a_server_killed_in_a_call_asks_again_under_the_same_key_embedded() {
    the_next_attempt_asks_again(Setup { config: config(), ..Setup::default() }).await;
}

#[tokio::test]
async fn a_server_killed_in_a_call_asks_again_under_the_same_key_on_postgresql() {
    let database = fresh_database();
    let database_url = Some(database.url().to_owned());
    the_next_attempt_asks_again(Setup { config: config(), database_url, ..Setup::default() }).await;
}
