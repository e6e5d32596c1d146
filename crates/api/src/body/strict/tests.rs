//! Whole bodies, good and bad, and what is said about them.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::Value;

use super::text::{is_too_large, plain_end};
use super::*;

fn fault(text: &str) -> Fault {
    match check(text.as_bytes(), &Limits::default()) {
        Err(fault) => fault,
        Ok(()) => panic!("passed: {text}"),
    }
}

fn kind(text: &str) -> FaultKind {
    fault(text).kind
}

fn passes(text: &str) {
    assert_eq!(check(text.as_bytes(), &Limits::default()), Ok(()), "{text}");
    assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
}

#[test]
fn what_is_json_passes() {
    for text in [
        "null",
        " true ",
        "\t\r\n false",
        "0",
        "-0",
        "-0.0e-0",
        "9007199254740993",
        "12345678901234567890123456789012345678901234567890",
        "1e308",
        "1E+2",
        "1.5e-400",
        "0e999999999999999999999",
        "\"\"",
        r#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00 é😀""#,
        "\"\u{7f}\u{80}\u{10ffff}\"",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[[],{},[{}]]",
        r#"{"":1," ":2}"#,
        r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}"#,
        " { \"a\" : [ 1 , 2 ] , \"b\" : null } ",
    ] {
        passes(text);
    }
}

