//! `diff -f`: what `apply` would change, as a text diff of the documents.

use std::collections::BTreeMap;

use bowline_inventory::Format;
use bowline_model::host::{Group, Host, Inventory};
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use similar::TextDiff;

use super::documents::{Document, Files};
use super::get::{export, inventory_yaml, resource_yaml};
use super::plan::check_all;
use super::wrong::{exit, tell};
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, Screen, Text};

#[derive(Debug, Clone, Args)]
#[command(after_help = "The exit code is 0 if nothing would change, and 1 if something would.")]
pub struct DiffArgs {
    #[command(flatten)]
    files: Files,
}

#[derive(Deserialize)]
struct One {
    resource: Value,
}

pub async fn diff(client: &Client, screen: &mut Screen, args: &DiffArgs) -> Result<Exit, Failure> {
    let (documents, wrong) = args.files.read()?;
    let exit = exit(&wrong);
    let checked = match check_all(client, &documents, wrong).await? {
        Ok(checked) => checked,
        Err(wrong) => return tell(screen, &wrong, json!({"results": []}), exit),
    };
    let specs = checked.into_iter().map(|checked| checked.spec).collect();
    let different = differences(client, screen, &documents, specs).await?;
    Ok(if different { Exit::Different } else { Exit::Success })
}

/// Shows what would change, document by document, and says whether anything would. `specs` are what the server makes of
/// resources; nothing for an inventory.
pub async fn differences(
    client: &Client,
    screen: &mut Screen,
    documents: &[Document],
    specs: Vec<Option<Value>>,
) -> Result<bool, Failure> {
    let (mut different, mut results) = (false, Vec::new());
    for (document, spec) in documents.iter().zip(specs) {
        let (old, new) = match spec {
            Some(spec) => resource(client, document, &spec).await?,
            None => inventory(client, document).await?,
        };
        let changed = old != new;
        different |= changed;
        let name = format!("{}/{}", document.kind, document.name);
        if screen.json() {
            let (kind, name, text) = (&document.kind, &document.name, unified(&name, &old, &new, false));
            results.push(json!({"kind": kind, "name": name, "different": changed, "diff": text}));
        } else if changed {
            screen.text(&unified(&name, &old, &new, screen.color()))?;
        }
    }
    if screen.json() {
        screen.json_line(&json!({"different": different, "results": results}).to_string())?;
    }
    Ok(different)
}

/// The document as it counts now, and as it would be.
async fn resource(client: &Client, document: &Document, spec: &Value) -> Result<(String, String), Failure> {
    let yaml = |spec: &Value| resource_yaml(&document.kind, &document.name, spec);
    let old = match client.call(&Request::get(["resources", &document.kind, &document.name])).await {
        Ok(answer) => yaml(&answer.read::<One>()?.resource["spec"]),
        Err(Failure::Refused(refusal)) if refusal.code.as_str() == "RESOURCE_NOT_FOUND" => String::new(),
        Err(failure) => return Err(failure),
    };
    Ok((old, yaml(spec)))
}

/// The same for an inventory. What it would be is put together here: the server only says how many hosts would change.
async fn inventory(client: &Client, document: &Document) -> Result<(String, String), Failure> {
    let wrong = |error: String| Failure::Usage(format!("{}: {error}", document.words()));
    let yaml = |inventory: &Inventory| {
        let written = bowline_inventory::write(inventory, Format::Yaml).map_err(|error| wrong(error.to_string()))?;
        Ok(inventory_yaml(&document.name, &written.text))
    };
    let read = |text: &str| {
        let read = bowline_inventory::read(text.as_bytes(), Format::Json);
        read.map_err(|error| wrong(error.to_string()))
    };
    let there = match export(client, &document.name, Format::Json).await {
        Ok(text) => Some(read(&text)?),
        Err(Failure::Refused(refusal)) if refusal.code.as_str() == "INVENTORY_NOT_FOUND" => None,
        Err(failure) => return Err(failure),
    };
    let old = there.as_ref().map(yaml).transpose()?.unwrap_or_default();
    let mut said = document.spec.clone();
    let unmentioned = said.as_object_mut().and_then(|said| said.remove("unmentioned"));
    let there = there.filter(|_| unmentioned != Some(json!("remove"))).unwrap_or_default();
    let after = merged(there, read(&said.to_string())?);
    Ok((old, yaml(&after)?))
}

/// As the server does it: what is described is as described, and a group of which only the name is said stays as it is.
fn merged(there: Inventory, said: Inventory) -> Inventory {
    let mut hosts: BTreeMap<_, Host> = there.hosts.into_iter().map(|host| (host.name.clone(), host)).collect();
    hosts.extend(said.hosts.into_iter().map(|host| (host.name.clone(), host)));
    let mut groups: BTreeMap<_, Group> = there.groups.into_iter().map(|group| (group.name.clone(), group)).collect();
    for group in said.groups {
        let silent = group.groups.is_empty() && group.vars.is_empty();
        if !(silent && groups.contains_key(&group.name)) {
            groups.insert(group.name.clone(), group);
        }
    }
    Inventory { hosts: hosts.into_values().collect(), groups: groups.into_values().collect() }
}

fn unified(name: &str, old: &str, new: &str, color: bool) -> String {
    let name = Text::new(name);
    let diff = TextDiff::from_lines(old, new);
    let text = diff.unified_diff().header(&format!("{name} (now)"), &format!("{name} (in the file)")).to_string();
    let painted = |line: &str| {
        let paint = match line.as_bytes().first() {
            Some(b'+') => Paint::Good,
            Some(b'-') => Paint::Bad,
            Some(b'@') => Paint::Quiet,
            _ => Paint::Plain,
        };
        format!("{}\n", paint.on(line, color))
    };
    text.lines().map(painted).collect()
}
