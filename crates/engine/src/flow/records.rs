//! What was recorded of a run, for whoever looks back: all of it, a page of turns at a time, or what came since a snapshot.

use bowline_model::{JobId, TenantId};
use bowline_store::{Ledger, StoreError, StoredFlow};
use bowline_workflow::flow::{Order, Record, read_records};

use crate::aside;

/// Turns that are read at a time.
const TURNS: u32 = 200;

/// Bytes of a history that are read where they are asked for; more are read on another thread.
pub(super) const BYTES_HERE: usize = 64 * 1024;

/// How much is stored of a run, as far as it was loaded.
pub(super) fn size_of(stored: &StoredFlow) -> usize {
    let records: usize = stored.records.iter().map(String::len).sum();
    records + stored.payload.len() + stored.snapshot.as_ref().map_or(0, String::len)
}

/// Reads so many bytes of a history: here if they are few, otherwise on a blocking thread, within the tenant's share of them.
pub(super) async fn read_aside<T: Send + 'static>(
    tenant: TenantId,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes <= BYTES_HERE { work() } else { aside::run(tenant, work).await }
}

/// A walk through the records of a run.
pub(super) struct Walk<'a> {
    ledger: &'a dyn Ledger,
    tenant: TenantId,
    job: JobId,
    from_step: u32,
    /// The turn that was read last.
    after: u64,
    is_over: bool,
    /// Bytes that were read so far.
    pub(super) bytes: usize,
}

impl<'a> Walk<'a> {
    /// From the turn on in which this step was made: there may be earlier ones in it.
    pub(super) fn from_step(ledger: &'a dyn Ledger, tenant: TenantId, job: JobId, from_step: u32) -> Self {
        Self { ledger, tenant, job, from_step, after: 0, is_over: false, bytes: 0 }
    }

    /// From the very beginning.
    pub(super) fn whole(ledger: &'a dyn Ledger, tenant: TenantId, job: JobId) -> Self {
        Self::from_step(ledger, tenant, job, 0)
    }

    /// The next of them, in order; none when that was all. A page can have none and not be the last.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Record>>, StoreError> {
        let Some(turns) = self.next_turns().await? else { return Ok(None) };
        let page_bytes = turns.iter().map(String::len).sum();
        read_aside(self.tenant, page_bytes, move || read(&turns)).await.map(Some)
    }

    /// The same, turn by turn and as they are stored.
    pub(super) async fn next_turns(&mut self) -> Result<Option<Vec<String>>, StoreError> {
        if self.is_over {
            return Ok(None);
        }
        let page = self.ledger.flow_records(self.tenant, self.job, self.from_step, self.after, TURNS).await?;
        self.bytes += page.items.iter().map(String::len).sum::<usize>();
        match page.next {
            Some(turn) => self.after = turn,
            None => self.is_over = true,
        }
        Ok(Some(page.items))
    }
}

/// What happened to a run since its snapshot, in order.
pub(super) fn since_snapshot(stored: &StoredFlow) -> Result<Vec<Record>, StoreError> {
    read(&stored.records)
}

pub(super) fn read(turns: &[String]) -> Result<Vec<Record>, StoreError> {
    let mut records = Vec::new();
    for turn in turns {
        records.extend(read_records(turn).map_err(|e| StoreError::Broken(e.to_string()))?);
    }
    Ok(records)
}

/// What people changed in a run between a step and the next: variables, pins and breakpoints, not how it goes on.
pub(super) fn said_after(records: &[Record], step: u32) -> impl Iterator<Item = &Record> {
    let is_past = move |record: &&Record| !matches!(record, Record::Step(other) if other.n > step);
    let since = records.iter().position(|record| matches!(record, Record::Step(own) if own.n == step));
    let after = records[since.map_or(0, |place| place + 1)..].iter().take_while(is_past);
    after.filter(|record| match record {
        Record::Steered { order, .. } => {
            !matches!(order, Order::Pause | Order::Step | Order::Continue | Order::RunTo(_))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use bowline_model::Timestamp;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_large_history_is_read_on_another_thread() {
        let tenant = TenantId::mint(Timestamp::from_millis(1), [1; 10]);
        let here = thread::current().id();
        assert_eq!(read_aside(tenant, BYTES_HERE, || thread::current().id()).await, here);
        assert_ne!(read_aside(tenant, BYTES_HERE + 1, || thread::current().id()).await, here);
    }
}
