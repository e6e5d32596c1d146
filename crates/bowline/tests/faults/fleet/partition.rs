//! F21, F22: the agent is cut off from its server.

use std::time::Duration;

use bowline_testkit::{ChaosProxy, until};
use serde_json::json;

use super::judge::{executed, printed};
use super::scene::{Fleet, ask, output, runs_on, server, ticks};

/// F21: cut off for longer than anybody waits, and heals.
#[tokio::test]
async fn a_partition_delays_the_truth_and_does_not_change_it() {
    let server = server().await;
    let proxy = ChaosProxy::start(&server.url(""));
    let fleet = Fleet::join(&server, proxy.url()).await;
    let job = ask(&server, fleet.command(2)).await;
    fleet.begun(1).await;
    proxy.cut();
    server.until_status(&job, "failed").await;
    fleet.over(1).await;
    assert!(proxy.connections() > 0, "the agent came through the proxy");
    proxy.heal();
    server.until_status(&job, "success").await;
    executed(&fleet.account(), 1, 1).expect("the command ran once");
    printed(&output(&server, &job).await, &ticks(2)).expect("and whole");
}

/// F22: a cancel during a partition is delivered when it heals.
#[tokio::test]
async fn a_cancel_reaches_an_agent_that_was_cut_off() {
    let server = server().await;
    let proxy = ChaosProxy::start(&server.url(""));
    let fleet = Fleet::join(&server, proxy.url()).await;
    let job = ask(&server, fleet.command(60)).await;
    fleet.begun(1).await;
    proxy.cut();
    server.post(&format!("/jobs/{job}/cancel"), json!({"reason": "wrong host"})).await.expect(200);
    server.until_status(&job, "canceled").await;
    executed(&fleet.account(), 1, 0).expect("it still runs");
    proxy.heal();
    until(Duration::from_secs(30), "the run was stopped", async || {
        let runs = runs_on(&server, &job, "web1").await;
        if runs[0]["status"] == "canceled" { Ok(()) } else { Err(runs) }
    })
    .await;
    executed(&fleet.account(), 1, 0).expect("it never came to its end");
    assert_eq!(server.get(&format!("/jobs/{job}")).await.expect(200)["job"]["status"], "canceled");
}
