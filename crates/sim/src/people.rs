//! Clients that ask for jobs, and operators that meddle with them.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::JobRequest;
use bowline_model::dead_letter::DeadLetterStatus;
use bowline_model::{JobPolicy, Labels, Lane, RetryPolicy, TaskType, TenantId};
use bowline_store::{Closed, DeadLetterChoice, DeadLetterOrder, JobOrder, Origin, StoreError, Submitted};

use crate::network::{call, pause};
use crate::oracle::Violation;
use crate::world::World;

fn request(ask: u64, keyed: bool, lane: Lane) -> JobRequest {
    let retry =
        RetryPolicy { max_attempts: 3, max_losses: 2, base_ms: 100, max_backoff_ms: 1_000, ..RetryPolicy::default() };
    JobRequest {
        id: None,
        flow: None,
        fleet: None,
        lane,
        task_type: TaskType::new("work").expect("a name"),
        labels: Labels::default(),
        priority: i16::try_from(ask % 5).unwrap_or(0),
        payload: format!(r#"{{"ask":{ask}}}"#).into(),
        policy: Some(Arc::new(JobPolicy { retry, timeout_ms: 60_000, ..JobPolicy::default() })),
        run_at: None,
        idempotency_key: keyed.then(|| format!("ask-{ask}")),
        external_id: None,
    }
}

fn origin() -> Origin {
    Origin { actor: "sim".into(), request_id: "sim".into(), ..Origin::default() }
}

/// Asks for some jobs, with a key each, until each is answered; now and then without a key, and then only once.
pub async fn client(world: Rc<World>) {
    for _ in 0..world.plan.asks_per_client {
        let ask = {
            let mut notes = world.notes.borrow_mut();
            notes.asks += 1;
            notes.asks
        };
        let tenant = world.tenants[usize::from(world.chance() < 0.3)];
        let keyed = world.chance() < 0.7;
        let lane = Lane::ALL[usize::try_from(world.between(0, 4)).unwrap_or(0)];
        loop {
            let twice = keyed && world.strikes(world.plan.repeated);
            let first = submit(&world, tenant, ask, keyed, lane);
            let answered = if twice {
                // The same ask at the same time, as impatient clients do.
                let (one, two) = tokio::join!(first, submit(&world, tenant, ask, keyed, lane));
                one | two
            } else {
                first.await
            };
            if answered || !keyed {
                break;
            }
            pause(&world).await;
        }
        tokio::time::sleep(Duration::from_millis(world.between(0, 400))).await;
    }
}

async fn submit(world: &Rc<World>, tenant: TenantId, ask: u64, keyed: bool, lane: Lane) -> bool {
    let wish = request(ask, keyed, lane);
    let answer = call(world, |engine| async move { engine.intake.submit(tenant, &origin(), vec![wish]).await }).await;
    let id = match answer.map(|mut list| list.pop()) {
        Ok(Some(Submitted::Accepted { id, .. } | Submitted::Replayed { id, .. } | Submitted::Pruned { id, .. })) => id,
        Ok(Some(Submitted::Conflict { .. })) => {
            world.violated(Violation::new("I4", format!("ask {ask} was told that its own key belongs to another")));
            return true;
        }
        Ok(None) => return false,
        Err(StoreError::Broken(why)) => {
            world.violated(Violation::new("broken", why));
            return true;
        }
        Err(_) => return false,
    };
    let before = world.notes.borrow_mut().acked.insert((tenant, ask), id);
    if before.is_some_and(|first| first != id) {
        world.violated(Violation::new("C9", format!("ask {ask} was answered with two jobs")));
    }
    true
}

/// Looks over walls, cancels, retries and replays at random, until all is calm.
pub async fn operator(world: Rc<World>) {
    while !world.is_calm() {
        tokio::time::sleep(Duration::from_millis(world.between(100, 1_500))).await;
        let picked = {
            let notes = world.notes.borrow();
            let count = notes.acked.len() as u64;
            (count > 0)
                .then(|| usize::try_from(world.between(0, count)).unwrap_or(0))
                .and_then(|n| notes.acked.iter().nth(n).map(|((tenant, _), job)| (*tenant, *job)))
        };
        let Some((tenant, job)) = picked else { continue };
        let order = JobOrder { tenant, job, by: "operator".into(), reason: None };
        match world.between(0, 5) {
            0 => drop(call(&world, |engine| async move { engine.cancel_job(order).await }).await),
            1 => drop(call(&world, |engine| async move { engine.ledger.retry_job(order).await }).await),
            2 | 3 => replay(&world, tenant).await,
            _ => {
                let other = if tenant == world.tenants[0] { world.tenants[1] } else { world.tenants[0] };
                let seen = call(&world, |engine| async move { engine.ledger.find_job(other, job).await }).await;
                if matches!(seen, Ok(Some(_))) {
                    world.violated(Violation::new("T1", format!("job {job} was shown to another tenant")));
                }
            }
        }
    }
}

/// Replays the dead letters of a tenant, twice at once.
async fn replay(world: &Rc<World>, tenant: TenantId) {
    let open = call(world, |engine| async move {
        let lanes = Lane::ALL;
        let mut found = Vec::new();
        for lane in lanes {
            let page = engine.ledger.list_dead_letters(tenant, lane, Some(DeadLetterStatus::Open), None, 5).await?;
            found.extend(page.items.into_iter().map(|d| (lane, d.job)));
        }
        Ok(found)
    })
    .await;
    for (lane, job) in open.unwrap_or_default() {
        let order = DeadLetterOrder {
            tenant,
            lane,
            choice: DeadLetterChoice::Jobs(vec![job]),
            by: "operator".into(),
            reason: "simulated".to_owned(),
        };
        let (first, second) = (order.clone(), order);
        let (one, two) = tokio::join!(
            call(world, |engine| async move { engine.ledger.replay_dead_letters(first).await }),
            call(world, |engine| async move { engine.ledger.replay_dead_letters(second).await }),
        );
        for closed in [one, two].into_iter().flatten().flatten() {
            if let Closed::Replayed { job, new_job } = closed {
                world.notes.borrow_mut().replays.entry(job).or_default().push(new_job);
            }
        }
    }
}
