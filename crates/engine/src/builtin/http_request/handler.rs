//! The handler: secrets, the door of the tenant, the call, the outcome.

use std::sync::Arc;

use bowline_connect::Url;
use bowline_connect::egress::{Call, Doors, EgressError};
use bowline_connect::header::{HeaderName, HeaderValue, USER_AGENT};
use bowline_execute::redact::Redactor;
use bowline_model::secret::{Destination, HTTP_REQUEST};
use bowline_model::trace::traceparent;
use bowline_model::{ErrorClass, RunError, TaskType, TenantId};
use bowline_seal::{SecretValue, Values};
use bowline_store::Clock;

use super::output::outcome;
use super::payload::Wish;
use crate::builtin::check::{BadPayload, CheckFuture, Checked};
use crate::builtin::handlers::{Handler, HandlerFuture, Task};
use crate::secrets::{SecretError, Secrets};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Grows with every attempt, so that whoever is asked can refuse one that comes late.
const FENCE: HeaderName = HeaderName::from_static("bowline-fence");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("bowline/", env!("CARGO_PKG_VERSION")));

/// Makes calls for jobs.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    doors: Arc<Doors>,
    secrets: Arc<Secrets>,
    clock: Arc<dyn Clock>,
}

impl HttpRequest {
    /// The task type, and the name under which a `secret_ref` can say that it is for calls alone.
    pub const NAME: &'static str = "http_request";

    pub fn new(doors: Doors, secrets: Arc<Secrets>, clock: Arc<dyn Clock>) -> Self {
        Self { doors: Arc::new(doors), secrets, clock }
    }

    pub fn task_type() -> TaskType {
        TaskType::new(Self::NAME).expect("the standard names are names")
    }

    async fn run(self, task: Task) -> Result<Option<Arc<str>>, RunError> {
        let mut wish = Wish::read(&task.payload)?;
        let values = self.fill(&task, &mut wish).await?;
        wish.headers.entry(USER_AGENT).or_insert(AGENT);
        if !wish.headers.contains_key(IDEMPOTENCY_KEY) {
            let key = HeaderValue::from_str(&task.job.to_string())
                .map_err(|_| RunError::new(ErrorClass::Handler, "the id of the job is no header"))?;
            wish.headers.insert(IDEMPOTENCY_KEY, key);
        }
        wish.headers.insert(FENCE, HeaderValue::from(task.fence));
        if !wish.headers.contains_key(TRACEPARENT)
            && let Ok(parent) = HeaderValue::from_str(&traceparent(task.trace_id.as_deref(), task.job, task.run))
        {
            wish.headers.insert(TRACEPARENT, parent);
        }
        let tenant = self.secrets.tenant_name(task.tenant).await;
        let tenant = tenant.map_err(|error| RunError::new(ErrorClass::Transient, error.to_string()))?;
        let call = Call {
            method: wish.method,
            url: wish.url,
            headers: wish.headers,
            body: wish.body,
            follow_redirects: wish.follow_redirects,
            tenant: Arc::clone(&tenant),
            patience: wish.patience,
        };
        let answer = self.doors.of(&tenant).call(call, &task.stop).await.map_err(|error| failed(&error))?;
        let redactor = Redactor::new(values.values().map(SecretValue::reveal));
        outcome(&answer, wish.accept.as_ref(), &redactor, self.clock.now()).map(|text| Some(text.into()))
    }

    /// What can be said of a payload without a name server and without a secret. A name may still lead somewhere that is
    /// closed; that is seen when it is called.
    async fn look(&self, tenant: TenantId, payload: &str) -> Checked {
        let wish = match Wish::read(payload) {
            Ok(wish) => wish,
            Err(bad) => return Ok(Err(bad)),
        };
        for (name, header) in &wish.secrets {
            let to = destination(&wish.url);
            match self.secrets.check_connector(tenant, HTTP_REQUEST, to, &header.secret_ref).await {
                Ok(()) => {}
                Err(SecretError::Store(error)) => return Err(error),
                Err(error @ (SecretError::NotForConnector { .. } | SecretError::NotForHost { .. })) => {
                    return Ok(Err(BadPayload::denied(format!("headers.{name}"), error)));
                }
                // Whether it can be read is seen when the call is made.
                Err(_) => {}
            }
        }
        let tenant = self.secrets.tenant_name(tenant).await?;
        Ok(self.doors.of(&tenant).check_target(&wish.url).map_err(|error| BadPayload::denied("url", error)))
    }

