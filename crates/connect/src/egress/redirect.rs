//! What becomes of a request that is sent elsewhere. Pure: the request before, what was answered, the request after.

use bytes::Bytes;
use reqwest::header::{CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE, HeaderMap};
use reqwest::{Method, StatusCode, Url};

use super::headers::for_strangers;
use super::target::{BadTarget, next_target};

/// How often one call may be sent elsewhere.
pub const REDIRECTS_MAX: usize = 3;

/// Why a redirect was not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RedirectRefused {
    #[error("the call was redirected more than {REDIRECTS_MAX} times")]
    TooMany,
    #[error("the call was redirected from https to http")]
    Downgrade,
    #[error("the call was redirected to somewhere that cannot be followed: {0}")]
    Target(BadTarget),
}

/// One request, as it is sent.
#[derive(Debug, Clone)]
pub(super) struct Hop {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Option<Bytes>,
}

/// Whether this answer says to ask elsewhere.
pub(super) fn redirects(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

impl Hop {
    /// The request that the answer asks for. Whether its target is allowed is not asked here.
    pub(super) fn redirected(self, status: StatusCode, location: &[u8]) -> Result<Self, RedirectRefused> {
        let location = std::str::from_utf8(location).map_err(|_| RedirectRefused::Target(BadTarget::Characters))?;
        let url = next_target(&self.url, location).map_err(RedirectRefused::Target)?;
        if self.url.scheme() == "https" && url.scheme() == "http" {
            return Err(RedirectRefused::Downgrade);
        }
        let stranger = self.url.origin() != url.origin();
        // 303 says to look at the result; for 301 and 302 everybody turns a POST into a look, and servers rely on it.
        let look = match status.as_u16() {
            303 => self.method != Method::HEAD,
            301 | 302 => self.method == Method::POST,
            _ => false,
        };
        let mut next = Self { url, ..self };
        if stranger {
            next.headers = for_strangers(&next.headers);
        }
        if look {
            next.method = Method::GET;
        }
        if stranger || look {
            next.body = None;
            for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION] {
                next.headers.remove(name);
            }
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn hop(method: Method) -> Hop {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "cookie", "x-api-key", "accept", "content-type"] {
            headers.insert(name, HeaderValue::from_static("v"));
        }
        headers.insert("idempotency-key", HeaderValue::from_static("job"));
        let url = Url::parse("https://a.example/one/two").unwrap();
        Hop { method, url, headers, body: Some(Bytes::from_static(b"{}")) }
    }

    fn sent(
        status: u16,
        method: Method,
        location: &str,
    ) -> Result<(String, String, Vec<String>, bool), RedirectRefused> {
        let next = hop(method).redirected(StatusCode::from_u16(status).unwrap(), location.as_bytes())?;
        let mut names: Vec<_> = next.headers.keys().map(ToString::to_string).collect();
        names.sort();
        Ok((next.method.to_string(), next.url.into(), names, next.body.is_some()))
    }

    #[test]
    fn within_its_origin_a_request_keeps_what_it_has() {
        let all = ["accept", "authorization", "content-type", "cookie", "idempotency-key", "x-api-key"];
        let all: Vec<_> = all.map(str::to_owned).into();
        let to = "https://a.example/three".to_owned();
        assert_eq!(sent(307, Method::POST, "/three#x"), Ok(("POST".to_owned(), to.clone(), all.clone(), true)));
        assert_eq!(sent(308, Method::PUT, "../three"), Ok(("PUT".to_owned(), to.clone(), all.clone(), true)));
        assert_eq!(sent(302, Method::PUT, "/three"), Ok(("PUT".to_owned(), to.clone(), all.clone(), true)));
        let looked: Vec<_> = all.into_iter().filter(|name| name != "content-type").collect();
        for (status, method) in [(301, Method::POST), (302, Method::POST), (303, Method::PUT)] {
            assert_eq!(sent(status, method, "/three"), Ok(("GET".to_owned(), to.clone(), looked.clone(), false)));
        }
        assert_eq!(sent(303, Method::HEAD, "/three").unwrap().0, "HEAD");
    }

    /// B088: another host, another port.
    #[test]
    fn a_stranger_gets_neither_body_nor_keys() {
        let harmless = vec!["accept".to_owned(), "idempotency-key".to_owned()];
        for location in ["https://b.example/", "//b.example/", "https://a.example:8443/"] {
            let (method, _, names, body) = sent(307, Method::POST, location).unwrap();
            assert_eq!((method.as_str(), &names, body), ("POST", &harmless, false), "{location}");
        }
    }

    #[test]
    fn some_redirects_are_not_followed() {
        assert_eq!(sent(302, Method::GET, "http://a.example/"), Err(RedirectRefused::Downgrade));
        let bad = |why| Err(RedirectRefused::Target(why));
        assert_eq!(sent(302, Method::GET, "file:///etc/passwd"), bad(BadTarget::Scheme));
        assert_eq!(sent(302, Method::GET, "gopher://a.example"), bad(BadTarget::Scheme));
        assert_eq!(sent(302, Method::GET, "https://u:p@a.example/"), bad(BadTarget::Login));
        assert_eq!(sent(302, Method::GET, "https://[::1"), bad(BadTarget::Unreadable));
        assert_eq!(
            hop(Method::GET).redirected(StatusCode::FOUND, b"/\xff").err(),
            Some(RedirectRefused::Target(BadTarget::Characters))
        );
    }
}
