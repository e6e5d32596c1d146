//! Promises about what tenants use, and about evaluations that are set aside.

use bowline_model::{EventKind, TenantId};

use super::bench::Bench;
use crate::{EventFilter, NewJob};

async fn queued(bench: &Bench, tenant: TenantId) -> u64 {
    let all = bench.ledger.queued_by_tenant().await.expect("counted");
    all.iter().find(|(of, _)| *of == tenant).map_or(0, |(_, count)| *count)
}

async fn stored(bench: &Bench, tenant: TenantId) -> u64 {
    let all = bench.ledger.stored_by_tenant().await.expect("counted");
    all.iter().find(|(of, _)| *of == tenant).map_or(0, |(_, count)| *count)
}

pub async fn waiting_jobs_are_counted_for_each_tenant(bench: &Bench) {
    bench.submit_many(3).await;
    bench.submit(NewJob { run_at: Some(bench.now().plus_millis(60_000)), ..bench.job() }).await;
    bench.submit(NewJob { tenant: bench.neighbour, ..bench.job() }).await;
    assert_eq!((queued(bench, bench.tenant).await, queued(bench, bench.neighbour).await), (4, 1));
    bench.claim_one().await;
    assert_eq!(queued(bench, bench.tenant).await, 3, "what runs does not wait");
}

pub async fn stored_bytes_grow_with_payloads_for_their_tenant_alone(bench: &Bench) {
    let before = (stored(bench, bench.tenant).await, stored(bench, bench.neighbour).await);
    // Without a pattern, so that compressing it gains little.
    let noise: String = (0..2_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    bench.submit(NewJob { payload: format!("\"{noise}\"").into(), ..bench.job() }).await;
    let after = stored(bench, bench.tenant).await;
    assert!(after >= before.0 + noise.len() as u64 / 3, "{} to {after}", before.0);
    assert_eq!(stored(bench, bench.neighbour).await, before.1);
}

pub async fn an_evaluation_is_set_aside_once_and_resumed_by_its_tenant(bench: &Bench) {
    let subjects = || vec![(bench.tenant, "schema/abc".to_owned()), (bench.neighbour, "schema/abc".to_owned())];
    bench.ledger.set_aside(subjects()).await.expect("stored");
    bench.ledger.set_aside(subjects()).await.expect("twice is once");
    let ours = bench.ledger.list_set_aside(Some(bench.tenant)).await.expect("read");
    assert_eq!(ours.iter().map(|one| one.subject.as_str()).collect::<Vec<_>>(), ["schema/abc"]);
    assert_eq!(bench.ledger.list_set_aside(None).await.expect("read").len(), 2);
    let resume = async |subject: &str| {
        bench.ledger.resume_evaluation(bench.tenant, subject.to_owned(), "token:ann".into()).await.expect("stored")
    };
    assert!(!resume("schema/other").await);
    assert!(resume("schema/abc").await);
    assert!(!resume("schema/abc").await, "it goes on already");
    let left = bench.ledger.list_set_aside(None).await.expect("read");
    assert_eq!(left.iter().map(|one| one.tenant).collect::<Vec<_>>(), [bench.neighbour], "the other one stays");
    let kinds = vec![EventKind::EvaluationSetAside, EventKind::EvaluationResumed];
    let filter = EventFilter { tenant: Some(bench.tenant), kinds, ..EventFilter::default() };
    // Readers may be a little behind while others write to the same database.
    bench
        .until("both events", async || {
            let told = bench.ledger.events_after(Default::default(), filter.clone(), 10).await.expect("read");
            let told: Vec<EventKind> = told.events.iter().map(|(_, event)| event.kind).collect();
            if told == [EventKind::EvaluationSetAside, EventKind::EvaluationResumed] { Ok(()) } else { Err(told) }
        })
        .await;
}
