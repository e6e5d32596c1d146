//! The client: one call, from a checked target to a whole answer.
//!
//! Every call has a connection of its own. A kept one would save a handshake, and would share with one tenant what another
//! tenant's call left on it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Method, Response, StatusCode, Url};
use tokio_util::sync::CancellationToken;

use super::error::EgressError;
use super::judge::Judge;
use super::redirect::{Hop, REDIRECTS_MAX, RedirectRefused, redirects};
use super::resolver::{JudgingResolver, Resolver, SystemResolver};
use super::room::{AnswerRoom, FREE, Room};
use super::rules::EgressRules;

/// How many headers an answer may have.
const ANSWER_HEADERS_MAX: usize = 100;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Call {
    pub method: Method,
    /// From [`target`](super::target).
    pub url: Url,
    /// Each from [`header`](super::header), or the caller's own. Values of secrets are marked sensitive.
    pub headers: HeaderMap,
    pub body: Option<Bytes>,
    pub follow_redirects: bool,
    /// For which tenant, by name: each has its share of the room for answers.
    pub tenant: Arc<str>,
    /// For everything together: names, connections, redirects, the last byte of the answer.
    pub patience: Duration,
}

/// What was answered, by whoever answered last.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub url: Url,
    /// What the body takes of the room for answers; a short one takes none.
    pub room: Option<Arc<AnswerRoom>>,
}

/// The door to the outside.
#[derive(Debug, Clone)]
pub struct Egress {
    judge: Judge,
    http: reqwest::Client,
}

impl Egress {
    pub fn new(rules: EgressRules) -> Result<Self, EgressError> {
        Self::with_resolver(rules, Arc::new(SystemResolver))
    }

    /// With somebody else to ask for names.
    pub fn with_resolver(rules: EgressRules, resolver: Arc<dyn Resolver>) -> Result<Self, EgressError> {
        // The second one to install it finds it there; that is all right.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let judge = Judge::with_resolver(rules, resolver);
        let client = || builder(judge.clone());
        let http = client().build().or_else(|error| {
            // A machine without certificates is no reason not to serve: http works, and of https nothing is believed.
            tracing::warn!(
                "https cannot be called, because this machine's root certificates cannot be read: {error:?}"
            );
            client().tls_certs_only([]).build()
        });
        let http = http.map_err(|error| EgressError::Client(error.to_string()))?;
        Ok(Self { judge, http })
    }

    /// Whether a call could lead there, as far as it can be said before a name is resolved.
    pub fn check_target(&self, url: &Url) -> Result<(), EgressError> {
        self.judge.rules().check_target(url)
    }

    /// Asks, and waits for the whole answer. Gives up when `stop` is canceled.
    pub async fn call(&self, call: Call, stop: &CancellationToken) -> Result<Answer, EgressError> {
        let patience = call.patience;
        let asked = tokio::time::timeout(patience, Box::pin(self.follow(call)));
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(EgressError::Stopped),
            answer = asked => answer.unwrap_or(Err(EgressError::Timeout(patience))),
        }
    }

    async fn follow(&self, call: Call) -> Result<Answer, EgressError> {
        let Call { method, url, headers, body, follow_redirects, tenant, .. } = call;
        let mut hop = Hop { method, url, headers, body };
        let mut redirected = 0;
        loop {
            let response = self.send(&hop).await?;
            let status = response.status();
            let location = response.headers().get(LOCATION).filter(|_| follow_redirects && redirects(status));
            let Some(location) = location else { return self.read(response, &hop.method, &tenant).await };
            if redirected == REDIRECTS_MAX {
                return Err(RedirectRefused::TooMany.into());
            }
            redirected += 1;
            hop = hop.redirected(status, location.as_bytes())?;
        }
    }

    async fn send(&self, hop: &Hop) -> Result<Response, EgressError> {
        self.judge.rules().check_target(&hop.url)?;
        let mut request = self.http.request(hop.method.clone(), hop.url.clone()).headers(hop.headers.clone());
        request = request.header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(body) = &hop.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(|error| EgressError::of_client(&error))
    }

    async fn read(&self, mut response: Response, method: &Method, tenant: &str) -> Result<Answer, EgressError> {
        let max_bytes = self.judge.rules().response_max_bytes;
        let too_large = EgressError::TooLarge { max_bytes };
        // An answer to HEAD tells the length of what it does not bring.
        let told = response.content_length().filter(|_| method != Method::HEAD);
        let told = told.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        if told.is_some_and(|bytes| bytes > max_bytes) {
            return Err(too_large);
        }
        let (status, headers, url) = (response.status(), response.headers().clone(), response.url().clone());
        let (mut body, mut room) = (BytesMut::new(), None);
        while let Some(chunk) = response.chunk().await.map_err(|error| EgressError::of_client(&error))? {
            if body.len() + chunk.len() > max_bytes {
                return Err(too_large);
            }
            if room.is_none() && body.len() + chunk.len() > FREE {
                room = Some(Room::of_process().take(tenant, told.unwrap_or(max_bytes)).await);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, headers, body: body.freeze(), url, room: room.map(Arc::new) })
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one client that others must use")]
fn builder(judge: Judge) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .dns_resolver(JudgingResolver(judge))
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .pool_max_idle_per_host(0)
        .http1_only()
        .http1_max_headers(ANSWER_HEADERS_MAX)
        // Whichever features others switch on in the same build.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
}
