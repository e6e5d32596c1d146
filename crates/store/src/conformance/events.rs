//! Promises about events: every change is told once, in an order that readers can rely on.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_model::event::EventData;
use bowline_model::{ErrorClass, Event, EventId, EventKind, JobId, Severity};
use tokio::task::JoinSet;

use super::bench::{Bench, attempts};
use crate::{Claimant, EventFilter, NewJob, Notice, Position};

use EventKind as K;

pub async fn a_life_is_told_in_its_order(bench: &Bench) {
    let due = bench.now().plus_millis(1_000);
    let id = bench.submit(NewJob { run_at: Some(due), policy: attempts(2), ..bench.job() }).await;
    bench.pass_ms(1_000);
    bench.promote().await;
    let first = bench.start_one().await;
    bench.tell(bench.telling(&first, &[1])).await;
    bench.fail(&first, ErrorClass::Transient).await;
    bench.pass_ms(1_000);
    bench.promote().await;
    bench.start_one().await;
    bench.silence().await;
    let last = bench.start_one().await;
    bench.succeed(&last).await;
    let wanted = [
        K::JobScheduled,
        K::JobDue,
        K::JobStarted,
        K::RunAccepted,
        K::RunProgressed,
        K::RunFailed,
        K::JobDue,
        K::JobStarted,
        K::RunAccepted,
        K::RunLost,
        K::JobStarted,
        K::RunAccepted,
        K::JobSucceeded,
    ];
    assert_eq!(bench.kinds(id).await, wanted);
    let history = bench.history(id).await;
    assert!(history.iter().all(|(_, event)| event.job == Some(id) && event.tenant == bench.tenant));
    let started: Vec<_> = history.iter().filter(|(_, e)| e.kind == K::JobStarted).map(|(_, e)| e.fence).collect();
    assert_eq!(started, [Some(1), Some(2), Some(3)]);
    let (_, failed) = &history[5];
    assert_eq!((failed.data.class, failed.data.attempt), (Some(ErrorClass::Transient), Some(1)));
    assert_eq!(failed.data.error.as_deref(), Some("it did not work"));
}

pub async fn the_events_of_a_job_come_in_pages(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.tell(bench.telling(&run, &[1, 2, 3, 4])).await;
    bench.succeed(&run).await;
    let whole: Vec<Position> = bench.history(run.job).await.iter().map(|(position, _)| *position).collect();
    assert_eq!(whole.len(), 8);
    for limit in 1..=9 {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = bench.ledger.job_events(bench.tenant, run.job, after, limit).await;
            let page = page.expect("the ledger can be read").expect("the job is there");
            assert!(page.items.len() <= limit as usize);
            seen.extend(page.items.iter().map(|(position, _)| *position));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, whole, "in pages of {limit}");
    }
}

