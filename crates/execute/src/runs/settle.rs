//! Looking after a run whose keeper is gone: what is left of it is ended, and its log is brought to an end.
//!
//! Nothing is invented. An end that nobody saw is `interrupted`, without an exit code.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::PoisonError;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bowline_model::RunId;
use sha2::{Digest, Sha256};

use super::standing::Standing;
use super::state::Shared;
use crate::disk;
use crate::keeper::hex;
use crate::log::{CommitError, Ended, EndedAs, EventLog, Happening, Stream, Summary, last_ended};
use crate::place::Place;
use crate::process::{Cgroups, Identity, boot_id, end_orphans};

/// How long a keeper may take from its last word to its exit.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const RANGE_BYTES: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// Nothing is left to be settled.
    #[error("the run was forgotten")]
    Forgotten,
    #[error("the disk is full")]
    NoSpace,
    #[error("the run directory cannot be read or written")]
    Disk(#[from] io::Error),
}

impl From<CommitError> for SettleError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Full => Self::NoSpace,
            CommitError::Disk(source) => Self::Disk(source),
        }
    }
}

impl Shared {
    /// How the run stands, after it was looked after if need be. `held_seq` is the highest number others hold of it.
    pub(super) fn settle(&self, run: RunId, held_seq: u64) -> Result<Standing, SettleError> {
        let _one_at_a_time = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked under the same lock under which directories are set aside: what is here now stays until we are done.
        if !self.lock().runs.contains_key(&run) {
            return Err(SettleError::Forgotten);
        }
        let place = self.place(run);
        // Held to the end: no keeper lives, and none can come.
        let Some(_lock) = place.try_lock()? else { return Ok(Standing::Running) };
        let standing = if place.is_started()? {
            let shown = self.lock().runs.get(&run).map_or(0, |entry| entry.shown_seq);
            let (log, summary) = EventLog::open(&place.events(), held_seq.max(shown), self.settings.clock.clone())?;
            match summary.ended.clone() {
                Some(ended) => Standing::Ended(ended),
                None => Standing::Ended(interrupt(&place, run, log, &summary)?),
            }
        } else {
            let words = std::fs::read_to_string(place.lock()).unwrap_or_default();
            Standing::NeverStarted { why: Some(words.trim().to_owned()).filter(|words| !words.is_empty()) }
        };
        self.set_standing(run, &standing);
        Ok(standing)
    }

    /// The same, but waits for a keeper that has told the end and is about to leave.
    pub(super) fn settle_if_ending(&self, run: RunId) {
        let place = self.place(run);
        let deadline = Instant::now() + EXIT_PATIENCE;
        loop {
            match self.settle(run, 0) {
                Ok(Standing::Running) if Instant::now() < deadline => {
                    if !matches!(last_ended(&place.events()), Ok(Some(_))) {
                        return;
                    }
                    sleep(LOOK_AGAIN);
                }
                _ => return,
            }
        }
    }
}

fn interrupt(place: &Place, run: RunId, mut log: EventLog, summary: &Summary) -> Result<Ended, SettleError> {
    let marker = place.read_marker();
    let child = summary.started.clone().map(|(pid, boot_id, start_time)| Identity { boot_id, pid, start_time });
    let boot = marker.as_ref().map(|marker| marker.keeper.boot_id.clone());
    let boot = boot.or_else(|| child.as_ref().map(|child| child.boot_id.clone()));
    let inside = marker.as_ref().is_some_and(|marker| marker.inside);
    let cgroups = marker.map_or_else(Cgroups::default, |marker| marker.cgroups);
    let same_boot = boot.as_deref() == Some(boot_id());
    let (found, left) = match inside {
        true => (0, 0),
        false => end_orphans(run, child.as_ref(), &cgroups, boot.as_deref().unwrap_or_default()),
    };
    let mut kept = Vec::new();
    for stream in Stream::BOTH {
        kept.push(rescue(place, stream, &mut log, summary, same_boot)?);
    }
    let message = match (same_boot, found, left) {
        _ if inside => {
            "the agent was lost while it executed this elsewhere; what became of it there is not known".to_owned()
        }
        (false, ..) => "the machine was restarted while it ran, or before anybody could see its end".to_owned(),
        (true, 0, _) => "its keeper was lost; nothing of it was running any more".to_owned(),
        (true, found, 0) => format!("its keeper was lost; processes that were still running and were ended: {found}"),
        (true, found, left) => {
            format!("its keeper was lost; processes that were still running: {found}; that could not be ended: {left}")
        }
    };
    let ended = log.append_end(Ended {
        outcome: EndedAs::Interrupted,
        exit_code: None,
        signal: None,
        message: Some(message),
        children: None,
        duration_ms: None,
        stdout_bytes: kept[0],
        stderr_bytes: kept[1],
        last_seq: 0,
    });
    if let Err(CommitError::Full) = log.commit() {
        place.give_up_reserve()?;
        log.commit()?;
    }
    Ok(ended)
}

/// Output that its keeper had written and not yet told. After a crash of the machine nobody knows what is in it.
fn rescue(place: &Place, stream: Stream, log: &mut EventLog, summary: &Summary, same_boot: bool) -> io::Result<u64> {
    let kept = summary.kept(stream);
    let mut file = match File::open(place.stream(stream)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && kept.bytes == 0 => return Ok(0),
        opened => opened?,
    };
    let length = file.metadata()?.len();
    if length < kept.bytes {
        let message = format!("{} bytes of it were recorded, and only {length} are there", kept.bytes);
        let kept_seq = summary.last_seq;
        log.append(Happening::SpoolDamaged { file: stream.name().to_owned(), kept_seq, message });
    }
    if kept.cut || !same_boot || length <= kept.bytes {
        return Ok(kept.bytes);
    }
    (disk::SYNC)(&file)?;
    file.seek(SeekFrom::Start(kept.bytes))?;
    let mut offset = kept.bytes;
    let mut buffer = Vec::with_capacity(RANGE_BYTES);
    while offset < length {
        buffer.clear();
        let bytes = (&mut file).take(RANGE_BYTES as u64).read_to_end(&mut buffer)? as u64;
        if bytes == 0 {
            break;
        }
        let sha256 = hex(&Sha256::digest(&buffer));
        log.append(Happening::Output { stream, offset, bytes, sha256 });
        offset += bytes;
    }
    Ok(offset)
}
