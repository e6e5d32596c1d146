//! The words between server and workers. HTTP and JSON, so that a worker can be written in any language in an hour.
//!
//! `POST /workers/register`, `GET /workers/{id}/tasks?max=&wait=`, `POST /workers/{id}/heartbeat`,
//! `POST /runs/{id}/events`, `POST /tasks/result`. Who a worker is comes from its token, never from the path.
//! Never here: behaviour. Unknown fields in requests are refused; workers must ignore fields they do not know in answers.

mod events;
mod heartbeat;
mod register;
mod result;
mod task;

pub use events::{EventsAck, EventsRequest, WorkerEvent};
pub use heartbeat::{HeartbeatAnswer, HeartbeatRequest};
pub use register::{RegisterAnswer, RegisterRequest};
pub use result::{ResultAnswer, ResultRequest, ResultStatus};
pub use task::{Task, TasksQuery};

/// Grows when a worker would have to know. The server says which one it speaks when a worker registers.
pub const VERSION: u32 = 1;
