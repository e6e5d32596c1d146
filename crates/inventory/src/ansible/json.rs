//! What an inventory script prints for `--list`, and `ansible-inventory --list` as well.
//!
//! Each key is a group: an object with hosts, children and vars, or just a list of hosts. The variables of hosts are under
//! `_meta.hostvars`; a host that is only there, and in no group, is no host, as in Ansible. Names are plain: no ranges.

use bowline_model::host::Inventory;
use serde_json::Value;

use super::gather::Gathered;
use super::outline::{Outline, Restrictions, vars_node};
use super::settings::LabelsAs;
use super::settle::settle;
use super::yaml::values;
use crate::error::ImportError;
use crate::export::{ExportError, Written};
use crate::place::{At, Path};
use crate::tree::{Data, Entry, Node};

const GROUP: &str = "a group has hosts, children and vars";
const META: &str = "_meta has hostvars";

pub(crate) fn read(top: Node) -> Result<Inventory, ImportError> {
    let at = At::default();
    let Data::Map(entries) = top.data else { return Err(top.unexpected("a map of groups", at)) };
    let mut gathered = Gathered::new();
    let mut meta = None;
    for Entry { key, value, .. } in entries {
        if key == "_meta" {
            meta = Some(value);
            continue;
        }
        let path = Path::top(&key);
        let index = gathered.group(&key, path.at(0))?;
        group(&mut gathered, index, value, &path)?;
    }
    if let Some(meta) = meta {
        let path = Path::top("_meta");
        for Entry { key, value, .. } in meta.into_map("a map with hostvars", path.at(0))? {
            match key.as_str() {
                "hostvars" => hostvars(&mut gathered, value, &path.key("hostvars"))?,
                "profile" => {}
                _ => return Err(ImportError::UnknownField { at: path.at(0).place(), field: key, known: META }),
            }
        }
    }
    settle(gathered)
}

fn group(gathered: &mut Gathered, index: usize, node: Node, path: &Path<'_>) -> Result<(), ImportError> {
    if let Data::List(_) = &node.data {
        return hosts(gathered, index, node, path);
    }
    for Entry { key, value, .. } in node.into_map("a group, or a list of hosts", path.at(0))? {
        let path_here = path.key(&key);
        match key.as_str() {
            "hosts" => hosts(gathered, index, value, &path_here)?,
            "children" => {
                for (at, item) in value.into_list("a list of groups", path_here.at(0))?.into_iter().enumerate() {
                    let path = path_here.index(at);
                    let child = gathered.group(item.as_text("the name of a group", path.at(0))?, path.at(0))?;
                    gathered.child(index, child, path.at(0))?;
                }
            }
            "vars" => {
                for (key, value, _) in values(value, &path_here)? {
                    gathered.set_group_var(index, &key, unwrapped(value), path_here.key(&key).at(0))?;
                }
            }
            _ => return Err(ImportError::UnknownField { at: path.at(0).place(), field: key, known: GROUP }),
        }
    }
    Ok(())
}

fn hosts(gathered: &mut Gathered, group: usize, node: Node, path: &Path<'_>) -> Result<(), ImportError> {
    for (index, item) in node.into_list("a list of hosts", path.at(0))?.into_iter().enumerate() {
        let path = path.index(index);
        gathered.host(item.as_text("the name of a host", path.at(0))?, group, path.at(0))?;
    }
    Ok(())
}

fn hostvars(gathered: &mut Gathered, node: Node, path: &Path<'_>) -> Result<(), ImportError> {
    for Entry { key, value, .. } in node.into_map("a map of hosts", path.at(0))? {
        let Some(host) = gathered.find_host(&key) else { continue };
        let path = path.key(&key);
        for (key, value, _) in values(value, &path)? {
            gathered.set_host_var(host, &key, unwrapped(value), path.key(&key).at(0))?;
        }
    }
    Ok(())
}

/// Ansible prints a text that is no template as an object with this one key.
fn unwrapped(value: Value) -> Value {
    match value {
        Value::Object(mut map) if map.len() == 1 && map.contains_key("__ansible_unsafe") => {
            map.remove("__ansible_unsafe").unwrap_or_default()
        }
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, unwrapped(value))).collect(),
        Value::Array(items) => items.into_iter().map(unwrapped).collect(),
        value => value,
    }
}

pub(crate) fn write(inventory: &Inventory) -> Result<Written, ExportError> {
    let outline = Outline::of(inventory, LabelsAs::Map, &Restrictions::default())?;
    let names = |names: &[&str]| Node::list(names.iter().map(|name| Node::text(name)));
    let hostvars = outline.hosts.iter().map(|host| (host.name, vars_node(&host.vars)));
    let mut top = vec![("_meta", Node::map([("hostvars", Node::map(hostvars))]))];
    // Every host is listed here first, so that they keep their order.
    let all_hosts: Vec<&str> = outline.hosts.iter().map(|host| host.name).collect();
    let all_groups: Vec<&str> = outline.groups.iter().map(|group| group.name).collect();
    let mut all = vec![("hosts", names(&all_hosts)), ("children", names(&all_groups))];
    if !outline.all_vars.is_empty() {
        all.push(("vars", vars_node(&outline.all_vars)));
    }
    top.push(("all", Node::map(all)));
    for group in &outline.groups {
        let mut fields = vec![("hosts", names(&group.hosts))];
        if !group.children.is_empty() {
            fields.push(("children", names(&group.children)));
        }
        if !group.vars.is_empty() {
            fields.push(("vars", vars_node(&group.vars)));
        }
        top.push((group.name, Node::map(fields)));
    }
    Ok(Written { text: Node::map(top).pretty(), lost: outline.lost })
}
