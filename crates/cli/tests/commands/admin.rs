//! `lanes`, `workers`, `tenant`, `token`, `whoami`.

use bowline_cli::Exit;
use serde_json::json;

use crate::fake::{Fake, Reply, ok, refused};

/// A list is shown until it cannot be shown any more; a server that is away for a while is no end.
#[tokio::test]
async fn a_list_is_shown_again_and_again() {
    let lanes = |queued: u64| {
        ok(format!(r#"{{"lanes":[{{"lane":"low","weight":1,"queued":{queued},"scheduled":0,"running":0,"dead":0}}]}}"#))
    };
    let fake = Fake::start(move |_, asked| match asked {
        0 => lanes(7),
        1 => refused(500, "INTERNAL_ERROR", "not now"),
        2 => lanes(8),
        _ => refused(403, "FORBIDDEN", "no more"),
    });
    let ran = fake.run(&["lanes", "--watch=1ms"]).await;
    assert_eq!(ran.exit, Exit::Refused);
    let counts: Vec<&str> = ran.out.lines().filter(|line| line.starts_with("low")).collect();
    assert!(counts.len() == 2 && counts[0].contains('7') && counts[1].contains('8'), "{}", ran.out);
    assert!(ran.err.contains("not now") && ran.err.contains("no more"), "{}", ran.err);
    let ran = fake.run(&["--watch", "job", "cancel", "1"]).await;
    assert_eq!(ran.exit, Exit::Usage);
    assert!(ran.err.contains("--watch is for commands that list"), "{}", ran.err);
}

#[tokio::test]
async fn a_token_is_saved_to_a_file_that_only_its_owner_reads() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("web1.join");
    let file = path.to_str().unwrap();
    let fake = Fake::start(|_, asked| match asked {
        0 => refused(403, "FORBIDDEN", "no"),
        _ => ok(r#"{"id":"x","name":"web1","kind":"join","scopes":[],"token":"bwj_secret"}"#),
    });
    let create = ["token", "create", "--kind", "join", "--name", "web1", "--save", file];
    assert_eq!(fake.run(&create).await.exit, Exit::Refused);
    assert!(!path.exists(), "nothing was made, and so nothing is left");
    let ran = fake.run(&create).await;
    assert_eq!((ran.exit, ran.out.clone()), (Exit::Success, format!("join token web1 is in {file}\n")));
    assert!(!format!("{}{}", ran.out, ran.err).contains("secret"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "bwj_secret\n");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fake.run(&create).await.exit, Exit::Usage, "a file that is there is not overwritten");
    assert_eq!(fake.asked().len(), 2);
    std::fs::remove_file(&path).unwrap();
    let json = fake.run(&[&["--json"], &create[..]].concat()).await.json();
    assert_eq!((&json["name"], json.get("token")), (&"web1".into(), None));
}

#[tokio::test]
async fn lanes_are_a_table_of_numbers() {
    let fake = Fake::with(&[(
        "GET /lanes",
        r#"{"lanes":[{"lane":"critical","weight":8,"queued":12345,"scheduled":0,"running":3,"dead":1},
        {"lane":"low","weight":1,"queued":0,"scheduled":2,"running":0,"dead":0}]}"#,
    )]);
    let ran = fake.run(&["lanes"]).await;
    insta::assert_snapshot!(ran.out, @r"
    LANE      WEIGHT  QUEUED  SCHEDULED  RUNNING  DEAD
    critical       8  12,345          0        3     1
    low            1       0          2        0     0
    ");
    assert_eq!(fake.lines(), ["GET /lanes"]);
}

const WORKERS: &str = r#"{"workers":[{"worker_id":"builtin","worker_type":"builtin","task_types":["noop","echo"],"labels":{},
"slots":8,"running":8,"status":"busy","registered_at":null,"seen_at":"2026-01-03T12:00:00Z","draining":false,"builtin":true},
{"worker_id":"site/fra-1@2","worker_type":"gpu","task_types":["render"],"labels":{"site":"fra"},"resources":{"gpu":2},"slots":2,"running":1,"status":"active",
"registered_at":"2026-01-03T11:00:00Z","seen_at":"2026-01-03T11:59:55Z","draining":true,"builtin":false},
{"worker_id":"w9","worker_type":"any","task_types":["x"],"labels":{},"slots":1,"running":0,"status":"offline",
"registered_at":"2026-01-03T11:00:00Z","seen_at":"2026-01-03T11:00:00Z","draining":true,"builtin":false}]}"#;

