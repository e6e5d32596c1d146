//! One visit of a node may evaluate thousands of expressions: all together have a budget.

use proptest::prelude::*;
use serde_json::json;

use crate::expression::limits::{STEPS_MAX, VISIT_STEPS_MAX};
use crate::expression::{Context, ErrorCode, Scope, Template};

fn context(items: usize) -> Context {
    let list: Vec<usize> = (0..items).collect();
    Context::new(json!({"payload": {"list": list, "text": "a".repeat(items)}}), json!({}), json!({}))
}

/// A text that looks at each element of the list so many times.
fn costly(times: usize) -> Template {
    let looks: Vec<&str> = std::iter::repeat_n("(-1 in input.list)", times).collect();
    Template::condition(&looks.join(" or "), Scope::workflow()).expect("an expression")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 0, ..ProptestConfig::default() })]

    /// However many items there are and whatever each costs: no more is done than a visit may do, and the rest fails at once.
    #[test]
    fn a_visit_does_no_more_than_it_may(items in 1..3_000_usize, times in 1..4_usize, evaluations in 1..10_000_usize) {
        let visit = context(items).for_visit();
        let text = costly(times);
        let mut failed = 0;
        for n in 0..evaluations {
            let before = visit.spent();
            let inner = visit.at_item(json!(n).into(), n as u64);
            match text.holds(&inner) {
                Ok(_) => prop_assert!(failed == 0 && (visit.spent() - before) as usize >= items * times),
                Err(error) => {
                    prop_assert_eq!(error.code(), ErrorCode::BudgetExceeded);
                    failed += 1;
                    if failed > 3 {
                        prop_assert_eq!(visit.spent(), VISIT_STEPS_MAX, "what is left is spent with the first that fails");
                        break;
                    }
                }
            }
            prop_assert!(visit.spent() <= VISIT_STEPS_MAX);
            prop_assert!(visit.spent() - before <= STEPS_MAX, "one evaluation has its own budget, too");
        }
        let wanted = evaluations * items * times;
        if items * times + 100 < STEPS_MAX as usize && wanted > VISIT_STEPS_MAX as usize {
            prop_assert!(failed > 0);
        }
    }
}

#[test]
fn whoever_looks_at_a_context_without_a_visit_may_do_what_one_expression_may() {
    let context = context(2_000);
    let text = costly(2);
    for _ in 0..1_000 {
        assert!(text.holds(&context).is_ok());
    }
    assert_eq!(context.spent(), 0);
    // The next visit has an allowance of its own.
    let visit = context.for_visit();
    assert_eq!(visit.spent(), 0);
    assert!(text.holds(&visit).is_ok());
    assert!(visit.spent() > 4_000);
    assert_eq!(visit.for_visit().spent(), 0);
}
