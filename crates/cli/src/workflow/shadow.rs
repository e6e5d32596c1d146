//! `workflow shadow JOB`: a run once more with the answers it got; what would be different?

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::remote::Remote;
use super::{files, words};
use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job_ref::OneJob;
use crate::output::{Screen, Text};

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline workflow shadow JOB --definition order.yaml

Nothing is executed: where a node called something, the recorded answer is used. Ends with exit code 1 if something would \
be different.")]
pub struct ShadowArgs {
    #[command(flatten)]
    job: OneJob,
    /// A file with another definition [default: the execution's own]
    #[arg(long, value_name = "FILE")]
    definition: Option<PathBuf>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ShadowView {
    steps: u32,
    differences: Vec<Value>,
    unlisted: usize,
}

pub async fn shadow(client: &Client, screen: &mut Screen, args: &ShadowArgs) -> Result<Exit, Failure> {
    let definition = args.definition.as_ref().map(|path| files::one(path, None)).transpose()?.map(|one| one.spec);
    let body = definition.map_or_else(|| json!({}), |definition| json!({ "definition": definition }));
    let answer = Remote::new(client, args.job.resolve(client).await?).shadow(&body).await?;
    let view: ShadowView = answer.read()?;
    let exit = if view.differences.is_empty() { Exit::Success } else { Exit::Different };
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(exit);
    }
    for difference in &view.differences {
        for line in lines(difference) {
            screen.line(&line)?;
        }
    }
    let steps = format!("{} {}", view.steps, if view.steps == 1 { "step" } else { "steps" });
    if view.unlisted > 0 {
        screen.line(&format!("and {} more", view.unlisted))?;
    }
    screen.line(&match view.differences.len() + view.unlisted {
        0 => format!("the same in all {steps}"),
        1 => format!("1 difference in {steps}"),
        several => format!("{several} differences in {steps}"),
    })?;
    Ok(exit)
}

/// A difference in words.
fn lines(difference: &Value) -> Vec<String> {
    let node = Text::new(difference["node"].as_str().unwrap_or("?"));
    let visit = match difference["visit"].as_u64() {
        Some(visit) if visit > 1 => format!(" (visit {visit})"),
        _ => String::new(),
    };
    match difference["kind"].as_str() {
        Some("step") => {
            let (before, after) = (&difference["recorded"], &difference["shadow"]);
            let mut lines = vec![format!("{node}{visit} would give something else")];
            for field in ["status", "exit", "output", "set"] {
                if before[field] != after[field] {
                    let (before, after) = (words::brief(&before[field]), words::brief(&after[field]));
                    lines.push(format!("  {field}: {before} → {after}"));
                }
            }
            lines
        }
        Some("asks") => {
            let mut lines = vec![format!("{node}{visit} would ask for something else")];
            let (before, after) = (calls(&difference["recorded"]), calls(&difference["shadow"]));
            if before.len() != after.len() {
                lines.push(format!("  {} jobs → {}", before.len(), after.len()));
            }
            for (before, after) in before.iter().zip(after) {
                lines.extend(parted("", before, after).into_iter().map(|line| format!("  {line}")));
            }
            lines
        }
        Some("goes_on") => {
            vec![format!("it would not be over after {} steps, and was left there", difference["steps"])]
        }
        Some("only_recorded") => vec![format!("{node}{visit} would not be reached")],
        Some("only_shadow") => vec![format!("{node}{visit} would be reached")],
        Some("no_answer") => vec![format!("{node}{visit} would ask the world; what came of it nobody knows")],
        Some("ending") => {
            let (before, after) = (words::brief(&difference["recorded"]), words::brief(&difference["shadow"]));
            vec![format!("it would end otherwise: {before} → {after}")]
        }
        _ => vec![words::brief(difference)],
    }
}

fn calls(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// Where two values part, a line each, by the path that leads there.
fn parted(path: &str, before: &Value, after: &Value) -> Vec<String> {
    match (before, after) {
        _ if before == after => Vec::new(),
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
            keys.into_iter().flat_map(|key| parted(&below(key), &before[key], &after[key])).collect()
        }
        _ => vec![format!("{}: {} → {}", Text::new(path), words::brief(before), words::brief(after))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_in_words() {
        let outcome = |n: i32| json!({"status": "success", "exit": "success", "output": {"n": n}, "set": []});
        let step = json!({"kind": "step", "node": "add", "visit": 2, "recorded": outcome(1), "shadow": outcome(2)});
        let call = |url: &str| json!([{"what": {"task": {"task_type": "http_request", "payload": {"url": url}}}}]);
        let asks = json!({"kind": "asks", "node": "pay", "visit": 1, "recorded": call("http://a"), "shadow": call("http://b")});
        let lines: Vec<String> =
            [step, asks, json!({"kind": "only_shadow", "node": "x", "visit": 1}), json!({"kind": "new"})]
                .iter()
                .flat_map(lines)
                .collect();
        let wanted = [
            "add (visit 2) would give something else",
            "  output: {\"n\":1} → {\"n\":2}",
            "pay would ask for something else",
            "  what.task.payload.url: \"http://a\" → \"http://b\"",
            "x would be reached",
            "{\"kind\":\"new\"}",
        ];
        assert_eq!(lines, wanted);
    }
}
