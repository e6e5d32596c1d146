//! Names that people and programs choose: checked once, on the way in, and safe everywhere afterwards.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a text cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAName {
    #[error("a {what} must not be empty")]
    Empty { what: &'static str },
    #[error("a {what} has at most {max} characters, this one has {len}")]
    TooLong { what: &'static str, max: usize, len: usize },
    #[error("a {what} starts with a letter or digit and goes on with letters, digits and . _ : / @ -")]
    BadCharacter { what: &'static str },
    #[error("at most {max} labels are allowed, there are {len}")]
    TooManyLabels { max: usize, len: usize },
    #[error(
        "a required amount is written >=NUMBER, with 0 or a number from 0.000000001 to 1000000000000000, not {0:?}"
    )]
    InvalidAmount(String),
    #[error("at most {max} numeric resources are allowed, there are {len}")]
    TooManyResources { max: usize, len: usize },
}

fn check(what: &'static str, max: usize, text: &str) -> Result<(), NotAName> {
    let mut bytes = text.bytes();
    match bytes.next() {
        None => return Err(NotAName::Empty { what }),
        Some(first) if !first.is_ascii_alphanumeric() => return Err(NotAName::BadCharacter { what }),
        Some(_) => {}
    }
    if text.len() > max {
        return Err(NotAName::TooLong { what, max, len: text.len() });
    }
    if bytes.all(|b| b.is_ascii_alphanumeric() || b"._:/@-".contains(&b)) && !text.contains("..") {
        Ok(())
    } else {
        Err(NotAName::BadCharacter { what })
    }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: &str) -> Result<Self, NotAName> {
                check($what, $max, text)?;
                Ok(Self(text.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Self::new(&text).map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "minLength": 1,
                    "maxLength": $max,
                    "pattern": "^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"
                })
            }
        }
    };
}

name_type!(
    /// What sort of work a job is, such as `stripe.webhook.process`. Workers say which of these they take.
    TaskType,
    "task type",
    128
);
impl TaskType {
    /// Types that begin like this are ours; nobody can submit jobs of them.
    pub const RESERVED: &'static str = "bowline.";

    /// What agents take: a command for one host.
    pub fn command() -> Self {
        Self(Arc::from("bowline.command"))
    }

    /// What runs of workflows are.
    pub fn workflow() -> Self {
        Self(Arc::from("bowline.workflow"))
    }

    /// What stands in the place of a type that was stored and cannot be read.
    pub fn unreadable() -> Self {
        Self(Arc::from("bowline.unreadable"))
    }

    pub fn is_reserved(&self) -> bool {
        self.as_str().starts_with(Self::RESERVED)
    }
}

name_type!(
    /// How a worker calls itself.
    WorkerName,
    "worker id",
    128
);

name_type!(
    /// What a resource is called, unique within its tenant and kind.
    ResourceName,
    "resource name",
    128
);
name_type!(
    /// What an inventory is called, unique within its tenant.
    InventoryName,
    "inventory name",
    64
);
name_type!(
    /// What a host is called, unique within its inventory.
    HostName,
    "host name",
    253
);
name_type!(
    /// What a group of hosts is called, unique within its inventory.
    GroupName,
    "group name",
    128
);

