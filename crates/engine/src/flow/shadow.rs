//! The shadow of a run: once more with the answers it got, perhaps by another definition, and what would be different.
//!
//! Somebody who may only read asks for this, and it can be much work. So it is done next to everything else, one at a time for each
//! tenant and two in all, for as long as the caller is still there and not for longer than [`PATIENCE`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bowline_model::{JobId, TenantId};
use bowline_store::StoreError;
use bowline_workflow::flow::{Differences, GivenUp, Record, Recorded, shadow};
use serde::Serialize;

use super::Flows;
use super::asked::Asked;
use super::compile::compile;
use super::definitions::Definition;
use super::look::LookError;
use super::records::Walk;
use super::room::HISTORY_BYTES_MAX;

const PATIENCE: Duration = Duration::from_secs(10);

/// A run, once more, with the answers it got.
#[derive(Debug, Clone, Serialize)]
pub struct ShadowView {
    pub steps: u32,
    pub differences: Differences,
}

/// Tells the work that nobody waits for it any more.
#[derive(Default)]
struct Asker(Arc<AtomicBool>);

impl Drop for Asker {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Flows {
    /// Runs it again with recorded answers instead of side effects, by this definition or by its own.
    pub async fn shadow(
        &self,
        tenant: TenantId,
        job: JobId,
        definition: Option<&Definition>,
    ) -> Result<ShadowView, LookError> {
        let number = self.ledger.flow_number(tenant, job).await?.ok_or(LookError::NotFound)?;
        let stored = self.ledger.load_flows(vec![number], Some(0)).await?;
        let stored = stored.into_iter().next().ok_or(LookError::NotFound)?;
        if self.ledger.find_flow(tenant, job).await?.is_some_and(|flow| flow.forked_from.is_some()) {
            let what = "this run goes on from another one; look at the shadow of that one".to_owned();
            return Err(LookError::Bad(what));
        }
        let own = self.definitions.of_run(tenant, stored.definition).await?;
        let program = match definition {
            Some(other) => Arc::new(compile(tenant, other.clone()).await?.0),
            None => Arc::clone(&own),
        };
        let context = Asked::of(&stored)?.context_of(&stored);
        let place = self.shadows.enter(tenant).await;
        let records = self.records_of(tenant, job).await?;
        let asker = Asker::default();
        let (gone, until) = (Arc::clone(&asker.0), Instant::now() + PATIENCE);
        let work = tokio::task::spawn_blocking(move || {
            let steps = records.iter().filter_map(Record::as_step).count();
            let recorded = Recorded { program: &own, context: &context, records: &records };
            let mut may_go_on = || !gone.load(Ordering::Relaxed) && Instant::now() < until;
            let differences = shadow(&program, &recorded, &mut may_go_on)?;
            Ok(ShadowView { steps: u32::try_from(steps).unwrap_or(u32::MAX), differences })
        });
        let seen = work.await.map_err(|error| StoreError::Broken(format!("a shadow broke: {error}")))?;
        drop(place);
        let slow = || format!("the shadow was not worked out within {} s", PATIENCE.as_secs());
        seen.map_err(|GivenUp| LookError::Bad(slow()))
    }

    /// Everything that was recorded of a run.
    async fn records_of(&self, tenant: TenantId, job: JobId) -> Result<Vec<Record>, LookError> {
        let mut records = Vec::new();
        let mut walk = Walk::whole(&*self.ledger, tenant, job);
        while let Some(more) = walk.next().await? {
            if walk.bytes as u64 > HISTORY_BYTES_MAX {
                return Err(LookError::TooLarge { bytes: walk.bytes as u64, max: HISTORY_BYTES_MAX });
            }
            records.extend(more);
        }
        Ok(records)
    }
}
