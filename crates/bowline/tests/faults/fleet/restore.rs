//! F35: the past comes back.

use std::path::Path;
use std::time::Duration;

use super::judge::executed;
use super::scene::{Fleet, ask, server};

/// A server restored from an older copy does not execute again what was executed since.
#[tokio::test]
async fn what_was_executed_is_not_executed_again_after_a_restore() {
    let mut server = server().await;
    let mut fleet = Fleet::join(&server, &server.url("")).await;
    // The agent is away when the copy is made, so the copy has the command in its queue.
    fleet.agent().term();
    fleet.agent().wait_exit(Duration::from_secs(30)).await;
    let job = ask(&server, fleet.command(1)).await;
    server.stop().await;
    let copy = tempfile::tempdir().expect("a directory");
    copy_dir(&server.data_dir(), copy.path());
    server.start_again().await;
    fleet.start(None);
    server.until_status(&job, "success").await;
    executed(&fleet.account(), 1, 1).expect("it was executed");
    fleet.agent().term();
    fleet.agent().wait_exit(Duration::from_secs(30)).await;
    server.stop().await;
    std::fs::remove_dir_all(server.data_dir()).expect("the ledger is lost");
    copy_dir(copy.path(), &server.data_dir());
    server.start_again().await;
    let before = server.get(&format!("/jobs/{job}")).await.expect(200);
    assert_eq!(before["job"]["status"], "running", "the past is back: {before}");
    fleet.start(None);
    server.until_status(&job, "success").await;
    executed(&fleet.account(), 1, 1).expect("it was executed once");
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a file is copied");
        }
    }
}
