//! A write under a caller's key: carried out once, and answered again with what it led to.

use bowline_model::{JobStatus, TenantId, Timestamp};
use bowline_store::{BlockAnswer, Closed, Once, OnceKey, OnceOutcome, OrderAnswer, StoreError, StoreResult};
use serde::{Deserialize, Serialize};

use crate::batch::After;
use crate::command::{Answer, Command};
use crate::db::AnyDb;
use crate::single;
use crate::write::{Desk, Known, find_once, keep_once};

/// What is kept of a write that was carried out.
#[derive(Serialize, Deserialize)]
struct Kept {
    by: String,
    at: Timestamp,
    outcome: KeptOutcome,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeptOutcome {
    Retried(i64),
    Blocked(i64),
    Unblocked,
    DeadLetters(Vec<Closed>),
}

pub async fn carry_out(
    db: &mut AnyDb,
    desk: &mut Desk<'_>,
    key: &OnceKey,
    write: &Command,
    after: &mut After,
) -> StoreResult<Once> {
    let foreign = || StoreError::Broken("this write takes no key".to_owned());
    let (tenant, operation) = operation(write).ok_or_else(foreign)?;
    match find_once(db, tenant, &operation, Some(key)).await? {
        Some(Known::Conflict) => return Ok(Once::KeyConflict),
        Some(Known::Answered(text)) => {
            let broken = |what: String| StoreError::Broken(format!("a kept answer: {what}"));
            let Kept { by, at, outcome } = serde_json::from_str(&text).map_err(|e| broken(e.to_string()))?;
            let outcome = shown(outcome).ok_or_else(|| broken("unknown status".to_owned()))?;
            return Ok(Once::Replayed { outcome, by, at });
        }
        None => {}
    }
    let answer = Box::pin(single::one(db, desk, write, after)).await?;
    let outcome = outcome(answer).ok_or_else(foreign)?;
    if let Some(kept) = kept(&outcome) {
        let by = write.author().map(ToString::to_string).unwrap_or_default();
        let text = serde_json::to_string(&Kept { by, at: desk.now, outcome: kept })
            .map_err(|e| StoreError::Broken(format!("an answer cannot be kept: {e}")))?;
        keep_once(db, desk, tenant, &operation, Some(key), &text).await?;
    }
    Ok(Once::Done(outcome))
}

/// What a key is for: the same key may stand for one request of each operation.
fn operation(write: &Command) -> Option<(TenantId, String)> {
    Some(match write {
        Command::Retry(order, _) | Command::RetryHosts((order, _), _) => (order.tenant, format!("retry/{}", order.job)),
        Command::Block(block, _) => (block.tenant, "block".to_owned()),
        Command::Unblock((tenant, block, ..), _) => (*tenant, format!("unblock/{block}")),
        Command::Replay(order, _) => (order.tenant, format!("replay/{}", order.lane)),
        Command::Purge(order, _) => (order.tenant, format!("purge/{}", order.lane)),
        _ => return None,
    })
}

fn outcome(answer: Answer) -> Option<OnceOutcome> {
    Some(match answer {
        Answer::Retry(answer) | Answer::RetryHosts(answer) => OnceOutcome::Retry(answer),
        Answer::Block(answer) => OnceOutcome::Block(answer),
        Answer::Unblock(lifted) => OnceOutcome::Unblock(lifted),
        Answer::Replay(closed) | Answer::Purge(closed) => OnceOutcome::DeadLetters(closed),
        _ => return None,
    })
}

/// The answer as the write gives it without a key.
pub fn answer(write: &Command, outcome: &OnceOutcome) -> Option<Answer> {
    Some(match (write, outcome) {
        (Command::Retry(..), OnceOutcome::Retry(answer)) => Answer::Retry(*answer),
        (Command::RetryHosts(..), OnceOutcome::Retry(answer)) => Answer::RetryHosts(*answer),
        (Command::Block(..), OnceOutcome::Block(answer)) => Answer::Block(*answer),
        (Command::Unblock(..), OnceOutcome::Unblock(lifted)) => Answer::Unblock(*lifted),
        (Command::Replay(..), OnceOutcome::DeadLetters(closed)) => Answer::Replay(closed.clone()),
        (Command::Purge(..), OnceOutcome::DeadLetters(closed)) => Answer::Purge(closed.clone()),
        _ => return None,
    })
}

/// The outcome of a write that was not made.
pub fn refused(write: &Command) -> OnceOutcome {
    match write {
        Command::Block(..) => OnceOutcome::Block(BlockAnswer::NoHost),
        Command::Unblock(..) => OnceOutcome::Unblock(false),
        Command::Replay(..) | Command::Purge(..) => OnceOutcome::DeadLetters(Vec::new()),
        _ => OnceOutcome::Retry(OrderAnswer::NotFound),
    }
}

/// Refusals are not kept: what was refused may be possible later, under the same key.
fn kept(outcome: &OnceOutcome) -> Option<KeptOutcome> {
    match outcome {
        OnceOutcome::Retry(OrderAnswer::Done(status)) => Some(KeptOutcome::Retried(status.code())),
        OnceOutcome::Block(BlockAnswer::Made(id)) => Some(KeptOutcome::Blocked(*id)),
        OnceOutcome::Unblock(true) => Some(KeptOutcome::Unblocked),
        OnceOutcome::DeadLetters(closed) => Some(KeptOutcome::DeadLetters(closed.clone())),
        OnceOutcome::Retry(_) | OnceOutcome::Block(_) | OnceOutcome::Unblock(false) => None,
    }
}

fn shown(kept: KeptOutcome) -> Option<OnceOutcome> {
    Some(match kept {
        KeptOutcome::Retried(code) => OnceOutcome::Retry(OrderAnswer::Done(JobStatus::from_code(code)?)),
        KeptOutcome::Blocked(id) => OnceOutcome::Block(BlockAnswer::Made(id)),
        KeptOutcome::Unblocked => OnceOutcome::Unblock(true),
        KeptOutcome::DeadLetters(closed) => OnceOutcome::DeadLetters(closed),
    })
}
