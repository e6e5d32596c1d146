//! JSON, with keys in their order and none of them twice.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::{Data, Entry, Node};
use crate::error::ImportError;
use crate::place::{At, Shown};

pub(crate) fn json(text: &str) -> Result<Node, ImportError> {
    serde_json::from_str(text).map_err(|error| {
        let at = At::line(u32::try_from(error.line()).unwrap_or(0)).place();
        let whole = error.to_string();
        let what = whole.rsplit_once(" at line ").map_or(whole.as_str(), |(what, _)| what).to_owned();
        ImportError::Syntax { at, format: "JSON", what }
    })
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E: Error>(self) -> Result<Node, E> {
                Ok(Node::new(Data::Null))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
                Ok(Node::new(Data::Bool(value)))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
                Ok(Node::new(Data::Number(value.into())))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
                Ok(Node::new(Data::Number(value.into())))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
                let number = Number::from_f64(value).ok_or_else(|| E::custom("a number is too large"))?;
                Ok(Node::new(Data::Number(number)))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
                Ok(Node::text(value))
            }

            fn visit_string<E: Error>(self, value: String) -> Result<Node, E> {
                Ok(Node::new(Data::Text(value)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Node::new(Data::List(items)))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut entries: Vec<Entry> = Vec::new();
                let mut seen: HashSet<String> = HashSet::new();
                while let Some(key) = map.next_key::<String>()? {
                    if !seen.insert(key.clone()) {
                        return Err(A::Error::custom(format_args!("{} is there twice", Shown(&key))));
                    }
                    entries.push(Entry { key, line: 0, value: map.next_value()? });
                }
                Ok(Node::new(Data::Map(entries)))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_there_twice_is_refused_with_its_line() {
        let error = json("{\"a\": 1,\n \"a\": 2}").expect_err("twice");
        assert_eq!(error.to_string(), "line 2: this is not JSON: a is there twice");
    }

    #[test]
    fn depth_is_bounded() {
        let error = json(&"[".repeat(100_000)).expect_err("too deep");
        assert_eq!(error.to_string(), "line 1: this is not JSON: recursion limit exceeded");
    }
}