/// Executors choose how much they report: a page carries a bounded number of bytes, and the pages together everything.
pub async fn pages_of_events_are_bounded_in_bytes(bench: &Bench) {
    const BYTES: usize = 100_000;
    let run = bench.running(bench.job()).await;
    let mut told = bench.telling(&run, &(1..=30).collect::<Vec<_>>());
    for event in &mut told.events {
        event.detail = format!("{{\"text\":\"{}\"}}", "x".repeat(BYTES)).into();
    }
    bench.tell(told).await;
    bench.succeed(&run).await;
    let bytes = |events: &[(Position, Event)]| -> usize {
        events.iter().filter_map(|(_, event)| event.data.detail.as_ref()).map(|detail| detail.as_str().len()).sum()
    };
    let (mut of_job, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = bench.ledger.job_events(bench.tenant, run.job, after, 1_000).await;
        let page = page.expect("the ledger can be read").expect("the job is there");
        // One event may be over; both indexes of a job have a page of their own.
        assert!(bytes(&page.items) <= 2 * (1 << 20), "{} bytes on one page", bytes(&page.items));
        pages += 1;
        of_job.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert!(pages > 2, "{pages} pages");
    let kinds: Vec<EventKind> = of_job.iter().map(|(_, event)| event.kind).collect();
    let wanted = [&[K::JobEnqueued, K::JobStarted, K::RunAccepted][..], &[K::RunProgressed; 30], &[K::JobSucceeded]];
    assert_eq!(kinds, wanted.concat(), "each event once, in order");
    let (mut stream, mut after) = (Vec::new(), Position::default());
    while stream.len() < of_job.len() {
        let page =
            bench.ledger.events_after(after, EventFilter::default(), 1_000).await.expect("the ledger can be read");
        assert!(bytes(&page.events) <= 1 << 20, "{} bytes on one page", bytes(&page.events));
        after = page.end;
        stream.extend(page.events);
    }
    assert_eq!(stream, of_job);
    let newest = bench.ledger.events_before(None, EventFilter::default(), 1_000).await.expect("the ledger can be read");
    assert!(newest.more && bytes(&newest.events) <= 1 << 20, "{} bytes on one page", bytes(&newest.events));
}

pub async fn an_unknown_job_has_no_events(bench: &Bench) {
    let nobody = JobId::mint(bench.now(), [9; 10]);
    let page = bench.ledger.job_events(bench.tenant, nobody, None, 10).await.expect("the ledger can be read");
    assert!(page.is_none());
}

/// Whoever reads an event, and however, reads the same event.
pub async fn an_event_is_the_same_for_every_reader(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.succeed(&run).await;
    let history = bench.history(run.job).await;
    let stream = bench.stream(EventFilter::default(), history.len()).await;
    assert_eq!(stream, history);
    let ids: BTreeSet<EventId> = stream.iter().map(|(_, event)| event.id).collect();
    assert_eq!(ids.len(), history.len(), "ids are unique");
    for (position, _) in stream {
        assert_eq!(position.to_string().parse(), Ok(position), "a position survives being text");
    }
}

/// Reads the stream page by page from its beginning, as a follower would, until it has seen `count` events.
async fn follow(ledger: std::sync::Arc<dyn crate::Ledger>, limit: u32, count: usize) -> Vec<(Position, Event)> {
    let (mut seen, mut after): (Vec<(Position, Event)>, Position) = (Vec::new(), Position::default());
    let mut bell = ledger.event_wake().listen();
    while seen.len() < count {
        bell.forget();
        let page = ledger.events_after(after, EventFilter::default(), limit).await.expect("the ledger can be read");
        assert!(page.events.len() <= limit as usize);
        assert!(page.end >= after, "readers never go back");
        assert!(page.events.iter().all(|(position, _)| *position > after && *position <= page.end));
        seen.extend(page.events);
        let moved = page.end > after;
        after = page.end;
        if !page.more && !moved {
            // Readers may be a little behind the bell, so they look again soon after it, too.
            let soon = std::time::Duration::from_millis(5);
            let _ = tokio::time::timeout(soon, bell.rung()).await;
        }
    }
    seen
}

/// E5: a follower that remembers only its position misses nothing and sees nothing twice, whatever is being written.
pub async fn a_follower_sees_every_event_once_while_writers_are_busy(bench: &Bench) {
    const WRITERS: usize = 6;
    const ROUNDS: usize = 15;
    // Five events each: enqueued, started, accepted, told, succeeded.
    let count = WRITERS * ROUNDS * 5;
    let mut followers = JoinSet::new();
    for limit in [1, 7, 100] {
        followers.spawn(follow(bench.ledger.clone(), limit, count));
    }
    let mut writers = JoinSet::new();
    for n in 0..WRITERS {
        // Each writer has a type of work of its own, so that it gets its own jobs back.
        let own = Bench::new(bench.ledger.clone(), bench.clock.clone());
        let name = format!("type-{n}");
        let jobs: Vec<NewJob> =
            (0..ROUNDS).map(|_| NewJob { task_type: super::bench::task_type(&name), ..bench.job() }).collect();
        writers.spawn(async move {
            for job in jobs {
                let id = own.submit(job).await;
                let claimant =
                    Claimant { abilities: super::bench::abilities(&[&name]), ..own.worker(&format!("w{n}")) };
                let run = own.claim(claimant).await.remove(0);
                assert_eq!(run.job, id);
                own.tell(own.telling(&run, &[1])).await;
                own.succeed(&run).await;
            }
        });
    }
    writers.join_all().await;
    let mut wanted = BTreeSet::new();
    let page = bench.ledger.list_jobs(bench.tenant, Default::default(), None, 1_000).await;
    for job in page.expect("the ledger can be read").items {
        wanted.extend(bench.history(job.id).await.into_iter().map(|(position, event)| (position, event.id)));
    }
    assert_eq!(wanted.len(), count);
    let followers = tokio::time::timeout(Duration::from_secs(60), followers.join_all()).await;
    for seen in followers.expect("every follower should see all events within a minute") {
        assert!(seen.is_sorted_by_key(|(position, _)| *position), "in the ledger's order");
        assert_eq!(seen.len(), count, "nothing twice");
        assert_eq!(seen.into_iter().map(|(p, e)| (p, e.id)).collect::<BTreeSet<_>>(), wanted, "nothing missed");
    }
}

pub async fn a_filter_narrows_the_stream(bench: &Bench) {
    let mut traced = bench.job();
    traced.origin.trace_id = Some("4bf92f3577b34da6a3ce929d0e0e4736".into());
    traced.origin.correlation_id = Some("cart-9".into());
    let one = bench.dead(traced).await;
    bench.pass_ms(60_000);
    let later = bench.now();
    let two = bench.submit(bench.job()).await;
    bench.submit(NewJob { tenant: bench.neighbour, ..bench.job() }).await;
    // Once all of it can be seen, what a filter leaves is exact.
    bench.stream(EventFilter::default(), 6).await;
    let all = EventFilter::default();
    let seen = async |filter| -> Vec<(EventKind, Option<JobId>)> {
        bench.stream(filter, 0).await.into_iter().map(|(_, event)| (event.kind, event.job)).collect()
    };
    let of_one = [K::JobEnqueued, K::JobStarted, K::RunAccepted, K::JobDeadLettered].map(|kind| (kind, Some(one)));
    assert_eq!(seen(EventFilter { job: Some(one), ..all.clone() }).await, of_one);
    assert_eq!(seen(EventFilter { tenant: Some(bench.tenant), ..all.clone() }).await.len(), 5);
    let kinds = vec![K::JobStarted, K::JobDeadLettered];
    assert_eq!(seen(EventFilter { kinds, ..all.clone() }).await, [of_one[1], of_one[3]]);
    assert_eq!(seen(EventFilter { severity_min: Some(Severity::Error), ..all.clone() }).await, [of_one[3]]);
    let trace_id = Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned());
    assert_eq!(seen(EventFilter { trace_id, ..all.clone() }).await, of_one);
    // The start of a job is told of whoever asked for it.
    let actors = Some(vec!["nobody".to_owned(), bench.job().origin.actor.to_string()]);
    let by = seen(EventFilter { actors, tenant: Some(bench.tenant), ..all.clone() }).await;
    assert_eq!(by, [of_one[0], (K::JobEnqueued, Some(two))]);
    let nobody = EventFilter { actors: Some(vec!["nobody".to_owned()]), ..all.clone() };
    assert_eq!(seen(nobody).await, []);
    let since = EventFilter { since: Some(later), tenant: Some(bench.tenant), ..all };
    assert_eq!(seen(since).await, [(K::JobEnqueued, Some(two))]);
    let told = bench.history(one).await;
    assert!(told.iter().all(|(_, event)| event.correlation_id.as_deref() == Some("cart-9")));
}

