//! Texts with places in them: `--user={{ params.user }}`.
//!
//! A place is filled with one value, and the value is never looked at again: what a parameter says cannot become another
//! place, another argument or another command. There is nothing to compute here, so nothing can run away.
//!
//! | place | filled with |
//! |---|---|
//! | `{{ params.NAME }}` | a parameter of the job; `params.a.b` goes inside |
//! | `{{ host.name }}` | what the host is called |
//! | `{{ host.labels.NAME }}` | a label of the host |
//! | `{{ host.vars.NAME }}` | a variable of the host or of its groups |
//! | `{{ "text" }}` | the text, for those who need two braces in a row |

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::host::Vars;

/// Bytes a template may have, and what it may become.
const LENGTH_MAX: usize = 65_536;

/// Why a text is not a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    #[error("{{{{ without }}}} at character {0}")]
    Open(usize),
    #[error("{0:?} is not a place; places are params.NAME, host.name, host.labels.NAME and host.vars.NAME")]
    NotAPlace(String),
    #[error("a template has at most {LENGTH_MAX} bytes")]
    TooLong,
    #[error("a template cannot have a zero byte")]
    ZeroByte,
}

/// Why a place cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cannot {
    #[error("{0} has no value")]
    Missing(Reference),
    #[error("{place} is {what}, which is not one text")]
    NotText { place: Reference, what: &'static str },
    #[error("{0} has a zero byte in it")]
    ZeroByte(Reference),
    #[error("the text would have more than {LENGTH_MAX} bytes")]
    TooLong,
    #[error("all texts of the command together would have more than {max} bytes")]
    AllTooLong { max: usize },
}

/// What a place asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {
    Param(Vec<String>),
    HostName,
    HostLabel(String),
    HostVar(Vec<String>),
}

impl Reference {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(str::trim);
        let is_name = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'/')
        };
        let rest = |parts: &mut dyn Iterator<Item = &str>| {
            let names: Vec<String> = parts.map(str::to_owned).collect();
            (!names.is_empty() && names.iter().all(|name| is_name(name))).then_some(names)
        };
        match (parts.next()?, parts.next()?) {
            ("params", first) => rest(&mut std::iter::once(first).chain(parts)).map(Self::Param),
            ("host", "name") => parts.next().is_none().then_some(Self::HostName),
            ("host", "labels") => {
                // Names of labels may have dots in them.
                let name = parts.collect::<Vec<_>>().join(".");
                (!name.is_empty()).then_some(Self::HostLabel(name))
            }
            ("host", "vars") => rest(&mut parts).map(Self::HostVar),
            _ => None,
        }
    }

    /// Whether its value differs from host to host in ways only the inventory knows.
    pub const fn is_of_host(&self) -> bool {
        matches!(self, Self::HostLabel(_) | Self::HostVar(_))
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Param(path) => write!(f, "params.{}", path.join(".")),
            Self::HostName => f.write_str("host.name"),
            Self::HostLabel(name) => write!(f, "host.labels.{name}"),
            Self::HostVar(path) => write!(f, "host.vars.{}", path.join(".")),
        }
    }
}

/// What a host brings to the places: as much of its labels and variables as the command asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostScope {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub vars: Vars,
}

/// What places are filled from.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub params: &'a Vars,
    pub host_name: &'a str,
    pub host: &'a HostScope,
}

impl Scope<'_> {
    /// The value of a place, as one text.
    pub fn value(&self, place: &Reference) -> Result<String, Cannot> {
        let text = match place {
            Reference::HostName => self.host_name.to_owned(),
            Reference::HostLabel(name) => {
                self.host.labels.get(name).cloned().ok_or_else(|| Cannot::Missing(place.clone()))?
            }
            Reference::Param(path) => text_of(place, find(self.params, path))?,
            Reference::HostVar(path) => text_of(place, find(&self.host.vars, path))?,
        };
        if text.contains('\0') { Err(Cannot::ZeroByte(place.clone())) } else { Ok(text) }
    }
}

/// What stands at the end of a path.
fn find<'a>(vars: &'a Vars, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    inside(vars.get(first)?, rest)
}

/// What stands at the end of a path inside a value.
pub(super) fn inside<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

