//! What a payload of `http_request` says.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_connect::egress::{self, BadHeader};
use bowline_connect::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use bowline_connect::{Method, Url};
use bowline_model::ResourceName;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::output::Accept;
use crate::builtin::check::BadPayload;

const TIMEOUT_MS: u64 = 30_000;
const TIMEOUT_MAX_MS: u64 = 3_600_000;
const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    #[serde(default)]
    method: Option<String>,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, Value>,
    #[serde(default)]
    query: BTreeMap<String, Value>,
    /// As it was written: numbers keep all their digits.
    #[serde(default)]
    body: Option<Box<RawValue>>,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    follow_redirects: Option<bool>,
    #[serde(default)]
    accept: Option<Vec<String>>,
}

/// A header whose value is not in the payload.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretHeader {
    pub secret_ref: ResourceName,
    /// What stands before the value, such as `Bearer `.
    #[serde(default)]
    pub prefix: String,
}

impl SecretHeader {
    /// The header with its value in it.
    pub fn filled(&self, name: &HeaderName, value: &str) -> Result<HeaderValue, BadPayload> {
        let text = format!("{}{value}", self.prefix);
        let (_, mut value) = egress::header(name.as_str(), &text).map_err(|_| {
            let secret = &self.secret_ref;
            wrong(&format!("headers.{name}"), format!("the value of secret {secret} cannot be that of a header"))
        })?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// What is asked, but for the values of secrets.
#[derive(Debug)]
pub struct Wish {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub secrets: Vec<(HeaderName, SecretHeader)>,
    pub body: Option<Bytes>,
    pub patience: Duration,
    pub follow_redirects: bool,
    pub accept: Option<Accept>,
}

fn wrong(place: &str, why: impl std::fmt::Display) -> BadPayload {
    BadPayload::wrong(place, why)
}

impl Wish {
    /// Reads a payload, or says which field is wrong.
    pub fn read(payload: &str) -> Result<Self, BadPayload> {
        let mut reader = serde_json::Deserializer::from_str(payload);
        let read: Payload = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let path = error.path().to_string();
            wrong(if path == "." { "" } else { &path }, error.into_inner())
        })?;
        let (headers, secrets) = headers(read.headers)?;
        let mut url = egress::target(&read.url).map_err(|why| wrong("url", why))?;
        add_query(&mut url, &read.query)?;
        let mut wish = Self {
            method: method(read.method.as_deref())?,
            url,
            headers,
            secrets,
            body: None,
            patience: patience(read.timeout_ms)?,
            follow_redirects: read.follow_redirects.unwrap_or(true),
            accept: read.accept.map(|list| Accept::read(&list)).transpose().map_err(|why| wrong("accept", why))?,
        };
        if let Some(body) = read.body {
            wish.set_body(body.get())?;
        }
        Ok(wish)
    }

    /// JSON, unless it is a text and a header says what sort of text.
    fn set_body(&mut self, raw: &str) -> Result<(), BadPayload> {
        let told = self.headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default().to_owned());
        let is_json = told.as_deref().is_none_or(super::output::is_json);
        let body = match raw.starts_with('"') {
            _ if is_json => Bytes::copy_from_slice(raw.as_bytes()),
            true => serde_json::from_str::<String>(raw).map_err(|why| wrong("body", why))?.into(),
            false => {
                let told = told.unwrap_or_default();
                return Err(wrong("body", format!("only a text can be sent as {told}; anything else is sent as JSON")));
            }
        };
        self.headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        self.body = Some(body);
        Ok(())
    }
}

fn method(text: Option<&str>) -> Result<Method, BadPayload> {
    let Some(text) = text else { return Ok(Method::GET) };
    let found = METHODS.into_iter().find(|method| method.as_str() == text);
    found.ok_or_else(|| wrong("method", "one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"))
}

fn patience(ms: Option<u64>) -> Result<Duration, BadPayload> {
    match ms.unwrap_or(TIMEOUT_MS) {
        ms @ 1..=TIMEOUT_MAX_MS => Ok(Duration::from_millis(ms)),
        _ => Err(wrong("timeout_ms", format!("between 1 and {TIMEOUT_MAX_MS}"))),
    }
}

type Secrets = Vec<(HeaderName, SecretHeader)>;

