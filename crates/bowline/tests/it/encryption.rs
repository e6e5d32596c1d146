//! What others on the network or the machine can read of a server: nothing, unless somebody asked for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use bowline_testkit::{Authority, Child, Issued, free_port, fresh_database, until};

use crate::support::{Setup, TestServer};

const PATIENCE: Duration = Duration::from_secs(30);

fn bowline() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("BOWLINE_") || name.starts_with("PGSSL")) {
        command.env_remove(name);
    }
    command.env_remove("DATABASE_URL");
    command
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// As an issuer's tool writes them: the key first, then the certificate.
fn write(directory: &Path, issued: &Issued) {
    fs::write(directory.join("key.pem"), &issued.key).expect("a file");
    fs::write(directory.join("cert.pem"), &issued.certificate).expect("a file");
}

fn serve(directory: &Path, port: u16) -> Command {
    let mut command = bowline();
    command.arg("serve").arg("--data-dir").arg(directory.join("data")).arg("--listen").arg(format!("127.0.0.1:{port}"));
    command.arg("--tls-cert").arg(directory.join("cert.pem")).arg("--tls-key").arg(directory.join("key.pem"));
    command
}

/// Asks on a new connection, trusting this authority and no other.
async fn healthy(port: u16, trusted: &Authority) -> Result<(), String> {
    let root = reqwest::Certificate::from_pem(trusted.pem().as_bytes()).expect("a certificate");
    let client = bowline_http::client().no_proxy().tls_certs_only([root]).build().expect("a client");
    let answer = client.get(format!("https://127.0.0.1:{port}/healthz")).send().await;
    let answer = answer.map_err(|error| format!("{error:?}"))?;
    if answer.status().is_success() { Ok(()) } else { Err(answer.status().to_string()) }
}

#[tokio::test]
async fn https_is_served_and_new_certificates_are_taken_over_without_a_restart() {
    let home = tempfile::tempdir().expect("a directory");
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    write(home.path(), &first.issue("bowline", "IP:127.0.0.1"));
    let port = free_port();
    let server = Child::spawn(serve(home.path(), port), "bowline");
    until(PATIENCE, "HTTPS is served", async || healthy(port, &first).await).await;
    assert!(healthy(port, &second).await.is_err(), "the certificate is of the first authority");
    let plain = bowline_http::client().no_proxy().build().expect("a client");
    assert!(plain.get(format!("http://127.0.0.1:{port}/healthz")).send().await.is_err(), "plain HTTP is not spoken");

    // The command line trusts what the machine is told to trust.
    fs::write(home.path().join("first.pem"), first.pem()).expect("a file");
    let ask = |roots: &Path| {
        let mut command = bowline();
        command.args(["--server", &format!("https://127.0.0.1:{port}"), "--token-file"]);
        command.arg(home.path().join("data/admin.token")).args(["job", "list"]).env("SSL_CERT_FILE", roots);
        command.output().expect("it runs")
    };
    let listed = ask(&home.path().join("first.pem"));
    assert!(listed.status.success(), "{}", said(&listed));
    fs::write(home.path().join("second.pem"), second.pem()).expect("a file");
    assert!(!ask(&home.path().join("second.pem")).status.success(), "an unknown authority is not believed");

    write(home.path(), &second.issue("bowline", "IP:127.0.0.1"));
    until(PATIENCE, "the new certificate is shown", async || healthy(port, &second).await).await;
    assert!(healthy(port, &first).await.is_err(), "the old one is shown no more");

    // A file that is no certificate, and then one that the key does not fit.
    for broken in ["not a certificate".to_owned(), first.issue("bowline", "IP:127.0.0.1").certificate] {
        let before = server.stderr().matches("keeping the old one").count();
        fs::write(home.path().join("cert.pem"), broken).expect("a file");
        let noticed = async || server.stderr().matches("keeping the old one").count() > before;
        until(PATIENCE, "the broken file is named in the log", noticed).await;
        healthy(port, &second).await.expect("the last good one is in use");
    }
    server.term();
    assert!(server.wait_exit(PATIENCE).await.success(), "{}", server.log());
}

#[tokio::test]
async fn a_server_that_cannot_have_its_certificate_does_not_start() {
    let home = tempfile::tempdir().expect("a directory");
    let authority = Authority::new("ours");
    let start = || serve(home.path(), free_port()).output().expect("it runs");
    let missing = start();
    assert!(!missing.status.success() && said(&missing).contains("tls.cert"), "{}", said(&missing));
    write(home.path(), &authority.issue("bowline", "IP:127.0.0.1"));
    fs::write(home.path().join("key.pem"), authority.issue("other", "IP:127.0.0.1").key).expect("a file");
    let mixed = start();
    assert!(!mixed.status.success() && said(&mixed).contains("cannot be used together"), "{}", said(&mixed));
    fs::write(home.path().join("key.pem"), "no key").expect("a file");
    let broken = start();
    assert!(!broken.status.success() && said(&broken).contains("tls.key"), "{}", said(&broken));
}

