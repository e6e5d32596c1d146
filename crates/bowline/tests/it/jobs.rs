//! Asking for jobs, once.

use serde_json::json;

use crate::support::TestServer;

#[tokio::test]
async fn a_job_is_accepted_run_and_shown_with_its_runs() {
    let server = TestServer::start().await;
    let answer = server.post("/jobs", json!({"type": "echo", "payload": {"hello": "world"}})).await.expect(202);
    assert_eq!(answer["status"], "queued");
    assert!(answer["queued_at"].as_str().is_some_and(|t| t.ends_with('Z')));
    assert!(answer["request_id"].is_string() && answer["trace_id"].is_string());
    let shown = server.until_status(answer["job_id"].as_str().unwrap(), "success").await;
    let job = &shown["job"];
    assert_eq!(job["type"], "echo");
    assert_eq!(job["state"], "succeeded");
    assert_eq!(job["result"], json!({"hello": "world"}));
    assert_eq!(job["attempts"], 1);
    assert_eq!(job["max_attempts"], 4);
    assert_eq!(shown["runs"][0]["status"], "success");
    assert_eq!(shown["runs"][0]["error"], json!(null));
    // Whoever reads `id` finds it, and whoever reads `job_id`, too.
    let id = &answer["job_id"];
    let batch = server.post("/jobs/batch", json!({"jobs": [{"type": "noop"}]})).await.expect(202);
    assert!(
        batch["results"][0]["id"].is_string() && batch["results"][0]["id"] == batch["results"][0]["job_id"],
        "{batch}"
    );
    let listed = server.get("/jobs?type=echo").await.expect(200);
    for view in [&answer, job, &listed["jobs"][0]] {
        assert_eq!((&view["id"], &view["job_id"]), (id, id), "{view}");
    }
}

#[tokio::test]
async fn the_same_key_and_body_give_the_same_job_and_another_body_is_a_conflict() {
    let server = TestServer::start().await;
    let body = json!({"type": "noop", "payload": {"n": 1}, "idempotency_key": "k1"});
    let first = server.post("/jobs", body.clone()).await.expect(202);
    assert_eq!(first["idempotency"]["replayed"], false);
    let second = server.post("/jobs", body).await.expect(202);
    assert_eq!(second["job_id"], first["job_id"]);
    assert_eq!(second["idempotency"]["replayed"], true);
    let other = server.post("/jobs", json!({"type": "noop", "payload": {"n": 2}, "idempotency_key": "k1"})).await;
    assert_eq!((other.status, other.code()), (409, "IDEMPOTENCY_CONFLICT"));
}

