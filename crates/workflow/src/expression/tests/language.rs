//! What expressions mean.

use std::sync::Arc;

use serde_json::json;

use super::{context, eval, refused, value_of};
use crate::expression::{ErrorCode, Scope, Template, functions::Function};

#[test]
fn paths_lead_into_the_context() {
    assert_eq!(eval("webhook.payload.test"), json!("a value"));
    assert_eq!((eval("input.test"), eval("input.list[-1]")), (json!("a value"), json!(2)));
    assert_eq!((eval("input == webhook.payload"), eval("input.none is defined")), (json!(true), json!(false)));
    assert_eq!(eval("user.email"), json!("user@example.com"));
    assert_eq!(eval("execution.id"), json!("f237bcb0-0b59-48e5-a2a2-85e668748c8b"));
    assert_eq!(eval("steps.http_1.output.body.balance"), json!(500));
    assert_eq!(eval("variables.user_age"), json!(25));
    assert_eq!(eval("variables.имя"), json!("Ольга"));
    assert_eq!(eval("steps.http_1.output.body['a-b'][0]"), json!(10));
    assert_eq!(eval("steps.http_1.output.body['a-b'].1.0"), json!(11));
    assert_eq!(eval("webhook.payload.list[-1]"), json!(2));
    assert_eq!(eval("steps[variables.which].output.status_code"), json!(200));
    assert_eq!(eval("steps").as_object().map(serde_json::Map::len), Some(1));
}

#[test]
fn a_lone_expression_keeps_its_type() {
    assert_eq!(value_of("{{variables.user_age}}").unwrap(), json!(25));
    assert_eq!(value_of("{{ webhook.payload.list }}").unwrap(), json!([3, 1, 2]));
    assert_eq!(value_of("{{ webhook.payload.n }}").unwrap(), json!(null));
    assert_eq!(value_of("{{variables.large}}").unwrap(), json!(u64::MAX));
    assert_eq!(value_of(" {{variables.user_age}}").unwrap(), json!(" 25"));
}

