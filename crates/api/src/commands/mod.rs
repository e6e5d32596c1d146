//! Commands on hosts: asking for them, watching them host by host, approving them, forbidding them.

mod approvals;
mod blocks;
mod decide;
mod host;
mod hosts;
mod problem;
mod queue;
mod release;
mod request;
mod view;
mod webhook;

pub use approvals::{ApprovalPage, ApprovalsQuery, approvals};
pub use blocks::{
    BlockList, BlockRequest, BlockView, BlocksQuery, UnblockRequest, UnblockedView, block, blocks, unblock,
};
pub use decide::{DecideRequest, DecidedView, approve, refusal, reject};
pub use host::{UnitAnswer, host};
pub use hosts::{HostsQuery, UnitPage, hosts};
pub use queue::{QueueView, queue};
pub use release::{ReleaseRequest, ReleasedView, release};
pub use request::{CommandWish, submit};
pub use view::{ApprovalView, CommandView, UnitView, hex, unhex};
pub use webhook::{ExecutionPage, WebhookAnswer, WebhookRequest, WebhookView, executions, webhook, webhook_job};
