//! From an inventory to a `hosts` file.
//!
//! All hosts stand at the top with their variables, so that they keep their order and are described once; the sections of
//! groups only name them.

use bowline_model::host::Inventory;

use super::super::outline::{OutVars, Outline, Restrictions};
use super::super::settings::LabelsAs;
use super::super::yaml::port_like;
use super::{literal, words};
use crate::export::{ExportError, Written};

pub(crate) fn write(inventory: &Inventory) -> Result<Written, ExportError> {
    let cannot = Restrictions { host: port_like, group: bad_group, variable: bad_variable };
    let outline = Outline::of(inventory, LabelsAs::Words, &cannot)?;
    let mut text = String::new();
    for host in &outline.hosts {
        text.push_str(host.name);
        for (key, value) in &host.vars {
            text.push(' ');
            // The name of the variable stays outside of the quotes, where people look for it.
            text.push_str(&format!("{key}={}", quote(&literal::write(value))));
        }
        text.push('\n');
    }
    for group in &outline.groups {
        section(&mut text, group.name, "");
        for host in &group.hosts {
            text.push_str(host);
            text.push('\n');
        }
        if !group.children.is_empty() {
            section(&mut text, group.name, ":children");
            for child in &group.children {
                text.push_str(child);
                text.push('\n');
            }
        }
        vars(&mut text, group.name, &group.vars);
    }
    vars(&mut text, "all", &outline.all_vars);
    Ok(Written { text, lost: outline.lost })
}

fn section(text: &mut String, name: &str, kind: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&format!("[{name}{kind}]\n"));
}

fn vars(text: &mut String, group: &str, vars: &OutVars<'_>) {
    if vars.is_empty() {
        return;
    }
    section(text, group, ":vars");
    for (key, value) in vars {
        text.push_str(&format!("{key}={}\n", literal::write(value)));
    }
}

/// An empty value needs no quotes behind its `=`.
fn quote(value: &str) -> String {
    if value.is_empty() { String::new() } else { words::quote(value) }
}

fn bad_group(name: &str) -> Option<&'static str> {
    name.contains(':').then_some("the name of a section cannot have a colon in it")
}

fn bad_variable(key: &str) -> Option<&'static str> {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_.-:/@".contains(c));
    (!plain).then_some("its name cannot stand in a line of key=value")
}