/// A page that holds nothing still says how far it looked, so that its reader does not look there again.
pub async fn a_page_without_a_match_moves_on(bench: &Bench) {
    bench.submit_many(30).await;
    let stream = bench.stream(EventFilter::default(), 30).await;
    let (last, _) = stream.last().expect("there are events");
    let filter = EventFilter { tenant: Some(bench.neighbour), ..EventFilter::default() };
    let page = bench.ledger.events_after(Position::default(), filter, 5).await.expect("the ledger can be read");
    assert!(page.events.is_empty());
    assert_eq!((page.end, page.more), (*last, false));
    let page = bench.ledger.events_after(*last, EventFilter::default(), 5).await.expect("the ledger can be read");
    assert!(page.events.is_empty() && !page.more);
    assert_eq!(page.end, *last);
}

pub async fn the_range_ends_with_the_newest(bench: &Bench) {
    assert_eq!(bench.ledger.event_range().await.expect("the ledger can be read"), Default::default());
    bench.submit_many(3).await;
    let stream = bench.stream(EventFilter::default(), 3).await;
    let range = bench.ledger.event_range().await.expect("the ledger can be read");
    assert_eq!(range, (Position::default(), stream[2].0), "nothing is missing");
}

pub async fn the_stream_can_be_read_backwards(bench: &Bench) {
    bench.submit_many(25).await;
    let mut forwards = bench.stream(EventFilter::default(), 25).await;
    let (mut backwards, mut before) = (Vec::new(), None);
    loop {
        let page = bench.ledger.events_before(before, EventFilter::default(), 10).await;
        let page = page.expect("the ledger can be read");
        backwards.extend(page.events);
        if !page.more {
            break;
        }
        before = Some(page.end);
    }
    forwards.reverse();
    assert_eq!(backwards, forwards);
    let nobody = EventFilter { tenant: Some(bench.neighbour), ..EventFilter::default() };
    let page = bench.ledger.events_before(None, nobody, 10).await.expect("the ledger can be read");
    assert!(page.events.is_empty() && !page.more);
}

