//! Tenants and tokens: who exists, and what they hold. Secrets are here as hashes only.

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::{Admission, Labels, TenantId, Timestamp};

use crate::StoreResult;

/// The wall around everything, with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    pub id: TenantId,
    pub name: String,
    pub created_at: Timestamp,
}

/// A token as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    pub id: String,
    pub kind: String,
    /// `None`: not bound to a tenant (the administrator's).
    pub tenant: Option<TenantId>,
    pub name: String,
    pub secret_hash: [u8; 32],
    pub scopes: String,
    /// Which audiences it is good for, with spaces between them.
    pub audiences: String,
    /// For a join token: what the agent that uses it is.
    pub labels: Labels,
    /// What an agent that joins with it, or the worker whose token it is, may be.
    pub admission: Admission,
    /// Whose it is.
    pub email: Option<String>,
    /// The id of the token it was made with. `None`: made by a service or by the server itself.
    pub made_by: Option<String>,
    /// As which person it counts where people are counted; `None` counts as its address, or as itself.
    pub person: Option<String>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// For a join token: when an agent enrolled with it. It is revoked from then on.
    pub used_at: Option<Timestamp>,
}

/// Whose end it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokeToken {
    pub id: String,
    /// Bounds whose the token may be; `None`: anybody's.
    pub tenant: Option<TenantId>,
    /// Whether workers, agents and join tokens that were made with it end, too.
    pub with_workers: bool,
}

/// What a revocation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokedTokens {
    /// The one that was named.
    pub token: TokenRecord,
    /// Those that ended with it: made with it, or with one that was.
    pub also: Vec<TokenRecord>,
    /// Workers, agents and join tokens made with any of them, which go on.
    pub remaining: Vec<TokenRecord>,
}

#[async_trait]
pub trait TenantStore: Send + Sync {
    /// Creates a tenant; `None` if the name is taken.
    async fn create_tenant(&self, id: TenantId, name: String, by: Author) -> StoreResult<Option<Tenant>>;
    async fn find_tenant(&self, id: TenantId) -> StoreResult<Option<Tenant>>;
    async fn list_tenants(&self) -> StoreResult<Vec<Tenant>>;
}

#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Stores a token and tells who made it; `false` if the id is taken, if the token it was made with is revoked, or if it is
    /// a worker's and an agent has its name.
    async fn create_token(&self, token: TokenRecord, by: Author) -> StoreResult<bool>;
    async fn find_token(&self, id: String) -> StoreResult<Option<TokenRecord>>;
    /// All tokens of a tenant; of everybody for `None`.
    async fn list_tokens(&self, tenant: Option<TenantId>) -> StoreResult<Vec<TokenRecord>>;
    /// The ids of the actors that a text names: an id, or the name of tokens of the tenant (or of none), of a service or of a
    /// worker. As they stand in jobs, events and the audit trail.
    async fn actors_named(&self, tenant: TenantId, text: String) -> StoreResult<Vec<String>>;
    /// Ends a token and the API tokens made with it, and tells who did. `None` if there is no such token, or nothing of it
    /// was left to end.
    async fn revoke_token(&self, order: RevokeToken, by: Author) -> StoreResult<Option<RevokedTokens>>;
}
