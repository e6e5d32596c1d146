//! Names of actors, for people.
//!
//! The ledger stores who did something as `token:<id>`, `service:<subject>` or `worker:<name>`: ids never change and
//! need no second lookup when they are written. Views add the name that a person knows. The name of a token never
//! changes, so each one is read once and kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_model::{Event, TenantId};
use bowline_store::{JobRecord, Ledger, UnitRecord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::{ApprovalView, CommandView, UnitView};
use crate::jobs::bounded;
use crate::problem::Problem;
use crate::views::{EventView, JobView};

/// Somebody who acted, with the name people know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Actor")]
pub struct ActorView {
    /// `token:<id>`, `service:<subject>`, `worker:<name>` or the server itself.
    pub id: String,
    /// The name of the token, the subject of the service or the name of the worker.
    pub name: String,
    /// The address of a token's owner, if the token has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
}

impl ActorView {
    /// An actor whose name was not looked up: the id stands in for it.
    pub fn unnamed(id: &str) -> Self {
        Self { id: id.to_owned(), name: id.to_owned(), email: None }
    }
}

/// How many names are kept before the directory starts over.
const KNOWN_MAX: usize = 10_000;

type Found = (String, Option<String>);

/// The directory of names.
#[derive(Debug)]
pub struct Actors {
    ledger: Arc<dyn Ledger>,
    known: Mutex<HashMap<String, Found>>,
}

impl Actors {
    pub fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger, known: Mutex::default() }
    }

    /// Who this is. Where the name cannot be read now, the id stands in for it: a view is never refused for a name.
    pub async fn view(&self, id: &str) -> ActorView {
        let (name, email) = match id.split_once(':') {
            Some(("token" | "join", token)) => match self.token(token).await {
                Some(found) => found,
                None => (id.to_owned(), None),
            },
            Some((_, name)) if !name.is_empty() => (name.to_owned(), None),
            _ => (id.to_owned(), None),
        };
        ActorView { id: id.to_owned(), name, email }
    }

    /// Looks up the name of an actor.
    pub async fn fill(&self, actor: &mut ActorView) {
        *actor = self.view(&actor.id).await;
    }

    /// An approval with the names of who asked and who voted.
    pub async fn approval(&self, approval: &mut ApprovalView) {
        self.fill(&mut approval.requester).await;
        for vote in &mut approval.votes {
            self.fill(&mut vote.actor).await;
        }
    }

    /// A command with the names of everyone its approval mentions.
    pub async fn command(&self, mut command: CommandView) -> CommandView {
        if let Some(approval) = &mut command.approval {
            self.approval(approval).await;
        }
        command
    }

    /// One host of a command, with the name of who made the rule that kept it from running there.
    pub async fn unit(&self, unit: UnitRecord) -> UnitView {
        let mut view = UnitView::from(unit);
        if let Some(rule) = &mut view.blocked {
            self.fill(&mut rule.actor).await;
        }
        view
    }

    /// A job with the name of who asked for it.
    pub async fn job(&self, job: JobRecord) -> JobView {
        let actor = self.view(&job.origin.actor).await;
        JobView::new(job, actor)
    }

    /// An event with the name of who did it.
    pub async fn event(&self, event: Event) -> EventView {
        let actor = match event.data.by.as_deref() {
            Some(by) => Some(self.view(by).await),
            None => None,
        };
        EventView::new(event, actor)
    }

    /// A page of events, in its order.
    pub async fn events<P>(&self, events: Vec<(P, Event)>) -> Vec<EventView> {
        let mut views = Vec::with_capacity(events.len());
        for (_, event) in events {
            views.push(self.event(event).await);
        }
        views
    }

    /// The ids of the actors that a filter means, which is an id or a name; `None` if there is no such filter.
    pub async fn named(&self, tenant: TenantId, wanted: Option<String>) -> Result<Option<Vec<String>>, Problem> {
        let Some(text) = bounded("actor", wanted)? else { return Ok(None) };
        Ok(Some(self.ledger.actors_named(tenant, text).await?))
    }

    async fn token(&self, id: &str) -> Option<Found> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().get(id) {
            return Some(found.clone());
        }
        let record = self.ledger.find_token(id.to_owned()).await.ok().flatten()?;
        let found = (record.name, record.email);
        let mut known = known();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(id.to_owned(), found.clone());
        Some(found)
    }
}