#[test]
fn values_are_written_into_texts() {
    assert_eq!(
        value_of("{{user.email}} is {{variables.user_age}}, {{true}}, {{webhook.payload.list}}, {{null}}!").unwrap(),
        json!("user@example.com is 25, true, [3,1,2], null!")
    );
    assert_eq!(value_of("{{ {'a': variables.price} }}{{''}}").unwrap(), json!(r#"{"a":99.5}"#));
}

#[test]
fn statements_and_comments_are_plain_text() {
    let text = "{% for x in y %} {# no #} {x} }} {%- set a = 1 -%}";
    assert_eq!(value_of(text).unwrap(), json!(text));
}

#[test]
fn doubled_braces_are_braces() {
    assert_eq!(value_of("{{{{ user.email }}").unwrap(), json!("{{ user.email }}"));
    assert_eq!(value_of("{{{{{{user.id}}}}").unwrap(), json!("{{2}}"));
    assert_eq!(value_of("{{ '{{ }}' }}").unwrap(), json!("{{ }}"));
    assert_eq!(value_of("{{{'a': {'b': 1}}}}").unwrap(), json!({"a": {"b": 1}}));
}

#[test]
fn literals() {
    assert_eq!(eval("'it\\'s'"), json!("it's"));
    assert_eq!(eval(r#""a\n\t\\\u00e9""#), json!("a\n\t\\é"));
    assert_eq!(eval("[1, 2.5, -3, 1e3, true, null, 'x',]"), json!([1, 2.5, -3, 1000.0, true, null, "x"]));
    assert_eq!(eval("{'a': 1, \"b\": [variables.user_age]}"), json!({"a": 1, "b": [25]}));
    assert_eq!(eval("18446744073709551615"), json!(u64::MAX));
    assert_eq!(eval("-9223372036854775808"), json!(i64::MIN));
    assert_eq!(refused("18446744073709551616"), ErrorCode::NumberOutOfRange);
    assert_eq!(refused("1e999"), ErrorCode::NumberOutOfRange);
}

#[test]
fn arithmetic() {
    assert_eq!(eval("1 + 2 * 3 - 4"), json!(3));
    assert_eq!(eval("(1 + 2) * 3"), json!(9));
    assert_eq!(eval("10 / 5"), json!(2));
    assert_eq!(eval("10 / 4"), json!(2.5));
    assert_eq!(eval("7 // 2"), json!(3));
    assert_eq!(eval("-7 // 2"), json!(-4));
    assert_eq!(eval("-7 % 3"), json!(2));
    assert_eq!(eval("7.5 % 2"), json!(1.5));
    assert_eq!(eval("variables.price * 2"), json!(199.0));
    assert_eq!(eval("--1"), json!(1));
    assert_eq!(eval("'a' + 'b'"), json!("ab"));
    assert_eq!(eval("'ab' * 3"), json!("ababab"));
    assert_eq!(refused("1 + 'a'"), ErrorCode::WrongType);
    assert_eq!(refused("[1] * 3"), ErrorCode::WrongType);
    assert_eq!(refused("2 ** 3"), ErrorCode::Syntax);
}

#[test]
fn operators_bind_as_the_guide_says() {
    assert_eq!(eval("2 - 3 - 4"), json!(-5));
    assert_eq!(eval("2 - (3 - 4)"), json!(3));
    assert_eq!(eval("2 * 3 + 4 * 5"), json!(26));
    assert_eq!(eval("(2 + 3) * 4 - 1"), json!(19));
    assert_eq!(eval("100 / 10 / 5 * 3"), json!(6));
    assert_eq!(eval("false and false or true"), json!(true));
    assert_eq!(eval("false and (false or true)"), json!(false));
    assert_eq!(eval("true or true and false"), json!(true));
    assert_eq!(eval("not false and false"), json!(false));
    assert_eq!(eval("not 1 == 2"), json!(true));
    assert_eq!(eval("not not 1 in [1]"), json!(true));
    assert_eq!(eval("1 + 1 == 2 and 'a' ~ 'b' == 'ab'"), json!(true));
    assert_eq!(eval("-1 | abs"), json!(1));
    assert_eq!(eval("2 * -3"), json!(-6));
    assert_eq!(eval("1 + 'ab' | length"), json!(3));
    assert_eq!(refused("1 + not true"), ErrorCode::Syntax);
}

#[test]
fn texts_are_joined_with_a_tilde() {
    assert_eq!(eval("user.email ~ ' ' ~ variables.user_age ~ [1]"), json!("user@example.com 25[1]"));
    assert_eq!(eval("'x' ~ 2 * 3 ~ 1"), json!("x61"));
    assert_eq!(refused("1 + 1 ~ 'x'"), ErrorCode::WrongType, "a sum binds less than the tilde, as in Jinja");
}

#[test]
fn comparisons() {
    assert_eq!(eval("1 == 1.0"), json!(true));
    assert_eq!(eval("1 == '1'"), json!(false));
    assert_eq!(eval("[1, {'a': 2.0}] == [1.0, {'a': 2}]"), json!(true));
    assert_eq!(eval("9007199254740993 == 9007199254740992.0"), json!(false), "2^53 + 1 is not 2^53");
    assert_eq!(eval("variables.large > 9223372036854775807"), json!(true));
    assert_eq!(eval("'a' < 'b'"), json!(true));
    assert_eq!(eval("2 >= 2.5"), json!(false));
    assert_eq!(refused("1 < 'a'"), ErrorCode::WrongType);
    for chained in ["1 < 2 < 3", "1 == 1 is boolean", "1 is number in [true]", "1 in [1] not in [true]"] {
        assert_eq!(refused(chained), ErrorCode::Syntax, "{chained}");
    }
}

#[test]
fn membership() {
    assert_eq!(eval("1 in webhook.payload.list"), json!(true));
    assert_eq!(eval("'example' in user.email"), json!(true));
    assert_eq!(eval("'id' in user"), json!(true));
    assert_eq!(eval("'http_2' not in steps"), json!(true));
    assert_eq!(eval("user.email | contains('@')"), json!(true));
    assert_eq!(refused("1 in 2"), ErrorCode::WrongType);
}

#[test]
fn yes_and_no() {
    assert_eq!(eval("true and not false"), json!(true));
    assert_eq!(eval("webhook.payload.empty or 'other'"), json!("other"));
    assert_eq!(eval("0 and 1 / 0"), json!(0), "what does not count is not evaluated");
    assert_eq!(eval("'yes' if variables.user_age >= 18 else 1 / 0"), json!("yes"));
    assert_eq!(eval("1 if false else 2 if false else 3"), json!(3));
    assert_eq!(eval("not [] and not {} and not '' and not 0.0 and not null"), json!(true));
}

#[test]
fn kinds_can_be_asked_for() {
    assert_eq!(eval("variables.nope is defined"), json!(false));
    assert_eq!(eval("variables.nope.deeper is not defined"), json!(true));
    assert_eq!(eval("webhook.payload.n is null and webhook.payload.n is defined"), json!(true));
    assert_eq!(eval("'' is string and 1 is integer and 1.5 is number and 1.5 is not integer"), json!(true));
    assert_eq!(eval("[] is list and {} is object and steps is object and true is boolean"), json!(true));
    assert_eq!(refused("variables.nope is null"), ErrorCode::MissingPath);
}

#[test]
fn what_is_missing_is_an_error_unless_there_is_a_default() {
    assert_eq!(refused("variables.nope"), ErrorCode::MissingPath);
    assert_eq!(refused("variables.nope.deeper.still"), ErrorCode::MissingPath);
    assert_eq!(refused("webhook.payload.list[3]"), ErrorCode::MissingPath);
    assert_eq!(refused("user.email.length"), ErrorCode::MissingPath);
    assert_eq!(refused("[variables.nope]"), ErrorCode::MissingPath);
    assert_eq!(refused("variables.nope or 1"), ErrorCode::MissingPath);
    assert_eq!(eval("variables.nope | default('x')"), json!("x"));
    assert_eq!(eval("default(variables.nope.deeper[1], 1 + 1)"), json!(2));
    assert_eq!(eval("webhook.payload.n | default('x')"), json!(null), "null is there");
    assert_eq!(eval("[] | first | default('none')"), json!("none"));
    assert_eq!(refused("variables.nope | upper | default('x')"), ErrorCode::MissingPath);
    assert_eq!(refused("variables.nope | default(variables.nope)"), ErrorCode::MissingPath);
}

#[test]
fn text_functions() {
    assert_eq!(eval("' Äb ' | trim | upper"), json!("ÄB"));
    assert_eq!(eval("lower('ÄB')"), json!("äb"));
    assert_eq!(eval("'a-b-c' | replace('-', '+')"), json!("a+b+c"));
    assert_eq!(eval("'a,b,,c' | split(',')"), json!(["a", "b", "", "c"]));
    assert_eq!(eval("repeat('ab', 2)"), json!("abab"));
    assert_eq!(eval("repeat('', 1000000000)"), json!(""));
    assert_eq!(eval("'ä€' | length"), json!(2));
    assert_eq!(eval("'ä€' | first ~ '|' ~ ('ä€' | last)"), json!("ä|€"));
    assert_eq!(eval("user.email | matches('^[^@]+@example[.]com$')"), json!(true));
    assert_eq!(eval("user.email | matches('^example')"), json!(false));
    assert_eq!(refused("1 | upper"), ErrorCode::WrongType);
    assert_eq!(refused("'a' | split('')"), ErrorCode::WrongType);
    assert_eq!(refused("'a' | replace('', 'x')"), ErrorCode::WrongType);
    assert_eq!(refused("repeat('a', -1)"), ErrorCode::WrongType);
    assert_eq!(refused("'a' | matches(user.email)"), ErrorCode::BadPattern);
    assert_eq!(refused("'a' | matches('(')"), ErrorCode::BadPattern);
    assert_eq!(refused(r"'a' | matches('(a)\\1')"), ErrorCode::BadPattern);
}

#[test]
fn list_functions() {
    assert_eq!(eval("webhook.payload.list | sort"), json!([1, 2, 3]));
    assert_eq!(eval("['b', 'a'] | sort | join('-')"), json!("a-b"));
    assert_eq!(eval("[1, 'x', null, [2]] | join"), json!("1xnull[2]"));
    assert_eq!(eval("[1, 2, 1.0, 'a', 'a', [1], [1.0]] | unique"), json!([1, 2, "a", [1]]));
    assert_eq!(eval("webhook.payload.list | first"), json!(3));
    assert_eq!(eval("webhook.payload.list | last"), json!(2));
    assert_eq!(eval("user | keys"), json!(["email", "id"]));
    assert_eq!(eval("user | values"), json!(["user@example.com", 2]));
    assert_eq!(eval("steps | keys"), json!(["http_1"]));
    assert_eq!(eval("length(steps) + length(user) + length([1])"), json!(4));
    assert_eq!(refused("[1, 'a'] | sort"), ErrorCode::WrongType);
    assert_eq!(refused("1 | length"), ErrorCode::WrongType);
}

#[test]
fn number_functions() {
    assert_eq!(eval("-5 | abs"), json!(5));
    assert_eq!(eval("abs(-2.5)"), json!(2.5));
    assert_eq!(eval("2.5 | round"), json!(3));
    assert_eq!(eval("2.345 | round(2)"), json!(2.35));
    assert_eq!(eval("min(3, 1, 2)"), json!(1));
    assert_eq!(eval("webhook.payload.list | max"), json!(3));
    assert_eq!(eval("max('a', 'b')"), json!("b"));
    assert_eq!(eval("[1, 2.5] | sum"), json!(3.5));
    assert_eq!(eval("[] | sum"), json!(0));
    assert_eq!(refused("[] | min"), ErrorCode::MissingPath);
    assert_eq!(refused("min([null])"), ErrorCode::WrongType);
    assert_eq!(refused("1e300 | round"), ErrorCode::NumberOutOfRange);
}

#[test]
fn conversions() {
    assert_eq!(eval("int(' 42 ') + int(2.9) + int(true)"), json!(45));
    assert_eq!(eval("float('1.5e2')"), json!(150.0));
    assert_eq!(eval("string(1) ~ string('a') ~ string([1])"), json!("1a[1]"));
    assert_eq!(eval("bool('True') and not bool(0)"), json!(true));
    assert_eq!(eval("user | json"), json!(r#"{"email":"user@example.com","id":2}"#));
    assert_eq!(eval("'a\"b' | json"), json!(r#""a\"b""#));
    assert_eq!(eval("steps | json | from_json == {'http_1': steps.http_1}"), json!(true));
    assert_eq!(eval("from_json('{\"a\": [1, 2]}').a[1]"), json!(2));
    assert_eq!(refused("int('4x')"), ErrorCode::WrongType);
    assert_eq!(refused("float('inf')"), ErrorCode::WrongType);
    assert_eq!(refused("float('1e999')"), ErrorCode::NumberOutOfRange);
    assert_eq!(refused("bool('maybe')"), ErrorCode::WrongType);
    assert_eq!(refused("from_json('{')"), ErrorCode::NotJson);
}

#[test]
fn loops_have_an_item_and_an_index() {
    let text = "{{ index }}: {{ item.name }}";
    assert_eq!(Template::compile(text, Scope::workflow()).unwrap_err().code(), ErrorCode::UnknownName);
    let template = Template::compile(text, Scope::within_loop()).unwrap();
    assert_eq!(template.value(&context()).unwrap_err().code(), ErrorCode::MissingPath);
    let turn = context().at_item(Arc::new(json!({"name": "x"})), 4);
    assert_eq!(template.value(&turn).unwrap(), json!("4: x"));
}

#[test]
fn conditions_are_expressions_with_or_without_braces() {
    for (text, holds) in [
        ("steps.http_1.output.status_code == 200", true),
        ("{{ steps.http_1.output.status_code == 200 }}", true),
        ("{{steps.http_1.output.status_code}} == 404", false),
        ("{{ variables.user_age }} > 18 and {{ user.id }} == 2", true),
        ("{'a': {'b': {}}} == {'a': {'b': {}}}", true),
        ("{'a': {'b': 1}}.a.b", true),
        ("''", false),
    ] {
        let condition = Template::condition(text, Scope::workflow()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(condition.holds(&context()).unwrap(), holds, "{text}");
    }
    assert!(Template::condition("", Scope::workflow()).is_err());
    assert!(Template::condition("{{ user.id }", Scope::workflow()).is_err());
}

#[test]
fn references_say_what_is_named_and_where() {
    let text = "{{ steps.http_1.output.body['a-b'][0] }}\nand {{ steps[variables.which].output }} {{ default(user.nick, 'x') }}";
    let template = Template::compile(text, Scope::workflow()).unwrap();
    let found: Vec<_> = template
        .references()
        .iter()
        .map(|reference| (reference.to_string(), reference.optional, reference.place.line, reference.place.column))
        .collect();
    assert_eq!(
        found,
        [
            ("steps.http_1.output.body.a-b.0".to_owned(), false, 1, 4),
            ("steps".to_owned(), false, 2, 8),
            ("variables.which".to_owned(), false, 2, 14),
            ("user.nick".to_owned(), true, 2, 52),
        ]
    );
    let steps: Vec<_> = template.references().iter().filter_map(|reference| reference.step()).collect();
    assert_eq!(steps, ["http_1"]);
    let variables: Vec<_> = template.references().iter().filter_map(|reference| reference.variable()).collect();
    assert_eq!(variables, ["which"]);
}

#[test]
fn templates_can_be_shared_between_threads() {
    fn shared<T: Clone + Send + Sync + 'static>(_: &T) {}
    shared(&Template::compile("{{ user.id }}", Scope::workflow()).unwrap());
    shared(&context());
}

/// The guide names every function, and no reader finds one that is not there.
#[test]
fn the_guide_knows_all_functions() {
    let guide = include_str!("../../../../../docs/guide/expressions.md");
    for function in Function::ALL {
        let row = format!("| `{}(", function.name());
        assert!(guide.contains(&row), "the guide has no row for {}", function.name());
    }
}

#[test]
fn every_comparison_of_smaller_equal_and_greater() {
    let table = [
        ("<", [true, false, false]),
        ("<=", [true, true, false]),
        (">", [false, false, true]),
        (">=", [false, true, true]),
        ("==", [false, true, false]),
        ("!=", [true, false, true]),
    ];
    for (sign, expected) in table {
        for (pairs, expected) in
            [[("1", "2"), ("2", "2"), ("3", "2")], [("'a'", "'b'"), ("'b'", "'b'"), ("'c'", "'b'")]]
                .into_iter()
                .flat_map(|pairs| pairs.into_iter().zip(expected))
        {
            let (left, right) = pairs;
            assert_eq!(eval(&format!("{left} {sign} {right}")), expected, "{left} {sign} {right}");
        }
    }
}
