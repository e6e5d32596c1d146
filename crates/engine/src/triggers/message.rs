//! From a delivery to what a job is given of it, and to the name under which the job is stored.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bowline_amqp::Delivery;
use bowline_model::ResourceName;
use bowline_model::idempotency::{KeyScope, RequestHash};
use bowline_model::trigger::TriggerSpec;
use serde_json::{Value, json};

use crate::starter::Ask;

/// As much as the body of `POST /jobs`.
const BODY_MAX: usize = 1 << 20;

/// What is added to what a trigger starts; or why a message can never be that.
pub(super) fn patch_of(delivery: &Delivery) -> Result<Value, String> {
    if delivery.body.len() > BODY_MAX {
        return Err(format!("its body has {} bytes, at most {BODY_MAX} can be taken", delivery.body.len()));
    }
    let message = json!({
        "body": body_of(&delivery.body, delivery.content_type.as_deref())?,
        "headers": delivery.headers,
        "message_id": delivery.message_id,
        "correlation_id": delivery.correlation_id,
        "content_type": delivery.content_type,
        "exchange": delivery.exchange,
        "routing_key": delivery.routing_key,
        "redelivered": delivery.redelivered,
    });
    Ok(json!({ (TriggerSpec::FIELD): message }))
}

/// JSON as what it says, text as text, everything else as base64. What claims to be JSON must be.
fn body_of(body: &[u8], content_type: Option<&str>) -> Result<Value, String> {
    let sort = content_type.map(|text| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    let sort = sort.unwrap_or_default();
    let claims_json = sort == "application/json" || sort.ends_with("+json");
    match std::str::from_utf8(body) {
        Ok(text) if claims_json => serde_json::from_str(text)
            .map_err(|error| format!("its content type is {sort}, and it is not JSON: {error}")),
        Ok(text) if sort.starts_with("text/") => Ok(text.into()),
        Ok(text) => Ok(serde_json::from_str(text).unwrap_or_else(|_| text.into())),
        Err(_) if claims_json => Err(format!("its content type is {sort}, and it is not UTF-8")),
        Err(_) => Ok(json!({ "base64": STANDARD.encode(body) })),
    }
}

/// The same message is the same ask, whatever the trigger says by then and however often it comes: brokers add headers to
/// what they deliver again. The same name with another body is not.
pub(super) fn ask_of(trigger: &ResourceName, delivery: &Delivery) -> Ask {
    let key = format!("trigger/{trigger}/{}", printable(delivery.key.as_str()));
    let hash = RequestHash::of_parts(&[key.as_bytes(), &delivery.body]);
    Ask { scope: KeyScope::Trigger, key, hash }
}

/// A message's id as the ledger can keep it; two that differ stay different.
pub(super) fn printable(id: &str) -> String {
    let mut text = String::with_capacity(id.len());
    for c in id.chars() {
        if c.is_control() || c == '%' {
            text.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_what_its_content_type_says() {
        for (body, sort, expected) in [
            (&br#"{"n":1}"#[..], None, json!({"n": 1})),
            (b"7", Some("application/json; charset=utf-8"), json!(7)),
            (b"null", Some("application/problem+json"), json!(null)),
            (b"7", Some("text/plain"), json!("7")),
            (b"7", Some("application/octet-stream"), json!(7)),
            (b"not json", None, json!("not json")),
            (b"", None, json!("")),
            (b"\xff\x00", None, json!({"base64": "/wA="})),
            (b"\xff\x00", Some("text/plain"), json!({"base64": "/wA="})),
        ] {
            assert_eq!(body_of(body, sort), Ok(expected), "{body:?} {sort:?}");
        }
        for body in [&b"{"[..], b"", b"\xff"] {
            let why = body_of(body, Some("Application/JSON")).expect_err("it is no JSON");
            assert!(why.contains("application/json"), "{why}");
        }
    }

    #[test]
    fn ids_that_differ_stay_different_and_hold_nothing_odd() {
        let ids = ["a", "a%", "a%25", "a\0", "a%00", "a\n", "\u{85}", "grün", ""];
        let texts: std::collections::BTreeSet<String> = ids.iter().map(|id| printable(id)).collect();
        assert_eq!(texts.len(), ids.len());
        assert!(texts.iter().all(|text| !text.contains(char::is_control)));
        assert_eq!(printable("order-7/ünit"), "order-7/ünit");
    }
}
