//! A worker's day: register, work, and leave in good order.
//!
//! Leaving is a sequence: take nothing more, finish what is in hand, stop what does not finish, tell every end, go.
//! Each part has its time; only a server that asked us to drain is waited for without one.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use bowline_model::RunId;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::error::WorkerError;
use crate::server::backoff::Backoff;
use crate::server::client::Client;
use crate::server::lease_loop::lease_loop;
use crate::server::link::{Link, LinkSettings};
use crate::server::poll_loop::poll_loop;
use crate::server::registration::{Registration, register};
use crate::worker::accept::Errand;
use crate::worker::builder::WorkerBuilder;
use crate::worker::handlers::Handlers;
use crate::worker::run::{TIDY_UP, carry_out};
use crate::worker::shared::{Desk, Settings, Shared};

/// How long a worker that has to leave goes on telling how its tasks ended: once more its grace, but not longer than this.
const REPORT_MAX: Duration = Duration::from_secs(10);

/// A remote worker, ready to run.
pub struct Worker {
    client: Client,
    link: LinkSettings,
    settings: Settings,
    handlers: Handlers,
}

impl Worker {
    /// A worker for the server at `address`, such as `http://127.0.0.1:7420`, with the token made for it by
    /// `bowline token create --kind worker`.
    pub fn builder(address: &str, token: &str) -> WorkerBuilder {
        WorkerBuilder::new(address, token)
    }

    pub(crate) fn new(client: Client, link: LinkSettings, settings: Settings, handlers: Handlers) -> Self {
        Self { client, link, settings, handlers }
    }

    /// Works until `stop` is canceled or the server asks to drain; both end in `Ok`.
    ///
    /// Dropping the future ends everything where it stands: handlers are dropped, and the server finds out when the
    /// leases run out.
    pub async fn run(self, stop: CancellationToken) -> Result<(), WorkerError> {
        let Self { client, link, settings, handlers } = self;
        let patience = Backoff::new(&link.backoff);
        let terms = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            registered = register(&client, &link.registration, patience, false) => registered?,
        };
        let link = Link::new(client, link, Registration::new(terms));
        let shared = Shared::new(link, settings, handlers);
        Crew::start(shared).work(&stop).await
    }
}

/// Everything that is under way. Dropping it drops all of it.
struct Crew {
    shared: Arc<Shared>,
    loops: JoinSet<()>,
    /// `None` once nothing can come any more.
    errands: Option<mpsc::Receiver<Errand>>,
    runs: JoinSet<Option<RunId>>,
    undelivered: Vec<RunId>,
}

impl Crew {
    fn start(shared: Arc<Shared>) -> Self {
        let (sender, errands) = mpsc::channel(64);
        let mut loops = JoinSet::new();
        let holder = Arc::clone(&shared);
        loops.spawn(async move { lease_loop(&holder.link, &*holder).await });
        let desk = Desk { shared: Arc::clone(&shared), errands: sender };
        loops.spawn(async move { poll_loop(&desk.shared.link, &desk).await });
        Self { shared, loops, errands: Some(errands), runs: JoinSet::new(), undelivered: Vec::new() }
    }

    async fn work(mut self, stop: &CancellationToken) -> Result<(), WorkerError> {
        let shared = Arc::clone(&self.shared);
        let draining = async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = shared.link.draining.cancelled() => {}
            }
        };
        // Nothing in this list ends by itself while tasks may still come.
        self.go_on(draining).await;
        shared.link.no_more.cancel();
        let worker = shared.link.worker();
        info!(worker.id = %worker, "worker {worker} takes nothing more and has {} tasks to finish", self.runs.len());
        if !stop.is_cancelled() && self.go_on(stop.cancelled()).await {
            return self.leave().await;
        }
        if !self.go_on(sleep(shared.settings.grace)).await {
            shared.leaving.cancel();
            self.go_on(sleep(TIDY_UP + shared.settings.grace.min(REPORT_MAX))).await;
        }
        self.leave().await
    }

    /// Starts what was accepted and sees off what has ended, until `until`, or a failure, or until nothing is left and
    /// nothing can come. `true` only for the last.
    async fn go_on(&mut self, until: impl Future<Output = ()>) -> bool {
        let failed = self.shared.link.failed.clone();
        tokio::pin!(until);
        while self.errands.is_some() || !self.runs.is_empty() {
            tokio::select! {
                biased;
                () = failed.cancelled() => return false,
                () = &mut until => return false,
                errand = next_errand(&mut self.errands) => match errand {
                    Some(errand) => drop(self.runs.spawn(carry_out(Arc::clone(&self.shared), errand))),
                    None => self.errands = None,
                },
                Some(ended) = self.runs.join_next() => self.see_off(ended),
                // Loops end by themselves when their time has come, and otherwise only by a mistake of ours.
                Some(Err(broken)) = self.loops.join_next() => match broken.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    Err(_) => return false,
                },
            }
        }
        true
    }

    fn see_off(&mut self, ended: Result<Option<RunId>, JoinError>) {
        match ended {
            Ok(undelivered) => self.undelivered.extend(undelivered),
            // Our own mistake, not the handler's: its slot is free again, and its lease will run out.
            Err(broken) => error!("the worker broke at a task, which will count as lost: {broken}"),
        }
    }

    /// Ends what is left, and says how it was.
    async fn leave(mut self) -> Result<(), WorkerError> {
        self.shared.leaving.cancel();
        self.shared.link.end.cancel();
        let failure = self.shared.link.take_failure();
        while let Some(ended) = self.runs.join_next().await {
            self.see_off(ended);
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        if self.undelivered.is_empty() {
            let worker = self.shared.link.worker();
            info!(worker.id = %worker, "worker {worker} has left, and nothing is left behind");
            return Ok(());
        }
        for run in &self.undelivered {
            warn!(run.id = %run, "the server does not know how task {run} ended");
        }
        Err(WorkerError::Undelivered { runs: self.undelivered })
    }
}

/// Waits for ever once nothing can come.
async fn next_errand(errands: &mut Option<mpsc::Receiver<Errand>>) -> Option<Errand> {
    match errands {
        Some(errands) => errands.recv().await,
        None => std::future::pending().await,
    }
}
