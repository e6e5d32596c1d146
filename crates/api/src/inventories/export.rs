//! `GET /inventories/{name}/export`: an inventory as a file. What the format cannot say is told in headers.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bowline_inventory::{ExportError, Format, Lost};
use bowline_model::InventoryName;
use bowline_model::host::Inventory;
use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;

use super::get::all_groups;
use super::import::format;
use super::put::READING_MAX;
use crate::app::App;
use crate::body::aside;
use crate::door::Known;
use crate::params::{Nameable, Named, Params};
use crate::patience::Patience;
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExportQuery {
    /// yaml unless given; or json, csv, ansible-ini, ansible-yaml, ansible-json.
    pub format: Option<String>,
}

/// How many things the format could not say.
static LEFT_OUT_COUNT: HeaderName = HeaderName::from_static("x-bowline-left-out-count");
/// One of them, as a sentence; the header is there once for each of the first ones.
static LEFT_OUT: HeaderName = HeaderName::from_static("x-bowline-left-out");
const LEFT_OUT_MAX: usize = 20;
const SENTENCE_MAX: usize = 300;

pub async fn export(
    State(app): State<App>,
    known: Known,
    Named(name): Named<InventoryName>,
    Params(query): Params<ExportQuery>,
    patience: Patience,
) -> Result<Response, Problem> {
    let format = query.format.as_deref().map_or(Ok(Format::Yaml), format)?;
    let tenant = known.tenant()?;
    let reading = app.engine.inventories.snapshot(tenant, &name);
    let snapshot = patience.besides(READING_MAX, reading).await?.ok_or_else(InventoryName::nothing)?;
    let writing = aside(tenant, move || {
        let hosts = snapshot.hosts.iter().map(|record| record.host.clone()).collect();
        bowline_inventory::write(&Inventory { hosts, groups: all_groups(&snapshot) }, format)
    });
    let written = patience.besides(READING_MAX, writing).await?.map_err(|error| cannot(&error, format))?;
    let mut response = written.text.into_response();
    let headers = response.headers_mut();
    let (kind, ending) = kind_and_ending(format);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Ok(value) = HeaderValue::from_str(&disposition(&name, ending)) {
        headers.insert(CONTENT_DISPOSITION, value);
    }
    if !written.lost.is_empty() {
        headers.insert(&LEFT_OUT_COUNT, HeaderValue::from(written.lost.len()));
        for sentence in written.lost.iter().take(LEFT_OUT_MAX).filter_map(sentence) {
            headers.append(&LEFT_OUT, sentence);
        }
    }
    Ok(response)
}

const fn kind_and_ending(format: Format) -> (&'static str, &'static str) {
    match format {
        Format::Yaml | Format::AnsibleYaml => ("application/yaml; charset=utf-8", "yaml"),
        Format::Json | Format::AnsibleJson => ("application/json; charset=utf-8", "json"),
        Format::Csv => ("text/csv; charset=utf-8", "csv"),
        Format::AnsibleIni => ("text/plain; charset=utf-8", "ini"),
    }
}

/// The name of the file: whatever could mean something to a shell, a path or a header is a dash.
fn disposition(name: &InventoryName, ending: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = name.as_str().chars().map(plain).collect();
    format!("attachment; filename=\"{name}.{ending}\"")
}

/// A header has one line of plain characters.
fn sentence(lost: &Lost) -> Option<HeaderValue> {
    let plain = |c: char| if c.is_ascii() && !c.is_ascii_control() { c } else { '?' };
    HeaderValue::from_str(&lost.to_string().chars().take(SENTENCE_MAX).map(plain).collect::<String>()).ok()
}

fn cannot(error: &ExportError, format: Format) -> Problem {
    let message = format!("this inventory cannot be written in the format {format}: {error}");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "NOT_EXPORTABLE", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_file_is_harmless() {
        let name = |text: &str| disposition(&InventoryName::new(text).unwrap(), "csv");
        assert_eq!(name("main"), "attachment; filename=\"main.csv\"");
        assert_eq!(name("site/fra:1@x"), "attachment; filename=\"site-fra-1-x.csv\"");
    }
}