#[test]
fn the_grammar_is_strict() {
    use FaultKind as K;
    let cases = [
        ("", K::Empty),
        (" \n\t", K::Empty),
        ("\u{feff}{}", K::ByteOrderMark),
        ("\u{a0}1", K::Expected("a value")),
        ("\u{b}1", K::Expected("a value")),
        ("tru", K::UnexpectedEnd),
        ("trux", K::Expected("a value")),
        ("True", K::Expected("a value")),
        ("NaN", K::Expected("a value")),
        ("Infinity", K::Expected("a value")),
        ("nulll", K::TrailingText),
        ("'a'", K::Expected("a value")),
        ("// no\n1", K::Expected("a value")),
        ("1 2", K::TrailingText),
        ("{} {}", K::TrailingText),
        ("{}]", K::TrailingText),
        ("]", K::Expected("a value")),
        (",", K::Expected("a value")),
        ("[", K::UnexpectedEnd),
        ("[1", K::UnexpectedEnd),
        ("[1,", K::UnexpectedEnd),
        ("[1,]", K::Expected("a value")),
        ("[,1]", K::Expected("a value")),
        ("[1 2]", K::Expected("`,` or `]`")),
        ("[1}", K::Expected("`,` or `]`")),
        ("{", K::UnexpectedEnd),
        ("{1:2}", K::Expected("a key in double quotes")),
        ("{a:2}", K::Expected("a key in double quotes")),
        ("{,}", K::Expected("a key in double quotes")),
        (r#"{"a"}"#, K::Expected("`:` after the key")),
        (r#"{"a","b"}"#, K::Expected("`:` after the key")),
        (r#"{"a":}"#, K::Expected("a value")),
        (r#"{"a":1,}"#, K::Expected("a key in double quotes")),
        (r#"{"a":1]"#, K::Expected("`,` or `}`")),
        (r#"{"a":1 "b":2}"#, K::Expected("`,` or `}`")),
        (r#"{"a":1"#, K::UnexpectedEnd),
        (r#"{"a""#, K::UnexpectedEnd),
        (r#"{"a"#, K::UnexpectedEnd),
        ("\"a", K::UnexpectedEnd),
        ("\"a\\", K::UnexpectedEnd),
        ("\"\\u12", K::UnexpectedEnd),
        ("\"a\nb\"", K::ControlCharacter),
        ("\"a\tb\"", K::ControlCharacter),
        ("\"a\0b\"", K::ControlCharacter),
        ("\"01234567\u{1f}\"", K::ControlCharacter),
        (r#""\x""#, K::InvalidEscape),
        (r#""\U0041""#, K::InvalidEscape),
        (r#""\u00g0""#, K::InvalidEscape),
        (r#""\u+041""#, K::InvalidEscape),
        ("\"\\é\"", K::InvalidEscape),
    ];
    for (text, expected) in cases {
        assert_eq!(kind(text), expected, "{text:?}");
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text:?}");
    }
}

#[test]
fn numbers_follow_the_grammar() {
    for text in ["-", "+1", "01", "-01", "00", "1.", ".5", "-.5", "1.e5", "1e", "1e+", "1E-", "0x10", "1_000", "1a"] {
        assert!(check(text.as_bytes(), &Limits::default()).is_err(), "{text}");
        assert!(check(format!("[{text}]").as_bytes(), &Limits::default()).is_err(), "{text}");
    }
    assert_eq!(kind("[01]"), FaultKind::InvalidNumber);
    assert_eq!(kind("[1.]"), FaultKind::InvalidNumber);
    assert_eq!(kind("[-]"), FaultKind::InvalidNumber);
    assert_eq!(kind("-"), FaultKind::UnexpectedEnd);
}

/// B028.
#[test]
fn a_number_that_would_become_infinity_is_refused() {
    for text in ["1e999", "-1e999", "1e309", "1.8e308", "1e99999999999999999999", &"9".repeat(310), "123e400"] {
        assert_eq!(kind(&format!("{{\"n\": {text}}}")), FaultKind::NumberTooLarge, "{text}");
    }
    let long_but_small = format!("{}e-900", "9".repeat(1_000));
    for text in ["1e-999", &"9".repeat(300), &long_but_small, "0.0001e309", &format!("0.{}1e400", "0".repeat(399))] {
        passes(text);
    }
}

/// B029.
#[test]
fn broken_texts_are_refused() {
    for text in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800x""#,
        r#""\ud800\n""#,
        r#""\ud800\ud800""#,
        r#""\ud800\u0041""#,
        r#""\udc00\ud800""#,
        r#"{"\udbff":1}"#,
    ] {
        assert_eq!(kind(text), FaultKind::LoneSurrogate, "{text}");
    }
    for text in [r#""\u0000""#, r#"{"name":"a\u0000b"}"#, r#"{"a\u0000":1}"#] {
        assert_eq!(kind(text), FaultKind::Nul, "{text}");
    }
    for bytes in
        [&b"\"\xff\""[..], b"\"\xc0\x80\"", b"\"\xed\xa0\x80\"", b"\"\xf4\x90\x80\x80\"", b"\"\xe2\x82", b"\xfe\xff"]
    {
        let fault = check(bytes, &Limits::default()).unwrap_err();
        assert_eq!(fault.kind, FaultKind::NotUtf8, "{bytes:?}");
    }
}

/// B016.
#[test]
fn duplicate_keys_are_refused() {
    for text in [
        r#"{"type":"a","type":"b"}"#,
        r#"{"":1,"":2}"#,
        r#"{"type":1,"typ\u0065":2}"#,
        r#"{"\u0074ype":1,"type":2}"#,
        r#"{"a/b":1,"a\/b":2}"#,
        r#"{"😀":1,"\ud83d\uDE00":2}"#,
        r#"{"é":1,"\u00e9":2}"#,
        r#"{"a":{"a":1},"a":2}"#,
        r#"[{"b":[{"x":{"a":1,"b":2,"a":3}}]}]"#,
    ] {
        assert!(matches!(kind(text), FaultKind::DuplicateKey(_)), "{text}");
    }
    // Different as characters, even if they look alike.
    passes(r#"{"é":1,"e\u0301":2}"#);
    passes(r#"{"a":1,"A":2,"a ":3}"#);
}

#[test]
fn duplicates_are_found_in_objects_of_every_size() {
    for count in 1..60 {
        let pairs = |keys: &[usize]| {
            let pairs: Vec<_> = keys.iter().map(|key| format!("\"key {key}\":{{\"key {key}\":0}}")).collect();
            format!("{{{}}}", pairs.join(","))
        };
        let mut keys: Vec<_> = (0..count).collect();
        passes(&pairs(&keys));
        for repeated in [0, count / 2, count - 1] {
            keys.push(repeated);
            assert_eq!(kind(&pairs(&keys)), FaultKind::DuplicateKey(format!("key {repeated}")), "{count}");
            keys.pop();
        }
    }
}

#[test]
fn large_objects_side_by_side_do_not_share_keys() {
    let pairs: Vec<_> = (0..40).map(|key| format!("\"{key}\":0")).collect();
    let object = format!("{{{}}}", pairs.join(","));
    passes(&format!("[{object},{object}]"));
    passes(&format!("{{{},\"x\":{object}}}", pairs.join(",")));
}

/// B027.
#[test]
fn depth_is_limited_exactly() {
    let arrays = |depth| "[".repeat(depth) + &"]".repeat(depth);
    let objects = |depth| "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
    passes(&arrays(64));
    passes(&objects(64));
    for text in [arrays(65), objects(65), "[".repeat(1 << 20), "{\"a\":".repeat(200_000), "[{\"a\":".repeat(10_000)] {
        let fault = fault(&text);
        assert_eq!(fault.kind, FaultKind::TooDeep { depth_max: 64 });
        assert!(fault.offset < 400);
    }
    let limits = Limits { depth_max: 0, ..Limits::default() };
    assert!(check(b"1", &limits).is_ok());
    assert!(check(b"[]", &limits).is_err());
}

#[test]
fn keys_are_limited_exactly() {
    for keys_max in [0, 1, 16, 17, 100] {
        let limits = Limits { keys_max, ..Limits::default() };
        let object = |count: usize| {
            let pairs: Vec<_> = (0..count).map(|key| format!("\"{key}\":0")).collect();
            format!("{{{}}}", pairs.join(","))
        };
        assert_eq!(check(object(keys_max).as_bytes(), &limits), Ok(()));
        let fault = check(object(keys_max + 1).as_bytes(), &limits).unwrap_err();
        assert_eq!(fault.kind, FaultKind::TooManyKeys { keys_max });
    }
}

#[test]
fn a_fault_says_where_it_is() {
    let cases = [
        (
            "{\n  \"payload\": {\n    \"type\": 1, \"type\": 2\n  }\n}",
            "duplicate key \"type\" at /payload (line 3, column 16)",
        ),
        (r#"{"type":1,"type":2}"#, "duplicate key \"type\" at the top level (line 1, column 11)"),
        (
            r#"{"payload":{"items":[0,1,2,1e999]}}"#,
            "number too large for a double at /payload/items/3 (line 1, column 28)",
        ),
        ("[1,\n2,\n", "unexpected end of the body at /2 (line 3, column 1)"),
        ("\u{feff}{}", "byte order mark (it must be UTF-8 without one) at the top level (line 1, column 1)"),
        ("[[1 2]]", "expected `,` or `]` at /0 (line 1, column 5)"),
        ("\"é\\x\"", "invalid escape at the top level (line 1, column 3)"),
        (r#"{"a/b~c":{"x":tru}}"#, "expected a value at /a~1b~0c/x (line 1, column 15)"),
        (r#"{"\u0061\n":?}"#, "expected a value at /a\u{fffd} (line 1, column 13)"),
        (r#"{"a":[{"b" 1}]}"#, "expected `:` after the key at /a/0/b (line 1, column 12)"),
        (r#"{"a":[{"b":1,2}]}"#, "expected a key in double quotes at /a/0 (line 1, column 14)"),
        ("{} x", "unexpected text after the value at the top level (line 1, column 4)"),
        ("", "the body is empty at the top level (line 1, column 1)"),
    ];
    for (text, sentence) in cases {
        assert_eq!(fault(text).to_string(), sentence);
    }
    let fault = check(b"{\"a\":\n\"\xff\"}", &Limits::default()).unwrap_err();
    assert_eq!(fault.to_string(), "invalid UTF-8 at the top level (line 2, column 2)");
    assert_eq!((fault.offset, fault.kind.code()), (7, "NOT_UTF8"));
}

#[test]
fn a_message_stays_short() {
    let key = "k".repeat(10_000);
    let deep = format!("{{\"{key}\":").repeat(60) + "?";
    assert!(fault(&deep).to_string().len() < 700);
    assert!(fault(&format!("{{\"{key}\":1,\"{key}\":2}}")).to_string().len() < 200);
}

#[test]
fn every_byte_is_classified_at_every_place_in_a_chunk() {
    for byte in 0..=127_u8 {
        for before in 0..17 {
            let mut text = vec![b'x'; before];
            text.push(byte);
            text.extend([0xc3, 0xa9, b'y', b'z', b'"', 0]);
            let ends = byte < b' ' || byte == b'"' || byte == b'\\';
            let expected = if ends { before } else { before + 5 };
            assert_eq!(plain_end(&text, 0), expected, "{byte} at {before}");
        }
    }
    assert_eq!(plain_end(b"xxxxxxxxx", 0), 9);
    assert_eq!(plain_end(b"", 0), 0);
}

/// Texts with every kind of character that needs care, but no NUL.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-e]{0,3}", any::<String>(), "[\"\\\\/\u{1}-\u{1f} é😀\u{ffff}]{0,20}",]
        .prop_map(|text| text.replace('\0', ""))
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from), // what is not finite becomes null
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 80, 25, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..25).prop_map(Value::from),
            proptest::collection::btree_map(any_text(), inner, 0..25)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// One way to spoil a text.
#[derive(Debug, Clone)]
enum Mutation {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index),
    Copy(prop::sample::Index, prop::sample::Index),
    Cut(prop::sample::Index),
}

fn any_mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<prop::sample::Index>;
    let byte = || prop_oneof![any::<u8>(), prop::sample::select(&b"{}[]:,\"\\u0123456789abcdefDEt.+- \n"[..])];
    prop_oneof![
        (index(), byte()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (index(), byte()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        index().prop_map(Mutation::Remove),
        (index(), index()).prop_map(|(from, to)| Mutation::Copy(from, to)),
        index().prop_map(Mutation::Cut),
    ]
}

fn mutate(mut bytes: Vec<u8>, mutations: Vec<Mutation>) -> Vec<u8> {
    for mutation in mutations {
        if bytes.is_empty() {
            break;
        }
        let len = bytes.len();
        match mutation {
            Mutation::Set(at, byte) => bytes[at.index(len)] = byte,
            Mutation::Insert(at, byte) => bytes.insert(at.index(len), byte),
            Mutation::Remove(at) => {
                bytes.remove(at.index(len));
            }
            Mutation::Copy(from, to) => {
                let (from, to) = (from.index(len), to.index(len));
                let copy = bytes[from..len.min(from + 12)].to_vec();
                bytes.splice(to..to, copy);
            }
            Mutation::Cut(at) => bytes.truncate(at.index(len)),
        }
    }
    bytes
}

/// What passes is JSON to serde; what is refused for its grammar is none to serde either.
fn agrees_with_serde(bytes: &[u8]) -> Result<(), TestCaseError> {
    use FaultKind as K;
    let serde = serde_json::from_slice::<Value>(bytes);
    match check(bytes, &Limits::default()).map_err(|fault| fault.kind) {
        Ok(()) => prop_assert!(serde.is_ok(), "{:?}", serde),
        Err(K::DuplicateKey(_) | K::Nul | K::TooDeep { .. } | K::TooManyKeys { .. }) => {}
        Err(kind) => prop_assert!(serde.is_err(), "{:?}", kind),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_value_passes(value in any_value()) {
        prop_assert_eq!(check(value.to_string().as_bytes(), &Limits::default()), Ok(()));
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        prop_assert_eq!(check(&pretty, &Limits::default()), Ok(()));
    }

    #[test]
    fn a_spoilt_text_is_judged_as_serde_judges_it(
        value in any_value(),
        mutations in proptest::collection::vec(any_mutation(), 1..4),
    ) {
        agrees_with_serde(&mutate(value.to_string().into_bytes(), mutations))?;
    }

    #[test]
    fn scribbles_are_judged_as_serde_judges_them(text in r#"[\[\]{}:,"\\u0-9eE+. \-tfnulrsad\x{1}é]{0,30}"#) {
        agrees_with_serde(text.as_bytes())?;
    }

    #[test]
    fn numbers_are_judged_as_serde_judges_them(text in r"-?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+\-]?[0-9]{0,3})?") {
        agrees_with_serde(text.as_bytes())?;
    }

    #[test]
    fn size_is_judged_as_the_standard_library_judges_it(
        text in r"-?(0|[1-9][0-9]{0,30}|9[0-9]{290,320})(\.0{0,300}[0-9]{1,25})?([eE][+\-]?[0-9]{1,3})?",
    ) {
        prop_assert_eq!(is_too_large(text.as_bytes()), text.parse::<f64>().unwrap().is_infinite());
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        agrees_with_serde(&bytes)?;
    }

    /// However the keys are spelt, an object passes exactly if they differ.
    #[test]
    fn duplicates_are_found_however_they_are_spelt(
        keys in proptest::collection::vec(("[ab/é😀]{0,3}", any::<u64>()), 0..40),
    ) {
        let spelt: Vec<_> = keys.iter().map(|(key, choice)| {
            let units: Vec<_> = key.chars().enumerate().map(|(at, char)| {
                if choice >> at & 1 == 0 {
                    return char.to_string();
                }
                let mut buffer = [0; 2];
                char.encode_utf16(&mut buffer).iter().map(|unit| format!("\\u{unit:04x}")).collect()
            }).collect();
            format!("\"{}\":0", units.concat())
        }).collect();
        let text = format!("{{{}}}", spelt.join(","));
        let distinct: HashSet<_> = keys.iter().map(|(key, _)| key).collect();
        prop_assert_eq!(check(text.as_bytes(), &Limits::default()).is_ok(), distinct.len() == keys.len());
    }
}

#[test]
fn whole_numbers_are_exact_where_that_is_asked_for() {
    let limits = Limits { exact_numbers: true, ..Limits::default() };
    for fine in ["18446744073709551615", "-9223372036854775808", "1e20", "0.1000000000000000000000", "9007199254740993"]
    {
        assert_eq!(check(fine.as_bytes(), &limits), Ok(()), "{fine}");
    }
    for rounded in ["18446744073709551616", "-9223372036854775809", "123456789012345678901234567890"] {
        let fault = check(format!("[{rounded}]").as_bytes(), &limits).unwrap_err();
        assert_eq!((fault.kind, fault.pointer.as_str()), (FaultKind::NumberNotExact, "/0"));
        assert_eq!(check(rounded.as_bytes(), &Limits::default()), Ok(()), "{rounded}");
    }
}
