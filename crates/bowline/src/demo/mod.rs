//! The demonstration: jobs over the four lanes, then a command on a thousand hosts over a bad network.

mod fleet;
mod jobs;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bowline_engine::Engine;
use bowline_model::TenantId;
use tokio_util::sync::CancellationToken;

/// What the demonstration needs to know of the server it runs in.
#[derive(Debug, Clone)]
pub struct Stage {
    pub engine: Arc<Engine>,
    pub tenant: TenantId,
    /// How the command line is called for this server.
    pub bowline: String,
    pub address: SocketAddr,
    pub data_dir: PathBuf,
}

/// Shows both parts, and leaves the server as it is.
pub async fn run(stage: Stage, stop: CancellationToken) -> anyhow::Result<()> {
    jobs::run(Arc::clone(&stage.engine), stage.tenant, &stage.bowline, stop.clone()).await?;
    if stop.is_cancelled() { Ok(()) } else { fleet::run(&stage, &stop).await }
}
