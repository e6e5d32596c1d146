//! Resources that were looked for lately, remembered until any resource changes: every run that begins asks for its
//! workflow by name, and would else wait for a reader.
//!
//! Only where one process has the ledger. Then every change comes through its own committer, which has everything
//! forgotten before it answers; so nobody who was told of a change can see what was before it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_store::{ResourceKey, ResourceRecord};

/// Bytes of all that is remembered. Beyond it everything is forgotten, and learned again.
const BYTES_MAX: usize = 16 << 20;

/// A resource and the version that was asked for.
type Question = (ResourceKey, Option<u32>);

/// Which changes were known when the ledger was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(u64);

#[derive(Debug, Default)]
struct Memory {
    changes: u64,
    found: HashMap<Question, ResourceRecord>,
    bytes: usize,
}

/// What is remembered, where anything is.
#[derive(Debug, Default)]
pub struct KnownResources(Option<Mutex<Memory>>);

impl KnownResources {
    /// For a ledger that nobody else changes.
    pub fn of_one_process() -> Self {
        Self(Some(Mutex::default()))
    }

    fn memory(&self) -> Option<MutexGuard<'_, Memory>> {
        self.0.as_ref().map(|memory| memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is remembered, or when the ledger is asked.
    pub fn recall(&self, question: &Question) -> Result<ResourceRecord, Stamp> {
        let Some(memory) = self.memory() else { return Err(Stamp(0)) };
        memory.found.get(question).cloned().ok_or(Stamp(memory.changes))
    }

    /// Remembers an answer, unless something has changed since the question.
    pub fn remember(&self, asked: Stamp, question: Question, answer: &ResourceRecord) {
        let Some(mut memory) = self.memory() else { return };
        if asked != Stamp(memory.changes) {
            return;
        }
        memory.bytes += size(answer);
        if memory.bytes > BYTES_MAX {
            memory.found.clear();
            memory.bytes = size(answer);
        }
        memory.found.insert(question, answer.clone());
    }

    /// A resource may have changed.
    pub fn forget(&self) {
        if let Some(mut memory) = self.memory() {
            *memory = Memory { changes: memory.changes + 1, ..Memory::default() };
        }
    }
}

/// About what it takes in memory; the rest of it is short.
fn size(record: &ResourceRecord) -> usize {
    512 + record.version.spec.len()
        + record.version.source.as_ref().map_or(0, |source| source.len())
        + record.version.note.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use bowline_model::resource::ResourceKind;
    use bowline_model::{ResourceName, TenantId, Timestamp};
    use bowline_store::VersionRecord;

    use super::*;

    fn question(name: &str) -> Question {
        let tenant = TenantId::from_uuid(uuid::Uuid::from_u128(1));
        let name = ResourceName::new(name).expect("a name");
        (ResourceKey { tenant, kind: ResourceKind::Workflow, name }, None)
    }

    fn record(name: &str, spec: &str) -> ResourceRecord {
        let at = Timestamp::from_micros(0);
        ResourceRecord {
            id: 1,
            kind: ResourceKind::Workflow,
            name: ResourceName::new(name).expect("a name"),
            active: Some(1),
            latest: 1,
            created_at: at,
            updated_at: at,
            owner: None,
            version: VersionRecord {
                version: 1,
                spec: spec.into(),
                source: None,
                note: None,
                by: "ann".to_owned(),
                at,
            },
        }
    }

    #[test]
    fn what_was_found_is_known_until_something_changes() {
        let known = KnownResources::of_one_process();
        let asked = known.recall(&question("a")).expect_err("nothing is known yet");
        known.remember(asked, question("a"), &record("a", "{}"));
        assert_eq!(known.recall(&question("a")), Ok(record("a", "{}")));
        known.forget();
        known.recall(&question("a")).expect_err("it may have changed");
    }

    #[test]
    fn an_answer_from_before_a_change_is_not_remembered_after_it() {
        let known = KnownResources::of_one_process();
        let asked = known.recall(&question("a")).expect_err("nothing is known yet");
        known.forget();
        known.remember(asked, question("a"), &record("a", "{}"));
        known.recall(&question("a")).expect_err("the answer was too old");
    }

    #[test]
    fn nothing_is_remembered_where_others_can_change_it() {
        let known = KnownResources::default();
        let asked = known.recall(&question("a")).expect_err("nothing is known yet");
        known.remember(asked, question("a"), &record("a", "{}"));
        known.recall(&question("a")).expect_err("it may have changed elsewhere");
    }

    #[test]
    fn everything_long_about_a_version_counts() {
        let short = record("a", "{}");
        let longer = |change: fn(&mut VersionRecord)| {
            let mut record = short.clone();
            change(&mut record.version);
            size(&record) - size(&short)
        };
        assert_eq!(size(&record("a", "{}xyz")), size(&short) + 3);
        assert_eq!(longer(|version| version.source = Some("kind: Workflow".into())), "kind: Workflow".len());
        assert_eq!(longer(|version| version.note = Some("why".to_owned())), "why".len());
        assert!(size(&short) > 100, "what is always there counts, too");
    }

    #[test]
    fn memory_is_bounded() {
        let known = KnownResources::of_one_process();
        let large = "x".repeat(BYTES_MAX / 3);
        for name in ["a", "b", "c", "d"] {
            let asked = known.recall(&question(name)).expect_err("not known yet");
            known.remember(asked, question(name), &record(name, &large));
        }
        known.recall(&question("d")).expect("the newest is known");
        known.recall(&question("a")).expect_err("there was no room for all");
        assert!(known.memory().expect("a memory").bytes <= BYTES_MAX);
    }
}
