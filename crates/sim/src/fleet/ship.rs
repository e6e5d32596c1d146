//! Bringing what is on disk to the server, and freeing it when the server has confirmed it.

use std::time::Duration;

use bowline_agent::fleet::decisions::{AfterRefusal, Sent, Story, run_end};
use bowline_execute::{Ended, Happening, Standing};
use bowline_model::planted::{self, Mistake};
use bowline_model::{ErrorClass, RunId};
use bowline_protocol::{RunNews, WorkerEvent};
use serde_json::value::to_raw_value;
use tokio::time::Instant;

use super::agent::{Agent, give_back};
use super::begin::tell;
use super::door::bring;
use crate::network::pause;
use crate::oracle::Violation;

/// Records of one run that are brought at once: few, so that stories arrive in parts.
const EVENTS_MAX: usize = 3;

/// What is told about one run.
struct Draft {
    news: RunNews,
    sent: Sent,
    ended: Option<Ended>,
}

/// Ships what is in run directories for as long as the agent lives.
pub async fn ship_disk(agent: &Agent) {
    let Agent { world, machine, .. } = agent;
    loop {
        // The bell, or a rest that is over.
        drop(tokio::time::timeout(Duration::from_millis(250), machine.bell.notified()).await);
        machine.thaw().await;
        look_after(agent);
        loop {
            let drafts = read(agent);
            if drafts.is_empty() {
                break;
            }
            let news: Vec<RunNews> = drafts.iter().map(|draft| draft.news.clone()).collect();
            for draft in &drafts {
                let mut shown = agent.shown.borrow_mut();
                let shown = shown.entry(draft.news.run_id).or_default();
                *shown = draft.sent.last.max(*shown);
            }
            match bring(world, machine, news).await {
                Ok(heard) => {
                    for (draft, heard) in drafts.into_iter().zip(heard) {
                        match &heard.refused {
                            Some(code) => refused(agent, draft.news.run_id, code),
                            None => confirmed(agent, &draft, heard.acknowledged, heard.ended),
                        }
                    }
                }
                Err(_) if planted::on(Mistake::FreedUnconfirmed) => {
                    drafts.iter().for_each(|draft| confirmed(agent, draft, draft.sent.last, draft.sent.end));
                }
                Err(_) => pause(world).await,
            }
        }
    }
}

/// Runs whose keepers are gone.
fn look_after(agent: &Agent) {
    let Agent { world, machine, .. } = agent;
    let runs: Vec<(RunId, u32)> =
        machine.disk.borrow().runs.iter().map(|(run, directory)| (*run, directory.manifest.fence)).collect();
    for (run, fence) in runs {
        let shown = agent.shown.borrow().get(&run).copied().unwrap_or(0);
        if let Some(Standing::NeverStarted { .. }) = machine.settle(world, run, shown) {
            give_back(machine, run);
            agent.books.borrow_mut().remove(&run);
            let message = "its keeper could not start it";
            tell(agent, run, Story::not_begun(fence, world.now(), "NO_KEEPER", ErrorClass::Transient, message));
        }
    }
}

/// What there is to tell, and what there is to free.
fn read(agent: &Agent) -> Vec<Draft> {
    let now = Instant::now();
    let mut drafts = Vec::new();
    let mut over = Vec::new();
    for (run, directory) in &agent.machine.disk.borrow().runs {
        let book = agent.books.borrow().get(run).copied().unwrap_or_default();
        if book.rests_until.is_some_and(|until| until > now) {
            continue;
        }
        let mut sent = Sent { dense: book.held, last: book.held, end: false };
        let mut ended = None;
        let mut events = Vec::new();
        let records = directory.records.iter().filter(|record| record.seq > book.held);
        for record in records.take(EVENTS_MAX) {
            if record.seq == sent.dense + 1 {
                sent.dense = record.seq;
            }
            sent.last = record.seq;
            let Ok(data) = to_raw_value(&record.happening) else { continue };
            events.push(WorkerEvent { seq: record.seq, at: Some(record.at), data });
            if let Happening::Ended(end) = &record.happening {
                ended = Some(end.clone());
            }
        }
        if events.is_empty() {
            ended = directory.ended().cloned();
        }
        sent.end = ended.is_some();
        if events.is_empty() && (ended.is_none() || book.ended) {
            over.extend(ended.map(|ended| (*run, ended)));
            continue;
        }
        let end = ended.as_ref().map(run_end);
        let news = RunNews { run_id: *run, fence: directory.manifest.fence, events, ended: end };
        drafts.push(Draft { news, sent, ended });
    }
    over.into_iter().for_each(|(run, ended)| forget(agent, run, &ended));
    drafts
}

fn confirmed(agent: &Agent, draft: &Draft, acknowledged: u64, ended: bool) {
    let run = draft.news.run_id;
    let over = {
        let mut books = agent.books.borrow_mut();
        let book = books.entry(run).or_default();
        book.heard(draft.sent, acknowledged, ended, Instant::now());
        draft.ended.as_ref().filter(|ended| book.ended && book.held >= ended.last_seq)
    };
    if let Some(ended) = over {
        forget(agent, run, ended);
    }
}

/// Everything of the run is held by the server, as far as we know.
fn forget(agent: &Agent, run: RunId, ended: &Ended) {
    let Agent { world, machine, .. } = agent;
    let mut disk = machine.disk.borrow_mut();
    // A keeper that has said its last word and not left yet is waited for.
    if disk.runs.get(&run).is_none_or(|directory| directory.locked) {
        return;
    }
    if let Some(directory) = disk.runs.remove(&run) {
        disk.memory.remember(&directory.manifest, ended.outcome, ended.exit_code, world.now());
        world.notes.borrow_mut().fleet.freed_at.insert(run, ended.last_seq);
    }
    agent.books.borrow_mut().remove(&run);
    agent.roster.done(run);
}

/// Nothing that is told here is wrong, so nothing of it may be refused.
fn refused(agent: &Agent, run: RunId, code: &str) {
    let after = {
        let mut books = agent.books.borrow_mut();
        let book = books.entry(run).or_default();
        let after = book.refused(code, Instant::now());
        if after == AfterRefusal::Quarantined {
            // Its directory stays, and nobody wants to hear of it.
            book.rests_until = Some(Instant::now() + Duration::from_secs(24 * 60 * 60));
        }
        after
    };
    agent.roster.done(run);
    if after != AfterRefusal::StillAbsent {
        agent.world.violated(Violation::new("E2", format!("what happened in run {run} was refused: {code}")));
    }
}

/// Ships the stories of runs that have no directory.
pub async fn ship_stories(agent: &Agent) {
    let Agent { world, machine, roster, .. } = agent;
    loop {
        agent.called.notified().await;
        let stories = std::mem::take(&mut *agent.stories.borrow_mut());
        for (run, story) in stories {
            let Story { fence, events, ended, .. } = story;
            let news = RunNews { run_id: run, fence, events, ended };
            while bring(world, machine, vec![news.clone()]).await.is_err() {
                pause(world).await;
            }
            roster.done(run);
        }
    }
}
