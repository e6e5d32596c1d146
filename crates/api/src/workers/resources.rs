//! The numbers in what a worker says it has.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::problem::Problem;

/// Objects inside objects are read this far.
const DEPTH_MAX: usize = 8;

/// Every number, by its path. What is no number says nothing to dispatch.
pub fn amounts(resources: Option<&Value>) -> Result<BTreeMap<String, f64>, Problem> {
    let mut found = BTreeMap::new();
    match resources {
        None | Some(Value::Null) => {}
        Some(Value::Object(fields)) => collect(fields, "", 1, &mut found)?,
        Some(_) => return Err(bad("must be an object, such as {\"gpu\": 2}")),
    }
    Ok(found)
}

/// The refusal for resources that cannot be kept.
pub fn bad(what: impl std::fmt::Display) -> Problem {
    Problem::validation(format!("resources: {what}")).with(json!({"field": "resources"}))
}

fn collect(
    fields: &Map<String, Value>,
    path: &str,
    depth: usize,
    found: &mut BTreeMap<String, f64>,
) -> Result<(), Problem> {
    if depth > DEPTH_MAX {
        return Err(bad(format!("objects are nested at most {DEPTH_MAX} deep")));
    }
    for (name, value) in fields {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value {
            Value::Object(inner) => collect(inner, &path, depth + 1, found)?,
            Value::Number(number) => {
                found.extend(number.as_f64().map(|amount| (path, amount)));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_wherever_they_are() {
        let said =
            json!({"gpu": 2, "free": 0.5, "os": "linux", "tpu": false, "disks": [1], "gpu_info": {"vram_gb": 24}});
        let found = amounts(Some(&said)).map_err(|_| "refused").unwrap();
        let expected = [("free", 0.5), ("gpu", 2.0), ("gpu_info.vram_gb", 24.0)];
        assert_eq!(found, expected.map(|(name, amount)| (name.to_owned(), amount)).into());
        assert!(amounts(None).is_ok_and(|found| found.is_empty()));
        assert!(amounts(Some(&json!([1]))).is_err());
        let mut deep = json!({"n": 1});
        for _ in 0..DEPTH_MAX {
            deep = json!({"o": deep});
        }
        assert!(amounts(Some(&deep)).is_err());
    }
}
