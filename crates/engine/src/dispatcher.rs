//! The dispatcher: brings workers that want work together with work that wants workers.
//!
//! Workers ask and wait here; nobody polls the ledger for them. When there may be work, everybody who waits is put into one
//! claim, so the strategy chooses among all of them, and one commit serves them all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_model::RunId;
use bowline_store::{ClaimRules, Claimant, ClaimedRun, Ledger, StoreError, Wake};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::settings::EngineSettings;

/// Work that another server queued is found this often even if its bell was not heard.
const SAFETY_NET: Duration = Duration::from_secs(1);

struct Waiting {
    ticket: u64,
    claimant: Claimant,
    line: oneshot::Sender<Vec<ClaimedRun>>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    next_ticket: u64,
    /// Handed over to somebody who had stopped waiting.
    orphans: Vec<RunId>,
    closed: bool,
}

/// Where workers wait.
pub struct Dispatcher {
    ledger: Arc<dyn Ledger>,
    rules: ClaimRules,
    state: Mutex<State>,
    asked: Wake,
}

impl std::fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher").field("waiting", &self.state().waiting.len()).finish_non_exhaustive()
    }
}

impl Dispatcher {
    pub fn new(ledger: Arc<dyn Ledger>, settings: &EngineSettings) -> Arc<Self> {
        let rules = ClaimRules { weights: settings.weights, strategy: settings.strategy };
        Arc::new(Self { ledger, rules, state: Mutex::default(), asked: Wake::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits up to `wait` for runs. Nothing is lost when the caller goes away: what was already claimed for it goes back.
    pub async fn take(&self, claimant: Claimant, wait: Duration) -> Vec<ClaimedRun> {
        if claimant.wants == 0 {
            tokio::time::sleep(wait).await;
            return Vec::new();
        }
        let (line, answer) = oneshot::channel();
        let ticket = {
            let mut state = self.state();
            if state.closed {
                return Vec::new();
            }
            state.next_ticket += 1;
            let ticket = state.next_ticket;
            state.waiting.push(Waiting { ticket, claimant, line });
            ticket
        };
        self.asked.ring();
        // Whatever happens to the caller, the ticket is taken back, and runs that came too late go back to the queue.
        let mut ticket = Ticket { dispatcher: self, ticket, answer };
        tokio::select! {
            biased;
            runs = &mut ticket.answer => return runs.unwrap_or_default(),
            () = tokio::time::sleep(wait) => {}
        }
        // Between the end of the wait and taking the ticket back, an answer may have come.
        ticket.answer.close();
        ticket.answer.try_recv().unwrap_or_default()
    }

    /// Serves until the house closes.
    pub async fn serve(self: Arc<Self>, stop: CancellationToken) -> anyhow::Result<()> {
        let mut work = self.ledger.work_wake().listen();
        let mut asked = self.asked.listen();
        let mut looked = tokio::time::Instant::now();
        loop {
            work.forget();
            asked.forget();
            let served = self.round().await;
            self.return_orphans().await;
            if stop.is_cancelled() {
                break;
            }
            if served {
                continue;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = work.rung() => {}
                () = asked.rung() => {}
                () = tokio::time::sleep_until(looked + SAFETY_NET) => {
                    looked = tokio::time::Instant::now();
                    if let Err(error) = self.ledger.find_work().await {
                        tracing::debug!("the queue was not looked at: {error}");
                    }
                }
            }
        }
        let mut state = self.state();
        state.closed = true;
        state.waiting.clear();
        Ok(())
    }

    /// One claim for everybody who waits. Whether anybody got something.
    async fn round(&self) -> bool {
        let claimants: Vec<(u64, Claimant)> =
            self.state().waiting.iter().map(|w| (w.ticket, w.claimant.clone())).collect();
        if claimants.is_empty() {
            return false;
        }
        let (tickets, asking): (Vec<u64>, Vec<Claimant>) = claimants.into_iter().unzip();
        // Names are unique within a tenant only.
        let who: Vec<_> = asking.iter().map(|c| (c.worker.clone(), c.tenant, c.wants as usize)).collect();
        let claimed = match self.ledger.claim(asking, self.rules).await {
            Ok(claimed) => claimed,
            Err(StoreError::Unknown(why)) => {
                // Hand-outs may be stored that nobody got. Unconfirmed ones return after the accept time; those for our own
                // worker, which confirms with the claim, are given up after a lease without a heartbeat.
                tracing::warn!("the answer to a claim was lost; its runs will return: {why}");
                return false;
            }
            Err(error) => {
                tracing::debug!("nothing was claimed: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                return false;
            }
        };
        if claimed.is_empty() {
            return false;
        }
        let mut orphans = Vec::new();
        let mut by_worker: Vec<Vec<ClaimedRun>> = who.iter().map(|_| Vec::new()).collect();
        for run in claimed {
            // A worker may wait more than once; each of its waits gets what it wants and no more.
            let place = (0..who.len()).find(|n| {
                let (name, tenant, wants) = &who[*n];
                *name == run.worker && tenant.is_none_or(|t| t == run.tenant) && by_worker[*n].len() < *wants
            });
            match place {
                Some(place) => by_worker[place].push(run),
                None => orphans.push(run.run),
            }
        }
        for (ticket, runs) in tickets.into_iter().zip(by_worker) {
            if runs.is_empty() {
                continue;
            }
            let waiting = {
                let mut state = self.state();
                let place = state.waiting.iter().position(|w| w.ticket == ticket);
                place.map(|place| state.waiting.swap_remove(place))
            };
            let undelivered = match waiting {
                Some(waiting) => waiting.line.send(runs).err(),
                None => Some(runs),
            };
            orphans.extend(undelivered.into_iter().flatten().map(|run| run.run));
        }
        self.state().orphans.extend(orphans);
        true
    }

    /// Gives back runs whose worker went away between the claim and the hand-over.
    async fn return_orphans(&self) {
        let orphans = std::mem::take(&mut self.state().orphans);
        if !orphans.is_empty()
            && let Err(error) = self.ledger.give_back(orphans).await
        {
            tracing::warn!("runs whose worker went away return later: {error}");
        }
    }
}

/// Takes a waiting worker's place away when it stops waiting.
struct Ticket<'a> {
    dispatcher: &'a Dispatcher,
    ticket: u64,
    answer: oneshot::Receiver<Vec<ClaimedRun>>,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = self.dispatcher.state();
        if let Some(place) = state.waiting.iter().position(|w| w.ticket == self.ticket) {
            state.waiting.swap_remove(place);
        }
        self.answer.close();
        if let Ok(runs) = self.answer.try_recv() {
            state.orphans.extend(runs.iter().map(|run| run.run));
            drop(state);
            self.dispatcher.asked.ring();
        }
    }
}
