//! The execution plane's worker library: everything a program needs to take tasks from a Bowline server and to tell
//! how they ended.
//!
//! Enters: an address, a token, and a handler for each task type. Leaves: results, progress, signs of life.
//! Never here: a store, an engine, a wish about what the server should decide. A worker says what happened; it goes on
//! saying it until the server has heard, across restarts and outages of either the network or the server.
//!
//! ```no_run
//! use bowline_agent::{CancellationToken, TaskContext, TaskError, Worker};
//! use serde_json::json;
//!
//! # async fn example(token: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let worker = Worker::builder("http://127.0.0.1:7420", token)
//!     .worker_id("w1")
//!     .label("gpu", "a100")
//!     .slots(8)
//!     .task("resize", |task: TaskContext| async move {
//!         #[derive(serde::Deserialize)]
//!         struct Resize { width: u32 }
//!         let wish: Resize = task.params()?;
//!         task.progress(json!({ "width": wish.width }));
//!         Ok::<_, TaskError>(json!({ "resized": true }))
//!     })
//!     .build()?;
//! let stop = CancellationToken::new();
//! worker.run(stop).await?;
//! # Ok(())
//! # }
//! ```
//!
//! *In hand*: a task from the moment it arrived until its end was told. *Accepted*: named in a heartbeat that was
//! answered; only then does its handler start, and a given task starts at most once. *Cut off*: no heartbeat got through
//! for so long that, by our own clock, the lease may be over.

mod accept;
mod backoff;
mod builder;
mod client;
mod clock;
mod context;
mod error;
mod hand;
mod handlers;
mod lease;
mod lease_loop;
mod poll_loop;
mod progress;
mod registration;
mod results;
mod run;
mod shared;
mod task_error;
mod worker;

pub use builder::{BuildError, WorkerBuilder};
pub use client::Refusal;
pub use context::TaskContext;
pub use error::WorkerError;
pub use progress::ProgressError;
pub use task_error::TaskError;
pub use tokio_util::sync::CancellationToken;
pub use worker::Worker;
