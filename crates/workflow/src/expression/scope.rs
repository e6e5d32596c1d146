//! The names that an expression may begin with. There are no others, and nobody can add one.

/// What a name at the beginning of a path stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Root {
    /// What the trigger brought.
    Webhook,
    /// What the execution was given: short for `webhook.payload`.
    Input,
    /// Who started the execution.
    User,
    /// The execution itself.
    Execution,
    /// What the steps so far left behind.
    Steps,
    /// What the workflow set.
    Variables,
    /// The element that a loop is at.
    Item,
    /// Its number, from zero.
    Index,
}

impl Root {
    pub fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Input => "input",
            Self::User => "user",
            Self::Execution => "execution",
            Self::Steps => "steps",
            Self::Variables => "variables",
            Self::Item => "item",
            Self::Index => "index",
        }
    }

    pub(super) fn of(name: &str) -> Option<Self> {
        [Self::Webhook, Self::Input, Self::User, Self::Execution, Self::Steps, Self::Variables, Self::Item, Self::Index]
            .into_iter()
            .find(|root| root.name() == name)
    }
}

/// Where an expression stands: everywhere in a workflow, or within a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scope {
    in_loop: bool,
}

impl Scope {
    /// The six names that there always are.
    pub fn workflow() -> Self {
        Self { in_loop: false }
    }

    /// `item` and `index`, too.
    pub fn within_loop() -> Self {
        Self { in_loop: true }
    }

    pub(super) fn find(self, name: &str) -> Option<Root> {
        Root::of(name).filter(|root| self.in_loop || !matches!(root, Root::Item | Root::Index))
    }

    pub(super) fn names(self) -> &'static str {
        if self.in_loop {
            "input, webhook, user, execution, steps, variables, item and index"
        } else {
            "input, webhook, user, execution, steps and variables"
        }
    }
}
