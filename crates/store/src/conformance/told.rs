//! Promises about what executors tell: each number once, in any order, as often as they like (E1, E2, E6).

use bowline_model::{EventKind, JobStatus, Outcome, RunId, RunStatus};

use super::bench::{Bench, TIMES, worker_name};
use crate::{EVENT_BYTES_MAX, RunReport, StoreError, TellAnswer, ToldEvent, ToldEvents};

const fn held(acked: u64, added: u64) -> TellAnswer {
    TellAnswer::Held { acked, added, owner: true }
}

/// The numbers the ledger holds for a job, in the order it took them in.
async fn numbers(bench: &Bench, job: bowline_model::JobId) -> Vec<u64> {
    let told = bench.history(job).await;
    told.into_iter().filter(|(_, event)| event.kind == EventKind::RunProgressed).filter_map(|(_, e)| e.seq).collect()
}

pub async fn told_events_may_come_in_any_order(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    assert_eq!(bench.tell(bench.telling(&run, &[3, 2])).await, held(0, 2));
    assert_eq!(bench.tell(bench.telling(&run, &[5, 1])).await, held(3, 2));
    assert_eq!(bench.tell(bench.telling(&run, &[4])).await, held(5, 1));
    let mut seqs = numbers(bench, run.job).await;
    seqs.sort_unstable();
    assert_eq!(seqs, [1, 2, 3, 4, 5]);
    let record = bench.find(run.job).await.1.remove(0);
    assert_eq!((record.last_seq, record.acked_seq), (5, 5));
}

pub async fn told_events_are_kept_once(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    assert_eq!(bench.tell(bench.telling(&run, &[1, 2, 2, 1])).await, held(2, 2));
    assert_eq!(bench.tell(bench.telling(&run, &[1, 2])).await, held(2, 0));
    assert_eq!(bench.tell(bench.telling(&run, &[2, 3])).await, held(3, 1));
    assert_eq!(numbers(bench, run.job).await, [1, 2, 3]);
    assert_eq!(bench.tell(bench.telling(&run, &[])).await, held(3, 0), "an empty telling asks how far it is");
}

/// The watermark given to an executor never runs ahead of what is held without a gap.
pub async fn a_gap_is_remembered_until_it_is_filled(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    assert_eq!(bench.tell(bench.telling(&run, &[1, 2, 7, 1_000_000_000])).await, held(2, 4));
    let record = bench.find(run.job).await.1.remove(0);
    assert_eq!((record.last_seq, record.acked_seq), (1_000_000_000, 2));
    assert_eq!(bench.tell(bench.telling(&run, &[3, 4, 5])).await, held(5, 3));
    assert_eq!(bench.tell(bench.telling(&run, &[6])).await, held(7, 1));
}

/// What was refused is not kept in part, and neither its run nor its job hangs on it.
pub async fn a_run_reports_so_many_bytes_and_ends_all_the_same(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let large = |seq: u64, bytes: u64| {
        let text = "x".repeat(usize::try_from(bytes).expect("a length") - 2);
        let event = ToldEvent { seq, at: None, detail: format!("\"{text}\"").into() };
        ToldEvents { events: vec![event], ..bench.telling(&run, &[]) }
    };
    let piece = EVENT_BYTES_MAX / 4;
    for seq in 1..=3 {
        assert_eq!(bench.tell(large(seq, piece)).await, held(seq, 1));
    }
    assert_eq!(bench.tell(large(4, piece + 1)).await, TellAnswer::Full);
    assert_eq!(bench.tell(large(2, piece)).await, held(3, 0), "what is known needs no room");
    assert_eq!(bench.tell(large(4, piece)).await, held(4, 1), "exactly as much as there is room for");
    assert_eq!(bench.tell(bench.telling(&run, &[5])).await, TellAnswer::Full);
    let record = bench.find(run.job).await.1.remove(0);
    assert_eq!((record.last_seq, record.acked_seq), (4, 4));
    bench.report(bench.report_of(&run, Outcome::Succeeded)).await;
    assert_eq!(bench.find(run.job).await.0.state.status, JobStatus::Succeeded);
    // Another run has its own room.
    let other = bench.running(bench.job()).await;
    assert_eq!(bench.tell(bench.telling(&other, &[1])).await, held(1, 1));
}

/// The final word names the last number; until all are here, the record shows that some are missing.
pub async fn the_report_names_the_last_number(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.tell(bench.telling(&run, &[1, 2])).await;
    let report = RunReport { last_seq: 4, ..bench.report_of(&run, Outcome::Succeeded) };
    bench.report(report).await;
    let record = bench.find(run.job).await.1.remove(0);
    assert_eq!((record.status, record.last_seq, record.acked_seq), (RunStatus::Succeeded, 4, 2));
    let answer = bench.tell(bench.telling(&run, &[3, 4])).await;
    assert_eq!(answer, TellAnswer::Held { acked: 4, added: 2, owner: false });
    let record = bench.find(run.job).await.1.remove(0);
    assert_eq!((record.last_seq, record.acked_seq), (4, 4));
}

