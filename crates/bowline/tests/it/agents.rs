//! Agents, through the door: how they join, what they may say, and the output they bring.

use std::time::Duration;

use bowline_testkit::until;
use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::agent::{AgentKey, TestAgent};

#[tokio::test]
async fn a_join_token_is_good_for_one_agent() {
    let server = TestServer::start().await;
    let join = server.join_token(json!({"dc": "fra"})).await;
    let key = AgentKey::make();
    let enroll = |token: String, body: Value| {
        let server = &server;
        async move { server.send("POST", "/agents/enroll", &token, Some(body)).await }
    };
    let forged = AgentKey::make().request("another token", "web1");
    assert_eq!(enroll(join.clone(), forged).await.status, 400, "the signature is for another token");
    let first = enroll(join.clone(), key.request(&join, "web1")).await.expect(201);
    assert_eq!((&first["name"], &first["labels"]), (&json!("web1"), &json!({"dc": "fra"})));
    let used = enroll(join.clone(), AgentKey::make().request(&join, "web2")).await;
    assert_eq!((used.status, used.code()), (401, "AUTH_REQUIRED"));
    let next = server.join_token(json!({})).await;
    assert_eq!(enroll(next.clone(), key.request(&next, "web3")).await.code(), "AGENT_KEY_EXISTS");
    assert_eq!(enroll(next.clone(), AgentKey::make().request(&next, "web1")).await.code(), "AGENT_EXISTS");
    let named = server.token(json!({"kind": "join", "name": "web-[1:9]"})).await;
    let other = enroll(named.clone(), AgentKey::make().request(&named, "db-1")).await;
    assert_eq!((other.status, other.code()), (403, "FORBIDDEN"), "it is for other names");
    enroll(named.clone(), AgentKey::make().request(&named, "web-7")).await.expect(201);
    for name in ["../../keys/root", "", "a b", &"x".repeat(300)] {
        let mut body = AgentKey::make().request(&next, "web4");
        body["name"] = json!(name);
        assert_eq!(enroll(next.clone(), body).await.status, 400, "{name}");
    }
    let admin = server.admin();
    assert_eq!(enroll(admin.clone(), AgentKey::make().request(&admin, "web5")).await.status, 403);
    assert_eq!(server.send("GET", "/jobs", &next, None).await.status, 403, "a join token is good for nothing else");
    enroll(next.clone(), AgentKey::make().request(&next, "web6")).await.expect(201);
}

#[tokio::test]
async fn nobody_makes_itself_the_agent_of_a_host() {
    let server = TestServer::start().await;
    let worker = server.token(json!({"kind": "worker", "name": "w1"})).await;
    for (types, labels) in [
        (json!(["bowline.command"]), json!({})),
        (json!(["mail"]), json!({"bowline/agent": "w1"})),
        (json!(["mail"]), json!({"bowline/reach": "ssh"})),
    ] {
        let body = json!({"worker_id": "w1", "task_types": types, "labels": labels});
        assert_eq!(server.send("POST", "/workers/register", &worker, Some(body.clone())).await.status, 403, "{body}");
    }
    let agent = server.agent("web1", json!({})).await;
    assert_eq!(agent.register(json!({"bowline/agent": "web2"})).await.status, 403);
    server.send("PUT", "/hosts/web1", &server.admin(), Some(json!({}))).await.expect(201);
    server.send("PUT", "/hosts/web2", &server.admin(), Some(json!({}))).await.expect(201);
    server.post("/jobs", json!({"command": {"argv": ["true"]}, "selector": "all"})).await.expect(202);
    let tasks = agent.tasks(1).await;
    assert_eq!(tasks[0]["params"]["host"]["name"], "web1");
    assert!(agent.nothing_comes().await, "the other host is another agent's");
    // And nobody speaks for another one's run.
    let rogue = server.agent("web3", json!({})).await;
    let news = json!([{
        "run_id": tasks[0]["task_id"], "fence": 1, "events": [{"seq": 1, "data": {}}],
        "ended": {"status": "success", "exit_code": 0, "last_seq": 1},
    }]);
    let heard = rogue.ship(news.clone()).await.expect(200);
    assert_eq!((&heard["runs"][0]["refused"], &heard["runs"][0]["ended"]), (&json!("NOT_YOURS"), &json!(false)));
    assert_eq!(rogue.bring(&tasks[0]["task_id"], "stdout", 0, b"lies").await.status, 403);
    assert_eq!(rogue.send("POST", "/workers/web1/events", json!({"runs": news})).await.status, 403);
    let mut stale = news.clone();
    stale[0]["fence"] = json!(7);
    assert_eq!(agent.ship(stale).await.expect(200)["runs"][0]["refused"], "STALE_LEASE");
    let mut unknown = news.clone();
    unknown[0]["run_id"] = json!("0190b6a0-0000-7000-8000-000000000000");
    assert_eq!(agent.ship(unknown).await.expect(200)["runs"][0]["refused"], "RUN_NOT_FOUND");
    assert_eq!(agent.ship(news.clone()).await.expect(200)["runs"][0]["ended"], true);
    assert_eq!(agent.ship(news).await.expect(200)["runs"][0]["ended"], true, "saying it twice is saying it once");
    for bad in [json!([]), json!([{"run_id": tasks[0]["task_id"], "fence": 1, "events": [{"seq": 0, "data": {}}]}])] {
        assert_eq!(agent.ship(bad).await.status, 400);
    }
    // Nor does anybody offer evidence who is no agent.
    let id = "0190b6a0-0000-7000-8000-000000000000";
    let evidence = json!({"runs": [{
        "run_id": id, "unit_id": id, "fence": 1, "attempt": 1, "host": "web1", "host_fence": 1_000_000,
        "ended": {"status": "success", "last_seq": 1}, "at": "2026-01-01T00:00:00Z",
    }]});
    agent.send("POST", "/workers/web1/evidence", evidence.clone()).await.expect(200);
    let refused = server.send("POST", "/workers/w1/evidence", &worker, Some(evidence)).await;
    assert_eq!((refused.status, refused.code()), (403, "FORBIDDEN"), "{}", refused.body);
}

