//! The order workflow of the examples, in two of its three forms: Rust and data. The third, with handlers in Python, needs a
//! server and is tested there.

#[path = "../examples/order/blueprint.rs"]
mod blueprint;

use std::time::Duration;

use bowline_embed::{Bowline, JobId, Outcome};
use serde_json::{Value, json};

async fn until_asked(bowline: &Bowline, job: JobId) {
    for _ in 0..1_000 {
        if !bowline.approvals(job).await.expect("a run").is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody was asked");
}

fn asked(card: &str, price: u32) -> Value {
    json!({"customer": "ada", "card": card, "price": price, "quantity": 2})
}

async fn finish(bowline: &Bowline, job: JobId) -> Outcome {
    tokio::time::timeout(Duration::from_secs(30), bowline.wait(job)).await.expect("in time").expect("an outcome")
}

/// What is promised of all forms.
async fn promises(bowline: Bowline) {
    let paid = bowline.start("order", asked("4242", 20)).await.expect("started");
    let outcome = finish(&bowline, paid).await;
    assert!(outcome.succeeded(), "{:?}", outcome.error);
    assert_eq!((&outcome.result["status"], &outcome.result["total"]), (&json!("paid"), &json!(40)));
    assert_eq!(outcome.result["steps_done"], json!(2));
    assert!(outcome.result["charge_id"].as_str().is_some_and(|id| id.starts_with("charge of job")), "{outcome:?}");

    let approved = bowline.start("order", asked("4242", 200)).await.expect("started");
    until_asked(&bowline, approved).await;
    assert_eq!(bowline.approvals(approved).await.expect("a run"), ["Order of ada for 400?"]);
    bowline.approve(approved, None).await.expect("approved");
    assert_eq!(finish(&bowline, approved).await.result["status"], json!("paid"));

    let refused = bowline.start("order", asked("4242", 200)).await.expect("started");
    until_asked(&bowline, refused).await;
    bowline.reject(refused, Some("too much")).await.expect("rejected");
    let outcome = finish(&bowline, refused).await;
    assert_eq!((&outcome.result["status"], &outcome.result["refused_by"]), (&json!("refused"), &json!("embedded")));
    assert_eq!(outcome.result.get("charge_id"), None);

    let declined = bowline.start("order", asked("0000", 20)).await.expect("started");
    assert_eq!(finish(&bowline, declined).await.result["status"], json!("declined"));

    let refunded = bowline.start("order", asked("9999", 20)).await.expect("started");
    assert_eq!(finish(&bowline, refunded).await.result["status"], json!("refunded"));
    bowline.close().await;
}

#[tokio::test]
async fn in_rust() {
    let builder = blueprint::tasks(Bowline::in_memory()).blueprint(blueprint::order());
    promises(builder.serve().await.expect("open")).await;
}

#[tokio::test]
async fn as_data() {
    let text = include_str!("../../../examples/order-blueprint.yaml");
    let builder = blueprint::tasks(Bowline::in_memory()).blueprint_yaml(text);
    promises(builder.serve().await.expect("open")).await;
}
