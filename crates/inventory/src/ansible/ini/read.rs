//! From the lines of a `hosts` file to an inventory.

use std::collections::BTreeMap;

use bowline_model::host::Inventory;

use super::super::gather::{Gathered, Said, UNGROUPED};
use super::super::settle::settle;
use super::literal;
use super::words::{self, NotWords};
use crate::error::ImportError;
use crate::place::{At, Shown};

/// What the lines of a section are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Hosts,
    Children,
    Vars,
}

/// A group that was mentioned and has not been declared yet.
struct Pending {
    line: u32,
    parents: Vec<usize>,
}

struct Reader {
    gathered: Gathered,
    group: usize,
    section: Section,
    /// Members of `:children` sections whose own section is still to come, and groups with nothing but `:vars`.
    pending: BTreeMap<String, Pending>,
}

pub(crate) fn read(text: &str) -> Result<Inventory, ImportError> {
    let mut reader =
        Reader { gathered: Gathered::new(), group: UNGROUPED, section: Section::Hosts, pending: BTreeMap::new() };
    for (index, line) in lines(text).enumerate() {
        let at = At::line(u32::try_from(index + 1).unwrap_or(u32::MAX));
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        reader.line(line, at)?;
    }
    if let Some((name, pending)) = reader.pending.into_iter().min_by_key(|(_, pending)| pending.line) {
        let name = Shown(&name).to_string();
        let what = format!("there is no group {name}; a section [{name}] or [{name}:children] would make one");
        return Err(ImportError::Value { at: At::line(pending.line).place(), what });
    }
    settle(reader.gathered)
}

/// Lines end as on any system: with a line feed, a carriage return, or both.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
}

impl Reader {
    fn line(&mut self, line: &str, at: At<'_>) -> Result<(), ImportError> {
        if let Some((name, section)) = header(line, at)? {
            return self.begin(name, section, at);
        }
        if line.starts_with('[') && line.ends_with(']') {
            let what = "a section is written as [group], [group:children] or [group:vars], without spaces".to_owned();
            return Err(ImportError::Value { at: at.place(), what });
        }
        match self.section {
            Section::Hosts => self.host(line, at),
            Section::Children => self.child(line, at),
            Section::Vars => self.var(line, at),
        }
    }

    fn begin(&mut self, name: &str, section: Section, at: At<'_>) -> Result<(), ImportError> {
        let known = self.gathered.find_group(name).is_some();
        self.group = self.gathered.group(name, at)?;
        self.section = section;
        if section == Section::Vars {
            if !known && !self.pending.contains_key(name) {
                self.pending.insert(name.to_owned(), Pending { line: at.line, parents: Vec::new() });
            }
        } else if let Some(pending) = self.pending.remove(name) {
            for parent in pending.parents {
                self.gathered.child(parent, self.group, At::line(pending.line))?;
            }
        }
        Ok(())
    }

    fn host(&mut self, line: &str, at: At<'_>) -> Result<(), ImportError> {
        let wrong = |what: &str| ImportError::Value { at: at.place(), what: what.to_owned() };
        let words = words::split(line).map_err(|error| match error {
            NotWords::OpenQuote => wrong("a quote is not closed"),
            NotWords::OpenEscape => wrong("nothing follows the backslash at the end"),
        })?;
        let Some((pattern, pairs)) = words.split_first() else { return Ok(()) };
        let mut said = Said::new();
        for pair in pairs {
            // The word is not repeated: it may be the second half of a password with a space in it.
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                wrong("after the name of a host come words like key=value; values with spaces need quotes")
            })?;
            said.push((key.to_owned(), literal::value(value), at.line));
        }
        self.gathered.hosts(pattern, self.group, said, at)
    }

    fn child(&mut self, line: &str, at: At<'_>) -> Result<(), ImportError> {
        let (name, comment) = line.split_once(|c: char| c.is_whitespace() || c == '#').unwrap_or((line, ""));
        let rest = &line[name.len()..];
        let only_comment = comment.is_empty() || rest.trim_start().starts_with('#');
        if name.is_empty() || name.contains([':', ']']) || !only_comment {
            let what = "in a :children section each line is the name of a group".to_owned();
            return Err(ImportError::Value { at: at.place(), what });
        }
        match self.gathered.find_group(name) {
            // A group that is known by its variables only is not declared by them.
            Some(child) if !self.pending.contains_key(name) => self.gathered.child(self.group, child, at),
            _ => {
                let pending = self.pending.entry(name.to_owned());
                pending.or_insert_with(|| Pending { line: at.line, parents: Vec::new() }).parents.push(self.group);
                Ok(())
            }
        }
    }

    fn var(&mut self, line: &str, at: At<'_>) -> Result<(), ImportError> {
        let Some((key, value)) = line.split_once('=') else {
            let what = "in a :vars section each line is key=value".to_owned();
            return Err(ImportError::Value { at: at.place(), what });
        };
        self.gathered.set_group_var(self.group, key.trim(), literal::value(value.trim()), at)
    }
}

/// `[group]`, `[group:children]` or `[group:vars]`, with a comment behind it or not.
fn header<'a>(line: &'a str, at: At<'_>) -> Result<Option<(&'a str, Section)>, ImportError> {
    let Some((inside, rest)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) else { return Ok(None) };
    let rest = rest.trim_start();
    if !rest.is_empty() && !rest.starts_with('#') {
        return Ok(None);
    }
    let (name, kind) = inside.split_once(':').unwrap_or((inside, "hosts"));
    let word = kind.chars().all(|c| c.is_alphanumeric() || c == '_');
    if name.is_empty() || inside.contains(char::is_whitespace) || kind.is_empty() || !word {
        return Ok(None);
    }
    match kind {
        "hosts" => Ok(Some((name, Section::Hosts))),
        "children" => Ok(Some((name, Section::Children))),
        "vars" => Ok(Some((name, Section::Vars))),
        _ => {
            let what = format!("there are no sections of the kind {}; there are children and vars", Shown(kind));
            Err(ImportError::Value { at: at.place(), what })
        }
    }
}
