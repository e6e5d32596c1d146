//! What a credential may do, in words that never change.
//!
//! A scope is one permission with a stable text (`jobs.read`). Services may write the texts with the prefix
//! `orchestrator.`; `orchestrator.execute` is their older word for `jobs.write`. `admin` implies every other scope; no
//! other scope implies another: who may write jobs may not therefore read them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Scope texts longer than this are cut when they are named in an error.
const NAMED_CHARS_MAX: usize = 64;

/// One permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    JobsRead,
    JobsWrite,
    EventsRead,
    DlqRead,
    DlqWrite,
    /// The worker protocol: claim, renew, report.
    WorkersRun,
    /// Lanes, workers, status.
    ControlRead,
    ControlWrite,
    TokensWrite,
    /// Meters of the whole server, all tenants together.
    MetricsRead,
    /// Inventories, hosts, groups.
    FleetRead,
    FleetWrite,
    ResourcesRead,
    ResourcesWrite,
    /// Saying yes or no to jobs that wait for it.
    ApprovalsWrite,
    /// The audit trail of the tenant.
    AuditRead,
    /// Implies all others.
    Admin,
}

impl Scope {
    pub const ALL: [Self; 17] = [
        Self::JobsRead,
        Self::JobsWrite,
        Self::EventsRead,
        Self::DlqRead,
        Self::DlqWrite,
        Self::WorkersRun,
        Self::ControlRead,
        Self::ControlWrite,
        Self::TokensWrite,
        Self::MetricsRead,
        Self::FleetRead,
        Self::FleetWrite,
        Self::ResourcesRead,
        Self::ResourcesWrite,
        Self::ApprovalsWrite,
        Self::AuditRead,
        Self::Admin,
    ];

    /// The stable text, without a prefix.
    pub const fn text(self) -> &'static str {
        match self {
            Self::JobsRead => "jobs.read",
            Self::JobsWrite => "jobs.write",
            Self::EventsRead => "events.read",
            Self::DlqRead => "dlq.read",
            Self::DlqWrite => "dlq.write",
            Self::WorkersRun => "workers.run",
            Self::ControlRead => "control.read",
            Self::ControlWrite => "control.write",
            Self::TokensWrite => "tokens.write",
            Self::MetricsRead => "metrics.read",
            Self::FleetRead => "fleet.read",
            Self::FleetWrite => "fleet.write",
            Self::ResourcesRead => "resources.read",
            Self::ResourcesWrite => "resources.write",
            Self::ApprovalsWrite => "approvals.write",
            Self::AuditRead => "audit.read",
            Self::Admin => "admin",
        }
    }

    /// All of them, for people.
    fn list() -> String {
        Self::ALL.map(Self::text).join(", ")
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A text that names no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no scope {0:?}; the scopes are {list}", list = Scope::list())]
pub struct UnknownScope(pub String);

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        if text == "orchestrator.execute" {
            return Ok(Self::JobsWrite);
        }
        let bare = text.strip_prefix("orchestrator.").unwrap_or(text);
        Self::ALL
            .into_iter()
            .find(|scope| scope.text() == bare)
            .ok_or_else(|| UnknownScope(text.chars().take(NAMED_CHARS_MAX).collect()))
    }
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for Scope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A set of scopes. As text: the scopes in their fixed order, separated by one space. In JSON: an array of texts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Scopes(u32);

impl Scopes {
    pub const EMPTY: Self = Self(0);

    pub const fn of(scope: Scope) -> Self {
        Self(scope.bit())
    }

    #[must_use]
    pub const fn with(self, scope: Scope) -> Self {
        Self(self.0 | scope.bit())
    }

    /// The first unknown text refuses the whole list: a misspelt scope must not become a narrower token unnoticed.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownScope> {
        texts.into_iter().map(Scope::from_str).collect()
    }

    /// Whether holding this set permits `scope`.
    pub const fn allows(self, scope: Scope) -> bool {
        self.reach() & scope.bit() != 0
    }

    /// Whether `other` permits everything this set permits: the rule for handing scopes on.
    pub const fn is_subset_of(self, other: Self) -> bool {
        self.reach() & !other.reach() == 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes that were granted by name, in their fixed order.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & scope.bit() != 0)
    }

    /// The bits permitted, once `admin` is written out.
    const fn reach(self) -> u32 {
        if self.0 & Scope::Admin.bit() != 0 { u32::MAX } else { self.0 }
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        scopes.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, scope) in self.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            f.write_str(scope.text())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scopes({self})")
    }
}

