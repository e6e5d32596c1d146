//! People, where it matters how many there are.
//!
//! One person may hold several credentials, so names of credentials cannot be counted. A [`Person`] is everything that is
//! known to be the same one: the credential they came with, the credential it was made with, their address. Two are the same
//! person as soon as they share one of these.

use std::collections::BTreeSet;

/// One person, by all the names they are known by: `token:<id>`, `service:<subject>`, `mail:<address>`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Person(BTreeSet<String>);

impl Person {
    pub fn named(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }

    /// The name of whoever has this address. Addresses that differ in case only are one person's.
    pub fn mail(address: &str) -> String {
        format!("mail:{}", address.to_lowercase())
    }

    #[must_use]
    pub fn also(mut self, name: impl Into<String>) -> Self {
        self.0.insert(name.into());
        self
    }

    pub fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }

    pub fn is_same(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// As the ledger keeps it.
    pub fn to_text(&self) -> String {
        serde_json::to_string(&self.0).unwrap_or_default()
    }

    /// Several people, as the ledger keeps them.
    pub fn list(text: &str) -> Vec<Self> {
        let names: Vec<BTreeSet<String>> = serde_json::from_str(text).unwrap_or_default();
        names.into_iter().map(Self).collect()
    }

    /// What [`Self::list`] reads.
    pub fn write_list(people: &[Self]) -> String {
        let names: Vec<&BTreeSet<String>> = people.iter().map(|person| &person.0).collect();
        serde_json::to_string(&names).unwrap_or_default()
    }

    /// What [`Self::to_text`] wrote; anything else is nobody.
    pub fn from_text(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_shared_name_makes_one_person() {
        let ann = Person::named(["token:a", "mail:ann@example.com"]);
        let also_ann = Person::named(["token:b"]).also(Person::mail("Ann@example.com"));
        let bob = Person::named(["token:c", "mail:bob@example.com"]);
        assert!(ann.is_same(&also_ann) && also_ann.is_same(&ann) && !ann.is_same(&bob));
        assert!(!Person::default().is_same(&Person::default()), "nothing is known of either");
    }

    #[test]
    fn what_is_written_is_read() {
        let odd = Person::named(["service:a b\n\"c\"", "mail:x@y"]);
        assert_eq!(Person::from_text(&odd.to_text()), odd);
        assert!(Person::from_text("").is_unknown());
        assert!(!odd.is_unknown());
    }

    #[test]
    fn a_list_of_people_that_is_written_is_read() {
        let people = [Person::named(["token:a", "mail:ann@example.com"]), Person::named(["token:b"])];
        assert_eq!(Person::list(&Person::write_list(&people)), people);
        assert_eq!(Person::list(&Person::write_list(&[])), []);
        assert_eq!(Person::list("no list"), []);
    }
}
