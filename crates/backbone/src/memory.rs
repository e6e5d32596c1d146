//! Objects in memory, for tests and simulations that own time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{BlobError, BlobStore, Key};

/// Objects that last as long as the process.
#[derive(Debug, Default)]
pub struct MemoryBlobs(Mutex<BTreeMap<String, Bytes>>);

#[async_trait]
impl BlobStore for MemoryBlobs {
    async fn put(&self, key: &Key, bytes: Bytes) -> Result<(), BlobError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.as_str().to_owned(), bytes);
        Ok(())
    }

    async fn get(&self, key: &Key) -> Result<Bytes, BlobError> {
        let objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        objects.get(key.as_str()).cloned().ok_or_else(|| BlobError::Missing(key.as_str().to_owned()))
    }

    async fn remove(&self, prefix: &Key) -> Result<(), BlobError> {
        let (whole, under) = (prefix.as_str(), format!("{}/", prefix.as_str()));
        let mut objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        objects.retain(|key, _| key != whole && !key.starts_with(&under));
        Ok(())
    }
}
