//! Becoming one of the server's agents, once.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_agent::fleet::{FleetAgent, FleetError};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::json;

use crate::fake::{Fake, JOIN, Reply, TOKEN, Word, Working};

#[tokio::test]
async fn an_agent_enrolls_once_and_needs_no_token_afterwards() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    fake.script(Word::Enroll, [Reply::Refuse(503, "LEDGER_UNAVAILABLE"), Reply::Cut]);
    let mut settings = fake.settings(room.path());
    settings.labels.insert("role".to_owned(), "web".to_owned());
    let working = Working::start(settings.clone()).await;
    fake.until_said(Word::Heartbeat, 1).await;
    let enrolled = fake.get(|state| state.enrolled.clone()).unwrap();
    let decode = |field: &str| STANDARD.decode(enrolled[field].as_str().unwrap()).unwrap();
    let message = format!("bowline enroll 1\nweb-1\n{JOIN}");
    let key = UnparsedPublicKey::new(&ED25519, decode("public_key"));
    key.verify(message.as_bytes(), &decode("signature")).unwrap();
    let registered = fake.get(|state| state.bodies.iter().find(|said| said.0 == Word::Register).cloned()).unwrap().1;
    assert_eq!(registered["task_types"], json!(["bowline.command"]));
    assert_eq!(registered["labels"], json!({"role": "web"}));

    // Two agents cannot share a directory.
    let second = FleetAgent::open(settings.clone()).await.err().unwrap();
    assert!(matches!(second, FleetError::Data { .. }), "{second}");
    working.stop().await;

    // Again, with the token that was used: it is not needed.
    let asked = fake.get(|state| state.said[&Word::Enroll]);
    Working::start(settings.clone()).await.stop().await;
    settings.join = None;
    settings.name = None;
    Working::start(settings.clone()).await.stop().await;
    assert_eq!(fake.get(|state| state.said[&Word::Enroll]), asked);

    settings.name = Some("web-2".to_owned());
    let other = FleetAgent::open(settings).await.err().unwrap();
    assert!(matches!(other, FleetError::OtherName { .. }), "{other}");
    let credential = std::fs::read_to_string(room.path().join("credential.json")).unwrap();
    assert!(credential.contains(TOKEN) && !credential.contains(JOIN));
}

#[tokio::test]
async fn an_agent_that_is_not_let_in_says_why() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let mut settings = fake.settings(room.path());
    settings.join = None;
    let error = FleetAgent::open(settings.clone()).await.err().unwrap();
    assert!(matches!(error, FleetError::NotEnrolled), "{error}");
    for (status, code) in [(401, "UNAUTHENTICATED"), (409, "AGENT_EXISTS"), (409, "AGENT_KEY_EXISTS")] {
        fake.script(Word::Enroll, [Reply::Refuse(status, code)]);
        settings.join = Some(JOIN.to_owned());
        let error = FleetAgent::open(settings.clone()).await.err().unwrap();
        assert!(error.to_string().contains(code), "{error}");
    }
    // The key is the same at every attempt.
    let keys = fake.get(|state| {
        let enrolls = state.bodies.iter().filter(|said| said.0 == Word::Enroll);
        enrolls.map(|said| said.1["public_key"].clone()).collect::<Vec<_>>()
    });
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]));
}

#[tokio::test]
async fn a_credential_is_renewed_with_the_key_and_used_from_then_on() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    fake.set(|state| state.renew_after_s = Some(0));
    fake.script(Word::Renew, [Reply::Refuse(503, "LEDGER_UNAVAILABLE"), Reply::Cut]);
    let working = Working::start(fake.settings(room.path())).await;
    fake.until_said(Word::Renew, 3).await;
    let enrolled = fake.get(|state| state.enrolled.clone()).unwrap();
    let asked = fake.get(|state| state.bodies.iter().rfind(|said| said.0 == Word::Renew).cloned()).unwrap().1;
    let decode = |body: &serde_json::Value, field: &str| STANDARD.decode(body[field].as_str().unwrap()).unwrap();
    let message = format!("bowline renew 1\nweb-1\n{TOKEN}");
    let key = UnparsedPublicKey::new(&ED25519, decode(&enrolled, "public_key"));
    key.verify(message.as_bytes(), &decode(&asked, "signature")).unwrap();
    fake.until("a heartbeat under the new one", |state| (state.beats_as == "agent-token-renewed").then_some(())).await;
    working.stop().await;
    let credential = std::fs::read_to_string(room.path().join("credential.json")).unwrap();
    assert!(credential.contains("agent-token-renewed"), "{credential}");
}

#[tokio::test]
async fn a_new_join_token_admits_an_agent_anew_and_a_bad_one_changes_nothing() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let mut settings = fake.settings(room.path());
    Working::start(settings.clone()).await.stop().await;
    let asked = |fake: &Fake| fake.get(|state| state.said[&Word::Enroll]);
    assert_eq!(asked(&fake), 1);
    settings.join = Some("another-join-token".to_owned());
    Working::start(settings.clone()).await.stop().await;
    assert_eq!(asked(&fake), 2, "it was tried, and the agent works with the credential it has");
    // The directory knows nothing of the token it joined with, as one of an older version.
    let path = room.path().join("credential.json");
    let mut credential: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    credential.as_object_mut().unwrap().remove("joined_with");
    std::fs::write(&path, credential.to_string()).unwrap();
    settings.join = Some(JOIN.to_owned());
    Working::start(settings.clone()).await.stop().await;
    assert_eq!(asked(&fake), 3);
    Working::start(settings).await.stop().await;
    assert_eq!(asked(&fake), 3, "a join token that stays where it is is used once");
    let keys = fake.get(|state| {
        let enrolls = state.bodies.iter().filter(|said| said.0 == Word::Enroll);
        enrolls.map(|said| said.1["public_key"].clone()).collect::<Vec<_>>()
    });
    assert!(keys.iter().all(|key| *key == keys[0]), "always with the same key");
}
