//! A blueprint, checked whole: a [`Program`], or everything that is wrong, each with its place.
//!
//! Which states a handler leads to is known when it answers, not before. So a state that nothing written leads to is a
//! mistake only if no handler could lead to it: no state that can be reached has one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bowline_model::blueprint::{Action, BlueprintSpec, StateSpec};
use bowline_model::workflow::{NodeId, NodePolicy};
use bowline_model::{JobPolicy, TaskType};
use serde_json::{Map, Value};

use super::act::Act;
use super::data::Start;
use super::enter::Enter;
use super::perform::{check_action, retry};
use super::render::Rendered;
use super::{START, States, act_of};
use crate::compile::{Mistakes, NODES_MAX, STEPS_MAX, check_id, path_under, unknown};
use crate::expression::{Patterns, Reference};
use crate::node::Node;
use crate::nodes::{Building, Text, check_moment, check_written_title};
use crate::program::{DefinitionMistake, NodeIndex, Program, ProgramNode, Size, Way};
use crate::reach::Reach;

/// States that a blueprint may have. Each becomes two nodes.
const STATES_MAX: usize = NODES_MAX / 2 - 1;
/// How long to wait before a handler is asked again, unless the state says so.
const RETRY_DELAY_MS: u64 = 250;

impl Program {
    /// Checks a blueprint and makes it ready to run.
    pub fn of_blueprint(spec: &BlueprintSpec) -> Result<Self, Vec<DefinitionMistake>> {
        let mut mistakes = Mistakes::default();
        if spec.states.len() > STATES_MAX {
            let what = format!("a blueprint has at most {STATES_MAX} states, this one has {}", spec.states.len());
            mistakes.add("states", what);
            return Err(mistakes.into_list());
        }
        if !(1..=STEPS_MAX).contains(&spec.max_steps) {
            mistakes.add("max_steps", format!("must be between 1 and {STEPS_MAX}"));
        }
        let states: States = Arc::new(spec.states.keys().cloned().collect());
        if !states.contains(&spec.start) {
            mistakes.add("start", no_state(&spec.start, &states));
        }
        let mut nodes: Vec<ProgramNode> = vec![node(START, "blueprint_start", Box::new(Start), NodePolicy::default())];
        let mut references: Vec<(String, Vec<Reference>)> = Vec::new();
        let (mut patterns, mut size) = (Patterns::of_definition(), Size::default());
        for (name, state) in &spec.states {
            let base = format!("states.{name}");
            if let Err(what) = check_id(name) {
                mistakes.add(&base, what);
            }
            check_state(&base, state, &states, &mut mistakes);
            let mut building = Building::new(&base, &[], &mut mistakes, &mut patterns);
            let (enter, act) = build(name, state, &states, &mut building);
            size.add(building.compiled(), false);
            let named = building.take_references();
            references.push((base, named));
            nodes.push(node(name, "state", Box::new(enter), policy(state)));
            nodes.push(node(act_of(name).as_str(), "state_act", Box::new(act), NodePolicy::default()));
        }
        let by_id: HashMap<NodeId, NodeIndex> =
            nodes.iter().enumerate().map(|(n, node)| (node.id.clone(), n)).collect();
        check_references(&references, &by_id, &mut mistakes);
        check_all_are_reached(spec, &mut mistakes);
        super::cycles::check(spec, &mut mistakes);
        if !mistakes.is_empty() {
            return Err(mistakes.into_list());
        }
        connect(spec, &by_id, &mut nodes);
        let (reach, variables) = (Reach::of(nodes.len()), Map::new());
        size.pattern_bytes = patterns.bytes();
        Ok(Self { nodes, by_id, start: 0, on_error: None, variables, max_steps: spec.max_steps, reach, size })
    }
}

fn node(id: &str, node_type: &'static str, node: Box<dyn Node>, policy: NodePolicy) -> ProgramNode {
    ProgramNode { id: id.into(), node_type, node, policy, out: Vec::new(), into: 0, undo: None }
}

fn no_state(name: &str, states: &BTreeSet<String>) -> String {
    unknown("there is no state", name, states.iter().map(String::as_str))
}

/// How patient to be with the handler of a state.
fn policy(state: &StateSpec) -> NodePolicy {
    let retry = retry(state.retries, state.retry_delay_ms.unwrap_or(RETRY_DELAY_MS));
    NodePolicy { retry: Some(retry), timeout_ms: state.timeout_ms }
}

