//! The names under which a request is known: its own id, its trace, and what it belongs to.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use bowline_auth::Caller;
use bowline_store::Origin;
use hyper::HeaderMap;
use rand::RngExt;

use crate::door::Entered;
use crate::problem::Problem;

/// The ids of a request.
#[derive(Debug, Clone)]
pub struct Context {
    pub request_id: Arc<str>,
    /// 32 lower-case hex digits.
    pub trace_id: Arc<str>,
    pub correlation_id: Option<Arc<str>>,
}

const NAME_MAX: usize = 128;

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let text = headers.get(name)?.to_str().ok()?;
    let fine = !text.is_empty() && text.len() <= NAME_MAX && text.bytes().all(|b| b.is_ascii_graphic());
    fine.then_some(text)
}

/// The trace id of a `traceparent`, if it is one. A bad one starts a new trace; it never fails a request.
fn trace_of(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    let mut parts = text.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |s: &str, len| s.len() == len && s.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let known = hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
    let real = |s: &str| s.bytes().any(|b| b != b'0');
    (known && hex(trace, 32) && real(trace) && hex(parent, 16) && real(parent) && hex(flags, 2)).then_some(trace)
}

fn fresh() -> Arc<str> {
    let mut text = [0u8; 32];
    let bytes: [u8; 16] = rand::rng().random();
    for (n, byte) in bytes.iter().enumerate() {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        text[2 * n] = HEX[usize::from(byte >> 4)];
        text[2 * n + 1] = HEX[usize::from(byte & 15)];
    }
    std::str::from_utf8(&text).expect("hex digits are text").into()
}

impl Context {
    pub fn of(headers: &HeaderMap) -> Self {
        Self {
            request_id: header(headers, "x-request-id").map_or_else(fresh, Into::into),
            trace_id: trace_of(headers).map_or_else(fresh, Into::into),
            correlation_id: header(headers, "x-correlation-id").map(Into::into),
        }
    }

    /// Where a job came from. By default a request belongs to itself.
    pub fn origin(&self, caller: &Caller) -> Origin {
        Origin {
            actor: caller.actor.to_string().into(),
            email: caller.email.as_ref().map(|email| email.as_str().into()),
            request_id: Arc::clone(&self.request_id),
            trace_id: Some(Arc::clone(&self.trace_id)),
            correlation_id: self.correlation_id.clone(),
            author: None,
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Context {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(parts
            .extensions
            .get::<Entered>()
            .map_or_else(|| Self::of(&parts.headers), |entered| entered.context.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[test]
    fn a_good_traceparent_is_followed_and_a_bad_one_starts_anew() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(&*Context::of(&with("traceparent", good)).trace_id, "0af7651916cd43dd8448eb211c80319c");
        for bad in [
            "",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-extra",
        ] {
            let trace = Context::of(&with("traceparent", bad)).trace_id;
            assert_eq!(trace.len(), 32);
            assert_ne!(&*trace, "0af7651916cd43dd8448eb211c80319c");
        }
    }

    #[test]
    fn a_request_id_is_taken_over_when_it_is_harmless() {
        assert_eq!(&*Context::of(&with("x-request-id", "abc-1")).request_id, "abc-1");
        assert_eq!(Context::of(&with("x-request-id", "a b")).request_id.len(), 32);
    }
}
