//! From an inventory to a table.

use std::borrow::Cow;
use std::collections::BTreeSet;

use ::csv::Writer;
use bowline_model::host::{Connection, Host, Inventory};
use bowline_model::name::{GroupName, Labels};
use serde_json::Value;

use super::cell;
use crate::connection::pairs;
use crate::export::Lost;

/// More different variables than this share one column.
const VAR_COLUMNS_MAX: usize = 64;

pub(crate) fn write(inventory: &Inventory) -> (String, Vec<Lost>) {
    let vars = Variables::of(inventory);
    let mut writer = Writer::from_writer(Vec::new());
    // Writing to memory fails only where memory does.
    let mut row = |cells: Vec<Cow<'_, str>>| {
        let cells = cells.into_iter().map(cell::disarm);
        writer.write_record(cells.map(Cow::into_owned)).expect("memory takes every row");
    };
    let mut header: Vec<Cow<'_, str>> =
        ["name", "groups", "via", "address", "port", "user", "agent", "through", "labels"].map(Cow::Borrowed).into();
    match &vars {
        Variables::Each(keys) => header.extend(keys.iter().map(|key| Cow::Owned(format!("var:{key}")))),
        Variables::Together => header.push(Cow::Borrowed("vars")),
    }
    row(header);
    for host in &inventory.hosts {
        row(cells(host, &vars));
    }
    let bytes = writer.into_inner().expect("memory takes every row");
    (String::from_utf8(bytes).expect("rows of text are text"), lost(inventory))
}

/// How variables are spread over columns.
enum Variables<'a> {
    Each(BTreeSet<&'a str>),
    Together,
}

impl<'a> Variables<'a> {
    fn of(inventory: &'a Inventory) -> Self {
        let mut keys: BTreeSet<&str> = BTreeSet::new();
        for key in inventory.hosts.iter().flat_map(|host| host.vars.keys()) {
            // Spreadsheets and we trim headers.
            let fits = !key.is_empty() && key.trim() == key && !key.chars().any(char::is_control);
            keys.insert(key);
            if !fits || keys.len() > VAR_COLUMNS_MAX {
                return Self::Together;
            }
        }
        Self::Each(keys)
    }
}

fn cells<'a>(host: &'a Host, vars: &Variables<'_>) -> Vec<Cow<'a, str>> {
    let groups: Vec<&str> = host.groups.iter().map(GroupName::as_str).collect();
    let text = |text: &'a Option<String>| Cow::Borrowed(text.as_deref().unwrap_or_default());
    let labels = |labels: &Labels| Cow::Owned(pairs(labels, ";"));
    const NONE: Cow<'static, str> = Cow::Borrowed("");
    let mut cells = vec![Cow::Borrowed(host.name.as_str()), Cow::Owned(groups.join(";"))];
    cells.extend(match &host.connection {
        Connection::Agent { agent } => {
            let agent = agent.as_ref().map_or(NONE, |agent| Cow::Borrowed(agent.as_str()));
            [Cow::Borrowed("agent"), NONE, NONE, NONE, agent, NONE]
        }
        Connection::Ssh { address, port, user, through } => {
            let port = port.map_or(NONE, |port| Cow::Owned(port.to_string()));
            [Cow::Borrowed("ssh"), text(address), port, text(user), NONE, labels(through)]
        }
        Connection::Simulate { through } => [Cow::Borrowed("simulate"), NONE, NONE, NONE, NONE, labels(through)],
    });
    cells.push(labels(&host.labels));
    match vars {
        Variables::Each(keys) => {
            cells.extend(keys.iter().map(|key| host.vars.get(*key).map_or(NONE, cell::of_value)));
        }
        Variables::Together if host.vars.is_empty() => cells.push(NONE),
        Variables::Together => cells.push(Cow::Owned(Value::Object(host.vars.clone()).to_string())),
    }
    cells
}

/// A table has hosts only.
fn lost(inventory: &Inventory) -> Vec<Lost> {
    let used: BTreeSet<&GroupName> = inventory.hosts.iter().flat_map(|host| &host.groups).collect();
    let mut lost = Vec::new();
    for group in &inventory.groups {
        let name = || group.name.clone();
        if !group.vars.is_empty() {
            lost.push(Lost::GroupVariables { group: name() });
        }
        if !group.groups.is_empty() {
            lost.push(Lost::GroupMembers { group: name() });
        }
        if !used.contains(&group.name) {
            lost.push(Lost::EmptyGroup { group: name() });
        }
    }
    lost
}
