//! Ansible's YAML inventories: groups at the top, each with hosts, children and vars.

use bowline_model::host::Inventory;

use super::gather::{Gathered, Said};
use super::outline::{Outline, Restrictions, vars_node};
use super::range;
use super::settings::LabelsAs;
use super::settle::settle;
use crate::error::ImportError;
use crate::export::{ExportError, Written};
use crate::place::{At, Path};
use crate::tree::{Data, Entry, Node, emit};

const GROUP: &str = "a group has hosts, children and vars";

pub(crate) fn read(top: Node) -> Result<Inventory, ImportError> {
    let at = At::line(top.line);
    let Data::Map(entries) = top.data else { return Err(top.unexpected("a map of groups", at)) };
    if let Some(entry) = entries.iter().find(|entry| entry.key == "plugin")
        && let Data::Text(plugin) = &entry.value.data
    {
        return Err(ImportError::PluginConfiguration { at: At::line(entry.line).place(), plugin: plugin.clone() });
    }
    let mut gathered = Gathered::new();
    for Entry { key, line, value } in entries {
        let path = Path::top(&key);
        let index = gathered.group(&key, path.at(line))?;
        group(&mut gathered, index, value, &path)?;
    }
    settle(gathered)
}

fn group(gathered: &mut Gathered, index: usize, node: Node, path: &Path<'_>) -> Result<(), ImportError> {
    let at = path.at(node.line);
    for Entry { key, line, value } in node.into_map("a group", at)? {
        let path_here = path.key(&key);
        match key.as_str() {
            "hosts" => {
                for Entry { key, line, value } in map_or_name(value, "a map of hosts", &path_here)? {
                    let path = path_here.key(&key);
                    let said = values(value, &path)?;
                    gathered.hosts(&key, index, said, path.at(line))?;
                }
            }
            "children" => {
                for Entry { key, line, value } in map_or_name(value, "a map of groups", &path_here)? {
                    let path = path_here.key(&key);
                    let child = gathered.group(&key, path.at(line))?;
                    group(gathered, child, value, &path)?;
                    gathered.child(index, child, path.at(line))?;
                }
            }
            "vars" => {
                for (key, value, line) in values(value, &path_here)? {
                    gathered.set_group_var(index, &key, value, path_here.key(&key).at(line))?;
                }
            }
            _ => {
                let at = At { line, ..at };
                return Err(ImportError::UnknownField { at: at.place(), field: key, known: GROUP });
            }
        }
    }
    Ok(())
}

/// The entries of a map; Ansible also takes one name for a map with nothing under it.
fn map_or_name(node: Node, expected: &'static str, path: &Path<'_>) -> Result<Vec<Entry>, ImportError> {
    match node.data {
        Data::Text(key) => Ok(vec![Entry { key, line: node.line, value: Node::new(Data::Null) }]),
        _ => {
            let at = path.at(node.line);
            node.into_map(expected, at)
        }
    }
}

/// The variables in a map, each with its line.
pub(crate) fn values(node: Node, path: &Path<'_>) -> Result<Said, ImportError> {
    let at = path.at(node.line);
    let entries = node.into_map("a map of variables", at)?;
    Ok(entries.into_iter().map(|Entry { key, line, value }| (key, value.into_value(), line)).collect())
}

pub(crate) fn write(inventory: &Inventory) -> Result<Written, ExportError> {
    let cannot = Restrictions { host: port_like, ..Restrictions::default() };
    let outline = Outline::of(inventory, LabelsAs::Map, &cannot)?;
    let empty = || Node::map([]);
    // Every host is described here once, so that they keep their order; groups only name them.
    let hosts = outline.hosts.iter().map(|host| (host.name, vars_node(&host.vars)));
    let mut all = vec![("hosts", Node::map(hosts))];
    let groups = outline.groups.iter().map(|group| {
        let mut fields = Vec::new();
        if !group.hosts.is_empty() {
            fields.push(("hosts", Node::map(group.hosts.iter().map(|name| (*name, empty())))));
        }
        if !group.children.is_empty() {
            fields.push(("children", Node::map(group.children.iter().map(|name| (*name, empty())))));
        }
        if !group.vars.is_empty() {
            fields.push(("vars", vars_node(&group.vars)));
        }
        (group.name, Node::map(fields))
    });
    all.push(("children", Node::map(groups)));
    if !outline.all_vars.is_empty() {
        all.push(("vars", vars_node(&outline.all_vars)));
    }
    Ok(Written { text: emit(&Node::map([("all", Node::map(all))])), lost: outline.lost })
}

/// A name that Ansible would take for a host with a port.
pub(crate) fn port_like(name: &str) -> Option<&'static str> {
    let taken = range::split_port(name).is_some() || name.ends_with(':');
    taken.then_some("Ansible would take the end of its name for a port")
}
