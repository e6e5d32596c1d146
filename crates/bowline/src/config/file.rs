//! The configuration file.

use std::path::Path;

use anyhow::Context;

use super::Config;

pub fn read(path: &Path) -> anyhow::Result<Config> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("the configuration file {} cannot be read", path.display()))?;
    toml::from_str(&text).with_context(|| format!("the configuration file {} is wrong", path.display()))
}
