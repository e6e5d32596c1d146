//! The process that owns one run: it starts the command, watches over it, and writes down what happens.
//!
//! Enters: a run directory with a manifest, and secrets through standard input. Leaves: `events.log` and the output, on
//! disk before a byte on standard output says "look". Never here: the agent. A keeper that lost its agent goes on to the
//! end, and the next agent finds everything where it is.
//!
//! Rules:
//! - The start marker is on disk before the command is spawned. A keeper that finds a marker never spawns.
//! - A run that timed out or was canceled ends with all it started, `setsid` or not. A run that ended by itself may leave
//!   processes behind: they are ended before the run is over, unless its type wants them to stay. Both is told, and what
//!   those that stay go on writing is not recorded.
//! - A keeper does not die of polite signals. Whoever stops all processes of a machine asks the command as well, and the
//!   keeper writes down how it ended.

mod bell;
mod pump;
mod recorder;
mod spawn;
mod spool;
mod watch;

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bowline_model::Timestamp;
use rustix::fs::{FlockOperation, Mode, OFlags, fcntl_getfl, fcntl_setfl, flock};
use rustix::process::{Resource, Rlimit, geteuid};
use zeroize::Zeroizing;

use crate::Clock;
use crate::isolation::{Held, close_proc};
use crate::log::{ChildrenBecame, Ended, EndedAs, EventLog, Happening, Stream};
use crate::manifest::Manifest;
use crate::place::{Handover, Marker, Place};
use crate::process::{Cgroups, Identity, close_inherited, order_signals};
use crate::redact::Redactor;
use pump::Pumps;
use recorder::Recorder;
use spawn::spawn;
pub(crate) use spool::{Spool, hex};
use watch::{Ending, watch};

/// Room for most of what is handed over, so that reading it leaves no pieces behind.
const HANDOVER_BYTES: usize = 256 * 1024;

/// Owns the run in this directory until it has ended. To be called first thing in a process of its own: it leaves its
/// session, and closes what it did not open.
pub fn main(run_dir: &Path) -> ExitCode {
    keep(run_dir, Arc::new(wall_clock))
}

