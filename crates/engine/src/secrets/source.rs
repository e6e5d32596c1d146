//! The port behind which values are kept: a directory, an environment, later a vault.

use bowline_seal::SecretValue;

/// Why a place gave no value. Nothing of a value is ever part of this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoValue {
    #[error("there is no value")]
    Missing,
    /// It is there, and must not or cannot be used until somebody changes it.
    #[error("{0}")]
    Unfit(&'static str),
    /// It may be there in a moment.
    #[error("it cannot be read just now ({0})")]
    Unavailable(String),
}

/// A place that keeps values. It may take a moment: it is asked on a thread that may wait.
pub trait SecretSource: Send + Sync + std::fmt::Debug {
    /// The value of this name for the tenant of this name.
    fn read(&self, tenant: &str, name: &str) -> Result<SecretValue, NoValue>;
}