fn text_of(place: &Reference, value: Option<&Value>) -> Result<String, Cannot> {
    let not_text = |what| Err(Cannot::NotText { place: place.clone(), what });
    match value {
        None | Some(Value::Null) => Err(Cannot::Missing(place.clone())),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Bool(value)) => Ok(value.to_string()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(Value::Array(_)) => not_text("a list"),
        Some(Value::Object(_)) => not_text("an object"),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Place(Reference),
}

/// A text with places in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

impl Template {
    pub fn parse(text: &str) -> Result<Self, BadTemplate> {
        if text.len() > LENGTH_MAX {
            return Err(BadTemplate::TooLong);
        }
        if text.contains('\0') {
            return Err(BadTemplate::ZeroByte);
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let place = after.trim_start();
            let at = || BadTemplate::Open(text[..text.len() - after.len() - 2].chars().count() + 1);
            if let Some(quoted) = place.strip_prefix('"') {
                let (literal, after) = quoted.split_once('"').ok_or_else(at)?;
                rest = after.trim_start().strip_prefix("}}").ok_or_else(at)?;
                parts.push(Part::Text(literal.to_owned()));
                continue;
            }
            let (inside, after) = after.split_once("}}").ok_or_else(at)?;
            let inside = inside.trim();
            let place = Reference::parse(inside).ok_or_else(|| BadTemplate::NotAPlace(inside.to_owned()))?;
            parts.push(Part::Place(place));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn places(&self) -> impl Iterator<Item = &Reference> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Place(place) => Some(place),
        })
    }

    /// The text with every place filled.
    pub fn fill(&self, scope: &Scope<'_>) -> Result<String, Cannot> {
        let mut filled = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Place(place) => filled.push_str(&scope.value(place)?),
            }
            if filled.len() > LENGTH_MAX {
                return Err(Cannot::TooLong);
            }
        }
        Ok(filled)
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Template {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Template".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": LENGTH_MAX,
            "description": "A text with places such as {{ params.user }}, {{ host.name }}, {{ host.labels.role }}"
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn fill(text: &str, params: &Value) -> Result<String, String> {
        let host = HostScope {
            labels: [("role".to_owned(), "web".to_owned()), ("a.b/c".to_owned(), "dotted".to_owned())].into(),
            vars: json!({"port": 80, "deep": {"er": "x"}}).as_object().cloned().unwrap(),
        };
        let scope = Scope { params: params.as_object().unwrap(), host_name: "web1", host: &host };
        Template::parse(text).map_err(|e| e.to_string())?.fill(&scope).map_err(|e| e.to_string())
    }

    #[test]
    fn places_are_filled() {
        let params = json!({"user": "ann", "n": 3, "yes": true, "in": {"side": 1.50}});
        for (text, wanted) in [
            ("plain", "plain"),
            ("", ""),
            ("{{params.user}}", "ann"),
            ("--user={{ params.user }}-{{params.n}}{{ params.yes }}", "--user=ann-3true"),
            ("{{ params.in.side }}", "1.5"),
            ("{{ host.name }}:{{ host.vars.port }}/{{ host.vars.deep.er }}", "web1:80/x"),
            ("{{ host.labels.role }} {{ host.labels.a.b/c }}", "web dotted"),
            ("{{ \"{{\" }} x }} y", "{{ x }} y"),
            ("a } b { c", "a } b { c"),
        ] {
            assert_eq!(fill(text, &params).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_filled_is_named() {
        let params = json!({"list": [1], "zero": "a\u{0}b", "none": null});
        for (text, wanted) in [
            ("{{ params.user }}", "params.user has no value"),
            ("{{ params.none }}", "params.none has no value"),
            ("{{ params.list }}", "params.list is a list, which is not one text"),
            ("{{ host.vars.deep }}", "host.vars.deep is an object, which is not one text"),
            ("{{ params.zero }}", "params.zero has a zero byte in it"),
        ] {
            assert_eq!(fill(text, &params), Err(wanted.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_text_is_filled_up_to_its_limit_and_not_beyond() {
        let filled = |length: usize| fill("a{{ params.long }}", &json!({"long": "x".repeat(length - 1)}));
        assert_eq!(filled(65_536).map(|text| text.len()), Ok(65_536));
        assert_eq!(filled(65_537), Err("the text would have more than 65536 bytes".to_owned()));
    }

    #[test]
    fn places_are_called_what_they_are_written_as() {
        let text = "{{ params.a.b }} {{ host.name }} {{ host.labels.a.b/c }} {{ host.vars.x.y }}";
        let template = Template::parse(text).unwrap();
        let places: Vec<String> = template.places().map(Reference::to_string).collect();
        assert_eq!(places, ["params.a.b", "host.name", "host.labels.a.b/c", "host.vars.x.y"]);
        let of_host: Vec<bool> = template.places().map(Reference::is_of_host).collect();
        assert_eq!(of_host, [false, false, true, true]);
        assert_eq!(template.as_str(), text);
        assert_eq!(serde_json::to_value(&template).unwrap(), text);
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in ["{{", "a {{ params.x", "{{}}", "{{ x }}", "{{ params }}", "{{ params. }}", "{{ host.name.x }}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
        for text in ["{{ constructor.constructor('x')() }}", "{{ __proto__ }}", "{{ self }}", "{{ params.a() }}"] {
            assert!(matches!(Template::parse(text), Err(BadTemplate::NotAPlace(_))), "{text}");
        }
        assert_eq!(Template::parse("é {{ x"), Err(BadTemplate::Open(3)));
    }

    proptest! {
        /// B076: what a value says is never read as a template.
        #[test]
        fn a_value_is_inserted_as_it_is(value in "[^\u{0}]{0,40}") {
            let params = json!({"v": value});
            prop_assert_eq!(fill("<{{ params.v }}>", &params), Ok(format!("<{value}>")));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}") {
            let _ = Template::parse(&text);
        }
    }
}
