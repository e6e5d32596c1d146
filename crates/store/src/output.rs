//! Output of runs: which ranges of a stream the blob store holds, and where.

use std::sync::Arc;

use async_trait::async_trait;
use bowline_model::{HostName, JobId, RunId, TenantId, WorkerName};

use crate::StoreResult;

/// One of the two streams of a process, or the result of a run that is too large for the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutputStream {
    Stdout,
    Stderr,
    /// Written with the report that ends the run, and never uploaded as output.
    Result,
}

impl OutputStream {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Result => "result",
        }
    }

    /// The number the ledger keeps. Never reuse one.
    pub const fn code(self) -> i64 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
            Self::Result => 3,
        }
    }

    /// The stream of a process with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Stdout, Self::Stderr].into_iter().find(|stream| stream.as_str() == word)
    }
}

/// How an object of the blob store is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Plain,
    Zstd,
}

impl Encoding {
    /// The number the ledger keeps. Never reuse one.
    pub const fn code(self) -> i64 {
        match self {
            Self::Plain => 0,
            Self::Zstd => 1,
        }
    }

    pub const fn from_code(code: i64) -> Option<Self> {
        match code {
            0 => Some(Self::Plain),
            1 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// A range of a stream, and the object that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputRange {
    pub begins: u64,
    pub bytes: u64,
    /// Of the bytes themselves, however the object is written.
    pub sha256: [u8; 32],
    pub encoding: Encoding,
    pub key: Arc<str>,
}

/// A result in the object store, in pieces without a gap. All of them are durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResult {
    pub ranges: Arc<[OutputRange]>,
}

impl StoredResult {
    /// The length of the result as JSON.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.bytes).sum()
    }
}

/// A range somebody brings.
#[derive(Debug, Clone)]
pub struct NewOutput {
    pub tenant: TenantId,
    pub worker: WorkerName,
    pub run: RunId,
    pub stream: OutputStream,
    pub range: OutputRange,
}

/// What became of a [`NewOutput`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputAnswer {
    /// The ledger knows 0..`stored` of the stream without a gap. `added` is false when it knew this range before.
    Held {
        stored: u64,
        added: bool,
    },
    /// There is something else at this place.
    Conflict,
    /// A stream of this run has at most `max` bytes.
    TooLong {
        max: u64,
    },
    /// The run ended longer ago than [`OUTPUT_GRACE_MS`], and this range was not there by then.
    Ended,
    NotYours,
    NotFound,
}

/// How long after the end of its run output is still taken. Agents bring the last of it before they report the end.
pub const OUTPUT_GRACE_MS: i64 = 10 * 60 * 1_000;
/// The longest stream of a run whose command does not say.
pub const OUTPUT_MAX_BYTES: u64 = 1 << 30;

/// The run whose output somebody wants to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputOf {
    pub run: RunId,
    /// It has ended, and everything it told has arrived: nothing more comes.
    pub ended: bool,
    /// How much of each stream is there without a gap.
    pub stdout: u64,
    pub stderr: u64,
}

impl OutputOf {
    pub const fn held(&self, stream: OutputStream) -> u64 {
        match stream {
            OutputStream::Stdout => self.stdout,
            OutputStream::Stderr => self.stderr,
            // Of a result all is there, or nothing.
            OutputStream::Result => 0,
        }
    }
}

#[async_trait]
pub trait OutputStore: Send + Sync {
    /// Whether this worker may bring a range of this run's output that ends at `end`, and how much of the stream is held
    /// already. The limit is `output_max_bytes` of the command that the run is pinned to.
    async fn may_bring(
        &self,
        tenant: TenantId,
        worker: WorkerName,
        run: RunId,
        stream: OutputStream,
        end: u64,
    ) -> StoreResult<OutputAnswer>;
    /// Which place the ledger's output is in: this one, if it had none before or is to have it from now on (`adopt`).
    async fn place_for_output(&self, identity: String, adopt: bool) -> StoreResult<String>;
    /// Remembers where a range is. The object must be durable already.
    async fn add_output(&self, output: NewOutput) -> StoreResult<OutputAnswer>;
    /// The latest run of a job, or of one host of it.
    async fn find_output(&self, tenant: TenantId, job: JobId, host: Option<HostName>) -> StoreResult<Option<OutputOf>>;
    /// Ranges of a stream that end after this place, in order.
    async fn list_output(
        &self,
        run: RunId,
        stream: OutputStream,
        after: u64,
        limit: u32,
    ) -> StoreResult<Vec<OutputRange>>;
}
