//! Runs that the agent itself executes, elsewhere.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod room;

use bowline_execute::{BeginError, Confirmed, Ended, EndedAs, Happening, HostLock, Secrets, Standing, Stream};
use room::{Room, script};

fn ended() -> Ended {
    Ended {
        outcome: EndedAs::Succeeded,
        exit_code: Some(0),
        signal: None,
        message: None,
        children: None,
        duration_ms: Some(1),
        stdout_bytes: 0,
        stderr_bytes: 0,
        last_seq: 0,
    }
}

#[test]
fn it_is_read_and_forgotten_like_any_other() {
    let room = Room::default();
    let runs = room.runs();
    let mut manifest = script("true");
    manifest.secrets.insert("PASSWORD".to_owned(), "db".to_owned());
    let secrets: Secrets = [("db", "hunter22")].into_iter().collect();
    let run = manifest.run;
    let mut inside = runs.begin_inside(manifest.clone(), &secrets).unwrap();
    inside.write(Stream::Stdout, b"pass hunt");
    inside.write(Stream::Stdout, b"er22 word\n");
    inside.flush().unwrap();
    assert_eq!(runs.find(run).unwrap().standing, Standing::Running);
    assert!(runs.take_changed().contains(&run));
    let again = runs.begin_inside(manifest.clone(), &secrets);
    assert!(matches!(again, Err(BeginError::AlreadyStarted(_))));
    inside.end(ended()).unwrap();
    assert_eq!(runs.read_output(run, Stream::Stdout, 0, 100).unwrap(), b"pass *** word\n");
    let records = runs.events_after(run, 0, 10).unwrap();
    assert!(matches!(records[0].happening, Happening::Output { bytes: 14, .. }), "{records:?}");
    let Standing::Ended(end) = runs.find(run).unwrap().standing else { panic!("it has ended") };
    assert_eq!((end.outcome, end.stdout_bytes, end.last_seq), (EndedAs::Succeeded, 14, records.len() as u64));
    runs.forget(run, Confirmed { last_seq: end.last_seq, stdout_bytes: 14, stderr_bytes: 0 }).unwrap();
    manifest.run = script("true").run;
    let before = runs.begin_inside(manifest, &secrets);
    assert!(matches!(before, Err(BeginError::AlreadyExecuted { outcome: Some(EndedAs::Succeeded), .. })));
}

#[test]
fn one_that_is_given_up_is_interrupted_and_frees_its_host() {
    let room = Room::default();
    let runs = room.runs();
    let (first, mut second) = (script("true"), script("true"));
    second.host = first.host.clone();
    assert_eq!(first.lock, HostLock::Exclusive);
    let inside = runs.begin_inside(first.clone(), &Secrets::default()).unwrap();
    let busy = runs.begin(second.clone(), &Secrets::default());
    assert!(matches!(busy, Err(BeginError::HostBusy { run }) if run == first.run), "{busy:?}");
    drop(inside);
    let Standing::Ended(end) = runs.find(first.run).unwrap().standing else { panic!("it has ended") };
    assert_eq!(end.outcome, EndedAs::Interrupted);
    assert!(end.message.unwrap().contains("not known"));
    drop(runs.begin_inside(second, &Secrets::default()).unwrap());
}
