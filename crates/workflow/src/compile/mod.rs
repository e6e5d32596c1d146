//! Definitions, checked whole: a [`Program`], or everything that is wrong.
//!
//! Enters: a [`WorkflowSpec`] as somebody wrote it. Leaves: a program that a run can follow, or a list of mistakes, each with
//! its place. Every walk over the graph is a loop and takes time in proportion to nodes and edges, however the graph is made.
//!
//! A *way out* of a cycle is an edge that leaves it, or a port without an edge, where a path ends.

mod cycles;
mod edges;
mod graph;
mod mistakes;
mod nodes;
mod read;
mod steps;
#[cfg(test)]
mod tests;
mod undos;

use std::collections::HashMap;

use bowline_model::workflow::{NodeId, WorkflowSpec};

use crate::expression::Context;
use crate::node::Shape;
use crate::program::{DefinitionMistake, NodeIndex, Program, ProgramNode};
use crate::reach::Reach;

pub(crate) use cycles::round;
use graph::Graph;
pub(crate) use graph::Groups;
pub use mistakes::nearest;
pub(crate) use mistakes::{Mistakes, path_under, read_at, unknown};
pub(crate) use nodes::check_id;
pub use read::{check_blueprint, check_workflow, read_blueprint, read_workflow};

/// Nodes that a workflow may have.
pub const NODES_MAX: usize = 10_000;
/// Edges that a workflow may have.
pub const EDGES_MAX: usize = 50_000;
/// Steps that a workflow may allow one run.
pub const STEPS_MAX: u32 = 1_000_000;
/// Mistakes that are told of at once.
pub const MISTAKES_MAX: usize = 100;

impl Program {
    /// Checks a definition and makes it ready to run.
    pub fn compile(spec: &WorkflowSpec) -> Result<Self, Vec<DefinitionMistake>> {
        let mut mistakes = Mistakes::default();
        check_sizes(spec, &mut mistakes);
        if !mistakes.is_empty() {
            return Err(mistakes.into_list());
        }
        check_variables(spec, &mut mistakes);
        let by_id = nodes::by_id(spec, &mut mistakes);
        let (built, size) = nodes::build(spec, &mut mistakes);
        let graph = edges::connect(spec, &by_id, &built, &mut mistakes);
        let start = find_start(spec, &built, &graph, &mut mistakes);
        let on_error = find_handler(spec, &by_id, start, &mut mistakes);
        let undos = undos::find(spec, &by_id, &built, &graph, on_error, &mut mistakes);
        edges::check_joins_and_forks(&built, &graph, &mut mistakes);
        if let Some(start) = start {
            let mut reached = graph.reached([start].into_iter().chain(on_error));
            for (_, undo) in undos::pairs(&undos) {
                reached[undo] = true;
            }
            check_all_are_reached(spec, &by_id, &graph, &reached, &mut mistakes);
            cycles::check(spec, &built, &graph, &mut mistakes);
            let known = if graph.has_loose_ends() { vec![false; reached.len()] } else { reached };
            steps::check(spec, &by_id, &built, &graph, (&undos, &known), (start, on_error), &mut mistakes);
        }
        if !mistakes.is_empty() {
            return Err(mistakes.into_list());
        }
        // Without mistakes all of these are there.
        let (Some(start), Some(nodes)) = (start, finish(spec, built, &graph, &undos)) else {
            return Err(vec![DefinitionMistake { path: "nodes".to_owned(), what: "there is no start".to_owned() }]);
        };
        let (variables, max_steps) = (spec.variables.clone(), spec.max_steps);
        let reach = Reach::of(nodes.len());
        Ok(Self { nodes, by_id, start, on_error, variables, max_steps, reach, size })
    }
}

fn check_sizes(spec: &WorkflowSpec, mistakes: &mut Mistakes) {
    if spec.nodes.len() > NODES_MAX {
        mistakes.add("nodes", format!("a workflow has at most {NODES_MAX} nodes, this one has {}", spec.nodes.len()));
    }
    if spec.edges.len() > EDGES_MAX {
        mistakes.add("edges", format!("a workflow has at most {EDGES_MAX} edges, this one has {}", spec.edges.len()));
    }
    if !(1..=STEPS_MAX).contains(&spec.max_steps) {
        mistakes.add("max_steps", format!("must be between 1 and {STEPS_MAX}"));
    }
}