/// `since` is a place in the ledger, not a reason to read all of it.
pub async fn since_begins_near_its_moment(bench: &Bench) {
    let (mut moments, mut ids) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        bench.pass_ms(3_600_000);
        moments.push(bench.now());
        ids.push(bench.submit(bench.job()).await);
    }
    bench.stream(EventFilter::default(), 20).await;
    for (n, moment) in moments.iter().enumerate() {
        for (since, expected) in [(moment.plus_millis(-1), &ids[n..]), (moment.plus_millis(1), &ids[n + 1..])] {
            let filter = EventFilter { since: Some(since), ..EventFilter::default() };
            let page = bench.ledger.events_after(Position::default(), filter, 100).await;
            let page = page.expect("the ledger can be read");
            let found: Vec<_> = page.events.iter().filter_map(|(_, event)| event.job).collect();
            assert_eq!((&found[..], page.more), (expected, false));
        }
    }
}

pub async fn a_notice_belongs_to_no_job(bench: &Bench) {
    let data = EventData { by: Some("ann".to_owned()), ..EventData::default() };
    let notice = Notice { tenant: bench.tenant, kind: K::TokenCreated, data: data.clone() };
    bench.ledger.note(notice).await.expect("the ledger takes notices");
    let stream = bench.stream(EventFilter::default(), 1).await;
    let (_, event) = &stream[0];
    assert_eq!((event.kind, event.job, event.fence, event.seq), (K::TokenCreated, None, None, None));
    assert_eq!((event.tenant, event.at, &event.data), (bench.tenant, bench.now(), &data));
}

pub async fn a_new_event_rings_for_readers(bench: &Bench) {
    let mut bell = bench.ledger.event_wake().listen();
    bench.submit(bench.job()).await;
    bell.rung().await;
}
