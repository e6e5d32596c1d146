//! What is to be executed, where, and within which limits. Written once, before anything else happens.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bowline_model::fleet::{Limits, Sandbox};
use bowline_model::{HostName, JobId, RunId};
use serde::{Deserialize, Serialize};

/// Whether a run may share its host with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostLock {
    /// Alone among the runs of its host.
    Exclusive,
    /// Beside any number of other shared runs.
    Shared,
}

/// Whom a command runs as, found when it was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunUser {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// All groups it has, its main one included.
    pub groups: Vec<u32>,
    pub home: PathBuf,
}

/// The file `manifest.json`. Fields that are not known are ignored, so that an older keeper reads a newer agent's
/// manifest; what an older keeper must not ignore gets a higher `version`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub version: u32,
    pub run: RunId,
    /// The unit of the job that this run is an attempt at.
    pub job: JobId,
    pub host: HostName,
    /// Grows with each hand-out of the job.
    pub fence: u32,
    /// Which attempt at the job this is; 0 in manifests from before it was kept.
    #[serde(default)]
    pub attempt: u32,
    /// The whole command, of which `job` is the part for this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<JobId>,
    /// Grows with each lease of the host.
    pub host_fence: u64,
    pub lock: HostLock,
    /// Program and arguments, one item each. Never a text for a shell.
    pub argv: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Environment variable to name of the secret whose value it gets.
    #[serde(default)]
    pub secrets: BTreeMap<String, String>,
    /// The run's own `work` directory unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Empty input unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    pub timeout_ms: u64,
    /// From the request to end (SIGTERM) to its enforcement (SIGKILL).
    #[serde(default = "Manifest::default_kill_grace_ms")]
    pub kill_grace_ms: u64,
    /// How much is kept of each of the two streams. The rest is read and thrown away, with a word about it.
    #[serde(default = "Manifest::default_output_max_bytes")]
    pub output_max_bytes: u64,
    /// Whether the command may gain privileges, by `sudo` for instance.
    #[serde(default)]
    pub allow_new_privileges: bool,
    /// What it and all it starts may use. By what each is held is told in the run's `started` event.
    #[serde(default)]
    pub limits: Limits,
    /// The keeper's own user unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<RunUser>,
    #[serde(default)]
    pub sandbox: Sandbox,
    /// Processes that the command leaves running stay. Otherwise they are ended with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leave_children: bool,
    /// Paths that are closed to the command, which has the agent's own user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<PathBuf>,
}

/// Why a manifest cannot be executed. No value is repeated: environments hold passwords, whatever we say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadManifest {
    #[error("the manifest has version {0}, and this is written for versions up to {expected}", expected = Manifest::VERSION)]
    Version(u32),
    #[error("the manifest names no program")]
    NoProgram,
    #[error("{0} of the manifest contains a NUL character")]
    Nul(&'static str),
    #[error("`{0}` cannot be the name of an environment variable")]
    Variable(String),
    #[error("the variable {0} is given twice, as a value and as a secret")]
    Twice(String),
    #[error("the working directory must be an absolute path")]
    RelativeDirectory,
}

impl Manifest {
    /// Since 2 there may be a user and a sandbox, since 3 closed paths, which nobody may overlook.
    pub const VERSION: u32 = 3;

    const fn default_kill_grace_ms() -> u64 {
        10_000
    }

    const fn default_output_max_bytes() -> u64 {
        1 << 30
    }

    /// Everything that can be known to be wrong before a process is made.
    pub fn check(&self) -> Result<(), BadManifest> {
        if !(1..=Self::VERSION).contains(&self.version) {
            return Err(BadManifest::Version(self.version));
        }
        if self.argv.first().is_none_or(String::is_empty) {
            return Err(BadManifest::NoProgram);
        }
        if self.argv.iter().any(|item| item.contains('\0')) {
            return Err(BadManifest::Nul("argv"));
        }
        if self.env.values().any(|value| value.contains('\0')) {
            return Err(BadManifest::Nul("env"));
        }
        if let Some(name) = self.env.keys().chain(self.secrets.keys()).find(|name| !is_variable(name)) {
            return Err(BadManifest::Variable(name.chars().take(64).collect()));
        }
        if let Some(name) = self.secrets.keys().find(|name| self.env.contains_key(*name)) {
            return Err(BadManifest::Twice(name.clone()));
        }
        match &self.cwd {
            Some(cwd) if !cwd.is_absolute() => Err(BadManifest::RelativeDirectory),
            Some(cwd) if cwd.to_string_lossy().contains('\0') => Err(BadManifest::Nul("cwd")),
            _ => Ok(()),
        }
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Manifest {
        serde_json::from_value(serde_json::json!({
            "version": 1,
            "run": "01890a5d-ac96-774b-bcce-b302099a8057",
            "job": "01890a5d-ac96-774b-bcce-b302099a8058",
            "host": "web-1", "fence": 3, "host_fence": 7, "lock": "exclusive",
            "argv": ["/bin/echo", "hello"], "timeout_ms": 1_000,
            "a_field_of_tomorrow": {"is": "ignored"},
        }))
        .unwrap()
    }

    #[test]
    fn fields_that_are_not_known_are_ignored_and_missing_ones_have_defaults() {
        let manifest = sample();
        assert_eq!(manifest.kill_grace_ms, 10_000);
        assert_eq!(manifest.output_max_bytes, 1 << 30);
        assert!(!manifest.allow_new_privileges);
        assert_eq!(manifest.check(), Ok(()));
        let text = serde_json::to_string(&manifest).unwrap();
        assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
    }

    #[test]
    fn what_no_process_can_be_made_of_is_refused() {
        let with = |change: fn(&mut Manifest)| {
            let mut manifest = sample();
            change(&mut manifest);
            manifest.check().unwrap_err()
        };
        assert_eq!(with(|m| m.version = 4), BadManifest::Version(4));
        assert_eq!(with(|m| m.argv.clear()), BadManifest::NoProgram);
        assert_eq!(with(|m| m.argv[0].clear()), BadManifest::NoProgram);
        assert_eq!(with(|m| m.argv[1] = "a\0b".into()), BadManifest::Nul("argv"));
        assert_eq!(with(|m| drop(m.env.insert("A=B".into(), String::new()))), BadManifest::Variable("A=B".into()));
        assert_eq!(with(|m| drop(m.env.insert("A".into(), "\0".into()))), BadManifest::Nul("env"));
        assert_eq!(with(|m| drop(m.secrets.insert(String::new(), "db".into()))), BadManifest::Variable(String::new()));
        let twice = with(|m| {
            m.env.insert("A".into(), "x".into());
            m.secrets.insert("A".into(), "db".into());
        });
        assert_eq!(twice, BadManifest::Twice("A".into()));
        assert_eq!(with(|m| m.cwd = Some("here".into())), BadManifest::RelativeDirectory);
    }
}
