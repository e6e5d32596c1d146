//! Shapes are written by the names of their fields. Serde would also take an array for a struct, one field after the other;
//! a caller that sends one has made a mistake, and a misspelt or missing field could not be named.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

struct ByName<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ByName<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = ByName<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ByName<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(ByName)
            }
        }

        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// For `deserialize_with`: an object.
pub fn by_name<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    ByName::deserialize(deserializer).map(|ByName(value)| value)
}

/// For `deserialize_with`: an object, or nothing.
pub fn maybe_by_name<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::<ByName<T>>::deserialize(deserializer).map(|found| found.map(|ByName(value)| value))
}

/// For `deserialize_with`: objects.
pub fn each_by_name<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Vec::<ByName<T>>::deserialize(deserializer).map(|found| found.into_iter().map(|ByName(value)| value).collect())
}

#[cfg(test)]
mod tests {
    use crate::JobPolicy;

    #[test]
    fn a_shape_is_not_an_array() {
        let good: JobPolicy = serde_json::from_str(r#"{"retry": {"max_attempts": 3}}"#).expect("a policy");
        assert_eq!(good.retry.max_attempts, 3);
        let error = serde_json::from_str::<JobPolicy>(r#"{"retry": [3]}"#).expect_err("no policy").to_string();
        assert!(error.contains("expected an object"), "{error}");
        let error = serde_json::from_str::<JobPolicy>(r#"{"retry": {"max_atempts": 3}}"#).expect_err("misspelt");
        assert!(error.to_string().contains("max_atempts"), "{error}");
    }
}
