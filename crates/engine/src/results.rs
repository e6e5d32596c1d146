//! Results of runs that are too large for the ledger: kept in the object store, in pieces, and referred to.
//!
//! The pieces are durable before the report that names them is stored. Each attempt to report has names of its own, so that
//! removing the objects of a refused report can never remove those of an accepted one.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bowline_backbone::{BlobError, BlobStore, Key};
use bowline_model::{JobId, RunId, TenantId};
use bowline_store::{Encoding, OutputRange, OutputStore, OutputStream, StoreError, StoredResult};
use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::aside;
use crate::output::load;
use crate::quotas::Quotas;

/// The length of a piece.
const PIECE: usize = 1 << 20;
/// Pieces that are looked up at once.
const PIECES: u32 = 16;
const LEVEL: i32 = 3;

/// Why a result was not kept.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    #[error("the result has {bytes} bytes; a result may have {max} (quotas.result_bytes of the server)")]
    TooLarge { bytes: u64, max: u64 },
    #[error("cannot store the result: {0}")]
    Store(#[from] BlobError),
}

/// Why a stored result could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadResultError {
    #[error(transparent)]
    Ledger(#[from] StoreError),
    #[error("the result is damaged")]
    Damaged,
}

/// Results, small and large.
#[derive(Debug)]
pub struct Results {
    blobs: Arc<dyn BlobStore>,
    quotas: Arc<Quotas>,
    /// Tells the objects of one report from those of all others, on any server.
    nonce: u64,
    reports: AtomicU64,
}

impl Results {
    pub fn new(blobs: Arc<dyn BlobStore>, quotas: Arc<Quotas>) -> Arc<Self> {
        let nonce = RandomState::new().build_hasher().finish();
        Arc::new(Self { blobs, quotas, nonce, reports: AtomicU64::new(0) })
    }

    /// Whether the ledger itself keeps this result.
    pub fn is_inline(&self, result: &str) -> bool {
        result.len() as u64 <= self.quotas.limits().inline_result_bytes
    }

    /// The largest result of a run.
    pub fn max(&self) -> u64 {
        self.quotas.limits().result_bytes
    }

    /// Whether a result of this length is too large.
    pub fn check(&self, result: &str) -> Result<(), ResultError> {
        let (bytes, max) = (result.len() as u64, self.max());
        if bytes > max { Err(ResultError::TooLarge { bytes, max }) } else { Ok(()) }
    }

    /// Stores a result; it is durable when this returns. Its bytes count for the tenant, even where the quota is used up: the
    /// work was done.
    pub async fn store(&self, tenant: TenantId, run: RunId, result: &str) -> Result<StoredResult, ResultError> {
        self.check(result)?;
        let report = self.reports.fetch_add(1, Ordering::Relaxed);
        let whole = Bytes::copy_from_slice(result.as_bytes());
        let mut ranges = Vec::with_capacity(whole.len().div_ceil(PIECE));
        for begins in (0..whole.len()).step_by(PIECE) {
            let piece = whole.slice(begins..whole.len().min(begins + PIECE));
            let (bytes, raw) = (piece.len() as u64, piece.clone());
            let packed = aside::run_briefly(tenant, move || {
                let packed = zstd::bulk::compress(&raw, LEVEL).ok().filter(|packed| packed.len() < raw.len());
                (packed, <[u8; 32]>::from(Sha256::digest(&raw)))
            });
            let name = format!("runs/{}/result/{begins:012}-{:016x}-{report}", run.as_uuid().simple(), self.nonce);
            let stored = async {
                let ended = |error: &dyn std::fmt::Display| BlobError::Io {
                    key: name.clone(),
                    source: std::io::Error::other(error.to_string()),
                };
                let (packed, sha256) = packed.await;
                let key = Key::new(&name).map_err(|error| ended(&error))?;
                let (object, encoding) = match packed {
                    Some(packed) => (packed.into(), Encoding::Zstd),
                    None => (piece, Encoding::Plain),
                };
                let range = OutputRange { begins: begins as u64, bytes, sha256, encoding, key: name.as_str().into() };
                // Named before it is written: what was written in part is removed with the others.
                ranges.push(range);
                self.blobs.put(&key, object).await
            };
            if let Err(error) = stored.await {
                self.remove(&StoredResult { ranges: ranges.into() }).await;
                return Err(error.into());
            }
        }
        self.quotas.count_bytes(tenant, whole.len() as u64);
        Ok(StoredResult { ranges: ranges.into() })
    }

    /// Removes a result whose report was not accepted, and gives its room back. What cannot be removed now goes with its run.
    pub async fn discard(&self, tenant: TenantId, result: &StoredResult) {
        self.quotas.uncount_bytes(tenant, result.bytes());
        self.remove(result).await;
    }

    async fn remove(&self, result: &StoredResult) {
        for range in result.ranges.iter() {
            let Ok(key) = Key::new(&range.key) else { continue };
            if let Err(error) = self.blobs.remove(&key).await {
                tracing::warn!(%error, "cannot remove the stored result of a refused report");
            }
        }
    }

    /// The next pieces of the stored result of a run, from this place on; nothing at its end.
    pub async fn pieces(
        &self,
        ledger: &(impl OutputStore + ?Sized),
        run: RunId,
        from: u64,
    ) -> Result<Vec<OutputRange>, StoreError> {
        ledger.list_output(run, OutputStream::Result, from, PIECES).await
    }

    /// The bytes of a piece.
    pub async fn piece(&self, run: RunId, range: &OutputRange) -> Result<Bytes, std::io::Error> {
        load(&*self.blobs, run, range).await
    }

