//! Some thousands of jobs over the four lanes, some failing and retried, some hopeless, some
//! scheduled; with what becomes of them drawn live.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::{Engine, JobRequest};
use bowline_model::{JobPolicy, Labels, Lane, RetryPolicy, TaskType, TenantId};
use bowline_store::{LaneDepth, Origin};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio_util::sync::CancellationToken;

const JOBS: u64 = 4_000;
const LOOK: Duration = Duration::from_millis(100);

/// Which job the `n`th one is.
fn wish(n: u64, now: bowline_model::Timestamp) -> JobRequest {
    let lane = match n % 10 {
        0 => Lane::Critical,
        1..=3 => Lane::Webhook,
        4..=7 => Lane::Default,
        _ => Lane::Low,
    };
    let (task_type, payload) = match n % 20 {
        0..=7 => ("noop", "null".to_owned()),
        8..=12 => ("echo", format!(r#"{{"n":{n},"greeting":"hello"}}"#)),
        13..=16 => ("sleep", format!(r#"{{"ms":{}}}"#, 50 + n % 400)),
        17 | 18 => ("fail", r#"{"probability":0.4,"class":"transient","message":"the upstream hiccuped"}"#.to_owned()),
        _ if n % 100 == 19 => {
            ("fail", r#"{"probability":1,"class":"permanent","message":"no such customer"}"#.to_owned())
        }
        _ => ("noop", "null".to_owned()),
    };
    let retry = RetryPolicy { base_ms: 200, max_backoff_ms: 1_500, ..RetryPolicy::default() };
    JobRequest {
        id: None,
        flow: None,
        fleet: None,
        lane,
        task_type: TaskType::new(task_type).expect("the standard names are names"),
        labels: Labels::default(),
        priority: 0,
        payload: payload.into(),
        policy: Some(Arc::new(JobPolicy { retry, ..JobPolicy::default() })),
        // Some for the next seconds, some for tomorrow.
        run_at: match n % 25 {
            24 => Some(now.plus_millis(2_000 + i64::try_from(n % 4_000).unwrap_or(0))),
            23 if n % 200 == 23 => Some(now.plus_millis(24 * 60 * 60 * 1_000)),
            _ => None,
        },
        idempotency_key: None,
        external_id: None,
    }
}

/// Submits the jobs and draws until nothing moves any more.
/// `bowline` is how the command line is called for this server.
pub async fn run(engine: Arc<Engine>, tenant: TenantId, bowline: &str, stop: CancellationToken) -> anyhow::Result<()> {
    let origin = Origin { actor: "demonstration".into(), request_id: "demonstration".into(), ..Origin::default() };
    let before = totals(&engine, tenant).await?;
    let terminal = std::io::stdout().is_terminal();
    let screen = Screen::new(terminal);
    let started = tokio::time::Instant::now();
    let mut submitted = 0;
    let mut last_line = started;
    loop {
        if submitted < JOBS {
            let now = engine.clock.now();
            let batch: Vec<JobRequest> = (submitted..(submitted + 200).min(JOBS)).map(|n| wish(n, now)).collect();
            submitted += batch.len() as u64;
            engine.intake.submit(tenant, &origin, batch).await?;
        }
        let depths = engine.ledger.lane_depths(Some(tenant)).await?;
        let seen = Seen::of(&depths, &before);
        screen.show(submitted, &depths, &seen);
        if !terminal && last_line.elapsed() > Duration::from_secs(1) {
            last_line = tokio::time::Instant::now();
            println!(
                "demonstration: {submitted} submitted, {} waiting, {} running, {} scheduled, {} dead letters",
                seen.queued, seen.running, seen.scheduled, seen.dead
            );
        }
        // What is scheduled for tomorrow does not hold up the show.
        if submitted == JOBS && seen.queued + seen.running == 0 && seen.scheduled <= JOBS / 200 {
            screen.close();
            let ended = submitted.saturating_sub(seen.dead + seen.scheduled);
            println!(
                "The demonstration ran {submitted} jobs in {:.1} s: {ended} succeeded, {} went to the dead letters, {} wait for tomorrow.",
                started.elapsed().as_secs_f64(),
                seen.dead,
                seen.scheduled
            );
            println!("Look at the dead letters with `{bowline} dlq list`, at one job with `{bowline} job watch ID`.");
            return Ok(());
        }
        tokio::select! {
            () = stop.cancelled() => {
                screen.close();
                return Ok(());
            }
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

async fn totals(engine: &Engine, tenant: TenantId) -> anyhow::Result<Seen> {
    let depths = engine.ledger.lane_depths(Some(tenant)).await?;
    Ok(Seen::of(&depths, &Seen::default()))
}

/// What was there, in all lanes.
#[derive(Debug, Default)]
struct Seen {
    queued: u64,
    running: u64,
    scheduled: u64,
    dead: u64,
}

impl Seen {
    /// Without what lay in the ledger before the demonstration.
    fn of(depths: &[LaneDepth], before: &Self) -> Self {
        let sum =
            |part: fn(&LaneDepth) -> u64, before: u64| depths.iter().map(part).sum::<u64>().saturating_sub(before);
        Self {
            queued: sum(|d| d.queued, before.queued),
            running: sum(|d| d.running, before.running),
            scheduled: sum(|d| d.scheduled, before.scheduled),
            dead: sum(|d| d.dead, before.dead),
        }
    }
}

/// The drawing, where there is a terminal to draw on.
struct Screen {
    bars: Option<Bars>,
}

struct Bars {
    all: MultiProgress,
    done: ProgressBar,
    lanes: Vec<(Lane, ProgressBar)>,
}

impl Screen {
    fn new(terminal: bool) -> Self {
        if !terminal {
            return Self { bars: None };
        }
        let all = MultiProgress::new();
        let style = |text: &str| ProgressStyle::with_template(text).unwrap_or_else(|_| ProgressStyle::default_bar());
        let done = all.add(ProgressBar::new(JOBS));
        done.set_style(style("  done      {bar:40.green/dim} {pos:>5}/{len} {msg}"));
        let lanes = Lane::ALL
            .into_iter()
            .map(|lane| {
                let bar = all.add(ProgressBar::new(JOBS / 4));
                bar.set_style(style("  {prefix:9} {bar:40.yellow/dim} {msg}"));
                bar.set_prefix(lane.as_str());
                (lane, bar)
            })
            .collect();
        Self { bars: Some(Bars { all, done, lanes }) }
    }

    fn show(&self, submitted: u64, depths: &[LaneDepth], seen: &Seen) {
        let Some(Bars { done, lanes, .. }) = &self.bars else { return };
        done.set_position(submitted.saturating_sub(seen.queued + seen.running + seen.scheduled));
        done.set_message(format!("{} dead letters", seen.dead));
        for (lane, bar) in lanes {
            if let Some(depth) = depths.iter().find(|d| d.lane == *lane) {
                bar.set_position(depth.queued + depth.running);
                bar.set_message(format!(
                    "{} waiting, {} running, {} scheduled",
                    depth.queued, depth.running, depth.scheduled
                ));
            }
        }
    }

    fn close(&self) {
        if let Some(bars) = &self.bars {
            drop(bars.all.clear());
        }
    }
}
