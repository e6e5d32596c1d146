//! `POST /inventories/{name}/import`: make true what a file says, in whatever format it is.

use axum::Json;
use axum::extract::State;
use bowline_inventory::{Format, ImportError};
use bowline_model::host::Inventory;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::put::{PutView, READING_MAX, UnmentionedWord, Wish, make_true, new_name};
use crate::app::App;
use crate::body::{FileBody, aside, check_exact};
use crate::door::Known;
use crate::jobs::reason_of;
use crate::params::{Params, Part};
use crate::patience::Patience;
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ImportQuery {
    /// yaml, json, csv, ansible-ini, ansible-yaml or ansible-json; guessed unless given.
    pub format: Option<String>,
    /// The name of the file, which helps to guess.
    pub file: Option<String>,
    /// What happens to hosts and groups that are not mentioned: `keep` unless given.
    pub unmentioned: UnmentionedWord,
    /// Only say what would change.
    pub dry_run: bool,
    /// Why; kept in the audit trail.
    #[schemars(length(max = 1000))]
    pub reason: Option<String>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub async fn import(
    State(app): State<App>,
    known: Known,
    Part(name): Part,
    Params(query): Params<ImportQuery>,
    patience: Patience,
    FileBody(file): FileBody,
) -> Result<Json<PutView>, Problem> {
    let inventory = new_name(&name)?;
    let reason = reason_of(query.reason)?;
    let format = query.format.as_deref().map(format).transpose()?;
    let reading = aside(known.tenant()?, move || read(&file, format, query.file.as_deref()));
    let content = patience.besides(READING_MAX, reading).await??;
    let (unmentioned, dry_run) = (query.unmentioned.into(), query.dry_run);
    let wish = Wish { inventory, content, unmentioned, reason, dry_run };
    make_true(&app, &known, &patience, wish).await.map(Json)
}

/// Reads the name of a format.
pub fn format(name: &str) -> Result<Format, Problem> {
    name.parse().map_err(|error| {
        let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        Problem::validation(format!("format: {error}")).with(json!({"field": "format", "formats": names}))
    })
}

fn read(file: &[u8], format: Option<Format>, name: Option<&str>) -> Result<Inventory, Problem> {
    let Some(format) = format.or_else(|| Format::guess(name, file)) else {
        let message = "the format of this file cannot be guessed; say it with format=";
        return Err(Problem::validation(message).with(json!({"field": "format"})));
    };
    if let Format::Json | Format::AnsibleJson = format {
        // JSON has the same rules here as everywhere else.
        check_exact(file.strip_prefix(BYTE_ORDER_MARK).unwrap_or(file))?;
    }
    bowline_inventory::read(file, format).map_err(|error| bad(&error, format))
}

fn bad(error: &ImportError, format: Format) -> Problem {
    let place = error.place();
    let details = json!({"format": format.name(), "line": place.line, "path": place.path});
    Problem::validation(format!("this is not an inventory in the format {format}: {error}")).with(details)
}
