//! Configuration: a file, then the environment, then flags; each overrules the one before.
//!
//! A section is a struct with its own defaults and a `check`. Everything is checked before a socket is bound, and a
//! misspelt option stops the start and names itself, wherever it stands.

mod clock;
mod commands;
mod egress;
mod env;
mod errors;
mod file;
mod jobs;
mod secrets;
mod sections;
mod tls;

use std::path::PathBuf;

use clap::Args;

use errors::ConfigErrors;

#[cfg(test)]
pub use sections::ServerConfig;
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
        let mut errors = ConfigErrors::default();
        let mut config = match &flags.config {
            Some(path) => file::read(path, &mut errors)?,
            None => Self::default(),
        };
        env::apply(&mut config, vars, &mut errors);
        if let Some(dir) = &flags.data_dir {
            config.server.data_dir.clone_from(dir);
        }
        if let Some(url) = &flags.database_url {
            config.database.url = Some(url.clone());
        }
        config.check(&mut errors);
        errors.into_result()?;
        Ok(config)
    }
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
        for elsewhere in ["BOWLINE_CONTEXT", "BOWLINE_AGENT_JOIN_FILE"] {
            assert!(load("", &[(elsewhere, "x")]).is_ok(), "{elsewhere}");
        }
        let error = load("", &[("BOWLINE_DATA", "x")]).unwrap_err();
        assert!(format!("{error:#}").contains("BOWLINE_DATA"), "{error:#}");
    }

    #[test]
    fn all_wrong_options_are_named_at_one_start() {
        let text = "[lease]\nttl_mss = 5\n\n[builtin]\nslots = \"many\"\n\n[retention]\nevents_days = -1\n\n[leese]\n\n\
                    [egress]\nallow_networks = [\"intranet\"]\n\n[limits]\nstreams = 0\npolls = 0\n";
        let error = format!("{:#}", load(text, &[("PORT", "eighty"), ("ORCH_X", "1")]).unwrap_err());
        for part in [
            ":2: lease.ttl_mss: unknown field",
            ":5: builtin.slots: invalid type",
            ":10: leese: unknown field",
            ":13: egress.allow_networks[0]: ",
            "retention.events_days must be",
            "limits.streams must be",
            "limits.polls must be",
            "PORT must be",
            "ORCH_X",
            "has 9 errors",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let syntax = format!("{:#}", load("[lease]\nttl_ms = = 5\n[log]\nlevel = info\n", &[]).unwrap_err());
        assert!(syntax.contains(":2: ") && syntax.contains(":4: "), "{syntax}");
        let listen = format!("{:#}", load("[server]\nlisten = \"127.0.0.1\"\n", &[]).unwrap_err());
        assert!(listen.contains(":2: server.listen: an address with its port"), "{listen}");
        // Numbers that cannot be read are not compared with others.
        let one = format!("{:#}", load("[lease]\nttl_ms = \"x\"\nheartbeat_ms = 20000\n", &[]).unwrap_err());
        assert!(one.contains("lease.ttl_ms") && !one.contains("errors"), "{one}");
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
        let error = load("[clock]\ngap_max = \"a while\"\n", &[]).unwrap_err();
        assert!(format!("{error:#}").contains("clock.gap_max"), "{error:#}");
        let error = load("", &[("PORT", "eighty")]).unwrap_err();
        assert!(format!("{error:#}").contains("PORT"), "{error:#}");
    }

    #[test]
    fn tls_to_postgresql_is_checked_before_anything_is_opened() {
        let with = |url: &str, vars: &[(&str, &str)]| load(&format!("[database]\nurl = \"{url}\"\n"), vars);
        let error = with("postgres://db/x?sslmode=full", &[]).unwrap_err();
        assert!(format!("{error:#}").contains("verify-full"), "{error:#}");
        let error = with("postgres://db/x", &[("PGSSLMODE", "verify-ca")]).unwrap_err();
        assert!(format!("{error:#}").contains("sslrootcert"), "{error:#}");
        let config = with("postgres://db/x", &[("PGSSLMODE", "verify-ca"), ("PGSSLROOTCERT", "/ca.pem")]).unwrap();
        assert_eq!(config.database.target().unwrap().unwrap().mode, bowline_store_sql::SslMode::VerifyCa);
        let config = with("postgres://db/x?sslmode=disable", &[("PGSSLMODE", "require")]).unwrap();
        assert_eq!(config.database.target().unwrap().unwrap().mode, bowline_store_sql::SslMode::Disable);
    }

    #[test]
    fn keys_of_service_tokens_come_over_https_or_from_this_machine() {
        let with = |url: &str| load("", &[("ORCH_JWT_JWKS_URL", url), ("ORCH_JWT_ISSUER", "x")]);
        for good in ["https://id.example/keys", "http://127.0.0.1:9/keys", "http://localhost/keys", "http://[::1]/k"] {
            assert!(with(good).is_ok(), "{good}");
        }
        for bad in ["http://id.example/keys", "http://10.0.0.7/keys", "ftp://id.example/keys", "id.example/keys"] {
            let error = with(bad).unwrap_err();
            assert!(format!("{error:#}").contains("ORCH_JWT_JWKS_URL"), "{bad}: {error:#}");
        }
    }

    /// What a reload cannot apply is named; what it applies is not.
    #[test]
    fn every_section_that_needs_a_restart_is_named_when_it_differs() {
        let running = load("", &[]).unwrap();
        assert_eq!(running.differs(&load("[log]\nlevel = \"warn\"\naccess = \"off\"\n", &[]).unwrap()), [""; 0]);
        for (section, option) in [
            ("server", "close_ms = 7"),
            ("tls", "cert = \"/a.pem\"\nkey = \"/a.key\""),
            ("database", "connect_timeout_ms = 7"),
            ("lease", "accept_ms = 7777"),
            ("dispatch", "strategy = \"random\""),
            ("jobs", "timeout = \"2h\""),
            ("commands", "max_retries = 7"),
            ("builtin", "slots = 7"),
            ("retention", "events_days = 7.0"),
            ("auth", "jwt_issuer = \"x\""),
            ("limits", "streams = 7"),
            ("quotas", "queued_jobs = 7"),
            ("secrets", "tenants.acme.places = []"),
            ("egress", "response_max_bytes = 7777"),
            ("clock", "gap_max = \"7d\""),
        ] {
            let fresh = load(&format!("[{section}]\n{option}\n"), &[]).unwrap();
            assert_eq!(running.differs(&fresh), [section]);
        }
    }

    #[test]
    fn a_certificate_needs_its_key() {
        let error = load("[tls]\ncert = \"/a.pem\"\n", &[]).unwrap_err();
        assert!(format!("{error:#}").contains("tls.key"), "{error:#}");
        let both = load("", &[("BOWLINE_TLS_CERT", "/a.pem"), ("BOWLINE_TLS_KEY", "/a.key")]).unwrap();
        assert!(both.tls.files().is_some());
    }

    #[test]
    fn a_timeout_of_jobs_is_a_duration_and_off_unless_set() {
        assert_eq!(load("", &[]).unwrap().jobs.deadline_ms(), None);
        assert_eq!(load("[jobs]\ntimeout = \"2h\"\n", &[]).unwrap().jobs.deadline_ms(), Some(7_200_000));
        let both = load("[jobs]\ntimeout = \"2h\"\n", &[("JOB_TIMEOUT", "90s")]).unwrap();
        assert_eq!(both.jobs.deadline_ms(), Some(90_000));
        assert_eq!(load("", &[("JOB_TIMEOUT", "3600")]).unwrap().jobs.deadline_ms(), Some(3_600_000));
        for bad in ["soon", "10ms", "31d", "0"] {
            let error = load("", &[("JOB_TIMEOUT", bad)]).unwrap_err();
            assert!(format!("{error:#}").contains("JOB_TIMEOUT"), "{error:#}");
        }
    }

    #[test]
    fn retries_of_commands_are_set_for_the_whole_server() {
        let retries = |file: &str, vars: &[(&str, &str)]| load(file, vars).map(|config| config.commands.retries());
        assert_eq!(retries("", &[]).unwrap(), bowline_model::fleet::CommandRetries::default());
        let file = "[commands]\nmax_retries = 7\nbase_backoff = \"500ms\"\nmax_backoff = \"2m\"\nretry = \"failed\"\n";
        let set = retries(file, &[("EXEC_MAX_RETRIES", "5"), ("BASE_BACKOFF", "1.5")]).unwrap();
        let unstarted = set.not_started;
        assert_eq!((unstarted.max_retries, unstarted.base_ms, unstarted.max_backoff_ms), (5, 1_500, 120_000));
        assert!(set.failed);
        for (name, bad) in [
            ("EXEC_MAX_RETRIES", "many"),
            ("EXEC_MAX_RETRIES", "1000"),
            ("EXEC_MAX_RETRIES", "-1"),
            ("BASE_BACKOFF", "soon"),
            ("BASE_BACKOFF", "-1"),
            ("MAX_BACKOFF", "8d"),
        ] {
            let error = retries("", &[(name, bad)]).unwrap_err();
            assert!(format!("{error:#}").contains(name), "{error:#}");
        }
        assert!(retries("[commands]\nretry = \"always\"\n", &[]).is_err());
    }

    #[test]
    fn secrets_are_not_shown() {
        let secret = "0123456789abcdef0123456789abcdef-secret";
        let config = load("", &[("ORCH_JWT_SHARED_SECRET", secret), ("ORCH_JWT_ISSUER", "x")]).unwrap();
        assert!(!format!("{config:?}").contains(secret));
    }
}
