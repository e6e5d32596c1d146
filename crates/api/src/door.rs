//! The door every request passes, in and out.
//!
//! In: the request gets its ids, its caller is found, and the caller is held against what the route requires. A handler
//! cannot forget to ask, because it is not reached otherwise. Out: refusals take the one error shape, every answer
//! carries its request id, and the meters move.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::Json;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bowline_auth::{Actor, Caller, Denied};
use bowline_model::audit::Author;
use bowline_model::person::Person;
use bowline_model::{TenantId, WorkerName};
use bowline_store::StoreError;
use bowline_supervise::meters::{ErrorLabels, HttpLabels, RouteLabels};
use hyper::body::Body as _;
use hyper::header::{CONNECTION, CONTENT_LENGTH, RETRY_AFTER, TRANSFER_ENCODING};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use serde_json::json;
use tracing::Instrument;

use crate::access_log::{self, Answered};
use crate::app::App;
use crate::body::BodyRoom;
use crate::context::Context;
use crate::events;
use crate::gate::Trust;
use crate::patience::Patience;
use crate::problem::Problem;
use crate::refusals::Refusal;
use crate::routes::Access;
use crate::serve::Socket;

/// What the door knows of the route behind it.
#[derive(Debug, Clone, Copy)]
pub struct Plate {
    pub path: &'static str,
    pub method: &'static str,
    pub access: Access,
}

/// The path that may be authenticated by a subprotocol.
const SOCKET: &str = "/events/socket";

/// A body of this size has arrived with the head of its request, or comes right behind it.
const LIGHT_BODY_BYTES: u64 = 16 << 10;

/// What a request was given when it was let in. In one piece, because each extension costs an allocation.
#[derive(Debug, Clone)]
pub struct Entered {
    pub context: Context,
    pub patience: Patience,
    pub room: BodyRoom,
    pub caller: Option<Arc<Caller>>,
}

/// Lets a request pass, or not.
pub async fn pass(State((app, plate)): State<(App, Plate)>, request: Request, next: Next) -> Response {
    let context = Context::of(request.headers());
    let heavy = request.body().size_hint().upper().is_none_or(|bytes| bytes > LIGHT_BODY_BYTES);
    let patience = Patience::start();
    let ip = request.extensions().get::<Socket>().map(|socket| socket.peer);
    let mut visit = Visit::start(&app, &plate, &context, &request);
    // Of the highest level, so that a warning has the id however little is logged. The access log has fields of its own.
    let span = tracing::error_span!("request", request.id = %context.request_id);
    let response = tokio::select! {
        biased;
        response = enter(&app, &plate, &context, &patience, &visit.caller, request, next).instrument(span) => response,
        () = patience.over() => too_late(&plate).into_response(),
    };
    let problem = response.extensions().get::<Problem>().cloned();
    let mut response = finish(&app, plate.path, response, &context);
    if heavy && response.status().is_client_error() {
        // Its body may still be on the way. A connection with a rest of it would be cut under the caller's next request.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    visit.answered(response.status().as_u16(), problem.as_ref());
    if let Some(problem) = problem.as_ref().filter(|problem| is_refusal(problem)) {
        let (caller, route, method) = (visit.caller(), plate.path, plate.method);
        app.refusals.note(&Refusal { caller, ip, route, method, problem, request_id: &context.request_id });
    }
    response
}

/// What a request whose caller hung up before the answer is logged and counted as.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// A request until it is logged and counted: when it is answered, or when its future is dropped because the caller hung up.
struct Visit<'a> {
    app: &'a App,
    plate: &'a Plate,
    context: &'a Context,
    started: tokio::time::Instant,
    /// If the access log is on.
    path: Option<String>,
    caller: OnceLock<Arc<Caller>>,
    is_noted: bool,
}

impl<'a> Visit<'a> {
    fn start(app: &'a App, plate: &'a Plate, context: &'a Context, request: &Request) -> Self {
        let (started, path) =
            (tokio::time::Instant::now(), access_log::is_on().then(|| request.uri().path().to_owned()));
        Self { app, plate, context, started, path, caller: OnceLock::new(), is_noted: false }
    }

    fn caller(&self) -> Option<&Caller> {
        self.caller.get().map(|caller| &**caller)
    }