#[tokio::test]
async fn output_is_read_from_any_place_and_as_it_grows() {
    let server = TestServer::start().await;
    server.simulated_hosts(1).await;
    let agent = server.agent("agent-1", json!({"bowline/reach": "simulate"})).await;
    let job = server.post("/jobs", json!({"command": {"argv": ["x"]}, "selector": "all"})).await.expect(202);
    let job = job["job_id"].as_str().expect("a job").to_owned();
    let path = format!("/jobs/{job}/output?host=h0000");
    assert_eq!(server.get(&path).await.code(), "OUTPUT_NOT_FOUND");
    let task = agent.tasks(1).await.remove(0);
    let run = &task["task_id"];
    assert_eq!(agent.bring(run, "stdout", 0, b"hello ").await.expect(200)["stored"], 6);
    assert_eq!(agent.bring(run, "stdout", 0, b"hello ").await.expect(200)["stored"], 6, "twice is once");
    assert_eq!(agent.bring(run, "stdout", 11, b"!").await.expect(200)["stored"], 6, "there is a gap");
    assert_eq!(agent.bring(run, "stdout", 0, b"HELLO ").await.code(), "OUTPUT_CONFLICT");
    // Whoever does not know how much was stored begins anew, in other pieces; what is stored must be the same.
    assert_eq!(agent.bring(run, "stdout", 0, b"hello wor").await.expect(200)["stored"], 6, "it goes on from there");
    assert_eq!(agent.bring(run, "stdout", 2, b"llo").await.expect(200)["stored"], 6);
    assert_eq!(agent.bring(run, "stdout", 0, b"hellO wor").await.code(), "OUTPUT_CONFLICT");
    assert_eq!(agent.bring(run, "stdout", 2, b"LL").await.code(), "OUTPUT_CONFLICT");
    assert_eq!(agent.bring(run, "stderr", 0, b"oops\n").await.expect(200)["stored"], 5);
    assert_eq!(agent.bring_as(run, "stdout", 6, b"world", 5, &"0".repeat(64)).await.code(), "OUTPUT_DAMAGED");
    assert_eq!(agent.bring_as(run, "stdout", 6, b"world", 4, &"0".repeat(64)).await.code(), "OUTPUT_DAMAGED");
    assert_eq!(agent.bring(run, "elsewhere", 0, b"x").await.status, 404);
    let text = async |query: &str| {
        let answer = server.http().get(server.url(&format!("{path}{query}"))).bearer_auth(server.admin()).send().await;
        let answer = answer.expect("the server answers");
        let next = answer.headers().get("x-next-offset").and_then(|v| v.to_str().ok()).map(str::to_owned);
        (answer.status().as_u16(), next, answer.text().await.expect("a body"))
    };
    assert_eq!(text("").await, (200, Some("6".to_owned()), "hello ".to_owned()), "nothing is shown beyond a gap");
    assert_eq!(text("&stream=stderr").await.2, "oops\n");
    let mut followers = tokio::task::JoinSet::new();
    let (http, url, token) = (server.http().clone(), server.url(&format!("{path}&follow=true")), server.admin());
    followers.spawn(async move {
        http.get(url).bearer_auth(token).send().await.expect("an answer").text().await.expect("a body")
    });
    assert_eq!(agent.bring(run, "stdout", 6, b"world").await.expect(200)["stored"], 12);
    assert_eq!(text("&offset=6&limit=3").await, (200, Some("9".to_owned()), "wor".to_owned()));
    let ranged = server.http().get(server.url(&path)).bearer_auth(server.admin()).header("range", "bytes=3-7");
    let ranged = ranged.send().await.expect("an answer");
    assert_eq!(ranged.headers()["content-range"], "bytes 3-7/12");
    assert_eq!((ranged.status().as_u16(), ranged.text().await.expect("a body").as_str()), (206, "lo wo"));
    for bad in ["bytes=5-3", "bytes=-5", "lines=1-2", "bytes=x-"] {
        let answer = server.http().get(server.url(&path)).bearer_auth(server.admin()).header("range", bad);
        assert_eq!(answer.send().await.expect("an answer").status().as_u16(), 400, "{bad}");
    }
    agent.finish(&task, 0).await;
    assert_eq!(followers.join_all().await, ["hello world!"], "whoever follows sees all of it, and its end");
    until(Duration::from_secs(30), "the command has ended", async || {
        server.get(&format!("/jobs/{job}")).await.expect(200)["job"]["status"] == "success"
    })
    .await;
    let stranger = server.token(json!({"kind": "api", "name": "x", "scopes": ["jobs.write"]})).await;
    assert_eq!(server.send("GET", &path, &stranger, None).await.status, 403);
}

