//! `workflow graph FILE|NAME`: a picture of it. A blueprint is drawn as its states, with the guards on the ways between them.

use std::path::{Path, PathBuf};

use bowline_model::blueprint::BlueprintSpec;
use bowline_model::workflow::WorkflowSpec;
use bowline_workflow::blueprint::drawing;
use bowline_workflow::compile::read_workflow;
use bowline_workflow::draw::{Statuses, mermaid, svg};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::{Value, json};

use super::files::{self, Kind, Target};
use crate::client::{Client, Request};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline workflow graph order.yaml --save order.svg
  bowline workflow graph order --format mermaid

Mermaid is text that many editors and forges draw; SVG is a picture for browsers.")]
pub struct GraphArgs {
    /// A file with a workflow or a blueprint, - for standard input, or the name of one that the server has
    #[arg(value_name = "FILE|NAME")]
    what: String,
    /// Which one, if the file has several
    #[arg(long)]
    name: Option<String>,
    /// The format [default: by the ending of the file, or mermaid]
    #[arg(long, value_enum)]
    format: Option<GraphFormat>,
    /// Write it to this file
    #[arg(long, value_name = "PATH")]
    save: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GraphFormat {
    Mermaid,
    Svg,
}

#[derive(Deserialize)]
struct One {
    resource: Resource,
}

#[derive(Deserialize)]
struct Resource {
    spec: Value,
}

/// What the server has under a name: a workflow, or else a blueprint.
async fn stored(client: &Client, name: &str) -> Result<(Kind, Value), Failure> {
    let ask = async |kind: Kind| {
        let answer: One = client.call(&Request::get(["resources", kind.word(), name])).await?.read()?;
        Ok((kind, answer.resource.spec))
    };
    match ask(Kind::Workflow).await {
        Err(Failure::Refused(no)) if no.status == 404 => match ask(Kind::Blueprint).await {
            // The first question is the one that was meant, so its answer is the one to tell.
            Err(Failure::Refused(neither)) if neither.status == 404 => Err(Failure::Refused(no)),
            other => other,
        },
        other => other,
    }
}

/// What has mistakes in it can be drawn as long as it can be read: looking at it may show why.
fn drawable(kind: Kind, spec: Value) -> Result<WorkflowSpec, Failure> {
    let cannot = |lines: Vec<String>| Failure::Usage(format!("it cannot be drawn: {}", lines.join("; ")));
    match kind {
        Kind::Workflow => read_workflow(spec)
            .map_err(|all| cannot(all.iter().map(|mistake| format!("{}: {}", mistake.path, mistake.what)).collect())),
        Kind::Blueprint => BlueprintSpec::read(spec)
            .map(|spec| drawing::of(&spec))
            .map_err(|bad| cannot(bad.all().map(|bad| format!("{}: {}", bad.path, bad.what)).collect())),
    }
}

pub async fn graph(connection: &Connection, screen: &mut Screen, args: &GraphArgs) -> Result<Exit, Failure> {
    let (kind, spec) = match files::target(&args.what, args.name.as_deref())? {
        Target::Written(definition) => (definition.kind, definition.spec),
        Target::Stored(name) => stored(&Client::new(connection, screen.notes())?, &name).await?,
    };
    let spec = drawable(kind, spec)?;
    let ends_in_svg = args.save.as_deref().and_then(Path::extension).is_some_and(|ending| ending == "svg");
    let (format, drawn) = match args.format {
        Some(GraphFormat::Svg) => ("svg", svg(&spec, &Statuses::new())),
        None if ends_in_svg => ("svg", svg(&spec, &Statuses::new())),
        Some(GraphFormat::Mermaid) | None => ("mermaid", mermaid(&spec, &Statuses::new())),
    };
    match &args.save {
        Some(path) => {
            std::fs::write(path, drawn)
                .map_err(|error| Failure::Usage(format!("cannot write {}: {error}", path.display())))?;
            if screen.json() {
                screen.json_line(&json!({"format": format, "file": path.display().to_string()}).to_string())?;
            }
        }
        None if screen.json() => screen.json_line(&json!({"format": format, "graph": drawn}).to_string())?,
        None => screen.text(&drawn)?,
    }
    Ok(Exit::Success)
}
