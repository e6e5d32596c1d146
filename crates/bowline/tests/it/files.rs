//! Inventories as files: imported and exported over HTTP.

use serde_json::{Value, json};

use crate::support::{Answer, TestServer};

async fn import(server: &TestServer, query: &str, kind: &str, text: impl Into<Vec<u8>>) -> Answer {
    let url = server.url(&format!("/inventories/main/import{query}"));
    let request = server.http().post(url).bearer_auth(server.admin()).header("content-type", kind);
    Answer::read(request.body(text.into()).send().await.expect("an answer")).await.expect("a body")
}

async fn export(server: &TestServer, query: &str) -> (u16, String, reqwest::header::HeaderMap) {
    let request =
        server.http().get(server.url(&format!("/inventories/main/export{query}"))).bearer_auth(server.admin());
    let answer = request.send().await.expect("an answer");
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    (status, answer.text().await.expect("a text"), headers)
}

const INI: &str =
    "[web]\nweb[01:03].example.com ansible_user=deploy\n\n[prod:children]\nweb\n\n[prod:vars]\nntp=10.0.0.1\n";

#[tokio::test]
async fn a_file_is_made_true_and_comes_back_in_every_format() {
    let server = TestServer::start().await;
    let would = import(&server, "?dry_run=true", "text/plain", INI).await.expect(200);
    assert_eq!((&would["created"], &would["groups"], &would["dry_run"]), (&json!(3), &json!(2), &json!(true)));
    assert_eq!(server.get("/inventories/main").await.status, 404, "nothing was done");
    let done = import(&server, "", "text/plain; charset=utf-8", INI).await.expect(200);
    assert_eq!((&done["created"], &done["groups"]), (&json!(3), &json!(2)));
    let host = server.get("/hosts/web01.example.com").await.expect(200);
    assert_eq!(
        (&host["effective_vars"], &host["host"]["connection"]["user"]),
        (&json!({"ntp": "10.0.0.1"}), &json!("deploy"))
    );
    for (format, kind, name) in [
        ("yaml", "application/yaml; charset=utf-8", "main.yaml"),
        ("json", "application/json; charset=utf-8", "main.json"),
        ("ansible-ini", "text/plain; charset=utf-8", "main.ini"),
        ("ansible-yaml", "application/yaml; charset=utf-8", "main.yaml"),
        ("ansible-json", "application/json; charset=utf-8", "main.json"),
    ] {
        let (status, text, headers) = export(&server, &format!("?format={format}")).await;
        assert_eq!((status, headers["content-type"].to_str().unwrap()), (200, kind), "{text}");
        assert_eq!(headers["content-disposition"], format!("attachment; filename=\"{name}\""));
        assert!(!headers.contains_key("x-bowline-left-out"), "{format} says everything");
        let again =
            import(&server, &format!("?format={format}&unmentioned=remove"), "application/octet-stream", text).await;
        let again = again.expect(200);
        assert_eq!((&again["unchanged"], &again["groups"]), (&json!(3), &json!(0)), "{format}: {again}");
    }
    let (_, text, headers) = export(&server, "?format=csv").await;
    assert!(text.starts_with("name,") && headers.contains_key("x-bowline-left-out"), "{text}");
    assert_eq!(headers["x-bowline-left-out-count"], "3");
    // A table names groups and says nothing of them: they stay as they are.
    let again = import(&server, "?file=fleet.csv", "text/csv", text.clone()).await.expect(200);
    assert_eq!((&again["unchanged"], &again["groups"]), (&json!(3), &json!(0)), "{again}");
    let one = import(&server, "?format=csv&unmentioned=remove", "text/csv", "name\nonly\n").await.expect(200);
    assert_eq!((&one["created"], &one["removed"], &one["groups"]), (&json!(1), &json!(3), &json!(2)));
}

