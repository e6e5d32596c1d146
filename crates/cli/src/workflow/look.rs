//! `workflow steps JOB` and `workflow context JOB`: what a run has done, and what it knew after any step.

use clap::Args;
use serde_json::{Value, json};

use super::remote::{ContextView, Remote};
use super::words;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job_ref::OneJob;
use crate::output::json::readable;
use crate::output::text::clean;
use crate::output::{Paint, Screen};

/// A context is shown up to this many lines.
const CONTEXT_LINES_MAX: usize = 200;

#[derive(Debug, Clone, Args)]
pub struct StepsArgs {
    #[command(flatten)]
    job: OneJob,
    /// The first step to show
    #[arg(long, value_name = "N", default_value_t = 1)]
    from: u32,
}

#[derive(Debug, Clone, Args)]
pub struct ContextArgs {
    #[command(flatten)]
    job: OneJob,
    /// As it was after this step [default: as it is now]
    #[arg(long, value_name = "N")]
    step: Option<u32>,
    /// Only this part, such as variables.total or steps.charge.output
    #[arg(value_name = "PATH")]
    path: Option<String>,
}

pub async fn steps(client: &Client, screen: &mut Screen, args: &StepsArgs) -> Result<Exit, Failure> {
    let job = args.job.resolve(client).await?;
    let remote = Remote::new(client, job);
    if screen.json() {
        let id = job.to_string();
        let mut from = Some(args.from);
        let (mut all, mut rest): (Vec<Value>, Value) = (Vec::new(), Value::Null);
        while let Some(first) = from {
            let request = Request::get(["jobs", &id, "steps"]).query("from", first.to_string());
            let mut page: Value = client.call(&request).await?.read()?;
            if let Some(Value::Array(steps)) = page.get_mut("steps").map(Value::take) {
                all.extend(steps);
            }
            from = page["next"].as_u64().and_then(|next| u32::try_from(next).ok()).filter(|next| *next > first);
            rest = page;
        }
        let [skipped, count, by] = ["skipped", "skipped_count", "created_by"].map(|field| rest[field].take());
        let whole = json!({"steps": all, "skipped": skipped, "skipped_count": count, "created_by": by});
        screen.json_line(&whole.to_string())?;
        return Ok(Exit::Success);
    }
    let detail = remote.detail().await?;
    let view = detail.view()?;
    if !view.created_by.name.is_empty() {
        screen.line(&format!("{}, created by {}", view.name, view.created_by.name))?;
    }
    let page = remote.steps_and_skipped(args.from).await?;
    for step in &page.steps {
        let line = words::step(screen, step);
        screen.line(&line)?;
        if let Some(line) = words::step_detail(screen, step) {
            screen.line(&line)?;
        }
    }
    for line in words::skipped(screen, &page) {
        screen.line(&line)?;
    }
    if detail.job.end().is_some() {
        for line in words::ending(screen, &detail) {
            screen.line(&line)?;
        }
    } else {
        let status = Paint::of_status(detail.job.status.as_str()).on(detail.job.status.as_str(), screen.color());
        screen.line(&format!("{status} after {} steps", view.steps))?;
        for line in words::waits(screen, view) {
            screen.line(&line)?;
        }
    }
    Ok(Exit::Success)
}

pub async fn context(client: &Client, screen: &mut Screen, args: &ContextArgs) -> Result<Exit, Failure> {
    let answer = Remote::new(client, args.job.resolve(client).await?).context_answer(args.step).await?;
    let seen: ContextView = answer.read()?;
    if let Some(path) = &args.path {
        let part = part(&seen.context, path)?;
        if screen.json() {
            screen.json_line(&part.to_string())?;
        } else {
            show_json(screen, part)?;
        }
        return Ok(Exit::Success);
    }
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    screen.line(&format!("after step {} of {}", seen.step, seen.steps))?;
    show_json(screen, &seen.context)?;
    show_diff(screen, &seen)?;
    for place in &seen.places {
        let line = words::place(screen, place);
        screen.line(&line)?;
    }
    Ok(Exit::Success)
}

/// A part of a context, by its path.
pub fn part<'a>(context: &'a Value, path: &str) -> Result<&'a Value, Failure> {
    let mut part = context;
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let inner = match part {
            Value::Array(items) => name.parse().ok().and_then(|index: usize| items.get(index)),
            other => other.get(name),
        };
        part = inner.ok_or_else(|| Failure::Usage(format!("the context has no {path:?}: there is no {name:?}")))?;
    }
    Ok(part)
}

pub fn show_json(screen: &mut Screen, value: &Value) -> Result<(), Failure> {
    for line in readable(&value.to_string(), CONTEXT_LINES_MAX).lines() {
        screen.line(&clean(line))?;
    }
    Ok(())
}

/// What the last step changed, a line each.
pub fn show_diff(screen: &mut Screen, seen: &ContextView) -> Result<(), Failure> {
    for change in &seen.diff {
        let (before, after) = (words::brief(&change.before), words::brief(&change.after));
        let before = if change.before.is_null() { String::new() } else { format!("{before} → ") };
        let before = Paint::Quiet.on(&before, screen.color());
        screen.line(&format!("     {} = {before}{after}", change.path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_by_its_path() {
        let context = json!({"variables": {"list": [1, {"a": 2}]}});
        assert_eq!(part(&context, "variables.list.1.a").unwrap(), &json!(2));
        assert_eq!(part(&context, "").unwrap(), &context);
        for path in ["variables.x", "variables.list.7", "variables.list.x"] {
            assert!(matches!(part(&context, path), Err(Failure::Usage(_))), "{path}");
        }
    }
}
