//! From a tree to an inventory.

use std::collections::{BTreeMap, BTreeSet};

use bowline_model::host::{Connection, Group, Host, Inventory, Vars};
use bowline_model::name::{GroupName, Labels};

use crate::connection;
use crate::draft::Draft;
use crate::error::ImportError;
use crate::place::{At, Path, Shown};
use crate::tree::{Data, Entry, Node};

const TOP: &str = "an inventory has hosts and groups";
const HOST: &str = "a host has name, labels, groups, vars and connection";
const GROUP: &str = "a group has name, groups and vars, and each host says which groups it is in";
const CONNECTION: &str =
    "a connection has via, and for agent: agent; for ssh: address, port, user and through; for simulate: through";

pub(crate) fn read(top: Node) -> Result<Inventory, ImportError> {
    let at = At::line(top.line);
    let Data::Map(entries) = top.data else { return Err(top.unexpected("a map with hosts and groups", at)) };
    let mut draft = Draft::default();
    for Entry { key, line, value } in entries {
        let path = Path::top(&key);
        match key.as_str() {
            "hosts" => each(value, &path, "a list or a map of hosts", |name, node, path| {
                let at = At { line: name.map_or(node.line, |(_, line)| line), path: Some(path) };
                draft.host(host(name, node, path)?, at)
            })?,
            "groups" => each(value, &path, "a list or a map of groups", |name, node, path| {
                let at = At { line: name.map_or(node.line, |(_, line)| line), path: Some(path) };
                draft.group(group(name, node, path)?, at)
            })?,
            _ => return Err(ImportError::UnknownField { at: At::line(line).place(), field: key, known: TOP }),
        }
    }
    draft.finish()
}

/// The name of a thing and the line of the name, where things are in a map.
type Named<'a> = Option<(&'a str, u32)>;

