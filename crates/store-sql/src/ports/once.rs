//! Requests under a key, handed to the committer.

use async_trait::async_trait;
use bowline_store::{Once, OnceKey, OnceRequest, OnceStore, StoreResult};
use tokio::sync::oneshot;

use crate::SqlLedger;
use crate::command::Command;

#[async_trait]
impl OnceStore for SqlLedger {
    async fn carry_out_once(&self, key: OnceKey, request: OnceRequest) -> StoreResult<Once> {
        let inner = Box::new(inner(request));
        self.wish(|line| Command::Once((key, inner), line)).await
    }
}

/// The write it comes to. Its answer goes back with that of the whole.
fn inner(request: OnceRequest) -> Command {
    match request {
        OnceRequest::RetryJob(order) => Command::Retry(order, oneshot::channel().0),
        OnceRequest::RetryCommand(order, approval) => Command::RetryHosts((order, approval), oneshot::channel().0),
        OnceRequest::Block(block) => Command::Block(block, oneshot::channel().0),
        OnceRequest::Unblock { tenant, block, by, reason } => {
            Command::Unblock((tenant, block, by, reason), oneshot::channel().0)
        }
        OnceRequest::Replay(order) => Command::Replay(order, oneshot::channel().0),
        OnceRequest::Purge(order) => Command::Purge(order, oneshot::channel().0),
    }
}
