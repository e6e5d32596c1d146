//! Why there is no answer, in words that whoever asked may read. No address of ours, no URL, no header is part of them.

use std::error::Error;
use std::io;
use std::time::Duration;

use super::headers::BadHeader;
use super::redirect::RedirectRefused;
use super::resolver::{NoAddress, NotAdmitted};
use super::target::BadTarget;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    #[error("{0}")]
    Target(#[from] BadTarget),
    #[error("{0}")]
    Header(#[from] BadHeader),
    /// On purpose not a word about why; but how those who run the server allow it.
    #[error(
        "this address may not be called; the operator of the server allows networks with `allow_networks` under [egress] in \
         its configuration"
    )]
    Denied,
    /// The port is known to the caller, so it can be named.
    #[error(
        "port {0} may not be called; the operator of the server allows ports below 1024 with `allow_ports` under [egress] in \
         its configuration"
    )]
    DeniedPort(u16),
    #[error("{0}")]
    Redirect(#[from] RedirectRefused),
    #[error("the answer is longer than {max_bytes} bytes")]
    TooLarge { max_bytes: usize },
    #[error("there was no whole answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("{0}")]
    Transport(String),
    #[error("stopped before there was an answer")]
    Stopped,
    #[error("the client for calls could not be made: {0}")]
    Client(String),
}

impl EgressError {
    /// A stable word for it.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Target(_) | Self::Header(_) => "VALIDATION_ERROR",
            Self::Denied | Self::DeniedPort(_) => "EGRESS_DENIED",
            Self::Redirect(_) | Self::TooLarge { .. } | Self::Transport(_) | Self::Client(_) => "UPSTREAM_ERROR",
            Self::Timeout(_) => "UPSTREAM_TIMEOUT",
            Self::Stopped => "STOPPED",
        }
    }

    /// Whether the same call may go better in a moment.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Transport(_) | Self::Stopped)
    }

    /// What the HTTP client says, without the addresses that its own words may have.
    pub(super) fn of_client(error: &reqwest::Error) -> Self {
        let mut cause: Option<&(dyn Error + 'static)> = Some(error);
        let mut found = None;
        while let Some(this) = cause {
            if this.is::<NotAdmitted>() {
                return Self::Denied;
            }
            if let Some(none) = this.downcast_ref::<NoAddress>() {
                return Self::Transport(none.to_string());
            }
            // What stands deepest knows most.
            found = told(this).or(found);
            cause = this.source();
        }
        Self::Transport(found.unwrap_or_else(|| {
            let what = match error {
                e if e.is_connect() => "no connection could be made",
                e if e.is_body() || e.is_decode() => "the answer broke off",
                _ => "the call failed before there was a whole answer",
            };
            what.to_owned()
        }))
    }
}

fn told(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(format!("TLS: {error}"));
    }
    let error = error.downcast_ref::<io::Error>()?;
    // What an I/O error wraps is not among its causes; it has to be asked for.
    let wrapped = error.get_ref().and_then(|inner| told(inner));
    wrapped.or_else(|| match error.kind() {
        io::ErrorKind::Other => None,
        kind => Some(format!("the connection failed: {kind}")),
    })
}
