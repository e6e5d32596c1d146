//! Whether a request with a key was accepted before.
//!
//! The same request under the same key is the same job for ever. Where a request cannot be accepted now, it is looked for: what
//! changed since it was accepted (a definition, a host, a right) must not make a second delivery of it an error.

use bowline_model::TenantId;
use bowline_model::idempotency::{KeyScope, RequestHash};
use bowline_store::{Ledger, StoreResult, Submitted};

/// A request, as its keys and its hash know it.
#[derive(Debug)]
pub struct Keyed {
    pub keys: Vec<(KeyScope, String)>,
    pub hash: RequestHash,
}

impl Keyed {
    /// Nothing for a request without a key: no other is the same.
    pub fn new(
        idempotency_key: Option<&String>,
        external_id: Option<&String>,
        hash: impl FnOnce() -> RequestHash,
    ) -> Option<Self> {
        let keys = [(KeyScope::Idempotency, idempotency_key), (KeyScope::External, external_id)];
        let keys: Vec<_> = keys.into_iter().filter_map(|(scope, key)| Some((scope, key?.clone()))).collect();
        (!keys.is_empty()).then(|| Self { keys, hash: hash() })
    }

    /// The job it is, or the conflict of a key that belongs to another request.
    pub async fn find(self, ledger: &dyn Ledger, tenant: TenantId) -> StoreResult<Option<Submitted>> {
        for (scope, key) in self.keys {
            let found = ledger.find_asked(tenant, scope, key, self.hash).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}
