//! A broker behind TLS: believed if somebody vouches for it whom we were told to trust, and not otherwise.

#[allow(dead_code, reason = "each test program uses its part of it")]
mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bowline_amqp::{AmqpError, Broker, Published, Publisher};
use bowline_testkit::{RabbitMq, free_port};
use common::{Witness, broker, message};

const LIMIT: Duration = Duration::from_secs(30);

fn openssl(directory: &Path, words: &str) {
    let done = Command::new("openssl").args(words.split_whitespace()).current_dir(directory).output().expect("openssl");
    assert!(done.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_is_believed_if_its_certificate_is_vouched_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = directory.path();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(files, &format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=trusted"));
    openssl(files, &format!("req {key} -keyout broker.key -out broker.csr -subj /CN=localhost"));
    std::fs::write(files.join("names"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n").expect("a file");
    openssl(
        files,
        "x509 -req -in broker.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out broker.pem -days 2 -extfile names",
    );
    let port = free_port();
    let at = |name: &str| files.join(name).display().to_string();
    let server = RabbitMq::options()
        .setting("listeners.ssl.1", &format!("127.0.0.1:{port}"))
        .setting("ssl_options.cacertfile", &at("ca.pem"))
        .setting("ssl_options.certfile", &at("broker.pem"))
        .setting("ssl_options.keyfile", &at("broker.key"))
        .setting("ssl_options.verify", "verify_none")
        .start();
    let address = server.address();
    let witness = Witness::of(&address).await;
    witness.queue("q").await;
    let ca = std::fs::read_to_string(files.join("ca.pem")).expect("a file");
    let url = format!("amqps://localhost:{port}").parse().expect("an address");
    let trusted = Broker { url, ca: Some(ca), ..broker(&address) };
    let published = Publisher::new(trusted.clone()).publish(&message("q", "sealed"), LIMIT).await;
    assert_eq!(published, Ok(Published::Confirmed), "{}", server.log());
    assert_eq!(witness.drain("q").await, ["sealed"]);
    // Nobody we know vouches for it.
    let unknown = Broker { ca: None, ..trusted.clone() };
    let error = Publisher::new(unknown).publish(&message("q", "x"), LIMIT).await.expect_err("it is not believed");
    assert!(matches!(&error, AmqpError::Unreachable { why, .. } if why.contains("certificate")), "{error}");
    // It is vouched for under another name.
    let mut elsewhere = trusted;
    elsewhere.url.host = "127.0.0.1".to_owned();
    let error = Publisher::new(elsewhere).publish(&message("q", "x"), LIMIT).await.expect_err("it is not believed");
    assert!(matches!(&error, AmqpError::Unreachable { why, .. } if why.contains("certificate")), "{error}");
    assert_eq!(witness.waiting("q").await, 0, "nothing went to whom we do not believe");
}
