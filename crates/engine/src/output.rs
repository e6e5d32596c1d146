//! Output of commands, read back: a range from the object store, checked against its hash.

use bowline_backbone::{BlobStore, Key};
use bowline_model::RunId;
use bowline_store::{Encoding, OutputRange};
use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The bytes of a range. What is damaged is logged here, once.
pub async fn load(blobs: &dyn BlobStore, run: RunId, range: &OutputRange) -> Result<Bytes, std::io::Error> {
    let broken = |what: String| {
        tracing::error!(run.id = %run, error = what, "cannot read stored output");
        std::io::Error::other("the output is damaged")
    };
    let key = Key::new(&range.key).map_err(|e| broken(e.to_string()))?;
    let object = blobs.get(&key).await.map_err(|e| broken(e.to_string()))?;
    let length = usize::try_from(range.bytes).unwrap_or(usize::MAX);
    let raw = match range.encoding {
        Encoding::Plain => object,
        Encoding::Zstd => zstd::bulk::decompress(&object, length).map_err(|e| broken(e.to_string()))?.into(),
    };
    if raw.len() != length || <[u8; 32]>::from(Sha256::digest(&raw)) != range.sha256 {
        return Err(broken(format!("the range at {} is not what was stored", range.begins)));
    }
    Ok(raw)
}