    fn answered(&mut self, status: u16, problem: Option<&Problem>) {
        self.is_noted = true;
        let (meters, took) = (&self.app.engine.meters, self.started.elapsed());
        let (route, method) = (self.plate.path, self.plate.method);
        meters.http_requests.get_or_create(&HttpLabels { route, method, status }).inc();
        meters.http_millis.get_or_create(&RouteLabels { route, method }).observe(took.as_secs_f64() * 1_000.0);
        if let Some(path) = &self.path {
            let caller = self.caller();
            access_log::log(self.context, &Answered { method, route, path, status, took, caller, problem });
        }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if !self.is_noted {
            self.answered(CLIENT_CLOSED_REQUEST, None);
        }
    }
}

/// Whether somebody asked for what they may not have. The audit trail has these.
const fn is_refusal(problem: &Problem) -> bool {
    matches!(problem.status, hyper::StatusCode::UNAUTHORIZED | hyper::StatusCode::FORBIDDEN)
}

async fn enter(
    app: &App,
    plate: &Plate,
    context: &Context,
    patience: &Patience,
    caller: &OnceLock<Arc<Caller>>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let admitted = admit(app, plate, &parts.headers, &parts.method, caller).await;
    let mut request = Request::from_parts(parts, body);
    match admitted {
        Err(problem) => problem.into_response(),
        Ok(()) => {
            // Given back when the request is answered, and not when its body has been read: what it became is held as well.
            let room = BodyRoom::default();
            request.extensions_mut().insert(Entered {
                context: context.clone(),
                patience: patience.clone(),
                room: room.clone(),
                caller: caller.get().cloned(),
            });
            let response = next.run(request).await;
            drop(room);
            response
        }
    }
}

/// A question can be asked again as it is; of anything else, nobody knows yet whether it will be stored.
fn too_late(plate: &Plate) -> Problem {
    let error = "the ledger did not answer in time".to_owned();
    match plate.method {
        "GET" => StoreError::Unavailable(error).into(),
        _ => StoreError::Unknown(error).into(),
    }
}

/// For requests that have no route.
pub async fn lost(State(app): State<App>, request: Request) -> Response {
    turn_away(&app, &request, Problem::not_found("NOT_FOUND", "path"))
}

/// For paths that have routes, but not with this method.
pub async fn wrong_method(State(app): State<App>, request: Request) -> Response {
    let message = format!("{} is not possible here", request.method());
    turn_away(&app, &request, Problem::new(hyper::StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message))
}

/// Answers a request that has no route.
fn turn_away(app: &App, request: &Request, problem: Problem) -> Response {
    let (started, context) = (tokio::time::Instant::now(), Context::of(request.headers()));
    let response = finish(app, "none", problem.clone().into_response(), &context);
    if access_log::is_on() {
        let (method, path, took) = (request.method().as_str(), request.uri().path(), started.elapsed());
        let (status, problem) = (response.status().as_u16(), Some(&problem));
        let answered = Answered { method, route: "none", path, status, took, caller: None, problem };
        access_log::log(&context, &answered);
    }
    response
}

/// Finds the caller, and checks it against what the route requires. The caller is known also where it is refused.
async fn admit(
    app: &App,
    plate: &Plate,
    headers: &HeaderMap,
    method: &Method,
    found: &OnceLock<Arc<Caller>>,
) -> Result<(), Problem> {
    if headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH) {
        return Err(Problem::validation("a request has a length or is chunked, not both"));
    }
    let (needed, trust) = match plate.access {
        Access::Open => return Ok(()),
        Access::Known => (None, Trust::Current),
        Access::Needs { scope, audience } => {
            let control_write = audience == bowline_auth::Audience::Control && *method != Method::GET;
            let trust = match scope {
                // Metrics are wanted most while the ledger is unavailable.
                bowline_auth::Scope::MetricsRead => Trust::LastKnown,
                _ if control_write => Trust::Once,
                _ => Trust::Current,
            };
            (Some((scope, audience)), trust)
        }
    };
    // Browsers cannot set headers on a WebSocket.
    let of_socket = if plate.path == SOCKET { events::with_bearer(headers) } else { None };
    let caller = app.gate.admit(of_socket.as_ref().unwrap_or(headers), trust).await?;
    let caller = found.get_or_init(|| caller);
    if let Some((scope, audience)) = needed {
        caller.require_audience(audience).map_err(denied)?;
        caller.require(scope).map_err(denied)?;
    }
    Ok(())
}