#[tokio::test]
async fn twins_that_arrive_together_make_one_job() {
    let server = TestServer::start().await;
    let body = json!({"type": "noop", "external_id": "order-7"});
    let answers = futures_join(20, || server.post("/jobs", body.clone())).await;
    let ids: std::collections::BTreeSet<String> =
        answers.into_iter().map(|a| a.expect(202)["job_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 1);
}

async fn futures_join<T, F: Future<Output = T>>(count: usize, make: impl Fn() -> F) -> Vec<T> {
    let mut all: Vec<std::pin::Pin<Box<F>>> = (0..count).map(|_| Box::pin(make())).collect();
    let mut done: Vec<Option<T>> = (0..count).map(|_| None).collect();
    std::future::poll_fn(move |cx| {
        for (slot, future) in done.iter_mut().zip(&mut all) {
            if slot.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(cx)
            {
                *slot = Some(value);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(done.drain(..).flatten().collect())
        } else {
            std::task::Poll::Pending
        }
    })
    .await
}

#[tokio::test]
async fn a_batch_answers_each_item_by_itself() {
    let server = TestServer::start().await;
    let body = json!({"jobs": [
        {"type": "noop"},
        {"type": "noop", "colour": "red"},
        {"type": "noop", "idempotency_key": "b"},
        {"type": "noop", "idempotency_key": "b"},
        {"type": "echo", "idempotency_key": "b"},
    ]});
    let answer = server.post("/jobs/batch", body).await.expect(202);
    assert_eq!(
        (answer["accepted"].as_u64(), answer["replayed"].as_u64(), answer["refused"].as_u64()),
        (Some(2), Some(1), Some(2))
    );
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results[1]["error"]["code"], "VALIDATION_ERROR");
    assert!(results[1]["error"]["message"].as_str().unwrap().contains("colour"));
    assert_eq!(results[3]["job_id"], results[2]["job_id"]);
    assert_eq!(results[4]["error"]["code"], "IDEMPOTENCY_CONFLICT");
}

#[tokio::test]
async fn a_job_waits_for_its_moment_and_says_so() {
    let server = TestServer::start().await;
    let job = server.submit(json!({"type": "noop", "run_at": "2035-01-01T00:00:00Z"})).await;
    let why = server.get(&format!("/jobs/{job}/why")).await.expect(200);
    assert_eq!(why["reasons"][0]["code"], "scheduled");
    assert!(why["sentence"].as_str().unwrap().contains("2035-01-01"));
    let nobody = server.submit(json!({"type": "nobody.takes.this"})).await;
    let why = server.get(&format!("/jobs/{nobody}/why")).await.expect(200);
    assert_eq!(why["reasons"][0]["code"], "no_worker");
    let lanes = server.get("/lanes").await.expect(200);
    let default = lanes["lanes"].as_array().unwrap().iter().find(|l| l["lane"] == "default").unwrap().clone();
    assert_eq!((default["queued"].as_u64(), default["scheduled"].as_u64()), (Some(1), Some(1)));
}

#[tokio::test]
async fn a_list_is_walked_page_by_page() {
    let server = TestServer::start().await;
    let jobs: Vec<_> = (0..25).map(|_| json!({"type": "noop"})).collect();
    server.post("/jobs/batch", json!({"jobs": jobs})).await.expect(202);
    let mut seen = std::collections::BTreeSet::new();
    let mut path = "/jobs?limit=10".to_owned();
    loop {
        let page = server.get(&path).await.expect(200);
        for job in page["jobs"].as_array().unwrap() {
            assert!(seen.insert(job["id"].as_str().unwrap().to_owned()), "a job was listed twice");
            assert!(job.get("payload").is_none());
        }
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/jobs?limit=10&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 25);
    let none = server.get("/jobs?status=dead").await.expect(200);
    assert_eq!(none["jobs"], json!([]));
}

/// A number, the end of an id, and the words people look for.
#[tokio::test]
async fn jobs_are_found_by_what_people_remember() {
    let server = TestServer::start().await;
    let body = json!({"type": "nobody.takes.this", "external_id": "Order-17", "labels": {"site": "fra"}});
    let job = server.submit(body).await;
    let other = server.submit(json!({"type": "nobody.takes.that"})).await;
    let number = server.get(&format!("/jobs/{job}")).await.expect(200)["job"]["number"].clone();
    for name in [number.to_string(), format!("%23{number}"), job[24..].to_owned(), job[20..].to_uppercase()] {
        assert_eq!(server.get(&format!("/jobs/{name}")).await.expect(200)["job"]["id"], job.as_str(), "{name}");
    }
    for name in ["999999", "zzzz", "abc", "ffffffffffff", "%23"] {
        assert_eq!(server.get(&format!("/jobs/{name}")).await.code(), "JOB_NOT_FOUND", "{name}");
    }
    let list = async |query: &str| -> Vec<String> {
        let page = server.get(&format!("/jobs?{query}")).await.expect(200);
        let jobs = page["jobs"].as_array().expect("a list");
        jobs.iter().map(|job| job["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(list("text=order-17").await, [job.as_str()]);
    assert_eq!(list("text=takes.th").await, [other.as_str(), job.as_str()]);
    assert_eq!(list("label=site%3Dfra").await, [job.as_str()]);
    assert_eq!(list("label=site%3Dfr").await, Vec::<String>::new());
    assert_eq!(list("actor=admin&children=false").await, [other.as_str(), job.as_str()], "by the name of the token");
    assert_eq!(list("actor=somebody").await, Vec::<String>::new());
    assert_eq!(list("workflow=order").await, Vec::<String>::new());
    for (query, field) in
        [("label=site", "label"), ("text=", "text"), ("status=tired", "status"), ("parent=7", "parent")]
    {
        let answer = server.get(&format!("/jobs?{query}")).await;
        assert_eq!((answer.status, answer.code()), (400, "VALIDATION_ERROR"), "{query}");
        assert!(answer.body.to_string().contains(field), "{query}: {}", answer.body);
    }
}

#[tokio::test]
async fn executions_are_listed_without_what_they_started() {
    let server = TestServer::start().await;
    let workflow = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "work", "type": "task", "config": {"type": "echo", "payload": 1}},
            {"id": "nap", "type": "sleep", "config": {"duration": "1h"}},
        ],
        "edges": [{"source": "start", "target": "work"}, {"source": "work", "target": "nap"}],
    });
    let spec = json!({ "spec": workflow });
    server.send("PUT", "/resources/workflow/rest", &server.admin(), Some(spec)).await.expect(201);
    let run = server.submit(json!({"workflow": "rest"})).await;
    server.until_status(&run, "paused").await;
    let page = async |query: &str| server.get(&format!("/jobs?{query}")).await.expect(200)["jobs"].clone();
    let ids = |page: &serde_json::Value| page.as_array().expect("a list").len();
    assert_eq!(ids(&page("limit=10").await), 2);
    let alone = page("children=false").await;
    assert_eq!((ids(&alone), &alone[0]["id"], &alone[0]["paused_for"]), (1, &json!(run), &json!("sleep")));
    assert_eq!(page("workflow=rest").await[0]["id"], json!(run));
    let children = page(&format!("parent={run}")).await;
    assert_eq!((ids(&children), &children[0]["type"], &children[0]["begun_by"]), (1, &json!("echo"), &json!(run)));
    assert_eq!(page("status=sleeping").await[0]["id"], json!(run));
    assert_eq!(ids(&page("status=awaiting_approval").await), 0);
}
