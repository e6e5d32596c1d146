//! Runs that the agent itself executes, elsewhere.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod room;

use std::fs;

use bowline_execute::{
    BeginError, Confirmed, Ended, EndedAs, Happening, HostLock, ReadError, Runs, Secrets, Standing, Stream,
};
use room::{Room, script, settings};

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

#[test]
fn its_records_and_its_output_are_read_in_parts() {
    let room = Room::default();
    let runs = room.runs();
    let manifest = script("true");
    let run = manifest.run;
    let mut inside = runs.begin_inside(manifest, &Secrets::default()).unwrap();
    assert!(runs.events_after(run, 0, 10).unwrap().is_empty(), "nothing happened yet");
    for text in ["one", "two", "three"] {
        inside.write(Stream::Stdout, text.as_bytes());
        inside.flush().unwrap();
    }
    let numbers = |after, max| {
        let records = runs.events_after(run, after, max).unwrap();
        records.iter().map(|record| record.seq).collect::<Vec<_>>()
    };
    assert_eq!(numbers(0, 2), [1, 2]);
    assert_eq!(numbers(2, 10), [3]);
    assert_eq!(numbers(0, 10), [1, 2, 3], "once more, from the beginning");
    assert_eq!(numbers(1, 1), [2]);
    assert_eq!(numbers(3, 10), [0; 0]);
    let part = |stream, offset, len| String::from_utf8(runs.read_output(run, stream, offset, len).unwrap()).unwrap();
    assert_eq!(part(Stream::Stdout, 0, 100), "onetwothree");
    assert_eq!(part(Stream::Stdout, 3, 3), "two");
    assert_eq!(part(Stream::Stdout, 6, 100), "three");
    assert_eq!(part(Stream::Stdout, 11, 5), "");
    assert_eq!(part(Stream::Stderr, 0, 5), "");
    let other = script("true").run;
    assert!(matches!(runs.events_after(other, 0, 1), Err(ReadError::Unknown(run)) if run == other));
    assert!(matches!(runs.read_output(other, Stream::Stdout, 0, 1), Err(ReadError::Unknown(run)) if run == other));
}

#[test]
fn nothing_begins_on_a_disk_with_too_little_room() {
    let room = Room::default();
    let mut settings = settings();
    settings.free_min_bytes = u64::MAX;
    let runs = Runs::open(&room.agent(), settings).unwrap();
    let refused = runs.begin_inside(script("true"), &Secrets::default()).err();
    assert!(matches!(refused, Some(BeginError::NoSpace)), "{refused:?}");
    assert!(runs.list().is_empty());
}

#[test]
fn runs_that_were_forgotten_are_remembered_the_newest_first() {
    let room = Room::default();
    let runs = room.runs();
    let manifests = [script("true"), script("true"), script("true")];
    for manifest in &manifests {
        runs.begin_inside(manifest.clone(), &Secrets::default()).unwrap().end(ended()).unwrap();
        let Standing::Ended(end) = runs.find(manifest.run).unwrap().standing else { panic!("it has ended") };
        let held = Confirmed { last_seq: end.last_seq, stdout_bytes: 0, stderr_bytes: 0 };
        runs.forget(manifest.run, held).unwrap();
    }
    let remembered = |skip, max| runs.executed(skip, max).iter().map(|done| done.run).collect::<Vec<_>>();
    assert_eq!(remembered(0, 10), [2, 1, 0].map(|n: usize| manifests[n].run));
    assert_eq!(remembered(1, 1), [manifests[1].run]);
    assert!(runs.list().is_empty());
}

#[test]
fn a_log_that_is_damaged_while_it_is_written_is_an_error_until_it_is_mended() {
    let room = Room::default();
    let runs = room.runs();
    let manifest = script("true");
    let run = manifest.run;
    let mut inside = runs.begin_inside(manifest, &Secrets::default()).unwrap();
    for text in ["one", "two"] {
        inside.write(Stream::Stdout, text.as_bytes());
        inside.flush().unwrap();
    }
    let log = room.run_dir(run).join("events.log");
    let mut bytes = fs::read(&log).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 10;
    bytes[second] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let numbers = |after| {
        let records = runs.events_after(run, after, 10)?;
        Ok::<_, ReadError>(records.iter().map(|record| record.seq).collect::<Vec<_>>())
    };
    assert_eq!(numbers(0).unwrap(), [1], "what stands before the damage");
    assert!(matches!(numbers(1), Err(ReadError::Damaged { after: 1, .. })));
    drop(inside);
    assert_eq!(numbers(1).unwrap(), [2, 3], "the output again, and the end");
    let Standing::Ended(end) = runs.find(run).unwrap().standing else { panic!("it has ended") };
    assert_eq!((end.outcome, end.stdout_bytes, end.last_seq), (EndedAs::Interrupted, 6, 3));
}

#[test]
fn output_that_was_lost_is_told_when_its_run_is_given_up() {
    let room = Room::default();
    let runs = room.runs();
    let manifest = script("true");
    let run = manifest.run;
    let mut inside = runs.begin_inside(manifest, &Secrets::default()).unwrap();
    inside.write(Stream::Stdout, b"one");
    inside.flush().unwrap();
    let stdout = fs::OpenOptions::new().write(true).open(room.run_dir(run).join("stdout")).unwrap();
    stdout.set_len(1).unwrap();
    drop(inside);
    let records = runs.events_after(run, 0, 10).unwrap();
    let Happening::SpoolDamaged { file, kept_seq: 1, message } = &records[1].happening else { panic!("{records:?}") };
    assert_eq!((file.as_str(), message.as_str()), ("stdout", "3 bytes of it were recorded, and only 1 are there"));
    let Standing::Ended(end) = runs.find(run).unwrap().standing else { panic!("it has ended") };
    assert_eq!((end.outcome, end.stdout_bytes, records.len()), (EndedAs::Interrupted, 3, 3));
}
