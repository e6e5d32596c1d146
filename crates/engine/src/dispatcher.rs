//! The dispatcher: brings workers that want work together with work that wants workers.
//!
//! Workers ask and wait here; nobody polls the ledger for them. When there may be work, everybody who waits is put into one
//! claim, so the strategy chooses among all of them, and one commit serves them all.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_model::{RunId, TenantId, WorkerName};
use bowline_store::{ClaimRules, Claimant, ClaimedRun, Ledger, StoreError, Wake, WakeListener};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::settings::EngineSettings;

/// Work that another server queued is found this often even if its bell was not heard.
const SAFETY_NET: Duration = Duration::from_secs(1);

/// How long the last look of a worker whose time is over may take.
const LAST_LOOK: Duration = Duration::from_secs(3);

struct Waiting {
    ticket: u64,
    claimant: Claimant,
    line: oneshot::Sender<Vec<ClaimedRun>>,
    /// Its time is over: it gets what there is now, and its answer.
    leaving: bool,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    next_ticket: u64,
    /// Handed over to somebody who had stopped waiting.
    orphans: Vec<RunId>,
    /// Workers that take nothing more.
    draining: HashSet<(TenantId, WorkerName)>,
    closed: bool,
}

impl State {
    fn is_draining(&self, claimant: &Claimant) -> bool {
        // Insiders serve every tenant, and nobody drains them.
        let Some(tenant) = claimant.tenant.filter(|_| !self.draining.is_empty()) else { return false };
        self.draining.contains(&(tenant, claimant.worker.clone()))
    }