#[tokio::test]
async fn bad_files_are_refused_with_their_line() {
    let server = TestServer::start().await;
    let bomb: String = std::iter::once("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned())
        .chain((1..20).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(","))))
        .collect();
    for (name, query, text, says) in [
        ("B117 anchors", "?format=yaml", bomb.into_bytes(), "64 MiB"),
        ("B117 object", "?format=yaml", b"hosts: !!python/object:os.system ls\n".to_vec(), "tag"),
        ("B117 keys", "?format=yaml", b"hosts:\n  a: {}\n  a: {}\n".to_vec(), "line 3"),
        ("B094", "?format=yaml", b"hosts:\n  -oProxyCommand=x: {}\n".to_vec(), "line 2"),
        ("B094 csv", "?format=csv", b"name\n--help\n".to_vec(), "line 2"),
        ("B016", "?format=json", br#"{"hosts": [], "hosts": []}"#.to_vec(), "duplicate"),
        ("B027", "?format=json", format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)).into_bytes(), "deep"),
        (
            "B028",
            "?format=json",
            br#"{"hosts": [{"name": "a", "vars": {"n": 123456789012345678901234567890}}]}"#.to_vec(),
            "exactly",
        ),
        ("B029", "?format=ansible-ini", b"web1\nweb\xff\n".to_vec(), "UTF-8"),
        ("range", "?format=ansible-ini", b"web[1:9999999]\n".to_vec(), "line 1"),
        ("secret", "?format=ansible-ini", b"web1 ansible_password=hunter2\n".to_vec(), "secret"),
        ("guess", "", b"<html>".to_vec(), "format="),
        ("empty", "", b"".to_vec(), "format="),
        ("format", "?format=xml", b"x".to_vec(), "xml"),
        ("word", "?unmentioned=burn", b"web1".to_vec(), "burn"),
        ("unknown", "?dryrun=true", b"web1".to_vec(), "dryrun"),
    ] {
        let refused = import(&server, query, "text/plain", text).await;
        assert_eq!((refused.status, refused.code()), (400, "VALIDATION_ERROR"), "{name}: {}", refused.body);
        let message = refused.body["error"]["message"].as_str().unwrap();
        assert!(message.contains(says), "{name}: `{message}` does not say `{says}`");
        assert!(!message.contains("hunter2"), "{name} repeats a secret");
    }
    for kind in ["application/x-www-form-urlencoded", "multipart/form-data", "image/png"] {
        assert_eq!(import(&server, "", kind, "web1\n").await.code(), "UNSUPPORTED_MEDIA_TYPE", "{kind}");
    }
    let large = import(&server, "?format=csv", "text/csv", vec![b'x'; (32 << 20) + 1]).await;
    assert_eq!((large.status, large.code()), (413, "PAYLOAD_TOO_LARGE"));
    assert_eq!(server.get("/inventories").await.expect(200)["inventories"], json!([]), "nothing was stored");
    assert_eq!(export(&server, "").await.0, 404);
    import(&server, "", "text/plain", "web1\n").await.expect(200);
    assert_eq!(export(&server, "?format=xml").await.0, 400);
    // Groups that are woven without end are refused, in one piece and in two.
    let chain = |from: usize, to: usize| -> Value {
        let groups: Vec<_> =
            (from..to).map(|n| json!({"name": format!("g{n}"), "groups": [format!("g{}", n + 1)]})).collect();
        json!({ "groups": groups })
    };
    let put = async |body: Value| server.send("PUT", "/inventories/main", &server.admin(), Some(body)).await.status;
    assert_eq!(put(chain(0, 9_000)).await, 400);
    assert_eq!(put(chain(0, 1_000)).await, 200);
    assert_eq!(put(chain(1_000, 2_000)).await, 400, "together they are too long");
}

#[tokio::test]
async fn ten_thousand_hosts_are_one_file() {
    let server = TestServer::start().await;
    let done =
        import(&server, "?format=ansible-ini", "text/plain", "[all-of-them]\nhost[00000:09999]\n").await.expect(200);
    assert_eq!(done["created"], 10_000);
    let (status, text, _) = export(&server, "?format=csv").await;
    assert_eq!((status, text.lines().count()), (200, 10_001));
    let again = import(&server, "?format=csv&unmentioned=remove", "text/csv", text).await.expect(200);
    assert_eq!(again["unchanged"], 10_000, "{again}");
}
