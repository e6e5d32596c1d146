//! `approvals approve JOB` and `approvals reject JOB`.
//!
//! A vote is sent once: the same person cannot vote twice, so a second one would be refused and hide that the first
//! counted.

use bowline_model::JobId;
use serde::Deserialize;

use super::ApproveArgs;
use super::show::{approval_of, print, print_node};
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::{JobDetail, wait_for};
use crate::output::{Paint, Screen, Text};
use crate::wait::Wait;
use crate::workflow::RunView;

#[derive(Deserialize, Default)]
#[serde(default)]
struct DecidedView {
    decision: Text,
    missing: u64,
    status: Text,
}

pub async fn approve(client: &Client, screen: &mut Screen, args: &ApproveArgs) -> Result<Exit, Failure> {
    let job = args.job.resolve(client).await?;
    let hash = match &args.hash {
        Some(hash) => hash.clone(),
        None => {
            let answer = client.call(&Request::get(["jobs", &job.to_string()])).await?;
            let detail: JobDetail = answer.read()?;
            if let Some(run) = &detail.workflow {
                return approve_node(client, screen, job, args, &detail, run).await;
            }
            let approval = if screen.json() {
                approval_of(job, &detail)?.1.clone()
            } else {
                print(client, screen, job, &detail).await?
            };
            if approval.is_open() && !args.yes && !screen.confirm("Approve exactly this?")? {
                return Err(Failure::Declined);
            }
            approval.hash.to_string()
        }
    };
    let body = serde_json::json!({ "hash": hash, "reason": args.reason });
    send(client, screen, job, "approve", body, args.wait.wait()).await
}

/// Says yes to a node of a workflow.
async fn approve_node(
    client: &Client,
    screen: &mut Screen,
    job: JobId,
    args: &ApproveArgs,
    detail: &JobDetail,
    run: &RunView,
) -> Result<Exit, Failure> {
    if !screen.json() {
        print_node(screen, detail, run)?;
    }
    if run.waits.iter().any(|wait| wait.kind.as_str() == "approval") && !args.yes && !screen.confirm("Approve this?")? {
        return Err(Failure::Declined);
    }
    let mut body = serde_json::json!({ "reason": args.reason });
    if let Some(node) = &args.node {
        body["node"] = node.as_str().into();
    }
    // What was shown is what is said yes to.
    let mut shown = run.waits.iter().filter(|wait| {
        wait.kind.as_str() == "approval" && args.node.as_deref().is_none_or(|node| wait.node.as_str() == node)
    });
    if let (Some(wait), None) = (shown.next(), shown.next())
        && !wait.hash.as_str().is_empty()
    {
        body["hash"] = wait.hash.as_str().into();
    }
    send(client, screen, job, "approve", body, args.wait.wait()).await
}

pub async fn reject(
    client: &Client,
    screen: &mut Screen,
    job: JobId,
    node: Option<String>,
    reason: &str,
) -> Result<Exit, Failure> {
    let mut body = serde_json::json!({ "reason": reason });
    if let Some(node) = node {
        body["node"] = node.into();
    }
    send(client, screen, job, "reject", body, Wait::No).await
}

async fn send(
    client: &Client,
    screen: &mut Screen,
    job: JobId,
    verb: &str,
    body: serde_json::Value,
    wait: Wait,
) -> Result<Exit, Failure> {
    let id = job.to_string();
    let steps = if wait.is_no() { None } else { steps(client, &id).await };
    let answer = client.call(&Request::post(["jobs", &id, verb]).body(body.to_string())).await?;
    if screen.json() {
        if wait.is_no() {
            screen.json_line(answer.text())?;
            return Ok(Exit::Success);
        }
        return wait_for(client, screen, job, steps, wait).await;
    }
    let decided: DecidedView = answer.read()?;
    let status = Paint::of_status(decided.status.as_str()).on(decided.status.as_str(), screen.color());
    let what = match (decided.decision.as_str(), decided.missing) {
        ("noted", 1) => "your yes is noted, one more is needed".to_owned(),
        ("noted", missing) => format!("your yes is noted, {missing} more are needed"),
        (decision, _) => decision.to_owned(),
    };
    let stands = match decided.status.as_str() {
        "success" | "succeeded" => format!("it has {}", Paint::of_status("success").on("succeeded", screen.color())),
        "failed" => format!("it has {status}"),
        "canceled" => format!("it was {status}"),
        _ => format!("it is {status}"),
    };
    screen.line(&format!("job {id}: {what}; {stands}"))?;
    if !wait.is_no() {
        return wait_for(client, screen, job, steps, wait).await;
    }
    if decided.decision.as_str() == "approved" {
        screen.note(&format!("follow it with `bowline job watch {id}`"));
    }
    Ok(Exit::Success)
}

/// The last step of an execution of a workflow; those after it are shown. `None` of other jobs.
async fn steps(client: &Client, id: &str) -> Option<u32> {
    let detail: JobDetail = client.call(&Request::get(["jobs", id])).await.ok()?.read().ok()?;
    detail.workflow.map(|execution| execution.steps)
}
