//! `http_request`: a request to an address, and its answer.
//!
//! What a value may become depends on where it stands: in the address it is percent-encoded, in a header it has no line
//! breaks, in the body it is JSON. A secret is named, never inserted.

use std::collections::BTreeMap;

use bowline_model::{JobPolicy, Labels, ResourceName, RunError, TaskType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Building;
use super::building::key;
use super::calling::{Caller, CallerType};
use super::fields::{Text, Tree, failure};
use crate::expression::Insert;
use crate::node::{Call, CallWhat, Visit};

const TIMEOUT_MS: u64 = 30_000;
/// The job has this much longer than the request, so that whoever makes the request can say that it took too long.
const MARGIN_MS: u64 = 5_000;

#[derive(Debug)]
pub(super) struct HttpRequest {
    task_type: TaskType,
    method: Method,
    url: Text,
    headers: Vec<(String, Header)>,
    query: Vec<(String, Tree)>,
    body: Tree,
    timeout_ms: u64,
    follow_redirects: bool,
    accept: Option<Vec<StatusConfig>>,
}

#[derive(Debug)]
enum Header {
    Text(Text),
    Secret { secret_ref: ResourceName, prefix: String },
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    #[serde(default)]
    method: Method,
    /// The address, with `http://` or `https://`. A text with places; values in it are percent-encoded.
    url: String,
    /// By name: a text with places, or a secret.
    #[serde(default)]
    headers: BTreeMap<String, HeaderConfig>,
    /// What is added behind the `?`, by name: a text with places, a number, a boolean, or a list of these.
    #[serde(default)]
    query: Map<String, Value>,
    /// The body: any JSON, with places in its texts.
    #[serde(default)]
    body: Value,
    /// How long it may take, in milliseconds: 30 seconds unless this or the policy says otherwise.
    #[serde(default)]
    #[schemars(range(min = 1, max = 604_800_000))]
    timeout_ms: Option<u64>,
    /// Whether to go where the answer points to.
    #[serde(default = "yes")]
    follow_redirects: bool,
    /// Which statuses are no failure: numbers such as 404, or classes such as `2xx`.
    #[serde(default)]
    accept: Option<Vec<StatusConfig>>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

/// A text with places, or a secret with what stands before it.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
enum HeaderConfig {
    Text(String),
    Secret(SecretConfig),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SecretConfig {
    /// The resource of kind `secret_ref`.
    secret_ref: ResourceName,
    /// What stands before the secret, such as `Bearer `.
    #[serde(default)]
    prefix: String,
}

impl<'de> Deserialize<'de> for HeaderConfig {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::Text(text)),
            object @ Value::Object(_) => SecretConfig::deserialize(object).map(Self::Secret).map_err(D::Error::custom),
            _ => Err(D::Error::custom("must be a text or {secret_ref, prefix}")),
        }
    }
}

/// A status, or a class of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
enum StatusConfig {
    Code(u16),
    Class(String),
}

impl std::fmt::Display for StatusConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "{code}"),
            Self::Class(class) => f.write_str(class),
        }
    }
}

impl<'de> Deserialize<'de> for StatusConfig {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let code = value.as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| (100..600).contains(code));
        let class = value.as_str().filter(|text| ["1xx", "2xx", "3xx", "4xx", "5xx"].contains(text));
        match (code, class) {
            (Some(code), _) => Ok(Self::Code(code)),
            (None, Some(class)) => Ok(Self::Class(class.to_owned())),
            (None, None) => Err(serde::de::Error::custom("must be a status such as 404 or a class such as `2xx`")),
        }
    }
}

/// Why a header cannot be set.
fn check_header(name: &str) -> Result<(), &'static str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || name.len() > 128 || !name.bytes().all(plain) {
        return Err("this cannot be the name of a header");
    }
    let ours = ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"];
    if ours.iter().any(|header| header.eq_ignore_ascii_case(name)) {
        return Err("this header follows from the request and cannot be set");
    }
    Ok(())
}

