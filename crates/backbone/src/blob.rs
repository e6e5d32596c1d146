//! The port: objects by key.

use async_trait::async_trait;
use bytes::Bytes;

/// Why an object could not be put or had.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error("there is no object {0}")]
    Missing(String),
    #[error("no room for object {0}")]
    NoSpace(String),
    #[error("object {key}")]
    Io {
        key: String,
        #[source]
        source: std::io::Error,
    },
}

/// Why a text is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key has parts of letters, digits, - and _, separated by /")]
pub struct BadKey;

/// The name of an object: parts of plain characters, so that no store can misread it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    pub fn new(text: &str) -> Result<Self, BadKey> {
        let plain =
            |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if text.len() <= 512 && text.split('/').all(plain) { Ok(Self(text.to_owned())) } else { Err(BadKey) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[async_trait]
pub trait BlobStore: std::fmt::Debug + Send + Sync {
    /// Stores an object; it is durable when this returns. An object that is there already is replaced whole.
    async fn put(&self, key: &Key, bytes: Bytes) -> Result<(), BlobError>;
    async fn get(&self, key: &Key) -> Result<Bytes, BlobError>;
    /// Removes all objects whose keys begin with this part. What is not there is gone already.
    async fn remove(&self, prefix: &Key) -> Result<(), BlobError>;
}
