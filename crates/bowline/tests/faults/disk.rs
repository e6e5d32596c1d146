//! F13: the disk is full.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::support::{Setup, TestServer};

/// A small file system of its own, unmounted at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where we may not mount.
    fn mount(mebibytes: u32) -> Option<Self> {
        let directory = tempfile::tempdir().ok()?;
        let size = format!("size={mebibytes}m");
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path()).status();
        status.is_ok_and(|s| s.success()).then_some(Self(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}

#[tokio::test]
async fn nothing_is_acknowledged_that_does_not_fit_and_room_heals_it() {
    let Some(disk) = SmallDisk::mount(32) else {
        eprintln!("this needs the right to mount a file system; nothing was tested");
        return;
    };
    let data = disk.path().join("data");
    let mut server = TestServer::with_data_dir(Setup::default(), data).await;
    let ballast = disk.path().join("ballast");
    let free = 20 << 20;
    std::fs::write(&ballast, vec![0u8; free]).expect("the ballast fits");
    let payload = "x".repeat(20_000);
    let mut accepted = Vec::new();
    let mut refused = 0;
    for n in 0..2_000 {
        let body = json!({"type": "noop", "payload": payload, "idempotency_key": n.to_string()});
        let answer = server.post("/jobs", body).await;
        match answer.status {
            202 => accepted.push((n, answer.body["job_id"].as_str().expect("id").to_owned())),
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
    assert_eq!(refused, 5, "the disk never filled up");
    assert!(!accepted.is_empty());
    // Reads go on.
    assert_eq!(server.get(&format!("/jobs/{}", accepted[0].1)).await.status, 200);
    std::fs::remove_file(&ballast).expect("the ballast goes");
    server.until_ready().await;
    let after = server.submit(json!({"type": "noop"})).await;
    server.until_status(&after, "success").await;
    server.until_idle(Duration::from_secs(60)).await;
    for (n, job) in &accepted {
        let body = json!({"type": "noop", "payload": payload, "idempotency_key": n.to_string()});
        assert_eq!(server.post("/jobs", body).await.expect(202)["job_id"], job.as_str());
    }
    assert!(server.stop().await.success());
    server.assert_verified();
}
