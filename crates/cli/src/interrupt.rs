//! Ctrl-C, for commands that have something better to do than to die of it.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Every Ctrl-C since this was made. Where the system does not tell, there is none.
pub struct Interrupts(Option<Signal>);

impl Interrupts {
    pub fn listen() -> Self {
        Self(signal(SignalKind::interrupt()).ok())
    }

    /// The next one.
    pub async fn next(&mut self) {
        if let Some(signal) = &mut self.0
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}