/// Somebody's agent, with only what this join token gives it.
async fn joined<'a>(server: &'a TestServer, name: &str, join: Value) -> (TestAgent<'a>, AgentKey) {
    let key = AgentKey::make();
    let join = server.token(join).await;
    let body = key.request(&join, name);
    let enrolled = server.send("POST", "/agents/enroll", &join, Some(body)).await.expect(201);
    let token = enrolled["token"].as_str().expect("a token").to_owned();
    (TestAgent { server, name: name.to_owned(), token }, key)
}

#[tokio::test]
async fn an_agent_reaches_what_its_join_token_says_and_nothing_else() {
    let server = TestServer::start().await;
    let through = json!({"via": "ssh", "through": {"site": "secure"}});
    for (host, connection) in [("db1", json!({"via": "ssh"})), ("db2", through)] {
        let path = format!("/hosts/{host}");
        server.send("PUT", &path, &server.admin(), Some(json!({"connection": connection}))).await.expect(201);
    }
    server.post("/jobs", json!({"command": {"argv": ["true"]}, "selector": "all"})).await.expect(202);
    let (plain, _) = joined(&server, "web77", json!({"kind": "join", "name": "web77"})).await;
    let refused = plain.register(json!({"bowline/reach": "ssh", "site": "secure"})).await;
    assert_eq!((refused.status, refused.code()), (403, "FORBIDDEN"), "{}", refused.body);
    plain.register(json!({"site": "secure"})).await.expect(200);
    assert!(plain.nothing_comes().await, "it reaches no host over SSH");
    let join = json!({"kind": "join", "name": "site-a", "reach": ["ssh"]});
    let (reaching, _) = joined(&server, "site-a", join).await;
    reaching.register(json!({"bowline/reach": "ssh", "site": "secure"})).await.expect(200);
    let tasks = reaching.tasks(1).await;
    assert_eq!(tasks[0]["params"]["host"]["name"], "db1");
    assert!(reaching.nothing_comes().await, "the label for db2 is its own word only");
    let workers = server.get("/workers").await.expect(200);
    let shown = workers["workers"].as_array().expect("a list").iter().find(|w| w["worker_id"] == "site-a");
    let shown = shown.expect("it is listed");
    assert_eq!(shown["labels"], json!({"bowline/agent": "site-a", "bowline/reach": "ssh"}));
    assert_eq!(shown["claimed_labels"], json!({"site": "secure"}));
    assert_eq!(shown["shares_agent_user"], Value::Null, "it says that it does not");
    let join = json!({"kind": "join", "name": "site-b", "reach": ["ssh"], "labels": {"site": "secure"}});
    let (admitted, _) = joined(&server, "site-b", join).await;
    admitted.register(json!({"bowline/reach": "ssh"})).await.expect(200);
    assert_eq!(admitted.tasks(1).await[0]["params"]["host"]["name"], "db2");
    for types in [json!(["mail"]), json!(["bowline.command", "http_request"])] {
        let body = json!({"worker_id": "site-b", "task_types": types});
        assert_eq!(admitted.send("POST", "/workers/register", body).await.status, 403, "agents take commands only");
    }
}

