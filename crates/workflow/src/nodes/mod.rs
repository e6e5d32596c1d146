//! The types of nodes there are: a file each, and one list.
//!
//! Enters: the configuration of a node as somebody wrote it. Leaves: a [`Node`] with everything read and compiled, or what is
//! wrong with it and where. A new type is a file here and a line in [`ALL`].

mod approval;
mod building;
mod calling;
mod command;
mod condition;
mod end;
mod fields;
mod foreach;
mod http_request;
mod join;
mod log;
mod math;
mod parallel;
mod rabbitmq_publish;
mod sleep;
mod span;
mod start;
mod switch;
mod task;
#[cfg(test)]
mod tests;
mod transform;
mod variable_set;
mod wait_event;
mod workflow;

use bowline_model::RunError;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub(crate) use approval::{check_title, check_written_title};
pub(crate) use building::Building;
use calling::{Caller, CallerType, Calling};
pub(crate) use fields::{Condition, Text, Tree};
pub(crate) use span::check_moment;

use crate::expression::{Context, Reference};
use crate::node::{Answer, Done, Next, Node, Ports, Shape, Visit};

/// What is known of a type of node before there is a node.
pub(crate) trait NodeType {
    /// As definitions name it.
    const TYPE: &'static str;
    /// One sentence for people.
    const ABOUT: &'static str;
    /// The edges that may leave it, apart from `failure` and `always`.
    const PORTS: &'static [&'static str] = &["success"];
    /// What its configuration says.
    type Config: DeserializeOwned + JsonSchema;

    /// Compiles what the configuration says. Mistakes are told to `building`; what is returned then is never used.
    fn build(config: Self::Config, building: &mut Building<'_>) -> Box<dyn Node>;
}

/// All types, in the order in which they are shown.
static ALL: [Entry; 19] = [
    node::<start::Start>(),
    node::<end::End>(),
    node::<condition::Condition>(),
    node::<switch::Switch>(),
    node::<variable_set::VariableSet>(),
    node::<math::Math>(),
    node::<transform::Transform>(),
    node::<log::Log>(),
    node::<sleep::Sleep>(),
    node::<wait_event::WaitEvent>(),
    node::<approval::Approval>(),
    caller::<http_request::HttpRequest>(),
    caller::<rabbitmq_publish::RabbitmqPublish>(),
    caller::<task::Task>(),
    caller::<command::Command>(),
    caller::<workflow::Workflow>(),
    node::<foreach::Foreach>(),
    node::<parallel::Parallel>(),
    node::<join::Join>(),
];

/// Makes something of a configuration, unless it cannot be read.
type Build<T> = fn(Map<String, Value>, &mut Building<'_>) -> Option<Box<T>>;

/// One line of the list.
pub(crate) struct Entry {
    pub name: &'static str,
    about: &'static str,
    ports: &'static [&'static str],
    schema: fn(&mut SchemaGenerator) -> Schema,
    build: Build<dyn Node>,
    /// For those whose work is one job: they can be the inside of a loop.
    caller: Option<Build<dyn Caller>>,
}

const fn node<T: NodeType>() -> Entry {
    Entry {
        name: T::TYPE,
        about: T::ABOUT,
        ports: T::PORTS,
        schema: |generator| generator.root_schema_for::<T::Config>(),
        build: |config, building| Some(T::build(building.read(config)?, building)),
        caller: None,
    }
}

const fn caller<T: CallerType>() -> Entry {
    Entry {
        name: T::TYPE,
        about: T::ABOUT,
        ports: &["success"],
        schema: |generator| generator.root_schema_for::<T::Config>(),
        build: |config, building| Some(Box::new(Calling(T::build(building.read(config)?, building)))),
        caller: Some(|config, building| Some(Box::new(T::build(building.read(config)?, building)))),
    }
}

/// The type with this name.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

/// The names of all types.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|entry| entry.name)
}

impl Entry {
    /// The node, unless its configuration cannot be read.
    pub fn build(&self, config: Map<String, Value>, building: &mut Building<'_>) -> Option<Box<dyn Node>> {
        let node = (self.build)(config, building)?;
        Some(Box::new(Built { node, references: building.take_references() }))
    }
}

/// A type of node, as it is shown to people and to editors.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NodeTypeView {
    #[serde(rename = "type")]
    pub node_type: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The edges that may leave it, apart from `failure` and `always`.
    pub ports: Vec<&'static str>,
    /// Whether it can be the inside of a `foreach`.
    pub in_foreach: bool,
    /// The JSON Schema of its `config`.
    pub schema: Schema,
}

/// All types of nodes there are.
pub fn node_types() -> Vec<NodeTypeView> {
    ALL.iter()
        .map(|entry| NodeTypeView {
            node_type: entry.name,
            about: entry.about,
            ports: entry.ports.to_vec(),
            in_foreach: entry.caller.is_some(),
            schema: (entry.schema)(&mut SchemaGenerator::default()),
        })
        .collect()
}

/// A node together with what its expressions name, which was noted while they were compiled.
#[derive(Debug)]
struct Built {
    node: Box<dyn Node>,
    references: Vec<Reference>,
}

impl Node for Built {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        self.node.enter(visit)
    }

    fn answered(&self, visit: Visit<'_>, answer: Answer) -> Result<Next, RunError> {
        self.node.answered(visit, answer)
    }

    fn references(&self) -> Vec<&Reference> {
        self.references.iter().collect()
    }

    fn received(&self, context: &Context) -> Value {
        let named = self.references.iter();
        let named = named.filter_map(|reference| Some((reference.to_string(), context.named(reference)?)));
        Value::Object(named.collect())
    }

    fn ports(&self) -> Ports {
        self.node.ports()
    }

    fn shape(&self) -> Shape {
        self.node.shape()
    }

    fn pinned(&self, output: &Value) -> Result<Done, String> {
        self.node.pinned(output)
    }

    fn asks_people(&self) -> bool {
        self.node.asks_people()
    }

    fn has_effect(&self) -> bool {
        self.node.has_effect()
    }
}
