//! What the loops of one agent share.

use std::sync::Arc;

use bowline_execute::{Clock, Runs};
use bowline_model::{RunId, WorkerName};
use bowline_seal::OpeningKey;
use tokio::sync::mpsc;

use crate::fleet::guard::Guard;
use crate::fleet::outbox::{Outbox, Story};
use crate::fleet::remote::Remotes;
use crate::fleet::roster::Roster;
use crate::fleet::secrets::SecretStore;
use crate::fleet::simulate;
use crate::server::link::Link;

pub(crate) struct Fleet {
    pub link: Link,
    pub roster: Roster,
    pub outbox: Outbox,
    pub runs: Arc<Runs>,
    /// Secrets that only this agent has.
    pub secrets: SecretStore,
    /// What opens the secrets that the server seals.
    pub opening: Option<OpeningKey>,
    pub clock: Clock,
    /// There if it reaches hosts over SSH.
    pub remotes: Option<Arc<Remotes>>,
    /// It plays hosts that do not exist.
    pub plays: bool,
    pub allow_new_privileges: bool,
    pub guard: Guard,
    /// Runs of this host that somebody canceled.
    pub cancels: mpsc::UnboundedSender<RunId>,
    pub stage: mpsc::UnboundedSender<simulate::Order>,
}

impl Fleet {
    pub fn name(&self) -> &WorkerName {
        self.link.worker()
    }

    /// Tells a story about a run that has no directory.
    pub fn tell(&self, run: RunId, story: Story) {
        self.outbox.tell(run, story);
    }
}
