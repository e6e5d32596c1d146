//! Query parameters and path parts. Unknown names are refused, ids that are no ids are not found.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

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
                Err(Problem::validation(format!("query: {text}")))
            }
        }
    }
}

/// One part of the path that names something. A text that cannot be a name of it names nothing.
#[derive(Debug)]
pub struct Named<T>(pub T);

/// What a path part is called when it names nothing.
pub trait Nameable: FromStr {
    const CODE: &'static str;
    const WHAT: &'static str;
}

impl Nameable for bowline_model::JobId {
    const CODE: &'static str = "JOB_NOT_FOUND";
    const WHAT: &'static str = "job";
}

impl Nameable for bowline_model::RunId {
    const CODE: &'static str = "RUN_NOT_FOUND";
    const WHAT: &'static str = "run";
}

impl Nameable for bowline_model::Lane {
    const CODE: &'static str = "LANE_NOT_FOUND";
    const WHAT: &'static str = "lane";
}

impl<T: Nameable + Send> FromRequestParts<App> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, Problem> {
        let nothing = || Problem::not_found(T::CODE, T::WHAT);
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| nothing())?;
        text.parse().map(Self).map_err(|_| nothing())
    }
}

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
