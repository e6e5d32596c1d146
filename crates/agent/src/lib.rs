//! The execution plane: a worker library, with everything a program needs to take tasks from a Bowline server and to tell
//! how they ended, and the fleet agent, which executes commands on hosts.
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

mod clock;
mod error;
#[cfg(target_os = "linux")]
pub mod fleet;
mod recent;
mod server;
mod worker;

pub use error::WorkerError;
pub use server::client::Refusal;
pub use tokio_util::sync::CancellationToken;
pub use worker::{BuildError, ProgressError, TaskContext, TaskError, Worker, WorkerBuilder};
