//! Bowline inside a program of yours.
//!
//! No server, no port, no token: a ledger in a directory or in memory, the engine that moves jobs, and a worker that runs
//! handlers written in Rust. What survives a crash of a server survives a crash of your program, too.
//!
//! A [`Blueprint`] is a state machine. Each state has a handler, which looks at the data of the run and says what happens
//! next: go to another state, have a task done, several at once, wait for a person, run another blueprint, sleep.
//!
//! ```
//! use bowline_embed::{Actions, Blueprint, Bowline, Failure, StateContext, TaskContext};
//! use serde::{Deserialize, Serialize};
//! use serde_json::json;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order {
//!     total: u32,
//!     #[serde(default)]
//!     receipt: Option<String>,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut order = Blueprint::<Order>::new("order");
//! order
//!     .state("init", |order: Order, actions: Actions, _: StateContext| async move {
//!         actions.dispatch_task("charge", json!({"amount": order.total})).on("success", "paid").on("failure", "failed");
//!         Ok(order)
//!     })
//!     .retries(3);
//! order.state("paid", |mut order: Order, _, cx: StateContext| async move {
//!     order.receipt = cx.result_of_task::<serde_json::Value>()?["receipt"].as_str().map(str::to_owned);
//!     Ok(order)
//! });
//! order.failed("failed");
//!
//! let bowline = Bowline::in_memory()
//!     .task("charge", |params: serde_json::Value, _: TaskContext| async move {
//!         Ok::<_, Failure>(json!({"receipt": format!("r-{}", params["amount"])}))
//!     })
//!     .blueprint(order)
//!     .serve()
//!     .await?;
//! let job = bowline.start("order", json!({"total": 42})).await?;
//! let order: Order = bowline.wait(job).await?.data()?;
//! assert_eq!(order.receipt.as_deref(), Some("r-42"));
//! bowline.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! The same blueprint can be written as data ([`Builder::blueprint_yaml`]), with states whose handlers are written here, live
//! in other workers, or are not needed at all. For the engine all of them are the same.

mod actions;
mod blueprint;
mod bowline;
mod builder;
mod error;
mod outcome;

pub use actions::{Actions, ApprovalAction, BlueprintAction, ParallelAction, SleepAction, Task, TaskAction};
pub use blueprint::{Blueprint, State, StateContext, task_type_of};
pub use bowline::Bowline;
pub use bowline_engine::Engine;
pub use bowline_model::blueprint::{BlueprintSpec, StateSpec};
pub use bowline_model::{JobId, JobStatus, RunError, Timestamp};
pub use bowline_store::{Clock, ManualClock};
pub use builder::{Builder, TaskContext};
pub use error::{Error, Failure};
pub use outcome::Outcome;