#[tokio::test]
async fn a_worker_takes_the_types_its_token_names() {
    let server = TestServer::start().await;
    let register = async |name: &str, token: &str, types: Value| {
        let body = json!({"worker_id": name, "task_types": types});
        server.send("POST", "/workers/register", token, Some(body)).await
    };
    let any = server.token(json!({"kind": "worker", "name": "any"})).await;
    for taken in ["http_request", "rabbitmq_publish", "echo", "sleep", "noop", "fail"] {
        let refused = register("any", &any, json!(["mail", taken])).await;
        assert_eq!((refused.status, refused.code()), (403, "FORBIDDEN"), "{taken}");
    }
    register("any", &any, json!(["mail"])).await.expect(200);
    let gpu = server.token(json!({"kind": "worker", "name": "gpu", "task_types": ["gpu.*"]})).await;
    let refused = register("gpu", &gpu, json!(["gpu.render", "mail"])).await;
    assert_eq!((refused.status, refused.code()), (403, "FORBIDDEN"));
    assert_eq!(
        refused.body["error"]["message"],
        "the token of worker gpu is not for tasks of type mail; it is for gpu.*"
    );
    register("gpu", &gpu, json!(["gpu.render"])).await.expect(200);
    for (body, field) in [
        (json!({"kind": "worker", "name": "x", "task_types": ["a b"]}), "task_types"),
        (json!({"kind": "worker", "name": "x", "task_types": []}), "task_types"),
        (json!({"kind": "api", "name": "x", "task_types": ["a"]}), "task_types"),
        (json!({"kind": "worker", "name": "x", "reach": ["ssh"]}), "reach"),
        (json!({"kind": "api", "name": "x", "secrets_for_shared_user": true}), "secrets_for_shared_user"),
        (json!({"kind": "join", "name": "web [1]"}), "name"),
    ] {
        let refused = server.post("/tokens", body.clone()).await;
        assert_eq!((refused.status, &refused.body["error"]["details"]["field"]), (400, &json!(field)), "{body}");
    }
}

#[tokio::test]
async fn an_agent_is_found_by_its_credential() {
    let server = TestServer::start().await;
    let early = server.token(json!({"kind": "worker", "name": "h2"})).await;
    let (agent, _) = joined(&server, "h1", json!({"kind": "join", "name": "h1"})).await;
    agent.register(json!({})).await.expect(200);
    let refused = server.post("/tokens", json!({"kind": "worker", "name": "h1"})).await;
    assert_eq!((refused.status, refused.code()), (409, "AGENT_EXISTS"));
    let join = server.token(json!({"kind": "join", "name": "h2"})).await;
    let body = AgentKey::make().request(&join, "h2");
    let refused = server.send("POST", "/agents/enroll", &join, Some(body)).await;
    assert_eq!((refused.status, refused.code()), (409, "AGENT_EXISTS"), "a worker's token has this name");
    assert!(!early.is_empty());
}