    /// The whole stored result of a run.
    pub async fn read(&self, ledger: &(impl OutputStore + ?Sized), run: RunId) -> Result<String, ReadResultError> {
        let mut whole: Vec<u8> = Vec::new();
        loop {
            let ranges = self.pieces(ledger, run, whole.len() as u64).await?;
            if ranges.is_empty() {
                return String::from_utf8(whole).map_err(|_| ReadResultError::Damaged);
            }
            for range in &ranges {
                if range.begins != whole.len() as u64 {
                    return Err(ReadResultError::Damaged);
                }
                whole.extend_from_slice(&self.piece(run, range).await.map_err(|_| ReadResultError::Damaged)?);
            }
        }
    }
}

/// What stands for a result that is in the object store: how long it is, and where to fetch it.
pub fn reference(job: JobId, bytes: u64) -> Value {
    json!({"result_ref": {"job_id": job, "bytes": bytes, "path": path(job)}})
}

/// Where the result of a job is fetched.
pub fn path(job: JobId) -> String {
    format!("/jobs/{job}/result")
}

#[cfg(test)]
mod tests {
    use bowline_backbone::MemoryBlobs;
    use bowline_model::{JobStatus, Outcome, Timestamp};
    use bowline_store::{ClaimRules, Claimant, ReportAnswer, RunReport};

    use super::*;
    use crate::fixture;
    use crate::quotas::QuotaLimits;

    #[tokio::test]
    async fn a_large_result_is_stored_in_pieces_and_counts_for_its_tenant() {
        let limits = QuotaLimits { result_bytes: 3 << 20, stored_bytes: 1, ..QuotaLimits::default() };
        let (blobs, quotas) = (Arc::new(MemoryBlobs::default()), Quotas::new(limits));
        let results = Results::new(blobs.clone(), Arc::clone(&quotas));
        let (tenant, run) =
            (TenantId::mint(Timestamp::from_millis(1), [1; 10]), RunId::mint(Timestamp::from_millis(1), [2; 10]));
        let text = "x".repeat((2 << 20) + 5);
        assert!(!results.is_inline(&text) && results.is_inline(&text[..1 << 20]));
        let (one, two) =
            (results.store(tenant, run, &text).await.unwrap(), results.store(tenant, run, &text).await.unwrap());
        assert_eq!((one.bytes(), one.ranges.len()), (text.len() as u64, 3));
        assert_eq!(quotas.usage(tenant).stored_bytes, 2 * text.len() as u64);
        results.discard(tenant, &two).await;
        assert_eq!(quotas.usage(tenant).stored_bytes, text.len() as u64, "its room is free again");
        for range in one.ranges.iter() {
            let piece = results.piece(run, range).await.expect("the objects of the other report stay");
            assert_eq!(piece.len() as u64, range.bytes);
        }
        let larger = "x".repeat((3 << 20) + 1);
        assert!(matches!(results.store(tenant, run, &larger).await, Err(ResultError::TooLarge { max: 3_145_728, .. })));
    }

    #[test]
    fn a_result_may_be_as_large_as_the_quota_and_no_larger() {
        let limits = QuotaLimits { result_bytes: 4, inline_result_bytes: 2, ..QuotaLimits::default() };
        let results = Results::new(Arc::new(MemoryBlobs::default()), Quotas::new(limits));
        assert_eq!(results.max(), 4);
        assert!(results.check("1234").is_ok());
        assert!(matches!(results.check("12345"), Err(ResultError::TooLarge { bytes: 5, max: 4 })));
        assert!(results.is_inline("12") && !results.is_inline("123"));
    }

    #[tokio::test]
    async fn a_stored_result_is_read_back_as_it_was() {
        let results = Results::new(Arc::new(MemoryBlobs::default()), Quotas::new(QuotaLimits::default()));
        let (ledger, tenant) = (fixture::ledger(), fixture::tenant(1));
        ledger.submit(vec![fixture::job(tenant, 1, "null")]).await.expect("stored");
        let worker = Claimant { accepts_at_once: true, ..fixture::claimant(Some(tenant), "w1", 1) };
        let rules = ClaimRules { weights: Default::default(), strategy: Default::default() };
        let runs = ledger.claim(vec![worker.clone()], rules).await.expect("claimed");
        let [run] = &runs[..] else { panic!("one run was queued: {runs:?}") };
        // Several pieces that differ, and the last is shorter.
        let text = format!("{:?}", (0..400_000).collect::<Vec<u32>>());
        assert!(text.len() > 2 * PIECE && text.len() % PIECE != 0);
        let stored = results.store(tenant, run.run, &text).await.expect("stored");
        let report = RunReport {
            run: run.run,
            job: None,
            worker: worker.worker,
            tenant: Some(tenant),
            fence: Some(run.fence),
            outcome: Outcome::Succeeded,
            error: None,
            result: None,
            stored_result: Some(stored),
            exit_code: None,
            last_seq: 0,
        };
        let answers = ledger.report(vec![report]).await.expect("stored");
        assert_eq!(answers, [ReportAnswer::Recorded(JobStatus::Succeeded)]);
        assert!(results.read(&*ledger, run.run).await.expect("read") == text);
        assert_eq!(results.pieces(&*ledger, run.run, text.len() as u64).await.expect("read").len(), 0);
    }

    #[test]
    fn a_reference_says_where_the_result_is() {
        let job = JobId::mint(Timestamp::from_millis(1), [1; 10]);
        let path = format!("/jobs/{job}/result");
        let told = reference(job, 5);
        assert_eq!(told, json!({"result_ref": {"job_id": job.to_string(), "bytes": 5, "path": path}}));
    }
}
