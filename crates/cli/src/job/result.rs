//! `job result ID`: what a job ended with, as JSON, however large it is.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job_ref::OneJob;
use crate::output::text::json_safe;
use crate::output::{Output, Screen};

#[derive(Debug, Clone, Args)]
pub struct ResultArgs {
    #[command(flatten)]
    job: OneJob,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

pub async fn result(client: &Client, screen: &mut Screen, args: &ResultArgs) -> Result<Exit, Failure> {
    let id = args.job.resolve(client).await?;
    let mut answer = client.raw(&Request::get(["jobs", &id.to_string(), "result"])).await?;
    if let Some(path) = &args.save {
        let failed = |error: std::io::Error| Failure::Usage(format!("cannot write {}: {error}", path.display()));
        let mut file = std::fs::File::create(path).map_err(failed)?;
        while let Some(bytes) = answer.chunk().await? {
            file.write_all(&bytes).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        if screen.json() {
            screen.json_line(&serde_json::json!({ "file": path.display().to_string() }).to_string())?;
        }
        return Ok(Exit::Success);
    }
    if screen.output() == Some(Output::Yaml) {
        // YAML is written from the whole value.
        let mut text = Vec::new();
        while let Some(bytes) = answer.chunk().await? {
            text.extend_from_slice(&bytes);
        }
        screen.json_line(&String::from_utf8_lossy(&text))?;
        return Ok(Exit::Success);
    }
    // Bytes of one character may come in two pieces, and a terminal gets characters only.
    let mut rest: Vec<u8> = Vec::new();
    while let Some(bytes) = answer.chunk().await? {
        rest.extend_from_slice(&bytes);
        let whole = match std::str::from_utf8(&rest) {
            Ok(_) => rest.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = String::from_utf8_lossy(&rest[..whole]);
        let shown = if screen.is_terminal() { json_safe(&text) } else { text.into_owned() };
        screen.bytes(shown.as_bytes())?;
        rest.drain(..whole);
    }
    screen.bytes(b"\n")?;
    Ok(Exit::Success)
}
