//! The words between server and workers. HTTP and JSON, so that a worker can be written in any language in an hour.
//!
//! `POST /workers/register`, `GET /workers/{id}/tasks?max=&wait=`, `POST /workers/{id}/heartbeat`,
//! `POST /runs/{id}/events`, `POST /tasks/result`. Who a worker is comes from its token, never from the path. Agents also
//! enroll (`POST /agents/enroll`), renew their credentials (`POST /agents/renew`), ship the news of many runs at once
//! (`POST /workers/{id}/events`), bring output (`PUT /runs/{id}/output/{stream}?offset=`) and offer what they executed
//! (`POST /workers/{id}/evidence`).
//! Never here: behaviour. Unknown fields in requests are refused; workers must ignore fields they do not know in answers.

mod enroll;
mod events;
mod evidence;
mod heartbeat;
mod host;
mod register;
mod result;
mod sealing;
mod ship;
mod task;

pub use enroll::{EnrollAnswer, EnrollRequest, RenewAnswer, RenewRequest, enroll_message, renew_message};
pub use events::{EventsAck, EventsRequest, WorkerEvent};
pub use evidence::{EvidenceAnswer, EvidenceRequest, RunEvidence};
pub use heartbeat::{HeartbeatAnswer, HeartbeatRequest};
pub use host::{HostTask, TargetHost};
pub use register::{RegisterAnswer, RegisterRequest};
pub use result::{ResultAnswer, ResultRequest, ResultStatus};
pub use sealing::{SealingOffer, sealing_message};
pub use ship::{RunEnd, RunHeard, RunNews, ShipAnswer, ShipRequest};
pub use task::{Task, TasksQuery};

/// The header of an answer to a poll that says `true` when the worker is to take no more tasks, finish and leave.
pub const DRAIN_HEADER: &str = "bowline-drain";

/// Grows when a worker would have to know. The server says which one it speaks when a worker registers.
pub const VERSION: u32 = 1;