/// Labels a worker or a host has, or a job requires. Sorted, so that equal sets have equal texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    const MAX: usize = 32;
    const RESOURCES_MAX: usize = 32;
    /// What the name of a worker's numeric resource has in front of it among its labels. Nobody else may use such names.
    pub const RESOURCE: &'static str = "bowline/resource.";
    /// In front of a number, as the value of a required label: at least so much.
    const AT_LEAST: &'static str = ">=";
    /// Amounts are 0 or from here...
    const AMOUNT_MIN: f64 = 1e-9;
    /// ... to here.
    const AMOUNT_MAX: f64 = 1e15;

    pub fn new(map: BTreeMap<String, String>) -> Result<Self, NotAName> {
        if map.len() > Self::MAX {
            return Err(NotAName::TooManyLabels { max: Self::MAX, len: map.len() });
        }
        for (key, value) in &map {
            check("label name", 63, key)?;
            check("label value", 253, value)?;
        }
        Ok(Self(map))
    }

    /// What a job requires: labels, of which a value such as `>=2` asks for at least that much.
    pub fn required(map: BTreeMap<String, String>) -> Result<Self, NotAName> {
        if map.len() > Self::MAX {
            return Err(NotAName::TooManyLabels { max: Self::MAX, len: map.len() });
        }
        Self::checked(map)
    }

    /// For `deserialize_with`: what a job requires.
    pub fn deserialize_required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::required(BTreeMap::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }

    fn checked(mut map: BTreeMap<String, String>) -> Result<Self, NotAName> {
        for (key, value) in &mut map {
            check("label name", 63, key)?;
            match value.strip_prefix(Self::AT_LEAST) {
                None => check("label value", 253, value)?,
                Some(text) => {
                    let amount = Self::amount_of(text.trim()).ok_or_else(|| NotAName::InvalidAmount(value.clone()))?;
                    // One text for one number: it is part of a line's name.
                    *value = format!("{}{amount}", Self::AT_LEAST);
                }
            }
        }
        Ok(Self(map))
    }

    fn amount_of(text: &str) -> Option<f64> {
        Self::within(text.parse().ok()?)
    }

    /// An amount whose text is short and reads back as the same amount: `-0` is 0, and nothing lies between 0 and the smallest.
    fn within(amount: f64) -> Option<f64> {
        (amount == 0.0 || (Self::AMOUNT_MIN..=Self::AMOUNT_MAX).contains(&amount)).then_some(amount + 0.0)
    }

    /// The same labels, and what a worker says it has of each resource.
    pub fn with_resources(mut self, resources: &BTreeMap<String, f64>) -> Result<Self, NotAName> {
        if resources.len() > Self::RESOURCES_MAX {
            return Err(NotAName::TooManyResources { max: Self::RESOURCES_MAX, len: resources.len() });
        }
        for (name, amount) in resources {
            let key = format!("{}{name}", Self::RESOURCE);
            check("resource name", 63 - Self::RESOURCE.len(), name)?;
            let amount = Self::within(*amount).ok_or_else(|| NotAName::InvalidAmount(name.clone()))?;
            self.0.insert(key, amount.to_string());
        }
        Ok(self)
    }

    /// A worker's labels and its resources, apart.
    pub fn split_resources(self) -> (Self, BTreeMap<String, f64>) {
        let (mut labels, mut resources) = (BTreeMap::new(), BTreeMap::new());
        for (key, value) in self.0 {
            match (key.strip_prefix(Self::RESOURCE), Self::amount_of(&value)) {
                (Some(name), Some(amount)) => drop(resources.insert(name.to_owned(), amount)),
                _ => drop(labels.insert(key, value)),
            }
        }
        (Self(labels), resources)
    }

    /// How much of this a worker has: of a resource, or as a label whose value is a number.
    pub fn amount(&self, name: &str) -> Option<f64> {
        let resource = self.0.get(&format!("{}{name}", Self::RESOURCE));
        resource.or_else(|| self.0.get(name)).and_then(|value| Self::amount_of(value))
    }

    /// The required amounts that are not offered: name, how much is required, how much there is.
    pub fn short_of<'a>(&'a self, offered: &'a Self) -> impl Iterator<Item = (&'a str, f64, Option<f64>)> {
        self.0.iter().filter_map(|(key, value)| {
            let least = Self::least_of(value)?;
            let has = offered.amount(key);
            has.is_none_or(|has| has < least).then_some((key.as_str(), least, has))
        })
    }

    /// What is required as an amount.
    pub fn amounts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, value)| Self::least_of(value).is_some()).map(|(key, _)| key.as_str())
    }

    fn least_of(value: &str) -> Option<f64> {
        value.strip_prefix(Self::AT_LEAST).and_then(Self::amount_of)
    }

    /// For people: `gpu>=2 site=fra`.
    pub fn described(&self) -> String {
        let pair = |(key, value): (&String, &String)| match value.strip_prefix(Self::AT_LEAST) {
            Some(least) => format!("{key}>={least}"),
            None => format!("{key}={value}"),
        };
        self.0.iter().map(pair).collect::<Vec<_>>().join(" ")
    }

    /// Labels of which each part is known to be a name already.
    pub(crate) fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    /// Those for which this holds, of name and value.
    pub fn retained(mut self, keep: impl Fn(&str, &str) -> bool) -> Self {
        self.0.retain(|key, value| keep(key, value));
        self
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether everything that is required here is offered there.
    pub fn satisfied_by(&self, offered: &Self) -> bool {
        self.0.iter().all(|(key, value)| match Self::least_of(value) {
            None => offered.0.get(key) == Some(value),
            Some(least) => offered.amount(key).is_some_and(|has| has >= least),
        })
    }

    /// One text for one set; empty for none. Part of a channel's identity.
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        for (key, value) in &self.0 {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(key);
            text.push('=');
            text.push_str(value);
        }
        text
    }

    /// Reads back what [`Self::canonical`] wrote.
    pub fn from_canonical(text: &str) -> Result<Self, NotAName> {
        let map = text
            .split(' ')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Self::checked(map)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(BTreeMap::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_paths_or_options_are_refused() {
        for text in ["", "../../keys/root", "-oProxyCommand=x", "a\nb", "a b", "a..b", "\u{202e}x", "a\0"] {
            assert!(WorkerName::new(text).is_err(), "{text:?}");
        }
        for text in ["w1", "stripe.webhook.process", "site/fra-1:gpu@2"] {
            assert!(TaskType::new(text).is_ok(), "{text:?}");
        }
        assert!(TaskType::new(&"x".repeat(129)).is_err());
    }

    #[test]
    fn labels_have_one_text_and_read_it_back() {
        let labels = Labels::new([("b".into(), "2".into()), ("a".into(), "1".into())].into()).unwrap();
        assert_eq!(labels.canonical(), "a=1 b=2");
        assert_eq!(Labels::from_canonical("a=1 b=2"), Ok(labels.clone()));
        assert_eq!(Labels::from_canonical(""), Ok(Labels::default()));
        assert!(Labels::default().satisfied_by(&labels));
        assert!(!labels.satisfied_by(&Labels::default()));
    }

    #[test]
    fn labels_are_counted_looked_up_and_kept_by_name_and_value() {
        let labels = Labels::of([("site", "fra"), ("cores", "8"), ("role", "web")]);
        assert_eq!((labels.len(), labels.is_empty()), (3, false));
        assert_eq!((Labels::default().len(), Labels::default().is_empty()), (0, true));
        assert_eq!((labels.get("cores"), labels.get("8")), (Some("8"), None));
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("cores", "8"), ("role", "web"), ("site", "fra")]);
        let kept = labels.retained(|name, value| name == "site" || value == "web");
        assert_eq!(kept.canonical(), "role=web site=fra");
    }

    #[test]
    fn what_is_required_as_an_amount_is_named() {
        let asked = required(&[("gpu", ">=2"), ("site", "fra"), ("cores", ">=1")]).unwrap();
        assert_eq!(asked.amounts().collect::<Vec<_>>(), ["cores", "gpu"]);
    }

    fn required(pairs: &[(&str, &str)]) -> Result<Labels, NotAName> {
        Labels::required(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_required_amount_is_compared_as_a_number() {
        let worker = Labels::new([("site".into(), "fra".into()), ("cores".into(), "8".into())].into()).unwrap();
        let resources = [("gpu".to_owned(), 2.0), ("memory_gb".to_owned(), 15.5)].into();
        let worker = worker.with_resources(&resources).unwrap();
        for (requirement, satisfied) in [
            (&[("gpu", ">=2"), ("site", "fra")][..], true),
            (&[("gpu", ">=2.5")], false),
            (&[("gpu", ">=10")], false),
            (&[("memory_gb", ">=9")], true),
            (&[("memory_gb", ">=16")], false),
            (&[("cores", ">=8")], true),
            (&[("cores", "8")], true),
            (&[("site", ">=0")], false),
            (&[("disk_gb", ">=0")], false),
            (&[("gpu", "2")], false),
        ] {
            let required = required(requirement).unwrap();
            assert_eq!(required.satisfied_by(&worker), satisfied, "{requirement:?}");
            assert_eq!(Labels::from_canonical(&required.canonical()), Ok(required));
        }
        let short = required(&[("gpu", ">=4"), ("disk_gb", ">=1"), ("cores", ">=2"), ("memory_gb", ">=15.5")]).unwrap();
        let short: Vec<_> = short.short_of(&worker).map(|(name, least, has)| (name.to_owned(), least, has)).collect();
        assert_eq!(short, [("disk_gb".to_owned(), 1.0, None), ("gpu".to_owned(), 4.0, Some(2.0))]);
        let stored = Labels::from_canonical(&worker.canonical()).unwrap();
        let (labels, split) = stored.split_resources();
        assert_eq!((labels.canonical().as_str(), split), ("cores=8 site=fra", resources));
    }

    #[test]
    fn every_amount_that_is_accepted_reads_back_from_its_text() {
        for amount in [0.0, -0.0, 1e-9, 1.234_567_890_123_456_7e-9, 0.1, 1.0 / 3.0, 15.5, 1e15] {
            let stored = Labels::default().with_resources(&[("gpu".to_owned(), amount)].into()).unwrap();
            let read = Labels::from_canonical(&stored.canonical()).unwrap_or_else(|e| panic!("{amount}: {e}"));
            assert_eq!(read.split_resources().1, [("gpu".to_owned(), amount)].into());
            let asked = required(&[("gpu", &format!(">={amount}"))]).unwrap();
            assert_eq!(Labels::from_canonical(&asked.canonical()), Ok(asked));
        }
        for amount in [5e-324, 1e-10] {
            assert!(Labels::default().with_resources(&[("gpu".to_owned(), amount)].into()).is_err(), "{amount}");
        }
    }

    #[test]
    fn an_amount_has_one_text_and_only_jobs_have_it() {
        let same = [">=2", ">= 2", ">=2.0", ">=02"].map(|text| required(&[("gpu", text)]).unwrap().canonical());
        assert!(same.iter().all(|text| text == "gpu=>=2"), "{same:?}");
        assert_eq!(required(&[("gpu", ">=2"), ("site", "fra")]).unwrap().described(), "gpu>=2 site=fra");
        for bad in [">=", ">=two", ">=-1", ">=nan", ">=inf", ">=1e16", ">=5e-324", ">2", "<=2"] {
            assert!(required(&[("gpu", bad)]).is_err(), "{bad}");
        }
        assert!(Labels::new([("gpu".into(), ">=2".into())].into()).is_err());
        let read = |text: &str| serde_json::from_str::<Labels>(text).map(|labels| labels.canonical());
        assert_eq!(read(r#"{"site": "fra", "gpu": "2"}"#).unwrap(), "gpu=2 site=fra");
        assert!(read(r#"{"gpu": ">=2"}"#).is_err());
        for (name, amount) in [("", 1.0), ("a b", 1.0), ("gpu", -1.0), ("gpu", f64::NAN), ("gpu", 1e16)] {
            assert!(Labels::default().with_resources(&[(name.to_owned(), amount)].into()).is_err(), "{name} {amount}");
        }
        assert!(Labels::default().with_resources(&[("x".repeat(46), 1.0)].into()).is_ok());
        assert!(Labels::default().with_resources(&[("x".repeat(47), 1.0)].into()).is_err());
    }
}
