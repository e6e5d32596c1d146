//! Commands on hosts, as the server tells of them: how they stand, how they are watched, how they ended host by host.

mod counts;
mod report;
mod unit;
mod view;
mod watch;

pub use counts::{HostCounts, hosts};
pub use report::{Report, as_json, read as read_units};
pub use unit::UnitView;
pub use view::{ApprovalView, CommandView, PinnedView};
pub use watch::{Ending, OnInterrupt, watch};
