//! What an operator meets on the machine itself: files, tokens, and tools that look without touching.

use serde_json::{Value, json};

use crate::support::{Setup, TestServer};

#[tokio::test]
async fn looking_at_a_ledger_that_is_not_there_makes_none() {
    let mut server = TestServer::start().await;
    server.stop().await;
    let nowhere = server.data_dir();
    std::fs::remove_dir_all(&nowhere).expect("it can be removed");
    for tool in ["verify", "doctor"] {
        let output = server.command(tool).env("BOWLINE_URL", server.url("")).output().expect("it runs");
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!output.status.success() && said.contains("there is no ledger"), "{tool}: {said}");
        assert!(!nowhere.exists(), "{tool} made something");
    }
}

#[tokio::test]
async fn an_administrator_sees_and_ends_the_tokens_of_other_tenants() {
    let server = TestServer::start().await;
    let tenant = server.post("/tenants", json!({"name": "acme"})).await.expect(201)["id"].clone();
    let made = server.post("/tokens", json!({"kind": "api", "name": "ci", "tenant_id": tenant})).await.expect(201);
    let path = format!("/tokens?tenant_id={}", tenant.as_str().expect("an id"));
    let listed = server.get(&path).await.expect(200);
    assert_eq!(listed["tokens"].as_array().map(Vec::len), Some(1), "{listed}");
    let scopes = json!(["tokens.write", "jobs.read"]);
    let lesser = server.token(json!({"kind": "api", "name": "lesser", "scopes": scopes})).await;
    let (id, token) = (made["id"].as_str().expect("an id"), made["token"].as_str().expect("a token"));
    let revoke = format!("/tokens/{id}/revoke");
    assert_eq!(server.send("GET", &path, &lesser, None).await.status, 404);
    assert_eq!(server.send("POST", &revoke, &lesser, None).await.status, 404);
    assert_eq!(server.send("GET", "/jobs", token, None).await.status, 200, "it was not touched");
    server.send("POST", &revoke, &server.admin(), None).await.expect(200);
    assert_eq!(server.send("GET", "/jobs", token, None).await.status, 401);
}

/// Two servers with one ledger and two directories would each have half of the output.
#[tokio::test]
async fn a_server_whose_output_would_be_elsewhere_does_not_start() {
    let mut server = TestServer::start().await;
    server.stop().await;
    let start = |more: &[&str]| {
        let mut command = server.command("serve");
        command.args(["--listen", "127.0.0.1:0"]).args(more);
        command
    };
    let objects = server.data_dir().join("objects");
    let mounted = server.data_dir().join("mounted");
    std::fs::rename(&objects, &mounted).expect("it is moved");
    let refused = start(&[]).output().expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{said}");
    for word in ["objects directory", "server.objects_dir", "--adopt-objects", "objects is "] {
        assert!(said.contains(word), "{word}: {said}");
    }
    // The same directory by another name is the same directory.
    let config = format!("[server]\nobjects_dir = {:?}\n", mounted.display().to_string());
    let server = TestServer::with_data_dir(Setup { config, ..Setup::default() }, server.data_dir()).await;
    server.get("/jobs").await.expect(200);
    drop(server);
}

/// Nobody is locked out because somebody called an ordinary token `admin`.
#[tokio::test]
async fn a_start_without_any_administrator_makes_one() {
    let mut server = TestServer::start().await;
    server.token(json!({"kind": "api", "name": "admin"})).await;
    let listed = server.get("/tokens").await.expect(200);
    let is_admin = |t: &&Value| t["scopes"] == json!(["admin"]);
    let first = listed["tokens"].as_array().and_then(|list| list.iter().find(is_admin)).expect("an administrator");
    let (before, id) = (server.admin(), first["id"].as_str().expect("an id").to_owned());
    server.send("POST", &format!("/tokens/{id}/revoke"), &before, None).await.expect(200);
    server.stop().await;
    server.start_again().await;
    assert_ne!(server.admin(), before);
    server.get("/jobs").await.expect(200);
    let aside = std::fs::read_to_string(server.data_dir().join("admin.token.old")).expect("the old one was kept");
    assert_eq!(aside.trim(), before);
}

/// Closing the terminal, or a habit of `reload`, ends nothing; what can change changes, and the log says what cannot.
#[tokio::test]
async fn a_hang_up_reads_the_configuration_again_and_ends_nothing() {
    let server = TestServer::start().await;
    let path = server.data_dir().parent().expect("a directory").join("bowline.toml");
    let said = async |words: &str| {
        bowline_testkit::until(std::time::Duration::from_secs(30), words, async || {
            let log = server.child().log();
            if log.contains(words) { Ok(()) } else { Err(log) }
        })
        .await;
    };
    server.child().hang_up();
    said("configuration read again, log settings applied\"").await;
    std::fs::write(&path, "[log]\nlevel = \"warn\"\n[limits]\nstreams = 7\n[quotas]\nqueued_jobs = 7\n")
        .expect("written");
    server.child().hang_up();
    said("\"config.needs_restart\":\"limits, quotas\"").await;
    std::fs::write(&path, "[log]\nlevel = \"loud\"\n").expect("written");
    server.child().hang_up();
    said("nothing was changed").await;
    server.get("/jobs").await.expect(200);
    // At `warn` there is no word about a quiet reload any more.
    std::fs::write(&path, "[log]\nlevel = \"warn\"\n").expect("written");
    let before = server.child().log().matches("log settings applied\"").count();
    server.child().hang_up();
    server.child().hang_up();
    server.get("/jobs").await.expect(200);
    assert_eq!(server.child().log().matches("log settings applied\"").count(), before, "{}", server.child().log());
    // `log.access` applies at once, too.
    let reload = async |access: &str| {
        let before = server.child().log().matches("log settings applied\"").count();
        std::fs::write(&path, format!("[log]\naccess = \"{access}\"\n")).expect("written");
        server.child().hang_up();
        bowline_testkit::until(std::time::Duration::from_secs(30), "the reload", async || {
            let log = server.child().log();
            if log.matches("log settings applied\"").count() > before { Ok(()) } else { Err(log) }
        })
        .await;
    };
    reload("off").await;
    server.get("/quotas").await.expect(200);
    reload("all").await;
    server.get("/lanes").await.expect(200);
    said("\"http.path\":\"/lanes\"").await;
    assert!(!server.child().log().contains("\"http.path\":\"/quotas\""), "{}", server.child().log());
}

