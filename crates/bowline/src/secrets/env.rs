//! Values in the environment of the server. Which variables a tenant may use is asked before this is.

use std::os::unix::ffi::OsStringExt;

use bowline_engine::secrets::{NoValue, SecretSource};
use bowline_seal::SecretValue;
use zeroize::Zeroizing;

#[derive(Debug)]
pub struct EnvSecrets;

impl SecretSource for EnvSecrets {
    fn read(&self, _: &str, name: &str) -> Result<SecretValue, NoValue> {
        let found = std::env::var_os(name).ok_or(NoValue::Missing)?;
        super::value(&Zeroizing::new(found.into_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_there_or_it_is_not() {
        // Cargo sets this one for every test.
        let name = EnvSecrets.read("any", "CARGO_PKG_NAME").map(|value| value.reveal().to_owned());
        assert_eq!(name, Ok("bowline".to_owned()));
        assert_eq!(EnvSecrets.read("any", "NO_SUCH_VARIABLE_HERE").map(drop), Err(NoValue::Missing));
    }
}
