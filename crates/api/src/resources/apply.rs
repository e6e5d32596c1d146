//! `POST /apply`: several documents at once, all of them or nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use bowline_auth::Scope;
use bowline_engine::fleet::PutError;
use bowline_engine::{PendingRoom, Room};
use bowline_model::resource::ResourceKind;
use bowline_model::{InventoryName, ResourceName, TenantId};
use bowline_store::{
    Applied, AppliedOne, Applying, NotApplied, PutCounts, ResourceKey, ResourcePut, ResourceStored, StoreError,
    StoreResult,
};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::put::{bytes_of, note, yes};
use super::view::key;
use super::{source, spec};
use crate::app::App;
use crate::body::{JsonText, aside, parse_exact};
use crate::door::Known;
use crate::inventories::{circle, inventory_put};
use crate::patience::Patience;
use crate::problem::Problem;

/// The kind that is no resource: hosts and groups.
const INVENTORY: &str = "inventory";
/// Documents of one request.
const DOCUMENTS_MAX: usize = 1_000;
/// How long the text may take to be read, and the ledger to make it true.
const READING_MAX: Duration = Duration::from_secs(20);
const STORING_MAX: Duration = Duration::from_secs(40);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    /// At most 1000, each thing once.
    #[schemars(length(min = 1, max = 1000))]
    pub documents: Vec<DocumentRequest>,
    /// Whether new versions count from now on: yes, unless given.
    #[serde(default = "yes")]
    pub activate: bool,
    /// Why. Kept with the new versions, and as the reason in the audit trail.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub note: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentRequest {
    /// A kind of resource, or `inventory`.
    pub kind: String,
    pub name: String,
    /// What it says. An inventory has `hosts`, `groups` and `unmentioned` (`keep` unless given, or `remove`).
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub spec: Value,
    /// Of a resource, the YAML document itself, with its comments: shown again as it is. It says the same as `kind`, `name`
    /// and `spec`.
    #[serde(default)]
    pub source: Option<String>,
    /// Where it stands, for people: given back with whatever is wrong with it.
    #[serde(default)]
    pub place: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AppliedView {
    /// In the order of the documents.
    pub results: Vec<AppliedDocument>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AppliedDocument {
    pub kind: String,
    pub name: String,
    /// created, updated, activated (the latest version says so already, and now it counts), unchanged.
    pub outcome: &'static str,
    /// Of a resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Of an inventory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostChanges>,
}

/// What was done to an inventory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HostChanges {
    pub created: u64,
    pub changed: u64,
    pub unchanged: u64,
    pub removed: u64,
    /// Groups that were made, changed or removed.
    pub groups: u64,
}

impl AppliedDocument {
    fn of(document: &Said, applied: AppliedOne) -> Self {
        let (outcome, version, hosts) = match applied {
            AppliedOne::Resource(stored) => match stored {
                ResourceStored::Stored { version: 1, .. } => ("created", Some(1), None),
                ResourceStored::Stored { version, .. } => ("updated", Some(version), None),
                ResourceStored::Unchanged { version, activated: true, .. } => ("activated", Some(version), None),
                ResourceStored::Unchanged { version, .. } => ("unchanged", Some(version), None),
                ResourceStored::Overtaken { latest } => ("unchanged", Some(latest), None),
            },
            AppliedOne::Inventory(counts) => {
                let PutCounts { created, changed, unchanged, removed, groups, .. } = counts;
                let outcome = if created + changed + removed + groups == 0 { "unchanged" } else { "updated" };
                (outcome, None, Some(HostChanges { created, changed, unchanged, removed, groups }))
            }
        };
        Self { kind: document.kind.clone(), name: document.name.clone(), outcome, version, hosts }
    }
}

/// Which document it is, for whoever sent it.
struct Said {
    index: usize,
    kind: String,
    name: String,
    place: Option<String>,
}

impl Said {
    /// A problem with this document, told with where it stands.
    fn problem(&self, problem: Problem) -> Problem {
        let place = self.place.as_ref().map_or_else(|| format!("documents[{}]", self.index), Clone::clone);
        let mut details = json!({
            "document": self.index, "kind": self.kind, "name": self.name, "place": self.place,
        });
        if let (Some(all), Value::Object(own)) = (details.as_object_mut(), problem.details) {
            all.extend(own);
        }
        Problem { message: format!("{place}: {} {}: {}", self.kind, self.name, problem.message), details, ..problem }
    }
}

