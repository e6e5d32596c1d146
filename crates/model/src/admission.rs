//! What a join or worker token admits its bearer to. An agent or worker is what its token says, not what it says itself.
//!
//! Kept with the token, and with the agent that enrolled with it. Labels and the name are fields of the token.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::{NotAPattern, Pattern};
use crate::name::TaskType;

/// Hosts other than its own that an agent reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Hosts without an agent, over SSH.
    Ssh,
    /// Hosts that do not exist.
    Simulate,
}

impl Reach {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ssh => "ssh",
            Self::Simulate => "simulate",
        }
    }
}

/// What its bearer may be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Admission {
    /// For agents: hosts it may be given besides its own.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub reach: BTreeSet<Reach>,
    /// For workers: patterns of the task types it may take. `None`: all that are neither built in nor reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_types: Option<Vec<String>>,
    /// For workers: labels it states itself count as much as those of its token.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_labels: bool,
    /// For agents: sealed secrets come to it even where its commands share its user.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub secrets_for_shared_user: bool,
}

impl Admission {
    /// Patterns of task types that one token may have.
    pub const PATTERNS_MAX: usize = 100;

    /// The first pattern of task types that cannot be read.
    pub fn check(&self) -> Result<(), (String, NotAPattern)> {
        for text in self.task_types.iter().flatten() {
            Pattern::parse(text).map_err(|error| (text.clone(), error))?;
        }
        Ok(())
    }

    /// Whether a worker may take tasks of this type, as far as its token says.
    pub fn admits_type(&self, task_type: &TaskType) -> bool {
        let looks_like = |text: &String| Pattern::parse(text).is_ok_and(|pattern| pattern.matches(task_type.as_str()));
        self.task_types.as_ref().is_none_or(|patterns| patterns.iter().any(looks_like))
    }

    /// Whether an agent that says it reaches hosts like this may.
    pub fn admits_reach(&self, reach: &str) -> bool {
        self.reach.iter().any(|admitted| admitted.as_str() == reach)
    }

    /// As it is stored.
    pub fn to_text(&self) -> String {
        if *self == Self::default() { String::new() } else { serde_json::to_string(self).unwrap_or_default() }
    }

    pub fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        if text.is_empty() { Ok(Self::default()) } else { serde_json::from_str(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task_type(text: &str) -> TaskType {
        TaskType::new(text).unwrap()
    }

    #[test]
    fn patterns_decide_which_types_a_worker_takes() {
        let open = Admission::default();
        assert!(open.admits_type(&task_type("anything")));
        let gpu = Admission { task_types: Some(vec!["gpu.*".to_owned(), "train".to_owned()]), ..open.clone() };
        for (text, admitted) in [("gpu.render", true), ("train", true), ("trainer", false), ("mail", false)] {
            assert_eq!(gpu.admits_type(&task_type(text)), admitted, "{text}");
        }
        let none = Admission { task_types: Some(Vec::new()), ..open };
        assert!(!none.admits_type(&task_type("anything")));
    }

    #[test]
    fn an_unreadable_pattern_is_named() {
        let odd = Admission { task_types: Some(vec!["ok".to_owned(), "a b".to_owned()]), ..Admission::default() };
        assert_eq!(odd.check().unwrap_err().0, "a b");
        let good = Admission { task_types: Some(vec!["gpu.*".to_owned()]), ..Admission::default() };
        assert_eq!((good.check(), Admission::default().check()), (Ok(()), Ok(())));
    }

    #[test]
    fn an_agent_reaches_only_what_its_token_admits_it_to() {
        let ssh = Admission { reach: [Reach::Ssh].into(), ..Admission::default() };
        assert!(ssh.admits_reach("ssh"));
        for reach in ["simulate", "telnet", ""] {
            assert!(!ssh.admits_reach(reach), "{reach}");
        }
        assert!(!Admission::default().admits_reach("ssh"));
        for reach in [Reach::Ssh, Reach::Simulate] {
            assert_eq!(serde_json::to_value(reach).unwrap(), reach.as_str());
        }
    }

    #[test]
    fn what_is_stored_reads_back() {
        let full = Admission {
            reach: [Reach::Simulate, Reach::Ssh].into(),
            task_types: Some(vec!["gpu.*".to_owned()]),
            own_labels: true,
            secrets_for_shared_user: true,
        };
        for admission in [full, Admission::default()] {
            assert_eq!(Admission::from_text(&admission.to_text()).unwrap(), admission);
        }
        assert_eq!(Admission::default().to_text(), "");
    }
}