impl CallerType for HttpRequest {
    const TYPE: &'static str = "http_request";
    const ABOUT: &'static str = "Sends an HTTP request. The output has status_code, headers, body and url.";
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Self {
        let scheme =
            |prefix: &str| config.url.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix));
        if !config.url.starts_with("{{") && !scheme("http://") && !scheme("https://") {
            building.mistake("/url", "an address begins with http:// or https://");
        }
        if config.timeout_ms.is_some_and(|millis| !(1..=JobPolicy::TIMEOUT_MAX_MS).contains(&millis)) {
            building.mistake("/timeout_ms", "must be between 1 and 604800000 (seven days)");
        }
        if config.accept.as_ref().is_some_and(Vec::is_empty) {
            building.mistake("/accept", "with no status at all every answer would be a failure");
        }
        let mut headers = Vec::with_capacity(config.headers.len());
        for (name, value) in config.headers {
            let at = format!("/headers{}", key(&name));
            if let Err(what) = check_header(&name) {
                building.mistake(&at, what);
            }
            let header = match value {
                HeaderConfig::Text(text) => {
                    if text.chars().any(|c| c.is_control() && c != '\t') {
                        building.mistake(&at, "a header has no line breaks and no other control characters");
                    }
                    Header::Text(building.text(&at, &text))
                }
                HeaderConfig::Secret(SecretConfig { secret_ref, prefix }) => {
                    if prefix.chars().any(char::is_control) {
                        building.mistake(&format!("{at}/prefix"), "a header has no control characters");
                    }
                    Header::Secret { secret_ref, prefix }
                }
            };
            headers.push((name, header));
        }
        let query = config.query.iter();
        let query = query.map(|(name, value)| (name.clone(), building.tree(&format!("/query{}", key(name)), value)));
        Self {
            task_type: TaskType::new(Self::TYPE).expect("a plain word names a type of task"),
            method: config.method,
            query: query.collect(),
            url: building.text("/url", &config.url),
            headers,
            body: building.tree("/body", &config.body),
            timeout_ms: config.timeout_ms.unwrap_or(TIMEOUT_MS),
            follow_redirects: config.follow_redirects,
            accept: config.accept,
        }
    }
}

/// Whether it can stand behind the `?`.
fn is_plain(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_))
}

impl Caller for HttpRequest {
    fn call(&self, visit: Visit<'_>) -> Result<Call, RunError> {
        let context = visit.context;
        let mut headers = Map::new();
        for (name, header) in &self.headers {
            let value = match header {
                Header::Text(text) => text.text(context, Insert::HeaderValue)?.into(),
                Header::Secret { secret_ref, prefix } => json!({"secret_ref": secret_ref, "prefix": prefix}),
            };
            headers.insert(name.clone(), value);
        }
        let mut query = Map::new();
        for (name, tree) in &self.query {
            let value = tree.value(context)?.into_owned();
            let fits = is_plain(&value) || value.as_array().is_some_and(|list| list.iter().all(is_plain));
            if !fits {
                let what = "must be a text, a number, a boolean or a list of these";
                return Err(failure(format!("{}: {what}", tree.field())));
            }
            query.insert(name.clone(), value);
        }
        let timeout_ms = visit.policy.timeout_ms.unwrap_or(self.timeout_ms);
        let payload = json!({
            "method": self.method,
            "url": self.url.text(context, Insert::Url)?,
            "headers": headers,
            "query": query,
            "body": self.body.value(context)?,
            "timeout_ms": timeout_ms,
            "follow_redirects": self.follow_redirects,
            "accept": self.accept.as_ref().map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>()),
        });
        let task_type = self.task_type.clone();
        Ok(Call {
            what: CallWhat::Task { task_type, payload, lane: None, labels: Labels::default(), priority: None },
            policy: visit.policy.clone(),
            timeout_ms: timeout_ms.saturating_add(MARGIN_MS),
            deadline_ms: None,
        })
    }
}
