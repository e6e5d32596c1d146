//! A disk that fails: the n-th sync of a keeper says EIO, once, as a real one does.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod room;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use bowline_execute::{EndedAs, Happening, Runs, Secrets, Standing, Stream, Truncation};
use room::*;
use sha2::{Digest, Sha256};

/// Put before the C library. Calls of both kinds are counted together.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
static atomic_int calls;
static int fails(void) {
    const char *at = getenv("FAIL_AT");
    return at && atomic_fetch_add(&calls, 1) + 1 == atoi(at);
}
#define SHIM(name) int name(int fd) { \
    if (fails()) { errno = EIO; return -1; } \
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, #name); \
    return next(fd); }
SHIM(fsync)
SHIM(fdatasync)
"#;

fn build_shim(room: &Room) -> Result<PathBuf, String> {
    let (source, library) = (room.file("shim.c"), room.file("shim.so"));
    fs::write(&source, SHIM).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl").output();
    match built {
        Ok(output) if output.status.success() => Ok(library),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn whichever_sync_fails_nothing_is_started_twice_and_nothing_told_is_false() {
    let room = Room::default();
    let shim = match build_shim(&room) {
        Ok(shim) => shim,
        Err(why) => return println!("not tested with a failing disk: {why}"),
    };
    let mut seen = std::collections::BTreeMap::<&str, Vec<u32>>::new();
    for fail_at in 1..=14 {
        let starts = room.file(&format!("starts-{fail_at}"));
        let keeper = room.file(&format!("keeper-{fail_at}"));
        let line = format!(
            "#!/bin/sh\nFAIL_AT={fail_at} LD_PRELOAD={} exec {} \"$1\"\n",
            shim.display(),
            env!("CARGO_BIN_EXE_bowline-keeper")
        );
        fs::write(&keeper, line).unwrap();
        fs::set_permissions(&keeper, fs::Permissions::from_mode(0o700)).unwrap();
        let mut settings = settings();
        settings.keeper = vec![keeper.into()];
        let runs = Runs::open(&room.agent(), settings).unwrap();
        let manifest =
            script(&format!("echo $$ >> {}; for n in 1 2 3; do echo $n; sleep 0.15; done", starts.display()));
        runs.begin(manifest.clone(), &Secrets::default()).unwrap();
        let standing = until("the end", || {
            let standing = runs.find(manifest.run)?.standing;
            (standing != Standing::Running).then_some(standing)
        });
        let started = fs::read_to_string(&starts).unwrap_or_default().lines().count();
        assert!(started <= 1, "sync {fail_at}: {started} starts");
        assert!(processes_of(manifest.run).is_empty());
        let what = match &standing {
            Standing::NeverStarted { .. } => {
                assert_eq!(started, 0, "sync {fail_at}");
                "never started"
            }
            Standing::Ended(end) if end.outcome == EndedAs::Interrupted => "interrupted",
            Standing::Ended(end) => {
                assert_eq!((end.outcome, started), (EndedAs::Succeeded, 1), "sync {fail_at}");
                let cut = records(&runs, manifest.run).iter().any(|record| {
                    matches!(record.happening, Happening::OutputTruncated { why: Truncation::DiskError, .. })
                });
                assert!(cut || end.stdout_bytes == 6, "sync {fail_at}: output is missing without a word");
                if cut { "output cut" } else { "whole" }
            }
            Standing::Running => unreachable!("it was waited for"),
        };
        seen.entry(what).or_default().push(fail_at);
        if what != "never started" {
            for record in records(&runs, manifest.run) {
                if let Happening::Output { offset, bytes, sha256, .. } = record.happening {
                    let bytes = usize::try_from(bytes).unwrap();
                    let read = runs.read_output(manifest.run, Stream::Stdout, offset, bytes).unwrap();
                    let hash: String = Sha256::digest(&read).iter().map(|byte| format!("{byte:02x}")).collect();
                    assert_eq!((read.len(), hash), (bytes, sha256), "sync {fail_at}");
                }
            }
        }
    }
    println!("which sync failed, and what became of the run: {seen:?}");
    assert!(seen.contains_key("output cut") && seen.contains_key("whole"), "the failures were not felt: {seen:?}");
}