fn denied(denied: Denied) -> Problem {
    match denied {
        Denied::Audience(_) => Problem::unauthorized(denied),
        _ => Problem::forbidden(denied),
    }
}

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

fn finish(app: &App, route: &'static str, mut response: Response, context: &Context) -> Response {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        app.engine.meters.http_errors.get_or_create(&ErrorLabels { route, code: problem.code }).inc();
        let body = json!({
            "error": problem.body(), "request_id": &*context.request_id, "trace_id": &*context.trace_id,
        });
        let mut answer = (problem.status, Json(body)).into_response();
        if let Some(seconds) = problem.retry_after_s {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if problem.status == hyper::StatusCode::REQUEST_TIMEOUT {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response = answer;
    }
    if let Ok(id) = HeaderValue::from_str(&context.request_id) {
        response.headers_mut().insert(&REQUEST_ID, id);
    }
    harden(response.headers_mut());
    response
}

fn harden(headers: &mut HeaderMap) {
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.entry("cache-control").or_insert(HeaderValue::from_static("no-store"));
}

/// The caller, as the door found it.
#[derive(Debug, Clone)]
pub struct Known(pub Arc<Caller>, Asked);

/// Through which request the caller came.
#[derive(Debug, Clone, Default)]
struct Asked {
    request_id: Option<Arc<str>>,
    ip: Option<IpAddr>,
}

impl Known {
    /// Whose things the caller may see.
    pub fn tenant(&self) -> Result<TenantId, Problem> {
        self.0.tenant().map(TenantId::from_uuid).map_err(denied)
    }

    /// Refuses a caller who may not do this, where a route alone does not say it.
    pub fn require(&self, scope: bowline_auth::Scope) -> Result<(), Problem> {
        self.0.require(scope).map(drop).map_err(denied)
    }

    /// Notes that a part of a `POST` was refused, where the request as a whole was not.
    pub fn note_refused_part(&self, app: &App, route: &'static str, problem: &Problem) {
        let Asked { request_id: Some(request_id), ip } = &self.1 else { return };
        if is_refusal(problem) {
            let (caller, ip) = (Some(&*self.0), *ip);
            app.refusals.note(&Refusal { caller, ip, route, method: "POST", problem, request_id });
        }
    }

    /// Who the audit trail names for what the caller does.
    pub fn author(&self) -> Author {
        Author {
            name: self.0.actor.to_string().into(),
            on_behalf_of: None,
            scopes: self.0.scopes.to_string().into(),
            tenant: self.0.tenant.map(TenantId::from_uuid),
            request_id: self.1.request_id.clone(),
            ip: self.1.ip.map(|ip| ip.to_string().into()),
            person: self.person(),
        }
    }

    /// Which person the caller is, where people are counted.
    fn person(&self) -> Person {
        let mail = self.0.email.as_ref().map(|email| Person::mail(email.as_str()));
        Person::named([self.0.actor.to_string(), self.0.person.clone()].into_iter().chain(mail))
    }

    /// The worker this caller is. Its name comes from the credential; a path that says otherwise is somebody else's.
    pub fn worker(&self, named: &str) -> Result<WorkerName, Problem> {
        let Actor::Worker { name, .. } = &self.0.actor else {
            return Err(Problem::forbidden("this needs a worker's token"));
        };
        if name != named {
            return Err(Problem::forbidden("this token belongs to another worker"));
        }
        WorkerName::new(name).map_err(Problem::validation)
    }

    /// The worker this caller is, where the path names none.
    pub fn own_worker(&self) -> Result<WorkerName, Problem> {
        match &self.0.actor {
            Actor::Worker { name, .. } => WorkerName::new(name).map_err(Problem::validation),
            _ => Err(Problem::forbidden("this needs a worker's token")),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Known {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let entered = parts.extensions.get::<Entered>();
        let asked = Asked {
            request_id: entered.map(|entered| Arc::clone(&entered.context.request_id)),
            ip: parts.extensions.get::<Socket>().map(|socket| socket.peer),
        };
        entered
            .and_then(|entered| entered.caller.clone())
            .map(|caller| Self(caller, asked))
            .ok_or_else(|| Problem::unauthorized("nobody was let in here"))
    }
}
