//! What documents would change, asked of the server one by one before anything is changed.

use serde::Deserialize;
use serde_json::{Value, json};

use super::documents::{Document, INVENTORY};
use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::{Failure, Refusal};
use crate::hosts::{Counts, counts};
use crate::output::{Screen, Text};

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

/// Asks about every document and tells what is wrong with which; `None` if anything is.
pub async fn check_all(
    client: &Client,
    screen: &Screen,
    documents: &[Document],
) -> Result<Option<Vec<Checked>>, Failure> {
    let (mut checked, mut wrong) = (Vec::with_capacity(documents.len()), 0);
    for document in documents {
        match check(client, document).await {
            Ok(found) => checked.push(found),
            // Something about this document. The others may have their own mistakes, and all are told at once.
            Err(Failure::Refused(refusal)) if matches!(refusal.status, 400 | 404 | 405 | 409 | 413 | 422) => {
                wrong += 1;
                for mistake in mistakes(&refusal) {
                    screen.note(Text::new(&format!("{}: {mistake}", document.words())).as_str());
                }
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok((wrong == 0).then_some(checked))
}

/// Each thing that is wrong with a document: one, unless the server says that there are several.
fn mistakes(refusal: &Refusal) -> Vec<String> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Details {
        mistakes: Vec<Mistake>,
    }
    #[derive(Deserialize)]
    struct Mistake {
        path: Text,
        what: Text,
    }
    let details = refusal.details.as_deref().and_then(|text| serde_json::from_str::<Details>(text).ok());
    let mistakes = details.unwrap_or_default().mistakes;
    if mistakes.is_empty() {
        return vec![refusal.message.to_string()];
    }
    mistakes.iter().map(|mistake| format!("{}: {}", mistake.path, mistake.what)).collect()
}

/// How it ends when something is wrong.
pub fn invalid(screen: &Screen) -> Exit {
    screen.note("nothing was changed");
    Exit::Refused
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
