//! Who we are to the server: keys of all kinds, encrypted ones, those of an agent, and wrong ones.

mod common;

use std::process::{Command, Stdio};

use bowline_ssh::{BadSettings, ConnectError, NotStarted, Passphrases, Secret, SshError, SshPool};
use bowline_testkit::{Child, Sshd, until};
use common::{PATIENCE, run, settings, sh, stdout_of, target, told};

#[tokio::test]
async fn keys_of_all_kinds_open_the_door() {
    let server = Sshd::start();
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let mut settings = settings(&server);
        settings.key_files = vec![server.add_client_key(&format!("key_{kind}"), kind, "")];
        stdout_of(&SshPool::new(settings).unwrap(), &target(&server), &sh("true")).await;
    }
    let log = server.log();
    assert_eq!(server.logins(), 3);
    assert!(["ED25519", "ECDSA", "RSA"].iter().all(|kind| log.contains(&format!("ssh2: {kind} SHA256:"))), "{log}");
}

#[tokio::test]
async fn the_second_key_is_tried_when_the_first_is_refused() {
    let server = Sshd::start();
    let mut settings = settings(&server);
    settings.key_files.insert(0, server.make_stranger_key("stranger"));
    stdout_of(&SshPool::new(settings).unwrap(), &target(&server), &sh("true")).await;
}

#[tokio::test]
async fn a_wrong_key_is_refused_and_named() {
    let server = Sshd::start();
    let mut settings = settings(&server);
    settings.key_files = vec![server.make_stranger_key("stranger")];
    let pool = SshPool::new(settings).unwrap();
    let error = run(&pool, &target(&server), &sh("true")).await.0.unwrap_err();
    let SshError::NotStarted { cause: NotStarted::Connect(cause), .. } = &error else { panic!("{}", told(&error)) };
    assert!(matches!(&**cause, ConnectError::Refused { .. }), "{}", told(&error));
    assert!(told(&error).contains("ssh-ed25519 SHA256:") && told(&error).contains("publickey"), "{}", told(&error));
    assert!(!error.may_pass());
}

#[tokio::test]
async fn an_encrypted_key_needs_its_passphrase() {
    let server = Sshd::start();
    let key = server.add_client_key("encrypted", "ed25519", "open sesame");
    let mut settings = settings(&server);
    settings.key_files = vec![key.clone()];
    assert!(matches!(SshPool::new(settings.clone()), Err(BadSettings::Encrypted { file }) if file == key));
    settings.passphrases = Some(Passphrases::new(|_| Some(Secret::new("open barley"))));
    assert!(matches!(SshPool::new(settings.clone()), Err(BadSettings::WrongPassphrase { .. })));
    settings.passphrases = Some(Passphrases::new(|_| Some(Secret::new("open sesame"))));
    stdout_of(&SshPool::new(settings).unwrap(), &target(&server), &sh("true")).await;
}

#[test]
fn what_is_no_key_is_refused_at_once() {
    let server = Sshd::start();
    let mut settings = settings(&server);
    settings.key_files = vec![server.directory().join("absent")];
    assert!(matches!(SshPool::new(settings.clone()), Err(BadSettings::Unreadable { .. })));
    settings.key_files = vec![settings.known_hosts[0].clone()];
    assert!(matches!(SshPool::new(settings.clone()), Err(BadSettings::NotAKey { .. })));
    settings.key_files = Vec::new();
    assert!(matches!(SshPool::new(settings), Err(BadSettings::Nobody)));
}

#[tokio::test]
async fn the_keys_of_an_agent_open_the_door() {
    let server = Sshd::start();
    let socket = server.directory().join("agent");
    let mut command = Command::new("ssh-agent");
    command.arg("-D").arg("-a").arg(&socket);
    let _agent = Child::spawn(command, "ssh-agent");
    until(PATIENCE, "the agent to listen", async || socket.exists()).await;
    for kind in ["ed25519", "rsa"] {
        let key = server.add_client_key(&format!("agents_{kind}"), kind, "");
        let mut add = Command::new("ssh-add");
        let added = add.arg(&key).env("SSH_AUTH_SOCK", &socket).stderr(Stdio::null()).status();
        assert!(added.unwrap().success());
        let mut settings = settings(&server);
        settings.key_files = Vec::new();
        settings.agent_socket = Some(socket.clone());
        stdout_of(&SshPool::new(settings).unwrap(), &target(&server), &sh("true")).await;
        let gone = Command::new("ssh-add").arg("-D").env("SSH_AUTH_SOCK", &socket).stderr(Stdio::null()).status();
        assert!(gone.unwrap().success());
    }
    assert_eq!(server.logins(), 2);
}

#[tokio::test]
async fn an_agent_that_is_not_there_is_named() {
    let server = Sshd::start();
    let mut settings = settings(&server);
    settings.key_files = Vec::new();
    settings.agent_socket = Some(server.directory().join("no-agent"));
    let pool = SshPool::new(settings).unwrap();
    let error = run(&pool, &target(&server), &sh("true")).await.0.unwrap_err();
    assert!(told(&error).contains("no-agent") && error.may_pass(), "{}", told(&error));
}
