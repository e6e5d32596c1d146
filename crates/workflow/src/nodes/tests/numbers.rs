//! `math`: exact while it can be, and a failure where it cannot.

use serde_json::json;

use super::*;

fn math(operation: &str, operands: Value) -> Result<Value, String> {
    let next = enter("math", json!({"operation": operation, "operands": operands}));
    next.map(|next| done(Ok(next)).output["result"].clone()).map_err(|error| error.message)
}

#[test]
fn operations() {
    for (operation, operands, result) in [
        ("add", json!([1, 2, "{{ variables.count }}"]), json!(7)),
        ("add", json!(["{{ variables.price }}", 0.5]), json!(100.0)),
        ("add", json!([[1, 2], 3]), json!(6)),
        ("subtract", json!([10, 1, 2]), json!(7)),
        ("multiply", json!([3, 4]), json!(12)),
        ("divide", json!([10, 5]), json!(2)),
        ("divide", json!([10, 4]), json!(2.5)),
        ("modulo", json!([7, 3]), json!(1)),
        ("modulo", json!([-7, 3]), json!(2)),
        ("modulo", json!([7, -3]), json!(-2)),
        ("modulo", json!([i64::MIN, -1]), json!(0)),
        ("power", json!([2, 10]), json!(1024)),
        ("power", json!([2, -1]), json!(0.5)),
        ("power", json!([-1, i64::MAX]), json!(-1)),
        ("power", json!([1, i64::MAX]), json!(1)),
        ("min", json!([3, 1.5, 2]), json!(1.5)),
        ("max", json!([[3, 9], 4]), json!(9)),
        ("average", json!([1, 2]), json!(1.5)),
        ("round", json!([2.5]), json!(3)),
        ("round", json!([2.345, 2]), json!(2.35)),
        ("floor", json!([-1.5]), json!(-2)),
        ("ceil", json!([1.2]), json!(2)),
        ("abs", json!([-5]), json!(5)),
        ("negate", json!([5]), json!(-5)),
    ] {
        assert_eq!(math(operation, operands.clone()), Ok(result), "{operation} {operands}");
    }
}

#[test]
fn what_has_no_result_is_a_failure() {
    for (operation, operands, message) in [
        ("divide", json!([1, 0]), "division by zero"),
        ("divide", json!([1, 0.0]), "division by zero"),
        ("modulo", json!([1, 0]), "division by zero"),
        ("power", json!([0, -1]), "division by zero"),
        ("add", json!([i64::MAX, 1]), "does not fit"),
        ("multiply", json!([i64::MIN, -1]), "does not fit"),
        ("abs", json!([i64::MIN]), "does not fit"),
        ("power", json!([10, 19]), "does not fit"),
        ("power", json!([1e300, 2]), "does not fit"),
        ("ceil", json!([1e300]), "does not fit"),
        ("add", json!([u64::MAX, 1]), "too large to calculate"),
        ("add", json!(["{{ user.email }}"]), "operands[0]: must be a number"),
        ("divide", json!([["{{ variables.count }}"]]), "two numbers"),
        ("round", json!([1.5, 99]), "digits"),
    ] {
        let error = math(operation, operands.clone()).unwrap_err();
        assert!(error.contains(message), "{operation} {operands}: {error}");
    }
}

#[test]
fn an_expression_can_be_stored() {
    let braced = done(enter("math", json!({"expression": "{{ variables.count }} * 2 + 1", "store_as": "x"})));
    assert_eq!((braced.output, braced.set), (json!({"result": 9}), vec![("x".into(), json!(9))]));
    assert_eq!(done(enter("math", json!({"expression": "variables.count * 2"}))).output, json!({"result": 8}));
    let error = enter("math", json!({"expression": "user.email"})).unwrap_err();
    assert_eq!(error.message, "expression: the result is not a number");
}
