//! Hosts that do not exist: thousands of them, in one task with one timer.
//!
//! Enters: cues for runs that are ours. Leaves: their stories. A waiting host costs its name and a few numbers. Nothing is
//! on disk, because nothing happens: what this process takes with it, the server calls lost.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bowline_execute::simulate::{Scene, SceneEnd};
use bowline_execute::{Ended, EndedAs, Happening, Stream};
use bowline_model::{HostName, RunId};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use crate::fleet::outbox::{Story, event};
use crate::fleet::outcome::run_end;
use crate::fleet::roster::{Executor, Go};
use crate::fleet::settings::{ShownOutput, SimulateSettings};
use crate::fleet::shared::Fleet;
use crate::fleet::ship::hex;

/// How many orders are taken at once.
const BITE: usize = 1_000;

#[derive(Debug)]
pub(crate) enum Order {
    Play(Cue),
    Cancel(RunId),
}

/// A run on a host that is to be made up.
#[derive(Debug)]
pub(crate) struct Cue {
    pub run: RunId,
    pub fence: u32,
    pub host: HostName,
    pub attempt: u32,
    pub timeout_ms: u64,
}

struct Playing {
    cue: Cue,
    began_at: Instant,
}

/// Plays until the end. What is still on stage then is never heard of again.
pub(crate) async fn stage_loop(
    fleet: Arc<Fleet>,
    settings: SimulateSettings,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let mut stage = Stage { fleet, settings, playing: HashMap::new(), due: BinaryHeap::new() };
    let mut taken = Vec::with_capacity(BITE);
    let end = stage.fleet.link.end.clone();
    loop {
        let next = stage.due.peek().map(|Reverse((at, _))| *at);
        tokio::select! {
            () = end.cancelled() => return,
            count = orders.recv_many(&mut taken, BITE) => {
                if count == 0 {
                    return;
                }
            }
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
        let mut stories = Vec::new();
        for order in taken.drain(..) {
            stories.extend(match order {
                Order::Play(cue) => stage.play(cue),
                Order::Cancel(run) => stage.cancel(run),
            });
        }
        stage.curtain(Instant::now(), &mut stories);
        if !stories.is_empty() {
            stage.fleet.outbox.tell_all(stories);
        }
    }
}

struct Stage {
    fleet: Arc<Fleet>,
    settings: SimulateSettings,
    playing: HashMap<RunId, Playing>,
    due: BinaryHeap<Reverse<(Instant, RunId)>>,
}

impl Stage {
    fn play(&mut self, cue: Cue) -> Option<(RunId, Story)> {
        let (run, fence, now) = (cue.run, cue.fence, Instant::now());
        let lease = self.fleet.link.registration.terms().lease;
        match self.fleet.roster.begin(run, Executor::Simulated, now, lease) {
            Go::Begin => {}
            Go::Canceled => return Some((run, Story::canceled(fence, (self.fleet.clock)()))),
            Go::NotOurs => {
                self.fleet.roster.done(run);
                return None;
            }
        }
        let scene = self.scene(&cue);
        let after_ms = match scene.end {
            SceneEnd::TimesOut => cue.timeout_ms,
            SceneEnd::Silence { for_ms } => {
                self.fleet.roster.set_silent(run, true);
                scene.after_ms.saturating_add(for_ms)
            }
            SceneEnd::Succeeded | SceneEnd::Failed(_) => scene.after_ms.min(cue.timeout_ms),
        };
        debug!(run.id = %run, "run {run} on {} is made up and takes {after_ms} ms", cue.host);
        self.due.push(Reverse((now + Duration::from_millis(after_ms), run)));
        let started = event(1, (self.fleet.clock)(), &json!({"kind": "started", "simulated": true}));
        self.playing.insert(run, Playing { cue, began_at: now });
        Some((run, Story { fence, events: vec![started], output: None, ended: None }))
    }

    fn scene(&self, cue: &Cue) -> Scene {
        self.settings.world.play(&cue.host, cue.run, cue.attempt)
    }

    /// Ends everything whose time has come.
    fn curtain(&mut self, now: Instant, stories: &mut Vec<(RunId, Story)>) {
        while let Some(Reverse((at, run))) = self.due.peek().copied() {
            if at > now {
                break;
            }
            self.due.pop();
            let Some(Playing { cue, began_at }) = self.playing.remove(&run) else { continue };
            self.fleet.roster.set_silent(run, false);
            let scene = self.scene(&cue);
            let too_long = scene.after_ms > cue.timeout_ms;
            let (outcome, exit_code) = match scene.end {
                SceneEnd::TimesOut => (EndedAs::TimedOut, None),
                SceneEnd::Silence { .. } => (EndedAs::Succeeded, Some(0)),
                _ if too_long => (EndedAs::TimedOut, None),
                SceneEnd::Succeeded => (EndedAs::Succeeded, Some(0)),
                SceneEnd::Failed(code) => (EndedAs::Failed, Some(code)),
            };
            let shown = match self.settings.output {
                ShownOutput::None => false,
                ShownOutput::Failed => outcome != EndedAs::Succeeded,
                ShownOutput::All => true,
            };
            let output = if shown { scene.output } else { Vec::new() };
            stories.push((run, self.end(&cue, now - began_at, outcome, exit_code, output)));
        }
    }

    fn cancel(&mut self, run: RunId) -> Option<(RunId, Story)> {
        let Playing { cue, began_at } = self.playing.remove(&run)?;
        self.fleet.roster.set_silent(run, false);
        Some((run, self.end(&cue, began_at.elapsed(), EndedAs::Canceled, None, Vec::new())))
    }

    fn end(&self, cue: &Cue, took: Duration, outcome: EndedAs, exit_code: Option<i32>, output: Vec<u8>) -> Story {
        let now = (self.fleet.clock)();
        let mut events = Vec::new();
        let bytes = output.len() as u64;
        if bytes > 0 {
            let sha256 = hex(&Sha256::digest(&output));
            events.push(event(2, now, &Happening::Output { stream: Stream::Stdout, offset: 0, bytes, sha256 }));
        }
        let ended = Ended {
            outcome,
            exit_code,
            signal: None,
            message: (outcome == EndedAs::TimedOut).then(|| format!("it took longer than {} ms", cue.timeout_ms)),
            children: None,
            duration_ms: Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            stdout_bytes: bytes,
            stderr_bytes: 0,
            last_seq: 2 + u64::from(bytes > 0),
        };
        let end = run_end(&ended);
        events.push(event(ended.last_seq, now, &Happening::Ended(ended)));
        Story { fence: cue.fence, events, output: Some(output).filter(|output| !output.is_empty()), ended: Some(end) }
    }
}
