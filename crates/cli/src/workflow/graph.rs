//! `workflow graph FILE|NAME`: a picture of it.

use std::path::{Path, PathBuf};

use bowline_workflow::compile::read_workflow;
use bowline_workflow::draw::{Statuses, mermaid, svg};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::Value;

use super::files::{self, Target};
use crate::client::{Client, Request};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline workflow graph order.yaml -o order.svg
  bowline workflow graph order --format mermaid

Mermaid is text that many editors and forges draw; SVG is a picture for browsers.")]
pub struct GraphArgs {
    /// A file with a workflow, - for standard input, or the name of a workflow that the server has
    #[arg(value_name = "FILE|NAME")]
    what: String,
    /// Which one, if the file has several
    #[arg(long)]
    name: Option<String>,
    /// As what [default: as the ending of the output says, or mermaid]
    #[arg(long, value_enum)]
    format: Option<GraphFormat>,
    /// Write it to this file
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
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

pub async fn graph(connection: &Connection, screen: &mut Screen, args: &GraphArgs) -> Result<Exit, Failure> {
    let spec = match files::target(&args.what, args.name.as_deref())? {
        Target::Written(spec) => spec,
        Target::Stored(name) => {
            let client = Client::new(connection, screen.notes())?;
            let answer: One = client.call(&Request::get(["resources", "workflow", &name])).await?.read()?;
            answer.resource.spec
        }
    };
    // What has mistakes in it can be drawn as long as it can be read: looking at it may show why.
    let spec = read_workflow(spec).map_err(|mistakes| {
        let lines: Vec<_> = mistakes.iter().map(|mistake| format!("{}: {}", mistake.path, mistake.what)).collect();
        Failure::Usage(format!("it cannot be drawn: {}", lines.join("; ")))
    })?;
    let ends_in_svg = args.output.as_deref().and_then(Path::extension).is_some_and(|ending| ending == "svg");
    let drawn = match args.format {
        Some(GraphFormat::Svg) => svg(&spec, &Statuses::new()),
        None if ends_in_svg => svg(&spec, &Statuses::new()),
        Some(GraphFormat::Mermaid) | None => mermaid(&spec, &Statuses::new()),
    };
    match &args.output {
        Some(path) => std::fs::write(path, drawn)
            .map_err(|error| Failure::Usage(format!("cannot write {}: {error}", path.display())))?,
        None => screen.text(&drawn)?,
    }
    Ok(Exit::Success)
}