#[tokio::test]
async fn workers_are_listed_with_and_without_the_word() {
    let fake = Fake::with(&[("GET /workers", WORKERS)]);
    let ran = fake.run(&["workers"]).await;
    insta::assert_snapshot!(ran.out, @r"
    WORKER        TYPE      STATUS    RUNS  SLOTS  SEEN    TASKS       LABELS    RESOURCES
    builtin       built in  busy         8      8  now     noop, echo
    site/fra-1@2  gpu       draining     1      2  5s ago  render      site=fra  gpu=2
    w9            any       offline      0      1  1h ago  x
    ");
    assert_eq!(fake.run(&["workers", "list"]).await.out, ran.out);
}

#[tokio::test]
async fn a_workers_name_is_one_part_of_the_path_whatever_is_in_it() {
    let fake = Fake::start(|_, _| ok(r#"{"worker_id":"w","draining":true}"#));
    let ran = fake.run(&["workers", "drain", "site/fra-1@2"]).await;
    assert_eq!(ran.out, "worker site/fra-1@2 finishes its runs and takes no new ones\n");
    assert_eq!(fake.run(&["workers", "undrain", "a?b#c%"]).await.exit, Exit::Success);
    let asked = fake.asked();
    assert_eq!(asked[0].line, "POST /workers/site%2Ffra-1@2/drain");
    assert_eq!(asked[0].json(), json!({"draining": true}));
    assert_eq!(asked[1].line, "POST /workers/a%3Fb%23c%25/drain");
    assert_eq!(asked[1].json(), json!({"draining": false}));
    assert_eq!(fake.run(&["workers", "drain", ".."]).await.exit, Exit::Usage);
    assert_eq!(fake.lines().len(), 2);
}

const AGENT: &str = r#"{"name":"web1","status":"active","labels":{"bowline/agent":"web1"},"reach":["ssh"],"shares_agent_user":true,
"secrets_for_shared_user":false,"version":"1.2.3","slots":4,"running":1,"draining":false,"registered_at":"2026-01-03T11:00:00Z",
"seen_at":"2026-01-03T11:59:55Z","public_key":"a2V5","credential":{"token":"t1","expires_at":"2027-01-03T11:00:00Z"},
"admitted":{"join_token":"j1","by":{"id":"token:t0","name":"ann"},"at":"2026-01-03T10:00:00Z"}}"#;

#[tokio::test]
async fn agents_are_listed_and_shown() {
    let fake = Fake::start(|asked, _| match asked.path() {
        "GET /agents" => ok(format!(r#"{{"agents":[{AGENT}],"next_cursor":null}}"#)),
        _ => ok(AGENT),
    });
    let ran = fake.run(&["agents", "list"]).await;
    insta::assert_snapshot!(ran.out, @r"
    AGENT  STATUS  VERSION  RUNS  SEEN    CREDENTIAL ENDS       LABELS
    web1   active  1.2.3       1  5s ago  2027-01-03T11:00:00Z  bowline/agent=web1 shares_agent_user
    ");
    let ran = fake.run(&["agents", "get", "web1"]).await;
    insta::assert_snapshot!(ran.out, @r"
    agent                    web1
    status                   active
    version                  1.2.3
    labels                   bowline/agent=web1
    reach                    ssh
    shares agent user        yes
    secrets for shared user  no
    runs                     1 of 4
    seen                     5s ago
    public key               a2V5
    credential               t1
    credential ends          2027-01-03T11:00:00Z
    join token               j1
    admitted by              ann
    admitted at              2026-01-03T10:00:00Z
    ");
}

#[tokio::test]
async fn an_agent_is_removed_for_a_reason() {
    let fake = Fake::start(|_, _| ok(r#"{"name":"web1","removed":true,"lost_runs":2,"returned_runs":0}"#));
    let ran = fake.run(&["agents", "remove", "web1", "--reason", "its disk is broken"]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, "agent web1 is removed\n"));
    assert!(ran.err.contains("2 runs are lost") && ran.err.contains("--kind join --name web1"), "{}", ran.err);
    let asked = fake.asked();
    assert_eq!(
        (asked[0].line.as_str(), asked[0].json()),
        ("DELETE /agents/web1", json!({"reason": "its disk is broken"}))
    );
}

#[tokio::test]
async fn tenants_are_made_and_listed() {
    let fake = Fake::start(|asked, _| match asked.path() {
        "POST /tenants" => {
            Reply::Text(201, r#"{"id":"t1","name":"acme","created_at":"2026-01-03T12:00:00Z"}"#.to_owned())
        }
        _ => ok(r#"{"tenants":[{"id":"t1","name":"acme","created_at":"2026-01-03T11:00:00Z"}]}"#),
    });
    let ran = fake.run(&["tenant", "create", "acme"]).await;
    assert_eq!(ran.out, "id    t1\nname  acme\n");
    assert!(ran.err.contains("--tenant t1"));
    assert_eq!(fake.asked()[0].json(), json!({"name": "acme"}));
    assert_eq!(fake.run(&["tenant", "list"]).await.out, "ID  NAME  CREATED\nt1  acme  1h ago\n");
}

#[tokio::test]
async fn a_token_is_made_shown_once_and_never_asked_for_twice() {
    let created = json!({"id": "k1", "kind": "api", "name": "ci", "scopes": ["jobs.read", "jobs.write"], "tenant_id": "t1",
        "created_at": "2026-01-03T12:00:00Z", "expires_at": "2026-02-02T12:00:00Z", "token": "bwl_api_secret"});
    let fake = Fake::start(move |_, _| Reply::Text(201, created.to_string()));
    let ran = fake
        .run(&[
            "token",
            "create",
            "--kind",
            "api",
            "--name",
            "ci",
            "--scope",
            "jobs.read",
            "--scope",
            "jobs.write",
            "--expires",
            "30d",
            "--tenant",
            "t1",
        ])
        .await;
    insta::assert_snapshot!(ran.out, @r"
    id       k1
    name     ci
    kind     api
    scopes   jobs.read, jobs.write
    tenant   t1
    expires  in 30d
    token    bwl_api_secret
    ");
    assert_eq!(ran.err, "keep the token now: it is not shown again\n");
    assert_eq!(
        fake.asked()[0].json(),
        json!({"kind": "api", "name": "ci", "scopes": ["jobs.read", "jobs.write"], "expires_in_s": 2_592_000, "tenant_id": "t1"})
    );
    let busy = Fake::start(|_, _| Reply::Later(503, 0));
    assert_eq!(busy.run(&["token", "create", "--kind", "worker", "--name", "w"]).await.exit, Exit::Refused);
    assert_eq!(busy.asked()[0].json(), json!({"kind": "worker", "name": "w"}));
    assert_eq!(busy.lines().len(), 1, "a second token would be a second token");
}

#[tokio::test]
async fn tokens_are_listed_and_revoked() {
    let fake = Fake::start(|asked, _| match asked.path() {
        "GET /tokens" => ok(r#"{"tokens":[
            {"id":"k1","kind":"api","name":"ci","scopes":["jobs.read"],"created_at":"2026-01-03T11:00:00Z","expires_at":"2026-01-03T13:00:00Z","revoked_at":null,"made_by":"k0","maker":{"id":"token:k0","name":"admin"}},
            {"id":"k2","kind":"api","name":"old","scopes":[],"created_at":"2026-01-01T11:00:00Z","expires_at":"2026-01-02T13:00:00Z","revoked_at":null},
            {"id":"k3","kind":"worker","name":"w","scopes":["workers.run"],"created_at":"2026-01-01T11:00:00Z","expires_at":null,"revoked_at":"2026-01-02T11:00:00Z"}]}"#),
        _ => ok(r#"{"id":"k1","revoked":true}"#),
    });
    insta::assert_snapshot!(fake.run(&["token", "list"]).await.out, @r"
    ID  NAME  KIND    STATE    CREATED  EXPIRES  MADE BY  SCOPES
    k1  ci    api     valid    1h ago   in 1h    admin    jobs.read
    k2  old   api     expired  2d ago   23h ago
    k3  w     worker  revoked  2d ago   never             workers.run
    ");
    assert_eq!(fake.run(&["token", "revoke", "k1"]).await.out, "token k1 is revoked\n");
    assert_eq!(fake.lines()[1], "POST /tokens/k1/revoke");
}

#[tokio::test]
async fn whoami_says_who_and_what() {
    let fake = Fake::with(&[(
        "GET /whoami",
        r#"{"actor":"token:ci","tenant_id":"t1","scopes":["jobs.read","jobs.write"],"audiences":["exec"]}"#,
    )]);
    let ran = fake.run(&["whoami"]).await;
    assert_eq!(ran.out, "actor      token:ci\ntenant     t1\nscopes     jobs.read, jobs.write\naudiences  exec\n");
}

#[tokio::test]
async fn a_token_is_revoked_by_a_part_of_its_id_or_by_its_name() {
    let fake = Fake::start(|asked, _| match asked.path() {
        "POST /tokens/2h3463nfj9yk1hn9/revoke" => ok("{}"),
        "GET /tokens" => {
            ok(r#"{"tokens":[{"id":"2h3463nfj9yk1hn9","name":"ci"},{"id":"n485aat7pwn70eby","name":"ann"},
            {"id":"n485aat7pwn70ebz","name":"ann"},{"id":"9999999999991hn9","name":"ci","revoked":true}]}"#)
        }
        _ => refused(404, "TOKEN_NOT_FOUND", "there is no such token"),
    });
    for text in ["2h3463nfj9yk1hn9", "2h34", "1hn9", "ci"] {
        let ran = fake.run(&["token", "revoke", text]).await;
        assert_eq!(ran.out, "token 2h3463nfj9yk1hn9 is revoked\n", "{text}: {}", ran.err);
    }
    let several = fake.run(&["token", "revoke", "ann"]).await;
    assert!(several.exit == Exit::Usage && several.err.contains("n485aat7pwn70ebz (ann)"), "{}", several.err);
    for text in ["hn9", "unknown"] {
        assert_eq!(fake.run(&["token", "revoke", text]).await.exit, Exit::Refused, "{text}");
    }
}
