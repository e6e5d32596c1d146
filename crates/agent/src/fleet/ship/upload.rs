//! Bringing output: ranges of bytes, compressed where that helps.

use bowline_model::RunId;
use sha2::{Digest, Sha256};
use tokio::time::sleep;
use tracing::{debug, warn};

use super::hex;
use crate::error::chain;
use crate::server::client::{CallError, OutputPart, Refusal};
use crate::server::link::Link;

/// The most that one request brings.
pub(super) const PART_MAX_BYTES: u64 = 1 << 20;
/// Less than this is not worth compressing.
const SMALL_BYTES: usize = 512;

/// How a range came through.
pub(super) enum Brought {
    /// The server holds so much of the stream, without a gap.
    Stored(u64),
    Refused(Refusal),
    /// The agent has to leave first.
    Leaving,
}

/// A range as it is sent. Takes a while: hashes and compresses.
pub(super) fn part(run: RunId, stream: &'static str, offset: u64, raw: Vec<u8>) -> OutputPart<'static> {
    let (raw_bytes, sha256) = (raw.len(), hex(&Sha256::digest(&raw)));
    let smaller = (raw_bytes >= SMALL_BYTES).then(|| zstd::bulk::compress(&raw, 1).ok()).flatten();
    let (body, compressed) = match smaller {
        Some(packed) if packed.len() < raw_bytes - raw_bytes / 10 => (packed, true),
        _ => (raw, false),
    };
    OutputPart { run, stream, offset, raw_bytes, sha256, body, compressed }
}

/// Brings a range, for as long as it takes.
pub(super) async fn bring(link: &Link, part: &OutputPart<'_>) -> Brought {
    let run = part.run;
    let mut backoff = link.backoff();
    loop {
        let answer = tokio::select! {
            () = link.end.cancelled() => return Brought::Leaving,
            answer = link.client.output(part) => answer,
        };
        let error = match answer {
            Ok(stored) => return Brought::Stored(stored),
            Err(CallError::Refused(refusal)) if refusal.status == 401 => {
                link.fail_unauthorized(refusal);
                link.end.cancelled().await;
                return Brought::Leaving;
            }
            Err(CallError::Refused(refusal)) => return Brought::Refused(refusal),
            Err(error) => error,
        };
        let pause = backoff.after(&error);
        let why = chain(&error);
        if backoff.is_first() {
            warn!(run.id = %run, "output of run {run} cannot be brought yet: {why}");
        } else {
            debug!(run.id = %run, "output of run {run} cannot be brought yet: {why}; again in {pause:?}");
        }
        tokio::select! {
            () = link.end.cancelled() => return Brought::Leaving,
            () = sleep(pause) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::*;

    #[test]
    fn what_gets_smaller_is_compressed_and_nothing_else() {
        let run = RunId::mint(Timestamp::from_millis(1), [1; 10]);
        let text = "the same line\n".repeat(1_000).into_bytes();
        let packed = part(run, "stdout", 7, text.clone());
        assert!(packed.compressed && packed.body.len() < 1_000);
        assert_eq!((packed.raw_bytes, packed.offset), (text.len(), 7));
        assert_eq!(packed.sha256, hex(&Sha256::digest(&text)), "of the raw bytes");
        assert_eq!(zstd::bulk::decompress(&packed.body, 1 << 20).unwrap(), text);

        let noise: Vec<u8> = (0..100u64).flat_map(|n| Sha256::digest(n.to_le_bytes()).to_vec()).collect();
        let plain = part(run, "stdout", 0, noise.clone());
        assert!(!plain.compressed && plain.body == noise);
        assert!(!part(run, "stdout", 0, b"tiny tiny tiny".to_vec()).compressed);
    }
}
