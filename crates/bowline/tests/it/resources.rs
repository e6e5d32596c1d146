//! Resources, through the door: version by version.

use bowline_testkit::fresh_database;
use serde_json::{Value, json};

use crate::support::{Answer, Setup, TestServer};

const PATH: &str = "/resources/command/restart-nginx";

async fn put(server: &TestServer, path: &str, body: Value) -> Answer {
    server.send("PUT", path, &server.admin(), Some(body)).await
}

fn restart(unit: &str) -> Value {
    json!({"spec": {"argv": ["systemctl", "restart", unit]}})
}

#[tokio::test]
async fn a_resource_is_stored_version_by_version() {
    let server = TestServer::start().await;
    let first = put(&server, PATH, restart("nginx")).await.expect(201);
    assert_eq!(
        first,
        json!({"kind": "command", "name": "restart-nginx", "outcome": "stored", "version": 1, "active": 1, "activated": true})
    );
    let same = put(&server, PATH, restart("nginx")).await.expect(200);
    assert_eq!((&same["outcome"], &same["version"]), (&json!("unchanged"), &json!(1)));
    let with_default = json!({"spec": {"argv": ["systemctl", "restart", "nginx"], "idempotent": false}});
    assert_eq!(put(&server, PATH, with_default).await.expect(200)["outcome"], "unchanged", "what is meant counts");
    let second = json!({"spec": {"argv": ["true"]}, "note": "quieter", "activate": false});
    let second = put(&server, PATH, second).await.expect(200);
    assert_eq!((&second["version"], &second["active"], &second["activated"]), (&json!(2), &json!(1), &json!(false)));
    let shown = server.get(PATH).await.expect(200)["resource"].clone();
    assert_eq!(
        (&shown["version"], &shown["latest"], &shown["spec"]["argv"][0]),
        (&json!(1), &json!(2), &json!("systemctl"))
    );
    assert_eq!(shown["spec"]["timeout_ms"], 900_000, "with every default in its place");
    let shown = server.get(&format!("{PATH}?version=2")).await.expect(200)["resource"].clone();
    assert_eq!((&shown["note"], &shown["spec"]["argv"]), (&json!("quieter"), &json!(["true"])));
    assert!(shown["by"].as_str().unwrap().starts_with("token:"));
    let versions = server.get(&format!("{PATH}/versions?limit=1")).await.expect(200);
    assert_eq!(versions["versions"][0]["version"], 2);
    let cursor = versions["next_cursor"].as_str().unwrap();
    let rest = server.get(&format!("{PATH}/versions?cursor={cursor}")).await.expect(200);
    assert_eq!((rest["versions"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &Value::Null));
    let list = server.get("/resources/command").await.expect(200);
    assert_eq!((&list["resources"][0]["name"], &list["resources"][0]["version"]), (&json!("restart-nginx"), &json!(1)));
    let kinds = server.get("/resources/kinds").await.expect(200);
    assert_eq!(kinds["kinds"][0]["kind"], "command");
    assert!(kinds["kinds"][0]["schema"]["$defs"]["CommandSpec"]["properties"]["argv"].is_object());
}

#[tokio::test]
async fn two_writers_do_not_overwrite_each_other_unseen() {
    two_writers(Setup::default()).await;
}

#[tokio::test]
async fn two_writers_do_not_overwrite_each_other_on_postgresql_either() {
    let database = fresh_database();
    two_writers(Setup { database_url: Some(database.url().to_owned()), ..Setup::default() }).await;
}

async fn two_writers(setup: Setup) {
    let server = TestServer::with(setup).await;
    let seen = |body: Value, n: u32| {
        let mut body = body;
        body["seen"] = json!(n);
        body
    };
    let absent = put(&server, PATH, seen(restart("a"), 3)).await;
    assert_eq!((absent.status, absent.code()), (409, "RESOURCE_OVERTAKEN"));
    assert_eq!(server.get(PATH).await.status, 404, "and nothing was made");
    put(&server, PATH, seen(restart("a"), 0)).await.expect(201);
    let late = put(&server, PATH, seen(restart("b"), 0)).await;
    assert_eq!(
        (late.status, late.code(), &late.body["error"]["details"]["latest"]),
        (409, "RESOURCE_OVERTAKEN", &json!(1))
    );
    put(&server, PATH, seen(restart("b"), 1)).await.expect(200);
    let with_header = |name: &'static str, value: &'static str, body: Value| {
        let request = server.http().put(server.url(PATH)).bearer_auth(server.admin()).json(&body);
        async move { Answer::read(request.header(name, value).send().await.expect("an answer")).await.expect("a body") }
    };
    assert_eq!(with_header("if-match", "\"1\"", restart("c")).await.code(), "RESOURCE_OVERTAKEN");
    assert_eq!(with_header("if-match", "\"2\"", restart("c")).await.expect(200)["version"], 3);
    assert_eq!(with_header("if-none-match", "*", restart("d")).await.code(), "RESOURCE_OVERTAKEN");
    assert_eq!(with_header("if-match", "two", restart("d")).await.status, 400);
    assert_eq!(with_header("if-match", "\"3\"", seen(restart("d"), 2)).await.status, 400);
    let tag = server.http().get(server.url(PATH)).bearer_auth(server.admin()).send().await.expect("an answer");
    assert_eq!(tag.headers()["etag"], "\"3\"");
    let statuses = write_at_once(&server, 8).await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
}

/// Writers at the same moment, who have all seen version 3 and want different things.
async fn write_at_once(server: &TestServer, count: usize) -> Vec<u16> {
    let mut answers = tokio::task::JoinSet::new();
    for n in 0..count {
        let mut body = restart(&format!("unit-{n}"));
        body["seen"] = json!(3);
        let request = server.http().put(server.url(PATH)).bearer_auth(server.admin()).json(&body);
        answers.spawn(async move { request.send().await.expect("an answer").status().as_u16() });
    }
    answers.join_all().await
}

#[tokio::test]
async fn going_back_is_moving_a_pointer() {
    let server = TestServer::start().await;
    let no_version = server.post(&format!("{PATH}/rollback"), json!({"reason": "too early"})).await;
    assert_eq!((no_version.status, no_version.code()), (404, "RESOURCE_NOT_FOUND"));
    for unit in ["a", "b", "c"] {
        assert!([200, 201].contains(&put(&server, PATH, restart(unit)).await.status));
    }
    let back = server.post(&format!("{PATH}/rollback"), json!({"reason": "c does not start"})).await.expect(200);
    assert_eq!((&back["active"], &back["before"], &back["changed"]), (&json!(2), &json!(3), &json!(true)));
    let back = server.post(&format!("{PATH}/rollback"), json!({"reason": "nor does b"})).await.expect(200);
    assert_eq!(back["active"], 1);
    let lowest = server.post(&format!("{PATH}/rollback"), json!({"reason": "nor does a"})).await;
    assert_eq!((lowest.status, lowest.code()), (409, "NO_EARLIER_VERSION"));
    let up = json!({"version": 3, "reason": "c it is"});
    assert_eq!(server.post(&format!("{PATH}/activate"), up.clone()).await.expect(200)["before"], 1);
    assert_eq!(server.post(&format!("{PATH}/activate"), up).await.expect(200)["changed"], false);
    let missing = server.post(&format!("{PATH}/activate"), json!({"version": 9, "reason": "no such"})).await;
    assert_eq!((missing.status, missing.code()), (404, "RESOURCE_NOT_FOUND"));
    let told = server.get("/events?type=resource_activated").await.expect(200);
    let reasons: Vec<_> =
        told["events"].as_array().unwrap().iter().map(|e| e["data"]["reason"].as_str().unwrap()).collect();
    assert!(reasons[0].contains("c does not start") && reasons.len() == 3, "{reasons:?}");
    let diff = server.get(&format!("{PATH}/diff?from=1&to=3")).await.expect(200);
    assert_eq!(
        diff,
        json!({"from": 1, "to": 3, "changes": [{"path": "/argv/2", "change": "changed", "before": "a", "after": "c"}]})
    );
    assert_eq!(server.get(&format!("{PATH}/diff")).await.expect(200)["from"], 2, "with the one before, unless said");
    let all = server.get(&format!("{PATH}/diff?to=1")).await.expect(200);
    assert_eq!((&all["from"], &all["changes"][0]["change"]), (&json!(0), &json!("added")));
    assert_eq!(server.get(&format!("{PATH}/diff?from=7")).await.code(), "RESOURCE_NOT_FOUND");
    for path in [format!("{PATH}?reason=x"), PATH.to_owned()] {
        assert_eq!(server.send("DELETE", &path, &server.admin(), None).await.code(), "VALIDATION_ERROR");
    }
    let gone = server.send("DELETE", PATH, &server.admin(), Some(json!({"reason": "not needed"}))).await.expect(200);
    assert_eq!(gone["deleted"], true);
    let again = server.send("DELETE", &format!("{PATH}?reason=not%20needed"), &server.admin(), None).await;
    assert_eq!((again.status, again.code()), (404, "RESOURCE_NOT_FOUND"));
    assert_eq!(put(&server, PATH, restart("a")).await.expect(201)["version"], 1);
}

#[tokio::test]
async fn a_mistake_in_a_spec_has_a_place_and_stores_nothing() {
    let server = TestServer::start().await;
    for (spec, path) in [
        (json!({"argv": ["a", 7]}), "spec.argv[1]"),
        (json!({"argv": ["a", "{{ params.user }}"]}), "spec.argv[1]"),
        (json!({"argv": ["a", "{{ x"]}), "spec.argv[1]"),
        (json!({"argv": "uptime"}), "spec.argv"),
        (json!({"argv": ["a"], "retry": {"max_attempts": "x"}}), "spec.retry.max_attempts"),
        (json!({"argv": ["a"], "retry": [1]}), "spec.retry"),
        (json!({"argv": ["a"], "approval": {"quorum": 0}}), "spec.approval.quorum"),
        (json!({"argv": ["a"], "env": {"A": 1}}), "spec.env.A"),
        (json!({"argv": ["a"], "params": {"type": "objekt"}}), "spec.params"),
        (json!({"argv": ["a"], "agrv": []}), "spec.agrv"),
        (json!({}), "spec.argv"),
        (json!([]), "spec"),
        (json!("argv"), "spec"),
        (Value::Null, "spec"),
    ] {
        let body = json!({"spec": spec});
        for (method, at) in [
            ("PUT", PATH.to_owned()),
            ("POST", format!("{PATH}/validate")),
            ("POST", "/resources/command/validate".to_owned()),
        ] {
            let refused = server.send(method, &at, &server.admin(), Some(body.clone())).await;
            assert_eq!(
                (refused.status, refused.code()),
                (422, "VALIDATION_ERROR"),
                "{method} {body}: {}",
                refused.body
            );
            assert_eq!(refused.body["error"]["details"]["path"], path, "{body}: {}", refused.body);
        }
    }
    for body in [
        json!({}),
        json!({"spec": {"argv": ["a"]}, "sepc": 1}),
        json!({"spec": {"argv": ["a"]}, "seen": -1}),
        json!({"spec": {"argv": ["a"]}, "note": "x".repeat(1001)}),
        json!({"spec": {"argv": ["a"]}, "source": "kind: command\nname: restart-nginx\nspec: {argv: [b]}\n"}),
        json!({"spec": {"argv": ["a"]}, "source": "kind: ["}),
        json!([]),
    ] {
        let refused = put(&server, PATH, body.clone()).await;
        assert_eq!((refused.status, refused.code()), (400, "VALIDATION_ERROR"), "{body}: {}", refused.body);
    }
    // Longer than one request with a single resource may be, so it comes with others.
    let document =
        json!({"kind": "command", "name": "long", "spec": {"argv": ["a"], "description": "x".repeat(1 << 20)}});
    let refused = server.post("/apply", json!({"documents": [document]})).await;
    assert_eq!((refused.status, refused.code()), (422, "VALIDATION_ERROR"), "{}", refused.body);
    let message = refused.body["error"]["message"].as_str().expect("a message");
    assert!(message.contains("may have 1048576"), "{message}");
    for path in ["/resources/command/-x", "/resources/command/%00", "/resources/command/%76alidate"] {
        let refused = put(&server, path, restart("a")).await;
        assert_eq!((refused.status, refused.code()), (400, "VALIDATION_ERROR"), "{path}: {}", refused.body);
    }
    for path in ["/resources/comand", "/resources/comand/x", "/resources/comand/x/versions"] {
        let refused = server.get(path).await;
        assert_eq!((refused.status, refused.code()), (404, "KIND_NOT_FOUND"), "{path}");
        assert_eq!(
            refused.body["error"]["details"]["kinds"],
            json!(["command", "rabbitmq", "secret_ref", "schedule", "trigger", "workflow", "blueprint"])
        );
    }
    for path in ["?version=x", "?verison=1", "/versions?limit=0", "/versions?cursor=x", "/diff?from=-1"] {
        assert_eq!(server.get(&format!("{PATH}{path}")).await.status, 400, "{path}");
    }
    for (path, body) in [
        ("activate", json!({"version": 1})),
        ("activate", json!({"version": 0, "reason": "x"})),
        ("activate", json!({"version": "1", "reason": "why not"})),
        ("rollback", json!({})),
        ("rollback", json!({"reason": "why not", "to": 1})),
    ] {
        assert_eq!(server.post(&format!("{PATH}/{path}"), body.clone()).await.status, 400, "{path} {body}");
    }
    assert_eq!(server.get("/resources/command").await.expect(200)["resources"], json!([]), "nothing was stored");
}

#[tokio::test]
async fn a_check_says_what_storing_would_do() {
    let server = TestServer::start().await;
    let check = format!("{PATH}/validate");
    let would = server.post(&check, restart("a")).await.expect(200);
    assert_eq!((&would["valid"], &would["would"], &would["version"]), (&json!(true), &json!("create"), &json!(1)));
    assert_eq!(would["spec"]["lock"], "exclusive");
    assert_eq!(server.get(PATH).await.status, 404);
    put(&server, PATH, restart("a")).await.expect(201);
    let later = json!({"spec": {"argv": ["b"]}, "activate": false});
    put(&server, PATH, later.clone()).await.expect(200);
    assert_eq!(server.post(&check, later).await.expect(200)["would"], "nothing");
    let would = server.post(&check, restart("a")).await.expect(200);
    assert_eq!((&would["would"], &would["version"]), (&json!("update"), &json!(3)));
    let unnamed = server.post("/resources/command/validate", restart("a")).await.expect(200);
    assert_eq!((&unnamed["valid"], &unnamed["would"]), (&json!(true), &Value::Null));
}

#[tokio::test]
async fn another_tenants_resources_do_not_exist() {
    let server = TestServer::start().await;
    put(&server, PATH, restart("a")).await.expect(201);
    put(&server, PATH, restart("b")).await.expect(200);
    put(&server, "/resources/command/other", restart("b")).await.expect(201);
    let tenant = server.post("/tenants", json!({"name": "other"})).await.expect(201)["id"].clone();
    let scopes = ["resources.read", "resources.write", "fleet.write"];
    let stranger = server.token(json!({"kind": "api", "name": "s", "scopes": scopes, "tenant_id": tenant})).await;
    let reason = json!({"reason": "mine now"});
    for (method, rest, body) in [
        ("GET", "", None),
        ("GET", "?version=1", None),
        ("GET", "/versions", None),
        ("GET", "/diff", None),
        ("POST", "/activate", Some(json!({"version": 1, "reason": "mine now"}))),
        ("POST", "/rollback", Some(reason.clone())),
        ("DELETE", "", Some(reason)),
    ] {
        let theirs = server.send(method, &format!("{PATH}{rest}"), &stranger, body.clone()).await;
        let none = server.send(method, &format!("/resources/command/none{rest}"), &stranger, body).await;
        assert_eq!((theirs.status, &theirs.body["error"]), (404, &none.body["error"]), "{method} {rest}");
    }
    assert_eq!(server.send("GET", "/resources/command", &stranger, None).await.expect(200)["resources"], json!([]));
    let check = server.send("POST", &format!("{PATH}/validate"), &stranger, Some(restart("b"))).await.expect(200);
    assert_eq!(check["would"], "create");
    assert_eq!(server.send("PUT", PATH, &stranger, Some(restart("z"))).await.expect(201)["version"], 1);
    assert_eq!(server.get(PATH).await.expect(200)["resource"]["latest"], 2);
    let page = server.get("/resources/command?limit=1").await.expect(200);
    let cursor = page["next_cursor"].as_str().unwrap();
    let stolen = server.send("GET", &format!("/resources/command?cursor={cursor}"), &stranger, None).await;
    assert_eq!(stolen.status, 400);
}

/// B082: a workflow is kept if it could run. Otherwise everything that is wrong is said, and nothing is kept.
#[tokio::test]
async fn b082_a_workflow_is_checked_whole_before_it_is_kept() {
    let server = TestServer::start().await;
    let path = "/resources/workflow/greet";
    let mut bad = json!({"spec": {
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "two", "type": "start"},
            {"id": "a", "type": "log", "config": {"message": "{{ steps.b.output }}"}},
        ],
        "edges": [
            {"source": "start", "target": "a"},
            {"source": "a", "target": "a"},
            {"source": "a", "target": "nobody", "on": "failure"},
        ],
    }});
    let refused = put(&server, path, bad.clone()).await;
    assert_eq!(refused.status, 422);
    let error = &refused.body["error"];
    assert_eq!(error["code"], "VALIDATION_ERROR");
    let paths = |error: &Value| -> Vec<String> {
        let mistakes = error["details"]["mistakes"].as_array().expect("all errors");
        mistakes.iter().map(|mistake| mistake["path"].as_str().expect("a path").to_owned()).collect()
    };
    for place in ["spec.nodes[1].type", "spec.edges[2].target", "spec.nodes[2].config.message"] {
        assert!(paths(error).iter().any(|path| path == place), "{place}: {error}");
    }
    // Whether the node leads to an end is known once its edges are right.
    bad["spec"]["edges"].as_array_mut().expect("edges").pop();
    let refused = put(&server, path, bad).await;
    assert_eq!(refused.status, 422);
    let error = &refused.body["error"];
    assert!(paths(error).iter().any(|path| path == "spec.nodes[2]"), "{error}");
    assert_eq!(server.get(path).await.status, 404);
    let good = json!({"spec": {
        "nodes": [{"id": "start", "type": "start"}, {"id": "done", "type": "end"}],
        "edges": [{"source": "start", "target": "done"}],
    }});
    assert_eq!(put(&server, path, good).await.expect(201)["version"], 1);
}

