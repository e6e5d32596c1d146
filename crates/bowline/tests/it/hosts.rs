//! Hosts and inventories, through the door.

use bowline_testkit::fresh_database;
use serde_json::{Value, json};

use crate::support::{Answer, Setup, TestServer};

async fn put(server: &TestServer, path: &str, body: Value) -> Answer {
    server.send("PUT", path, &server.admin(), Some(body)).await
}

async fn delete(server: &TestServer, path: &str) -> Answer {
    server.send("DELETE", path, &server.admin(), None).await
}

fn names(page: &Value) -> Vec<String> {
    let hosts = page["hosts"].as_array().expect("hosts");
    hosts.iter().map(|host| host["name"].as_str().expect("a name").to_owned()).collect()
}

fn fleet() -> Value {
    json!({
        "hosts": [
            {"name": "web1", "labels": {"role": "web", "site": "fra"}, "groups": ["web-fra"], "vars": {"port": 8080}},
            {"name": "web2", "labels": {"role": "web", "site": "ams"}, "groups": ["web-ams"]},
            {"name": "db1", "labels": {"role": "db"}, "connection": {"via": "ssh", "address": "10.0.0.9", "port": 2222}},
        ],
        "groups": [
            {"name": "web", "groups": ["web-fra", "web-ams"], "vars": {"port": 80, "tls": true}},
            {"name": "web-fra", "vars": {"dns": "10.1.0.1"}},
        ],
    })
}

#[tokio::test]
async fn a_host_is_made_seen_changed_and_removed() {
    let server = TestServer::start().await;
    assert_eq!(
        server.get("/hosts").await.expect(200),
        json!({"hosts": [], "next_cursor": null}),
        "main is there, and empty"
    );
    let body = json!({"labels": {"role": "web"}, "groups": ["web"], "vars": {"port": 80}});
    let made = put(&server, "/hosts/web1", body.clone()).await.expect(201);
    assert_eq!((&made["outcome"], &made["host"]["connection"]), (&json!("created"), &json!({"via": "agent"})));
    assert_eq!(put(&server, "/hosts/web1", body.clone()).await.expect(200)["outcome"], "unchanged");
    let named = json!({"name": "web1", "labels": {"role": "db"}});
    assert_eq!(put(&server, "/hosts/web1", named).await.expect(200)["outcome"], "changed");
    let shown = server.get("/hosts/web1").await.expect(200);
    assert_eq!((&shown["host"]["labels"], &shown["host"]["groups"]), (&json!({"role": "db"}), &json!([])));
    assert_eq!(delete(&server, "/hosts/web1").await.expect(200)["removed"], true);
    for path in ["/hosts/web1", "/hosts/web1?inventory=main", "/hosts/never", "/hosts/web1?inventory=other"] {
        let gone = delete(&server, path).await;
        assert_eq!((gone.status, gone.code()), (404, "HOST_NOT_FOUND"), "{path}");
    }
    assert_eq!(server.get("/hosts/web1").await.code(), "HOST_NOT_FOUND");
    assert_eq!(server.get("/hosts/web1?inventory=other").await.code(), "INVENTORY_NOT_FOUND");
    assert_eq!(server.get("/hosts?inventory=other").await.code(), "INVENTORY_NOT_FOUND");
    let events = server.get("/events?type=inventory_changed").await.expect(200);
    assert_eq!(events["events"].as_array().unwrap().len(), 3, "what changed nothing is not told: {events}");
}

#[tokio::test]
async fn a_name_with_slashes_is_one_part_of_the_path() {
    let server = TestServer::start().await;
    for (name, path) in
        [("site/fra-1:gpu@2", "site%2Ffra-1%3Agpu%402"), ("a.b/c", "a.b%2fc"), ("2001:db8::1", "2001:db8::1")]
    {
        assert_eq!(put(&server, &format!("/hosts/{path}"), json!({})).await.expect(201)["host"]["name"], name);
        assert_eq!(server.get(&format!("/hosts/{path}")).await.expect(200)["host"]["name"], name);
        delete(&server, &format!("/hosts/{path}")).await.expect(200);
    }
    let long = format!("h{}", "x".repeat(252));
    put(&server, &format!("/hosts/{long}"), json!({})).await.expect(201);
    put(&server, "/hosts/z", json!({})).await.expect(201);
    for query in ["limit=1", "limit=1&selector=all"] {
        let page = server.get(&format!("/hosts?{query}")).await.expect(200);
        assert_eq!(names(&page), [long.as_str()]);
        let cursor = page["next_cursor"].as_str().expect("there is more");
        assert_eq!(names(&server.get(&format!("/hosts?{query}&cursor={cursor}")).await.expect(200)), ["z"], "{query}");
    }
}

