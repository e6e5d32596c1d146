//! Dead letters, per lane.

use serde_json::json;

use crate::support::TestServer;

#[tokio::test]
async fn an_entry_is_replayed_once_whoever_is_faster() {
    let server = TestServer::start().await;
    let job = server.submit(json!({"type": "fail", "lane": "critical", "payload": {"class": "permanent"}})).await;
    server.until_status(&job, "dead").await;
    let list = server.get("/dlq/critical").await.expect(200);
    assert_eq!(list["entries"][0]["job_id"], job.as_str());
    assert_eq!(list["entries"][0]["class"], "permanent");
    let order = json!({"job_ids": [job], "reason": "the customer exists now"});
    let (one, two) =
        tokio::join!(server.post("/dlq/critical/replay", order.clone()), server.post("/dlq/critical/replay", order));
    let (one, two) = (one.expect(200), two.expect(200));
    assert_eq!(one["changed"].as_u64().unwrap() + two["changed"].as_u64().unwrap(), 1);
    assert_eq!(one["results"][0]["new_job_id"], two["results"][0]["new_job_id"]);
    let new = one["results"][0]["new_job_id"].as_str().unwrap();
    let shown = server.until_status(new, "dead").await;
    assert_eq!(shown["job"]["replay_of"], job.as_str());
}

#[tokio::test]
async fn a_purge_keeps_its_reason() {
    let server = TestServer::start().await;
    let job = server.submit(json!({"type": "fail", "lane": "low", "payload": {"class": "permanent"}})).await;
    server.until_status(&job, "dead").await;
    for reason in ["", "  ", "x"] {
        let refused = server.post("/dlq/low/purge", json!({"all": true, "reason": reason})).await;
        assert_eq!((refused.status, refused.code()), (400, "VALIDATION_ERROR"));
    }
    let answer = server.post("/dlq/low/purge", json!({"all": true, "reason": "test data"})).await.expect(200);
    assert_eq!(answer["changed"], 1);
    assert_eq!(server.get("/dlq/low").await.expect(200)["entries"], json!([]));
    let kept = server.get("/dlq/low?status=purged").await.expect(200);
    assert_eq!(kept["entries"][0]["reason"], "test data");
    let missing = server.get("/dlq/express").await;
    assert_eq!((missing.status, missing.code()), (404, "LANE_NOT_FOUND"));
}