impl FromStr for Scopes {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        Self::parse(text.split_ascii_whitespace())
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Scope>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_texts_are_these() {
        let texts: Vec<_> = Scope::ALL.iter().map(|scope| scope.text()).collect();
        assert_eq!(
            texts.join(" "),
            "jobs.read jobs.write events.read dlq.read dlq.write workers.run control.read control.write tokens.write \
             metrics.read fleet.read fleet.write resources.read resources.write approvals.write audit.read admin"
        );
    }

    #[test]
    fn every_text_parses_with_and_without_prefix() {
        for scope in Scope::ALL {
            assert_eq!(scope.text().parse(), Ok(scope));
            assert_eq!(format!("orchestrator.{scope}").parse(), Ok(scope));
        }
    }

    #[test]
    fn execute_is_an_older_word_for_writing_jobs() {
        assert_eq!("orchestrator.execute".parse(), Ok(Scope::JobsWrite));
        assert!("execute".parse::<Scope>().is_err());
    }

    #[test]
    fn an_unknown_text_is_named() {
        for text in ["jobs.delete", "", "JOBS.READ", " jobs.read", "orchestrator.", "orchestrator.orchestrator.admin"] {
            assert_eq!(text.parse::<Scope>(), Err(UnknownScope(text.to_owned())));
        }
        let unknown = "jobs.delete".parse::<Scope>().unwrap_err().to_string();
        assert!(
            unknown.starts_with(r#"there is no scope "jobs.delete"; the scopes are jobs.read, jobs.write, "#),
            "{unknown}"
        );
        assert_eq!("x".repeat(9_000).parse::<Scope>().unwrap_err().0.len(), NAMED_CHARS_MAX);
        assert_eq!("jobs.read nope".parse::<Scopes>(), Err(UnknownScope("nope".to_owned())));
    }

    #[test]
    fn a_scope_allows_itself_and_nothing_else() {
        for held in Scope::ALL {
            for asked in Scope::ALL {
                let expected = held == asked || held == Scope::Admin;
                assert_eq!(Scopes::of(held).allows(asked), expected, "{held} -> {asked}");
            }
        }
        assert!(Scope::ALL.iter().all(|scope| !Scopes::EMPTY.allows(*scope)));
    }

    #[test]
    fn nobody_hands_on_more_than_they_have() {
        let all_but_admin: Scopes = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Admin).collect();
        let admin = Scopes::of(Scope::Admin);
        assert!(all_but_admin.is_subset_of(admin));
        assert!(!admin.is_subset_of(all_but_admin));
        assert!(Scopes::EMPTY.is_subset_of(Scopes::EMPTY));
        assert!(!Scopes::of(Scope::JobsRead).is_subset_of(Scopes::of(Scope::JobsWrite)));
    }

    #[test]
    fn json_is_an_array_of_texts() {
        let scopes = Scopes::of(Scope::TokensWrite).with(Scope::JobsRead);
        let json = serde_json::to_string(&scopes).unwrap();
        assert_eq!(json, r#"["jobs.read","tokens.write"]"#);
        assert_eq!(serde_json::from_str::<Scopes>(&json).unwrap(), scopes);
        let error = serde_json::from_str::<Scopes>(r#"["nope"]"#).unwrap_err();
        assert!(error.to_string().contains(r#"there is no scope "nope""#), "{error}");
    }

    fn any_scopes() -> impl Strategy<Value = Scopes> {
        proptest::collection::vec(0..Scope::ALL.len(), 0..12)
            .prop_map(|at| at.into_iter().map(|at| Scope::ALL[at]).collect())
    }

    proptest! {
        #[test]
        fn the_text_reads_back(scopes in any_scopes()) {
            prop_assert_eq!(scopes.to_string().parse(), Ok(scopes));
            prop_assert_eq!(scopes.iter().collect::<Scopes>(), scopes);
        }

        #[test]
        fn a_subset_allows_nothing_more(small in any_scopes(), large in any_scopes()) {
            let each = Scope::ALL.into_iter().all(|scope| !small.allows(scope) || large.allows(scope));
            prop_assert_eq!(small.is_subset_of(large), each);
        }
    }
}
