//! Where the server's secrets are kept: the one place that knows of files and variables.

mod env;
mod files;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bowline_engine::secrets::{NoValue, SecretSource};
use bowline_model::secret::SecretPlace;
use bowline_seal::SecretValue;

pub use env::EnvSecrets;
pub use files::FileSecrets;

/// Longer values are no secrets, and no variables either.
const VALUE_MAX_BYTES: usize = 64 * 1024;

/// Every place there is.
pub fn sources(data_dir: &Path) -> BTreeMap<SecretPlace, Arc<dyn SecretSource>> {
    let files: Arc<dyn SecretSource> = Arc::new(FileSecrets::new(data_dir.join("secrets")));
    let env: Arc<dyn SecretSource> = Arc::new(EnvSecrets);
    BTreeMap::from([(SecretPlace::File, files), (SecretPlace::Env, env)])
}

/// What was read, as a value: text that can be a variable, without the line break that editors put at the end of a file.
fn value(text: &[u8]) -> Result<SecretValue, NoValue> {
    if text.len() > VALUE_MAX_BYTES {
        return Err(NoValue::Unfit("it has more than 65536 bytes"));
    }
    let text = std::str::from_utf8(text).map_err(|_| NoValue::Unfit("it is not text"))?;
    let text = text.strip_suffix('\n').map_or(text, |rest| rest.strip_suffix('\r').unwrap_or(rest));
    if text.contains('\0') {
        return Err(NoValue::Unfit("it has zero bytes"));
    }
    if text.is_empty() { Err(NoValue::Unfit("it is empty")) } else { Ok(SecretValue::new(text)) }
}