fn check_variables(spec: &WorkflowSpec, mistakes: &mut Mistakes) {
    let mut context = Context::new(().into(), ().into(), ().into());
    for (name, value) in &spec.variables {
        if let Err(error) = context.set_variable(name, value.clone()) {
            mistakes.add(format!("variables.{name}"), error.message());
        }
    }
}

fn find_start(spec: &WorkflowSpec, built: &nodes::Nodes, graph: &Graph, mistakes: &mut Mistakes) -> Option<NodeIndex> {
    // By its type and not by what was built: a start with a mistake in it is a start nevertheless.
    let mut starts = (0..spec.nodes.len()).filter(|index| match built.get(*index) {
        Some(node) => node.shape() == Shape::Start,
        None => spec.nodes[*index].node_type == "start",
    });
    let Some(start) = starts.next() else {
        mistakes.add("nodes", "there is no node of type `start`, where a run would begin");
        return None;
    };
    for other in starts {
        let first = &spec.nodes[start].id;
        mistakes
            .add(format!("nodes[{other}].type"), format!("there is a start already: `{first}`; a workflow has one"));
    }
    for (edge, _) in graph.into(start) {
        mistakes.add(format!("edges[{edge}].target"), "nothing leads to the start; a loop goes back to a later node");
    }
    Some(start)
}

fn find_handler(
    spec: &WorkflowSpec,
    by_id: &HashMap<NodeId, NodeIndex>,
    start: Option<NodeIndex>,
    mistakes: &mut Mistakes,
) -> Option<NodeIndex> {
    let id = spec.on_error.as_ref()?;
    let found = by_id.get(id).copied();
    if found.is_none() {
        mistakes
            .add("on_error", unknown("there is no node", id.as_str(), spec.nodes.iter().map(|node| node.id.as_str())));
    } else if found == start {
        mistakes.add("on_error", "the start cannot take over: the run would begin again without an end");
        return None;
    }
    found
}

/// Each part of the graph that no path leads to is named once, by the node where it begins.
fn check_all_are_reached(
    spec: &WorkflowSpec,
    by_id: &HashMap<NodeId, NodeIndex>,
    graph: &Graph,
    reached: &[bool],
    mistakes: &mut Mistakes,
) {
    // An edge to a node that is not there was meant to lead somewhere, perhaps to one of these.
    if graph.has_loose_target() {
        return;
    }
    let mut reached = reached.to_vec();
    // What a wrong edge leads to would be reached if it were right.
    graph.reach(&mut reached, graph.without_source().iter().copied());
    // First those that nothing leads to; what is left then are cycles.
    let begins = |node: &NodeIndex| graph.into(*node).next().is_none();
    let first = (0..reached.len()).filter(begins).collect::<Vec<_>>();
    for index in first.into_iter().chain(0..reached.len()) {
        if reached[index] {
            continue;
        }
        let behind = graph.reach(&mut reached, [index]) - 1;
        let id = &spec.nodes[index].id;
        // No edge can name the second of two with the same id, and that has been said.
        if by_id.get(id) == Some(&index) {
            let more = match behind {
                0 => String::new(),
                1 => ", nor to the node behind it".to_owned(),
                several => format!(", nor to the {several} nodes behind it"),
            };
            let what = format!("no path leads from the start to `{}`{more}", mistakes::shown(id.as_str()));
            mistakes.add(format!("nodes[{index}]"), what);
        }
    }
}

fn finish(
    spec: &WorkflowSpec,
    built: nodes::Nodes,
    graph: &Graph,
    undos: &[Option<NodeIndex>],
) -> Option<Vec<ProgramNode>> {
    let types = spec.nodes.iter().map(|node| crate::nodes::find(&node.node_type).map(|entry| entry.name));
    let nodes = spec.nodes.iter().zip(types).zip(built.into_iter().enumerate());
    nodes
        .map(|((node, node_type), (index, built))| {
            Some(ProgramNode {
                id: node.id.clone(),
                node_type: node_type?,
                node: built?,
                policy: node.policy.clone(),
                out: graph.out(index).map(|(_, way, target)| (way.clone(), target)).collect(),
                into: u32::try_from(graph.into(index).count()).ok()?,
                undo: undos[index],
            })
        })
        .collect()
}