/// A port that is taken is noticed before a ledger and a token are made.
#[tokio::test]
async fn a_port_that_is_taken_leaves_nothing_behind() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(["serve", "--listen", &address, "--data-dir"]).arg(&data_dir);
    let refused = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains(&format!("cannot listen on {address}")), "{said}");
    assert!(!data_dir.exists(), "{said}");
}

/// The server and the token are said once, and kept where only their owner can read them.
#[tokio::test]
async fn a_login_is_remembered() {
    use std::os::unix::fs::PermissionsExt;
    let server = TestServer::start().await;
    let home = tempfile::tempdir().expect("a directory");
    let bowline = |args: &[&str], token: Option<String>| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bowline"));
        command.args(args).env("XDG_CONFIG_HOME", home.path()).env_remove("BOWLINE_URL").env_remove("BOWLINE_TOKEN");
        command.current_dir(home.path()).stdin(std::process::Stdio::null());
        if let Some(token) = token {
            command.env("BOWLINE_TOKEN", token);
        }
        let output = command.output().expect("it runs");
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), said)
    };
    let address = format!("127.0.0.1:{}", server.port);
    let (code, said) = bowline(&["login", &address, "--name", "test"], Some("wrong".to_owned()));
    assert_ne!(code, Some(0), "a token that is not accepted is not saved: {said}");
    let (code, said) = bowline(&["login", &address, "--name", "test"], Some(server.admin()));
    assert_eq!((code, said.contains("context test is in use")), (Some(0), true), "{said}");
    let file = home.path().join("bowline/contexts.toml");
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    let (code, said) = bowline(&["job", "submit", "echo", "--wait"], None);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = bowline(&["job", "get", "--last", "-o", "yaml"], None);
    assert_eq!((code, said.contains("  type: echo\n")), (Some(0), true), "{said}");
    let (_, said) = bowline(&["context", "list"], None);
    assert!(said.contains("*  test  http://127.0.0.1:"), "{said}");
    let (code, said) = bowline(&["--context", "prod", "job", "list"], None);
    assert_eq!((code, said.contains("there are test")), (Some(2), true), "{said}");
    let elsewhere = [("BOWLINE_URL", "http://127.0.0.1:1"), ("BOWLINE_TOKEN", "wrong")];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(["--context", "test", "whoami"]).envs(elsewhere).env("XDG_CONFIG_HOME", home.path());
    let named = command.current_dir(home.path()).output().expect("it runs");
    assert!(named.status.success(), "a named context wins over the environment: {named:?}");
    assert_eq!(bowline(&["context", "remove", "test"], None).0, Some(0));
    assert!(!std::fs::read_to_string(&file).expect("a file").contains("token"));
}

/// The commands of the binary itself; those that ask a server are walked in the tests of `bowline-cli`.
#[test]
fn commands_of_the_binary_print_the_format_that_was_asked_for() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bowline"));
        command.args(args).args(["--data-dir", data.to_str().expect("a text")]).current_dir(home.path());
        command.env("BOWLINE_URL", "http://127.0.0.1:1");
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("a text")
    };
    for (command, field) in [("migrate", "version"), ("verify", "ok"), ("doctor", "ok")] {
        let table = run(&[command, "-o", "table"]);
        assert!(serde_json::from_str::<serde_json::Value>(&table).is_err(), "{command}: {table}");
        let json: serde_json::Value = serde_json::from_str(&run(&[command, "-o", "json"])).expect("JSON");
        assert!(json.get(field).is_some(), "{command}: {json}");
        let yaml = run(&[command, "-o", "yaml"]);
        assert!(yaml.starts_with("---\n") && yaml.contains(&format!("\n{field}: ")), "{command}: {yaml}");
    }
}

#[test]
fn shells_and_manuals_know_the_commands() {
    let run = |args: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_bowline")).args(args).output().expect("it runs");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&["completions", shell]).contains("executions"), "{shell}");
    }
    assert!(run(&["man"]).starts_with(".ie"), "a page for man");
    let directory = tempfile::tempdir().expect("a directory");
    run(&["man", "--dir", directory.path().to_str().expect("a text")]);
    for page in ["bowline.1", "bowline-job.1", "bowline-workflow-executions.1"] {
        assert!(directory.path().join(page).exists(), "{page}");
    }
}