pub async fn apply(
    State(app): State<App>,
    known: Known,
    patience: Patience,
    JsonText(text): JsonText,
) -> Result<Json<AppliedView>, Problem> {
    let reading = aside(known.tenant()?, move || parse_exact::<ApplyRequest>(&text));
    let request = patience.besides(READING_MAX, reading).await??;
    let note = note(request.note)?;
    if request.documents.is_empty() || request.documents.len() > DOCUMENTS_MAX {
        let message = format!("documents: from 1 to {DOCUMENTS_MAX}, there are {}", request.documents.len());
        return Err(Problem::validation(message).with(json!({"field": "documents"})));
    }
    let (mut said, mut wishes) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    let with = resources_of(&request.documents, known.tenant()?);
    for (index, DocumentRequest { kind, name, spec, source, place }) in request.documents.into_iter().enumerate() {
        let document = Said { index, kind, name, place };
        if !seen.insert((document.kind.clone(), document.name.clone())) {
            return Err(document.problem(Problem::validation("it is there twice, and one would undo the other")));
        }
        let order = Order { app: &app, known: &known, note: note.as_deref(), activate: request.activate, with: &with };
        wishes.push(order.wish(&document, spec, source).await.map_err(|problem| document.problem(problem))?);
        said.push(document);
    }
    let (quotas, tenant) = (&app.engine.quotas, known.tenant()?);
    // Those of the documents that are refused, or change nothing, are given back one by one.
    let mut rooms = Vec::with_capacity(wishes.len());
    for wish in &wishes {
        let room = match wish {
            Applying::Inventory(put) => quotas.reserve_inventory(tenant, &put.content),
            Applying::Resource(put) => quotas.reserve(tenant, bytes_of(put)),
        };
        rooms.push(room.map_err(StoreError::from)?);
    }
    match patience.besides(STORING_MAX, applying(&app, wishes, rooms)).await? {
        Applied::Done(done) => {
            let results = said.iter().zip(done).map(|(document, done)| AppliedDocument::of(document, done)).collect();
            Ok(Json(AppliedView { results }))
        }
        Applied::Refused { document, why } => {
            let problem = match why {
                NotApplied::Overtaken { latest } => PutError::Overtaken { latest }.into(),
                NotApplied::Circle(group) => circle(group),
            };
            Err(said.get(document).map_or(problem.clone(), |document| document.problem(problem)))
        }
    }
}

/// Applies documents. The room of those that add nothing is given back.
async fn applying(app: &App, wishes: Vec<Applying>, rooms: Vec<Room>) -> StoreResult<Applied> {
    let rooms: Vec<PendingRoom> = rooms.into_iter().map(Room::pending).collect();
    let answer = app.engine.ledger.apply(wishes).await;
    let adds = |n: usize| match &answer {
        Ok(Applied::Done(done)) => done.get(n).is_some_and(|done| match done {
            AppliedOne::Resource(stored) => matches!(stored, ResourceStored::Stored { .. }),
            AppliedOne::Inventory(counts) => counts.created + counts.changed + counts.groups > 0,
        }),
        Ok(Applied::Refused { .. }) => false,
        Err(error) => matches!(error, StoreError::Unknown(_)),
    };
    let unused = rooms.into_iter().enumerate().filter(|(n, _)| !adds(*n));
    unused.for_each(|(_, room)| room.give_back_all());
    answer
}

fn resources_of(documents: &[DocumentRequest], tenant: TenantId) -> Vec<ResourceKey> {
    let read = |document: &DocumentRequest| {
        let (kind, name) = (document.kind.parse().ok()?, ResourceName::new(&document.name).ok()?);
        Some(key(tenant, kind, name))
    };
    documents.iter().filter_map(read).collect()
}

/// What holds for all documents of a request.
struct Order<'a> {
    app: &'a App,
    known: &'a Known,
    note: Option<&'a str>,
    activate: bool,
    /// The resources among the documents: what names them need not wait until they are stored.
    with: &'a [ResourceKey],
}

impl Order<'_> {
    /// Reads and checks one document.
    async fn wish(&self, document: &Said, spec: Value, source: Option<String>) -> Result<Applying, Problem> {
        let (app, tenant) = (self.app, self.known.tenant()?);
        if document.kind == INVENTORY {
            self.known.require(Scope::FleetWrite)?;
            if source.is_some() {
                let problem = Problem::validation("source: an inventory has none; leave it out");
                return Err(problem.with(json!({"field": "source"})));
            }
            let name = InventoryName::new(&document.name).map_err(Problem::validation)?;
            let put = inventory_put(app, tenant, self.known.author(), name, spec, self.note.map(str::to_owned)).await?;
            return Ok(Applying::Inventory(put));
        }
        self.known.require(Scope::ResourcesWrite)?;
        let kind: ResourceKind = document.kind.parse().map_err(|_| {
            let kinds: Vec<&str> = ResourceKind::ALL.iter().map(|kind| kind.as_str()).chain([INVENTORY]).collect();
            let message = format!("there is no such kind; the kinds are {}", kinds.join(", "));
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", message)
        })?;
        let name = ResourceName::new(&document.name).map_err(Problem::validation)?;
        let source = source::checked(tenant, source, kind, &name, &spec).await?;
        let spec = spec::read(app, self.known, kind, spec).await?;
        app.engine.resources.check(tenant, &name, &spec, self.with).await?;
        Ok(Applying::Resource(ResourcePut {
            key: key(tenant, kind, name),
            spec: spec.canonical().into(),
            source,
            note: self.note.map(str::to_owned),
            by: self.known.author(),
            activate: self.activate,
            seen: None,
        }))
    }
}
