//! Why an execution waits, where what it waits for waits as well.

use bowline_model::JobStatus;
use bowline_model::resource::ResourceKind;
use bowline_testkit::until;
use serde_json::{Value, json};

use crate::questions::put;
use crate::{House, node, row};

/// Executions that each run the next one, the last of which waits for an event.
const NESTED: usize = 8;
/// How many reasons are looked up below the first one.
const FOLLOWED: usize = 4;

/// The codes of a reason and of those below it.
fn codes(code: &str, data: &Value) -> Vec<String> {
    let mut codes = vec![code.to_owned()];
    let mut below = &data["because"];
    while let Some(code) = below["code"].as_str() {
        codes.push(code.to_owned());
        below = &below["data"]["because"];
    }
    codes
}

#[tokio::test]
async fn executions_that_wait_for_each_other_are_followed_to_a_depth() {
    let house = House::open().await;
    put(&house, ResourceKind::Workflow, "w0", row(&[node("wait", "wait_event", json!({"event": "never"}))])).await;
    for n in 1..=NESTED {
        let below = format!("w{}", n - 1);
        put(&house, ResourceKind::Workflow, &format!("w{n}"), row(&[node("call", "workflow", json!({"name": below}))]))
            .await;
    }
    let mut wanted = vec!["awaiting_job"; FOLLOWED];
    for depth in [1, FOLLOWED, NESTED] {
        let job = house
            .begin(row(&[node("call", "workflow", json!({"name": format!("w{}", depth - 1)}))]), json!(null))
            .await;
        wanted.truncate(depth);
        wanted.push(if depth <= FOLLOWED { "awaiting_event" } else { "awaiting_job" });
        until(std::time::Duration::from_secs(20), "all of them wait", async || {
            let why = house.engine.why(house.tenant, job).await.expect("read").expect("a job");
            let found = codes(why.reasons[0].code, &why.reasons[0].data);
            if found == wanted { Ok(()) } else { Err(format!("{found:?} instead of {wanted:?}")) }
        })
        .await;
        wanted = vec!["awaiting_job"; FOLLOWED];
        assert_eq!(house.job(job).await.state.status, JobStatus::Running);
    }
}
