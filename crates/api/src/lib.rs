//! HTTP: routes, views, errors, SSE, OpenAPI; one endpoint, one file.
//!
//! A request passes the door ([`door`]): it gets its ids, its caller is found and checked against what the route
//! requires, and only then the handler sees it. A handler reads as three breaths: may they, do it, show it. Whatever goes
//! wrong leaves through [`problem`].
//! Never here: SQL, decisions about jobs, secrets in answers.

mod access_log;
mod actors;
mod agents;
mod app;
mod audit;
pub mod body;
mod bounds;
mod clock;
mod commands;
mod connections;
mod context;
mod cursor;
mod dlq;
mod door;
mod events;
mod flows;
mod gate;
mod health;
mod hosts;
mod inventories;
mod jobs;
mod lanes;
mod once;
mod openapi;
mod output;
mod params;
mod patience;
mod problem;
mod refusals;
mod resources;
mod routes;
mod schedules;
mod secrets;
mod serve;
mod shares;
mod tenants;
mod tls;
mod tokens;
mod triggers;
mod versions;
mod views;
mod whoami;
mod workers;

pub use access_log::TARGET as ACCESS_LOG_TARGET;
pub use app::{ApiSettings, App};
pub use connections::ConnectionLimits;
pub use gate::{Gate, GateSettings};
pub use openapi::document as openapi_document;
pub use problem::Problem;
pub use refusals::Refusals;
pub use routes::{Access, Route, router, table};
pub use serve::serve;
pub use shares::ShareLimits;
pub use tls::{ServerTls, TlsError, TlsFiles};
