//! A host is known by its key, or not spoken to.

mod common;

use bowline_ssh::{ConnectError, Effect, HostKeyFault, HostKeyProblem, HostKeyRule, NotStarted, SshError, SshPool};
use bowline_testkit::Sshd;
use common::{LOCALHOST, pool, run, settings, sh, stdout_of, target, told};

fn problem(error: &SshError) -> &HostKeyProblem {
    assert_eq!(error.effect(), Effect::None);
    assert!(!error.may_pass());
    match error {
        SshError::NotStarted { cause: NotStarted::Connect(cause), .. } => match &**cause {
            ConnectError::HostKey(problem) => problem,
            _ => panic!("{}", told(error)),
        },
        _ => panic!("{}", told(error)),
    }
}

#[tokio::test]
async fn an_unknown_host_is_refused_with_its_fingerprint_and_the_file() {
    let server = Sshd::start();
    let mut settings = settings(&server);
    settings.known_hosts = vec![server.known_hosts(["elsewhere"])];
    let file = settings.known_hosts[0].display().to_string();
    let pool = SshPool::new(settings).unwrap();
    let error = run(&pool, &target(&server), &sh("true")).await.0.unwrap_err();
    assert!(matches!(problem(&error).fault, HostKeyFault::Unknown { .. }));
    let text = told(&error);
    assert!(text.contains(&server.fingerprint()) && text.contains(&file) && text.contains("SHA256:"), "{text}");
    assert_eq!(server.logins(), 0);
}

#[tokio::test]
async fn a_changed_key_is_refused_with_both_fingerprints_and_the_line() {
    let server = Sshd::start();
    let (pool, before) = (pool(&server), server.fingerprint());
    stdout_of(&pool, &target(&server), &sh("true")).await;
    server.kill();
    server.start_again_with_another_host_key();
    let error = run(&pool, &target(&server), &sh("true")).await.0.unwrap_err();
    assert!(matches!(problem(&error).fault, HostKeyFault::Changed { line: 1, .. }), "{}", told(&error));
    let text = told(&error);
    assert!(text.contains(&before) && text.contains(&server.fingerprint()), "{text}");
    assert_eq!(server.logins(), 1);
}

#[tokio::test]
async fn accept_new_remembers_and_then_refuses_a_change() {
    let server = Sshd::start();
    let remember_in = server.directory().join("learnt");
    let mut settings = settings(&server);
    settings.known_hosts = Vec::new();
    settings.host_keys = HostKeyRule::AcceptNew { remember_in: remember_in.clone() };
    let pool = SshPool::new(settings.clone()).unwrap();
    stdout_of(&pool, &target(&server), &sh("true")).await;
    assert_eq!(std::fs::read_to_string(&remember_in).unwrap(), server.known_hosts_line(LOCALHOST));
    // Another pool, which knows it from the file alone.
    let strict = SshPool::new(bowline_ssh::SshSettings {
        host_keys: HostKeyRule::Strict,
        known_hosts: vec![remember_in.clone()],
        ..settings.clone()
    });
    stdout_of(&strict.unwrap(), &target(&server), &sh("true")).await;
    server.kill();
    server.start_again_with_another_host_key();
    for pool in [pool, SshPool::new(settings).unwrap()] {
        let error = run(&pool, &target(&server), &sh("true")).await.0.unwrap_err();
        assert!(matches!(problem(&error).fault, HostKeyFault::Changed { line: 1, .. }), "{}", told(&error));
    }
    assert_eq!(std::fs::read_to_string(&remember_in).unwrap().lines().count(), 1);
}

#[tokio::test]
async fn a_hashed_file_made_by_openssh_is_understood() {
    let server = Sshd::start();
    let settings = settings(&server);
    let hashed = std::process::Command::new("ssh-keygen").args(["-H", "-f"]).arg(&settings.known_hosts[0]).output();
    assert!(hashed.unwrap().status.success());
    assert!(std::fs::read_to_string(&settings.known_hosts[0]).unwrap().starts_with("|1|"));
    stdout_of(&SshPool::new(settings).unwrap(), &target(&server), &sh("true")).await;
}

/// It would seem to have changed if it were asked for the key it prefers.
#[tokio::test]
async fn a_host_with_two_keys_is_asked_for_the_one_that_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let rsa = directory.path().join("host_rsa");
    let made = std::process::Command::new("ssh-keygen").args(["-q", "-t", "rsa", "-N", "", "-f"]).arg(&rsa).status();
    assert!(made.unwrap().success());
    let server = Sshd::options().setting("HostKey", rsa.to_str().unwrap()).start();
    let public = std::fs::read_to_string(rsa.with_extension("pub")).unwrap();
    let known_hosts = directory.path().join("known_hosts");
    let key = public.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    std::fs::write(&known_hosts, format!("[127.0.0.1]:{} {key}\n", server.port())).unwrap();
    let mut settings = settings(&server);
    settings.known_hosts = vec![known_hosts];
    stdout_of(&SshPool::new(settings).unwrap(), &target(&server), &sh("true")).await;
}

#[tokio::test]
async fn names_and_ipv6_are_known_by_how_they_are_spelt() {
    let server = Sshd::start();
    let pool = pool(&server);
    for address in ["localhost", "LOCALHOST", "::1", "[::1]"] {
        let target = bowline_ssh::Target::new(address).with_port(server.port());
        stdout_of(&pool, &target, &sh("true")).await;
    }
    // The same host under two spellings is one target.
    assert_eq!(pool.connections(), 2);
}
