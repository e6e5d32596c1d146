//! What a heartbeat names, and what its answer means for runs.

use bowline_model::RunId;
use bowline_protocol::HeartbeatAnswer;
use tokio::time::Instant;
use tracing::warn;

use crate::fleet::roster::Executor;
use crate::fleet::shared::Fleet;
use crate::fleet::simulate;
use crate::server::lease_loop::Holder;

impl Holder for Fleet {
    fn named(&self) -> Vec<RunId> {
        self.roster.named()
    }

    fn hear(&self, answer: &HeartbeatAnswer, sent_at: Instant) {
        let orders = self.roster.hear(answer, sent_at);
        for (run, executor) in orders.cancel {
            // Those who listen are there as long as the agent is.
            match executor {
                Executor::Local => drop(self.cancels.send(run)),
                Executor::Simulated => drop(self.stage.send(simulate::Order::Cancel(run))),
                Executor::Remote => self.remotes.iter().for_each(|remotes| remotes.cancel(run)),
            }
        }
        for run in orders.stale {
            warn!(run.id = %run, "run {run} is not ours any more; it goes on, and its end is kept as evidence");
        }
    }

    fn when_cut_off(&self) -> &'static str {
        "go on and are reported late"
    }
}