    /// Answers waiting workers that take nothing more. Whether there were any.
    fn dismiss_drained(&mut self) -> bool {
        let waiting = std::mem::take(&mut self.waiting);
        let (drained, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|w| self.is_draining(&w.claimant));
        self.waiting = others;
        let any = !drained.is_empty();
        for worker in drained {
            drop(worker.line.send(Vec::new()));
        }
        any
    }
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
            if state.closed || state.is_draining(&claimant) {
                return Vec::new();
            }
            state.next_ticket += 1;
            let ticket = state.next_ticket;
            state.waiting.push(Waiting { ticket, claimant, line, leaving: false });
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
        // However short the wait was: one look is owed, and what it finds must not be dropped on the way.
        if let Some(waiting) = self.state().waiting.iter_mut().find(|w| w.ticket == ticket.ticket) {
            waiting.leaving = true;
        }
        self.asked.ring();
        tokio::time::timeout(LAST_LOOK, &mut ticket.answer).await.map_or_else(|_| Vec::new(), Result::unwrap_or_default)
    }

    /// Takes runs back whose worker did not get them.
    pub fn give_back(&self, runs: impl IntoIterator<Item = RunId>) {
        self.state().orphans.extend(runs);
        self.asked.ring();
    }

    /// Whether a worker was asked to take nothing more, as far as is known here.
    pub fn is_draining(&self, tenant: TenantId, worker: &WorkerName) -> bool {
        let state = self.state();
        !state.draining.is_empty() && state.draining.contains(&(tenant, worker.clone()))
    }

    /// From now on a worker takes nothing more, or goes on. What it waits for is answered with nothing; a claim that was made for
    /// it meanwhile goes back.
    pub fn set_draining(&self, tenant: TenantId, worker: WorkerName, draining: bool) {
        let dismissed = {
            let mut state = self.state();
            if draining {
                state.draining.insert((tenant, worker));
            } else {
                state.draining.remove(&(tenant, worker));
            }
            state.dismiss_drained()
        };
        if dismissed {
            self.asked.ring();
        }
    }

    /// Learns which workers were drained through another server.
    async fn learn_draining(&self) {
        if self.state().waiting.iter().all(|w| w.claimant.tenant.is_none()) {
            return;
        }
        match self.ledger.list_draining().await {
            Ok(draining) => {
                let mut state = self.state();
                state.draining = draining.into_iter().collect();
                state.dismiss_drained();
            }
            Err(error) => tracing::debug!(%error, "cannot read which workers drain, retrying"),
        }
    }

    /// Serves until the house closes.
    pub async fn serve(self: Arc<Self>, stop: CancellationToken) -> anyhow::Result<()> {
        let mut work = self.ledger.work_wake().listen();
        let mut asked = self.asked.listen();
        // Kept across rounds: where workers come and go all the time, no round is long enough for a net of its own.
        let mut look_at = Instant::now() + SAFETY_NET;
        while !stop.is_cancelled() {
            work.forget();
            asked.forget();
            if Instant::now() >= look_at {
                if let Err(error) = self.ledger.find_work().await {
                    tracing::debug!(%error, "cannot read the queue");
                }
                self.learn_draining().await;
                look_at = Instant::now() + SAFETY_NET;
            }
            let (claimants, leaving) = {
                let state = self.state();
                let claimants: Vec<(u64, Claimant)> =
                    state.waiting.iter().map(|w| (w.ticket, w.claimant.clone())).collect();
                (claimants, state.waiting.iter().filter(|w| w.leaving).map(|w| w.ticket).collect::<Vec<_>>())
            };
            if !leaving.is_empty() {
                self.last_look(claimants, &leaving).await;
            } else if claimants.is_empty() {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = asked.rung() => {}
                }
            } else {
                self.round(claimants, &mut work, &mut asked, &stop, look_at).await;
            }
            self.return_orphans().await;
        }
        let mut state = self.state();
        state.closed = true;
        state.waiting.clear();
        Ok(())
    }

    /// One claim for everybody who waits, at once. Those who are leaving are answered in any case.
    async fn last_look(&self, claimants: Vec<(u64, Claimant)>, leaving: &[u64]) {
        let (tickets, asking): (Vec<u64>, Vec<Claimant>) = claimants.into_iter().unzip();
        let who = who_asks(&asking);
        match self.ledger.claim(asking, self.rules).await {
            Ok(claimed) => self.hand_over(claimed, tickets, &who),
            Err(error) => say_why_nothing_came(&error),
        }
        let mut state = self.state();
        for ticket in leaving {
            if let Some(place) = state.waiting.iter().position(|w| w.ticket == *ticket) {
                drop(state.waiting.swap_remove(place).line.send(Vec::new()));
            }
        }
    }

    /// One claim for everybody who waits. It stays with the ledger until there is something to take, or until the claim
    /// should be another one.
    async fn round(
        &self,
        claimants: Vec<(u64, Claimant)>,
        work: &mut WakeListener,
        asked: &mut WakeListener,
        stop: &CancellationToken,
        look_at: Instant,
    ) {
        let (tickets, asking): (Vec<u64>, Vec<Claimant>) = claimants.into_iter().unzip();
        let who = who_asks(&asking);
        let mut claim = self.ledger.claim_when_queued(asking, self.rules);
        let answer = tokio::select! {
            biased;
            answer = &mut claim => answer,
            () = self.reason_to_ask_again(work, asked, stop, look_at) => {
                self.ledger.withdraw_claim();
                claim.await
            }
        };
        match answer {
            Ok(claimed) => self.hand_over(claimed, tickets, &who),
            Err(error) => {
                say_why_nothing_came(&error);
                if !matches!(error, StoreError::Unknown(_)) {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Somebody else waits or has stopped waiting; something was queued that the claim did not get; or it is time to look
    /// what other servers have queued.
    async fn reason_to_ask_again(
        &self,
        work: &mut WakeListener,
        asked: &mut WakeListener,
        stop: &CancellationToken,
        look_at: Instant,
    ) {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = asked.rung() => {}
            () = work.rung() => {}
            () = tokio::time::sleep_until(look_at) => {}
        }
    }

    fn hand_over(&self, claimed: Vec<ClaimedRun>, tickets: Vec<u64>, who: &[Asker]) {
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
    }

    /// Gives back runs whose worker went away between the claim and the hand-over.
    async fn return_orphans(&self) {
        let orphans = std::mem::take(&mut self.state().orphans);
        if !orphans.is_empty()
            && let Err(error) = self.ledger.give_back(orphans).await
        {
            tracing::warn!(%error, "cannot return runs whose worker went away, their leases will");
        }
    }
}

/// A worker, whose it is, and how much it wants. Names are unique within a tenant only.
type Asker = (WorkerName, Option<TenantId>, usize);

/// Where the answer was lost, hand-outs may be stored that nobody got. Unconfirmed ones return after the accept time; those
/// for our own worker, which confirms with the claim, are given up after a lease without a heartbeat.
fn say_why_nothing_came(error: &StoreError) {
    match error {
        StoreError::Unknown(why) => {
            tracing::warn!(error = %why, "the answer to a claim was lost, its runs will return");
        }
        error => tracing::debug!(%error, "cannot claim runs"),
    }
}

fn who_asks(asking: &[Claimant]) -> Vec<Asker> {
    asking.iter().map(|c| (c.worker.clone(), c.tenant, c.wants as usize)).collect()
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
        let waited = state.waiting.iter().position(|w| w.ticket == self.ticket);
        if let Some(place) = waited {
            state.waiting.swap_remove(place);
        }
        self.answer.close();
        let late = self.answer.try_recv();
        state.orphans.extend(late.iter().flatten().map(|run| run.run));
        drop(state);
        // The claim that stands for it is another one now; and runs that came too late go back.
        if waited.is_some() || late.is_ok() {
            self.dispatcher.asked.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use bowline_model::Labels;
    use bowline_store::WorkerRecord;
    use tokio::task::JoinSet;

    use super::*;
    use crate::fixture::{LogLines, NOW, claimant, claimed, job, ledger, tenant, unavailable_ledger, worker_name};

    /// So long nobody waits in these tests.
    const LONG: Duration = Duration::from_secs(600);

    fn dispatcher(ledger: Arc<dyn Ledger>) -> Arc<Dispatcher> {
        let rules = ClaimRules { weights: Default::default(), strategy: Default::default() };
        Arc::new(Dispatcher { ledger, rules, state: Mutex::default(), asked: Wake::default() })
    }

    /// The answer, if it is there already.
    fn answer(take: Pin<&mut impl Future<Output = Vec<ClaimedRun>>>) -> Option<Vec<RunId>> {
        match take.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(runs) => Some(runs.iter().map(|run| run.run).collect()),
            Poll::Pending => None,
        }
    }

    fn tickets(dispatcher: &Dispatcher) -> Vec<u64> {
        dispatcher.state().waiting.iter().map(|waiting| waiting.ticket).collect()
    }

    #[tokio::test]
    async fn a_draining_worker_is_answered_with_nothing_and_the_others_wait_on() {
        let dispatcher = dispatcher(ledger());
        let take = |tenant, worker| dispatcher.take(claimant(tenant, worker, 1), LONG);
        let (mut drained, mut neighbour) = (pin!(take(Some(tenant(1)), "w1")), pin!(take(Some(tenant(1)), "w2")));
        let (mut namesake, mut insider) = (pin!(take(Some(tenant(2)), "w1")), pin!(take(None, "w1")));
        for waiting in [&mut drained, &mut neighbour, &mut namesake, &mut insider] {
            assert_eq!(answer(waiting.as_mut()), None);
        }

        let (w1, w2) = (worker_name("w1"), worker_name("w2"));
        assert!(!dispatcher.is_draining(tenant(1), &w1));
        dispatcher.set_draining(tenant(1), w1.clone(), true);
        assert_eq!(answer(drained.as_mut()), Some(vec![]));
        for waiting in [&mut neighbour, &mut namesake, &mut insider] {
            assert_eq!(answer(waiting.as_mut()), None);
        }
        assert!(dispatcher.is_draining(tenant(1), &w1));
        assert!(!dispatcher.is_draining(tenant(1), &w2) && !dispatcher.is_draining(tenant(2), &w1));
        assert_eq!(answer(pin!(take(Some(tenant(1)), "w1"))), Some(vec![]), "while it drains it gets nothing");
        assert_eq!(answer(pin!(take(Some(tenant(1)), "w2"))), None);

        dispatcher.set_draining(tenant(1), w1.clone(), false);
        assert!(!dispatcher.is_draining(tenant(1), &w1));
        assert_eq!(answer(pin!(take(Some(tenant(1)), "w1"))), None);
    }

    #[tokio::test]
    async fn a_worker_that_was_drained_through_another_server_is_answered_with_nothing() {
        let ledger = ledger();
        let worker = WorkerRecord {
            tenant: tenant(1),
            name: worker_name("w1"),
            worker_type: "test".to_owned(),
            task_types: Vec::new(),
            labels: Labels::default(),
            claimed_labels: Labels::default(),
            shares_agent_user: false,
            version: String::new(),
            slots: 1,
            registered_at: NOW,
            seen_at: NOW,
            draining: false,
            names_runs: false,
        };
        ledger.register_worker(worker).await.expect("stored");
        let dispatcher = dispatcher(Arc::clone(&ledger));
        let mut waiting = pin!(dispatcher.take(claimant(Some(tenant(1)), "w1", 1), LONG));
        assert_eq!(answer(waiting.as_mut()), None);
        dispatcher.learn_draining().await;
        assert_eq!(answer(waiting.as_mut()), None);
        assert!(ledger.drain_worker(tenant(1), worker_name("w1"), true, "ops".into()).await.expect("stored"));
        dispatcher.learn_draining().await;
        assert_eq!(answer(waiting.as_mut()), Some(vec![]));
        assert!(dispatcher.is_draining(tenant(1), &worker_name("w1")));
    }

    /// As often, and no more often, whether it can be read or not.
    #[tokio::test(start_paused = true)]
    async fn the_queue_is_read_once_a_second_while_somebody_waits() {
        let (lines, stop) = (LogLines::capture(), CancellationToken::new());
        let dispatcher = dispatcher(unavailable_ledger());
        let mut waiting = pin!(dispatcher.take(claimant(Some(tenant(1)), "w1", 1), LONG));
        assert_eq!(answer(waiting.as_mut()), None);
        let mut serving = JoinSet::new();
        serving.spawn(Arc::clone(&dispatcher).serve(stop.clone()));
        let settle = async || {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        };
        settle().await;
        for reads in 0..5 {
            assert_eq!(lines.count("cannot read the queue"), reads);
            tokio::time::advance(SAFETY_NET).await;
            settle().await;
        }
        stop.cancel();
        serving.join_next().await.expect("a task").expect("no panic").expect("served to the end");
        assert_eq!(answer(waiting.as_mut()), Some(vec![]), "whoever waits when the server stops is answered");
        let late = dispatcher.take(claimant(Some(tenant(1)), "w1", 1), LONG);
        assert_eq!(answer(pin!(late)), Some(vec![]));
    }

    #[tokio::test]
    async fn each_wait_gets_what_it_wants_and_the_rest_goes_back() {
        let dispatcher = dispatcher(ledger());
        let asking = [
            claimant(Some(tenant(1)), "w1", 2),
            claimant(Some(tenant(1)), "w1", 1),
            claimant(Some(tenant(2)), "w1", 5),
            claimant(None, "inside", 5),
        ];
        let [one, two, three, four] = asking.clone().map(|claimant| dispatcher.take(claimant, LONG));
        let (mut one, mut two, mut three, mut four) = (pin!(one), pin!(two), pin!(three), pin!(four));
        for waiting in [&mut one, &mut two, &mut three, &mut four] {
            assert_eq!(answer(waiting.as_mut()), None);
        }
        let runs = [
            (1, "w1"), // for the first wait
            (1, "w1"),
            (1, "w1"), // for the second
            (1, "w1"), // more than both want
            (2, "w1"), // for the worker of the same name
            (1, "inside"),
            (2, "inside"),
            (1, "w2"), // for nobody who waits
        ];
        let runs: Vec<ClaimedRun> = (1..).zip(runs).map(|(n, (who, worker))| claimed(tenant(who), worker, n)).collect();
        let id = |n: usize| runs[n].run;
        dispatcher.hand_over(runs.clone(), tickets(&dispatcher), &who_asks(&asking));
        assert_eq!(answer(one), Some(vec![id(0), id(1)]));
        assert_eq!(answer(two), Some(vec![id(2)]));
        assert_eq!(answer(three), Some(vec![id(4)]));
        assert_eq!(answer(four), Some(vec![id(5), id(6)]));
        assert_eq!(dispatcher.state().orphans, [id(3), id(7)]);
        assert_eq!(tickets(&dispatcher), [0; 0]);
    }

    #[tokio::test]
    async fn runs_of_a_worker_that_has_stopped_waiting_go_back() {
        let dispatcher = dispatcher(ledger());
        let who = claimant(Some(tenant(1)), "w1", 1);
        let (first, second) = (claimed(tenant(1), "w1", 1), claimed(tenant(1), "w1", 2));
        for (run, is_handed_over_in_time) in [(&first, true), (&second, false)] {
            let mut waiting = Box::pin(dispatcher.take(who.clone(), LONG));
            assert_eq!(answer(waiting.as_mut()), None);
            let tickets = tickets(&dispatcher);
            let hand_over = || dispatcher.hand_over(vec![run.clone()], tickets, &who_asks(std::slice::from_ref(&who)));
            if is_handed_over_in_time {
                hand_over();
                drop(waiting);
            } else {
                drop(waiting);
                hand_over();
            }
            assert_eq!(dispatcher.state().waiting.len(), 0);
        }
        assert_eq!(dispatcher.state().orphans, [first.run, second.run]);
    }

    #[tokio::test]
    async fn a_run_that_is_given_back_is_handed_out_again() {
        let (ledger, patience) = (ledger(), Duration::from_secs(30));
        let dispatcher = dispatcher(Arc::clone(&ledger));
        let mut serving = JoinSet::new();
        serving.spawn(Arc::clone(&dispatcher).serve(CancellationToken::new()));
        ledger.submit(vec![job(tenant(1), 1, "null")]).await.expect("stored");
        let first = dispatcher.take(claimant(Some(tenant(1)), "w1", 1), patience).await;
        assert_eq!(first.len(), 1);
        dispatcher.give_back(first.iter().map(|run| run.run));
        let second = dispatcher.take(claimant(Some(tenant(1)), "w2", 1), patience).await;
        assert_eq!(second.iter().map(|run| (run.job, run.worker.as_str())).collect::<Vec<_>>(), [(first[0].job, "w2")]);
    }
}
