//! `blocks list|add|lift`, `hosts queue` and `hosts release`.

use bowline_cli::Exit;
use serde_json::json;

use crate::fake::{Asked, Fake, Reply, ok};
use crate::jobs::ID;

#[tokio::test]
async fn blocks_are_listed_with_their_reasons() {
    let fake = Fake::with(&[(
        "GET /blocks",
        r#"{"blocks":[
        {"id":3,"inventory":"main","host":"db1","selector":null,"command":null,"reason":"disk","by":"token:ann",
         "created_at":"2026-01-03T11:00:00Z","expires_at":null,"expired":false},
        {"id":2,"inventory":"main","host":null,"selector":"site=fra","command":"restart","reason":"freeze","by":"token:ann",
         "created_at":"2026-01-03T10:00:00Z","expires_at":"2026-01-03T11:30:00Z","expired":true}]}"#,
    )]);
    let ran = fake.run(&["blocks", "list"]).await;
    insta::assert_snapshot!(ran.out, @r"
    ID  WHERE     COMMAND  UNTIL          REASON  BY         SINCE   INVENTORY
     3  db1       every    lifted         disk    token:ann  1h ago  main
     2  site=fra  restart  over, 30m ago  freeze  token:ann  2h ago  main
    ");
}

#[tokio::test]
async fn a_block_is_made_for_a_host_or_a_selector_for_a_while_or_until_it_is_lifted() {
    let fake = Fake::start(|asked, _| {
        let mut block = asked.json();
        block["id"] = json!(3);
        Reply::Text(201, block.to_string())
    });
    let ran = fake.run(&["blocks", "add", "--host", "db1", "--reason", "disk", "--for", "2h"]).await;
    assert_eq!(
        (ran.exit, ran.out.as_str()),
        (Exit::Success, "block 3: no command runs on db1 until 2026-01-03T14:00:00.000000Z\n")
    );
    let ran = fake.run(&["blocks", "add", "--on", "site=fra", "--command", "restart", "--reason", "freeze"]).await;
    assert_eq!(ran.out, "block 3: restart does not run on site=fra until `bowline blocks lift 3`\n");
    let bodies: Vec<_> = fake.asked().iter().map(crate::fake::Asked::json).collect();
    assert_eq!(
        bodies,
        [
            json!({"inventory": "main", "host": "db1", "reason": "disk", "expires_at": "2026-01-03T14:00:00.000000Z"}),
            json!({"inventory": "main", "selector": "site=fra", "command": "restart", "reason": "freeze"}),
        ]
    );
}

#[tokio::test]
async fn a_block_is_lifted() {
    let fake = Fake::start(|_, _| ok(r#"{"id":3,"lifted":true}"#));
    let ran = fake.run(&["blocks", "lift", "3", "--reason", "done"]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, "block 3 is lifted\n"));
    assert_eq!(
        (fake.lines(), fake.asked()[0].json()),
        (vec!["POST /blocks/3/lift".to_owned()], json!({"reason": "done"}))
    );
}

#[tokio::test]
async fn a_kept_host_says_for_whom_and_is_released_with_a_reason() {
    let fake = Fake::start(|asked, _| match asked.path() {
        "GET /hosts/db1/queue" => {
            let kept = json!({"run_id": "0198c0de-0000-7000-8000-0000000000aa", "job_id": ID, "agent": "site-fra",
                              "since": "2026-01-03T11:59:00Z", "until": "2026-01-03T12:14:00Z"});
            ok(json!({"host": "db1", "inventory": "main", "kept": [kept], "queue": []}).to_string())
        }
        "POST /hosts/db1/release" => ok(json!({"host": "db1", "inventory": "main", "released": 1}).to_string()),
        other => panic!("{other}"),
    });
    let ran = fake.run(&["hosts", "queue", "db1"]).await;
    assert_eq!(
        ran.out,
        format!(
            "kept until 2026-01-03T12:14:00Z: run 0198c0de-0000-7000-8000-0000000000aa of job {ID} went missing; agent site-fra \
             had it\n"
        )
    );
    assert!(ran.err.contains("bowline hosts release db1"), "{}", ran.err);
    let ran = fake.run(&["hosts", "release", "db1", "--reason", "looked"]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, "db1 is released; it was kept for a missing run\n"));
    assert_eq!(fake.asked().last().map(Asked::json), Some(json!({"inventory": "main", "reason": "looked"})));
}

#[tokio::test]
async fn the_queue_of_a_host_says_who_is_there() {
    let fake = Fake::start(|_, _| {
        let turn = |held: bool, status: &str| {
            json!({"job_id": ID, "job_number": 7, "command": "restart", "lock": "exclusive", "held": held,
                   "status": status, "since": "2026-01-03T11:59:00Z"})
        };
        ok(json!({"host": "db1", "inventory": "main", "queue": [turn(true, "running"), turn(false, "pending")]})
            .to_string())
    });
    let ran = fake.run(&["hosts", "queue", "db1", "--inventory", "lab"]).await;
    insta::assert_snapshot!(ran.out, @r"
    JOB                                   COMMAND  TURN         LOCK       STATUS   SINCE   NUMBER
    0198c0de-0000-7000-8000-000000000001  restart  at the host  exclusive  running  1m ago       7
    0198c0de-0000-7000-8000-000000000001  restart  waits        exclusive  pending  1m ago       7
    ");
    assert_eq!(fake.lines(), ["GET /hosts/db1/queue?inventory=lab"]);
}
