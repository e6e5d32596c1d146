//! What may stand in a connection and in labels, whatever format it comes in.

use std::collections::BTreeMap;

use bowline_model::host::{InvalidConnection, check_address, check_user};
use bowline_model::name::{GroupName, HostName, Labels, NotAName, WorkerName};

use crate::error::ImportError;
use crate::place::At;

fn checked(text: &str, check: Result<(), InvalidConnection>, at: At<'_>) -> Result<String, ImportError> {
    check.map(|()| text.to_owned()).map_err(|why| ImportError::Value { at: at.place(), what: why.to_string() })
}

pub(crate) fn address(text: &str, at: At<'_>) -> Result<String, ImportError> {
    checked(text, check_address(text), at)
}

pub(crate) fn user(text: &str, at: At<'_>) -> Result<String, ImportError> {
    checked(text, check_user(text), at)
}

pub(crate) fn port(text: &str, at: At<'_>) -> Result<u16, ImportError> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(port) if digits && port > 0 => Ok(port),
        _ => Err(ImportError::Value { at: at.place(), what: "a port is a number from 1 to 65535".to_owned() }),
    }
}

fn named<T>(make: impl Fn(&str) -> Result<T, NotAName>, text: &str, at: At<'_>) -> Result<T, ImportError> {
    make(text).map_err(|why| ImportError::Name { at: at.place(), name: text.to_owned(), why })
}

pub(crate) fn host_name(text: &str, at: At<'_>) -> Result<HostName, ImportError> {
    named(HostName::new, text, at)
}

pub(crate) fn group_name(text: &str, at: At<'_>) -> Result<GroupName, ImportError> {
    named(GroupName::new, text, at)
}

pub(crate) fn worker_name(text: &str, at: At<'_>) -> Result<WorkerName, ImportError> {
    named(WorkerName::new, text, at)
}

pub(crate) fn labels(map: BTreeMap<String, String>, at: At<'_>) -> Result<Labels, ImportError> {
    Labels::new(map).map_err(|why| ImportError::Labels { at: at.place(), why })
}

/// Adds `k=v;k=v`, or whatever character separates them, to labels. Nothing is said twice.
pub(crate) fn add_pairs(
    map: &mut BTreeMap<String, String>,
    text: &str,
    separators: &[char],
    at: At<'_>,
) -> Result<(), ImportError> {
    for pair in text.split(separators).map(str::trim).filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=') else {
            let what = "labels are written as name=value, one after the other".to_owned();
            return Err(ImportError::Value { at: at.place(), what });
        };
        add_label(map, key.trim(), value.trim(), at)?;
    }
    Ok(())
}

pub(crate) fn add_label(
    map: &mut BTreeMap<String, String>,
    key: &str,
    value: &str,
    at: At<'_>,
) -> Result<(), ImportError> {
    match map.insert(key.to_owned(), value.to_owned()) {
        Some(_) => Err(ImportError::KeyTwice { at: at.place(), key: format!("the label {key}") }),
        None => Ok(()),
    }
}

/// What [`add_pairs`] reads.
pub(crate) fn pairs(labels: &Labels, separator: &str) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(separator)
}

/// About how much memory a copy of the labels takes.
pub(crate) fn weight(labels: &Labels) -> usize {
    labels.iter().map(|(key, value)| key.len() + value.len() + 64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_never_an_option_or_a_command() {
        for good in ["web1", "web1.example.com", "10.0.0.1", "::1", "fe80::1%eth0", "a_b"] {
            assert_eq!(address(good, At::default()).as_deref(), Ok(good));
        }
        for bad in
            ["", "-oProxyCommand=x", "--help", "a b", "a;b", "$(x)", "a\nb", "{{ ip }}", "user@host", &"a".repeat(254)]
        {
            assert!(address(bad, At::default()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_user_is_never_an_option_or_a_command() {
        for good in ["root", "deploy-1", "DOMAIN\\svc$", "a@example.com", "1000"] {
            assert_eq!(user(good, At::default()).as_deref(), Ok(good));
        }
        for bad in ["", "-l", "a b", "a;b", "`x`", "{{ user }}"] {
            assert!(user(bad, At::default()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_port_is_a_number_that_ports_have() {
        assert_eq!(port("22", At::default()), Ok(22));
        for bad in ["", "0", "65536", "-1", "+22", "22a", " 22"] {
            assert!(port(bad, At::default()).is_err(), "{bad:?}");
        }
    }
}
