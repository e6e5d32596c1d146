//! An Ansible inventory while it is read: groups and hosts with what was said of each, later words over earlier ones.

use std::collections::{BTreeSet, HashMap};

use bowline_model::host::Vars;
use bowline_model::name::{GroupName, HostName};
use serde_json::Value;

use super::range;
use super::settings::{self, Settings};
use crate::connection;
use crate::draft::too_many;
use crate::error::ImportError;
use crate::limits::{Copies, GROUPS_MAX, HOSTS_MAX, MENTIONS_MAX};
use crate::owner::Owner;
use crate::place::At;

/// The groups that every Ansible inventory has.
pub(crate) const ALL: usize = 0;
pub(crate) const UNGROUPED: usize = 1;

#[derive(Debug)]
pub(crate) struct GatheredGroup {
    pub name: GroupName,
    pub children: BTreeSet<usize>,
    pub vars: Vars,
    pub settings: Settings,
    pub priority: i64,
}

#[derive(Debug)]
pub(crate) struct GatheredHost {
    pub name: HostName,
    pub groups: BTreeSet<usize>,
    pub vars: Vars,
    pub settings: Settings,
}

#[derive(Debug)]
pub(crate) struct Gathered {
    pub groups: Vec<GatheredGroup>,
    pub hosts: Vec<GatheredHost>,
    group_index: HashMap<String, usize>,
    host_index: HashMap<String, usize>,
    mentions: usize,
    pub copies: Copies,
}

/// Variables as they were written, each with its line.
pub(crate) type Said = Vec<(String, Value, u32)>;

impl Gathered {
    pub(crate) fn new() -> Self {
        let mut gathered = Self {
            groups: Vec::new(),
            hosts: Vec::new(),
            group_index: HashMap::new(),
            host_index: HashMap::new(),
            mentions: 0,
            copies: Copies::default(),
        };
        for name in ["all", "ungrouped"] {
            gathered.push_group(GroupName::new(name).expect("letters are a name"));
        }
        gathered
    }

    fn push_group(&mut self, name: GroupName) -> usize {
        let index = self.groups.len();
        self.group_index.insert(name.to_string(), index);
        self.groups.push(GatheredGroup {
            name,
            children: BTreeSet::new(),
            vars: Vars::new(),
            settings: Settings::default(),
            priority: 1,
        });
        index
    }

    pub(crate) fn find_group(&self, name: &str) -> Option<usize> {
        self.group_index.get(name).copied()
    }

    pub(crate) fn find_host(&self, name: &str) -> Option<usize> {
        self.host_index.get(name).copied()
    }

    pub(crate) fn group(&mut self, name: &str, at: At<'_>) -> Result<usize, ImportError> {
        if let Some(index) = self.find_group(name) {
            return Ok(index);
        }
        let name = connection::group_name(name, at)?;
        if self.groups.len() >= GROUPS_MAX + 2 {
            return Err(too_many("groups", GROUPS_MAX, at));
        }
        Ok(self.push_group(name))
    }

    /// Says that a group is in another. That it is in `all` goes without saying.
    pub(crate) fn child(&mut self, parent: usize, child: usize, at: At<'_>) -> Result<(), ImportError> {
        let wrong = |what: &str| Err(ImportError::Value { at: at.place(), what: what.to_owned() });
        match (parent, child) {
            (ALL, UNGROUPED) => Ok(()),
            (_, ALL) => wrong("the group all holds every group, and is in none"),
            (UNGROUPED, _) | (_, UNGROUPED) => {
                wrong("the group ungrouped is for hosts without a group; it has no groups")
            }
            (ALL, _) => Ok(()),
            _ => {
                self.mention(1, at)?;
                self.groups[parent].children.insert(child);
                Ok(())
            }
        }
    }

    fn mention(&mut self, count: usize, at: At<'_>) -> Result<(), ImportError> {
        self.mentions += count;
        if self.mentions > MENTIONS_MAX {
            return Err(too_many("memberships in groups", MENTIONS_MAX, at));
        }
        Ok(())
    }

    /// One host, by its plain name.
    pub(crate) fn host(&mut self, name: &str, group: usize, at: At<'_>) -> Result<usize, ImportError> {
        self.add_host(name, group, None, at)
    }

    fn add_host(&mut self, name: &str, group: usize, port: Option<u16>, at: At<'_>) -> Result<usize, ImportError> {
        self.mention(1, at)?;
        let index = match self.host_index.get(name) {
            Some(index) => *index,
            None => {
                let checked = connection::host_name(name, at)?;
                if self.hosts.len() >= HOSTS_MAX {
                    return Err(too_many("hosts", HOSTS_MAX, at));
                }
                let mut settings = Settings::default();
                // Only the first mention of a host brings its port, as in Ansible.
                if let Some(port) = port {
                    settings.set_port(port);
                }
                let host = GatheredHost { name: checked, groups: BTreeSet::new(), vars: Vars::new(), settings };
                self.host_index.insert(name.to_owned(), self.hosts.len());
                self.hosts.push(host);
                self.hosts.len() - 1
            }
        };
        self.hosts[index].groups.insert(group);
        Ok(index)
    }

    /// All hosts that a pattern stands for, each with these variables.
    pub(crate) fn hosts(&mut self, pattern: &str, group: usize, said: Said, at: At<'_>) -> Result<(), ImportError> {
        let (names, port) = range::expand(pattern, at)?;
        if names.len() > 1 {
            let weight: usize = said.iter().map(|(key, value, _)| key.len() + weight(value)).sum();
            self.copies.charge(weight.saturating_mul(names.len() - 1), at)?;
        }
        for name in names {
            let host = self.add_host(&name, group, port, at)?;
            for (key, value, line) in &said {
                self.set_host_var(host, key, value.clone(), At { line: *line, ..at })?;
            }
        }
        Ok(())
    }

    pub(crate) fn set_host_var(&mut self, host: usize, key: &str, value: Value, at: At<'_>) -> Result<(), ImportError> {
        let host = &mut self.hosts[host];
        let owner = Owner::Host(host.name.clone());
        settings::refuse_secrets(key, &value, &owner, at)?;
        if settings::is_setting(key) {
            return host.settings.take(key, &value, &owner, at);
        }
        host.vars.insert(key.to_owned(), value);
        Ok(())
    }

    pub(crate) fn set_group_var(
        &mut self,
        group: usize,
        key: &str,
        value: Value,
        at: At<'_>,
    ) -> Result<(), ImportError> {
        let group = &mut self.groups[group];
        let owner = Owner::Group(group.name.clone());
        settings::refuse_secrets(key, &value, &owner, at)?;
        if settings::is_setting(key) {
            return group.settings.take(key, &value, &owner, at);
        }
        if key == PRIORITY {
            group.priority = priority(&value)
                .ok_or_else(|| ImportError::Value { at: at.place(), what: format!("{PRIORITY} is a whole number") })?;
        }
        group.vars.insert(key.to_owned(), value);
        Ok(())
    }
}

pub(crate) const PRIORITY: &str = "ansible_group_priority";

pub(crate) fn priority(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_i64(),
    }
}

/// About how much memory a copy of the value takes.
fn weight(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + 48 + weight(value)).sum(),
        _ => 0,
    };
    size_of::<Value>() + inside
}