#[tokio::test]
async fn plain_http_to_another_machine_must_be_asked_for() {
    // An address for documentation: if anything were sent, it would take a while to fail.
    let far = "http://192.0.2.1:7420";
    let home = tempfile::tempdir().expect("a directory");
    let mut list = bowline();
    list.args(["--server", far, "--token", "x", "job", "list"]);
    let mut agent = bowline();
    agent.args(["--server", far, "agent", "--join", "x", "--data"]).arg(home.path().join("agent"));
    for mut command in [list, agent] {
        let refused = command.output().expect("it runs");
        let text = said(&refused);
        assert!(!refused.status.success() && text.contains("--insecure-http") && text.contains("https://"), "{text}");
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode() & 0o7777
}

/// A directory of a package, a mount or `mkdir` is as open as it was made; the server closes it, whatever its umask is.
#[tokio::test]
async fn ledger_and_objects_are_closed_to_other_users_wherever_they_are() {
    let home = tempfile::tempdir().expect("a directory");
    let (data, objects) = (home.path().join("data"), home.path().join("objects"));
    for directory in [&data, &objects] {
        fs::create_dir(directory).expect("a directory");
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    fs::write(objects.join("old"), "output").expect("a file");
    fs::set_permissions(objects.join("old"), fs::Permissions::from_mode(0o644)).expect("a mode");
    let config = format!("[server]\nobjects_dir = {:?}\n", objects.display().to_string());
    let setup = Setup { config, ..Setup::default() };
    let mut server = TestServer::with_data_dir(setup, data.clone()).await;
    server.submit(serde_json::json!({"type": "noop"})).await;
    let directories = [&data, &objects].map(|path| mode(path));
    assert_eq!(directories, [0o700, 0o700], "{directories:?}");
    for name in ["bowline.db", "bowline.db-wal", "bowline.db-shm", "bowline.lock", "admin.token"] {
        assert_eq!(mode(&data.join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&objects.join("old")), 0o600);
    assert_eq!(mode(&objects.join(".identity")), 0o600);
    server.stop().await;

    let doctor = || server.command("doctor").env("BOWLINE_URL", server.url("")).output().expect("it runs");
    let well = doctor();
    assert!(well.status.success() && said(&well).contains("ok   modes"), "{}", said(&well));
    fs::set_permissions(&data, fs::Permissions::from_mode(0o750)).expect("a mode");
    fs::set_permissions(data.join("bowline.db"), fs::Permissions::from_mode(0o640)).expect("a mode");
    let open = doctor();
    let text = said(&open);
    assert!(!open.status.success() && text.contains("BAD  modes") && text.contains("bowline.db (0640)"), "{text}");
}

#[tokio::test]
async fn listening_beyond_this_machine_without_tls_is_warned_about() {
    let home = tempfile::tempdir().expect("a directory");
    let port = free_port();
    let mut command = bowline();
    command.arg("serve").arg("--data-dir").arg(home.path().join("data")).args(["--listen", &format!("0.0.0.0:{port}")]);
    let server = Child::spawn(command, "bowline");
    until(PATIENCE, "the warning", async || server.stderr().contains("without TLS")).await;
    until(PATIENCE, "the server listens", async || server.stderr().contains("\"listening\"")).await;
    server.term();
    server.wait_exit(PATIENCE).await;
    let config = home.path().join("bowline.toml");
    fs::write(&config, "[server]\nlisten = \"0.0.0.0:7420\"\n").expect("a file");
    let mut doctor = bowline();
    doctor.args(["--server", &format!("http://127.0.0.1:{port}"), "doctor", "--config"]).arg(config);
    let looked = doctor.arg("--data-dir").arg(home.path().join("data")).output().expect("it runs");
    assert!(looked.status.success(), "a warning is no failure: {}", said(&looked));
    assert!(said(&looked).contains("WARN listener"), "{}", said(&looked));
}

/// Only the first server of a ledger writes the administrator's token.
#[tokio::test]
async fn a_second_server_offers_no_token_that_is_not_there() {
    let database = fresh_database();
    let shared = tempfile::tempdir().expect("a directory");
    let config = format!("[server]\nobjects_dir = {:?}\n", shared.path().join("objects").display().to_string());
    let setup = Setup { database_url: Some(database.url().to_owned()), config, ..Setup::default() };
    let first = TestServer::with(setup.clone()).await;
    assert!(first.data_dir().join("admin.token").exists());
    let greeting = async |server: &TestServer| {
        let greeted = async || {
            let log = server.child().stderr();
            log.lines().find(|line| line.contains("\"listening\"")).map(str::to_owned)
        };
        until(PATIENCE, "the server has greeted", greeted).await
    };
    assert!(greeting(&first).await.contains("admin.token"), "{}", first.child().stderr());
    let second = TestServer::with(setup).await;
    assert!(!greeting(&second).await.contains("token"), "{}", second.child().stderr());
    assert!(!second.data_dir().join("admin.token").exists());
    let looked = second.command("doctor").env("BOWLINE_URL", second.url("")).output().expect("it runs");
    let text = said(&looked);
    assert!(text.contains("another server wrote the token") && !text.contains("first start makes it"), "{text}");
}
