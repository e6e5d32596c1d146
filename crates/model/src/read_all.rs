//! Reading a value so that one error does not hide the others.
//!
//! In: JSON that somebody wrote. Out: what it says, and every error of its shape. A part that cannot be read is reported,
//! taken out, and the rest is read again. What was read in that way has defaults where parts were taken out: good enough
//! to look for further errors in it, and never for use.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::resource::BadSpec;
use crate::wording::in_plain_words;

/// How often a value is read again. Each time costs as much as the first.
const READ_AGAIN_MAX: usize = 20;

/// What was read, if it could be read in the end, and what is wrong with it.
#[derive(Debug)]
pub struct ReadAll<T> {
    pub value: Option<T>,
    pub errors: Vec<BadSpec>,
    /// A whole list was taken out because of one of its elements.
    pub without_lists: bool,
}

/// Reads what stands at a path (`nodes[3]`; empty for the whole). The path of an error goes as deep as the reader came.
pub fn read_all<T: DeserializeOwned>(base: &str, mut value: Value) -> ReadAll<T> {
    let (mut errors, mut taken, mut without_lists): (Vec<BadSpec>, Vec<Taken>, bool) = (Vec::new(), Vec::new(), false);
    loop {
        let error = match serde_path_to_error::deserialize::<_, T>(&value) {
            Ok(read) => return ReadAll { value: Some(read), errors, without_lists },
            Err(error) => error,
        };
        let (inner, what) = (error.path().to_string(), error.inner().to_string());
        // A required part that was taken out, or is there under a misspelt name, has been reported.
        let missing = missing_field(&what);
        let follows = missing
            .is_some_and(|field| taken.iter().any(|taken| taken.at == inner && (taken.misspelt || taken.key == field)));
        if !follows {
            errors.push(BadSpec::at(joined(base, &inner), in_plain_words(&what)));
        }
        let segments: Vec<&Segment> = error.path().iter().collect();
        let out = if missing.is_some() { None } else { take_out(&mut value, &segments) };
        let Some((depth, key)) = out.filter(|_| errors.len() < READ_AGAIN_MAX) else {
            return ReadAll { value: None, errors, without_lists };
        };
        without_lists |= depth + 1 < segments.len();
        taken.push(Taken { at: shown(&segments[..depth]), key, misspelt: what.starts_with("unknown field") });
    }
}

/// A field that was taken out.
struct Taken {
    /// The path of what it was a field of.
    at: String,
    key: String,
    misspelt: bool,
}

/// The field that a message says is missing.
pub fn missing_field(what: &str) -> Option<&str> {
    what.strip_prefix("missing field `")?.split('`').next()
}

fn joined(base: &str, inner: &str) -> String {
    match inner {
        "." if base.is_empty() => "spec".to_owned(),
        "." => base.to_owned(),
        inner if base.is_empty() || inner.starts_with('[') => format!("{base}{inner}"),
        inner => format!("{base}.{inner}"),
    }
}

/// The path, as errors show it.
fn shown(path: &[&Segment]) -> String {
    let mut text = String::new();
    for segment in path {
        if !text.is_empty() && !matches!(segment, Segment::Seq { .. }) {
            text.push('.');
        }
        text.push_str(&segment.to_string());
    }
    if text.is_empty() { ".".to_owned() } else { text }
}

/// Takes the innermost field out that the path leads to; says how deep it was, and names it. Elements of lists stay where they
/// are, or the others would be counted wrongly: the whole list goes.
fn take_out(value: &mut Value, path: &[&Segment]) -> Option<(usize, String)> {
    let depth = path.iter().rposition(|segment| matches!(segment, Segment::Map { .. }))?;
    let mut here = value;
    for segment in &path[..depth] {
        here = match segment {
            Segment::Seq { index } => here.get_mut(*index)?,
            Segment::Map { key } | Segment::Enum { variant: key } => here.get_mut(key)?,
            Segment::Unknown => return None,
        };
    }
    let Segment::Map { key } = path[depth] else { return None };
    here.as_object_mut()?.remove(key).map(|_| (depth, key.clone()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Inner {
        size: u32,
        #[serde(default)]
        depth: u32,
        #[serde(default)]
        list: Vec<u32>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Outer {
        name: String,
        inner: Inner,
    }

    fn paths(value: Value) -> (bool, Vec<String>) {
        let read = read_all::<Outer>("", value);
        (read.value.is_some(), read.errors.into_iter().map(|error| error.path).collect())
    }

    #[test]
    fn every_error_is_found_and_none_that_follows_from_another() {
        let good = json!({"name": "a", "inner": {"size": 1}});
        assert_eq!(paths(good), (true, vec![]));
        let optional = json!({"name": "a", "nmae": 1, "inner": {"size": 1, "depth": "x", "colour": "red"}});
        let (read, mut found) = paths(optional);
        found.sort();
        assert_eq!((read, found), (true, vec!["inner.colour".into(), "inner.depth".into(), "nmae".into()]));
        let (read, found) = paths(json!({"name": "a", "inner": {"size": "x", "depth": -1}}));
        assert_eq!((read, found.len()), (false, 2), "{found:?}");
        let (read, found) = paths(json!({"name": "a", "inner": {"szie": 1}}));
        assert_eq!((read, found), (false, vec!["inner.szie".into()]), "`size` is not missing, it is misspelt");
        let in_a_list = json!({"name": "a", "inner": {"size": 1, "list": [1, "x"], "depth": -1}});
        let (read, mut found) = paths(in_a_list);
        found.sort();
        assert_eq!((read, found), (true, vec!["inner.depth".into(), "inner.list[1]".into()]));
    }

    #[test]
    fn it_does_not_read_for_ever() {
        let mut value = json!({"name": "a", "inner": {"size": 1}});
        for n in 0..1_000 {
            value[format!("surprise{n}")] = json!(1);
        }
        let (read, found) = paths(value);
        assert_eq!((read, found.len()), (false, READ_AGAIN_MAX));
    }
    thread_local! {
        static READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// Counts how often it is read.
    #[derive(Debug)]
    struct Counted;

    impl<'de> Deserialize<'de> for Counted {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            READ.set(READ.get() + 1);
            Outer::deserialize(deserializer).map(|_| Self)
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let name =
            prop_oneof![Just("name"), Just("inner"), Just("size"), Just("depth"), Just("list"), Just("x"), Just("y")];
        let leaf =
            prop_oneof![Just(Value::Null), any::<i32>().prop_map(Value::from), "[a-z]{0,3}".prop_map(Value::from)];
        leaf.prop_recursive(4, 200, 40, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..40).prop_map(Value::from),
                proptest::collection::vec((name.clone(), any::<u8>(), inner), 0..40).prop_map(|fields| {
                    let fields = fields.into_iter();
                    // Some names are known, and most are not.
                    fields
                        .map(|(name, n, value)| (if n < 60 { name.to_owned() } else { format!("{name}{n}") }, value))
                        .collect()
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_is_read_more_often_than_it_may(value in any_value(), known in any_value()) {
            for value in [value.clone(), json!({"name": "a", "inner": value, "x": known.clone()}), json!([known])] {
                READ.set(0);
                let read = read_all::<Counted>("", value);
                prop_assert!(READ.get() <= READ_AGAIN_MAX, "{} times", READ.get());
                prop_assert!(read.errors.len() <= READ_AGAIN_MAX, "{} errors", read.errors.len());
            }
        }
    }
}
