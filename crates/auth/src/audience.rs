//! Which door a credential was made for.
//!
//! *Exec* is the door of those who submit and follow work; *control* is the door of those who operate the server. A
//! credential for one does not open the other, whatever its scopes say.

use std::fmt;

/// One door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Audience {
    Exec,
    Control,
}

impl Audience {
    pub const ALL: [Self; 2] = [Self::Exec, Self::Control];

    pub const fn text(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Control => "control",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A set of doors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Audiences(u8);

impl Audiences {
    pub const EMPTY: Self = Self(0);
    pub const ALL: Self = Self::of(Audience::Exec).with(Audience::Control);

    pub const fn of(audience: Audience) -> Self {
        Self(audience.bit())
    }

    #[must_use]
    pub const fn with(self, audience: Audience) -> Self {
        Self(self.0 | audience.bit())
    }

    pub const fn contains(self, audience: Audience) -> bool {
        self.0 & audience.bit() != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub const fn is_subset_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Audience> {
        Audience::ALL.into_iter().filter(move |audience| self.contains(*audience))
    }
}

impl FromIterator<Audience> for Audiences {
    fn from_iter<I: IntoIterator<Item = Audience>>(audiences: I) -> Self {
        audiences.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// Their texts with spaces between them, as they are kept.
impl fmt::Display for Audiences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.iter().map(Audience::text).collect();
        f.write_str(&texts.join(" "))
    }
}

/// Reads what was kept. A text that is not known opens nothing.
impl From<&str> for Audiences {
    fn from(text: &str) -> Self {
        let known = |word: &str| Audience::ALL.into_iter().find(|audience| audience.text() == word);
        text.split(' ').filter_map(known).collect()
    }
}

impl fmt::Debug for Audiences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_opens_only_itself() {
        let exec = Audiences::of(Audience::Exec);
        assert!(exec.contains(Audience::Exec));
        assert!(!exec.contains(Audience::Control));
        assert!(Audience::ALL.iter().all(|audience| Audiences::ALL.contains(*audience)));
        assert!(Audiences::EMPTY.is_empty());
    }

    #[test]
    fn what_is_kept_is_read_back() {
        for set in [Audiences::EMPTY, Audiences::of(Audience::Control), Audiences::ALL] {
            assert_eq!(Audiences::from(set.to_string().as_str()), set);
            assert!(set.is_subset_of(Audiences::ALL));
        }
        assert_eq!(Audiences::from("exec everything"), Audiences::of(Audience::Exec));
        assert!(!Audiences::ALL.is_subset_of(Audiences::of(Audience::Exec)));
    }

    #[test]
    fn a_set_lists_its_doors() {
        assert_eq!(Audiences::ALL.iter().collect::<Vec<_>>(), Audience::ALL);
        assert_eq!([Audience::Control].into_iter().collect::<Audiences>(), Audiences::of(Audience::Control));
        assert_eq!(format!("{:?}", Audiences::ALL), "{Exec, Control}");
        assert_eq!(Audience::Control.to_string(), "control");
    }
}
