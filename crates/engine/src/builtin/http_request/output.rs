//! From an answer to the result of a job, or to a failure.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_connect::StatusCode;
use bowline_connect::egress::Answer;
use bowline_connect::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use bowline_execute::redact::Redactor;
use bowline_model::{ErrorClass, RunError, Timestamp};
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::retry_after::retry_after_ms;

/// How much of a refused answer is told.
const EXCERPT_CHARS: usize = 200;

/// Which statuses are good answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accept(Vec<Accepted>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accepted {
    /// The first digit.
    Class(u16),
    Code(u16),
}

impl Accept {
    pub fn read(texts: &[String]) -> Result<Self, &'static str> {
        const SHAPE: &str = r#"a list such as ["2xx", "404"], with one entry at least"#;
        let one = |text: &String| match text.as_bytes() {
            [digit @ b'1'..=b'5', b'x', b'x'] => Ok(Accepted::Class(u16::from(digit - b'0'))),
            [b'1'..=b'5', b'0'..=b'9', b'0'..=b'9'] => text.parse().map(Accepted::Code).map_err(|_| SHAPE),
            _ => Err(SHAPE),
        };
        let list: Vec<_> = texts.iter().map(one).collect::<Result<_, _>>()?;
        if list.is_empty() { Err(SHAPE) } else { Ok(Self(list)) }
    }

    fn has(&self, status: u16) -> bool {
        self.0.iter().any(|accepted| match accepted {
            Accepted::Class(digit) => status / 100 == *digit,
            Accepted::Code(code) => status == *code,
        })
    }
}

/// Whether an answer of this status is a result; if not, whether asking again can help.
fn failure(status: u16, accept: Option<&Accept>) -> Option<ErrorClass> {
    match (accept, status) {
        (Some(accept), _) if accept.has(status) => None,
        (_, 429 | 500..) | (Some(_), 408) => Some(ErrorClass::Transient),
        (None, _) => None,
        (Some(_), _) => Some(ErrorClass::Permanent),
    }
}

/// Whether a content type says JSON.
pub fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(essence.as_str(), "application/json" | "text/json") || essence.ends_with("+json")
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body {
    Nothing,
    Json(Box<RawValue>),
    Text(String),
    Bytes { base64: String },
}

#[derive(Serialize)]
struct Output<'a> {
    status_code: u16,
    headers: BTreeMap<&'a str, String>,
    body: Body,
    url: String,
}

/// What the job gets. Nothing of it has the value of a secret in it, whatever the server sent back.
pub fn outcome(
    answer: &Answer,
    accept: Option<&Accept>,
    redactor: &Redactor,
    now: Timestamp,
) -> Result<String, RunError> {
    let body = clean(redactor, &answer.body);
    if let Some(class) = failure(answer.status.as_u16(), accept) {
        let retry_after_ms = retry_after_ms(&answer.headers, now);
        let error = RunError::new(class, refused(answer.status, retry_after_ms, &body));
        return Err(RunError { retry_after_ms, ..error });
    }
    let mut headers: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in &answer.headers {
        let value = text(redactor, value.as_bytes());
        headers.entry(name.as_str()).and_modify(|all| *all = format!("{all}, {value}")).or_insert(value);
    }
    let output = Output {
        status_code: answer.status.as_u16(),
        headers,
        body: read_body(&answer.headers, body),
        url: text(redactor, answer.url.as_str().as_bytes()),
    };
    serde_json::to_string(&output)
        .map_err(|error| RunError::new(ErrorClass::Handler, format!("the answer cannot be written down: {error}")))
}

fn clean(redactor: &Redactor, bytes: &[u8]) -> Vec<u8> {
    let (mut redactor, mut clean) = (redactor.clone(), Vec::with_capacity(bytes.len()));
    redactor.push(bytes, &mut clean);
    redactor.finish(&mut clean);
    clean
}

fn text(redactor: &Redactor, bytes: &[u8]) -> String {
    String::from_utf8_lossy(&clean(redactor, bytes)).into_owned()
}

