//! Renewing the credential, well before it ends, with the key the agent enrolled with.
//!
//! The new credential is on disk before it is used. Should the answer get lost, the old one is still good and asks again. The
//! old one is kept: a server that was restored from a copy from before the renewal knows only that one, and gives a new one for it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use crate::error::chain;
use crate::fleet::identity::{Credential, keep_credential, signed_renewal};
use crate::fleet::shared::Fleet;
use crate::server::client::CallError;

/// How long to rest after a renewal that failed. The credential has half of its life left.
const REST: Duration = Duration::from_secs(60 * 60);

/// Renews whenever it is due, and when the server knows only the credential before. `first` is what the server said when the
/// agent registered.
pub(crate) async fn renew_loop(
    fleet: Arc<Fleet>,
    data: Arc<Path>,
    mut credential: Credential,
    first: Option<Duration>,
) {
    let name = credential.name.clone();
    let mut after = first;
    let mut backoff = fleet.link.backoff();
    loop {
        let due = async {
            match after {
                Some(after) => tokio::time::sleep(after).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // First: what is due then is the renewal of that one.
            biased;
            () = fleet.link.client.fell_back() => {
                warn!(
                    agent.id = %name,
                    "the server knows only the credential before the renewal, perhaps because it was restored from an older \
                     copy; renewing that one"
                );
                // It may know an older registration as well.
                fleet.link.registration.forgotten();
                // On disk stays what there is: should this one not be renewed, the next start finds both.
                if let Some(before) = credential.before.take() {
                    credential.token = before;
                }
            }
            () = due => {}
        }
        match renew(&fleet, &data, &mut credential).await {
            Ok(next) => {
                info!(agent.id = %name, "agent {name} has a new credential");
                backoff = fleet.link.backoff();
                // A zero would turn a loop into a storm.
                after = Some(next.max(Duration::from_secs(1)));
            }
            Err(Failed::Later(error)) => after = Some(backoff.after(&error)),
            Err(Failed::Refused(why)) => {
                warn!(agent.id = %name, error = why, "agent {name} cannot renew its credential, retrying in an hour");
                after = Some(REST);
            }
        }
    }
}

enum Failed {
    Later(CallError),
    Refused(String),
}

async fn renew(fleet: &Fleet, data: &Path, credential: &mut Credential) -> Result<Duration, Failed> {
    let refused = |error: &dyn std::error::Error| Failed::Refused(chain(error));
    let request = signed_renewal(data, credential).map_err(|error| refused(&error))?;
    let answer = fleet.link.client.renew(&request).await.map_err(|error| match error {
        CallError::Refused(_) => refused(&error),
        error => Failed::Later(error),
    })?;
    let before = Some(credential.token.clone());
    let renewed = Credential { token: answer.token, before, ..credential.clone() };
    keep_credential(data, &renewed).map_err(|error| refused(&error))?;
    fleet.link.client.authorize(&renewed.token).map_err(|error| refused(&error))?;
    *credential = renewed;
    Ok(Duration::from_secs(answer.renew_after_s))
}
