//! Cycles of states: each needs a way out, as those of a graph do.
//!
//! A *way out* is a state elsewhere that one of them leads to; a handler, which may lead anywhere or nowhere; or a guard or a
//! decision without a state to go to, which ends the run. That something may fail is none, here and in a graph.

use std::collections::BTreeMap;

use bowline_model::blueprint::{Action, BlueprintSpec, StateSpec};

use super::compile::targets;
use super::perform::DECISIONS;
use crate::compile::{Groups, Mistakes, round};

pub(super) fn check(spec: &BlueprintSpec, mistakes: &mut Mistakes) {
    let states: Vec<(&str, &StateSpec)> = spec.states.iter().map(|(name, state)| (name.as_str(), state)).collect();
    let at: BTreeMap<&str, usize> = states.iter().enumerate().map(|(n, (name, _))| (*name, n)).collect();
    let out: Vec<Vec<usize>> = states
        .iter()
        .map(|(_, state)| {
            let all = targets(state).into_iter().chain(state.on_failure.as_deref());
            all.filter_map(|target| at.get(target).copied()).collect()
        })
        .collect();
    let pairs = out.iter().enumerate().flat_map(|(from, to)| to.iter().map(move |to| (from, *to)));
    let groups = Groups::new(states.len(), pairs);
    for (number, members) in groups.members.iter().enumerate() {
        let within = |state: &usize| groups.of[*state] == number;
        let is_cycle = members.len() > 1 || members.iter().any(|state| out[*state].contains(state));
        let has_way_out = members.iter().any(|state| !out[*state].iter().all(within) || may_end(states[*state].1));
        if is_cycle && !has_way_out {
            let Some(first) = members.iter().min() else { continue };
            let names = round(members, |state| states[state].0);
            let what = format!("a run that comes here goes round for ever: {names}");
            mistakes.add(format!("states.{}", states[*first].0), what);
        }
    }
}

/// Whether a run can leave a state otherwise than by what is written.
fn may_end(state: &StateSpec) -> bool {
    // Whoever says where a run ends and where it goes on, too, has been told that these do not fit.
    state.handler.is_some()
        || state.is_final
        || state.failed
        || state.transitions.last().is_some_and(|last| last.when.is_some())
        || state.actions.iter().any(undecided)
}

fn undecided(action: &Action) -> bool {
    let Action::AwaitApproval(approval) = action else { return false };
    let can_come = |word: &&&str| **word != "expired" || approval.timeout_seconds.is_some();
    DECISIONS.iter().filter(can_come).any(|word| !approval.transitions.contains_key(*word))
}