#[tokio::test]
async fn a_host_has_what_its_groups_have() {
    let server = TestServer::start().await;
    put(&server, "/inventories/main", fleet()).await.expect(200);
    let web = server.get("/hosts/web1").await.expect(200);
    assert_eq!(web["all_groups"], json!(["web", "web-fra"]));
    assert_eq!(web["effective_vars"], json!({"port": 8080, "tls": true, "dns": "10.1.0.1"}));
    assert_eq!(web["host"]["vars"], json!({"port": 8080}));
    let inventory = server.get("/inventories/main").await.expect(200);
    let hosts: Vec<_> =
        inventory["groups"].as_array().unwrap().iter().map(|g| (g["name"].clone(), g["hosts"].clone())).collect();
    let wanted = [("web", 2), ("web-ams", 1), ("web-fra", 1)].map(|(name, n)| (json!(name), json!(n)));
    assert_eq!(hosts, wanted, "a group that is only mentioned is a group");
    assert_eq!(inventory["inventory"]["hosts"], 3);
    let list = server.get("/inventories").await.expect(200);
    assert_eq!((&list["inventories"][0]["name"], &list["inventories"][0]["revision"]), (&json!("main"), &json!(1)));
}

#[tokio::test]
async fn a_selector_chooses_and_a_mistake_in_it_has_a_place() {
    let server = TestServer::start().await;
    put(&server, "/inventories/main", fleet()).await.expect(200);
    for (selector, wanted) in [
        ("role=web", vec!["web1", "web2"]),
        ("@web %26 !site=fra", vec!["web2"]),
        ("db1,web1", vec!["db1", "web1"]),
        ("all", vec!["db1", "web1", "web2"]),
        ("nobody", vec![]),
    ] {
        let page = server.get(&format!("/hosts?selector={selector}")).await.expect(200);
        assert_eq!(
            (names(&page), &page["total"]),
            (wanted.iter().map(|n| (*n).to_owned()).collect(), &json!(wanted.len()))
        );
    }
    let chosen = server.post("/inventories/main/select", json!({"selector": " role=web "})).await.expect(200);
    assert_eq!(
        chosen,
        json!({"inventory": "main", "selector": "role=web", "count": 2, "hosts": ["web1", "web2"], "revision": 1})
    );
    for (selector, character) in [("role=", 6), ("(web1", 6), ("web1 web2", 6), ("", 1)] {
        let asked = server.post("/inventories/main/select", json!({"selector": selector})).await;
        assert_eq!((asked.status, asked.code()), (400, "VALIDATION_ERROR"), "{selector}");
        assert_eq!(asked.body["error"]["details"]["character"], character, "{selector}: {}", asked.body);
        let listed = server.get(&format!("/hosts?selector={}", selector.replace(' ', "%20"))).await;
        assert_eq!((listed.status, &listed.body["error"]), (400, &asked.body["error"]), "{selector}");
    }
    let page = server.get("/hosts?selector=all&limit=2").await.expect(200);
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(names(&server.get(&format!("/hosts?selector=all&cursor={cursor}")).await.expect(200)), ["web2"]);
    for other in ["selector=role=web", "limit=2", "selector=all&inventory=other"] {
        assert!([400, 404].contains(&server.get(&format!("/hosts?{other}&cursor={cursor}")).await.status), "{other}");
    }
}

#[tokio::test]
async fn a_description_is_made_true_whole_or_not_at_all() {
    let server = TestServer::start().await;
    let would = put(&server, "/inventories/main?dry_run=true", fleet()).await.expect(200);
    assert_eq!((&would["created"], &would["groups"], &would["dry_run"]), (&json!(3), &json!(2), &json!(true)));
    assert_eq!(would["names"]["created"], json!(["web1", "web2", "db1"]));
    assert_eq!(server.get("/inventories").await.expect(200), json!({"inventories": []}), "nothing was done");
    let done = put(&server, "/inventories/main", fleet()).await.expect(200);
    assert_eq!((&done["created"], &done["groups"], &done["revision"]), (&json!(3), &json!(2), &json!(1)));
    let again = put(&server, "/inventories/main", fleet()).await.expect(200);
    assert_eq!((&again["unchanged"], &again["revision"]), (&json!(3), &json!(1)), "{again}");
    // A group of which only the name is said is not emptied by that.
    let mention = json!({"hosts": [{"name": "web3", "groups": ["web"]}], "groups": [{"name": "web"}, {"name": "new"}]});
    let would = put(&server, "/inventories/main?dry_run=true", mention.clone()).await.expect(200);
    let done = put(&server, "/inventories/main", mention).await.expect(200);
    for counts in [&would, &done] {
        assert_eq!((&counts["created"], &counts["groups"]), (&json!(1), &json!(1)), "{counts}");
    }
    assert_eq!(server.get("/hosts/web3").await.expect(200)["effective_vars"], json!({"port": 80, "tls": true}));
    // A circle that only the groups that are there complete.
    let circle = json!({"groups": [{"name": "web-fra", "groups": ["web"]}], "hosts": [{"name": "late"}]});
    for path in ["/inventories/main?dry_run=true", "/inventories/main"] {
        let refused = put(&server, path, circle.clone()).await;
        assert_eq!((refused.status, refused.code()), (409, "GROUPS_IN_A_CIRCLE"), "{path}");
    }
    assert_eq!(server.get("/hosts/late").await.status, 404);
    let only = json!({"hosts": [{"name": "web1"}], "groups": [], "unmentioned": "remove"});
    let would = put(&server, "/inventories/main?dry_run=true", only.clone()).await.expect(200);
    let done = put(&server, "/inventories/main", only).await.expect(200);
    for name in ["created", "changed", "unchanged", "removed", "groups"] {
        assert_eq!(would[name], done[name], "a dry run foretells {name}");
    }
    assert_eq!((&done["removed"], &done["changed"], &done["groups"]), (&json!(3), &json!(1), &json!(3)));
    assert_eq!(names(&server.get("/hosts").await.expect(200)), ["web1"]);
}

