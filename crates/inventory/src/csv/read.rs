//! From a table to an inventory.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use ::csv::{ErrorKind, ReaderBuilder, StringRecord};
use bowline_model::host::{Connection, Host, Inventory, Vars};
use serde_json::Value;

use super::cell;
use crate::connection;
use crate::draft::Draft;
use crate::error::ImportError;
use crate::place::{At, Path};

/// Columns a table may have.
const COLUMNS_MAX: usize = 1_000;

#[derive(Debug, PartialEq, Eq)]
enum Column {
    Name,
    Groups,
    Via,
    Address,
    Port,
    User,
    Agent,
    Through,
    Labels,
    Label(String),
    Vars,
    Var(String),
}

const COLUMNS: &str =
    "a table has name, groups, via, address, port, user, agent, through, labels, label:KEY, vars and var:KEY";

impl Column {
    fn parse(header: &str) -> Option<Self> {
        if let Some((kind, key)) = header.split_once(':') {
            return match kind.trim().to_ascii_lowercase().as_str() {
                "label" => Some(Self::Label(key.trim().to_owned())),
                "var" => Some(Self::Var(key.trim().to_owned())),
                _ => None,
            };
        }
        Some(match header.to_ascii_lowercase().as_str() {
            "name" => Self::Name,
            "groups" => Self::Groups,
            "via" => Self::Via,
            "address" => Self::Address,
            "port" => Self::Port,
            "user" => Self::User,
            "agent" => Self::Agent,
            "through" => Self::Through,
            "labels" => Self::Labels,
            "vars" => Self::Vars,
            _ => return None,
        })
    }
}

pub(crate) fn read(text: &str) -> Result<Inventory, ImportError> {
    check_quotes(text)?;
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut record = StringRecord::new();
    let mut columns: Option<Vec<(String, Column)>> = None;
    let mut draft = Draft::default();
    while next(&mut reader, &mut record)? {
        let line = record.position().map_or(0, |position| u32::try_from(position.line()).unwrap_or(0));
        let at = At::line(line);
        match &columns {
            None => columns = Some(header(&record, at)?),
            Some(_) if record.iter().all(|cell| cell.trim().is_empty()) => {}
            Some(columns) if columns.len() != record.len() => {
                let what = format!("this row has {} cells, and the header has {}", record.len(), columns.len());
                return Err(ImportError::Value { at: at.place(), what });
            }
            Some(columns) => draft.host(host(columns, &record, line)?, at)?,
        }
    }
    if columns.is_none() {
        return Err(ImportError::Missing { at: At::default().place(), field: "the header" });
    }
    draft.finish()
}

fn next(reader: &mut ::csv::Reader<&[u8]>, record: &mut StringRecord) -> Result<bool, ImportError> {
    reader.read_record(record).map_err(|error| {
        let line = error.position().map_or(0, |position| u32::try_from(position.line()).unwrap_or(0));
        let at = At::line(line).place();
        match error.kind() {
            ErrorKind::Utf8 { .. } => ImportError::NotUtf8 { at },
            _ => ImportError::Syntax { at, format: "CSV", what: error.to_string() },
        }
    })
}

/// A quote that nobody closes would swallow the rest of the table without a word.
fn check_quotes(text: &str) -> Result<(), ImportError> {
    let (mut line, mut opened, mut fresh) = (1, None, true);
    for byte in text.bytes() {
        match (byte, opened) {
            (b'"', None) if fresh => opened = Some(line),
            // A doubled quote closes and opens at once; what lies between is nothing.
            (b'"', Some(_)) => (opened, fresh) = (None, true),
            _ => fresh = matches!(byte, b',' | b'\n' | b'\r'),
        }
        if byte == b'\n' {
            line += 1;
        }
    }
    match opened {
        Some(line) => {
            let (at, what) = (At::line(line).place(), "a quote that begins here is not closed".to_owned());
            Err(ImportError::Syntax { at, format: "CSV", what })
        }
        None => Ok(()),
    }
}

