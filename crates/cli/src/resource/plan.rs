//! What documents would change, asked of the server one by one before anything is changed.

use serde::Deserialize;
use serde_json::{Value, json};

use super::documents::{Document, INVENTORY};
use super::wrong::Wrong;
use crate::client::{Again, Client, Request};
use crate::failure::{Failure, Refusal};
use crate::hosts::{Counts, counts};
use crate::output::Text;

/// What applying one document would do, or has done.
#[derive(Debug)]
pub enum Outcome {
    Created {
        version: u64,
    },
    Updated {
        version: u64,
    },
    /// The latest version says so already, and now it counts.
    Activated {
        version: u64,
    },
    Unchanged,
    Inventory(Counts),
}

impl Outcome {
    pub fn is_change(&self) -> bool {
        match self {
            Self::Unchanged => false,
            Self::Inventory(counts) => counts.is_change(),
            _ => true,
        }
    }

    /// `created v1`, `updated v3`, `unchanged`.
    pub fn words(&self) -> String {
        match self {
            Self::Created { version } => format!("created v{version}"),
            Self::Updated { version } => format!("updated v{version}"),
            Self::Activated { version } => format!("activated v{version}"),
            Self::Inventory(done) if done.is_change() => counts(done),
            Self::Unchanged | Self::Inventory(_) => "unchanged".to_owned(),
        }
    }

    /// For programs.
    pub fn as_json(&self, document: &Document) -> Value {
        let word = match self {
            Self::Created { .. } => "created",
            Self::Activated { .. } => "activated",
            _ if self.is_change() => "updated",
            _ => "unchanged",
        };
        let mut said = json!({"kind": document.kind, "name": document.name, "outcome": word});
        match self {
            Self::Created { version } | Self::Updated { version } | Self::Activated { version } => {
                said["version"] = json!(version);
            }
            Self::Inventory(counts) => {
                said["hosts"] = json!({"created": counts.created, "changed": counts.changed,
                    "unchanged": counts.unchanged, "removed": counts.removed});
            }
            Self::Unchanged => {}
        }
        said
    }
}

/// What the server says to a document.
#[derive(Debug)]
pub struct Checked {
    pub outcome: Outcome,
    /// What it says with every default in its place; nothing for an inventory.
    pub spec: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Valid {
    would: Text,
    version: u64,
    spec: Option<Value>,
}

/// Asks whether a document could be applied, and what that would do.
async fn check(client: &Client, document: &Document) -> Result<Checked, Failure> {
    if document.kind == INVENTORY {
        let would: Counts = client.call(&import(document, true)).await?.read()?;
        return Ok(Checked { outcome: Outcome::Inventory(would), spec: None });
    }
    let request = Request::post(["resources", &document.kind, &document.name, "validate"]).again(Again::Safe);
    let body = json!({ "spec": document.spec }).to_string();
    let Valid { would, version, spec } = client.call(&request.body(body)).await?.read()?;
    let outcome = match would.as_str() {
        "create" => Outcome::Created { version },
        "nothing" => Outcome::Unchanged,
        _ => Outcome::Updated { version },
    };
    Ok(Checked { outcome, spec })
}

/// Asks about every document, and adds what is wrong with which to what was `wrong` before.
pub async fn check_all(
    client: &Client,
    documents: &[Document],
    mut wrong: Vec<Wrong>,
) -> Result<Result<Vec<Checked>, Vec<Wrong>>, Failure> {
    let mut checked = Vec::with_capacity(documents.len());
    for document in documents {
        match check(client, document).await {
            Ok(found) => checked.push(found),
            // Something about this document. The others may have their own errors, and all are told at once.
            Err(Failure::Refused(refusal)) if matches!(refusal.status, 400 | 404 | 405 | 409 | 413 | 422) => {
                wrong.extend(errors(document, &refusal));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(if wrong.is_empty() { Ok(checked) } else { Err(wrong) })
}

/// The document that the server names in its refusal of all of them.
pub fn named<'a>(documents: &'a [Document], refusal: &Refusal) -> Option<&'a Document> {
    #[derive(Deserialize)]
    struct Details {
        document: usize,
    }
    let details: Details = serde_json::from_str(refusal.details.as_deref()?).ok()?;
    documents.get(details.document)
}

/// Each thing that is wrong with a document: one, unless the server says that there are several; in the order of the file.
pub fn errors(document: &Document, refusal: &Refusal) -> Vec<Wrong> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Details {
        path: Option<Text>,
        mistakes: Vec<One>,
    }
    #[derive(Deserialize)]
    struct One {
        path: Text,
        what: Text,
    }
    // The path into an inventory begins at its spec.
    let from_top = |path: &Text| match path.as_str() {
        path if document.kind == INVENTORY && !path.starts_with("spec") => format!("spec.{path}"),
        path => path.to_owned(),
    };
    let details = refusal.details.as_deref().and_then(|text| serde_json::from_str::<Details>(text).ok());
    let Details { path, mistakes } = details.unwrap_or_default();
    if mistakes.is_empty() {
        // Of several documents the server has said which one it is.
        let message = refusal.message.as_str();
        let said = format!("{}: ", document.words());
        let words = message.strip_prefix(said.as_str()).unwrap_or(message).to_owned();
        return vec![Wrong::with(document, path.as_ref().map(from_top), words)];
    }
    let wrong = |one: &One| Wrong::with(document, Some(from_top(&one.path)), one.what.to_string());
    let mut all: Vec<Wrong> = mistakes.iter().map(wrong).collect();
    all.sort_by_key(|wrong| wrong.path.as_deref().and_then(|path| document.line(path)));
    all
}

/// Makes the document of an inventory true, or asks what that would change.
pub fn import(document: &Document, dry_run: bool) -> Request {
    let mut spec = document.spec.clone();
    let unmentioned = spec.as_object_mut().and_then(|spec| spec.remove("unmentioned"));
    let unmentioned = unmentioned.map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned));
    Request::post(["inventories", &document.name, "import"])
        .again(Again::Safe)
        .query("format", "json")
        .query_if("unmentioned", unmentioned)
        .query_if("dry_run", dry_run.then_some("true"))
        .file(spec.to_string())
}
