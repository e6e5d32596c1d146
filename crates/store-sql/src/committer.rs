//! Group commit: whoever waits is taken along.
//!
//! While one batch commits, the next one gathers; nobody waits for a timer. A batch is one transaction; each caller gets
//! its own answer, after the commit. When a batch fails because of what is in it, it is tried again in halves, so
//! that one poisonous wish cannot fail its neighbours. When the ledger itself is away, everybody is told so at once.

use std::sync::Arc;

use bowline_store::{ClaimedRun, LedgerClock, StoreError, StoreResult};
use rand::rngs::StdRng;
use tokio::sync::mpsc;

use crate::batch::{After, attempt};
use crate::command::{Command, Look};
use crate::db::{AnyDb, Db, PgDb, PgSettings};
use crate::failpoint;
use crate::queue::Taker;
use crate::shared::Shared;
use crate::standing::StandingClaim;

/// Wishes of one batch, by weight. Larger batches gain nothing and make the first caller wait.
const BATCH_WEIGHT: usize = 2_000;

/// Where connections come from, and come from again.
#[derive(Debug)]
pub enum Source {
    /// One connection, for good.
    Held(Box<AnyDb>),
    /// A server that may go away and come back.
    Pg { settings: Arc<PgSettings>, clock: Arc<LedgerClock>, db: Option<Box<AnyDb>> },
}

impl Source {
    /// A connection that is made when it is first wanted.
    pub fn postgres(settings: &Arc<PgSettings>, shared: &Shared) -> Self {
        Self::Pg { settings: Arc::clone(settings), clock: Arc::clone(&shared.clock), db: None }
    }

    pub async fn get(&mut self) -> StoreResult<&mut AnyDb> {
        match self {
            Self::Held(db) => Ok(db),
            Self::Pg { settings, clock, db } => {
                if !db.as_ref().is_some_and(|db| db.is_usable()) {
                    *db = None;
                    *db = Some(Box::new(AnyDb::Pg(PgDb::connect(settings).await?.with_clock(clock))));
                }
                db.as_deref_mut().ok_or_else(|| StoreError::Unavailable("no connection".to_owned()))
            }
        }
    }
}

/// Runs until every handle to the ledger is gone.
pub async fn commit_forever(mut source: Source, writes: Taker, shared: Arc<Shared>, mut rng: StdRng) {
    let mut waiting = Vec::with_capacity(256);
    while writes.batch(BATCH_WEIGHT, &mut waiting).await {
        let batch = std::mem::take(&mut waiting);
        match source.get().await {
            Ok(db) => run(db, &shared, &mut rng, batch).await,
            Err(error) => {
                tracing::warn!(writes = batch.len(), %error, "rejected writes, the ledger is unavailable");
                for command in batch {
                    command.reply(Err(error.clone()));
                }
            }
        }
    }
}

/// Answers questions until every handle to the ledger is gone.
pub async fn read_forever(mut source: Source, looks: Arc<tokio::sync::Mutex<mpsc::Receiver<Look>>>) {
    loop {
        let look = {
            let mut line = looks.lock().await;
            match line.recv().await {
                Some(look) => look,
                None => return,
            }
        };
        match source.get().await {
            Ok(db) => look(db).await,
            // Dropping the question drops its line; the asker hears that the ledger is away.
            Err(error) => tracing::debug!(%error, "cannot answer a read"),
        }
    }
}

async fn run(db: &mut AnyDb, shared: &Shared, rng: &mut StdRng, batch: Vec<Command>) {
    let mut wishes = Vec::with_capacity(batch.len());
    for command in batch {
        match command {
            Command::Look(look) => look(db).await,
            wish if wish.is_abandoned() => {}
            wish => wishes.push(wish),
        }
    }
    // Batches still to be tried, the first one last.
    let mut stack = vec![(wishes, 0u32)];
    while let Some((mut wishes, tries)) = stack.pop() {
        if wishes.is_empty() {
            continue;
        }
        let mut after = After::default();
        let stored = attempt(db, shared, rng, &wishes, &mut after).await;
        let standing = after.standing.take();
        let unaudited = after.unaudited;
        let failed = stored.as_ref().err().cloned();
        match stored {
            Ok(answers) => {
                failpoint::after_commit(&answers, standing.as_ref().is_some_and(|(_, claimed)| !claimed.is_empty()));
                after.ring(shared);
                for (wish, answer) in wishes.into_iter().zip(answers) {
                    wish.reply(Ok(answer));
                }
            }
            Err(error) => {
                db.rollback().await;
                if matches!(error, StoreError::Unknown(_)) {
                    // It may be stored. Whoever is rung in vain looks and finds nothing; whoever is not would not look.
                    // Lines it made are not remembered: one that is not stored would be used by everybody after it. Those that
                    // are stored are learned again when somebody looks for work.
                    after.emptied.clear();
                    after.lines.clear();
                    after.ring(shared);
                }
                let poisonous = matches!(error, StoreError::Conflict(_) | StoreError::Broken(_));
                let unaudited = unaudited && !matches!(error, StoreError::Conflict(_));
                if unaudited && wishes.iter().any(|wish| wish.author().is_none()) && db.is_usable() {
                    // What needs no record goes on without those who do.
                    let (privileged, plain) = wishes.into_iter().partition(|wish| wish.author().is_some());
                    stack.push((privileged, tries));
                    stack.push((plain, tries));
                } else if poisonous && wishes.len() > 1 && db.is_usable() {
                    tracing::debug!(writes = wishes.len(), %error, "retrying a batch in halves");
                    let second = wishes.split_off(wishes.len() / 2);
                    stack.push((second, tries));
                    stack.push((wishes, tries));
                } else if matches!(error, StoreError::Conflict(_)) && tries < 5 && db.is_usable() {
                    stack.push((wishes, tries + 1));
                } else {
                    tracing::warn!(writes = wishes.len(), %error, "rejected writes");
                    // C13: what cannot be recorded is not done, and may be asked for again when it can be.
                    let error = match error {
                        StoreError::Broken(why) if unaudited => {
                            StoreError::Unavailable(format!("the audit trail cannot be written: {why}"))
                        }
                        error => error,
                    };
                    for wish in wishes {
                        wish.reply(Err(error.clone()));
                    }
                }
            }
        }
        if let Some((claim, claimed)) = standing {
            answer_standing(shared, claim, claimed, failed);
        }
    }
}

/// The claim that stood by gets what was taken for it; where nothing was, it waits on.
fn answer_standing(shared: &Shared, claim: StandingClaim, claimed: Vec<ClaimedRun>, failed: Option<StoreError>) {
    match failed {
        None if !claimed.is_empty() => claim.answer(Ok(claimed)),
        // Its hand-outs may be stored.
        Some(error @ StoreError::Unknown(_)) if !claimed.is_empty() => claim.answer(Err(error)),
        _ => shared.standing.put_back(claim),
    }
}