/// Calls `take` with each thing of a list, or of a map from names to the rest.
fn each(
    node: Node,
    path: &Path<'_>,
    expected: &'static str,
    mut take: impl FnMut(Named<'_>, Node, &Path<'_>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    match node.data {
        Data::Null => Ok(()),
        Data::List(items) => {
            items.into_iter().enumerate().try_for_each(|(index, item)| take(None, item, &path.index(index)))
        }
        Data::Map(entries) => entries
            .into_iter()
            .try_for_each(|Entry { key, line, value }| take(Some((&key, line)), value, &path.key(&key))),
        _ => Err(node.unexpected(expected, path.at(node.line))),
    }
}

/// The fields of a thing. One that has its name already may be nothing else.
fn fields(name: Named<'_>, node: Node, expected: &'static str, at: At<'_>) -> Result<Vec<Entry>, ImportError> {
    match node.data {
        Data::Map(entries) => Ok(entries),
        Data::Null if name.is_some() => Ok(Vec::new()),
        _ => Err(node.unexpected(expected, at)),
    }
}

fn host(name: Named<'_>, node: Node, path: &Path<'_>) -> Result<Host, ImportError> {
    let at = path.at(node.line);
    let mut host_name = name.map(|(text, line)| connection::host_name(text, path.at(line))).transpose()?;
    let (mut labels, mut groups, mut vars) = (Labels::default(), BTreeSet::new(), Vars::new());
    let mut connection = Connection::default();
    for Entry { key, line, value } in fields(name, node, "a host", at)? {
        let path = path.key(&key);
        match key.as_str() {
            "name" => {
                let at = path.at(value.line);
                let said = connection::host_name(value.as_text("the name of a host", at)?, at)?;
                if host_name.as_ref().is_some_and(|key| *key != said) {
                    return Err(two_names(&said.to_string(), at));
                }
                host_name = Some(said);
            }
            "labels" => labels = self::labels(value, &path)?,
            "groups" => groups = self::groups(value, &path)?,
            "vars" => vars = self::vars(value, &path)?,
            "connection" => connection = self::connection(value, &path)?,
            _ => return Err(ImportError::UnknownField { at: at_line(at, line).place(), field: key, known: HOST }),
        }
    }
    let name = host_name.ok_or_else(|| ImportError::Missing { at: at.place(), field: "name" })?;
    Ok(Host { name, labels, groups, vars, connection })
}

fn group(name: Named<'_>, node: Node, path: &Path<'_>) -> Result<Group, ImportError> {
    let at = path.at(node.line);
    let mut group_name = name.map(|(text, line)| connection::group_name(text, path.at(line))).transpose()?;
    let (mut groups, mut vars) = (BTreeSet::new(), Vars::new());
    for Entry { key, line, value } in fields(name, node, "a group", at)? {
        let path = path.key(&key);
        match key.as_str() {
            "name" => {
                let at = path.at(value.line);
                let said = connection::group_name(value.as_text("the name of a group", at)?, at)?;
                if group_name.as_ref().is_some_and(|key| *key != said) {
                    return Err(two_names(&said.to_string(), at));
                }
                group_name = Some(said);
            }
            "groups" => groups = self::groups(value, &path)?,
            "vars" => vars = self::vars(value, &path)?,
            _ => return Err(ImportError::UnknownField { at: at_line(at, line).place(), field: key, known: GROUP }),
        }
    }
    let name = group_name.ok_or_else(|| ImportError::Missing { at: at.place(), field: "name" })?;
    Ok(Group { name, groups, vars })
}

fn two_names(said: &str, at: At<'_>) -> ImportError {
    let what = format!("the key it stands under is its name already, and that is not {}", Shown(said));
    ImportError::Value { at: at.place(), what }
}

fn at_line(at: At<'_>, line: u32) -> At<'_> {
    At { line, ..at }
}

fn labels(node: Node, path: &Path<'_>) -> Result<Labels, ImportError> {
    let at = path.at(node.line);
    let mut map = BTreeMap::new();
    for Entry { key, value, .. } in node.into_map("a map of labels", at)? {
        let path = path.key(&key);
        let text = value.as_text("a text", path.at(value.line))?;
        connection::add_label(&mut map, &key, text, at)?;
    }
    connection::labels(map, at)
}

fn groups(node: Node, path: &Path<'_>) -> Result<BTreeSet<GroupName>, ImportError> {
    let at = path.at(node.line);
    let items = node.into_list("a list of groups", at)?;
    let name = |(index, item): (usize, Node)| {
        let path = path.index(index);
        let at = path.at(item.line);
        connection::group_name(item.as_text("the name of a group", at)?, at)
    };
    items.into_iter().enumerate().map(name).collect()
}

fn vars(node: Node, path: &Path<'_>) -> Result<Vars, ImportError> {
    let at = path.at(node.line);
    let entries = node.into_map("a map of variables", at)?;
    Ok(entries.into_iter().map(|entry| (entry.key, entry.value.into_value())).collect())
}

fn connection(node: Node, path: &Path<'_>) -> Result<Connection, ImportError> {
    let at = path.at(node.line);
    if node.is_null() {
        return Ok(Connection::default());
    }
    let entries = node.into_map("a connection", at)?;
    let via = entries.iter().find(|entry| entry.key == "via");
    let via = via.ok_or_else(|| ImportError::Missing { at: at.place(), field: "via" })?;
    let via_path = path.key("via");
    let via_at = via_path.at(via.value.line);
    let via = via.value.as_text("agent, ssh or simulate", via_at)?.to_owned();
    let (mut agent, mut address, mut port, mut user, mut through) = (None, None, None, None, Labels::default());
    for Entry { key, line, value } in entries {
        let path = path.key(&key);
        let here = path.at(value.line);
        match (via.as_str(), key.as_str()) {
            (_, "via") => {}
            (_, "agent" | "address" | "port" | "user") if value.is_null() => {}
            ("agent", "agent") => {
                agent = Some(connection::worker_name(value.as_text("the name of an agent", here)?, here)?);
            }
            ("ssh", "address") => address = Some(connection::address(value.as_text("an address", here)?, here)?),
            ("ssh", "port") => {
                let Data::Number(number) = &value.data else { return Err(value.unexpected("a port", here)) };
                port = Some(connection::port(&number.to_string(), here)?);
            }
            ("ssh", "user") => user = Some(connection::user(value.as_text("a user", here)?, here)?),
            ("ssh" | "simulate", "through") => through = labels(value, &path)?,
            ("agent" | "ssh" | "simulate", _) => {
                return Err(ImportError::UnknownField { at: at_line(at, line).place(), field: key, known: CONNECTION });
            }
            _ => {}
        }
    }
    match via.as_str() {
        "agent" => Ok(Connection::Agent { agent }),
        "ssh" => Ok(Connection::Ssh { address, port, user, through }),
        "simulate" => Ok(Connection::Simulate { through }),
        _ => Err(ImportError::Value { at: via_at.place(), what: "via is agent, ssh or simulate".to_owned() }),
    }
}
