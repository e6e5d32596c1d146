//! Promises about texts: whatever others say is kept as they said it, on every engine.
//!
//! People cannot send a zero byte through the API. But the answers to calls, messages of brokers and expressions can have one,
//! and a workflow can make anything of them.

use std::sync::Arc;

use bowline_model::fleet::Rollout;
use bowline_model::{ErrorClass, EventKind, JobStatus, Outcome, RunError};
use serde_json::json;

use super::bench::{Bench, external_id, idempotency_key};
use super::fleets::spec;
use crate::{
    FlowStanding, JobOrder, NewFlow, NewJob, NewSignal, NewTurn, NewWait, OrderAnswer, Signaled, Submitted, WaitKind,
};

/// With zero bytes, and with what may stand for them inside a ledger.
const ODD: [&str; 6] = ["a\0b", "\0", "\u{ffff}", "\u{ffff}0", "\0\u{ffff}1\0", "\u{1}\u{7f}\u{fffd}\u{200b}"];

async fn run_of(bench: &Bench, first: NewTurn) -> NewJob {
    let definition = super::flows::kept(bench, 9, "{}").await;
    let (workflow, first) = ("inline".into(), Some(first));
    let flow = NewFlow { definition, workflow, workflow_version: None, forked_from: None, depth: 0, first };
    NewJob { flow: Some(Arc::new(flow)), ..bench.job() }
}

fn turn(status: JobStatus, opened: Vec<NewWait>) -> NewTurn {
    NewTurn { opened, ..NewTurn::standing("[]".into(), (0, 1), FlowStanding::of(status)) }
}

pub async fn a_wait_is_called_as_it_was_called(bench: &Bench) {
    for (visit, odd) in (1..).zip(ODD) {
        let wait = |kind| NewWait {
            kind,
            node: "ask".into(),
            visit: if kind == WaitKind::Event { visit } else { visit + 100 },
            name: odd.into(),
            key: Some(odd.to_owned()),
            expires_at: None,
            question: None,
        };
        let both = vec![wait(WaitKind::Event), wait(WaitKind::Approval)];
        let job = bench.submit(run_of(bench, turn(JobStatus::Paused, both)).await).await;
        let shown = bench.ledger.find_flow(bench.tenant, job).await.expect("read").expect("there");
        assert_eq!(shown.waits.len(), 2);
        assert!(shown.waits.iter().all(|w| &*w.wait.name == odd && w.wait.key.as_deref() == Some(odd)), "{odd:?}");
        let signal = |key: &str| NewSignal {
            once: None,
            tenant: bench.tenant,
            name: odd.into(),
            key: Some(key.to_owned()),
            message: "{}".into(),
            by: "ann".into(),
        };
        assert_eq!(bench.ledger.signal_flows(signal(&format!("{odd}x"))).await, Ok(Signaled::Told(0)), "{odd:?}");
        assert_eq!(bench.ledger.signal_flows(signal(odd)).await, Ok(Signaled::Told(1)), "{odd:?}");
    }
}

pub async fn what_a_run_says_and_gives_is_kept(bench: &Bench) {
    for odd in ODD {
        let mut first = turn(JobStatus::Succeeded, Vec::new());
        first.records = json!([{ "said": odd }]).to_string().into();
        first.snapshot = Some(json!({ "said": odd }).to_string().into());
        first.standing.result = Some(json!({ "said": odd }).to_string().into());
        first.logs = vec![("log".into(), odd.to_owned())];
        let mut wish = run_of(bench, first.clone()).await;
        wish.payload = json!({"input": {"said": odd}}).to_string().into();
        let job = bench.submit(wish.clone()).await;
        let (record, _) = bench.find(job).await;
        assert_eq!(
            (record.payload.as_deref(), record.result),
            (Some(&*wish.payload), first.standing.result.map(|r| r.to_string()))
        );
        let number = bench.ledger.flow_number(bench.tenant, job).await.expect("read").expect("a run");
        let stored = bench.ledger.load_flows(vec![number], None).await.expect("read").remove(0);
        assert_eq!(stored.snapshot.as_deref(), first.snapshot.as_deref());
        let records = bench.ledger.flow_records(bench.tenant, job, 1, 0, 10).await.expect("read");
        assert_eq!(records.items, [&*first.records]);
        let logged = bench.history(job).await.into_iter().find(|(_, event)| event.kind == EventKind::FlowLogged);
        assert_eq!(logged.and_then(|(_, event)| event.data.reason).as_deref(), Some(odd));
    }
}

pub async fn keys_and_reasons_are_kept(bench: &Bench) {
    for odd in ODD {
        for key in [idempotency_key(odd), external_id(odd)] {
            let wish = NewJob { keys: vec![key], ..bench.job() };
            let first = bench.submit(wish.clone()).await;
            let again = NewJob { id: bench.job_id(), ..wish };
            assert!(matches!(bench.ask(again).await, Submitted::Replayed { id, .. } if id == first), "{odd:?}");
            let order = JobOrder { reason: Some(odd.to_owned()), ..bench.order(first) };
            let done = bench.ledger.cancel_job(order).await.expect("an answer");
            assert_eq!(done, OrderAnswer::Done(JobStatus::Canceled));
            let told = bench.history(first).await.into_iter().filter_map(|(_, event)| event.data.reason).next_back();
            assert_eq!(told.as_deref(), Some(odd));
        }
    }
}

pub async fn what_went_wrong_is_told_whatever_is_in_it(bench: &Bench) {
    for odd in ODD {
        let job = bench.submit(bench.job()).await;
        let run = bench.claim_one().await;
        bench.beat(&run).await;
        // As somebody may have read it from somewhere. A message is for people, so it is cleaned when it is stored.
        let said = RunError { class: ErrorClass::Permanent, message: odd.to_owned(), retry_after_ms: None };
        let mut report = bench.report_of(&run, Outcome::Failed(said.class));
        report.error = Some(said);
        bench.report(report).await;
        let (record, runs) = bench.find(job).await;
        let cleaned = RunError::new(ErrorClass::Permanent, odd);
        assert_eq!((record.error.as_ref(), runs[0].error.as_ref()), (Some(&cleaned), Some(&cleaned)), "{odd:?}");
    }
}

pub async fn a_command_with_an_odd_text_hides_no_other_job(bench: &Bench) {
    bench.hosts(1).await;
    for odd in ODD {
        let mut wish = bench.command(spec(), Rollout::default()).await;
        wish.payload = json!({"spec": {"argv": ["uptime", odd]}, "params": {"said": odd}}).to_string().into();
        let job = bench.submit(wish).await;
        let listed = bench.ledger.list_jobs(bench.tenant, Default::default(), None, 100).await.expect("read").items;
        let shown = listed.iter().find(|other| other.id == job).and_then(|job| job.command.as_deref());
        assert_eq!(shown, Some("uptime"), "{odd:?}");
    }
}
