//! `GET /approvals`: jobs that wait for somebody to say yes.
//!
//! Nodes of workflows come first, then commands on hosts, each sort in pages of its own; a page may have the last of the one
//! and the first of the other. A cursor says in which sort, and after which one there.

use axum::Json;
use axum::extract::State;
use bowline_model::{JobId, Timestamp};
use bowline_store::{WaitKind, WaitPlace, WaitRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::{ApprovalView, hex};
use crate::actors::ActorView;
use crate::app::App;
use crate::door::Known;
use crate::params::{Params, page_size};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalsQuery {
    /// What this actor asked for, such as `token:2h3463nfj9yk1hn9`, or a token of this name.
    pub actor: Option<String>,
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// What waits: a command on hosts, or a node of a workflow.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum WaitingView {
    Workflow(Box<WaitingNode>),
    Command(Box<WaitingCommand>),
}

/// A node of a workflow that waits for somebody to say yes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WaitingNode {
    pub job_id: JobId,
    pub workflow: String,
    pub node: String,
    pub visit: u32,
    /// What is to be approved.
    pub title: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// Of what is asked, and of what the run knows and goes on with. Send it back with the decision.
    pub hash: String,
    /// How many different people must say yes, and how many did.
    pub quorum: u32,
    pub given: u32,
    pub four_eyes: bool,
    /// Who started the workflow.
    pub requester: ActorView,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct WaitingCommand {
    pub job_id: JobId,
    pub number: i64,
    pub command: String,
    pub hosts: u64,
    pub created_at: Timestamp,
    pub approval: ApprovalView,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ApprovalPage {
    /// Nodes of workflows first, then commands; oldest first within each sort.
    pub approvals: Vec<WaitingView>,
    /// Where the next page begins. A page may be short although there is one.
    pub next_cursor: Option<String>,
}

/// After which one a page begins.
enum Place {
    /// A node of a workflow; nothing is the beginning of all.
    Node(Option<WaitPlace>),
    /// A command, by its number.
    Command(i64),
}

impl Place {
    fn write(&self) -> String {
        match self {
            Self::Node(None) => "n".to_owned(),
            // What a node is called may hold anything, so it stands last.
            Self::Node(Some(WaitPlace { since, flow, node, visit })) => {
                format!("n {} {flow} {visit} {node}", since.as_micros())
            }
            Self::Command(number) => format!("c {number}"),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, ' ');
        match (parts.next()?, parts.next()) {
            ("c", Some(number)) => number.parse().ok().map(Self::Command),
            ("n", None) => Some(Self::Node(None)),
            ("n", Some(since)) => {
                let since = Timestamp::from_micros(since.parse().ok()?);
                let (flow, visit) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                Some(Self::Node(Some(WaitPlace { since, flow, visit, node: parts.next()?.into() })))
            }
            _ => None,
        }
    }
}

fn node(waiting: WaitRecord, requester: ActorView) -> WaitingView {
    WaitingView::Workflow(Box::new(WaitingNode {
        job_id: waiting.job,
        workflow: waiting.workflow,
        node: waiting.wait.node.to_string(),
        visit: waiting.wait.visit,
        title: waiting.wait.name.to_string(),
        created_at: waiting.since,
        expires_at: waiting.wait.expires_at,
        hash: waiting.wait.question.map(|question| hex(question.hash.as_bytes())).unwrap_or_default(),
        quorum: waiting.wait.question.map_or(1, |question| question.rule.quorum),
        given: waiting.given,
        four_eyes: waiting.wait.question.is_some_and(|question| question.rule.four_eyes),
        requester,
    }))
}

pub async fn approvals(
    State(app): State<App>,
    known: Known,
    Params(query): Params<ApprovalsQuery>,
) -> Result<Json<ApprovalPage>, Problem> {
    let tenant = known.tenant()?;
    let limit = page_size(query.limit, &app)?;
    let actors = app.actors.named(tenant, query.actor).await?;
    let is_wanted = |actor: &str| actors.as_ref().is_none_or(|actors| actors.iter().any(|one| one == actor));
    let place = match query.cursor {
        None => Place::Node(None),
        Some(text) => Place::read(&app.cursors.read("approvals", tenant, &text)?)
            .ok_or_else(|| Problem::validation("the cursor does not belong to this list"))?,
    };
    let cursor = |next: Place| Some(app.cursors.write("approvals", tenant, &next.write()));
    let mut approvals = Vec::new();
    let mut after = None;
    match place {
        Place::Command(number) => after = Some(number),
        Place::Node(place) => {
            let page = app.engine.ledger.list_waits(tenant, WaitKind::Approval, place, limit).await?;
            for waiting in page.items.into_iter().filter(|waiting| is_wanted(&waiting.actor)) {
                let requester = app.actors.view(&waiting.actor).await;
                approvals.push(node(waiting, requester));
            }
            if let Some(next) = page.next {
                return Ok(Json(ApprovalPage { approvals, next_cursor: cursor(Place::Node(Some(next))) }));
            }
        }
    }
    let room = limit - u32::try_from(approvals.len()).unwrap_or(limit);
    if room == 0 {
        // The commands begin on the next page: their numbers begin with 1.
        return Ok(Json(ApprovalPage { approvals, next_cursor: cursor(Place::Command(0)) }));
    }
    let page = app.engine.ledger.list_approvals(tenant, after, room).await?;
    for waiting in page.items.into_iter().filter(|waiting| is_wanted(&waiting.approval.requester)) {
        let mut approval = waiting.approval.into();
        app.actors.approval(&mut approval).await;
        approvals.push(WaitingView::Command(Box::new(WaitingCommand {
            job_id: waiting.job,
            number: waiting.number,
            command: waiting.command,
            hosts: waiting.hosts,
            created_at: waiting.created_at,
            approval,
        })));
    }
    Ok(Json(ApprovalPage { approvals, next_cursor: page.next.and_then(|next| cursor(Place::Command(next))) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_as_it_was_written() {
        let node = |node: &str| WaitPlace { since: Timestamp::from_micros(17), flow: 4, node: node.into(), visit: 2 };
        for place in [None, Some(node("ask")), Some(node("a b  c")), Some(node(""))] {
            let text = Place::Node(place.clone()).write();
            assert!(matches!(Place::read(&text), Some(Place::Node(read)) if read == place), "{text:?}");
        }
        assert!(matches!(Place::read(&Place::Command(9).write()), Some(Place::Command(9))));
        for bad in ["", "7", "c", "c x", "n 1", "n 1 2", "n 1 2 3", "n x 2 3 a", "d 1"] {
            assert!(Place::read(bad).is_none(), "{bad:?}");
        }
    }
}
