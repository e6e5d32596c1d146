//! The order's blueprint, and the tasks that it has done.

use std::time::Duration;

use bowline_embed::{Actions, Blueprint, Builder, Failure, StateContext, Task, TaskContext};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What is known of an order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub customer: String,
    pub card: String,
    pub price: u32,
    pub quantity: u32,
    #[serde(default)]
    pub total: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_done: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<String>,
}

/// The state machine.
pub fn order() -> Blueprint<Order> {
    let mut order = Blueprint::<Order>::new("order");
    order
        .state("init", |mut order: Order, actions: Actions, _: StateContext| async move {
            order.total = order.price * order.quantity;
            if order.total > 100 {
                let day = Duration::from_secs(86_400);
                let title = format!("Order of {} for {}?", order.customer, order.total);
                actions.await_approval(title).approved("charge").rejected("refused").expired(day, "refused");
            } else {
                actions.transition_to("charge");
            }
            Ok(order)
        })
        .retries(3)
        .retry_delay(Duration::from_millis(200));
    order.state("charge", |order: Order, actions: Actions, _| async move {
        actions
            .dispatch_task("order.charge", json!({"card": order.card, "amount": order.total}))
            .on("success", "ship")
            .on("declined", "declined")
            .on("failure", "refund")
            .timeout(Duration::from_secs(60))
            .retries(1);
        Ok(order)
    });
    order.state("ship", |mut order: Order, actions: Actions, cx: StateContext| async move {
        order.charge_id = cx.result_of_task::<Value>()?["charge_id"].as_str().map(str::to_owned);
        let pack = Task::new("order.pack", json!({"quantity": order.quantity}));
        let notify = Task::new("order.notify", json!({"customer": order.customer}));
        actions.dispatch_parallel([pack, notify]).aggregate_into("shipped");
        Ok(order)
    });
    order.state("shipped", |mut order: Order, actions: Actions, cx: StateContext| async move {
        let results = cx.results::<Value>()?;
        let done = results.iter().filter(|result| result.is_ok()).count();
        order.steps_done = Some(done);
        order.status = Some("paid".to_owned());
        actions.transition_to(if done == results.len() { "done" } else { "refund" });
        Ok(order)
    });
    order.state("refund", |order: Order, actions: Actions, _| async move {
        let params = json!({"card": order.card, "amount": order.total});
        actions.dispatch_task("order.refund", params).on("success", "refunded");
        Ok(order)
    });
    for (state, status) in [("refunded", "refunded"), ("declined", "declined"), ("refused", "refused")] {
        order.state(state, move |mut order: Order, actions: Actions, cx: StateContext| async move {
            order.status = Some(status.to_owned());
            if status == "refused" {
                order.refused_by = cx.task_result["by"].as_str().map(str::to_owned);
            }
            actions.transition_to("done");
            Ok(order)
        });
    }
    order.end("done");
    order
}

/// The tasks of all three forms. Card 0000 is declined, and card 9999 is one on which charges fail.
pub fn tasks(builder: Builder) -> Builder {
    builder
        .task("order.charge", |params: Value, cx: TaskContext| async move {
            match params["card"].as_str() {
                Some("0000") => Ok(json!({"status": "declined"})),
                Some("9999") => Err(Failure::transient("the bank does not answer")),
                _ => Ok(json!({"status": "success", "charge_id": format!("charge of job {}", cx.job)})),
            }
        })
        .task("order.pack", |params: Value, _| async move { Ok::<_, Failure>(json!({"packed": params["quantity"]})) })
        .task("order.notify", |params: Value, _| async move { Ok::<_, Failure>(json!({"told": params["customer"]})) })
        .task("order.refund", |params: Value, _| async move { Ok::<_, Failure>(json!({"refunded": params["amount"]})) })
}