#[tokio::test]
async fn bad_descriptions_are_refused_with_their_place() {
    let server = TestServer::start().await;
    let cases = [
        (json!({"hosts": [{"name": "a"}, {"name": "-oProxyCommand=x"}]}), "hosts[1].name"),
        (json!({"hosts": [{"name": "--help"}]}), "hosts[0].name"),
        (json!({"hosts": [{"name": "host,other"}]}), "hosts[0].name"),
        (json!({"hosts": [{"name": "a", "lables": {}}]}), "lables"),
        (json!({"hosts": [["a"]]}), "hosts[0]"),
        (json!({"hosts": [{"name": "a", "connection": {"via": "telnet"}}]}), "telnet"),
        (json!({"hosts": [{"name": "a", "connection": {"via": "ssh", "port": 70000}}]}), "hosts[0]"),
        (json!({"hosts": [{"name": "a", "connection": ["agent"]}]}), "hosts[0].connection"),
        (
            json!({"hosts": [{"name": "a"}, {"name": "b", "connection": {"via": "ssh", "address": "-oProxyCommand=id"}}]}),
            "hosts[1].connection.address",
        ),
        (json!({"hosts": [{"name": "a", "labels": {"": "x"}}]}), "hosts[0].labels"),
        (json!({"hosts": [{"name": "a"}, {"name": "a"}]}), "hosts[1].name: a is there twice"),
        (json!({"groups": [{"name": "g"}, {"name": "g"}]}), "groups[1].name: g is there twice"),
        (json!({"groups": [{"name": "g", "groups": ["h"]}, {"name": "h", "groups": ["g"]}]}), "is in itself"),
        (json!({"hosts": [], "unmentioned": "burn"}), "burn"),
        (json!({"hosts": {"a": {}}}), "hosts"),
        (json!({"tenant_id": "T2"}), "tenant_id"),
    ];
    for (body, says) in cases {
        let refused = put(&server, "/inventories/main", body.clone()).await;
        assert_eq!((refused.status, refused.code()), (400, "VALIDATION_ERROR"), "{body}: {}", refused.body);
        let message = refused.body["error"]["message"].as_str().unwrap();
        assert!(message.contains(says), "{body}: `{message}` does not say `{says}`");
    }
    for (path, body) in [
        ("/hosts/-oProxyCommand=x", json!({})),
        ("/hosts/host,other", json!({})),
        ("/hosts/..%2f..%2fetc", json!({})),
        ("/hosts/%00", json!({})),
        ("/hosts/a", json!({"name": "b"})),
        ("/hosts/a", json!({"connection": {"via": "ssh", "address": "-oProxyCommand=id"}})),
        ("/hosts/a", json!({"connection": {"via": "ssh", "user": "root\n-oProxyCommand=id"}})),
        ("/hosts/a", json!({"connection": {"via": "ssh", "port": 0}})),
        ("/hosts/a", json!({"vars": []})),
        ("/hosts/a?inventory=-x", json!({})),
        ("/hosts/a?inventroy=main", json!({})),
        ("/inventories/-x", json!({"hosts": []})),
        ("/inventories/main?dry_run=maybe", json!({"hosts": []})),
    ] {
        let refused = put(&server, path, body).await;
        assert_eq!((refused.status, refused.code()), (400, "VALIDATION_ERROR"), "{path}: {}", refused.body);
    }
    for path in ["/hosts/-x", "/hosts/%00", "/hosts/..%2f..", "/inventories/-x", "/inventories/none", "/hosts/"] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
    // Values are kept, so they must be kept exactly.
    let raw = |body: &'static [u8]| {
        let request = server.http().put(server.url("/hosts/exact")).bearer_auth(server.admin());
        request.header("content-type", "application/json").body(body).send()
    };
    assert_eq!(raw(br#"{"vars":{"n":123456789012345678901234567890}}"#).await.unwrap().status(), 400);
    assert_eq!(raw(br#"{"vars":{"n":1},"vars":{"n":2}}"#).await.unwrap().status(), 400);
    assert_eq!(raw(br#"{"vars":{"n":9007199254740993}}"#).await.unwrap().status(), 201);
    let kept = server.http().get(server.url("/hosts/exact")).bearer_auth(server.admin()).send().await.unwrap();
    assert!(kept.text().await.unwrap().contains("9007199254740993"));
    assert_eq!(names(&server.get("/hosts").await.expect(200)), ["exact"], "nothing else was stored");
}

#[tokio::test]
async fn ten_thousand_hosts_come_in_one_request_and_are_listed_page_by_page() {
    ten_thousand_hosts(Setup::default()).await;
}

#[tokio::test]
async fn ten_thousand_hosts_come_in_one_request_on_postgresql_too() {
    let database = fresh_database();
    ten_thousand_hosts(Setup { database_url: Some(database.url().to_owned()), ..Setup::default() }).await;
}

async fn ten_thousand_hosts(setup: Setup) {
    let server = TestServer::with(setup).await;
    let hosts: Vec<_> = (0..10_000)
        .map(|n| json!({"name": format!("host{n:05}"), "labels": {"role": if n % 3 == 0 { "web" } else { "db" }}, "groups": ["all-of-them"]}))
        .collect();
    let body = json!({"hosts": hosts});
    assert_eq!(put(&server, "/inventories/large", body.clone()).await.expect(200)["created"], 10_000);
    assert_eq!(put(&server, "/inventories/large", body).await.expect(200)["unchanged"], 10_000);
    for (selector, wanted) in [("", 10_000), ("&selector=role=web", 3_334)] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("/hosts?inventory=large&limit=500{selector}{cursor}")).await.expect(200);
            seen.extend(names(&page));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(seen.len(), wanted);
        assert!(seen.is_sorted(), "by name, each once");
    }
    assert_eq!(server.get("/inventories/large").await.expect(200)["groups"][0]["hosts"], 10_000);
    let few = server.post("/inventories/large/select", json!({"selector": "host000[00:29]"})).await.expect(200);
    assert_eq!((&few["count"], few["hosts"].as_array().expect("hosts").len()), (&json!(30), 20));
}

#[tokio::test]
async fn another_tenants_fleet_does_not_exist() {
    let server = TestServer::start().await;
    put(&server, "/inventories/main", fleet()).await.expect(200);
    put(&server, "/inventories/site", fleet()).await.expect(200);
    let tenant = server.post("/tenants", json!({"name": "other"})).await.expect(201)["id"].clone();
    let scopes = ["fleet.read", "fleet.write"];
    let stranger = server.token(json!({"kind": "api", "name": "s", "scopes": scopes, "tenant_id": tenant})).await;
    assert_eq!(server.send("GET", "/inventories", &stranger, None).await.expect(200), json!({"inventories": []}));
    assert_eq!(server.send("GET", "/hosts", &stranger, None).await.expect(200)["hosts"], json!([]));
    assert_eq!(server.send("GET", "/hosts?selector=all", &stranger, None).await.expect(200)["total"], 0);
    for (method, path, none, body) in [
        ("GET", "/inventories/site", "/inventories/none", None),
        ("GET", "/inventories/site/export", "/inventories/none/export", None),
        ("GET", "/hosts?inventory=site", "/hosts?inventory=none", None),
        ("GET", "/hosts/web1", "/hosts/none", None),
        ("DELETE", "/hosts/web1", "/hosts/none", None),
        ("POST", "/inventories/site/select", "/inventories/none/select", Some(json!({"selector": "all"}))),
    ] {
        let theirs = server.send(method, path, &stranger, body.clone()).await;
        let nothing = server.send(method, none, &stranger, body).await;
        assert_eq!((theirs.status, &theirs.body["error"]), (404, &nothing.body["error"]), "{method} {path}");
    }
    // The same name is another inventory.
    let mine = json!({"hosts": [{"name": "mine"}], "unmentioned": "remove"});
    server.send("PUT", "/inventories/main", &stranger, Some(mine)).await.expect(200);
    assert_eq!(names(&server.send("GET", "/hosts", &stranger, None).await.expect(200)), ["mine"]);
    assert_eq!(names(&server.get("/hosts").await.expect(200)).len(), 3);
    let page = server.get("/hosts?limit=1").await.expect(200);
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(server.send("GET", &format!("/hosts?cursor={cursor}"), &stranger, None).await.status, 400);
}
