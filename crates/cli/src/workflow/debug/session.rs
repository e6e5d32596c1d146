//! One run under the debugger: wishes in, what came of them on the screen.

use std::time::Duration;

use bowline_model::JobId;
use serde::Deserialize;
use serde_json::json;

use super::show;
use super::words::{HELP, Wish};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::output::{Screen, Text};
use crate::workflow::fork;
use crate::workflow::remote::{Remote, RunDetail};
use crate::workflow::words;

/// How often a run is looked at while it goes on.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Whether the debugger goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    Stay,
    Leave(Exit),
}

/// A run under the debugger.
pub struct Session<'c> {
    pub remote: Remote<'c>,
    /// The last step that was shown.
    shown: u32,
    /// How the run ended, if it has.
    ended: Option<Exit>,
    interrupts: Interrupts,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Forked {
    job_id: Text,
}

impl<'c> Session<'c> {
    pub fn new(remote: Remote<'c>) -> Self {
        Self { remote, shown: 0, ended: None, interrupts: Interrupts::listen() }
    }

    /// How it ended; well, if it has not.
    pub fn exit(&self) -> Exit {
        self.ended.unwrap_or(Exit::Success)
    }

    pub const fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Ctrl-C.
    pub async fn interrupted(&mut self) {
        self.interrupts.next().await;
    }

    /// Shows the run as it is: its graph, its steps so far, and where it is.
    pub async fn open(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        let detail = self.remote.detail().await?;
        let view = detail.view()?;
        let version = view.version.map(|version| format!(" version {version}")).unwrap_or_default();
        screen.line(&format!("{}{version}, job {}", view.name, self.remote.id))?;
        show::graph(screen, &self.remote).await?;
        self.settle(screen, None).await
    }

    /// Waits until the run stands still or is over, and shows what happened. Steps are shown as they end; what it waits for
    /// by itself is no reason to wait here, unless `beyond` says after which step it should have gone on.
    async fn settle(&mut self, screen: &mut Screen, beyond: Option<u32>) -> Result<(), Failure> {
        loop {
            let detail = self.remote.detail().await?;
            let view = detail.view()?;
            let (steps, halted) = (view.steps, view.paused_for.as_str() == "debug");
            let rests = detail.job.status.as_str() == "paused" && (halted || beyond.is_none_or(|step| steps > step));
            if detail.job.end().is_some() || rests || detail.job.status.as_str() == "pending" {
                return self.show(screen).await;
            }
            if steps > self.shown {
                for step in self.remote.steps(self.shown + 1).await? {
                    // The last one is shown together with what it changed.
                    if step.n >= steps {
                        break;
                    }
                    self.shown = step.n;
                    let line = words::step(screen, &step);
                    screen.line(&line)?;
                }
            }
            tokio::select! {
                () = self.interrupts.next() => {
                    self.show(screen).await?;
                    screen.note("it goes on; `pause` stops it, `wait` waits for it");
                    return Ok(());
                }
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    async fn show(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        let (last, detail): (u32, RunDetail) = show::stop(screen, &self.remote, self.shown).await?;
        self.shown = last;
        self.ended = detail.job.end();
        Ok(())
    }

    async fn steer(&mut self, screen: &mut Screen, order: serde_json::Value) -> Result<(), Failure> {
        self.remote.steer(order, None).await?;
        self.settle(screen, None).await
    }

    /// Does what somebody wants.
    pub async fn obey(&mut self, screen: &mut Screen, wish: Wish) -> Result<After, Failure> {
        match wish {
            Wish::Nothing => {}
            Wish::Help => screen.line(HELP)?,
            Wish::Step => self.steer(screen, json!("step")).await?,
            Wish::Continue => self.steer(screen, json!("continue")).await?,
            Wish::RunTo(node) => self.steer(screen, json!({ "run_to": node })).await?,
            Wish::Pause => self.steer(screen, json!("pause")).await?,
            Wish::Break { node, when } => {
                let said = when.as_ref().map(|when| format!(" if {}", Text::new(when))).unwrap_or_default();
                let point = match when {
                    Some(when) => json!({"node": node, "when": when}),
                    None => json!({ "node": node }),
                };
                self.remote.steer(json!({ "break": point }), None).await?;
                screen.line(&format!("stops before {}{said}", Text::new(&node)))?;
            }
            Wish::Unbreak(node) => {
                self.remote.steer(json!({ "unbreak": node }), None).await?;
                screen.line(&format!("no longer stops before {}", Text::new(&node)))?;
            }
            Wish::Edit { name, value, reason } => {
                self.remote.steer(json!({ "edit": { &name: &value } }), Some(&reason)).await?;
                screen.line(&format!("variables.{} = {}", Text::new(&name), words::brief(&value)))?;
            }
            Wish::Pin { node, output } => {
                self.remote.steer(json!({ "pin": { "node": &node, "output": &output } }), None).await?;
                screen.line(&format!("{} gives {} from now on", Text::new(&node), words::brief(&output)))?;
            }
            Wish::Unpin(node) => {
                self.remote.steer(json!({ "unpin": node }), None).await?;
                screen.line(&format!("{} is carried out again", Text::new(&node)))?;
            }
            Wish::Graph => show::graph(screen, &self.remote).await?,
            Wish::Context(path) => show::context(screen, &self.remote, path.as_deref()).await?,
            Wish::Steps => {
                for step in self.remote.steps(1).await? {
                    let line = words::step(screen, &step);
                    screen.line(&line)?;
                }
            }
            Wish::Fork { step, set } => self.fork(screen, step, &set).await?,
            Wish::Approve(node) => {
                self.remote.decide(true, node.as_deref(), None).await?;
                self.settle(screen, None).await?;
            }
            Wish::Reject { node, reason } => {
                self.remote.decide(false, node.as_deref(), Some(&reason)).await?;
                self.settle(screen, None).await?;
            }
            Wish::Signal { event, payload } => {
                self.remote.signal(&json!({"event": event, "payload": payload})).await?;
                self.settle(screen, None).await?;
            }
            Wish::Wait => {
                screen.note("waiting for it to go on; Ctrl-C stops that");
                self.settle(screen, Some(self.shown)).await?;
            }
            Wish::Cancel => {
                self.remote.cancel("canceled in the debugger").await?;
                self.settle(screen, Some(u32::MAX)).await?;
            }
            Wish::Detach => {
                if !self.has_ended() {
                    self.remote.steer(json!("continue"), None).await?;
                    screen.note(&format!(
                        "the execution continues; `bowline workflow steps {}` shows it",
                        self.remote.id
                    ));
                }
                return Ok(After::Leave(self.exit()));
            }
            Wish::Quit => {
                if !self.has_ended() {
                    let id = self.remote.id;
                    screen.note(&format!("the run stays where it is; come back with `bowline workflow debug {id}`"));
                }
                return Ok(After::Leave(self.exit()));
            }
        }
        Ok(After::Stay)
    }

    async fn fork(
        &mut self,
        screen: &mut Screen,
        step: u32,
        set: &[(String, serde_json::Value)],
    ) -> Result<(), Failure> {
        let answer = self.remote.fork(&fork::body(step, set, None, true)).await?;
        let forked: Forked = answer.read()?;
        let bad = || self.remote.client.strange("it has no job id".to_owned());
        let id: JobId = forked.job_id.as_str().parse().map_err(|_| bad())?;
        screen.line(&format!("job {id} continues from step {step} of {}", self.remote.id))?;
        (self.remote, self.shown, self.ended) = (Remote::new(self.remote.client, id), step, None);
        self.settle(screen, None).await
    }
}