    /// Puts the values of secrets into their headers.
    async fn fill(&self, task: &Task, wish: &mut Wish) -> Result<Values, RunError> {
        if wish.secrets.is_empty() {
            return Ok(Values::new());
        }
        let url = wish.url.clone();
        let mut values = Values::new();
        for (name, header) in &wish.secrets {
            // Redirects to somebody else leave headers behind, so what counts is who is called first.
            let value =
                self.secrets.for_connector(task.tenant, HTTP_REQUEST, destination(&url), &header.secret_ref).await;
            let value = value.map_err(|error| {
                tracing::warn!(run.id = %task.run, error = %error.whole(), "cannot resolve the secrets of a run");
                RunError::new(error.class(), error.to_string())
            })?;
            wish.headers.insert(name, header.filled(name, value.reveal())?);
            values.insert(format!("secret://{}", header.secret_ref), value);
        }
        Ok(values)
    }
}

/// Where a call sends its headers.
fn destination(url: &Url) -> Destination<'_> {
    Destination {
        scheme: url.scheme(),
        host: url.host_str().unwrap_or_default(),
        port: url.port_or_known_default().unwrap_or_default(),
    }
}

fn failed(error: &EgressError) -> RunError {
    let class = if error.is_transient() { ErrorClass::Transient } else { ErrorClass::Permanent };
    RunError::new(class, format!("{}: {error}", error.code()))
}

impl Handler for HttpRequest {
    fn handle(&self, task: Task) -> HandlerFuture {
        Box::pin(self.clone().run(task))
    }

    fn check<'a>(&'a self, tenant: TenantId, payload: &'a str) -> CheckFuture<'a> {
        Box::pin(self.look(tenant, payload))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::TcpStream;

    use bowline_connect::egress::{EgressRules, TenantRules};
    use bowline_store::ManualClock;
    use bowline_testkit::ScriptedServer;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{NOW, ledger};
    use crate::secrets::SecretRules;

    /// A handler that may call servers on this machine.
    async fn local_caller() -> HttpRequest {
        let (ledger, clock) = (ledger(), ManualClock::at(NOW) as Arc<dyn Clock>);
        let made = ledger.create_tenant(Task::with("").tenant, "acme".to_owned(), "ada".into()).await;
        made.expect("stored").expect("a tenant");
        let secrets = Secrets::new(ledger, Arc::clone(&clock), SecretRules::default(), BTreeMap::default());
        let here = vec!["127.0.0.1/32".parse().expect("a network")];
        let everybody = EgressRules { allow_networks: here, ..EgressRules::default() };
        let doors = Doors::new(TenantRules { everybody, ..TenantRules::default() }).expect("doors");
        HttpRequest::new(doors, secrets, clock)
    }

    #[tokio::test]
    async fn a_call_says_which_job_makes_it_unless_its_payload_does() {
        let server = ScriptedServer::start(|_: &str, stream: &mut TcpStream| {
            ScriptedServer::answer(stream, "200 OK", "", "done")
        });
        let caller = local_caller().await;
        let call = async |headers: Value| {
            let task = Task::with(&json!({"url": server.url("/"), "headers": headers}).to_string());
            let answer = caller.handle(task).await.expect("an answer").expect("a result");
            let answer: Value = serde_json::from_str(&answer).expect("JSON");
            assert_eq!((&answer["status_code"], &answer["body"]), (&json!(200), &json!("done")));
            let request = server.requests().pop().expect("a request");
            ["idempotency-key", "bowline-fence", "traceparent", "user-agent"]
                .map(|name| ScriptedServer::header(&request, name).unwrap_or_default().to_owned())
        };
        let Task { job, run, .. } = Task::with("");
        let agent = AGENT.to_str().expect("text").to_owned();
        let ours = [job.to_string(), "1".to_owned(), traceparent(None, job, run), agent];
        assert_eq!(call(json!({})).await, ours);
        let headers = json!({"Idempotency-Key": "k", "Bowline-Fence": "7", "traceparent": "t", "User-Agent": "a"});
        assert_eq!(call(headers).await, ["k", "1", "t", "a"], "the fence is the one of the run");
    }

    #[tokio::test]
    async fn a_call_that_is_told_to_stop_stops() {
        let server = ScriptedServer::start(|_: &str, stream: &mut TcpStream| ScriptedServer::until_hung_up(stream));
        let task = Task::with(&json!({"url": server.url("/")}).to_string());
        task.stop.cancel();
        let error = local_caller().await.handle(task).await.expect_err("nobody answers");
        assert_eq!(error.message, format!("{}: {}", EgressError::Stopped.code(), EgressError::Stopped));
    }
}
