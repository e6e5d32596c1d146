//! The stage of workflows: what must be there before anybody asks, everybody who acts, and when all is over.

use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use bowline_engine::fleet::PutError;
use bowline_model::resource::Spec;
use bowline_model::{JobId, ResourceName, TaskType, TenantId};
use bowline_store::{FlowStore, InboxPart, JobFilter, JobRecord, JobStore, StoreError, StoreResult};
use bowline_workflow::flow::Order;
use tokio::task::{JoinHandle, spawn_local};

use super::graph::{INNER, inner};
use super::people;
use crate::network::{call_any, pause};
use crate::world::World;

/// Stores the next version of a workflow that others begin.
pub async fn put_inner(world: &Rc<World>, tenant: TenantId, which: usize) -> StoreResult<()> {
    let version = {
        let mut notes = world.notes.borrow_mut();
        let version = notes.flow.versions.entry((tenant, which)).or_default();
        *version += 1;
        *version
    };
    let name = ResourceName::new(INNER[which]).expect("a name");
    let spec = Spec::Workflow(Box::new(inner(world, INNER[which], version)));
    let put = |engine: Arc<bowline_engine::Engine>| async move {
        let stored = engine.resources.put(tenant, name, &spec, None, "ops".into(), true, None).await;
        stored.map(drop).map_err(|error| match error {
            PutError::Store(error) => error,
            other => StoreError::Broken(other.to_string()),
        })
    };
    call_any(world, put).await
}

/// Everything there must be before anybody can ask for anything.
pub async fn set_up(world: &Rc<World>) {
    if world.plan.askers == 0 {
        return;
    }
    for tenant in world.tenants {
        for (which, name) in INNER.iter().enumerate() {
            loop {
                match put_inner(world, tenant, which).await {
                    Ok(()) => break,
                    Err(StoreError::Broken(why)) => panic!("{name} cannot be stored: {why}"),
                    Err(_) => pause(world).await,
                }
            }
        }
    }
}

/// Everybody begins. They end by themselves once all is calm.
pub fn start(world: &Rc<World>) -> Vec<JoinHandle<()>> {
    let mut all = Vec::new();
    if world.plan.askers == 0 {
        return all;
    }
    for _ in 0..world.plan.askers {
        all.push(spawn_local(people::asker(Rc::clone(world))));
    }
    for _ in 0..world.plan.meddlers {
        all.push(spawn_local(people::meddler(Rc::clone(world))));
    }
    all.push(spawn_local(people::decider(Rc::clone(world))));
    all
}

/// Every run there is.
pub async fn all_runs(world: &World) -> StoreResult<Vec<JobRecord>> {
    let mut all = Vec::new();
    for tenant in world.tenants {
        let mut before = None;
        loop {
            let filter = JobFilter { task_type: Some(TaskType::workflow()), ..JobFilter::default() };
            let page = world.ledger.list_jobs(tenant, filter, before, 500).await?;
            all.extend(page.items);
            before = page.next;
            if before.is_none() {
                break;
            }
        }
    }
    Ok(all)
}

/// Whoever stopped a run lets it go on, now that all is calm.
pub async fn let_go(world: &Rc<World>) -> anyhow::Result<()> {
    let runs: Vec<(JobId, TenantId)> = {
        let notes = world.notes.borrow();
        let under_way = notes.flow.seen.iter().filter(|(_, seen)| !seen.status.is_terminal());
        under_way.map(|(job, seen)| (*job, seen.tenant)).collect()
    };
    for (job, tenant) in runs {
        let found = world.ledger.find_flow(tenant, job).await?;
        if found.is_some_and(|flow| flow.paused_for.as_deref() == Some("debug")) {
            people::steer_with(world, tenant, job, Order::Continue).await;
        }
    }
    Ok(())
}

/// Whether every run was seen to end and has heard everything.
pub async fn at_rest(world: &World) -> anyhow::Result<bool> {
    let over = world.notes.borrow().flow.seen.values().all(|seen| seen.status.is_terminal());
    Ok(over && world.ledger.flow_inbox(1, InboxPart::all()).await?.items.is_empty())
}

/// Every record of every run, as part of the trace.
pub fn hash_into(world: &World, hasher: &mut impl Hasher) {
    for (job, seen) in &world.notes.borrow().flow.seen {
        (job, &seen.turns, seen.version, &seen.result).hash(hasher);
    }
}
