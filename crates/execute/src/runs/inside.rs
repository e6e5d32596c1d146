//! Runs that this very process executes, somewhere it reaches and not on this host.
//!
//! Such a run has a directory like any other, with a start marker, a log and output files, and is admitted like any other; only
//! that it has no keeper. If this process dies, so does what it knew: the next one finds a marker without an end, and
//! calls the run interrupted. It is never begun again.

use std::fs::File;
use std::sync::Arc;

use bowline_model::RunId;

use super::begin::BeginError;
use super::settle::SettleError;
use super::standing::Standing;
use super::state::{Runs, Shared};
use crate::keeper::Spool;
use crate::log::{CommitError, Ended, EventLog, Happening, Stream, Truncation};
use crate::manifest::Manifest;
use crate::place::{Marker, Place};
use crate::process::{Cgroups, Identity};
use crate::redact::Redactor;
use crate::secrets::Secrets;

/// A run that has begun inside this process. Dropping it before its end leaves it as if the process had died.
pub struct Inside {
    shared: Arc<Shared>,
    run: RunId,
    place: Place,
    log: EventLog,
    spools: [Spool; 2],
    redactors: [Redactor; 2],
    /// As long as it is held, the run has an owner.
    lock: Option<File>,
}

impl Runs {
    /// Begins a run that the caller executes. When this returns without an error the run counts as started, whatever
    /// happens next.
    pub fn begin_inside(&self, manifest: Manifest, secrets: &Secrets) -> Result<Inside, BeginError> {
        self.check(&manifest, secrets)?;
        let run = manifest.run;
        match self.shared.start_inside(&manifest) {
            Ok((place, log, spools, lock)) => {
                let redactor = Redactor::new(secrets.values());
                let redactors = [redactor.clone(), redactor];
                let shared = Arc::clone(&self.shared);
                Ok(Inside { shared, run, place, log, spools, redactors, lock: Some(lock) })
            }
            Err(error) => {
                self.not_begun(run);
                Err(error)
            }
        }
    }
}

impl Shared {
    fn start_inside(&self, manifest: &Manifest) -> Result<(Place, EventLog, [Spool; 2], File), BeginError> {
        let run = manifest.run;
        let place = self.place(run);
        self.clear_never_started(&place, run)?;
        // Everything, the marker too, is in the directory when it appears: hundreds begin at a time, and each wait for the
        // disk counts.
        let furnish = |new: &Place| {
            let spool = |stream| Spool::create(new, stream, manifest.output_max_bytes);
            let keeper = Identity::of(std::process::id())?;
            new.write_marker(&Marker { keeper, cgroups: Cgroups::default(), inside: true })?;
            Ok([spool(Stream::Stdout)?, spool(Stream::Stderr)?])
        };
        let made = self.make_directory(&place, manifest, furnish).and_then(|(lock, spools)| {
            let (log, _) = EventLog::open(&place.events(), 0, self.settings.clock.clone())?;
            Ok((log, spools, lock))
        });
        match made {
            Ok((log, spools, lock)) => Ok((place, log, spools, lock)),
            Err(error) => {
                // Nothing was executed, whatever the marker says.
                if place.path().try_exists()? {
                    self.discard(&place, run)?;
                }
                Err(error)
            }
        }
    }
}

impl Inside {
    /// Keeps output, secrets replaced. It is on disk after the next [`Self::flush`].
    pub fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let (redactor, spool) = (&mut self.redactors[stream as usize], &self.spools[stream as usize]);
        if redactor.is_idle() {
            return spool.write(bytes);
        }
        let mut clean = Vec::with_capacity(bytes.len());
        redactor.push(bytes, &mut clean);
        spool.write(&clean);
    }

    /// Adds a record. It is on disk after the next [`Self::flush`].
    pub fn tell(&mut self, happening: Happening) {
        self.log.append(happening);
    }

    /// Brings everything to disk, and says so to whoever ships it. On a full disk output is cut, and events are kept.
    pub fn flush(&mut self) -> Result<(), SettleError> {
        self.take_output();
        if let Err(CommitError::Full) = self.log.commit() {
            self.spools.iter().for_each(|spool| spool.cut(Truncation::NoSpace));
            let _ = self.place.give_up_reserve();
            self.log.commit()?;
        }
        self.shared.tell(self.run);
        Ok(())
    }

    /// Tells the end. The bytes and the number in `ended` are filled in here.
    pub fn end(mut self, ended: Ended) -> Result<(), SettleError> {
        for (redactor, spool) in self.redactors.iter_mut().zip(&self.spools) {
            let mut clean = Vec::new();
            redactor.finish(&mut clean);
            spool.write(&clean);
        }
        self.take_output();
        let [stdout, stderr] = &self.spools;
        let (stdout_bytes, stderr_bytes) = (stdout.bytes(), stderr.bytes());
        let ended = self.log.append_end(Ended { stdout_bytes, stderr_bytes, ..ended });
        if let Err(CommitError::Full) = self.log.commit() {
            let _ = self.place.give_up_reserve();
            self.log.commit()?;
        }
        // Without its owner the run is what its log says.
        drop(self.lock.take());
        self.shared.set_standing(self.run, &Standing::Ended(ended));
        self.shared.tell(self.run);
        Ok(())
    }

    /// Brings output to disk, and into the log what is to be told about it.
    fn take_output(&mut self) {
        for happening in self.spools.iter().flat_map(Spool::take) {
            if matches!(happening, Happening::OutputTruncated { why: Truncation::NoSpace, .. }) {
                let _ = self.place.give_up_reserve();
            }
            self.log.append(happening);
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if self.lock.take().is_some() {
            // It was given up in the middle, and counts as interrupted at once.
            if let Err(error) = self.shared.settle(self.run, 0) {
                let run = self.run;
                tracing::error!(run.id = %run, error = &error as &dyn std::error::Error, "run {run} cannot be settled");
            }
            self.shared.tell(self.run);
        }
    }
}
