//! Why a run does not get a secret.
//!
//! The text is kept with the run and shown to whoever may read jobs. So it names the resource and the sort of trouble, and
//! neither the place nor anything of the value; those who keep secrets learn more from `secret check` and the log.

use bowline_model::{ErrorClass, ResourceName};
use bowline_store::StoreError;

use super::{NoValue, NotAllowed};

#[derive(Debug, Clone, thiserror::Error)]
pub enum SecretError {
    #[error("there is no secret_ref {0}, or none of its versions is active")]
    NoRef(ResourceName),
    #[error("the secret_ref {0} is not for this command; its `commands` do not name it")]
    NotFor(ResourceName),
    #[error("the secret_ref {name} is not for {connector}; its `connectors` do not name it")]
    NotForConnector { name: ResourceName, connector: String },
    #[error(
        "the secret_ref {name} may not be sent to {host}; its `hosts` do not name it (without a scheme they mean encrypted connections)"
    )]
    NotForHost { name: ResourceName, host: String },
    #[error("the place of secret {name} is not allowed")]
    NotAllowed {
        name: ResourceName,
        #[source]
        source: NotAllowed,
    },
    #[error("secret {name} has no value that can be used")]
    NoValue {
        name: ResourceName,
        #[source]
        source: NoValue,
    },
    #[error("secret {name} cannot be read just now")]
    Unavailable {
        name: ResourceName,
        #[source]
        source: NoValue,
    },
    #[error("what was approved has changed: secret_ref {0} points elsewhere")]
    Superseded(ResourceName),
    #[error("the ledger cannot be asked for secrets just now")]
    Store(#[source] StoreError),
}

impl SecretError {
    /// A stable word for it.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoRef(_) => "NO_SECRET_REF",
            Self::NotFor(_) => "NOT_FOR_THIS_COMMAND",
            Self::NotForConnector { .. } => "NOT_FOR_THIS_CONNECTOR",
            Self::NotForHost { .. } => "NOT_FOR_THIS_HOST",
            Self::NotAllowed { .. } => "PLACE_NOT_ALLOWED",
            Self::NoValue { .. } => "NO_VALUE",
            Self::Superseded(_) => "SUPERSEDED",
            Self::Unavailable { .. } | Self::Store(_) => "UNAVAILABLE",
        }
    }

    /// Whether the same question may be answered in a moment.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Unavailable { .. } | Self::Store(_) => ErrorClass::Transient,
            Self::Superseded(_) => ErrorClass::Superseded,
            _ => ErrorClass::Permanent,
        }
    }

    /// Everything that is known, for the log and for whoever keeps secrets.
    pub fn whole(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> ResourceName {
        ResourceName::new("stripe").expect("a name")
    }

    fn unavailable() -> SecretError {
        SecretError::Unavailable { name: name(), source: NoValue::Unavailable("it took too long".to_owned()) }
    }

    #[test]
    fn only_a_place_or_ledger_that_does_not_answer_is_worth_another_attempt() {
        let store = SecretError::Store(StoreError::Unavailable("closing".to_owned()));
        for (error, code, class) in [
            (unavailable(), "UNAVAILABLE", ErrorClass::Transient),
            (store, "UNAVAILABLE", ErrorClass::Transient),
            (SecretError::Superseded(name()), "SUPERSEDED", ErrorClass::Superseded),
            (SecretError::NoRef(name()), "NO_SECRET_REF", ErrorClass::Permanent),
            (SecretError::NotFor(name()), "NOT_FOR_THIS_COMMAND", ErrorClass::Permanent),
            (SecretError::NoValue { name: name(), source: NoValue::Missing }, "NO_VALUE", ErrorClass::Permanent),
        ] {
            assert_eq!((error.code(), error.class()), (code, class), "{error}");
        }
    }

    #[test]
    fn the_cause_is_for_those_who_keep_secrets() {
        let error = unavailable();
        assert_eq!(error.to_string(), "secret stripe cannot be read just now");
        let whole = "secret stripe cannot be read just now: it cannot be read just now (it took too long)";
        assert_eq!(error.whole(), whole);
    }
}