fn read_body(headers: &HeaderMap, bytes: Vec<u8>) -> Body {
    if bytes.is_empty() {
        return Body::Nothing;
    }
    let packed = headers.get(CONTENT_ENCODING).is_some_and(|how| !how.as_bytes().eq_ignore_ascii_case(b"identity"));
    let text = match String::from_utf8(bytes) {
        Ok(text) if !packed => text,
        Ok(text) => return Body::Bytes { base64: STANDARD.encode(text) },
        Err(not_text) => return Body::Bytes { base64: STANDARD.encode(not_text.as_bytes()) },
    };
    let told = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if told.is_some_and(is_json) && serde_json::from_str::<Sound>(&text).is_ok() {
        // As it came: a number keeps all its digits.
        return match RawValue::from_string(text) {
            Ok(json) => Body::Json(json),
            Err(_) => Body::Nothing,
        };
    }
    Body::Text(text)
}

fn refused(status: StatusCode, retry_after_ms: Option<u64>, body: &[u8]) -> String {
    let mut message = format!("UPSTREAM_ERROR: the server answered {}", status.as_u16());
    if let Some(reason) = status.canonical_reason() {
        message = format!("{message} {reason}");
    }
    if let Some(ms) = retry_after_ms {
        message = format!("{message}, and to come back in {} s", ms.div_ceil(1_000));
    }
    let Ok(text) = std::str::from_utf8(body) else { return message };
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let excerpt: String = plain.take(EXCERPT_CHARS).collect();
    match excerpt.trim() {
        "" => message,
        excerpt if text.chars().count() > EXCERPT_CHARS => format!("{message}: {excerpt}…"),
        excerpt => format!("{message}: {excerpt}"),
    }
}

/// JSON that every reader can read: not nested too deep, no broken characters, no number beyond all bounds. It is looked
/// through and not built, because a small text can become a large tree.
struct Sound;

impl<'de> Deserialize<'de> for Sound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Look)
    }
}

struct Look;

impl<'de> Visitor<'de> for Look {
    type Value = Sound;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_str<E>(self, _: &str) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_unit<E>(self) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Sound, A::Error> {
        while let Some(Sound) = list.next_element()? {}
        Ok(Sound)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sound, A::Error> {
        while let Some((Sound, Sound)) = map.next_entry()? {}
        Ok(Sound)
    }
}

#[cfg(test)]
mod tests {
    use bowline_connect::Url;
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1);

    fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &[u8]) -> Answer {
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers.iter().map(|(n, v)| (n.parse().unwrap(), v.parse().unwrap())).collect(),
            body: Bytes::copy_from_slice(body),
            url: Url::parse("http://a.example/b?c=d").unwrap(),
            room: None,
        }
    }

    fn body(headers: &[(&'static str, &'static str)], body: &[u8]) -> Value {
        let text = outcome(&answer(200, headers, body), None, &Redactor::new([]), NOW).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["body"].take()
    }

    const JSON: &[(&str, &str)] = &[("content-type", "application/json; charset=utf-8")];

    #[test]
    fn an_answer_is_told_as_it_is() {
        let headers = [("content-type", "application/json"), ("x-a", "1"), ("x-a", "2")];
        let text = outcome(&answer(404, &headers, br#"{"n": 12345678901234567890.10}"#), None, &Redactor::new([]), NOW);
        assert_eq!(
            text.unwrap(),
            r#"{"status_code":404,"headers":{"content-type":"application/json","x-a":"1, 2"},"body":{"n": 12345678901234567890.10},"url":"http://a.example/b?c=d"}"#
        );
    }

    #[test]
    fn a_body_is_json_text_or_bytes() {
        assert_eq!(body(JSON, b"[1]\n"), json!([1]));
        assert_eq!(body(&[("content-type", "application/problem+json")], b"{}"), json!({}));
        assert_eq!(body(&[("content-type", "text/html")], b"[1]"), json!("[1]"));
        assert_eq!(body(&[], "grün".as_bytes()), json!("grün"));
        assert_eq!(body(JSON, b""), json!(null));
        assert_eq!(body(&[], b"\xff\0"), json!({"base64": "/wA="}));
        let packed = [("content-type", "application/json"), ("content-encoding", "br")];
        assert_eq!(body(&packed, b"{}"), json!({"base64": "e30="}));
    }

    #[test]
    fn what_only_says_that_it_is_json_is_text() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        for text in ["{", "nope", "{} {}", r#""\ud800""#, "1e999", deep.as_str(), "\u{feff}{}"] {
            assert_eq!(body(JSON, text.as_bytes()), json!(text), "{text}");
        }
    }

    #[test]
    fn a_status_is_a_result_or_a_failure() {
        use ErrorClass::{Permanent, Transient};
        let judge = |accept: Option<&[&str]>, status| {
            let accept = accept.map(|list| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
            failure(status, accept.map(|list| Accept::read(&list).unwrap()).as_ref())
        };
        for status in [200, 204, 302, 400, 404, 408, 499] {
            assert_eq!(judge(None, status), None, "{status}");
        }
        for status in [429, 500, 503, 599] {
            assert_eq!(judge(None, status), Some(Transient), "{status}");
        }
        let some: Option<&[&str]> = Some(&["2xx", "404"]);
        for (status, class) in [
            (200, None),
            (299, None),
            (404, None),
            (302, Some(Permanent)),
            (400, Some(Permanent)),
            (408, Some(Transient)),
            (429, Some(Transient)),
            (500, Some(Transient)),
        ] {
            assert_eq!(judge(some, status), class, "{status}");
        }
        assert_eq!(judge(Some(&["5xx", "429"]), 503), None);
        assert_eq!(judge(Some(&["5xx", "429"]), 429), None);
    }

    #[test]
    fn a_refused_answer_is_told_in_short() {
        let refuse = |headers: &[(&'static str, &'static str)], body: &[u8]| {
            outcome(&answer(503, headers, body), None, &Redactor::new(["hunter22"]), NOW).unwrap_err().message
        };
        assert_eq!(refuse(&[], b""), "UPSTREAM_ERROR: the server answered 503 Service Unavailable");
        assert_eq!(
            refuse(&[("retry-after", "120")], b"down\nfor hunter22"),
            "UPSTREAM_ERROR: the server answered 503 Service Unavailable, and to come back in 120 s: down for ***"
        );
        let long = refuse(&[], "x".repeat(1_000).as_bytes());
        assert!(long.ends_with("x…") && long.len() < 300, "{long}");
        let full = refuse(&[], "x".repeat(EXCERPT_CHARS).as_bytes());
        assert!(full.ends_with(&format!(": {}", "x".repeat(EXCERPT_CHARS))), "{full}");
    }

    #[test]
    fn a_refusal_says_when_to_come_back() {
        let wait = |headers: &[(&'static str, &'static str)]| {
            let refused = outcome(&answer(429, headers, b""), None, &Redactor::new([]), NOW).unwrap_err();
            (refused.class, refused.retry_after_ms)
        };
        assert_eq!(wait(&[("retry-after", "120")]), (ErrorClass::Transient, Some(120_000)));
        assert_eq!(wait(&[]), (ErrorClass::Transient, None));
    }

    #[test]
    fn a_secret_that_comes_back_is_hidden() {
        let redactor = Redactor::new(["p\"a/s&s w%rd-7b3e"]);
        let echoed = json!({"you_sent": "Bearer p\"a/s&s w%rd-7b3e", "n": 1}).to_string();
        let mut answer = answer(200, JSON, echoed.as_bytes());
        answer.headers.insert("x-echo", "p\"a/s&s w%rd-7b3e".parse().unwrap());
        answer.url = Url::parse_with_params("http://a.example/", [("t", "p\"a/s&s w%rd-7b3e")]).unwrap();
        let text = outcome(&answer, None, &redactor, NOW).unwrap();
        assert!(!text.contains("7b3e"), "{text}");
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&shown["body"]["you_sent"], &shown["body"]["n"]), (&json!("Bearer ***"), &json!(1)));
        assert_eq!((&shown["headers"]["x-echo"], &shown["url"]), (&json!("***"), &json!("http://a.example/?t=***")));
        answer.body = Bytes::from_static(b"\xff p\"a/s&s w%rd-7b3e");
        let text = outcome(&answer, None, &redactor, NOW).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap()["body"],
            json!({"base64": STANDARD.encode(b"\xff ***")})
        );
    }
}
