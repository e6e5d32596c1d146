//! How the types of nodes look: their shape, and the family that their colour comes from.

/// The outline of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outline {
    /// Where a run begins and ends.
    Pill,
    /// Where it parts by an answer.
    Hexagon,
    /// Where paths part and meet.
    Bar,
    /// A step.
    Box,
    /// A step that is a whole workflow, or many jobs.
    Stack,
    /// Where it waits.
    Round,
}

/// What sort of thing it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Begin,
    End,
    Flow,
    Data,
    Call,
    Wait,
}

impl Family {
    pub const ALL: [Self; 6] = [Self::Begin, Self::End, Self::Flow, Self::Data, Self::Call, Self::Wait];

    pub fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::End => "end",
            Self::Flow => "flow",
            Self::Data => "data",
            Self::Call => "call",
            Self::Wait => "wait",
        }
    }

    /// Its colour, chosen to be seen on white and on black.
    pub fn colour(self) -> &'static str {
        match self {
            Self::Begin => "#3f9a5f",
            Self::End => "#7a8290",
            Self::Flow => "#8e6bbf",
            Self::Data => "#2f9aa0",
            Self::Call => "#3d7fd0",
            Self::Wait => "#c98a1c",
        }
    }
}

pub(super) fn of(node_type: &str) -> (Outline, Family) {
    match node_type {
        "start" => (Outline::Pill, Family::Begin),
        "end" => (Outline::Pill, Family::End),
        "condition" | "switch" => (Outline::Hexagon, Family::Flow),
        "parallel" | "join" => (Outline::Bar, Family::Flow),
        "sleep" | "approval" | "wait_event" => (Outline::Round, Family::Wait),
        "workflow" | "foreach" => (Outline::Stack, Family::Call),
        "http_request" | "rabbitmq_publish" | "task" | "command" => (Outline::Box, Family::Call),
        _ => (Outline::Box, Family::Data),
    }
}
