//! A state does what it wants done, and the next one follows.

use std::sync::Arc;

use bowline_model::RunError;
use bowline_model::blueprint::{Action, HandlerAnswer, TASK_RESULT};
use bowline_model::workflow::NodeId;
use serde_json::{Map, Value, json};

use super::States;
use super::data::{Changes, data_of, failure};
use super::perform::{Doing, begin, check_chosen_action, follow};
use super::render::Rendered;
use crate::compile::unknown;
use crate::expression::{Context, Insert};
use crate::node::{Answer, Done, Exit, Next, Node, Ports, Visit};
use crate::nodes::{Condition, Text};

/// The second node of a state.
#[derive(Debug)]
pub(super) struct Act {
    pub state: Box<str>,
    /// What the blueprint says is done here, unless the handler says something else.
    pub action: Option<Rendered>,
    /// Where it goes on if nothing leads on: condition and state.
    pub transitions: Vec<(Option<Condition>, String)>,
    pub failed: bool,
    pub message: Option<Text>,
    /// Whether the run ends here, whatever a handler says.
    pub is_final: bool,
    pub states: States,
    pub ports: Vec<Arc<str>>,
}

impl Act {
    /// What the handler wants done, as the first node left it. A person may have written another output in its place.
    fn wanted(&self, context: &Context) -> Result<Option<Action>, RunError> {
        let Some(output) = context.output(&self.state) else { return Ok(None) };
        let bad = |what: String| failure(format!("the output of state `{}`: {what}", self.state));
        let actions = output.get("actions").cloned().unwrap_or_default();
        let answer = HandlerAnswer::read(json!({"actions": if actions.is_null() { json!([]) } else { actions }}));
        let mut leading = answer.map_err(bad)?.actions.into_iter().filter(Action::leads_on);
        match (leading.next(), leading.next()) {
            (Some(_), Some(_)) => Err(bad("at most one action can lead on".to_owned())),
            (Some(action), None) if self.is_final => {
                Err(bad(format!("actions[0].{}: the state is final, so nothing leads on from it", action.word())))
            }
            (Some(action), None) => {
                check_chosen_action(&action, &self.states).map_err(|what| bad(format!("actions[0].{what}")))?;
                Ok(Some(action))
            }
            (None, _) => Ok(None),
        }
    }

    fn to(state: String, output: Map<String, Value>, changes: Changes) -> Next {
        let mut output = output;
        output.insert("to".to_owned(), json!(state));
        let exit = Exit::To(NodeId(state.into()));
        Next::Done(Done { output: Value::Object(output), exit, set: changes.into_set() })
    }

    /// The run is over.
    fn end(&self, context: &Context) -> Result<Next, RunError> {
        let data = data_of(context);
        let output = if self.failed {
            let message = match &self.message {
                Some(message) => message.text(context, Insert::Text)?,
                None => format!("the run ended in state `{}`", self.state),
            };
            json!({"message": message, "state": self.state, "data": data})
        } else {
            Value::Object(data)
        };
        Ok(Next::Done(Done { output, exit: Exit::End { failed: self.failed }, set: Vec::new() }))
    }
}

impl Node for Act {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        let action = match (self.wanted(visit.context)?, &self.action) {
            (Some(action), _) => Some(action),
            (None, Some(rendered)) => Some(rendered.render(visit.context)?),
            (None, None) => None,
        };
        if let Some(action) = action {
            return Ok(match begin(action, visit)? {
                Doing::Go(state) => Self::to(state, Map::new(), Changes::new(visit.context)),
                Doing::Wait(wait) => Next::Wait(wait),
            });
        }
        if self.transitions.is_empty() {
            return self.end(visit.context);
        }
        for (condition, state) in &self.transitions {
            let holds = condition.as_ref().map_or(Ok(true), |condition| condition.holds(visit.context))?;
            if holds {
                return Ok(Self::to(state.clone(), Map::new(), Changes::new(visit.context)));
            }
        }
        Err(failure(format!("no transition of state `{}` holds", self.state)))
    }

    fn answered(&self, visit: Visit<'_>, answer: Answer) -> Result<Next, RunError> {
        // States that follow are never places, so what was written says where it goes.
        let wanted = self.wanted(visit.context)?;
        let written = wanted.as_ref().or_else(|| self.action.as_ref().map(Rendered::written));
        let Some(action) = written else {
            return Err(failure(format!("state `{}` waits for nothing, but heard {}", self.state, answer.word())));
        };
        let (state, result) = follow(action, answer)?;
        let mut changes = Changes::new(visit.context);
        let mut output = Map::new();
        if let Some(result) = result {
            if let Value::Object(result) = &result {
                output.clone_from(result);
            }
            changes.task_result(result).map_err(failure)?;
        }
        Ok(Self::to(state, output, changes))
    }

    fn received(&self, context: &Context) -> Value {
        Value::Object(data_of(context))
    }

    fn ports(&self) -> Ports {
        Ports::Named(self.ports.clone())
    }

    /// As it leaves it by itself: `to` says which state follows, and everything else is what the task said.
    fn pinned(&self, output: &Value) -> Result<Done, String> {
        if self.is_final {
            return match output.get("to") {
                Some(_) => Err(".to: the state is final, so nothing leads on from it".to_owned()),
                None => Ok(Done { output: output.clone(), exit: Exit::End { failed: self.failed }, set: Vec::new() }),
            };
        }
        let Some(Value::String(to)) = output.get("to") else {
            return Err(".to: name the state that follows".to_owned());
        };
        if !self.states.contains(to) {
            let known = self.states.iter().map(String::as_str);
            return Err(format!(".to: {}", unknown("there is no state", to, known)));
        }
        let mut said = output.as_object().cloned().unwrap_or_default();
        said.remove("to");
        let set = if said.is_empty() { Vec::new() } else { vec![(TASK_RESULT.into(), Value::Object(said))] };
        Ok(Done { output: output.clone(), exit: Exit::To(NodeId(to.as_str().into())), set })
    }

    fn asks_people(&self) -> bool {
        matches!(self.action.as_ref().map(Rendered::written), Some(Action::AwaitApproval(_)))
    }

    fn has_effect(&self) -> bool {
        true
    }
}
