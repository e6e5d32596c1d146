//! An order as a state machine in Rust: `cargo run -p bowline-embed --example order`.
//!
//! The same as `examples/order-blueprint.yaml`, which is written as data, and `examples/order-remote/`, whose handlers are
//! written in Python.

#[path = "order/blueprint.rs"]
mod blueprint;

use bowline_embed::Bowline;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bowline = blueprint::tasks(Bowline::in_memory()).blueprint(blueprint::order()).serve().await?;
    let small = json!({"customer": "ada", "card": "4242", "price": 20, "quantity": 2});
    let job = bowline.start("order", small).await?;
    println!("a small order: {}", bowline.wait(job).await?.result);
    let large = json!({"customer": "bob", "card": "4242", "price": 200, "quantity": 1});
    let job = bowline.start("order", large).await?;
    while bowline.approvals(job).await?.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    println!("a large order waits: {}", bowline.approvals(job).await?.join(", "));
    bowline.reject(job, Some("too much")).await?;
    println!("and was refused: {}", bowline.wait(job).await?.result);
    bowline.close().await;
    Ok(())
}
