//! `job submit --count N`: many jobs, a thousand at a time.
//!
//! Each job has its own key, so a batch whose answer was lost is sent again as it was. If it ends half-way, the remark
//! says how to go on without making any job twice.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::submit::Template;
use crate::client::{Again, Answer, Client, Request};
use crate::exit::Exit;
use crate::failure::{ErrorPart, Failure};
use crate::listing::JsonList;
use crate::output::Screen;
use crate::output::time::{span, thousands};

/// The most jobs that the API takes at once.
const JOBS_MAX: usize = 1_000;
/// Large payloads go in smaller batches.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Different refusals that are told one by one.
const REFUSALS_MAX: usize = 5;

#[derive(Deserialize)]
struct BatchView {
    #[serde(default)]
    accepted: u64,
    #[serde(default)]
    replayed: u64,
    #[serde(default)]
    refused: u64,
    results: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct RefusedItem {
    error: ErrorPart,
}

#[derive(Default)]
struct Totals {
    accepted: u64,
    replayed: u64,
    refused: u64,
    /// Each sort of refusal, and how often it was met.
    refusals: BTreeMap<String, u64>,
}

pub async fn submit(
    client: &Client,
    screen: &mut Screen,
    template: &Template<'_>,
    count: u64,
) -> Result<Exit, Failure> {
    // A mistake in the template is found before anything was sent.
    template.job(Some(count))?;
    let started = Instant::now();
    let (mut totals, mut json) = (Totals::default(), JsonList::new("results"));
    let bar = screen.progress(count, "submitting");
    let mut next = 1;
    while next <= count {
        let (body, jobs) = body(template, next, count)?;
        let request = Request::post(["jobs", "batch"]).body(body).again(Again::Patient);
        let sent = match client.call(&request).await {
            Ok(answer) => totals.add(screen, &mut json, answer),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = sent {
            drop(bar);
            say_how_to_go_on(screen, template, next - 1, count);
            return Err(failure);
        }
        bar.advance(jobs);
        next += jobs;
    }
    drop(bar);
    let exit = if totals.refused == 0 { Exit::Success } else { Exit::Refused };
    if screen.json() {
        json.finish(screen)?;
        return Ok(exit);
    }
    let millis = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
    let rate = count.saturating_mul(1_000) / u64::try_from(millis.max(1)).unwrap_or(1);
    let mut parts = vec![format!("accepted {} jobs", thousands(totals.accepted))];
    if totals.replayed > 0 {
        parts.push(format!("{} known by their keys", thousands(totals.replayed)));
    }
    if totals.refused > 0 {
        parts.push(format!("refused {}", thousands(totals.refused)));
    }
    screen.line(&format!("{} in {} ({} jobs/s)", parts.join(", "), span(millis), thousands(rate)))?;
    for (refusal, times) in totals.refusals.iter().take(REFUSALS_MAX) {
        screen.note(&format!("refused {}: {refusal}", thousands(*times)));
    }
    Ok(exit)
}

/// The next batch from job number `first` on, and how many jobs are in it.
fn body(template: &Template<'_>, first: u64, count: u64) -> Result<(String, u64), Failure> {
    let mut body = "{\"jobs\":[".to_owned();
    let mut jobs = 0;
    for n in first..=count {
        let job = serde_json::to_string(&template.job(Some(n))?).map_err(|error| Failure::Usage(error.to_string()))?;
        if jobs > 0 {
            if jobs == JOBS_MAX as u64 || body.len() + job.len() > BODY_BYTES_MAX {
                break;
            }
            body.push(',');
        }
        body.push_str(&job);
        jobs += 1;
    }
    body.push_str("]}");
    Ok((body, jobs))
}

impl Totals {
    fn add(&mut self, screen: &mut Screen, json: &mut JsonList, answer: Answer) -> Result<(), Failure> {
        let view: BatchView = answer.read()?;
        self.accepted += view.accepted;
        self.replayed += view.replayed;
        self.refused += view.refused;
        if screen.json() {
            json.add(screen, view.results, BTreeMap::new(), answer)?;
            json.say("accepted", self.accepted);
            json.say("replayed", self.replayed);
            json.say("refused", self.refused);
            return Ok(());
        }
        if view.refused > 0 {
            for item in &view.results {
                let Ok(RefusedItem { error }) = serde_json::from_str(item.get()) else { continue };
                let refusal = format!("{} ({})", error.message, error.code);
                if self.refusals.len() < 100 || self.refusals.contains_key(&refusal) {
                    *self.refusals.entry(refusal).or_default() += 1;
                }
            }
        }
        Ok(())
    }
}

fn say_how_to_go_on(screen: &Screen, template: &Template<'_>, done: u64, count: u64) {
    screen.note(&format!("stopped after {} of {} jobs", thousands(done), thousands(count)));
    if let Some(key) = &template.key {
        screen.note(&format!("the same command with --key '{key}' goes on without making any job twice"));
    }
}
