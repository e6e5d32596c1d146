//! Evaluations that end the process, set aside instead of ending every start.
//!
//! *Evaluation*: a tenant's text being walked by the processor alone: a schema over parameters, the expressions of a workflow's
//! turn, the calendar of a schedule. Each has a budget; this is for the day one of them fails to hold. While an evaluation goes
//! on, its subject stands in a slot of a file in the data directory. The file is written without waiting for the disk: what
//! counts is the end of the process, not of the machine. An evaluation that was open when the process ended is *suspected*, until
//! it has once ended well; one that is open at a second end is *set aside* in the ledger: it is refused wherever it would be
//! evaluated, an event and a metric say so, and a person lets it go on (`resume`). Work that runs is none of this: nothing is
//! marked while a handler, a command or a call goes on.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use bowline_model::TenantId;

/// Evaluations that are marked at once. Those beyond go on unmarked.
const SLOTS: usize = 256;
/// Bytes of a slot. Subjects are shorter.
const SLOT: usize = 512;
const OPEN: &str = "evaluations.open";
const SUSPECTS: &str = "evaluations.suspects";

/// What is evaluated, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject {
    pub tenant: TenantId,
    /// `definition/…`, `schema/…`, `schedule/NAME@VERSION` or `execution/JOB`.
    pub name: String,
}

impl Subject {
    fn line(&self) -> String {
        format!("{} {}", self.tenant, self.name)
    }

    fn read(line: &str) -> Option<Self> {
        let (tenant, name) = line.split_once(' ')?;
        let tenant = tenant.parse().ok()?;
        (!name.is_empty()).then(|| Self { tenant, name: name.to_owned() })
    }
}

