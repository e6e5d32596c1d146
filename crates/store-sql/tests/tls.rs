//! TLS to PostgreSQL: each mode of libpq against a real server, with the certificates it should and should not accept.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_store::{SteadyClock, StoreError, TenantStore};
use bowline_store_sql::{PgSettings, SqlLedger, SqlSettings};
use bowline_testkit::{Authority, Issued, Postgres, connect};

/// Plain and encrypted connections are both let in; who needs a rule of their own has one by database name.
const RULES: &str = "\
local all all trust
host oracle all 127.0.0.1/32 trust
host postgres all 127.0.0.1/32 trust
hostssl encrypted all 127.0.0.1/32 trust
hostnossl plain all 127.0.0.1/32 trust
hostssl certified all 127.0.0.1/32 cert map=people
hostssl password_over_tls all 127.0.0.1/32 scram-sha-256
hostnossl password_over_tls all 127.0.0.1/32 trust
hostssl password_in_plain all 127.0.0.1/32 trust
hostnossl password_in_plain all 127.0.0.1/32 scram-sha-256
host anything all 127.0.0.1/32 trust
";

fn server(certificate: &Issued, clients: &Authority) -> Postgres {
    Postgres::options()
        .file("server.pem", &certificate.certificate)
        .file("server.key", &certificate.key)
        .file("clients.pem", &clients.pem())
        .file("rules.conf", RULES)
        .file("people.conf", "people bowline postgres\n")
        .setting("ssl", "on")
        .setting("ssl_cert_file", "server.pem")
        .setting("ssl_key_file", "server.key")
        .setting("ssl_ca_file", "clients.pem")
        .setting("hba_file", "rules.conf")
        .setting("ident_file", "people.conf")
        .start()
}

async fn databases(server: &Postgres, names: &[&str]) {
    let oracle = connect(&server.url()).await.expect("the server is there");
    for name in names {
        oracle.batch_execute(&format!("create database {name}")).await.expect("a database");
    }
}

async fn open(url: &str) -> Result<SqlLedger, StoreError> {
    let pg = PgSettings {
        url: url.to_owned(),
        connect_timeout: Duration::from_secs(20),
        statement_timeout: Duration::from_secs(20),
        clock: None,
    };
    SqlLedger::open_postgres(pg, &SqlSettings::new(SteadyClock::start())).await
}

/// How many of the ledger's connections are encrypted, and how many there are. PostgreSQL says so, not we.
async fn encrypted(server: &Postgres, database: &str) -> (i64, i64) {
    let oracle = connect(&server.url()).await.expect("the server is there");
    let question = "select count(*) filter (where s.ssl), count(*) from pg_stat_activity a join pg_stat_ssl s using (pid) \
                    where a.datname = $1 and a.backend_type = 'client backend'";
    let row = oracle.query_one(question, &[&database]).await.expect("an answer");
    (row.get(0), row.get(1))
}

fn keep(directory: &Path, name: &str, content: &str, mode: u32) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, content).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    path
}

