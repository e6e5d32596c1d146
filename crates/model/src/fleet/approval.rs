//! Approval: who must say yes before a command runs, and to what exactly.
//!
//! An approval is bound to a hash of what will run. Whoever decides has seen one thing; if another thing would run by now,
//! the approval is superseded, and somebody must ask anew.

use crate::idempotency::RequestHash;
use crate::person::Person;
use crate::planted::{self, Mistake};

/// Where an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalState {
    Required,
    Approved,
    Rejected,
    Expired,
    Superseded,
    /// The job was canceled before anybody decided.
    Withdrawn,
}

impl ApprovalState {
    pub const ALL: [Self; 6] =
        [Self::Required, Self::Approved, Self::Rejected, Self::Expired, Self::Superseded, Self::Withdrawn];

    /// The number the ledger keeps. Never reuse one.
    pub const fn code(self) -> i64 {
        match self {
            Self::Required => 1,
            Self::Approved => 2,
            Self::Rejected => 3,
            Self::Expired => 4,
            Self::Superseded => 5,
            Self::Withdrawn => 6,
        }
    }

    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// An approval that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub state: ApprovalState,
    /// Of what will run.
    pub hash: RequestHash,
    pub quorum: u32,
    pub four_eyes: bool,
    /// Who asked for the job.
    pub requester: Person,
    /// Who has changed what is asked about since. Under four eyes they count as requesters.
    pub editors: Vec<Person>,
    /// Who said yes so far.
    pub yes: Vec<Person>,
}

/// A decision somebody makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vote {
    pub by: Person,
    pub yes: bool,
    /// The hash of what they looked at, if they said so.
    pub seen: Option<RequestHash>,
    /// The hash of what would run by now.
    pub current: RequestHash,
}

/// What a decision led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    Approved,
    /// One of several; so many are still needed.
    Noted {
        missing: u32,
    },
    Rejected,
    /// Something else would run by now.
    Superseded,
}

/// Why a decision does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalRefused {
    #[error("the job does not wait for approval: it was {}", .0.as_str())]
    NotWaiting(ApprovalState),
    #[error(
        "four eyes: the person who asked for the job cannot approve it; a token made with theirs or of their address is theirs"
    )]
    OwnJob,
    #[error(
        "four eyes: a person who changed the execution cannot approve it; a token made with theirs or of their address is theirs"
    )]
    OwnChange,
    #[error("one person decides once; a token made with theirs or of their address is theirs")]
    Twice,
    #[error("what was looked at is not what would run")]
    OtherHash,
}

impl Approval {
    pub fn on(&self, vote: &Vote) -> Result<Decided, ApprovalRefused> {
        if self.state != ApprovalState::Required {
            return Err(ApprovalRefused::NotWaiting(self.state));
        }
        if vote.seen.is_some_and(|seen| seen != self.hash) {
            return Err(ApprovalRefused::OtherHash);
        }
        if !vote.yes {
            return Ok(Decided::Rejected);
        }
        if self.four_eyes && vote.by.is_same(&self.requester) {
            return Err(ApprovalRefused::OwnJob);
        }
        if self.four_eyes && self.editors.iter().any(|editor| vote.by.is_same(editor)) {
            return Err(ApprovalRefused::OwnChange);
        }
        if self.yes.iter().any(|other| vote.by.is_same(other)) {
            return Err(ApprovalRefused::Twice);
        }
        if vote.current != self.hash && !planted::on(Mistake::ApprovalUnbound) {
            return Ok(Decided::Superseded);
        }
        let given = u32::try_from(self.yes.len()).unwrap_or(u32::MAX).saturating_add(1);
        match self.quorum.saturating_sub(given) {
            0 => Ok(Decided::Approved),
            missing => Ok(Decided::Noted { missing }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> RequestHash {
        RequestHash::of_parts(&[text.as_bytes()])
    }

    fn approval(quorum: u32, four_eyes: bool, yes: &[&str]) -> Approval {
        Approval {
            state: ApprovalState::Required,
            hash: hash("a"),
            quorum,
            four_eyes,
            requester: Person::named(["ann"]),
            editors: Vec::new(),
            yes: yes.iter().map(|&name| Person::named([name])).collect(),
        }
    }

    fn vote(by: &str, yes: bool) -> Vote {
        Vote { by: Person::named([by]), yes, seen: None, current: hash("a") }
    }

    #[test]
    fn enough_people_must_say_yes() {
        assert_eq!(approval(1, false, &[]).on(&vote("ann", true)), Ok(Decided::Approved));
        assert_eq!(approval(1, true, &[]).on(&vote("ann", true)), Err(ApprovalRefused::OwnJob));
        assert_eq!(approval(1, true, &[]).on(&vote("bob", true)), Ok(Decided::Approved));
        assert_eq!(approval(2, false, &[]).on(&vote("bob", true)), Ok(Decided::Noted { missing: 1 }));
        assert_eq!(approval(2, false, &["bob"]).on(&vote("bob", true)), Err(ApprovalRefused::Twice));
        assert_eq!(approval(2, false, &["bob"]).on(&vote("eve", true)), Ok(Decided::Approved));
    }

    #[test]
    fn people_are_counted_and_not_their_credentials() {
        let of_ann = Vote { by: Person::named(["eve", "ann"]), ..vote("eve", true) };
        assert_eq!(approval(1, true, &[]).on(&of_ann), Err(ApprovalRefused::OwnJob));
        let of_bob = Vote { by: Person::named(["eve", "bob"]), ..vote("eve", true) };
        assert_eq!(approval(2, true, &["bob"]).on(&of_bob), Err(ApprovalRefused::Twice));
        assert_eq!(approval(2, true, &["kim"]).on(&of_bob), Ok(Decided::Approved));
    }

    #[test]
    fn an_editor_counts_as_a_requester() {
        let edited = |four_eyes| Approval { editors: vec![Person::named(["kim"])], ..approval(1, four_eyes, &[]) };
        assert_eq!(edited(true).on(&vote("kim", true)), Err(ApprovalRefused::OwnChange));
        let also_kim = Vote { by: Person::named(["token:7", "kim"]), ..vote("kim", true) };
        assert_eq!(edited(true).on(&also_kim), Err(ApprovalRefused::OwnChange));
        assert_eq!(edited(true).on(&vote("kim", false)), Ok(Decided::Rejected));
        assert_eq!(edited(true).on(&vote("bob", true)), Ok(Decided::Approved));
        assert_eq!(edited(false).on(&vote("kim", true)), Ok(Decided::Approved));
    }

    #[test]
    fn one_no_is_enough_and_anybody_may_say_it() {
        assert_eq!(approval(3, true, &["bob"]).on(&vote("ann", false)), Ok(Decided::Rejected));
    }

    #[test]
    fn a_yes_counts_for_what_was_asked_only() {
        let changed = Vote { current: hash("b"), ..vote("bob", true) };
        assert_eq!(approval(1, false, &[]).on(&changed), Ok(Decided::Superseded));
        let other = Vote { seen: Some(hash("b")), ..vote("bob", true) };
        assert_eq!(approval(1, false, &[]).on(&other), Err(ApprovalRefused::OtherHash));
    }

    #[test]
    fn the_first_decision_wins() {
        for state in ApprovalState::ALL.into_iter().filter(|state| *state != ApprovalState::Required) {
            let over = Approval { state, ..approval(1, false, &[]) };
            assert_eq!(over.on(&vote("bob", true)), Err(ApprovalRefused::NotWaiting(state)));
            assert_eq!(over.on(&vote("bob", false)), Err(ApprovalRefused::NotWaiting(state)));
        }
    }
}
