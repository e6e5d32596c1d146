//! What the committer does inside a transaction: one file per wish.
//!
//! Every function here has one shape: load (and lock) what the wish is about, decide in `model`, collect the changes.
//! None of them commits, and none of them is alone: the committer runs many wishes in one transaction.

mod agents;
mod apply;
mod approvals;
mod approved;
mod audit;
mod blocks;
mod bounds;
mod claim;
mod clock;
mod conduct;
mod dead_letters;
mod deadlines;
mod evidence;
mod flows;
mod heartbeat;
mod hosts;
mod kept;
mod once;
mod order;
mod output;
mod promote;
mod prune;
mod reap;
mod report;
mod resources;
mod schedules;
mod signals;
mod submit;
mod tally;
mod tell;
mod tokens;
mod turns;
mod units;
mod workers;

use bowline_model::Timestamp;
use bowline_model::fleet::MarginRules;
use bowline_store::LedgerClock;
use rand::rngs::StdRng;

use crate::channels::Channels;

pub use agents::{enroll_agent, remove_agent, renew_agent, set_sealing_key};
pub use apply::apply;
pub use approvals::decide;
pub use audit::{Diff, append as append_audit, deeds};
pub use blocks::{block, unblock};
pub use bounds::{resume_evaluation, set_aside};
pub use claim::{Emptied, claim};
pub use clock::{accept_clock, learn_time, note_time};
pub use conduct::conduct;
pub use dead_letters::{purge, replay};
pub use deadlines::expire;
pub use evidence::take_evidence;
pub use flows::{keep_definition, steer_flow, turn_flows};
pub use heartbeat::heartbeat;
pub use hosts::{put_inventory, remove_hosts};
pub use kept::{let_go_of_the_past, release};
pub use once::{Known, find_once, keep_once};
pub use order::{cancel, retry, retry_command};
pub use output::{add_output, place_for_output};
pub use promote::promote;
pub use prune::prune;
pub use reap::{give_back, reap, reclaim};
pub use report::report;
pub use resources::{activate_resource, delete_resource, find_activation, put_resource};
pub use schedules::{fire, trigger};
pub use signals::{signal_flows, spread_signals};
pub use submit::{channel_keys, pruned_job, submit};
pub use tally::{read_tally, write_tally};
pub use tell::tell;
pub use tokens::{create_tenant, create_token, revoke_token};
pub use turns::{admit, forgotten_hosts};
pub use workers::{drain_worker, register_worker};

/// What every wish may use.
#[derive(Debug)]
pub struct Desk<'a> {
    pub now: Timestamp,
    pub rng: &'a mut StdRng,
    pub channels: &'a Channels,
    /// How long an idempotency key is remembered.
    pub key_ttl_ms: i64,
    /// How long hosts are kept when a run went missing there.
    pub margin: MarginRules,
    /// While it is held, nothing is done that cannot be undone and that only the time asks for.
    pub clock: &'a LedgerClock,
}

impl Desk<'_> {
    pub fn chance(&mut self) -> f64 {
        use rand::RngExt;
        self.rng.random()
    }

    pub fn entropy(&mut self) -> [u8; 10] {
        use rand::RngExt;
        self.rng.random()
    }
}