fn url(server: &Postgres, host: &str, database: &str, query: &str) -> String {
    format!("postgres://postgres@{host}:{}/{database}?{query}", server.port())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mode_encrypts_and_checks_as_it_does_for_libpq() {
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let server = server(&ours.issue("localhost", "DNS:localhost"), &ours);
    databases(&server, &["anything", "encrypted", "plain", "password_over_tls", "password_in_plain"]).await;
    let files = tempfile::tempdir().expect("a directory");
    let good = keep(files.path(), "ours.pem", &ours.pem(), 0o644).display().to_string();
    let wrong = keep(files.path(), "others.pem", &others.pem(), 0o644).display().to_string();

    let of_others = format!("no authority in {wrong}");
    // Mode, host, database, and whether it is encrypted; or a word of the refusal.
    let cases = [
        ("sslmode=disable", "127.0.0.1", "anything", Ok(false)),
        ("sslmode=disable", "127.0.0.1", "encrypted", Err("no encryption")),
        ("sslmode=allow", "127.0.0.1", "anything", Ok(false)),
        ("sslmode=allow", "127.0.0.1", "encrypted", Ok(true)),
        ("", "127.0.0.1", "anything", Ok(true)),
        ("sslmode=prefer", "127.0.0.1", "anything", Ok(true)),
        ("sslmode=prefer", "127.0.0.1", "plain", Ok(false)),
        // Only a rule about encryption is a reason to try the other way. A password that is missing there is none.
        ("sslmode=prefer", "127.0.0.1", "password_over_tls", Err("password")),
        ("sslmode=allow", "127.0.0.1", "password_in_plain", Err("password")),
        ("sslmode=prefer&sslrootcert=/nowhere.pem", "127.0.0.1", "anything", Ok(true)),
        ("sslmode=require", "127.0.0.1", "anything", Ok(true)),
        ("sslmode=require", "127.0.0.1", "plain", Err("SSL")),
        (&format!("sslmode=require&sslrootcert={wrong}"), "localhost", "anything", Err("no authority")),
        (&format!("sslmode=verify-ca&sslrootcert={good}"), "127.0.0.1", "anything", Ok(true)),
        (&format!("sslmode=verify-ca&sslrootcert={wrong}"), "localhost", "anything", Err("no authority")),
        (&format!("sslmode=verify-full&sslrootcert={good}"), "localhost", "anything", Ok(true)),
        (&format!("sslmode=verify-full&sslrootcert={good}"), "127.0.0.1", "anything", Err("does not name the host")),
        (&format!("sslmode=verify-full&sslrootcert={wrong}"), "localhost", "anything", Err(of_others.as_str())),
        ("sslmode=verify-full", "localhost", "anything", Err("no authority in the system's store")),
        ("sslmode=verify-ca&sslrootcert=/nowhere.pem", "localhost", "anything", Err("sslrootcert /nowhere.pem")),
    ];
    for (query, host, database, expected) in cases {
        let opened = open(&url(&server, host, database, query)).await;
        match (opened, expected) {
            (Ok(ledger), Ok(tls)) => {
                ledger.list_tenants().await.expect("the ledger answers");
                let (with, all) = encrypted(&server, database).await;
                assert!(all > 0, "{query}: no connection was seen");
                assert_eq!(with, if tls { all } else { 0 }, "{query} to {host}: {with} of {all} encrypted");
                drop(ledger);
                until_gone(&server, database).await;
            }
            (Err(error), Err(word)) => assert!(error.to_string().contains(word), "{query} to {host}: {error}"),
            (Ok(_), Err(word)) => panic!("{query} to {host} should be refused with `{word}`"),
            (Err(error), Ok(_)) => panic!("{query} to {host}: {error}\n{}", server.log()),
        }
    }
}

/// The connections of a ledger that was dropped are counted no more.
async fn until_gone(server: &Postgres, database: &str) {
    let gone = async || encrypted(server, database).await.1 == 0;
    bowline_testkit::until(Duration::from_secs(20), "the ledger's connections are gone", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_lets_us_in_and_a_wrong_one_does_not() {
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let server = server(&ours.issue("localhost", "DNS:localhost"), &ours);
    databases(&server, &["certified"]).await;
    let files = tempfile::tempdir().expect("a directory");
    let roots = keep(files.path(), "ours.pem", &ours.pem(), 0o644).display().to_string();
    let base = format!("sslmode=verify-full&sslrootcert={roots}");
    let identity = |issued: &Issued, name: &str| {
        let cert = keep(files.path(), &format!("{name}.pem"), &issued.certificate, 0o644);
        let key = keep(files.path(), &format!("{name}.key"), &issued.key, 0o600);
        format!("{base}&sslcert={}&sslkey={}", cert.display(), key.display())
    };
    let known = identity(&ours.issue("bowline", "DNS:client"), "known");
    let ledger = open(&url(&server, "localhost", "certified", &known)).await.expect("it is let in");
    ledger.list_tenants().await.expect("the ledger answers");
    drop(ledger);

    let refusal =
        async |query: &str| open(&url(&server, "localhost", "certified", query)).await.err().map(|e| e.to_string());
    let none = refusal(&base).await.expect("no certificate is refused");
    assert!(none.contains("client certificate"), "{none}");
    let stranger = identity(&others.issue("bowline", "DNS:client"), "stranger");
    let stranger = refusal(&stranger).await.expect("a certificate of others is refused");
    assert!(stranger.contains("certificate"), "{stranger}");
    let mixed = known.replace("known.key", "stranger.key");
    let mixed = refusal(&mixed).await.expect("a key to another certificate is refused");
    assert!(mixed.contains("do not fit together"), "{mixed}");
    std::fs::set_permissions(files.path().join("known.key"), std::fs::Permissions::from_mode(0o644)).expect("a mode");
    let open_key = refusal(&known).await.expect("a key that others can read is refused");
    assert!(open_key.contains("sslkey") && open_key.contains("chmod 600"), "{open_key}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_refused_where_tls_is_asked_for() {
    let server = Postgres::start();
    let opened = open(&url(&server, "127.0.0.1", "postgres", "sslmode=require")).await;
    let error = opened.expect_err("it is refused").to_string();
    assert!(error.contains("sslmode=require") && error.contains("does not offer"), "{error}");
    let preferred = open(&url(&server, "127.0.0.1", "postgres", "sslmode=prefer")).await.expect("plain text will do");
    let _: Arc<SqlLedger> = Arc::new(preferred);
}