/// What can be wrong with a state beside its expressions.
fn check_state(base: &str, state: &StateSpec, states: &States, mistakes: &mut Mistakes) {
    let handler_only = [
        ("retries", state.retries > 0),
        ("retry_delay_ms", state.retry_delay_ms.is_some()),
        ("timeout_ms", state.timeout_ms.is_some()),
        ("deadline_ms", state.deadline_ms.is_some()),
    ];
    match &state.handler {
        Some(handler) if handler.is_reserved() => {
            let what = format!("types that begin with `{}` are not for everybody", TaskType::RESERVED);
            mistakes.add(format!("{base}.handler"), what);
        }
        Some(_) => {}
        None => {
            for (field, _) in handler_only.into_iter().filter(|(_, given)| *given) {
                mistakes.add(format!("{base}.{field}"), "belongs to a state with a `handler`");
            }
        }
    }
    for (field, millis) in [("timeout_ms", state.timeout_ms), ("deadline_ms", state.deadline_ms)] {
        if millis.is_some_and(|millis| !(1..=JobPolicy::TIMEOUT_MAX_MS).contains(&millis)) {
            let what = format!("must be between 1 and {} (seven days)", JobPolicy::TIMEOUT_MAX_MS);
            mistakes.add(format!("{base}.{field}"), what);
        }
    }
    if let Some(Err(bad)) = policy(state).retry.as_ref().map(bowline_model::RetryPolicy::check) {
        let (field, min) = if bad.field == "max_attempts" { ("retries", 0) } else { ("retry_delay_ms", bad.min) };
        let max = if field == "retries" { bad.max - 1 } else { 86_400_000 };
        mistakes.add(format!("{base}.{field}"), format!("must be between {min} and {max}"));
    }
    let mut leading = None;
    for (index, action) in state.actions.iter().enumerate() {
        // To find what may have been meant takes time, for each of many thousand names.
        if mistakes.is_full() {
            return;
        }
        let at = format!("{base}.actions[{index}]");
        if let Err(what) = check_action(action, states) {
            // The message begins with the place in the action.
            let (path, what) = what.split_once(": ").unwrap_or(("", &what));
            mistakes.add(format!("{at}.{path}"), what);
        }
        match (leading, action.leads_on()) {
            (None, true) => leading = Some(index),
            (None, false) => {}
            (Some(first), true) => mistakes.add(at, format!("actions[{first}] leads on already; at most one can")),
            (Some(first), false) => {
                mistakes.add(at, format!("actions[{first}] has led on by then; change data before it"));
            }
        }
    }
    for (index, transition) in state.transitions.iter().enumerate() {
        if mistakes.is_full() {
            return;
        }
        let at = format!("{base}.transitions[{index}]");
        if !states.contains(&transition.to) {
            mistakes.add(format!("{at}.to"), no_state(&transition.to, states));
        }
        if transition.when.is_none() && index + 1 < state.transitions.len() {
            mistakes.add(at, "this one is always taken, so no other can follow it; give it a `when`");
        }
    }
    if let Some(target) = state.on_failure.as_ref().filter(|target| !states.contains(*target)) {
        mistakes.add(format!("{base}.on_failure"), no_state(target, states));
    }
    let ends = state.is_final || state.failed;
    let word = if state.is_final { "final" } else { "failed" };
    if ends && !state.transitions.is_empty() {
        mistakes.add(format!("{base}.transitions"), format!("the state is {word}, so nothing leads on from it"));
    }
    if ends && let Some(index) = leading {
        mistakes.add(format!("{base}.actions[{index}]"), format!("the state is {word}, so nothing leads on from it"));
    }
    if leading.is_some() && !state.transitions.is_empty() {
        mistakes.add(format!("{base}.transitions"), "an action leads on already, so these are never looked at");
    }
    if state.message.is_some() && !state.failed {
        mistakes.add(format!("{base}.message"), "belongs to a state that is `failed`");
    }
    if !ends && leading.is_none() && state.transitions.is_empty() && state.handler.is_none() {
        mistakes.add(base, "nothing leads on from here; if the run ends here, say `final: true`");
    }
}

