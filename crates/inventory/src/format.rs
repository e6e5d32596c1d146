//! The formats an inventory can be in, and which one a file is probably in.

use std::fmt;
use std::str::FromStr;

use serde::de::IgnoredAny;

/// A format of inventories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Our own shape, as YAML.
    Yaml,
    /// Our own shape, as JSON.
    Json,
    /// A table with a header, a host in each row.
    Csv,
    /// Ansible's `hosts` files.
    AnsibleIni,
    AnsibleYaml,
    /// What Ansible's inventory scripts and `ansible-inventory --list` print.
    AnsibleJson,
}

/// A name that is no format's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no format {0:?}; there are yaml, json, csv, ansible-ini, ansible-yaml and ansible-json")]
pub struct UnknownFormat(pub String);

impl Format {
    pub const ALL: [Self; 6] =
        [Self::Yaml, Self::Json, Self::Csv, Self::AnsibleIni, Self::AnsibleYaml, Self::AnsibleJson];

    pub fn name(self) -> &'static str {
        match self {
            Self::Yaml => "yaml",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::AnsibleIni => "ansible-ini",
            Self::AnsibleYaml => "ansible-yaml",
            Self::AnsibleJson => "ansible-json",
        }
    }

    /// The format this is probably in. The ending of the file's name comes first; what it cannot tell, and all of it when
    /// there is no name, is told by the content. Nothing is promised: reading says whether it was right.
    pub fn guess(file_name: Option<&str>, bytes: &[u8]) -> Option<Self> {
        // The beginning tells as much as the whole, except for JSON, where the end belongs to it.
        let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
        let text: &str = &text;
        let name = file_name.map(|name| name.rsplit(['/', '\\']).next().unwrap_or(name).to_ascii_lowercase());
        match name.as_deref().and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending) {
            Some("csv") => Some(Self::Csv),
            Some("json") => Some(json(text)),
            Some("yaml" | "yml") => Some(yaml(text)),
            Some("ini" | "cfg") => Some(Self::AnsibleIni),
            _ => by_content(text),
        }
    }
}

fn by_content(text: &str) -> Option<Format> {
    let mut lines = text.lines().filter(|line| !matches!(line.trim().chars().next(), None | Some('#' | ';')));
    let first = lines.next()?;
    if text.trim_start().starts_with('{') {
        return Some(json(text));
    }
    if first.trim_end() == "---" || top_key(first).is_some() {
        return Some(yaml(text));
    }
    let is_table = first.split(',').any(|cell| cell.trim().trim_matches('"').eq_ignore_ascii_case("name"));
    if is_table {
        return Some(Format::Csv);
    }
    // Ansible's hosts files are the ones without any mark of their own: a section, or the name of a host.
    let word = first.split_whitespace().next()?;
    let is_host = word.starts_with(|c: char| c.is_ascii_alphanumeric()) && !word.contains(['{', '<', '=', ',', '"']);
    (first.starts_with('[') || is_host).then_some(Format::AnsibleIni)
}

/// The key, if the line is the beginning of a YAML map at the top: `all:`, `"hosts": []`.
fn top_key(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let key = key.trim_matches(['"', '\'']);
    let is_word = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    (is_word && (rest.is_empty() || rest.starts_with([' ', '\t', '\r']))).then_some(key)
}

fn is_ours(key: &str) -> bool {
    matches!(key, "hosts" | "groups")
}

fn yaml(text: &str) -> Format {
    let key = text.lines().find_map(top_key);
    let in_braces = || text.trim_start_matches(['-', ' ', '\n', '\r', '{', '"']).split([':', '"']).next();
    if key.or_else(in_braces).is_none_or(is_ours) { Format::Yaml } else { Format::AnsibleYaml }
}

fn json(text: &str) -> Format {
    let top = serde_json::from_str::<std::collections::BTreeMap<String, IgnoredAny>>(text).unwrap_or_default();
    if top.keys().all(|key| is_ours(key)) { Format::Json } else { Format::AnsibleJson }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_reads_back_its_name() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert!("xml".parse::<Format>().expect_err("no format").to_string().contains("ansible-ini"));
    }

    #[test]
    fn the_ending_of_the_name_comes_first_and_the_content_decides_the_rest() {
        let guess = |name: &str, text: &str| Format::guess(Some(name), text.as_bytes());
        assert_eq!(guess("fleet.csv", "anything"), Some(Format::Csv));
        assert_eq!(guess("a/HOSTS.YML", "hosts:\n  web1: {}\n"), Some(Format::Yaml));
        assert_eq!(guess("fleet.yaml", "# ours?\n---\nall:\n  hosts:\n"), Some(Format::AnsibleYaml));
        assert_eq!(guess("fleet.yaml", "{hosts: [], groups: []}"), Some(Format::Yaml));
        assert_eq!(guess("fleet.json", r#"{"groups": [], "hosts": []}"#), Some(Format::Json));
        assert_eq!(guess("fleet.json", r#"{"web": ["a"], "_meta": {}}"#), Some(Format::AnsibleJson));
        assert_eq!(guess("production.ini", ""), Some(Format::AnsibleIni));
        assert_eq!(guess("etc.d/hosts", "web1 ansible_host=10.0.0.1\n"), Some(Format::AnsibleIni));
    }

    #[test]
    fn without_a_name_the_content_decides() {
        let guess = |text: &str| Format::guess(None, text.as_bytes());
        assert_eq!(guess("\u{feff}# hi\n\n[web]\nweb1\n"), Some(Format::AnsibleIni));
        assert_eq!(guess("web[01:20].example.com\n"), Some(Format::AnsibleIni));
        assert_eq!(guess("web1:2222\n"), Some(Format::AnsibleIni));
        assert_eq!(guess("name,groups\nweb1,web\n"), Some(Format::Csv));
        assert_eq!(guess("---\nall:\n"), Some(Format::AnsibleYaml));
        assert_eq!(guess("hosts:\n- name: a\n"), Some(Format::Yaml));
        assert_eq!(guess(r#" {"_meta": {"hostvars": {}}}"#), Some(Format::AnsibleJson));
        assert_eq!(guess(""), None);
        assert_eq!(guess("<html>"), None);
    }
}
