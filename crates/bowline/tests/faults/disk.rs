//! F13: there is no room for the ledger.
//!
//! A small file system of its own is the real thing, and needs the right to mount one. A limit on the size of files needs no
//! right at all, and gives the ledger the same trouble: a write that fails in the middle.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::support::oracle::{Journal, accounted};
use crate::support::small_disk::SmallDisk;
use crate::support::{Setup, TestServer};

/// Where the room is scarce, and how it is given back.
enum Scarce {
    Disk { _disk: SmallDisk, ballast: PathBuf },
    Files,
}

impl Scarce {
    /// A server that has room for a few megabytes.
    async fn server() -> (TestServer, Self) {
        let Some(disk) = SmallDisk::mount(32) else {
            eprintln!("NO FILE SYSTEM CAN BE MOUNTED HERE: a limit on the size of files stands in for a full disk");
            return Self::limited().await;
        };
        let server = TestServer::with_data_dir(Setup::default(), disk.path().join("data")).await;
        let ballast = disk.ballast();
        std::fs::write(&ballast, vec![0u8; 20 << 20]).expect("the ballast fits");
        (server, Self::Disk { _disk: disk, ballast })
    }

    async fn limited() -> (TestServer, Self) {
        (TestServer::with(Setup { file_kib_max: Some(8 << 10), ..Setup::default() }).await, Self::Files)
    }

    fn give_back(&self, server: &TestServer) {
        match self {
            Self::Disk { ballast, .. } => std::fs::remove_file(ballast).expect("the ballast goes"),
            Self::Files => server.lift_file_limit(),
        }
    }
}

async fn nothing_is_acknowledged_that_does_not_fit((mut server, scarce): (TestServer, Scarce)) {
    let body = json!({"type": "noop", "payload": "x".repeat(20_000)});
    let caller = server.caller();
    let mut journal = Journal::new();
    let mut refused = 0;
    for key in (0..2_000).map(|n| n.to_string()) {
        let answer = caller.submit(&key, body.clone()).await.expect("an answer");
        match answer.status {
            202 => drop(journal.insert(key, answer.body["job_id"].as_str().expect("id").to_owned())),
            503 => {
                refused += 1;
                assert_eq!(answer.code(), "LEDGER_UNAVAILABLE");
                if refused == 5 {
                    break;
                }
            }
            other => panic!("answered {other}: {}", answer.body),
        }
    }
    assert_eq!(refused, 5, "the room was never used up");
    assert!(!journal.is_empty());
    // Reads go on.
    assert_eq!(server.get(&format!("/jobs/{}", journal["0"])).await.status, 200);
    let pid = server.child().pid();
    scarce.give_back(&server);
    server.until_ready().await;
    assert_eq!(server.child().pid(), pid, "it healed without a restart");
    let after = server.submit(json!({"type": "noop"})).await;
    server.until_status(&after, "success").await;
    server.until_idle(Duration::from_secs(60)).await;
    let jobs = server.jobs().await;
    accounted(&journal, &jobs).expect("what was acknowledged did fit");
    for (key, job) in &journal {
        assert_eq!(&caller.submit_surely(key, body.clone()).await, job);
    }
    // The control: an acknowledgement of something that did not fit.
    journal.insert("1999".to_owned(), "a job that is not there".to_owned());
    assert!(accounted(&journal, &jobs).is_err());
    assert!(server.stop().await.success());
    server.assert_verified();
}

/// On a file system of its own where that is allowed.
#[tokio::test]
async fn nothing_is_acknowledged_that_does_not_fit_on_the_disk_and_room_heals_it() {
    nothing_is_acknowledged_that_does_not_fit(Scarce::server().await).await;
}

#[tokio::test]
async fn nothing_is_acknowledged_that_does_not_fit_into_the_file_and_room_heals_it() {
    nothing_is_acknowledged_that_does_not_fit(Scarce::limited().await).await;
}
