//! Configuration: a file, then the environment, then flags; each overrules the one before.
//!
//! A section is a struct with its own defaults and a `check`. Everything is checked before a socket is bound, and a
//! misspelt option stops the start and names itself, wherever it stands.

mod egress;
mod env;
mod file;
mod secrets;
mod sections;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;

pub use sections::{AuthConfig, Config};

/// Flags of `serve` and of the commands that open the ledger themselves.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigFlags {
    /// Read the configuration from this file (TOML)
    #[arg(long, env = "BOWLINE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the embedded ledger, the administrator's token and output live
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Use this PostgreSQL database instead of the embedded ledger
    #[arg(long, value_name = "URL")]
    pub database_url: Option<String>,
}

impl Config {
    /// What is in force, or what is wrong.
    pub fn load(flags: &ConfigFlags) -> anyhow::Result<Self> {
        // Names and values that are not text are none of ours.
        let vars =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self::from_parts(flags, vars.collect())
    }

    fn from_parts(flags: &ConfigFlags, vars: Vec<(String, String)>) -> anyhow::Result<Self> {
        let mut config = match &flags.config {
            Some(path) => file::read(path)?,
            None => Self::default(),
        };
        env::apply(&mut config, vars)?;
        if let Some(dir) = &flags.data_dir {
            config.server.data_dir.clone_from(dir);
        }
        if let Some(url) = &flags.database_url {
            config.database.url = Some(url.clone());
        }
        config.check()?;
        Ok(config)
    }
}

/// Makes the data directory, readable by its owner only.
pub fn prepare_directory(directory: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if directory.is_dir() {
        return Ok(());
    }
    if directory.exists() {
        bail!("{} is not a directory", directory.display());
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("the data directory {} cannot be made", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, vars: &[(&str, &str)]) -> anyhow::Result<Config> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let flags = ConfigFlags { config: Some(file.path().to_owned()), ..ConfigFlags::default() };
        let vars = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Config::from_parts(&flags, vars)
    }

    #[test]
    fn a_misspelt_option_names_itself() {
        let error = load("[lease]\nttl_mss = 5\n", &[]).unwrap_err();
        assert!(format!("{error:#}").contains("ttl_mss"), "{error:#}");
        let error = load("[leese]\n", &[]).unwrap_err();
        assert!(format!("{error:#}").contains("leese"), "{error:#}");
        let error = load("", &[("ORCH_JWT_ISUER", "x")]).unwrap_err();
        assert!(format!("{error:#}").contains("ORCH_JWT_ISUER"), "{error:#}");
        let error = load("", &[("BOWLINE_DATA", "x")]).unwrap_err();
        assert!(format!("{error:#}").contains("BOWLINE_DATA"), "{error:#}");
    }

    #[test]
    fn the_environment_overrules_the_file_and_flags_overrule_both() {
        let config =
            load("[database]\nurl = \"postgres://file\"\n", &[("DATABASE_URL", "postgres://env"), ("PORT", "8000")]);
        let config = config.unwrap();
        assert_eq!(config.database.url.as_deref(), Some("postgres://env"));
        assert_eq!(config.server.listen.port(), 8000);
    }

    #[test]
    fn numbers_that_do_not_fit_together_are_refused() {
        let error = load("[lease]\nttl_ms = 1000\nheartbeat_ms = 900\n", &[]).unwrap_err();
        assert!(format!("{error:#}").contains("heartbeat_ms"), "{error:#}");
        let error = load("", &[("ORCH_JWT_SHARED_SECRET", "short"), ("ORCH_JWT_ISSUER", "x")]).unwrap_err();
        assert!(format!("{error:#}").to_lowercase().contains("32"), "{error:#}");
        let error = load("", &[("PORT", "eighty")]).unwrap_err();
        assert!(format!("{error:#}").contains("PORT"), "{error:#}");
    }

    #[test]
    fn secrets_are_not_shown() {
        let secret = "0123456789abcdef0123456789abcdef-secret";
        let config = load("", &[("ORCH_JWT_SHARED_SECRET", secret), ("ORCH_JWT_ISSUER", "x")]).unwrap();
        assert!(!format!("{config:?}").contains(secret));
    }
}
