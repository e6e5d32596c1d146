//! `PUT /resources/{kind}/{name}`: store a version, unless the latest one says the same.

use axum::Json;
use axum::extract::State;
use bowline_engine::fleet::PutError;
use bowline_model::ResourceName;
use bowline_model::resource::ResourceKind;
use bowline_store::{ResourcePut, ResourceStored, StoreError};
use hyper::header::{IF_MATCH, IF_NONE_MATCH};
use hyper::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::view::key;
use super::{source, spec};
use crate::app::App;
use crate::body::ExactBody;
use crate::door::Known;
use crate::params::NewName;
use crate::problem::Problem;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ResourceRequest")]
pub struct PutRequest {
    /// What the resource says; `GET /resources/kinds` has the schema of each kind.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub spec: Value,
    /// The YAML document that `spec` was read from, with its comments: shown again as it is. It has `kind`, `name` and
    /// `spec`, and says the same as this request.
    #[serde(default)]
    pub source: Option<String>,
    /// For whoever reads the versions later.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub note: Option<String>,
    /// Whether it counts from now on: yes, unless given.
    #[serde(default = "yes")]
    pub activate: bool,
    /// The latest version the writer has seen, 0 for none: if there is a later one, nothing is stored.
    #[serde(default)]
    pub seen: Option<u32>,
}

pub const fn yes() -> bool {
    true
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ResourceStored")]
pub struct StoredView {
    pub kind: ResourceKind,
    pub name: ResourceName,
    /// stored; or unchanged, if the latest version says the same.
    pub outcome: &'static str,
    pub version: u32,
    /// The version that counts.
    pub active: Option<u32>,
    /// This request made another version count.
    pub activated: bool,
}

const NOTE_MAX: usize = 1_000;

pub async fn put(
    State(app): State<App>,
    known: Known,
    NewName(kind, name): NewName,
    headers: HeaderMap,
    ExactBody(body): ExactBody<PutRequest>,
) -> Result<(StatusCode, Json<StoredView>), Problem> {
    let seen = seen(&headers, body.seen)?;
    let note = note(body.note)?;
    let tenant = known.tenant()?;
    let source = source::checked(tenant, body.source, kind, &name, &body.spec).await?;
    let spec = spec::read(&app, &known, kind, body.spec).await?;
    let put = ResourcePut {
        key: key(tenant, kind, name.clone()),
        spec: spec.canonical().into(),
        source,
        note,
        by: known.author(),
        activate: body.activate,
        seen,
    };
    let room = app.engine.quotas.reserve(tenant, bytes_of(&put)).map_err(StoreError::from)?;
    let room = room.pending();
    let stored = app.engine.resources.store(&spec, put).await;
    let adds = match &stored {
        Ok(stored) => matches!(stored, ResourceStored::Stored { .. }),
        Err(error) => matches!(error, PutError::Store(StoreError::Unknown(_))),
    };
    if !adds {
        room.give_back_all();
    }
    let view = |outcome, version, active, activated| StoredView { kind, name, outcome, version, active, activated };
    match stored? {
        ResourceStored::Stored { version, active } => {
            let status = if version == 1 { StatusCode::CREATED } else { StatusCode::OK };
            Ok((status, Json(view("stored", version, active, body.activate))))
        }
        ResourceStored::Unchanged { version, active, activated } => {
            Ok((StatusCode::OK, Json(view("unchanged", version, active, activated))))
        }
        ResourceStored::Overtaken { latest } => Err(PutError::Overtaken { latest }.into()),
    }
}

/// What a version adds to what is stored.
pub fn bytes_of(put: &ResourcePut) -> u64 {
    (put.spec.len() + put.source.as_ref().map_or(0, |source| source.len())) as u64
}

pub fn note(text: Option<String>) -> Result<Option<String>, Problem> {
    let text = text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    match text {
        Some(text) if text.len() > NOTE_MAX => {
            let message = format!("a note has at most {NOTE_MAX} bytes");
            Err(Problem::validation(message).with(json!({"field": "note"})))
        }
        other => Ok(other),
    }
}

/// What the writer has seen, from the body or from the headers made for it: `If-Match: "3"`, `If-None-Match: *`.
fn seen(headers: &HeaderMap, said: Option<u32>) -> Result<Option<u32>, Problem> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("").trim());
    let from_header = match (text(IF_MATCH), text(IF_NONE_MATCH)) {
        (None, None) => return Ok(said),
        (None, Some("*")) => 0,
        (Some(tag), None) => tag
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| Problem::validation("If-Match must be a version in quotes, such as \"3\""))?,
        _ => return Err(Problem::validation("send If-Match: \"version\", or If-None-Match: *, not both")),
    };
    match said {
        Some(said) if said != from_header => Err(Problem::validation("seen and the header say different versions")),
        _ => Ok(Some(from_header)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn what_was_seen_is_said_in_one_way_or_the_other() {
        assert_eq!(seen(&with(&[]), None).unwrap(), None);
        assert_eq!(seen(&with(&[]), Some(2)).unwrap(), Some(2));
        assert_eq!(seen(&with(&[("if-match", "\"7\"")]), None).unwrap(), Some(7));
        assert_eq!(seen(&with(&[("if-match", "\"7\"")]), Some(7)).unwrap(), Some(7));
        assert_eq!(seen(&with(&[("if-none-match", "*")]), None).unwrap(), Some(0));
        for (headers, said) in [
            (with(&[("if-match", "7")]), None),
            (with(&[("if-match", "*")]), None),
            (with(&[("if-match", "\"-1\"")]), None),
            (with(&[("if-match", "W/\"7\"")]), None),
            (with(&[("if-match", "\"7\"")]), Some(8)),
            (with(&[("if-none-match", "\"7\"")]), None),
            (with(&[("if-match", "\"7\""), ("if-none-match", "*")]), None),
        ] {
            assert!(seen(&headers, said).is_err(), "{headers:?}");
        }
    }
}
