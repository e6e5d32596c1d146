//! Runs of workflows in words: a step, a wait, an end.

use serde_json::Value;

use super::remote::{Place, RunDetail, RunView, StepPage, StepView};
use crate::output::text::{clean, cut};
use crate::output::time::between;
use crate::output::{Paint, Screen, Text};

/// Outputs are shown up to this many characters in a line.
const OUTPUT_MAX: usize = 100;

/// A value on one line, as far as there is room.
pub fn brief(value: &Value) -> String {
    cut(Text::new(&value.to_string()).as_str(), OUTPUT_MAX)
}

/// A step in a line.
pub fn step(screen: &Screen, step: &StepView) -> String {
    let color = screen.color();
    let good = step.status.as_str() == "success";
    let mark = if good { Paint::Good.on("✓", color) } else { Paint::Bad.on("✗", color) };
    let visit = if step.visit > 1 { format!(" (visit {})", step.visit) } else { String::new() };
    let kind = Paint::Quiet.on(step.node_type.as_str(), color);
    let pinned = if step.origin.as_str() == "pinned" { " pinned" } else { "" };
    let came = match &step.error {
        Some(fault) => Paint::Bad.on(&format!("{}: {}", fault.class, fault.message), color),
        None if step.output.is_null() => String::new(),
        None => brief(&step.output),
    };
    let way = match &step.exit {
        Value::Object(exit) => exit.get("port").or_else(|| exit.get("to")).and_then(Value::as_str),
        _ => None,
    };
    let way = way.map(|way| format!(" → {}", Text::new(way))).unwrap_or_default();
    let took = between(&step.began_at, &step.ended_at);
    // What was worked out at once took no time worth telling.
    let took = match took.as_str() {
        "" | "0ms" => String::new(),
        took => Paint::Quiet.on(&format!(" in {took}"), color),
    };
    format!(
        "{mark} {:>3}  {}{visit}  {kind}{pinned}{took}{way}  {came}",
        step.n,
        Paint::Strong.on(step.node.as_str(), color)
    )
    .trim_end()
    .to_owned()
}

/// Where a step came from, where it led, and what it received.
pub fn step_detail(screen: &Screen, step: &StepView) -> Option<String> {
    let names = |nodes: &[Text]| nodes.iter().map(Text::as_str).collect::<Vec<_>>().join(", ");
    let mut parts = Vec::new();
    if !step.previous.is_empty() {
        parts.push(format!("from {}", names(&step.previous)));
    }
    if !step.next.is_empty() {
        parts.push(format!("to {}", names(&step.next)));
    }
    match (step.input_bytes, &step.input) {
        (Some(bytes), _) => parts.push(format!("input of {bytes} bytes")),
        (None, Value::Null) => {}
        (None, Value::Object(fields)) if fields.is_empty() => {}
        (None, input) => parts.push(format!("input {}", brief(input))),
    }
    let line = Paint::Quiet.on(&parts.join("; "), screen.color());
    (!parts.is_empty()).then(|| format!("       {line}"))
}

/// The nodes that an execution that has ended never came to.
pub fn skipped(screen: &Screen, page: &StepPage) -> Vec<String> {
    let color = screen.color();
    let mut lines: Vec<String> = page
        .skipped
        .iter()
        .map(|skipped| Paint::Quiet.on(&format!("-      {}  {}  skipped", skipped.node, skipped.node_type), color))
        .collect();
    let more = page.skipped_count.saturating_sub(page.skipped.len() as u64);
    if more > 0 {
        lines.push(Paint::Quiet.on(&format!("-      {more} more nodes were skipped"), color));
    }
    lines
}

/// What a paused or running run waits for; nothing if nothing is known.
pub fn waits(screen: &Screen, view: &RunView) -> Vec<String> {
    let mut lines: Vec<String> = view
        .waits
        .iter()
        .map(|wait| {
            let expires = screen.ago(&wait.expires_at);
            let expires = if expires.is_empty() { expires } else { format!(", expires {expires}") };
            match wait.kind.as_str() {
                "approval" => format!("waits for approval at {}: {}{expires}", wait.node, wait.name),
                _ if wait.key.is_empty() => format!("waits for the event {} at {}{expires}", wait.name, wait.node),
                _ => format!("waits for the event {} with the key {} at {}{expires}", wait.name, wait.key, wait.node),
            }
        })
        .collect();
    match view.paused_for.as_str() {
        "debug" => lines.push(format!("stopped before {}", view.node)),
        // Older servers do not say until when.
        "sleep" if view.wakes_at.is_empty() => lines.push(format!("sleeps at {}", view.node)),
        "sleep" => lines.push(format!("sleeps at {} until {}", view.node, view.wakes_at)),
        _ => {}
    }
    lines
}

/// Where a run is: the node, and what it waits for there.
pub fn place(screen: &Screen, place: &Place) -> String {
    let node = Paint::Strong.on(place.node.as_str(), screen.color());
    let waits = match &place.waits {
        Value::Object(waits) => waits.iter().next().map(|(kind, what)| match kind.as_str() {
            "until" => format!("sleeps until {}", Text::new(what.as_str().unwrap_or_default())),
            "approval" => format!("waits for approval: {}", Text::new(what["title"].as_str().unwrap_or_default())),
            "event" => format!("waits for the event {}", Text::new(what["name"].as_str().unwrap_or_default())),
            "call" => format!("waits for job {}", Text::new(what["job"].as_str().unwrap_or_default())),
            "each" => format!("{} of {} jobs are over", brief(&what["ended"]), brief(&what["items"])),
            other => format!("waits: {}", Text::new(other)),
        }),
        _ => None,
    };
    match waits {
        Some(waits) => format!("{node} {waits}"),
        None => format!("{node} is next"),
    }
}

/// How a run ended, in lines.
pub fn ending(screen: &Screen, detail: &RunDetail) -> Vec<String> {
    let status = detail.job.status.as_str();
    let mut lines = vec![Paint::of_status(status).on(status, screen.color())];
    if let Some(view) = &detail.workflow {
        lines[0].push_str(&format!(" after {} {}", view.steps, if view.steps == 1 { "step" } else { "steps" }));
    }
    match &detail.job.error {
        Some(fault) => lines.push(format!("{}: {}", fault.class, fault.message)),
        None if detail.job.result.is_null() => {}
        None => {
            let pretty = crate::output::json::readable(&detail.job.result.to_string(), 60);
            lines.extend(pretty.lines().map(clean));
        }
    }
    lines
}