/// Why something is not evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is set aside: the server ended twice while it was evaluated. Change it, or let it go on with `bowline evaluations \
     resume {0}`"
)]
pub struct SetAside(pub String);

#[derive(Debug)]
struct Files {
    open: File,
    suspects: PathBuf,
}

/// Marks evaluations of this process.
#[derive(Debug)]
pub struct Evaluations {
    /// Nothing where there is no data directory: then nothing is marked.
    files: Option<Files>,
    free: Mutex<Vec<usize>>,
    suspects: Mutex<HashSet<Subject>>,
    aside: RwLock<HashSet<Subject>>,
}

/// An evaluation that goes on, until it is dropped.
#[derive(Debug)]
#[must_use = "the evaluation is over when this is dropped"]
pub struct Open<'a> {
    all: &'a Evaluations,
    slot: Option<usize>,
    subject: Option<Subject>,
}

static OF_THIS_PROCESS: OnceLock<Arc<Evaluations>> = OnceLock::new();

/// The guard of this process; one that marks nothing unless [`install`] was called.
pub fn current() -> &'static Arc<Evaluations> {
    OF_THIS_PROCESS.get_or_init(|| Arc::new(Evaluations::without_files()))
}

/// Makes this the guard of the process. It is one for the whole process, because what it watches for is the end of it.
pub fn install(evaluations: Arc<Evaluations>) {
    drop(OF_THIS_PROCESS.set(evaluations));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Evaluations {
    fn without_files() -> Self {
        Self { files: None, free: Mutex::default(), suspects: Mutex::default(), aside: RwLock::default() }
    }

    /// Reads what the process before left open, and which of it was suspected already: that is to be set aside.
    pub fn open(directory: &Path) -> io::Result<(Arc<Self>, Vec<Subject>)> {
        let (open, suspects) = (directory.join(OPEN), directory.join(SUSPECTS));
        let left = match fs::read(&open) {
            Ok(bytes) => bytes.chunks(SLOT).filter_map(read_slot).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => HashSet::new(),
            Err(error) => return Err(error),
        };
        let before: HashSet<Subject> = match fs::read_to_string(&suspects) {
            Ok(text) => text.lines().filter_map(Subject::read).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => HashSet::new(),
            Err(error) => return Err(error),
        };
        let mut twice: Vec<Subject> = left.intersection(&before).cloned().collect();
        twice.sort();
        let suspected: HashSet<Subject> = before.union(&left).cloned().collect();
        write_suspects(&suspects, &suspected)?;
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&open)?;
        let evaluations = Self {
            files: Some(Files { open: file, suspects }),
            free: Mutex::new((0..SLOTS).rev().collect()),
            suspects: Mutex::new(suspected),
            aside: RwLock::default(),
        };
        Ok((Arc::new(evaluations), twice))
    }

    /// These are set aside in the ledger by now, so they are suspects no more.
    pub fn forget(&self, subjects: &[Subject]) {
        let mut suspects = lock(&self.suspects);
        suspects.retain(|suspect| !subjects.contains(suspect));
        self.keep_suspects(&suspects);
    }

    /// What the ledger says is set aside.
    pub fn refresh(&self, aside: impl IntoIterator<Item = Subject>) {
        *self.aside.write().unwrap_or_else(PoisonError::into_inner) = aside.into_iter().collect();
    }

    /// Marks an evaluation, or says that it is set aside. `name` is asked only if something is marked at all.
    pub fn enter(&self, tenant: TenantId, name: impl FnOnce() -> String) -> Result<Open<'_>, SetAside> {
        let aside = self.aside.read().unwrap_or_else(PoisonError::into_inner);
        let Some(files) = self.files.as_ref() else {
            return Ok(Open { all: self, slot: None, subject: None });
        };
        let subject = Subject { tenant, name: name() };
        if aside.contains(&subject) {
            return Err(SetAside(subject.name));
        }
        drop(aside);
        let Some(slot) = lock(&self.free).pop() else { return Ok(Open { all: self, slot: None, subject: None }) };
        let mut bytes = subject.line().into_bytes();
        bytes.truncate(SLOT - 1);
        bytes.push(b'\n');
        // A mark that cannot be written is one that is missing; the evaluation is worth more.
        drop(files.open.write_all_at(&bytes, place(slot)));
        Ok(Open { all: self, slot: Some(slot), subject: Some(subject) })
    }

    fn keep_suspects(&self, suspects: &HashSet<Subject>) {
        if let Some(files) = &self.files
            && let Err(error) = write_suspects(&files.suspects, suspects)
        {
            tracing::warn!(%error, "cannot write the list of suspected evaluations");
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let (Some(slot), Some(files), Some(subject)) = (self.slot, &self.all.files, &self.subject) else { return };
        drop(files.open.write_all_at(&[0], place(slot)));
        lock(&self.all.free).push(slot);
        let mut suspects = lock(&self.all.suspects);
        if !suspects.is_empty() && suspects.remove(subject) {
            self.all.keep_suspects(&suspects);
        }
    }
}

fn place(slot: usize) -> u64 {
    (slot * SLOT) as u64
}

fn read_slot(bytes: &[u8]) -> Option<Subject> {
    let text = bytes.split(|byte| *byte == b'\n').next()?;
    Subject::read(std::str::from_utf8(text).ok()?)
}

fn write_suspects(path: &Path, suspects: &HashSet<Subject>) -> io::Result<()> {
    let mut lines: Vec<String> = suspects.iter().map(Subject::line).collect();
    lines.sort();
    let half = path.with_extension("half");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half)?;
    for line in lines {
        writeln!(file, "{line}")?;
    }
    drop(file);
    fs::rename(half, path)
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::*;

    fn tenant() -> TenantId {
        TenantId::mint(Timestamp::from_millis(1), [1; 10])
    }

    fn subject(name: &str) -> Subject {
        Subject { tenant: tenant(), name: name.to_owned() }
    }

    /// The process ends here: nothing that would be done at a good end is done.
    fn dies_in(directory: &Path, name: &str) -> Vec<Subject> {
        let (evaluations, twice) = Evaluations::open(directory).expect("opened");
        std::mem::forget(evaluations.enter(tenant(), || name.to_owned()).expect("not set aside"));
        twice
    }

    #[test]
    fn what_is_open_at_two_ends_is_set_aside_and_nothing_else() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(dies_in(directory.path(), "schema/a"), []);
        assert_eq!(dies_in(directory.path(), "schema/a"), [], "once");
        let (evaluations, twice) = Evaluations::open(directory.path()).expect("opened");
        assert_eq!(twice, [subject("schema/a")]);
        // Until the ledger has it, it is not forgotten.
        drop(evaluations);
        evaluations_ended_well(directory.path(), "schema/b");
        let (evaluations, _) = Evaluations::open(directory.path()).expect("opened");
        evaluations.forget(&[subject("schema/a")]);
        evaluations.refresh([subject("schema/a")]);
        assert!(evaluations.enter(tenant(), || "schema/a".to_owned()).is_err());
        assert!(evaluations.enter(tenant(), || "schema/b".to_owned()).is_ok());
        evaluations.refresh([]);
        assert!(evaluations.enter(tenant(), || "schema/a".to_owned()).is_ok(), "a person let it go on");
    }

    fn evaluations_ended_well(directory: &Path, name: &str) {
        let (evaluations, _) = Evaluations::open(directory).expect("opened");
        drop(evaluations.enter(tenant(), || name.to_owned()));
    }

    #[test]
    fn what_ended_well_in_between_is_no_suspect() {
        let directory = tempfile::tempdir().expect("a directory");
        for _ in 0..20 {
            assert_eq!(dies_in(directory.path(), "schema/a"), []);
            evaluations_ended_well(directory.path(), "schema/a");
        }
        // Two that take turns in ending the process are both found.
        assert_eq!(dies_in(directory.path(), "schema/x"), []);
        assert_eq!(dies_in(directory.path(), "schema/y"), []);
        assert_eq!(dies_in(directory.path(), "schema/x"), []);
        assert_eq!(dies_in(directory.path(), "schema/y"), [subject("schema/x")]);
    }

    #[test]
    fn evaluations_that_are_open_at_the_same_time_are_all_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let names = ["schema/a", "schema/b", "schema/c"];
        let mut twice = Vec::new();
        for _ in 0..3 {
            let (evaluations, found) = Evaluations::open(directory.path()).expect("opened");
            for name in names {
                std::mem::forget(evaluations.enter(tenant(), || name.to_owned()).expect("not set aside"));
            }
            twice = found;
        }
        assert_eq!(twice, names.map(subject));
    }

    #[test]
    fn more_evaluations_than_slots_go_on() {
        let directory = tempfile::tempdir().expect("a directory");
        let (evaluations, _) = Evaluations::open(directory.path()).expect("opened");
        let open: Vec<Open<'_>> =
            (0..SLOTS + 10).filter_map(|n| evaluations.enter(tenant(), || format!("execution/{n}")).ok()).collect();
        assert_eq!(open.len(), SLOTS + 10);
        drop(open);
        assert_eq!(lock(&evaluations.free).len(), SLOTS);
    }
}
