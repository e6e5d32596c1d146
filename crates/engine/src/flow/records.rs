//! What was recorded of a run, for whoever looks back: all of it, a page of turns at a time, or what came since a snapshot.

use bowline_model::{JobId, TenantId};
use bowline_store::{Ledger, StoreError, StoredFlow};
use bowline_workflow::flow::{Order, Record, read_records};

/// Turns that are read at a time.
const TURNS: u32 = 200;

/// A walk through the records of a run.
pub(super) struct Walk<'a> {
    ledger: &'a dyn Ledger,
    tenant: TenantId,
    job: JobId,
    from_step: u32,
    /// The turn that was read last.
    after: u64,
    is_over: bool,
}

impl<'a> Walk<'a> {
    /// From the turn on in which this step was made: there may be earlier ones in it.
    pub(super) fn from_step(ledger: &'a dyn Ledger, tenant: TenantId, job: JobId, from_step: u32) -> Self {
        Self { ledger, tenant, job, from_step, after: 0, is_over: false }
    }

    /// From the very beginning.
    pub(super) fn whole(ledger: &'a dyn Ledger, tenant: TenantId, job: JobId) -> Self {
        Self::from_step(ledger, tenant, job, 0)
    }

    /// The next of them, in order; none when that was all. A page can have none and not be the last.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Record>>, StoreError> {
        if self.is_over {
            return Ok(None);
        }
        let page = self.ledger.flow_records(self.tenant, self.job, self.from_step, self.after, TURNS).await?;
        match page.next {
            Some(turn) => self.after = turn,
            None => self.is_over = true,
        }
        read(&page.items).map(Some)
    }
}

/// What happened to a run since its snapshot, in order.
pub(super) fn since_snapshot(stored: &StoredFlow) -> Result<Vec<Record>, StoreError> {
    read(&stored.records)
}

fn read(turns: &[String]) -> Result<Vec<Record>, StoreError> {
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
