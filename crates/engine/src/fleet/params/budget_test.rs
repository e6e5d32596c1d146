//! Random schemas that try to do more work than was counted for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jsonschema::{Keyword, ValidationError};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::size::{UNFOLDED_MAX, unfolded};
use super::work::{WORK_MAX, work};

const DEFINITIONS: usize = 8;
/// Stands in each subschema, and counts how often it is applied.
const COUNTED: &str = "x-counted";

struct Counter(Arc<AtomicU64>);

impl<'i> Keyword<'i> for Counter {
    fn validate(&self, _: &'i Value) -> Result<(), ValidationError<'i>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn is_valid(&self, _: &'i Value) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// A part of definition `own`: at the same value only later definitions are named, so that most schemas are accepted.
fn part(own: usize) -> BoxedStrategy<Value> {
    let names = (own + 1)..=DEFINITIONS;
    let later = names.prop_map(|n| json!({"$ref": format!("#/$defs/d{n}"), COUNTED: true}));
    let any = (0..=DEFINITIONS).prop_map(|n| json!({"$ref": format!("#/$defs/d{n}"), COUNTED: true}));
    let leaf = prop_oneof![
        Just(json!({"type": "integer", COUNTED: true})),
        Just(json!({"type": "object", COUNTED: true})),
        Just(json!({"required": ["x", "y"], COUNTED: true})),
        Just(json!({"enum": [1, 2, 3], COUNTED: true})),
        Just(json!(false)),
        Just(json!(true)),
    ];
    let deeper = prop_oneof![
        any.clone().prop_map(|one| json!({"properties": {"x": one}, COUNTED: true})),
        any.clone().prop_map(|one| json!({"items": one, COUNTED: true})),
        any.clone().prop_map(|one| json!({"contains": one, COUNTED: true})),
        any.clone().prop_map(|one| json!({"additionalProperties": one, COUNTED: true})),
        any.prop_map(|one| json!({"patternProperties": {"^[xy]": one.clone(), "x$": one}, COUNTED: true})),
        Just(json!({"propertyNames": {"pattern": "^[a-z]+$", COUNTED: true}, COUNTED: true})),
    ];
    let start = prop_oneof![3 => later, 2 => deeper, 1 => leaf];
    start
        .prop_recursive(2, 12, 3, |inner| {
            let several = prop::collection::vec(inner.clone(), 1..4);
            prop_oneof![
                (prop::sample::select(vec!["anyOf", "oneOf", "allOf"]), several.clone())
                    .prop_map(|(word, all)| json!({word: all, COUNTED: true})),
                inner.clone().prop_map(|one| json!({"not": one, COUNTED: true})),
                (inner.clone(), inner.clone(), inner.clone())
                    .prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c, COUNTED: true})),
                inner.clone().prop_map(|one| json!({"dependentSchemas": {"x": one}, COUNTED: true})),
                (several, inner.clone())
                    .prop_map(|(all, one)| json!({"allOf": all, "unevaluatedProperties": one, COUNTED: true})),
                inner.prop_map(|one| json!({"anyOf": [one], "unevaluatedItems": false, COUNTED: true})),
            ]
        })
        .boxed()
}

fn schema() -> impl Strategy<Value = Value> {
    let definitions: Vec<BoxedStrategy<Value>> = (0..DEFINITIONS).map(part).collect();
    definitions.prop_map(|all| {
        let mut defs: Map<String, Value> = all.into_iter().enumerate().map(|(n, def)| (format!("d{n}"), def)).collect();
        defs.insert(format!("d{DEFINITIONS}"), json!({"type": "string", COUNTED: true}));
        json!({"type": "object", "allOf": [{"$ref": "#/$defs/d0", COUNTED: true}], "$defs": defs, COUNTED: true})
    })
}

fn instance() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(1)), Just(json!("a")), Just(json!(null))];
    leaf.prop_recursive(5, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            inner.clone().prop_map(|x| json!({"x": x})),
            (inner.clone(), inner).prop_map(|(x, y)| json!({"x": x, "y": y})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_global_rejects: 40_000, ..ProptestConfig::default() })]

    #[test]
    fn an_evaluation_never_does_more_than_was_counted(schema in schema(), instance in instance()) {
        let size = unfolded(&schema);
        prop_assume!(size.is_ok());
        prop_assert!(size.unwrap_or(u64::MAX) <= UNFOLDED_MAX);
        let counted = work(&schema, &instance);
        prop_assume!(counted.is_ok());
        let counted = counted.unwrap_or(u64::MAX);
        prop_assert!(counted <= WORK_MAX);

        let done = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&done);
        let built = super::options(0)
            .with_keyword(COUNTED, move |_, _, _| Ok(Box::new(Counter(Arc::clone(&counter)))))
            .build(&schema);
        let validator = built.map_err(|error| TestCaseError::fail(format!("{schema}: {error}")))?;
        let fits = validator.is_valid(&instance);
        let errors = validator.iter_errors(&instance).count();
        prop_assert_eq!(fits, errors == 0);
        let done = done.load(Ordering::Relaxed);
        prop_assert!(done <= counted, "{} applied, {} counted: {} over {}", done, counted, schema, instance);
        prop_assert!(errors as u64 <= counted);
    }

    #[test]
    fn counting_ends_whatever_the_schema(schema in schema(), instance in instance()) {
        // Both answers are fine; that there is one is the property.
        let (size, steps) = (unfolded(&schema), work(&schema, &instance));
        prop_assert!(size.is_err() || size.is_ok_and(|size| size <= UNFOLDED_MAX));
        prop_assert!(steps.is_err() || steps.is_ok_and(|steps| steps <= WORK_MAX));
    }
}