fn headers(wanted: BTreeMap<String, Value>) -> Result<(HeaderMap, Secrets), BadPayload> {
    let (mut plain, mut secret) = (HeaderMap::new(), Secrets::new());
    for (name, value) in wanted {
        // A name that is none is shown as text, so that it cannot pass for anything else.
        let place = format!("headers.{}", name.escape_debug());
        let bad = |why: BadHeader| wrong(&place, why);
        match value {
            Value::String(text) => {
                let (name, value) = egress::header(&name, &text).map_err(bad)?;
                if plain.insert(name, value).is_some() {
                    return Err(wrong(&place, "the same header is there twice"));
                }
            }
            Value::Object(_) => {
                let wish: SecretHeader = serde_json::from_value(value).map_err(|why| wrong(&place, why))?;
                let (name, _) = egress::header(&name, &wish.prefix).map_err(bad)?;
                if plain.contains_key(&name) || secret.iter().any(|(other, _)| *other == name) {
                    return Err(wrong(&place, "the same header is there twice"));
                }
                secret.push((name, wish));
            }
            _ => return Err(wrong(&place, r#"a text, or {"secret_ref": "name", "prefix": "Bearer "}"#)),
        }
    }
    if let Some((name, _)) = secret.iter().find(|(name, _)| plain.contains_key(name)) {
        return Err(wrong(&format!("headers.{name}"), "the same header is there twice"));
    }
    Ok((plain, secret))
}

fn add_query(url: &mut Url, query: &BTreeMap<String, Value>) -> Result<(), BadPayload> {
    for (name, value) in query {
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => return Err(wrong(&format!("query.{name}"), "a text, a number, true, false, or a list of such")),
            };
            url.query_pairs_mut().append_pair(name, &text);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bowline_model::{ErrorClass, RunError};
    use serde_json::json;

    use super::*;

    fn read(payload: Value) -> Result<Wish, String> {
        Wish::read(&payload.to_string()).map_err(|bad| {
            let error = RunError::from(bad);
            assert_eq!(error.class, ErrorClass::Permanent);
            error.message
        })
    }

    #[test]
    fn a_url_is_enough() {
        let wish = read(json!({"url": "https://example.org"})).unwrap();
        assert_eq!((wish.method, wish.url.as_str()), (Method::GET, "https://example.org/"));
        assert_eq!((wish.patience, wish.follow_redirects), (Duration::from_secs(30), true));
        assert!(wish.headers.is_empty() && wish.secrets.is_empty() && wish.body.is_none() && wish.accept.is_none());
    }

    #[test]
    fn what_is_said_of_a_call_is_read() {
        let all = json!({
            "url": "https://example.org", "method": "PATCH", "timeout_ms": TIMEOUT_MAX_MS, "follow_redirects": false,
            "accept": ["2xx", "404"],
        });
        let wish = read(all).unwrap();
        assert_eq!((wish.method, wish.follow_redirects), (Method::PATCH, false));
        assert_eq!(wish.patience, Duration::from_millis(TIMEOUT_MAX_MS));
        assert_eq!(wish.accept, Accept::read(&["2xx".to_owned(), "404".to_owned()]).ok());
        let least = read(json!({"url": "https://example.org", "timeout_ms": 1})).unwrap();
        assert_eq!(least.patience, Duration::from_millis(1));
    }

    #[test]
    fn a_query_is_added_and_encoded() {
        let query = json!({"q": "a b&c", "n": 7, "ok": true, "tag": ["x", "ü"]});
        let wish = read(json!({"url": "https://example.org/?a=1", "query": query})).unwrap();
        assert_eq!(wish.url.as_str(), "https://example.org/?a=1&n=7&ok=true&q=a+b%26c&tag=x&tag=%C3%BC");
    }

    #[test]
    fn a_body_is_json_unless_a_text_says_otherwise() {
        let sent = |payload: &str| {
            let wish = Wish::read(payload).unwrap();
            let told = wish.headers[CONTENT_TYPE].to_str().unwrap().to_owned();
            (String::from_utf8(wish.body.unwrap().to_vec()).unwrap(), told)
        };
        let exact = r#"{"amount":12345678901234567890.10,"b":[1, 2]}"#;
        let payload = format!(r#"{{"url":"http://a","method":"POST","body":{exact}}}"#);
        assert_eq!(sent(&payload), (exact.to_owned(), "application/json".to_owned()));
        let told = |content_type: &str, body: &str| {
            sent(&format!(r#"{{"url":"http://a","headers":{{"Content-Type":"{content_type}"}},"body":{body}}}"#)).0
        };
        assert_eq!(told("text/plain", r#""a\nb""#), "a\nb");
        assert_eq!(told("application/json; charset=utf-8", r#""a""#), r#""a""#);
        assert_eq!(told("application/merge-patch+json", "{}"), "{}");
        let none = read(json!({"url": "http://a", "body": null})).unwrap();
        assert!(none.body.is_none() && none.headers.is_empty());
    }

    #[test]
    fn a_secret_is_named_and_never_written() {
        let headers = json!({"Authorization": {"secret_ref": "stripe", "prefix": "Bearer "}, "x-a": "b"});
        let wish = read(json!({"url": "http://a", "headers": headers})).unwrap();
        let (name, secret) = &wish.secrets[0];
        assert_eq!(
            (name.as_str(), secret.secret_ref.as_str(), secret.prefix.as_str()),
            ("authorization", "stripe", "Bearer ")
        );
        let value = secret.filled(name, "hunter22").unwrap();
        assert_eq!(value, "Bearer hunter22");
        assert!(!format!("{value:?}").contains("hunter22"));
        let error = secret.filled(name, "hunter22\r\nx-evil: 1").unwrap_err();
        assert!(error.what.contains("stripe") && !error.what.contains("hunter22"), "{error}");
    }

    /// B089, B090, and everything else that is not meant.
    #[test]
    fn what_is_wrong_is_named_by_its_place() {
        let ok = "http://a";
        for (payload, place) in [
            (json!(null), "payload"),
            (json!([]), "payload"),
            (json!({}), "payload: missing field `url`"),
            (json!({"url": 7}), "url"),
            (json!({"url": "gopher://a"}), "url: the url must begin with"),
            (json!({"url": "http://user:pw@a"}), "url: the url has a login"),
            (json!({"url": ok, "uri": "x"}), "uri: unknown field"),
            (json!({"url": ok, "method": "get"}), "method: one of"),
            (json!({"url": ok, "method": "CONNECT"}), "method: one of"),
            (json!({"url": ok, "timeout_ms": 0}), "timeout_ms: between"),
            (json!({"url": ok, "timeout_ms": 3_600_001}), "timeout_ms: between"),
            (json!({"url": ok, "timeout_ms": -1}), "timeout_ms"),
            (json!({"url": ok, "follow_redirects": "yes"}), "follow_redirects"),
            (json!({"url": ok, "accept": ["6xx"]}), "accept"),
            (json!({"url": ok, "accept": [200]}), "accept"),
            (json!({"url": ok, "accept": []}), "accept"),
            (json!({"url": ok, "query": {"a": {"b": 1}}}), "query.a: a text"),
            (json!({"url": ok, "query": {"a": null}}), "query.a: a text"),
            (json!({"url": ok, "headers": {"x-a": "b\r\nx-evil: 1"}}), "headers.x-a: the value"),
            (json!({"url": ok, "headers": {"x\r\na": "b"}}), r"headers.x\r\na: "),
            (json!({"url": ok, "headers": {"Host": "evil"}}), "headers.Host: header host is set by Bowline"),
            (json!({"url": ok, "headers": {"Content-Length": "1"}}), "headers.Content-Length: "),
            (json!({"url": ok, "headers": {"Transfer-Encoding": "chunked"}}), "headers.Transfer-Encoding: "),
            (json!({"url": ok, "headers": {"x-a": 1}}), "headers.x-a: a text, or"),
            (json!({"url": ok, "headers": {"X-A": "1", "x-a": "2"}}), "headers.x-a: the same header"),
            (json!({"url": ok, "headers": {"X-A": {"secret_ref": "s"}, "x-a": "2"}}), "headers.x-a: the same header"),
            (json!({"url": ok, "headers": {"x-a": {"secret_ref": "../x"}}}), "headers.x-a: "),
            (json!({"url": ok, "headers": {"x-a": {"secret": "s"}}}), "headers.x-a: unknown field"),
            (json!({"url": ok, "headers": {"x-a": {"secret_ref": "s", "prefix": "a\nb"}}}), "headers.x-a: the value"),
            (json!({"url": ok, "headers": {"content-type": "text/plain"}, "body": {"a": 1}}), "body: only a text"),
        ] {
            let error = read(payload.clone()).expect_err(&payload.to_string());
            assert!(error.starts_with(&format!("VALIDATION_ERROR: {place}")), "{payload}: {error}");
            assert!(!error.contains("evil: 1") && !error.contains(":pw"), "{error}");
        }
    }
}
