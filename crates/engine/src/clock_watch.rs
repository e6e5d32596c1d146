//! Keeps the ledger's last known moment, and raises the alarm while the clock is far from it.

use std::sync::Arc;
use std::time::Duration;

use bowline_model::event::EventData;
use bowline_model::{EventKind, TenantId};
use bowline_store::{ClockStatus, Ledger, Notice};
use bowline_supervise::Meters;
use tokio_util::sync::CancellationToken;

/// How far the known moment may be behind the last commit.
const PAUSE: Duration = Duration::from_secs(5);
/// The alarm is repeated in the log this often.
const REMIND: Duration = Duration::from_secs(600);

/// Watches until the server stops. Events about the clock are the home tenant's.
pub async fn watch_clock(
    ledger: Arc<dyn Ledger>,
    meters: Arc<Meters>,
    home: TenantId,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut alarm: Option<tokio::time::Instant> = None;
    loop {
        match ledger.note_time().await {
            Ok(status) => {
                meters.degraded.set(0);
                meters.clock_held.set(i64::from(status.is_held()));
                match (status.is_held(), alarm) {
                    (true, None) => {
                        warn(&status);
                        note(&*ledger, home, EventKind::ClockHeld, &status).await;
                        alarm = Some(tokio::time::Instant::now());
                    }
                    (true, Some(raised)) if raised.elapsed() >= REMIND => {
                        warn(&status);
                        alarm = Some(tokio::time::Instant::now());
                    }
                    (false, Some(_)) => {
                        tracing::warn!(clock.ledger = %status.now, "the clock is believed again");
                        note(&*ledger, home, EventKind::ClockAccepted, &status).await;
                        alarm = None;
                    }
                    (true, Some(_)) | (false, None) => {}
                }
            }
            // The reaper sees it sooner, but a server that only works has none.
            Err(error) => {
                meters.degraded.set(1);
                tracing::debug!(%error, "cannot note the time");
            }
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

fn warn(status: &ClockStatus) {
    tracing::error!(
        clock.says = %status.clock,
        clock.ledger = %status.now,
        "the clock is far from the ledger's last known time; expiry, retention, misfires and timeouts wait for `bowline clock accept`"
    );
}

async fn note(ledger: &dyn Ledger, home: TenantId, kind: EventKind, status: &ClockStatus) {
    let reason = Some(explain(status));
    let notice = Notice { tenant: home, kind, data: EventData { reason, ..EventData::default() } };
    if let Err(error) = ledger.note(notice).await {
        tracing::warn!(event.kind = %kind, %error, "cannot record an event");
    }
}

/// Where the clock stands, in a sentence.
pub fn explain(status: &ClockStatus) -> String {
    let ClockStatus { now, clock, .. } = status;
    if status.is_held() {
        let way = if clock < now { "behind" } else { "ahead of" };
        format!(
            "the clock says {clock}, which is far {way} the ledger's last known time ({now}): expiry, retention, misfires \
             and timeouts wait; set the clock right and restart, or run `bowline clock accept`"
        )
    } else {
        format!("the clock says {clock} and is believed")
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;
    use bowline_model::clock::ClockRules;
    use bowline_store::{Clock, EventFilter, ManualClock};
    use bowline_store_sql::{SqlLedger, SqlSettings};

    use super::*;
    use crate::fixture::LogLines;

    /// A ledger that holds a clock far from its time, with that clock and the tenant to inform.
    async fn ledger_that_knows_the_time() -> (TenantId, Arc<ManualClock>, Arc<dyn Ledger>) {
        let home = TenantId::mint(Timestamp::from_millis(1), [1; 10]);
        let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
        let as_clock = Arc::<ManualClock>::clone(&clock) as Arc<dyn Clock>;
        let settings = SqlSettings { clock_rules: Some(ClockRules::default()), ..SqlSettings::new(as_clock) };
        let ledger: Arc<dyn Ledger> = Arc::new(SqlLedger::open_memory_alone(&settings).expect("a ledger"));
        ledger.note_time().await.expect("the time is noted");
        (home, clock, ledger)
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_is_raised_once_and_ends_when_the_clock_is_accepted() {
        let (home, clock, ledger) = ledger_that_knows_the_time().await;
        let (meters, stop) = (Meters::new(), CancellationToken::new());
        let mut watch = tokio::task::JoinSet::new();
        watch.spawn(watch_clock(Arc::clone(&ledger), Arc::clone(&meters), home, stop.clone()));
        let events = async || {
            let kinds = vec![EventKind::ClockHeld, EventKind::ClockAccepted];
            let filter = EventFilter { tenant: Some(home), kinds, ..EventFilter::default() };
            let page = ledger.events_before(None, filter, 100).await.expect("read");
            page.events.into_iter().rev().map(|(_, event)| event.kind).collect::<Vec<_>>()
        };
        let until = async |wanted: &[EventKind]| {
            while events().await != wanted {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::sleep(3 * PAUSE).await;
        assert_eq!((events().await, meters.clock_held.get()), (vec![], 0));
        clock.advance_ms(400 * 86_400_000);
        until(&[EventKind::ClockHeld]).await;
        let held = ledger.events_before(None, EventFilter { tenant: Some(home), ..EventFilter::default() }, 1).await;
        let reason = held.expect("read").events.remove(0).1.data.reason.expect("an event says why");
        assert!(reason.contains("far ahead of"), "{reason}");
        tokio::time::sleep(5 * PAUSE).await;
        assert_eq!((events().await, meters.clock_held.get()), (vec![EventKind::ClockHeld], 1), "once");
        ledger.accept_clock("ops".into(), None).await.expect("accepted");
        until(&[EventKind::ClockHeld, EventKind::ClockAccepted]).await;
        assert_eq!(meters.clock_held.get(), 0);
        stop.cancel();
        watch.join_next().await.expect("a task").expect("no panic").expect("watched to the end");
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_clock_is_logged_again_when_it_has_been_held_for_long() {
        let lines = LogLines::capture();
        let (home, clock, ledger) = ledger_that_knows_the_time().await;
        clock.advance_ms(400 * 86_400_000);
        let begun = tokio::time::Instant::now();
        let mut watch = tokio::task::JoinSet::new();
        watch.spawn(watch_clock(Arc::clone(&ledger), Meters::new(), home, CancellationToken::new()));
        for logged in 1..=3_u32 {
            while lines.count("the clock is far from the ledger's last known time") < logged as usize {
                assert!(begun.elapsed() < 10 * REMIND, "line {logged} should have been logged");
                // The ledger answers in order, so the watch is never far behind this loop.
                ledger.ping().await.expect("an answer");
                tokio::time::sleep(PAUSE).await;
            }
            assert!(begun.elapsed() >= REMIND * (logged - 1), "line {logged} was logged too early");
        }
    }

    #[test]
    fn a_clock_is_explained_by_where_it_stands() {
        let at = |ms: i64| Timestamp::from_millis(1_800_000_000_000 + ms);
        let held = |clock| explain(&ClockStatus { now: at(0), clock, held_since: Some(at(0)) });
        assert!(held(at(-1_000)).contains("which is far behind the ledger's"), "{}", held(at(-1_000)));
        assert!(held(at(1_000)).contains("which is far ahead of the ledger's"), "{}", held(at(1_000)));
        let believed = explain(&ClockStatus { now: at(0), clock: at(0), held_since: None });
        assert!(believed.ends_with("and is believed"), "{believed}");
    }
}
