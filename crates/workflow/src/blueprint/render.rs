//! Actions as a blueprint says them: with places, which are filled when the state does them.

use bowline_model::RunError;
use bowline_model::blueprint::Action;

use crate::expression::{Context, Insert};
use crate::nodes::{Building, Text, Tree};

/// An action that leads on, with its places compiled.
#[derive(Debug)]
pub(super) struct Rendered {
    /// As it was written. Everything in it but the parts below is taken as it is.
    written: Action,
    parts: Parts,
}

#[derive(Debug)]
enum Parts {
    None,
    Value(Tree),
    Values(Vec<Tree>),
    Text(Text),
}

impl Rendered {
    pub fn build(at: &str, action: &Action, building: &mut Building<'_>) -> Self {
        let at = format!("{at}/{}", action.word());
        let parts = match action {
            Action::TransitionTo(_) | Action::Set(_) => Parts::None,
            Action::DispatchTask(task) => Parts::Value(building.tree(&format!("{at}/params"), &task.params)),
            Action::DispatchParallel(all) => Parts::Values(
                all.tasks
                    .iter()
                    .enumerate()
                    .map(|(index, task)| building.tree(&format!("{at}/tasks/{index}/params"), &task.params))
                    .collect(),
            ),
            Action::AwaitApproval(approval) => Parts::Text(building.text(&format!("{at}/title"), &approval.title)),
            Action::RunBlueprint(run) => Parts::Value(building.tree(&format!("{at}/data"), &run.data)),
            Action::Sleep(sleep) => match &sleep.until {
                Some(until) => Parts::Text(building.text(&format!("{at}/until"), until)),
                None => Parts::None,
            },
        };
        Self { written: action.clone(), parts }
    }

    pub fn written(&self) -> &Action {
        &self.written
    }

    /// The moment of a sleep, if no place has to be filled to know it.
    pub fn fixed_text(&self) -> Option<&str> {
        if let Parts::Text(text) = &self.parts { text.as_literal() } else { None }
    }

    /// The action with its values.
    pub fn render(&self, context: &Context) -> Result<Action, RunError> {
        let mut action = self.written.clone();
        match (&mut action, &self.parts) {
            (Action::DispatchTask(task), Parts::Value(params)) => task.params = params.value(context)?.into_owned(),
            (Action::RunBlueprint(run), Parts::Value(data)) => run.data = data.value(context)?.into_owned(),
            (Action::DispatchParallel(all), Parts::Values(params)) => {
                for (task, params) in all.tasks.iter_mut().zip(params) {
                    task.params = params.value(context)?.into_owned();
                }
            }
            (Action::AwaitApproval(approval), Parts::Text(title)) => {
                approval.title = title.text(context, Insert::Text)?;
            }
            (Action::Sleep(sleep), Parts::Text(until)) => sleep.until = Some(until.text(context, Insert::Text)?),
            _ => {}
        }
        Ok(action)
    }
}
