//! A state is entered: its handler is asked, and data change.

use bowline_model::blueprint::{Action, HandlerAnswer, TASK_RESULT};
use bowline_model::{JobPolicy, Labels, RunError, TaskType};
use serde_json::{Value, json};

use super::States;
use super::data::{Changes, data_of, failure};
use super::perform::check_chosen_action;
use crate::expression::Context;
use crate::node::{Answer, Call, CallWhat, Done, Exit, Next, Node, Visit, Wait};
use crate::nodes::Tree;

/// The first node of a state.
#[derive(Debug)]
pub(super) struct Enter {
    pub state: Box<str>,
    pub handler: Option<TaskType>,
    pub deadline_ms: Option<u64>,
    /// Data that the blueprint itself changes here.
    pub set: Vec<Tree>,
    pub states: States,
}

impl Enter {
    /// What is known now, with what the handler changes and what the blueprint changes.
    fn done(&self, visit: Visit<'_>, answer: HandlerAnswer) -> Result<Next, RunError> {
        let mut changes = Changes::new(visit.context);
        let bad = |what: String| failure(format!("the handler of state `{}` answered badly: {what}", self.state));
        changes.data(answer.data).map_err(|what| bad(format!("data.{what}")))?;
        let mut leading = None;
        for (index, action) in answer.actions.iter().enumerate() {
            let at = |what: String| bad(format!("actions[{index}].{what}"));
            check_chosen_action(action, &self.states).map_err(at)?;
            match action {
                Action::Set(changed) => changes.data(changed.clone()).map_err(|what| at(format!("set.{what}")))?,
                action => {
                    if let Some(first) = leading.replace(index) {
                        let what = format!("{}: actions[{first}] leads on already; at most one can", action.word());
                        return Err(at(what));
                    }
                }
            }
        }
        for tree in &self.set {
            let Value::Object(changed) = tree.value(&changes.context)?.into_owned() else { continue };
            changes.data(changed).map_err(|what| failure(format!("{}.{what}", tree.field())))?;
        }
        let actions: Vec<Action> = answer.actions.into_iter().filter(Action::leads_on).collect();
        Ok(Next::Done(Done { output: json!({"actions": actions}), exit: Exit::Success, set: changes.into_set() }))
    }
}

impl Node for Enter {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        let Some(handler) = &self.handler else { return self.done(visit, HandlerAnswer::default()) };
        let execution = visit.context.execution();
        let mut payload = json!({
            "blueprint": execution["workflow"],
            "state": self.state,
            "job_id": execution["id"],
            "data": data_of(visit.context),
            "task_result": visit.context.variable(TASK_RESULT),
            "visit": visit.number,
        });
        if let Some(error) = execution.get("error") {
            payload["error"] = error.clone();
        }
        let what = CallWhat::Task {
            task_type: handler.clone(),
            payload,
            lane: None,
            labels: Labels::default(),
            priority: None,
        };
        let call = Call {
            what,
            policy: visit.policy.clone(),
            timeout_ms: JobPolicy::default().timeout_ms,
            deadline_ms: self.deadline_ms,
        };
        Ok(Next::Wait(Wait::Call(Box::new(call))))
    }

    fn answered(&self, visit: Visit<'_>, answer: Answer) -> Result<Next, RunError> {
        let Answer::Ended(ended) = answer else {
            return Err(failure(format!("a state waits for its handler, but heard {}", answer.word())));
        };
        let answer = HandlerAnswer::read(ended.into_result()?)
            .map_err(|what| failure(format!("the handler of state `{}` answered badly: {what}", self.state)))?;
        self.done(visit, answer)
    }

    fn received(&self, context: &Context) -> Value {
        Value::Object(data_of(context))
    }

    /// What it wants done, as [`Act`](super::act::Act) will read it.
    fn pinned(&self, output: &Value) -> Result<Done, String> {
        let actions = output.get("actions").filter(|actions| !actions.is_null()).cloned().unwrap_or(json!([]));
        if output.get("data").is_some() {
            return Err(".data: what is pinned says what is done, in `actions`; edit the data instead".to_owned());
        }
        let answer = HandlerAnswer::read(json!({"actions": actions})).map_err(|what| format!(".{what}"))?;
        for (index, action) in answer.actions.iter().enumerate() {
            if !action.leads_on() {
                return Err(format!(".actions[{index}].{}: this leads nowhere; edit the data instead", action.word()));
            }
            check_chosen_action(action, &self.states).map_err(|what| format!(".actions[{index}].{what}"))?;
        }
        if answer.actions.len() > 1 {
            return Err(".actions: at most one of them can lead on".to_owned());
        }
        Ok(Done { output: output.clone(), exit: Exit::Success, set: Vec::new() })
    }

    fn has_effect(&self) -> bool {
        self.handler.is_some()
    }
}
