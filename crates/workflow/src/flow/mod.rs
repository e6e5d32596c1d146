//! A run of a workflow: what is known of it, and how it goes on.
//!
//! Everything that happens to a run is a [`Record`], and the run is the sum of its records: [`Flow::apply`] adds one, and
//! nothing else changes a run. [`Flow::turn`] takes what came in (messages), says what happens next as records, and applies
//! each as it is made. So what was stored can be folded again to the last digit: after a restart, at any past step, in
//! another run that begins there.
//!
//! Nothing here waits, stores, calls, or knows what time it is.

mod debug;
mod detail;
mod gather;
mod life;
mod mailbox;
mod message;
mod pin;
mod record;
mod shadow;
mod state;
#[cfg(test)]
mod tests;
mod turn;
mod undo;

pub use debug::{Breakpoint, Debug, HaltedBy, Order};
pub use detail::{Details, StepDetail};
pub use life::PausedFor;
pub use message::Message;
pub use record::{Origin, Record, Step, StepStatus, Waiting, read_records, write_records};
pub use shadow::{Difference, Differences, GivenUp, Recorded, shadow};
pub use state::{Ending, Flow, NotForked, NotThere, Snapshot};
pub use turn::{Launch, Turn, Turning};
