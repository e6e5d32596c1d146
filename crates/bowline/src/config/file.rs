//! The configuration file.
//!
//! In: a path. Out: what the file says, and every error in it with its line. An option that is wrong is left out, so that
//! the others can be checked in the same round.

use std::path::Path;

use anyhow::Context;
use bowline_model::read_all::{ReadAll, read_all};
use toml::de::{DeTable, DeValue};

use super::Config;
use super::errors::ConfigErrors;

pub fn read(path: &Path, errors: &mut ConfigErrors) -> anyhow::Result<Config> {
    let file = path.display();
    let text =
        std::fs::read_to_string(path).with_context(|| format!("the configuration file {file} cannot be read"))?;
    let (table, syntax) = DeTable::parse_recoverable(&text);
    if !syntax.is_empty() {
        for error in syntax {
            let place = error.span().map_or(String::new(), |span| format!(":{}", line(&text, span.start)));
            errors.add_everywhere(format!("{file}{place}: {}", error.message()));
        }
        return Ok(Config::default());
    }
    let value: serde_json::Value =
        toml::from_str(&text).with_context(|| format!("the configuration file {file} is wrong"))?;
    let ReadAll { value: config, errors: found, .. } = read_all::<Config>("", value);
    for error in found {
        let section = error.path.split('.').next().unwrap_or_default().to_owned();
        let line = line(&text, start_of(table.get_ref(), &error.path));
        errors.add(&section, format!("{file}:{line}: {}: {}", error.path, error.what));
    }
    if config.is_none() {
        errors.rest_unknown();
    }
    Ok(config.unwrap_or_default())
}

/// The line of a byte, counted from 1.
fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// Where what a path leads to begins, or the innermost part that is there.
fn start_of(table: &DeTable<'_>, path: &str) -> usize {
    let (mut table, mut start) = (table, 0);
    for word in path.split(['.', '[']) {
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == word) else { break };
        start = key.span().start;
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    start
}