fn build(name: &str, state: &StateSpec, states: &States, building: &mut Building<'_>) -> (Enter, Act) {
    let mut set = Vec::new();
    let mut action = None;
    for (index, written) in state.actions.iter().enumerate() {
        let at = format!("/actions/{index}");
        match written {
            Action::Set(changed) => set.push(building.tree(&format!("{at}/set"), &Value::Object(changed.clone()))),
            written => {
                let rendered = Rendered::build(&at, written, building);
                if let (Action::Sleep(_), Some(Err(what))) = (written, rendered.fixed_text().map(check_moment)) {
                    building.mistake(&format!("{at}/sleep/until"), what);
                }
                if let Action::AwaitApproval(approval) = written
                    && let Err(what) = check_written_title(&approval.title)
                {
                    building.mistake(&format!("{at}/await_approval/title"), what);
                }
                action = Some(rendered);
            }
        }
    }
    let transitions = state.transitions.iter().enumerate().map(|(index, transition)| {
        let when = transition.when.as_deref();
        let condition = when.map(|when| building.condition(&format!("/transitions/{index}/when"), when));
        (condition, transition.to.clone())
    });
    let transitions = transitions.collect();
    let message: Option<Text> = building.maybe_text("/message", state.message.as_deref());
    let enter = Enter {
        state: name.into(),
        handler: state.handler.clone(),
        deadline_ms: state.deadline_ms,
        set,
        states: Arc::clone(states),
    };
    let act = Act {
        state: name.into(),
        action,
        transitions,
        failed: state.failed,
        message,
        is_final: state.is_final || state.failed,
        states: Arc::clone(states),
        ports: targets(state).into_iter().map(Arc::from).collect(),
    };
    (enter, act)
}

/// The states that what is written leads to, apart from failures.
pub(super) fn targets(state: &StateSpec) -> BTreeSet<&str> {
    let actions = state.actions.iter().flat_map(|action| action.targets().into_iter().map(|(_, state)| state));
    actions.chain(state.transitions.iter().map(|transition| transition.to.as_str())).collect()
}

/// Steps that expressions name are nodes that there are.
fn check_references(
    references: &[(String, Vec<Reference>)],
    by_id: &HashMap<NodeId, NodeIndex>,
    mistakes: &mut Mistakes,
) {
    for (base, references) in references {
        for reference in references {
            let Some(name) = reference.step() else { continue };
            if mistakes.is_full() || by_id.contains_key(&NodeId::from(name)) {
                continue;
            }
            let place = &reference.place;
            let what = unknown("there is no state", name, by_id.keys().map(NodeId::as_str));
            let path = path_under(base, &place.pointer);
            mistakes.add(path, format!("line {}, column {}: {what}", place.line, place.column));
        }
    }
}

/// Whether every state can be come to.
fn check_all_are_reached(spec: &BlueprintSpec, mistakes: &mut Mistakes) {
    if !spec.states.contains_key(&spec.start) {
        return;
    }
    let mut reached: BTreeSet<&str> = BTreeSet::from([spec.start.as_str()]);
    let mut ahead = vec![spec.start.as_str()];
    while let Some(name) = ahead.pop() {
        let Some(state) = spec.states.get(name) else { continue };
        // A handler may lead anywhere.
        if state.handler.is_some() && !(state.is_final || state.failed) {
            return;
        }
        for target in targets(state).into_iter().chain(state.on_failure.as_deref()) {
            if reached.insert(target) {
                ahead.push(target);
            }
        }
    }
    for name in spec.states.keys().filter(|name| !reached.contains(name.as_str())) {
        mistakes.add(format!("states.{name}"), "nothing leads here, and there is no handler that could");
    }
}

/// The edges that are known beforehand. Where a handler leads is known when it answers.
fn connect(spec: &BlueprintSpec, by_id: &HashMap<NodeId, NodeIndex>, nodes: &mut [ProgramNode]) {
    let at: BTreeMap<&str, NodeIndex> = spec
        .states
        .keys()
        .filter_map(|name| Some((name.as_str(), *by_id.get(&NodeId::from(name.as_str()))?)))
        .collect();
    let mut edges: Vec<(NodeIndex, Way, NodeIndex)> = Vec::new();
    if let Some(start) = at.get(spec.start.as_str()) {
        edges.push((0, Way::Success, *start));
    }
    for (name, state) in &spec.states {
        let Some(&enter) = at.get(name.as_str()) else { continue };
        // The two nodes of a state stand next to each other.
        let act = enter + 1;
        edges.push((enter, Way::Success, act));
        for target in targets(state) {
            edges.extend(at.get(target).map(|to| (act, Way::Port(target.into()), *to)));
        }
        if let Some(to) = state.on_failure.as_deref().and_then(|target| at.get(target)) {
            edges.extend([(enter, Way::Failure, *to), (act, Way::Failure, *to)]);
        }
    }
    for (from, way, to) in edges {
        nodes[from].out.push((way, to));
        nodes[to].into += 1;
    }
}
