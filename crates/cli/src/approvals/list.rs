//! `approvals list`.

use serde::Deserialize;

use crate::actor::ActorView;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::fleet::ApprovalView;
use crate::listing::Listing;
use crate::output::{Cell, Column, Screen, Text};

#[derive(Deserialize, Default)]
#[serde(default)]
struct WaitingView {
    job_id: Text,
    command: Text,
    hosts: Text,
    created_at: Text,
    approval: ApprovalView,
    /// A node of a workflow has these instead.
    workflow: Text,
    node: Text,
    title: Text,
    expires_at: Text,
    requester: ActorView,
    quorum: u64,
    given: u64,
}

const COLUMNS: [Column; 7] = [
    Column::left("JOB").whole(),
    Column::left("WHAT"),
    Column::right("HOSTS"),
    Column::left("BY"),
    Column::left("ASKED"),
    Column::right("YES"),
    Column::left("EXPIRES").spare(),
];

fn row(screen: &Screen, waiting: &WaitingView) -> Vec<Cell> {
    let approval = &waiting.approval;
    if !waiting.workflow.is_empty() {
        return vec![
            (&waiting.job_id).into(),
            format!("{} at {}: {}", waiting.workflow, waiting.node, waiting.title).into(),
            "".into(),
            (&waiting.requester.name).into(),
            screen.ago(&waiting.created_at).into(),
            format!("{}/{}", waiting.given, waiting.quorum.max(1)).into(),
            screen.ago(&waiting.expires_at).into(),
        ];
    }
    vec![
        (&waiting.job_id).into(),
        (&waiting.command).into(),
        (&waiting.hosts).into(),
        approval.requester.or(&approval.requested_by).into(),
        screen.ago(&waiting.created_at).into(),
        format!("{}/{}", approval.yes(), approval.quorum).into(),
        screen.ago(&approval.expires_at).into(),
    ]
}

pub async fn list(client: &Client, screen: &mut Screen, actor: Option<String>, limit: u64) -> Result<Exit, Failure> {
    let mut listing = Listing::new(screen, "approvals", Some(limit), &COLUMNS, row);
    listing.read(client, Request::get(["approvals"]).query_if("actor", actor)).await?;
    listing.finish("Nothing waits for approval.")?;
    Ok(Exit::Success)
}