pub async fn a_number_means_one_thing(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.tell(bench.telling(&run, &[1, 2])).await;
    let other = ToldEvent { seq: 2, at: None, detail: "{\"n\":\"else\"}".into() };
    let mixed = ToldEvents {
        events: vec![ToldEvent { seq: 3, at: None, detail: "3".into() }, other.clone()],
        ..bench.telling(&run, &[])
    };
    assert_eq!(bench.tell(mixed).await, TellAnswer::SeqConflict(2));
    assert_eq!(numbers(bench, run.job).await, [1, 2], "nothing of a contradicting batch is kept");
    let twice = ToldEvents {
        events: vec![
            ToldEvent { seq: 3, at: None, detail: "3".into() },
            ToldEvent { seq: 3, at: None, detail: "4".into() },
        ],
        ..bench.telling(&run, &[])
    };
    assert_eq!(bench.tell(twice).await, TellAnswer::SeqConflict(3));
    assert_eq!(bench.tell(bench.telling(&run, &[3])).await, held(3, 1));
}

pub async fn what_was_told_is_read_back(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let said_at = bench.now().plus_millis(-86_400_000);
    let detail = r#"{"line":"höchste Zeit \u0000 🦀","of":[1,2.5,null,true,12345678901234567890.123456789]}"#;
    let events = vec![ToldEvent { seq: 1, at: Some(said_at), detail: detail.into() }];
    bench.tell(ToldEvents { events, ..bench.telling(&run, &[]) }).await;
    let history = bench.history(run.job).await;
    let (_, event) = history.last().expect("it was told");
    assert_eq!((event.kind, event.seq, event.fence), (EventKind::RunProgressed, Some(1), Some(run.fence)));
    assert_eq!((event.at, event.data.told_at), (bench.now(), Some(said_at)), "both clocks are kept, ours decides");
    assert_eq!(event.data.run_id, Some(run.run));
    assert_eq!(serde_json::to_string(&event.data.detail).expect("it is JSON"), detail, "to the last digit");
    let again = ToldEvent { seq: 1, at: None, detail: format!(" {} ", detail.replace("\",\"of", "\", \"of")).into() };
    let again = ToldEvents { events: vec![again], ..bench.telling(&run, &[]) };
    assert_eq!(bench.tell(again).await, held(1, 0), "the same fact with other spaces is the same");
}

/// Telling is a sign of life: it confirms a hand-out and renews its lease.
pub async fn telling_is_a_sign_of_life(bench: &Bench) {
    let id = bench.submit(bench.job()).await;
    let run = bench.claim_one().await;
    assert_eq!(bench.tell(bench.telling(&run, &[1])).await, held(1, 1));
    assert_eq!(bench.find(id).await.1[0].status, RunStatus::Running);
    bench.pass_ms(TIMES.ttl_ms);
    assert_eq!(bench.tell(bench.telling(&run, &[1])).await, held(1, 0));
    bench.pass_ms(1);
    assert_eq!(bench.reap().await.lost, 0);
}

pub async fn events_of_a_lost_run_are_evidence(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.tell(bench.telling(&run, &[1])).await;
    bench.silence().await;
    let evidence = TellAnswer::Held { acked: 2, added: 1, owner: false };
    assert_eq!(bench.tell(bench.telling(&run, &[2])).await, evidence);
    assert_eq!(bench.status(run.job).await, JobStatus::Queued, "evidence has no authority");
    let owner = bench.start_one().await;
    assert_eq!(bench.tell(bench.telling(&owner, &[1])).await, held(1, 1), "the next attempt counts for itself");
    let evidence = TellAnswer::Held { acked: 3, added: 1, owner: false };
    assert_eq!(bench.tell(bench.telling(&run, &[3])).await, evidence);
    let told = bench.history(run.job).await;
    let of = |fence| told.iter().filter(|(_, e)| e.seq.is_some() && e.fence == Some(fence)).count();
    assert_eq!((of(run.fence), of(owner.fence)), (3, 1));
}

pub async fn nobody_tells_about_somebody_elses_run(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let own = bench.telling(&run, &[1]);
    let other = ToldEvents { worker: worker_name("w2"), ..own.clone() };
    assert_eq!(bench.tell(other).await, TellAnswer::NotYours);
    let foreign = ToldEvents { tenant: Some(bench.neighbour), ..own.clone() };
    assert_eq!(bench.tell(foreign).await, TellAnswer::NotFound);
    let unknown = ToldEvents { run: RunId::mint(bench.now(), [9; 10]), ..own.clone() };
    assert_eq!(bench.tell(unknown).await, TellAnswer::NotFound);
    let stale = ToldEvents { fence: Some(run.fence + 1), ..own };
    assert_eq!(bench.tell(stale).await, TellAnswer::Stale);
    assert_eq!(numbers(bench, run.job).await, [0; 0]);
}

/// Callers check what they pass on. If one does not, its wish fails, and those of its neighbours do not.
pub async fn a_telling_that_is_not_json_fails_alone(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let events = vec![ToldEvent { seq: 1, at: None, detail: "{\"n\":".into() }];
    let bad = ToldEvents { events, ..bench.telling(&run, &[]) };
    let (before, told, after) = tokio::join!(
        biased;
        bench.submit(bench.job()),
        bench.ledger.tell(bad),
        bench.tell(bench.telling(&run, &[2])),
    );
    assert!(matches!(told, Err(StoreError::Broken(_))), "{told:?}");
    assert_eq!(after, held(0, 1));
    assert_eq!(bench.status(before).await, JobStatus::Queued);
    assert_eq!(numbers(bench, run.job).await, [2]);
}

/// More than one page of numbers, last to first: the watermark waits for number one and then jumps to the end.
pub async fn a_long_story_told_backwards_is_held_in_the_end(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let backwards: Vec<u64> = (1..=2_500).rev().collect();
    for chapter in backwards.chunks(500) {
        bench.tell(bench.telling(&run, chapter)).await;
    }
    assert_eq!(bench.tell(bench.telling(&run, &[])).await, held(2_500, 0));
}
