//! Who stands behind a privileged wish, and through which request it came.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::id::TenantId;
use crate::person::Person;

/// Somebody who acts. As text it is its name: `token:…`, `service:…`, `join:…`, or a part of the house.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Author {
    pub name: Arc<str>,
    /// For whom they act, where that is somebody else.
    pub on_behalf_of: Option<Arc<str>>,
    /// What they may do, as they could at that moment.
    pub scopes: Arc<str>,
    /// Whose they are; `None` for the house itself.
    pub tenant: Option<TenantId>,
    pub request_id: Option<Arc<str>>,
    /// The address the request came from, as the server saw it.
    pub ip: Option<Arc<str>>,
    /// Which person they are, where people are counted; unknown is somebody known by `name` alone.
    pub person: Person,
}

impl Author {
    pub fn person(&self) -> Person {
        if self.person.is_unknown() { Person::named([&*self.name]) } else { self.person.clone() }
    }
}

impl Deref for Author {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Somebody of whom nothing is known but a name: the house itself.
impl From<&str> for Author {
    fn from(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_is_the_person_who_is_known_or_somebody_of_that_name() {
        let house = Author::from("reaper");
        assert_eq!((house.to_string().as_str(), &*house), ("reaper", "reaper"));
        assert_eq!(house.person(), Person::named(["reaper"]));
        let person = Person::named(["mail:ann@example.com"]);
        let ann = Author { person: person.clone(), ..Author::from("token:1") };
        assert_eq!(ann.person(), person);
    }
}