#[tokio::test]
async fn a_credential_is_renewed_with_the_agents_key_and_an_old_key_comes_back() {
    let server = TestServer::start().await;
    let (agent, key) = joined(&server, "web1", json!({"kind": "join", "name": "web1"})).await;
    let registered = agent.register(json!({})).await.expect(200);
    let half_a_year = 183 * 24 * 60 * 60;
    assert!(registered["renew_after_s"].as_u64().is_some_and(|s| s <= half_a_year && s > half_a_year - 600));
    let forged = AgentKey::make().renewal(&agent.token, "web1");
    assert_eq!(agent.send("POST", "/agents/renew", forged).await.status, 400, "the credential alone is not enough");
    let renewed = agent.send("POST", "/agents/renew", key.renewal(&agent.token, "web1")).await.expect(200);
    assert_eq!(renewed["renew_after_s"], half_a_year);
    let renewed = TestAgent {
        server: &server,
        name: "web1".to_owned(),
        token: renewed["token"].as_str().expect("a token").to_owned(),
    };
    assert_ne!(renewed.token, agent.token);
    renewed.register(json!({})).await.expect(200);
    agent.register(json!({})).await.expect(200);
    let worker = server.worker("w1", &["t"]).await;
    let refused = server.send("POST", "/agents/renew", &worker, Some(key.renewal(&worker, "w1"))).await;
    assert_eq!(refused.status, 403, "a worker's token is not an agent's credential");
    // A new join token admits the agent anew, as what it says.
    let join = server.token(json!({"kind": "join", "name": "web1", "reach": ["ssh"]})).await;
    let again = server.send("POST", "/agents/enroll", &join, Some(key.request(&join, "web1"))).await.expect(201);
    let again = TestAgent {
        server: &server,
        name: "web1".to_owned(),
        token: again["token"].as_str().expect("a token").to_owned(),
    };
    again.register(json!({"bowline/reach": "ssh"})).await.expect(200);
    until(Duration::from_secs(10), "the credentials before are refused", async || {
        agent.register(json!({})).await.status == 401 && renewed.register(json!({})).await.status == 401
    })
    .await;
    let tokens = server.get("/tokens").await.expect(200);
    let joins: Vec<(Value, Value)> = tokens["tokens"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|token| token["kind"] == "join")
        .map(|token| (token["status"].clone(), token["reach"].clone()))
        .collect();
    assert_eq!(joins, [(json!("used"), Value::Null), (json!("used"), json!(["ssh"]))]);
}

#[tokio::test]
async fn a_changed_sealing_key_is_recorded_and_told() {
    let server = TestServer::start().await;
    let (agent, key) = joined(&server, "web1", json!({"kind": "join", "name": "web1"})).await;
    let show = async |public: [u8; 32]| {
        let offer = key.sealing_offer("web1", &public);
        let body = json!({"worker_id": "web1", "task_types": ["bowline.command"], "sealing": offer});
        agent.send("POST", "/workers/register", body).await.expect(200);
    };
    let made = || bowline_seal::OpeningKey::make().sealing_key().to_bytes();
    let (first, second) = (made(), made());
    show(first).await;
    show(first).await;
    show(second).await;
    let events = server.get("/events?limit=500").await.expect(200);
    let told: Vec<&str> = events["events"]
        .as_array()
        .expect("events")
        .iter()
        .filter_map(|event| event["type"].as_str())
        .filter(|kind| kind.contains("sealing_key"))
        .collect();
    assert_eq!(told, ["agent_sealing_key_set", "agent_sealing_key_changed"]);
    let audit = server.get("/audit?limit=500").await.expect(200);
    let records: Vec<(&Value, &Value)> = audit["records"]
        .as_array()
        .expect("records")
        .iter()
        .filter(|record| record["action"] == "agent.sealing_key")
        .map(|record| (&record["resource"], &record["result"]))
        .collect();
    assert_eq!(records, [(&json!("agent/web1"), &json!("done")); 2]);
}

#[tokio::test]
async fn an_agent_that_shares_its_user_waits_for_secrets_unless_its_join_token_says_otherwise() {
    let server = TestServer::start().await;
    let register = async |agent: &TestAgent<'_>, key: &AgentKey, shares: Value| {
        let public = bowline_seal::OpeningKey::make().sealing_key().to_bytes();
        let body = json!({
            "worker_id": "web1", "task_types": ["bowline.command"], "shares_agent_user": shares,
            "sealing": key.sealing_offer("web1", &public),
        });
        agent.send("POST", "/workers/register", body).await.expect(200);
        let workers = server.get("/workers").await.expect(200);
        let shown = workers["workers"].as_array().expect("a list").iter().find(|w| w["worker_id"] == "web1").cloned();
        shown.map(|shown| (shown["labels"]["bowline/sealing"].clone(), shown["shares_agent_user"].clone()))
    };
    let (agent, key) = joined(&server, "web1", json!({"kind": "join", "name": "web1"})).await;
    assert_eq!(register(&agent, &key, json!(true)).await, Some((Value::Null, json!(true))));
    assert_eq!(register(&agent, &key, Value::Null).await, Some((Value::Null, json!(true))), "silence is no promise");
    assert_eq!(register(&agent, &key, json!(false)).await, Some((json!("x25519"), Value::Null)));
    let join = json!({"kind": "join", "name": "web1", "secrets_for_shared_user": true});
    let join = server.token(join).await;
    let again = server.send("POST", "/agents/enroll", &join, Some(key.request(&join, "web1"))).await.expect(201);
    let agent = TestAgent {
        server: &server,
        name: "web1".to_owned(),
        token: again["token"].as_str().expect("a token").to_owned(),
    };
    assert_eq!(register(&agent, &key, json!(true)).await, Some((json!("x25519"), json!(true))));
}

