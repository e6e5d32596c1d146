//! What the server promises, through its door.

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each test program uses its part of it")]
mod support;

mod agents;
mod apply;
mod approvals;
mod approved;
mod audit;
mod auth;
mod bad_input;
mod batches;
mod bounds;
mod cancel;
mod commands;
mod consent;
mod dead_letters;
mod deadlines;
mod docs;
mod encryption;
mod event_socket;
mod events;
mod example_worker;
mod files;
mod hosts;
mod http_request;
mod installation;
mod jobs;
mod keys;
mod metrics;
mod order_blueprint;
mod rabbitmq;
mod resources;
mod results;
mod retry;
mod roles;
mod run;
mod schedules;
mod secrets;
mod tokens;
mod triggers;
mod who;
mod workers;
mod workflows;
mod zero_bytes;
