//! Signed heads, as servers leave them in their data directory: one a line, the newest last.

use std::path::Path;

use bowline_model::audit::{Head, SignedHead};
use ring::signature::{ED25519, UnparsedPublicKey};

/// Why heads that were kept cannot vouch for anything.
#[derive(Debug, thiserror::Error)]
pub enum BadHeads {
    #[error("{path} cannot be read: {cause}")]
    Unreadable { path: String, cause: std::io::Error },
    #[error("line {line} of {path} is no signed head: {cause}")]
    Garbled { path: String, line: usize, cause: String },
    #[error("line {line} of {path} was not signed by the key {key}")]
    Forged { path: String, line: usize, key: String },
}

/// The heads in a file, each signed by this key (as hex digits). A last line without its end was being written; it is
/// passed over.
pub fn read_heads(path: &Path, key: &str) -> Result<Vec<Head>, BadHeads> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|cause| BadHeads::Unreadable { path: name(), cause })?;
    let mut heads = Vec::new();
    for (n, line) in text.split_inclusive('\n').enumerate() {
        let Some(line) = line.strip_suffix('\n') else { break };
        let signed: SignedHead = serde_json::from_str(line).map_err(|error| BadHeads::Garbled {
            path: name(),
            line: n + 1,
            cause: error.to_string(),
        })?;
        if signed.key != key || !is_signed(&signed) {
            return Err(BadHeads::Forged { path: name(), line: n + 1, key: key.to_owned() });
        }
        heads.push(signed.head);
    }
    Ok(heads)
}

fn is_signed(signed: &SignedHead) -> bool {
    let (Some(key), Some(signature)) = (signed.key_bytes(), signed.signature_bytes()) else { return false };
    UnparsedPublicKey::new(&ED25519, key).verify(&signed.head.statement(), &signature).is_ok()
}
