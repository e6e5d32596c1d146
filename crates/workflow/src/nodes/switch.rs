//! `switch`: one of several ways, by name.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_model::RunError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::approval::by_port;
use super::fields::{Condition, Tree, failure};
use super::{Building, NodeType};
use crate::node::{Next, Node, Ports, Visit};

const CASES_MAX: usize = 1_000;
const NAME_BYTES_MAX: usize = 128;

#[derive(Debug)]
pub(super) struct Switch {
    value: Option<Tree>,
    cases: Vec<(Arc<str>, Test)>,
    default: Option<Arc<str>>,
}

#[derive(Debug)]
enum Test {
    Equals(Tree),
    When(Condition),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// What cases with `equals` are held against: any JSON, with places in its texts.
    #[serde(default, deserialize_with = "given")]
    value: Option<Value>,
    /// The first that fits is taken.
    #[serde(deserialize_with = "bowline_model::shape::each_by_name")]
    cases: Vec<CaseConfig>,
    /// The edge to take if none fits. Without it, that is a failure.
    #[serde(default)]
    default: Option<String>,
}

/// One way. It has `equals` or `when`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CaseConfig {
    /// The name of the edge.
    name: String,
    /// Fits if the value is the same as this: any JSON, with places in its texts.
    #[serde(default, deserialize_with = "given")]
    equals: Option<Value>,
    /// Fits if this is true. A condition.
    #[serde(default)]
    when: Option<String>,
}

/// `null` is a value, too.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(format!("the name of a case has 1 to {NAME_BYTES_MAX} bytes and no control characters"));
    }
    if matches!(name, "success" | "failure" | "always") {
        return Err(format!("`{name}` already says when an edge is taken; a case needs another name"));
    }
    Ok(())
}

impl NodeType for Switch {
    const TYPE: &'static str = "switch";
    const ABOUT: &'static str = "Goes the way of the first case that fits.";
    const PORTS: &'static [&'static str] = &["the names of its cases"];
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Box<dyn Node> {
        if config.cases.is_empty() || config.cases.len() > CASES_MAX {
            building.mistake("/cases", format!("a switch has 1 to {CASES_MAX} cases"));
        }
        let value = config.value.as_ref().map(|value| building.tree("/value", value));
        let mut names = BTreeSet::new();
        let mut cases = Vec::with_capacity(config.cases.len());
        for (number, case) in config.cases.iter().enumerate() {
            let at = format!("/cases/{number}");
            if let Err(what) = check_name(&case.name) {
                building.mistake(&format!("{at}/name"), what);
            }
            if !names.insert(case.name.as_str()) {
                building.mistake(&format!("{at}/name"), format!("there is another case `{}`", case.name));
            }
            let test = match (&case.equals, &case.when) {
                (Some(_), None) if value.is_none() => {
                    building.mistake(&format!("{at}/equals"), "there is no `value` that it could be the same as");
                    continue;
                }
                (Some(equals), None) => Test::Equals(building.tree(&format!("{at}/equals"), equals)),
                (None, Some(when)) => Test::When(building.condition(&format!("{at}/when"), when)),
                _ => {
                    building.mistake(&at, "give `equals` or `when`");
                    continue;
                }
            };
            cases.push((Arc::from(case.name.as_str()), test));
        }
        if let Some(Err(what)) = config.default.as_deref().map(check_name) {
            building.mistake("/default", what);
        }
        Box::new(Self { value, cases, default: config.default.map(Arc::from) })
    }
}

impl Node for Switch {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        let value = self.value.as_ref().map(|value| value.value(visit.context)).transpose()?;
        let mut taken = None;
        for (name, test) in &self.cases {
            let fits = match test {
                Test::Equals(tree) => match &value {
                    Some(value) => same(value, &*tree.value(visit.context)?),
                    None => false,
                },
                Test::When(condition) => condition.holds(visit.context)?,
            };
            if fits {
                taken = Some(name);
                break;
            }
        }
        let name = taken.or(self.default.as_ref()).ok_or_else(|| failure("no case fits, and there is no default"))?;
        Ok(by_port(name, json!({"case": name})))
    }

    fn ports(&self) -> Ports {
        let mut names: Vec<Arc<str>> = self.cases.iter().map(|(name, _)| name.clone()).collect();
        names
            .extend(self.default.iter().filter(|default| self.cases.iter().all(|(name, _)| name != *default)).cloned());
        Ports::Named(names)
    }
}

/// As `==` has it in expressions: 1 is 1.0.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || (x.is_f64() != y.is_f64() && x.as_f64() == y.as_f64()),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| same(x, y)))
        }
        (a, b) => a == b,
    }
}