async fn keyed(server: &TestServer, path: &str, key: &str, body: Value) -> Answer {
    let request = server.http().post(server.url(path)).bearer_auth(server.admin()).header("idempotency-key", key);
    Answer::read(request.json(&body).send().await.expect("an answer")).await.expect("a body")
}

/// Whoever asks again because an answer was lost goes back once.
#[tokio::test]
async fn a_rollback_is_carried_out_once_for_its_key() {
    let server = TestServer::start().await;
    for unit in ["a", "b", "c"] {
        put(&server, PATH, restart(unit)).await;
    }
    let path = format!("{PATH}/rollback");
    let why = json!({"reason": "c does not start"});
    let first = keyed(&server, &path, "k1", why.clone()).await.expect(200);
    assert_eq!((&first["active"], &first["before"], &first["changed"]), (&json!(2), &json!(3), &json!(true)));
    let again = keyed(&server, &path, "k1", why).await.expect(200);
    assert_eq!((&again["active"], &again["before"], &again["changed"]), (&json!(2), &json!(3), &json!(false)));
    let other = keyed(&server, &path, "k1", json!({"reason": "nor does b"})).await;
    assert_eq!((other.status, other.code()), (409, "IDEMPOTENCY_CONFLICT"), "{}", other.body);
    let empty = keyed(&server, &path, "", json!({"reason": "nor does b"})).await;
    assert_eq!((empty.status, empty.code()), (400, "VALIDATION_ERROR"), "{}", empty.body);
    assert_eq!(server.get(PATH).await.expect(200)["resource"]["version"], 2);
    // A lower version that is activated is no rollback.
    let lower = json!({"version": 1, "reason": "the oldest one"});
    server.post(&format!("{PATH}/activate"), lower).await.expect(200);
    let told = server.get("/audit?limit=20").await.expect(200);
    let told: Vec<&str> =
        told["records"].as_array().expect("records").iter().filter_map(|record| record["action"].as_str()).collect();
    assert_eq!(told.iter().filter(|action| **action == "resource.activate").count(), 1, "{told:?}");
}
