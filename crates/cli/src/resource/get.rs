//! `get KIND [NAME]`: what the server holds, as a table or as documents that can be applied again.

use bowline_inventory::Format;
use bowline_inventory::document::to_yaml;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::documents::INVENTORY;
use crate::actor::ActorView;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::{Listing, Row};
use crate::output::text::is_unsafe;
use crate::output::{Cell, Column, Output, Paint, Screen, Text};

// Its `--version` is a version of the resource, not of this program.
#[derive(Debug, Clone, Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  bowline get commands
  bowline get command restart-nginx --version 2
  bowline get inventory main > fleet.yaml"
)]
pub struct GetArgs {
    /// The kind, such as command, workflow, schedule; or inventory
    kind: String,
    /// Only this one
    name: Option<String>,
    /// This version [default: the active one]
    #[arg(long, value_name = "N", requires = "name")]
    version: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResourceView {
    kind: Text,
    name: Text,
    active: Text,
    latest: Text,
    version: Text,
    updated_at: Text,
    by: Text,
    actor: ActorView,
    note: Text,
}

#[derive(Deserialize)]
struct One {
    resource: Value,
}

#[derive(Deserialize)]
struct Many {
    resources: Vec<Value>,
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Inventories {
    inventories: Vec<NamedInventory>,
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct NamedInventory {
    name: Text,
}

const COLUMNS: [Column; 7] = [
    Column::left("NAME").whole(),
    Column::right("ACTIVE"),
    Column::right("LATEST"),
    Column::right("SHOWN").spare(),
    Column::left("CHANGED"),
    Column::left("BY").spare(),
    Column::left("NOTE").spare(),
];

fn row(screen: &Screen, resource: &ResourceView) -> Vec<Cell> {
    let active = match resource.active.as_str() {
        "" => Cell::painted("none", Paint::Quiet),
        version => Cell::new(version),
    };
    vec![
        (&resource.name).into(),
        active,
        (&resource.latest).into(),
        (&resource.version).into(),
        screen.ago(&resource.updated_at).into(),
        resource.actor.or(&resource.by).into(),
        (&resource.note).into(),
    ]
}

const COLUMNS_WITH_KIND: [Column; 8] =
    [COLUMNS[0], Column::left("KIND"), COLUMNS[1], COLUMNS[2], COLUMNS[3], COLUMNS[4], COLUMNS[5], COLUMNS[6]];

fn row_with_kind(screen: &Screen, resource: &ResourceView) -> Vec<Cell> {
    let mut cells = row(screen, resource);
    cells.insert(1, (&resource.kind).into());
    cells
}

pub async fn get(client: &Client, screen: &mut Screen, args: &GetArgs) -> Result<Exit, Failure> {
    let otherwise = if args.name.is_some() { Output::Yaml } else { Output::Table };
    // As YAML they are documents that can be applied again, not the server's JSON in other clothes.
    let output = screen.take_output().unwrap_or(otherwise);
    let args = &GetArgs { kind: singular(&args.kind), ..args.clone() };
    match (&args.name, args.kind == INVENTORY) {
        (Some(name), false) => one(client, screen, args, name, output).await?,
        (None, false) => many(client, screen, &[&args.kind], output).await?,
        (Some(name), true) => inventory(client, screen, args, name, output).await?,
        (None, true) => inventories(client, screen, output).await?,
    }
    Ok(Exit::Success)
}

/// The kind of a word that may be the plural: `workflows`, `inventories`.
pub fn singular(kind: &str) -> String {
    match kind.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => kind.strip_suffix('s').unwrap_or(kind).to_owned(),
    }
}

/// Everything of some kinds, as a table unless something else was wanted.
pub async fn list(client: &Client, screen: &mut Screen, kinds: &[&str]) -> Result<Exit, Failure> {
    let output = screen.take_output().unwrap_or(Output::Table);
    many(client, screen, kinds, output).await.map(|()| Exit::Success)
}

async fn one(client: &Client, screen: &mut Screen, args: &GetArgs, name: &str, output: Output) -> Result<(), Failure> {
    let request = Request::get(["resources", &args.kind, name]);
    let request = request.query_if("version", args.version.map(|version| version.to_string()));
    let answer = client.call(&request).await?;
    if output == Output::Json {
        return screen.json_line(answer.text());
    }
    let One { resource } = answer.read()?;
    if output == Output::Yaml {
        return screen.text(&document(&resource));
    }
    let view: ResourceView = serde_json::from_value(resource).map_err(|error| client.strange(error.to_string()))?;
    let row = row(screen, &view);
    screen.table(&COLUMNS, &[row])
}

async fn many(client: &Client, screen: &mut Screen, kinds: &[&str], output: Output) -> Result<(), Failure> {
    if output == Output::Table {
        // Which kind it is needs no column where there is one.
        let (columns, row): (&[Column], Row<ResourceView>) =
            if kinds.len() == 1 { (&COLUMNS, row) } else { (&COLUMNS_WITH_KIND, row_with_kind) };
        let mut listing = Listing::new(screen, "resources", None, columns, row);
        for kind in kinds {
            listing.read(client, Request::get(["resources", kind])).await?;
        }
        return listing.finish("None yet. Create some with `bowline apply FILE`.");
    }
    let mut all = Vec::new();
    for kind in kinds {
        let mut cursor = None;
        loop {
            let request = Request::get(["resources", kind]).query_if("cursor", cursor.clone());
            let page: Many = client.call(&request).await?.read()?;
            all.extend(page.resources);
            // A cursor that does not move leads nowhere.
            if page.next_cursor.is_none() || page.next_cursor == cursor {
                break;
            }
            cursor = page.next_cursor;
        }
    }
    match output {
        Output::Yaml => screen.text(&all.iter().map(document).collect::<Vec<_>>().join("---\n")),
        _ => screen.json_line(&json!({ "resources": all }).to_string()),
    }
}

/// A resource as a document: as it was written, if it came from one.
fn document(resource: &Value) -> String {
    if let Some(source) = resource["source"].as_str().filter(|source| is_harmless(source)) {
        let end = if source.ends_with('\n') { "" } else { "\n" };
        return format!("{source}{end}");
    }
    let text = |field: &str| resource[field].as_str().unwrap_or("").to_owned();
    resource_yaml(&text("kind"), &text("name"), &resource["spec"])
}

/// Whether a terminal shows the document as it is. One that it might obey is written anew, with escapes.
fn is_harmless(source: &str) -> bool {
    source.replace("\r\n", "\n").chars().all(|c| matches!(c, '\n' | '\t') || !is_unsafe(c))
}

/// The document of a resource.
pub fn resource_yaml(kind: &str, name: &str, spec: &Value) -> String {
    format!("{}{}", head(kind, name), to_yaml(&json!({ "spec": spec })))
}

/// The document of an inventory, from the inventory as YAML.
pub fn inventory_yaml(name: &str, inventory: &str) -> String {
    let indented = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") };
    format!("{}spec:\n{}", head(INVENTORY, name), inventory.lines().map(indented).collect::<String>())
}

/// What a document is, before what it says.
fn head(kind: &str, name: &str) -> String {
    format!("{}{}", to_yaml(&json!({ "kind": kind })), to_yaml(&json!({ "name": name })))
}

async fn inventory(
    client: &Client,
    screen: &mut Screen,
    args: &GetArgs,
    name: &str,
    output: Output,
) -> Result<(), Failure> {
    if args.version.is_some() {
        return Err(Failure::Usage("an inventory has no versions".to_owned()));
    }
    match output {
        Output::Yaml => {
            let inventory = export(client, name, Format::Yaml).await?;
            screen.text(&inventory_yaml(name, &inventory))
        }
        Output::Json => screen.json_line(client.call(&Request::get(["inventories", name])).await?.text()),
        Output::Table => crate::hosts::inventory(client, screen, name).await,
    }
}

async fn inventories(client: &Client, screen: &mut Screen, output: Output) -> Result<(), Failure> {
    match output {
        Output::Yaml => {
            let (mut documents, mut cursor) = (Vec::new(), None);
            loop {
                let request = Request::get(["inventories"]).query_if("cursor", cursor.clone());
                let page: Inventories = client.call(&request).await?.read()?;
                for named in page.inventories {
                    let inventory = export(client, named.name.as_str(), Format::Yaml).await?;
                    documents.push(inventory_yaml(named.name.as_str(), &inventory));
                }
                if page.next_cursor.is_none() || page.next_cursor == cursor {
                    break;
                }
                cursor = page.next_cursor;
            }
            screen.text(&documents.join("---\n"))
        }
        Output::Json => screen.json_line(client.call(&Request::get(["inventories"])).await?.text()),
        Output::Table => crate::hosts::inventories(client, screen).await.map(drop),
    }
}

/// An inventory as a text.
pub async fn export(client: &Client, name: &str, format: Format) -> Result<String, Failure> {
    let request = Request::get(["inventories", name, "export"]).query("format", format.name());
    client.fetch(&request).await.map(|file| file.text)
}
