//! The sshd that tests stand on does what its guard says.

use std::process::{Command, Output};
use std::time::Duration;

use bowline_testkit::{Sshd, until};

/// OpenSSH's own client, which knows the server's key and has one the server knows.
fn ssh(server: &Sshd, command: &str) -> Output {
    ssh_to(server, "127.0.0.1", command)
}

fn ssh_to(server: &Sshd, host: &str, command: &str) -> Output {
    Command::new("ssh")
        .args(["-F", "none", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "GlobalKnownHostsFile=none"])
        .arg("-o")
        .arg(format!("UserKnownHostsFile={}", server.known_hosts([host]).display()))
        .arg("-i")
        .arg(server.client_key())
        .args(["-p", &server.port().to_string(), "-l", server.user(), host, command])
        .output()
        .expect("ssh is installed beside sshd")
}

#[test]
fn it_lets_in_who_has_its_key_and_counts_the_login() {
    let server = Sshd::start();
    let output = ssh(&server, "echo it is $((6 * 7)); exit 3");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "it is 42\n", "{output:?}\n{}", server.log());
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(server.logins(), 1);
    assert!(server.fingerprint().starts_with("SHA256:"));
}

#[test]
fn one_server_plays_many_hosts() {
    let server = Sshd::options().every_loopback_address().start();
    for host in ["127.0.0.1", "127.0.0.77", "127.8.8.8"] {
        assert!(ssh_to(&server, host, "true").status.success(), "{}", server.log());
    }
}

#[test]
fn it_can_be_killed_and_comes_back_as_itself_or_as_somebody_else() {
    let server = Sshd::start();
    let (before, known) = (server.fingerprint(), server.known_hosts_line("127.0.0.1"));
    server.kill();
    assert!(!ssh(&server, "true").status.success());
    server.start_again();
    assert_eq!(server.fingerprint(), before);
    assert!(ssh(&server, "true").status.success(), "{}", server.log());
    server.kill();
    server.start_again_with_another_host_key();
    assert_ne!(server.fingerprint(), before);
    assert_ne!(server.known_hosts_line("127.0.0.1"), known);
    assert!(ssh(&server, "true").status.success(), "{}", server.log());
}

#[tokio::test]
async fn what_was_started_through_it_ends_with_its_guard() {
    let server = Sshd::start();
    let output = ssh(&server, "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!");
    let pid: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    let cmdline = move || std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    until(Duration::from_secs(10), "the sleeper to sleep", async || cmdline().starts_with(b"sleep")).await;
    server.kill();
    assert!(cmdline().starts_with(b"sleep"), "a crash of sshd leaves commands alone");
    drop(server);
    until(Duration::from_secs(10), "the sleeper to be gone", async || cmdline().is_empty()).await;
}
