//! What the debugger shows: the nodes and how they stand, where the run is, what the last step changed.

use std::collections::BTreeMap;

use bowline_workflow::compile::read_workflow;
use bowline_workflow::draw::{OutlineLine, outline};
use serde_json::Value;

use crate::failure::Failure;
use crate::output::{Paint, Screen, Text};
use crate::workflow::look::{show_diff, show_json};
use crate::workflow::remote::{Remote, RunDetail};
use crate::workflow::words;

/// The nodes, layer by layer, each with how it stands and where it leads.
pub async fn graph(screen: &mut Screen, remote: &Remote<'_>) -> Result<(), Failure> {
    let (view, seen) = (remote.graph().await?, remote.context(None).await?);
    let spec = read_workflow(view.definition)
        .map_err(|_| remote.client.strange("its definition cannot be read".to_owned()))?;
    let lines = outline(&spec);
    let width = |text: fn(&OutlineLine) -> &str| {
        lines.iter().map(|line| Text::new(text(line)).as_str().chars().count()).max().unwrap_or(0)
    };
    let (names, types) = (width(|line| line.node.as_str()), width(|line| &line.node_type));
    for line in &lines {
        let text = node_line(screen, line, &view.nodes, &seen.debug, names, types);
        screen.line(&text)?;
    }
    Ok(())
}

fn node_line(
    screen: &Screen,
    line: &OutlineLine,
    nodes: &BTreeMap<String, String>,
    debug: &Value,
    names: usize,
    types: usize,
) -> String {
    let color = screen.color();
    let (mark, paint) = match nodes.get(line.node.as_str()).map(String::as_str) {
        Some("done") => ("✓", Paint::Good),
        Some("failed") => ("✗", Paint::Bad),
        Some("waiting") => ("…", Paint::Busy),
        Some("current") => ("▶", Paint::Busy),
        _ => (" ", Paint::Plain),
    };
    let (node, kind) = (Text::new(line.node.as_str()), Text::new(&line.node_type));
    let has = |what: &str| debug[what].get(line.node.as_str()).is_some();
    let flag = match (has("breakpoints"), has("pins")) {
        (true, _) => Paint::Bad.on("●", color),
        (false, true) => Paint::Busy.on("◆", color),
        (false, false) => " ".to_owned(),
    };
    let here = matches!(mark, "▶" | "…");
    let name = format!("{:names$}", node.as_str());
    let name = if here { Paint::Strong.on(&name, color) } else { name };
    let ways: Vec<String> = line
        .ways
        .iter()
        .map(|way| {
            let arrow = if way.is_back { "↑" } else { "→" };
            let on = way.on.as_ref().map(|on| format!(" ({})", Text::new(on))).unwrap_or_default();
            format!("{arrow} {}{on}", Text::new(way.target.as_str()))
        })
        .collect();
    let handler = if line.is_handler { "  (on error)" } else { "" };
    let rest = Paint::Quiet.on(&format!("{:types$}  {}{handler}", kind.as_str(), ways.join("  ")), color);
    format!("{flag} {} {name}  {rest}", paint.on(mark, color)).trim_end().to_owned()
}

/// What has happened since step `shown`, and where the run is now. Answers with the last step there is.
pub async fn stop(screen: &mut Screen, remote: &Remote<'_>, shown: u32) -> Result<(u32, RunDetail), Failure> {
    let detail = remote.detail().await?;
    let mut last = shown;
    for step in remote.steps(shown + 1).await? {
        last = last.max(step.n);
        let line = words::step(screen, &step);
        screen.line(&line)?;
    }
    let mut seen = remote.context(None).await?;
    if last > shown {
        // What the step gave stands in its line already.
        seen.diff.retain(|change| !change.path.as_str().starts_with("steps."));
        show_diff(screen, &seen)?;
    }
    if detail.job.end().is_some() {
        for line in words::ending(screen, &detail) {
            screen.line(&line)?;
        }
    } else {
        for place in &seen.places {
            let line = words::place(screen, place);
            screen.line(&line)?;
        }
        if let Some(why) = why(&seen.debug) {
            screen.line(&Paint::Quiet.on(why, screen.color()))?;
        }
    }
    Ok((last, detail))
}

/// Why a run stands still.
fn why(debug: &Value) -> Option<&'static str> {
    match debug["halted"].as_str()? {
        "step" => Some("stopped: single-stepping"),
        "breakpoint" => Some("stopped at a breakpoint"),
        "run_to" => Some("stopped where it was to run to"),
        "person" => Some("stopped because somebody said so"),
        _ => Some("stopped"),
    }
}

/// What the run knows: its variables and the output of the last step, or a part that somebody names.
pub async fn context(screen: &mut Screen, remote: &Remote<'_>, path: Option<&str>) -> Result<(), Failure> {
    let seen = remote.context(None).await?;
    if let Some(path) = path {
        let part = crate::workflow::look::part(&seen.context, path)?;
        return show_json(screen, part);
    }
    let variables = seen.context["variables"].as_object().into_iter().flatten();
    for (name, value) in variables {
        screen.line(&format!("variables.{} = {}", Text::new(name), words::brief(value)))?;
    }
    let steps = seen.context["steps"].as_object().into_iter().flatten();
    for (node, step) in steps {
        screen.line(&format!("steps.{}.output = {}", Text::new(node), words::brief(&step["output"])))?;
    }
    for root in ["webhook", "execution", "user"] {
        screen.line(&format!("{root} = {}", words::brief(&seen.context[root])))?;
    }
    Ok(())
}
