//! `command`: a command on hosts, as `POST /jobs` takes it.
//!
//! Parameters and hosts can have places. The selector and a command that is written here cannot: a value in a selector could
//! choose other hosts, and the places of a command are its own, filled for every host.

use bowline_model::fleet::{CommandSpec, Rollout};
use bowline_model::host::Selector;
use bowline_model::{HostName, InventoryName, JobPolicy, Lane, ResourceName, RunError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Building;
use super::calling::{Caller, CallerType};
use super::fields::{Tree, failure};
use super::task::check_priority;
use crate::node::{Call, CallWhat, Visit};

#[derive(Debug)]
pub(super) struct Command {
    /// What does not depend on anything.
    fixed: Map<String, Value>,
    params: Option<Tree>,
    hosts: Option<Tree>,
    timeout_ms: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// The name of a command type, `{name, version}`, or a command as such a type has it.
    command: Value,
    /// Parameters of the command. Values can have places.
    #[serde(default)]
    params: Option<Map<String, Value>>,
    /// The hosts, by name: a list of texts with places, or a place with a list. These, or `selector`.
    #[serde(default)]
    hosts: Option<Value>,
    /// Which hosts, such as `role=web & site!=fra`.
    #[serde(default)]
    selector: Option<String>,
    /// `main` unless given.
    #[serde(default)]
    inventory: Option<InventoryName>,
    /// How the command spreads over its hosts.
    #[serde(default, deserialize_with = "bowline_model::shape::maybe_by_name")]
    rollout: Option<Rollout>,
    /// How long all of it may take, from the moment it begins.
    #[serde(default)]
    #[schemars(range(min = 1, max = 604_800_000))]
    deadline_ms: Option<u64>,
    #[serde(default)]
    lane: Option<Lane>,
    /// Higher goes first within its line.
    #[serde(default)]
    #[schemars(range(min = -100, max = 100))]
    priority: Option<i16>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Versioned {
    #[serde(rename = "name")]
    _name: ResourceName,
    #[serde(default, rename = "version")]
    _version: Option<u32>,
}

fn check_command(command: &Value, building: &mut Building<'_>) {
    let bad = match command {
        Value::String(name) => ResourceName::new(name).err().map(|error| (String::new(), error.to_string())),
        Value::Object(fields) if fields.contains_key("name") => {
            Versioned::deserialize(command).err().map(|error| (String::new(), error.to_string()))
        }
        Value::Object(_) => match serde_path_to_error::deserialize::<_, CommandSpec>(command) {
            Ok(spec) => spec.check().err().map(|bad| (format!("/{}", bad.path.replace('.', "/")), bad.what)),
            Err(error) => Some((format!("/{}", error.path()).replace("/.", ""), error.inner().to_string())),
        },
        _ => Some((String::new(), "must be the name of a command, or an object".to_owned())),
    };
    if let Some((at, what)) = bad {
        building.mistake(&format!("/command{at}"), what);
    }
}

impl CallerType for Command {
    const TYPE: &'static str = "command";
    const ABOUT: &'static str = "Runs a command on hosts. The output has the status, the exit code and the beginning of what was written, of each host.";
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Self {
        check_command(&config.command, building);
        check_priority(config.priority, building);
        match (&config.hosts, &config.selector) {
            (None, None) => {
                building.mistake("/hosts", "a command needs hosts or a selector; the selector `all` is every host");
            }
            (Some(_), Some(_)) => building.mistake("/selector", "give hosts or a selector, not both"),
            (Some(Value::Array(_) | Value::String(_)), None) => {}
            (Some(_), None) => building.mistake("/hosts", "must be a list of names, or a place with a list"),
            (None, Some(text)) => {
                if let Err(error) = Selector::parse(text) {
                    building.mistake("/selector", error.to_string());
                }
            }
        }
        if let Some(Err(error)) = config.rollout.as_ref().map(Rollout::check) {
            building.mistake("/rollout", error.to_string());
        }
        if config.deadline_ms.is_some_and(|millis| !(1..=JobPolicy::TIMEOUT_MAX_MS).contains(&millis)) {
            building.mistake("/deadline_ms", "must be between 1 and 604800000 (seven days)");
        }
        let mut fixed = Map::from_iter([("command".to_owned(), config.command)]);
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                fixed.insert(name.to_owned(), value);
            }
        };
        put("selector", config.selector.map(Value::from));
        put("inventory", config.inventory.map(|name| name.as_str().into()));
        put("rollout", config.rollout.and_then(|rollout| serde_json::to_value(rollout).ok()));
        put("deadline_ms", config.deadline_ms.map(Value::from));
        put("lane", config.lane.map(|lane| lane.as_str().into()));
        put("priority", config.priority.map(Value::from));
        Self {
            fixed,
            params: config.params.map(|params| building.tree("/params", &Value::Object(params))),
            hosts: config.hosts.map(|hosts| building.tree("/hosts", &hosts)),
            timeout_ms: config.deadline_ms.unwrap_or(JobPolicy::TIMEOUT_MAX_MS),
        }
    }
}

impl Caller for Command {
    fn call(&self, visit: Visit<'_>) -> Result<Call, RunError> {
        let mut request = self.fixed.clone();
        if let Some(params) = &self.params {
            request.insert("params".to_owned(), params.value(visit.context)?.into_owned());
        }
        if let Some(hosts) = &self.hosts {
            let hosts = hosts.value(visit.context)?.into_owned();
            let names = hosts.as_array().ok_or_else(|| failure("hosts: must be a list of names"))?;
            for name in names {
                let name = name.as_str().ok_or_else(|| failure("hosts: must be a list of names"))?;
                HostName::new(name).map_err(|error| failure(format!("hosts: {error}")))?;
            }
            request.insert("hosts".to_owned(), hosts);
        }
        Ok(Call {
            what: CallWhat::Command(Value::Object(request)),
            policy: visit.policy.clone(),
            timeout_ms: self.timeout_ms,
            deadline_ms: None,
        })
    }
}