#[tokio::test]
async fn an_agent_whose_key_is_lost_is_removed_and_its_name_joined_again() {
    let server = TestServer::start().await;
    let join = json!({"kind": "join", "name": "web1", "reach": ["ssh"], "labels": {"site": "fra"}});
    let (agent, key) = joined(&server, "web1", join).await;
    let listed = server.get("/agents").await.expect(200);
    assert_eq!((&listed["agents"][0]["status"], &listed["next_cursor"]), (&json!("enrolled"), &Value::Null));
    let body = json!({
        "worker_id": "web1", "task_types": ["bowline.command"], "labels": {"rack": "7"}, "slots": 4,
        "shares_agent_user": false, "resources": {"version": "1.2.3"},
    });
    agent.send("POST", "/workers/register", body).await.expect(200);
    server.send("PUT", "/hosts/web1", &server.admin(), Some(json!({}))).await.expect(201);
    server.post("/jobs", json!({"command": {"argv": ["true"]}, "selector": "all"})).await.expect(202);
    let tasks = agent.tasks(1).await;
    let beat = json!({"runs": [tasks[0]["task_id"]]});
    agent.send("POST", "/workers/web1/heartbeat", beat.clone()).await.expect(200);

    let shown = server.get("/agents/web1").await.expect(200);
    assert_eq!((&shown["status"], &shown["running"], &shown["slots"]), (&json!("active"), &json!(1), &json!(4)));
    assert_eq!((&shown["version"], &shown["shares_agent_user"]), (&json!("1.2.3"), &json!(false)));
    assert_eq!((&shown["reach"], &shown["claimed_labels"]), (&json!(["ssh"]), &json!({"rack": "7"})));
    assert_eq!(shown["labels"], json!({"bowline/agent": "web1", "site": "fra"}));
    assert!(shown["credential"]["expires_at"].is_string() && shown["seen_at"].is_string(), "{shown}");
    assert!(shown["admitted"]["by"]["name"].is_string(), "{shown}");
    assert_eq!(server.get("/agents").await.expect(200)["agents"], json!([shown]));
    assert_eq!(server.get("/agents?limit=0").await.status, 400);
    let unknown = server.get("/agents/web2").await;
    assert_eq!((unknown.status, unknown.code()), (404, "AGENT_NOT_FOUND"));
    let reader = server.token(json!({"kind": "api", "name": "r", "scopes": ["control.read"]})).await;
    server.send("GET", "/agents", &reader, None).await.expect(200);
    assert_eq!(server.send("DELETE", "/agents/web1?reason=not%20mine", &reader, None).await.status, 403);

    let remove = async |reason: Value| server.send("DELETE", "/agents/web1", &server.admin(), Some(reason)).await;
    assert_eq!(remove(json!({})).await.status, 400, "a reason is required");
    let removed = remove(json!({"reason": "its disk is broken"})).await.expect(200);
    assert_eq!(removed, json!({"name": "web1", "removed": true, "lost_runs": 1, "returned_runs": 0}));
    assert_eq!(remove(json!({"reason": "once more"})).await.code(), "AGENT_NOT_FOUND");
    assert_eq!(agent.send("POST", "/workers/web1/heartbeat", beat).await.status, 401, "its credential has ended");
    let line = server.get("/hosts/web1/queue").await.expect(200);
    assert_eq!(line["kept"][0]["run_id"], tasks[0]["task_id"], "the command may still run: {line}");
    let audit = server.get("/audit?action=agent.remove").await.expect(200);
    assert_eq!(audit["records"][0]["resource"], "agent/web1");
    assert_eq!(audit["records"].as_array().expect("records").last().expect("one")["reason"], "its disk is broken");

    let (again, _) = joined(&server, "web1", json!({"kind": "join", "name": "web1"})).await;
    again.register(json!({})).await.expect(200);
    let second = server.token(json!({"kind": "join", "name": "web2"})).await;
    let body = key.request(&second, "web2");
    server.send("POST", "/agents/enroll", &second, Some(body)).await.expect(201);
}