fn header(record: &StringRecord, at: At<'_>) -> Result<Vec<(String, Column)>, ImportError> {
    if record.len() > COLUMNS_MAX {
        return Err(ImportError::TooMany { at: at.place(), what: "columns", max: COLUMNS_MAX });
    }
    let mut columns = Vec::with_capacity(record.len());
    let mut seen = HashSet::new();
    for cell in record {
        let title = cell.trim();
        let Some(column) = Column::parse(title) else {
            if record.len() == 1 && title.contains([';', '\t']) {
                let what = "the columns of a table are separated by commas".to_owned();
                return Err(ImportError::Value { at: at.place(), what });
            }
            return Err(ImportError::UnknownField { at: at.place(), field: title.to_owned(), known: COLUMNS });
        };
        let title = title.to_owned();
        let identity = match &column {
            Column::Label(key) => format!("label:{key}"),
            Column::Var(key) => format!("var:{key}"),
            _ => title.to_ascii_lowercase(),
        };
        if !seen.insert(identity) {
            return Err(ImportError::KeyTwice { at: at.place(), key: title });
        }
        columns.push((title, column));
    }
    if !columns.iter().any(|(_, column)| *column == Column::Name) {
        return Err(ImportError::Missing { at: at.place(), field: "the column name" });
    }
    Ok(columns)
}

fn host(columns: &[(String, Column)], record: &StringRecord, line: u32) -> Result<Host, ImportError> {
    let row = At::line(line);
    let mut name = None;
    let (mut groups, mut vars) = (BTreeSet::new(), Vars::new());
    let (mut labels, mut through) = (BTreeMap::new(), BTreeMap::new());
    let (mut via, mut address, mut port, mut user, mut agent) = (None, None, None, None, None);
    for ((title, column), cell) in columns.iter().zip(record) {
        let path = Path::top(title);
        let at = path.at(line);
        let cell = cell::rearm(cell);
        let trimmed = cell.trim();
        if trimmed.is_empty() {
            // A variable can be made of spaces; nothing else can.
            if cell.is_empty() || !matches!(column, Column::Var(_)) {
                continue;
            }
        }
        match column {
            Column::Name => name = Some(connection::host_name(trimmed, at)?),
            Column::Groups => {
                for group in trimmed.split([';', ' ']).filter(|group| !group.is_empty()) {
                    groups.insert(connection::group_name(group, at)?);
                }
            }
            Column::Via => via = Some((trimmed, at.place())),
            Column::Address => address = Some(connection::address(trimmed, at)?),
            Column::Port => port = Some(connection::port(trimmed, at)?),
            Column::User => user = Some(connection::user(trimmed, at)?),
            Column::Agent => agent = Some(connection::worker_name(trimmed, at)?),
            Column::Through => connection::add_pairs(&mut through, trimmed, &[';'], at)?,
            Column::Labels => connection::add_pairs(&mut labels, trimmed, &[';'], at)?,
            Column::Label(key) => connection::add_label(&mut labels, key, trimmed, at)?,
            Column::Var(key) => add_var(&mut vars, key.clone(), cell::value(cell), at)?,
            Column::Vars => {
                let Value::Object(more) = cell::value(trimmed) else {
                    let what = "variables in one cell are a JSON object, with no key twice".to_owned();
                    return Err(ImportError::Value { at: at.place(), what });
                };
                for (key, value) in more {
                    add_var(&mut vars, key, value, at)?;
                }
            }
        }
    }
    let name = name.ok_or_else(|| ImportError::Missing { at: row.place(), field: "name" })?;
    let labels = connection::labels(labels, row)?;
    let through = connection::labels(through, row)?;
    let some_ssh = address.is_some() || port.is_some() || user.is_some();
    let (via, at) = via.unwrap_or_else(|| (if some_ssh { "ssh" } else { "agent" }, row.place()));
    let wrong = |what: &str| Err(ImportError::Value { at: at.clone(), what: what.to_owned() });
    let connection = match via {
        "agent" if some_ssh || !through.is_empty() => {
            return wrong("a host that is reached by its agent has no address, port, user or through");
        }
        "agent" => Connection::Agent { agent },
        "ssh" | "simulate" if agent.is_some() => return wrong("only a host that is reached by its agent has one"),
        "ssh" => Connection::Ssh { address, port, user, through },
        "simulate" if some_ssh => return wrong("a simulated host has no address, port or user"),
        "simulate" => Connection::Simulate { through },
        _ => return wrong("via is agent, ssh or simulate"),
    };
    Ok(Host { name, labels, groups, vars, connection })
}

fn add_var(vars: &mut Vars, key: String, value: Value, at: At<'_>) -> Result<(), ImportError> {
    if vars.contains_key(&key) {
        return Err(ImportError::KeyTwice { at: at.place(), key: format!("the variable {key}") });
    }
    vars.insert(key, value);
    Ok(())
}
