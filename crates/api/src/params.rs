//! Query parameters and path parts. Unknown names are refused, ids that are no ids are not found.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use bowline_model::ResourceName;
use bowline_model::resource::{NotAKind, ResourceKind};
use bowline_model::wording::in_plain_words;
use hyper::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::app::App;
use crate::problem::Problem;

/// The query string as a struct.
#[derive(Debug)]
pub struct Params<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(rejection) => {
                let text = rejection.body_text();
                let text = text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest);
                // `limit: invalid digit …`: the name comes first, where it is known.
                let text = match text.split_once(": ") {
                    Some((name, what)) if !name.contains(' ') => format!("{name}: {}", in_plain_words(what)),
                    _ => in_plain_words(text),
                };
                Err(Problem::validation(format!("query: {text}")))
            }
        }
    }
}

/// One part of the path that names something. A text that cannot be a name of it names nothing.
#[derive(Debug)]
pub struct Named<T>(pub T);

/// Two parts of the path that name something, such as a kind and a name.
#[derive(Debug)]
pub struct NamedPair<A, B>(pub A, pub B);

/// What a path part is called when it names nothing.
pub trait Nameable: Sized {
    const CODE: &'static str;
    const WHAT: &'static str;

    fn read(text: &str) -> Option<Self>;

    fn nothing() -> Problem {
        Problem::not_found(Self::CODE, Self::WHAT)
    }
}

macro_rules! nameable {
    ($type:ty, $code:literal, $what:literal, $read:expr) => {
        impl Nameable for $type {
            const CODE: &'static str = $code;
            const WHAT: &'static str = $what;

            fn read(text: &str) -> Option<Self> {
                $read(text).ok()
            }
        }
    };
}

nameable!(bowline_model::JobId, "JOB_NOT_FOUND", "job", str::parse::<Self>);
nameable!(bowline_model::RunId, "RUN_NOT_FOUND", "run", str::parse::<Self>);
nameable!(bowline_model::Lane, "LANE_NOT_FOUND", "lane", str::parse::<Self>);
nameable!(bowline_model::WorkerName, "AGENT_NOT_FOUND", "agent", Self::new);
nameable!(bowline_model::HostName, "HOST_NOT_FOUND", "host", Self::new);
nameable!(bowline_model::InventoryName, "INVENTORY_NOT_FOUND", "inventory", Self::new);
nameable!(bowline_model::ResourceName, "RESOURCE_NOT_FOUND", "resource", Self::new);

impl Nameable for ResourceKind {
    const CODE: &'static str = "KIND_NOT_FOUND";
    const WHAT: &'static str = "kind of resource";

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn nothing() -> Problem {
        Problem::new(StatusCode::NOT_FOUND, Self::CODE, NotAKind)
            .with(json!({"kinds": ResourceKind::ALL.map(ResourceKind::as_str)}))
    }
}

impl<T: Nameable + Send> FromRequestParts<App> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| T::nothing())?;
        T::read(&text).map(Self).ok_or_else(T::nothing)
    }
}

impl<A: Nameable + Send, B: Nameable + Send> FromRequestParts<App> for NamedPair<A, B> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((first, second)) = path.map_err(|_| B::nothing())?;
        let first = A::read(&first).ok_or_else(A::nothing)?;
        Ok(Self(first, B::read(&second).ok_or_else(B::nothing)?))
    }
}

/// A kind that exists, and a text that is to become the name of a new thing of it.
#[derive(Debug)]
pub struct NewName(pub ResourceKind, pub ResourceName);

impl FromRequestParts<App> for NewName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((kind, name)) = path.map_err(|_| ResourceName::nothing())?;
        let kind = ResourceKind::read(&kind).ok_or_else(ResourceKind::nothing)?;
        let bad = |what: String| Problem::validation(what).with(json!({"field": "name"}));
        let name = ResourceName::new(&name).map_err(|e| bad(e.to_string()))?;
        if name.as_str() == RESERVED {
            return Err(bad(format!(
                "a resource cannot be called {RESERVED}: that is an order in its place of the path"
            )));
        }
        Ok(Self(kind, name))
    }
}

/// `POST /resources/{kind}/validate` stands where a name would.
const RESERVED: &str = "validate";

/// One part of the path, as a text.
#[derive(Debug)]
pub struct Part(pub String);

impl FromRequestParts<App> for Part {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        text.map(|Path(text)| Self(text)).map_err(|_| Problem::not_found("NOT_FOUND", "path"))
    }
}

/// How many items a page has: what was asked for, within reason.
pub fn page_size(asked: Option<u32>, app: &App) -> Result<u32, Problem> {
    let max = app.settings.page_max;
    match asked {
        None => Ok(50.min(max)),
        Some(n) if (1..=max).contains(&n) => Ok(n),
        Some(_) => Err(Problem::validation(format!("limit must be between 1 and {max}"))),
    }
}

/// Why somebody orders something. Required, and kept.
pub fn reason(text: &str) -> Result<String, Problem> {
    let text = text.trim();
    if text.chars().count() < 3 || text.len() > 1_000 {
        let message = match text.chars().count() {
            0 => "reason is required: between 3 and 1000 characters that say why",
            1 | 2 => "reason is too short: at least 3 characters are expected that say why",
            _ => "reason is too long: at most 1000 bytes are kept",
        };
        return Err(Problem::validation(message).with(json!({"field": "reason"})));
    }
    Ok(text.to_owned())
}