#[expect(clippy::disallowed_methods, reason = "the keeper's own clock: it says when, and nothing is decided by it")]
fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// [`main`] with a clock of the caller's choice.
pub fn keep(run_dir: &Path, clock: Clock) -> ExitCode {
    match prepare(run_dir, clock).and_then(Ready::start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is the lock file, where the agent finds it.
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Why a run was not started. Nothing happened, unless it had been started before.
#[derive(Debug, thiserror::Error)]
enum NotStarted {
    #[error("the run has been started before, and is not started again")]
    Before,
    #[error("another keeper has this run")]
    Kept,
    #[error("the manifest cannot be executed: {0}")]
    Manifest(#[from] crate::BadManifest),
    #[error("the secret {0} was not handed over")]
    Secret(String),
    #[error("{doing}: {source}")]
    System { doing: &'static str, source: io::Error },
}

trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, NotStarted>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, doing: &'static str) -> Result<T, NotStarted> {
        self.map_err(|error| NotStarted::System { doing, source: error.into() })
    }
}

/// Everything is there to start the run, and nothing was done yet that could not be done again.
struct Ready {
    place: Place,
    manifest: Manifest,
    handover: Handover,
    clock: Clock,
    /// Held as long as this process lives.
    _lock: Option<std::fs::File>,
}

fn prepare(run_dir: &Path, clock: Clock) -> Result<Ready, NotStarted> {
    // Old kernels cannot. What a careful agent hands down is closed on exec anyway.
    let _ = close_inherited();
    order_signals().doing("cannot put signals in order")?;
    // Fails for the leader of a group, which a keeper is only when somebody tries it by hand.
    let _ = rustix::process::setsid();
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(Resource::Core, nothing).doing("cannot switch off core dumps")?;
    close_proc().doing("cannot close /proc/self")?;
    // A wake-up that nobody takes must not hold us up.
    let stdout = io::stdout();
    let flags = fcntl_getfl(&stdout).doing("cannot look at standard output")?;
    fcntl_setfl(&stdout, flags | OFlags::NONBLOCK).doing("cannot change standard output")?;

    let place = Place::new(run_dir.canonicalize().doing("cannot find the run directory")?);
    let lock = take_lock(&place)?;
    if place.is_started().doing("cannot look for the start marker")? {
        return Err(NotStarted::Before);
    }
    let manifest = place.read_manifest().doing("cannot read the manifest")?;
    manifest.check()?;
    let mut text = Zeroizing::new(Vec::with_capacity(HANDOVER_BYTES));
    io::stdin().read_to_end(&mut text).doing("cannot read standard input")?;
    // A text that was cut short is an agent that died: nobody waits for this run any more.
    let handover: Handover = serde_json::from_slice(&text).doing("cannot understand standard input")?;
    match manifest.secrets.values().find(|name| handover.secrets.get(name).is_none()) {
        Some(name) => Err(NotStarted::Secret(name.clone())),
        None => Ok(Ready { place, manifest, handover, clock, _lock: lock }),
    }
}

/// The agent locked the file before it made this process, and passed it on as standard error: there is no moment in which
/// the run has no owner. Whoever calls us otherwise must find the lock free.
fn take_lock(place: &Place) -> Result<Option<std::fs::File>, NotStarted> {
    let stderr = io::stderr();
    let inherited = rustix::fs::fstat(&stderr).doing("cannot look at standard error")?;
    let is_ours = std::fs::metadata(place.lock())
        .is_ok_and(|file| (file.dev(), file.ino()) == (inherited.st_dev, inherited.st_ino));
    if is_ours && flock(&stderr, FlockOperation::NonBlockingLockExclusive).is_ok() {
        return Ok(None);
    }
    place.try_lock().doing("cannot lock the run")?.map(Some).ok_or(NotStarted::Kept)
}

impl Ready {
    /// From here on the run is started, whatever happens.
    fn start(self) -> Result<(), NotStarted> {
        let Self { place, manifest, handover, clock, .. } = &self;
        let (log, _) = EventLog::open(&place.events(), 0, clock.clone()).doing("cannot open the event log")?;
        let spool = |stream| Spool::create(place, stream, manifest.output_max_bytes);
        let spools = [spool(Stream::Stdout), spool(Stream::Stderr)];
        let [stdout, stderr] = spools;
        let spools = [Arc::new(stdout.doing("cannot make a file")?), Arc::new(stderr.doing("cannot make a file")?)];
        let redactor = Redactor::new(handover.secrets.values());
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).doing("cannot adopt orphans")?;
        if !manifest.allow_new_privileges {
            rustix::thread::set_no_new_privs(true).doing("cannot give up new privileges")?;
        }
        let mut cgroups = Cgroups::plan(manifest.run, &manifest.limits, handover.cgroup_parent.as_deref());
        let keeper = Identity::of(std::process::id()).doing("cannot find ourselves in /proc")?;
        let marker = Marker { keeper, cgroups: cgroups.clone(), inside: false };
        place.mark_started(&marker).doing("cannot write the start marker")?;

        cgroups.enter(&manifest.limits);
        // The keeper is in the group for one more moment.
        let unheld = cgroups.limit(&manifest.limits, 1);
        let is_root = manifest.user.as_ref().map_or_else(|| geteuid().is_root(), |user| user.uid == 0);
        let held = Held::plan(&manifest.limits, &unheld, is_root);
        let began = Instant::now();
        let canceled = place.cancel().exists();
        let spawned = if canceled { None } else { Some(spawn(place, manifest, &handover.secrets, &held)) };
        cgroups.leave();
        cgroups.limit(&manifest.limits, 0);
        let mut recorder = Recorder::new(place.clone(), log, spools.clone());

        let mut end = Ended {
            outcome: EndedAs::Canceled,
            exit_code: None,
            signal: None,
            message: Some("it was canceled before it was started".to_owned()),
            children: None,
            duration_ms: None,
            stdout_bytes: 0,
            stderr_bytes: 0,
            last_seq: 0,
        };
        match spawned {
            None => {}
            Some(Err(error)) => {
                end.outcome = EndedAs::Failed;
                let program = manifest.argv.first().map_or("", String::as_str);
                end.message = Some(format!("the command could not be started: {program}: {error}"));
            }
            Some(Ok(child)) => {
                let Identity { boot_id, pid, start_time } = child.identity.clone();
                let (unenforced, limits) = (held.unenforced(), held.by);
                recorder.tell(Happening::Started { pid, boot_id, start_time, unenforced, limits });
                let bell = recorder.bell();
                let recording = recorder.go();
                let pumps = Pumps::start(child.pipes, &redactor, &spools, &bell);
                let seen = watch(place, manifest, &child.identity, &cgroups, began);
                let cut_off = pumps.drain();
                end.duration_ms = Some(u64::try_from(seen.ended_after.as_millis()).unwrap_or(u64::MAX));
                end.outcome = match seen.ending {
                    Some(Ending::TimedOut) => EndedAs::TimedOut,
                    Some(Ending::Canceled) => EndedAs::Canceled,
                    None if seen.exit.is_some_and(|exit| exit.code == Some(0)) => EndedAs::Succeeded,
                    None => EndedAs::Failed,
                };
                end.exit_code = seen.exit.and_then(|exit| exit.code);
                end.signal = seen.exit.and_then(|exit| exit.signal);
                end.message = message(manifest, &seen, cut_off, &cgroups);
                end.children = seen.children.as_ref().map(|children| (children.became, children.count));
                recorder = recording.finish();
                if let Some(children) = seen.children {
                    recorder.tell(Happening::Children(children));
                }
            }
        }
        let [stdout, stderr] = &spools;
        recorder.end(Ended { stdout_bytes: stdout.bytes(), stderr_bytes: stderr.bytes(), ..end });
        cgroups.remove();
        Ok(())
    }
}

/// What people should know about an end besides its outcome.
fn message(manifest: &Manifest, seen: &watch::Seen, cut_off: bool, cgroups: &Cgroups) -> Option<String> {
    let mut words = Vec::new();
    if seen.ending == Some(Ending::TimedOut) {
        words.push(format!("it took longer than {} ms", manifest.timeout_ms));
    }
    if cgroups.memory_kills() > 0 {
        words.push("the memory limit ended a process of it".to_owned());
    }
    match &seen.children {
        Some(children) if children.became == ChildrenBecame::Left => {
            words.push(format!("processes that it left running: {}", children.count));
        }
        Some(children) => words.push(format!("processes that it left running and that were ended: {}", children.count)),
        None => {}
    }
    let stays = seen.children.as_ref().is_some_and(|children| children.became == ChildrenBecame::Left);
    if seen.left > 0 && !stays {
        words.push(format!("processes that did not end when they were killed: {}", seen.left));
    }
    if cut_off {
        words.push("what those write is not recorded any more".to_owned());
    }
    (!words.is_empty()).then(|| words.join("; "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::log::Children;

    fn manifest() -> Manifest {
        let text = r#"{"version": 1, "run": "01890a5d-ac96-774b-bcce-b302099a8057", "job": "01890a5d-ac96-774b-bcce-b302099a8058",
            "host": "web1", "fence": 1, "attempt": 0, "host_fence": 1, "lock": "exclusive", "argv": ["true"], "timeout_ms": 5000}"#;
        serde_json::from_str(text).unwrap()
    }

    fn seen(ending: Option<Ending>, children: Option<(ChildrenBecame, usize)>, left: usize) -> watch::Seen {
        let children =
            children.map(|(became, count)| Children { became, count, killed: 0, remain: left, processes: Vec::new() });
        watch::Seen { exit: None, ending, ended_after: Duration::ZERO, children, left }
    }

    #[test]
    fn an_end_says_what_people_should_know_and_nothing_else() {
        let said =
            |seen: &watch::Seen, cut_off| message(&manifest(), seen, cut_off, &Cgroups::default()).unwrap_or_default();
        assert_eq!(said(&seen(None, None, 0), false), "");
        assert_eq!(said(&seen(Some(Ending::Canceled), None, 0), false), "");
        assert_eq!(said(&seen(Some(Ending::TimedOut), None, 0), false), "it took longer than 5000 ms");
        assert_eq!(
            said(&seen(Some(Ending::TimedOut), None, 2), true),
            "it took longer than 5000 ms; processes that did not end when they were killed: 2; what those write is not \
             recorded any more"
        );
        let left = seen(None, Some((ChildrenBecame::Left, 3)), 3);
        assert_eq!(said(&left, false), "processes that it left running: 3", "those that stay were not killed");
        let ended = seen(None, Some((ChildrenBecame::Ended, 3)), 0);
        assert_eq!(said(&ended, false), "processes that it left running and that were ended: 3");
        let remaining = seen(None, Some((ChildrenBecame::Ended, 3)), 1);
        assert_eq!(
            said(&remaining, false),
            "processes that it left running and that were ended: 3; processes that did not end when they were killed: 1"
        );
    }

    #[test]
    fn the_lock_of_a_run_that_has_a_keeper_is_not_taken() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::new(directory.path());
        let held = take_lock(&place).unwrap();
        assert!(held.is_some(), "standard error of this test is not the lock, so it has one of its own");
        assert!(matches!(take_lock(&place), Err(NotStarted::Kept)));
        drop(held);
        assert!(take_lock(&place).unwrap().is_some());
    }

    #[test]
    fn a_keeper_has_the_time_of_the_machine() {
        let written = "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap();
        assert!(wall_clock() > written, "this test is younger than that");
    }

    #[test]
    fn an_error_says_what_was_being_done() {
        let failed: Result<(), io::Error> = Err(io::Error::other("broken"));
        assert_eq!(failed.doing("cannot look").unwrap_err().to_string(), "cannot look: broken");
    }
}
