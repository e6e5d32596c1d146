//! A command type: what may run on hosts, with which parameters, and under which rules.
//!
//! A command is a program and its arguments, each argument one text: no shell reads them, so no parameter can break out.
//! Where a shell is wanted, the type says so with `script`; parameters then reach the script as environment variables
//! (`PARAM_NAME`), never as part of its text.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::template::inside;
use super::{Cannot, HostScope, Limits, Reference, Sandbox, Scope, Template};
use crate::host::{Connection, Host, HostVars, Selector, Steps, TooCostly, Vars};
use crate::job::{JobPolicy, OnLost};
use crate::name::{Labels, ResourceName};
use crate::resource::{BadSpec, Checks};
use crate::retry::{RetryPolicy, StartRetry};
use crate::secret::{NamedSecret, looks_secret, sounds_secret};

/// Who else may run on the host meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostLock {
    /// Nobody.
    #[default]
    Exclusive,
    /// Other commands that share.
    Shared,
}

/// When somebody must say yes first, and who.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalRule {
    /// Only for more hosts than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts_over: Option<u32>,
    /// Only if one of the hosts is meant by this selector, such as `env=production`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// How many different people must say yes.
    #[schemars(range(min = 1, max = 100))]
    pub quorum: u32,
    /// Whoever asked for the job cannot approve it; so unless this says `false`.
    pub four_eyes: bool,
    /// After this time without a decision the job is over.
    #[schemars(range(min = 1000, max = 2_592_000_000_u64))]
    pub expires_ms: u64,
}

impl Default for ApprovalRule {
    fn default() -> Self {
        Self { hosts_over: None, selector: None, quorum: 1, four_eyes: true, expires_ms: 24 * 60 * 60 * 1_000 }
    }
}

/// A type of command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CommandSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The program and its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<Template>,
    /// Instead of `argv`: a script for /bin/sh. It has no places; parameters are environment variables called PARAM_NAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// JSON Schema of the parameters. Without it there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// Environment variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Template>,
    /// Environment variables with secret values: `secret://NAME` is a `secret_ref` of the server, whose value reaches the
    /// executing agent sealed; `NAME` or `agent://NAME` is a file that the agent has itself.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
    /// The directory to start in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Template>,
    /// What the command reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Template>,
    /// How long it may take on one host, in milliseconds.
    #[schemars(range(min = 1, max = 604_800_000))]
    pub timeout_ms: u64,
    /// How long it may take to stop when it is told to, in milliseconds.
    #[schemars(range(min = 0, max = 600_000))]
    pub kill_grace_ms: u64,
    /// How often to try on one host, whatever went wrong there. Unless given, the server's setting decides: what ran is not
    /// tried again, what never started is.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::shape::maybe_by_name")]
    pub retry: Option<RetryPolicy>,
    /// How often to try again where nothing was started: the host could not be reached, or the command could not be started
    /// there. Goes before `retry` for such attempts.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::shape::maybe_by_name")]
    pub retry_not_started: Option<StartRetry>,
    pub lock: HostLock,
    /// Running it twice does what running it once does, so it may be tried again when nobody knows how it ended.
    pub idempotent: bool,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::shape::maybe_by_name")]
    pub approval: Option<ApprovalRule>,
    /// What each of the two output streams may have in bytes; the rest is cut, with a mark.
    #[schemars(range(min = 0, max = 68_719_476_736_u64))]
    pub output_max_bytes: u64,
    /// The user of the host to run it as. An agent only becomes users that it was told it may become.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What it may see and do on the host beyond what its user may.
    #[serde(skip_serializing_if = "Sandbox::is_none")]
    pub sandbox: Sandbox,
    /// What it and all it starts may use.
    #[serde(skip_serializing_if = "Limits::is_empty", deserialize_with = "crate::shape::by_name")]
    pub limits: Limits,
    /// Processes that it leaves running stay, as those of a service that it starts. Otherwise they are ended with it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub leave_children: bool,
}

impl Default for CommandSpec {
    fn default() -> Self {
        Self {
            description: None,
            argv: Vec::new(),
            script: None,
            params: None,
            env: BTreeMap::new(),
            secrets: BTreeMap::new(),
            cwd: None,
            stdin: None,
            timeout_ms: 15 * 60 * 1_000,
            kill_grace_ms: 10_000,
            retry: None,
            retry_not_started: None,
            lock: HostLock::default(),
            idempotent: false,
            approval: None,
            output_max_bytes: 1 << 30,
            user: None,
            sandbox: Sandbox::None,
            limits: Limits::default(),
            leave_children: false,
        }
    }
}

fn bad(path: impl Into<String>, what: impl Into<String>) -> BadSpec {
    BadSpec::at(path, what)
}

const ARGS_MAX: usize = 256;
const SCRIPT_MAX: usize = 65_536;
const NAMES_MAX: usize = 128;

/// What a command may take from one host: about one step for each byte that is copied, and some for each place that a name
/// is looked for in.
pub const SCOPE_STEPS_MAX: u64 = 300_000;
const LOOKUP_STEPS: usize = 4;

/// Bytes of all texts of a command together, with their places filled.
const FILLED_MAX: usize = 1 << 20;

impl CommandSpec {
    /// Whether the parts of this fit together. Whether `params` is a JSON Schema is not asked here.
    pub fn check(&self) -> Result<(), BadSpec> {
        let mut checks = Checks::default();
        checks.add(self.check_program());
        self.check_environment(&mut checks);
        self.check_no_values(&mut checks);
        self.check_places(&mut checks);
        if let Some(Err(error)) = self.retry_not_started.as_ref().map(StartRetry::check) {
            checks.holds(false, "retry_not_started", error.to_string());
        }
        checks.add(self.policy().check().map_err(|e| bad("retry", e.to_string())));
        checks.holds(self.kill_grace_ms <= 600_000, "kill_grace_ms", "at most 600000 (ten minutes)");
        checks.holds(self.output_max_bytes <= 64 << 30, "output_max_bytes", "at most 68719476736 (64 GiB)");
        checks.holds(
            self.user.as_deref().is_none_or(is_user),
            "user",
            "the name of a user has up to 32 letters, digits and . _ -, and no dash at its start",
        );
        checks.add(self.limits.check().map_err(|(field, what)| bad(format!("limits.{field}"), what)));
        checks.add(self.approval.as_ref().map_or(Ok(()), ApprovalRule::check));
        checks.done()
    }

    fn check_program(&self) -> Result<(), BadSpec> {
        match (self.argv.is_empty(), &self.script) {
            (true, None) => return Err(bad("argv", "a command needs argv or script")),
            (false, Some(_)) => return Err(bad("script", "a command has argv or script, not both")),
            (true, Some(script)) if script.trim().is_empty() => return Err(bad("script", "the script is empty")),
            (true, Some(script)) if script.len() > SCRIPT_MAX || script.contains('\0') => {
                return Err(bad("script", format!("a script has at most {SCRIPT_MAX} bytes and no zero byte")));
            }
            _ => {}
        }
        if self.argv.len() > ARGS_MAX {
            return Err(bad("argv", format!("at most {ARGS_MAX} items")));
        }
        if self.argv.first().is_some_and(|program| program.as_str().trim().is_empty()) {
            return Err(bad("argv[0]", "the program has no name"));
        }
        Ok(())
    }

    fn check_environment(&self, checks: &mut Checks) {
        let names = self.env.len() + self.secrets.len();
        checks.holds(names <= NAMES_MAX, "env", format!("at most {NAMES_MAX} variables"));
        for name in self.env.keys().chain(self.secrets.keys()) {
            let fine = name
                .bytes()
                .enumerate()
                .all(|(n, b)| b == b'_' || b.is_ascii_alphabetic() || (n > 0 && b.is_ascii_digit()));
            if name.is_empty() || name.len() > 128 || !fine {
                checks.holds(false, "env", format!("{name:?} cannot be the name of an environment variable"));
            }
        }
        for (variable, secret) in &self.secrets {
            if self.env.contains_key(variable) {
                checks.holds(false, "secrets", format!("{variable} is in env as well"));
            }
            let named = NamedSecret::parse(secret).map(drop);
            checks.add(named.map_err(|error| bad(format!("secrets.{variable}"), error.to_string())));
        }
    }

    /// Secrets are named, not written down: what is here is kept in the ledger and shown to whoever may read it.
    fn check_no_values(&self, checks: &mut Checks) {
        let mut forbidden = |path: String, what: &str| {
            let words = format!("this looks like {what}; name a secret in `secrets`, and its value stays out of here");
            checks.add(Err(BadSpec::forbidden(path, words)));
        };
        let script = self.script.iter().map(|text| ("script".to_owned(), text.as_str()));
        let templates = self.templates().into_iter().map(|(path, template)| (path, template.as_str()));
        for (path, text) in templates.chain(script) {
            if let Some(what) = looks_secret(text) {
                forbidden(path, what);
            }
        }
        for (name, value) in &self.env {
            let written = value.places().next().is_none() && !value.as_str().trim().is_empty();
            // A path says where a secret is.
            if written
                && sounds_secret(name)
                && !value.as_str().starts_with('/')
                && looks_secret(value.as_str()).is_none()
            {
                forbidden(format!("env.{name}"), "the value of a secret");
            }
        }
    }

    /// The resources whose secrets the server gives to the executing agent, by variable.
    pub fn server_secrets(&self) -> impl Iterator<Item = (&str, ResourceName)> {
        self.secrets.iter().filter_map(|(variable, text)| match NamedSecret::parse(text) {
            Ok(NamedSecret::Server(name)) => Some((variable.as_str(), name)),
            _ => None,
        })
    }

    /// What an agent must have to execute this on a host: that it reaches the host, and a key to seal secrets to if there
    /// are any from the server.
    pub fn requires(&self, host: &Host) -> Labels {
        let reach = host.connection.required_labels(&host.name);
        if self.server_secrets().next().is_none() {
            return reach;
        }
        Labels::of(reach.iter().chain([(Connection::SEALING_LABEL, Connection::SEALING)]))
    }

    /// A place that asks for a parameter the schema does not know will never be filled.
    fn check_places(&self, checks: &mut Checks) {
        let properties = self.params.as_ref().and_then(|schema| schema.get("properties")).and_then(Value::as_object);
        for (path, template) in self.templates() {
            for place in template.places() {
                let Reference::Param(names) = place else { continue };
                let known = match properties {
                    None => self.params.is_some(),
                    Some(properties) => names.first().is_some_and(|first| properties.contains_key(first)),
                };
                if !known {
                    checks.holds(false, &path, format!("{place} is not among the parameters"));
                }
            }
        }
    }

    fn templates(&self) -> Vec<(String, &Template)> {
        let mut all: Vec<(String, &Template)> =
            self.argv.iter().enumerate().map(|(n, item)| (format!("argv[{n}]"), item)).collect();
        all.extend(self.env.iter().map(|(name, value)| (format!("env.{name}"), value)));
        all.extend(self.cwd.iter().map(|text| ("cwd".to_owned(), text)));
        all.extend(self.stdin.iter().map(|text| ("stdin".to_owned(), text)));
        all
    }

    /// What it wants to know about each host beyond its name.
    pub fn wants_of_host(&self) -> BTreeSet<&Reference> {
        self.templates().into_iter().flat_map(|(_, template)| template.places()).filter(|p| p.is_of_host()).collect()
    }

    /// The names of the variables among that.
    pub fn wants_vars(&self) -> BTreeSet<&str> {
        self.wants_of_host()
            .into_iter()
            .filter_map(|place| match place {
                Reference::HostVar(path) => path.first().map(String::as_str),
                _ => None,
            })
            .collect()
    }

    /// That much of a host's labels and effective variables, and no more: of a variable with others inside, what stands at
    /// the end of the path. A list or an object there is taken without what is in it, because no place can be filled with it.
    /// Steps are used up for each place that is looked at and each byte that is copied.
    pub fn scope_of(&self, labels: &Labels, vars: &HostVars<'_>, steps: &mut Steps) -> Result<HostScope, TooCostly> {
        let mut scope = HostScope::default();
        for place in self.wants_of_host() {
            match place {
                Reference::HostLabel(name) => {
                    steps.take(LOOKUP_STEPS)?;
                    if let Some(value) = labels.get(name) {
                        steps.take(name.len() + value.len())?;
                        scope.labels.insert(name.clone(), value.to_owned());
                    }
                }
                Reference::HostVar(path) => {
                    steps.take(LOOKUP_STEPS * (vars.places() + path.len()))?;
                    let Some((first, rest)) = path.split_first() else { continue };
                    let value = vars.get(first).and_then(|value| inside(value, rest));
                    let value = match value {
                        None => continue,
                        Some(Value::Array(_)) => Value::Array(Vec::new()),
                        Some(Value::Object(_)) => Value::Object(Vars::new()),
                        Some(Value::String(text)) => {
                            steps.take(text.len())?;
                            Value::String(text.clone())
                        }
                        Some(value) => value.clone(),
                    };
                    steps.take(path.iter().map(String::len).sum())?;
                    put_inside(&mut scope.vars, path, value);
                }
                Reference::Param(_) | Reference::HostName => {}
            }
        }
        Ok(scope)
    }

    /// Every text of it, with its places filled; the first that cannot be is named.
    pub fn filled(&self, scope: &Scope<'_>) -> Result<Vec<(String, String)>, (String, Cannot)> {
        let (mut all, mut bytes) = (Vec::new(), 0);
        for (path, template) in self.templates() {
            let text = template.fill(scope).map_err(|cannot| (path.clone(), cannot))?;
            bytes += text.len();
            if bytes > FILLED_MAX {
                return Err((path, Cannot::AllTooLong { max: FILLED_MAX }));
            }
            all.push((path, text));
        }
        Ok(all)
    }

    /// Whether every place can be filled; the first that cannot is named. How many bytes all texts have then.
    pub fn try_fill(&self, scope: &Scope<'_>) -> Result<usize, (String, Cannot)> {
        self.filled(scope).map(|texts| texts.iter().map(|(_, text)| text.len()).sum())
    }

    /// Takes the server's rule where the type has none.
    pub fn with_retries(mut self, server: &CommandRetries) -> Self {
        if self.retry.is_none() {
            let unstarted = self.retry_not_started.get_or_insert(server.not_started);
            if server.failed {
                self.retry = Some(unstarted.as_policy());
            }
        }
        self
    }

    /// The rules each host's part of the job runs under. It has no dead letters: the job itself tells what failed.
    pub fn policy(&self) -> JobPolicy {
        JobPolicy {
            retry: self.retry.clone().unwrap_or_else(|| RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }),
            retry_not_started: self.retry_not_started,
            timeout_ms: self.timeout_ms,
            deadline_ms: None,
            on_lost: if self.idempotent { OnLost::Retry } else { OnLost::Error },
            dead_letter: false,
        }
    }
}

/// What a server does about attempts that failed, for commands whose type does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommandRetries {
    /// Where nothing was started.
    pub not_started: StartRetry,
    /// Whether the same holds where the command ran, and failed or took too long.
    pub failed: bool,
}

/// Writes a value to the end of a path. What was written deeper down before stays.
fn put_inside(vars: &mut Vars, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        vars.entry(first.clone()).or_insert(value);
    } else if let Value::Object(inner) = vars.entry(first.clone()).or_insert_with(|| Value::Object(Vars::new())) {
        put_inside(inner, rest, value);
    }
}

/// Whether this can be the name of a user on any host.
fn is_user(name: &str) -> bool {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=32).contains(&name.len()) && !name.starts_with('-') && name.bytes().all(fine)
}

impl ApprovalRule {
    fn check(&self) -> Result<(), BadSpec> {
        if !(1..=100).contains(&self.quorum) {
            return Err(bad("approval.quorum", "between 1 and 100"));
        }
        if !(1_000..=30 * 24 * 60 * 60 * 1_000).contains(&self.expires_ms) {
            return Err(bad("approval.expires_ms", "between 1000 and 2592000000 (thirty days)"));
        }
        match self.selector.as_deref().map(Selector::parse) {
            Some(Err(error)) => Err(bad("approval.selector", error.to_string())),
            _ => Ok(()),
        }
    }
}

/// A command with its parameters, as a job is pinned to it: what each host is told to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PinnedCommand {
    /// Absent for a command that was written for this one job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<ResourceName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    pub spec: CommandSpec,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub params: Vars,
}

impl PinnedCommand {
    /// What blocks and figures call it.
    pub fn type_name(&self) -> &str {
        self.name.as_ref().map_or("ad-hoc", ResourceName::as_str)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::host::{Group, GroupVars};

    fn spec(value: Value) -> Result<CommandSpec, String> {
        let spec: CommandSpec = serde_json::from_value(value).map_err(|e| e.to_string())?;
        spec.check().map_err(|e| e.to_string())?;
        Ok(spec)
    }

    #[test]
    fn a_command_is_argv_or_a_script() {
        assert!(spec(json!({"argv": ["uptime"]})).is_ok());
        assert!(spec(json!({"script": "uptime | tail -1"})).is_ok());
        for (value, path) in [
            (json!({}), "argv"),
            (json!({"argv": [" "]}), "argv[0]"),
            (json!({"script": " \n"}), "script"),
            (json!({"argv": ["a"], "script": "b"}), "script"),
            (json!({"argv": ["a", "{{ params.user }}"]}), "argv[1]"),
            (json!({"argv": ["a"], "params": {"properties": {"x": {}}}, "cwd": "/{{ params.y }}"}), "cwd"),
            (json!({"argv": ["a"], "env": {"1A": "x"}}), "env"),
            (json!({"argv": ["a"], "env": {"A-B": "x"}}), "env"),
            (json!({"argv": ["a"], "env": {"": "x"}}), "env"),
            (json!({"argv": ["a"], "env": {"A".repeat(129): "x"}}), "env"),
            (json!({"argv": ["a"], "secrets": {"A".repeat(129): "x"}}), "env"),
            (json!({"script": "a\u{0}b"}), "script"),
            (json!({"argv": ["a"], "env": {"A": "x"}, "secrets": {"A": "key"}}), "secrets"),
            (json!({"argv": ["a"], "secrets": {"A": "../key"}}), "secrets.A"),
            (json!({"argv": ["a"], "secrets": {"A": "file://key"}}), "secrets.A"),
            (json!({"argv": ["a"], "secrets": {"A": "secret://../key"}}), "secrets.A"),
            (json!({"argv": ["a"], "env": {"DB_PASSWORD": "hunter22"}}), "env.DB_PASSWORD"),
            (json!({"argv": ["curl", format!("https://bot:{}@example.org/", "hunter22")]}), "argv[1]"),
            (json!({"script": format!("export KEY=sk_live_{}", "x".repeat(24))}), "script"),
            (json!({"argv": ["a"], "timeout_ms": 0}), "retry"),
            (json!({"argv": ["a"], "retry_not_started": {"max_retries": 1000}}), "retry_not_started"),
            (json!({"argv": ["a"], "approval": {"quorum": 0}}), "approval.quorum"),
            (json!({"argv": ["a"], "approval": {"quorum": 101}}), "approval.quorum"),
            (json!({"argv": ["a"], "approval": {"expires_ms": 999}}), "approval.expires_ms"),
            (json!({"argv": ["a"], "approval": {"expires_ms": 2_592_000_001_u64}}), "approval.expires_ms"),
            (json!({"argv": ["a"], "approval": {"selector": "a &"}}), "approval.selector"),
            (json!({"argv": ["a"], "output_max_bytes": 68_719_476_737_u64}), "output_max_bytes"),
            (json!({"argv": ["a"], "user": ""}), "user"),
            (json!({"argv": ["a"], "user": "-oops"}), "user"),
            (json!({"argv": ["a"], "user": "a b"}), "user"),
            (json!({"argv": ["a"], "user": "x".repeat(33)}), "user"),
            (json!({"argv": ["a"], "limits": {"pids_max": 0}}), "limits.pids_max"),
            (json!({"argv": ["a"], "limits": {"memory_max_bytes": 1000}}), "limits.memory_max_bytes"),
            (json!({"argv": ["a"], "limits": {"cpu_max_percent": 0}}), "limits.cpu_max_percent"),
            (json!({"argv": ["a"], "limits": {"file_max_bytes": 0}}), "limits.file_max_bytes"),
        ] {
            let error = spec(value.clone()).expect_err("it is refused");
            assert!(error.starts_with(&format!("{path}: ")), "{value}: {error}");
            assert!(!error.contains("hunter22"), "{error}");
        }
        for fine in [
            json!({"argv": ["a"], "secrets": {"A": "secret://billing", "B": "agent://key", "C": "key"}}),
            json!({"argv": ["a"], "env": {"PASSWORD": "{{ params.p }}", "TOKEN": "/run/token"}, "params": {}}),
            json!({"argv": ["a"], "env": {"PASSWORD": "", "MODE": "fast", "_A1": "x", "A".repeat(128): "x"}}),
            json!({"argv": ["a"], "user": "x".repeat(32), "approval": {"quorum": 1, "expires_ms": 1_000}}),
            json!({"argv": ["a"], "user": "a-b.c_9", "approval": {"quorum": 100, "expires_ms": 2_592_000_000_u64}}),
            json!({"argv": ["a"], "approval": {"selector": "env=production"}}),
        ] {
            assert!(spec(fine.clone()).is_ok(), "{fine}");
        }
        assert!(spec(json!({"argv": "uptime"})).is_err());
        assert!(spec(json!({"argv": ["a"], "agrv": []})).is_err());
        assert!(spec(json!({"argv": ["a"], "approval": []})).is_err());
        assert!(spec(json!({"argv": ["a"], "limits": {"cpus": 1}})).is_err());
        assert!(spec(json!({"argv": ["a"], "sandbox": "tight"})).is_err());
    }

    #[test]
    fn a_secret_that_is_written_down_is_told_once() {
        let value = format!("sk_live_{}", "x".repeat(24));
        let error = spec(json!({"argv": ["a"], "env": {"API_KEY": value}})).expect_err("it is refused");
        assert!(error.starts_with("env.API_KEY: this looks like a live key") && !error.contains("more)"), "{error}");
    }

    #[test]
    fn a_command_is_called_by_its_type_if_it_has_one() {
        let pinned = |name: Option<&str>| PinnedCommand {
            name: name.map(|name| ResourceName::new(name).unwrap()),
            version: None,
            spec: CommandSpec::default(),
            params: Vars::new(),
        };
        assert_eq!((pinned(Some("restart")).type_name(), pinned(None).type_name()), ("restart", "ad-hoc"));
    }

    #[test]
    fn a_command_that_asks_for_no_isolation_is_written_as_before() {
        let plain = serde_json::to_value(spec(json!({"argv": ["a"]})).unwrap()).unwrap();
        for field in ["user", "sandbox", "limits"] {
            assert!(plain.get(field).is_none(), "{plain}");
        }
        let asked = json!({"argv": ["a"], "user": "deploy", "sandbox": "strict", "limits": {"pids_max": 9}});
        let written = serde_json::to_value(spec(asked.clone()).unwrap()).unwrap();
        for field in ["user", "sandbox", "limits"] {
            assert_eq!(written[field], asked[field]);
        }
    }

    #[test]
    fn secrets_of_the_server_go_to_agents_that_have_a_key() {
        let host: Host = serde_json::from_value(json!({"name": "web1"})).unwrap();
        let requires =
            |secrets: Value| spec(json!({"argv": ["a"], "secrets": secrets})).unwrap().requires(&host).canonical();
        assert_eq!(requires(json!({})), "bowline/agent=web1");
        assert_eq!(requires(json!({"A": "key", "B": "agent://key"})), "bowline/agent=web1");
        assert_eq!(requires(json!({"A": "key", "B": "secret://key"})), "bowline/agent=web1 bowline/sealing=x25519");
    }

    #[test]
    fn only_what_is_asked_for_is_taken_from_a_host() {
        let command = spec(json!({
            "argv": ["x", "{{ host.labels.role }}", "{{ host.vars.deep.port }}", "{{ host.vars.none }}"],
        }))
        .expect("it is a command");
        let labels = crate::name::Labels::from_canonical("role=web site=fra").expect("labels");
        let vars = json!({"deep": {"port": 1}, "password": "secret"});
        let vars = HostVars::own(vars.as_object().expect("an object"));
        let scope = command.scope_of(&labels, &vars, &mut Steps::up_to(SCOPE_STEPS_MAX)).expect("enough steps");
        assert_eq!(
            serde_json::to_value(&scope).unwrap(),
            json!({"labels": {"role": "web"}, "vars": {"deep": {"port": 1}}})
        );
        let full = Scope { params: &Vars::new(), host_name: "h", host: &scope };
        let (path, cannot) = command.try_fill(&full).expect_err("one is missing");
        assert_eq!((path.as_str(), cannot.to_string().as_str()), ("argv[3]", "host.vars.none has no value"));
        assert_eq!(command.wants_vars(), BTreeSet::from(["deep", "none"]));
    }

    #[test]
    fn whatever_is_looked_up_or_copied_uses_up_steps() {
        let argv = ["{{ host.labels.role }}", "{{ host.vars.deep.port }}", "{{ host.vars.name }}"];
        let command = spec(json!({"argv": argv})).expect("it is a command");
        let labels = Labels::of([("role", "web"), ("site", "fra")]);
        let vars = json!({"deep": {"port": 1}, "name": "abcde"});
        let vars = HostVars::own(vars.as_object().expect("an object"));
        let (role, port, name) = (4 + 4 + 3, 4 * (1 + 2) + 4 + 4, 4 * (1 + 1) + 4 + 5);
        let needed = role + port + name;
        let mut steps = Steps::up_to(needed);
        assert!(command.scope_of(&labels, &vars, &mut steps).is_ok());
        assert_eq!(steps.left(), 0);
        assert_eq!(command.scope_of(&labels, &vars, &mut Steps::up_to(needed - 1)), Err(TooCostly));
    }

    #[test]
    fn the_bytes_of_all_filled_texts_are_counted() {
        let command = spec(json!({"argv": ["x", "{{ host.name }}"], "env": {"A": "bc"}})).expect("it is a command");
        let scope = Scope { params: &Vars::new(), host_name: "web1", host: &HostScope::default() };
        assert_eq!(command.try_fill(&scope), Ok(7));
        let filled = command.filled(&scope).expect("each has a value");
        let filled: Vec<_> = filled.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        assert_eq!(filled, [("argv[0]", "x"), ("argv[1]", "web1"), ("env.A", "bc")]);
    }

    #[test]
    fn a_command_that_is_not_idempotent_is_not_tried_again_blindly() {
        let once = spec(json!({"argv": ["reboot"]})).expect("a command").policy();
        assert_eq!((once.on_lost, once.retry.max_attempts, once.dead_letter), (OnLost::Error, 1, false));
        let again =
            spec(json!({"argv": ["true"], "idempotent": true, "retry": {"max_attempts": 3}})).expect("a command");
        assert_eq!((again.policy().on_lost, again.policy().retry.max_attempts), (OnLost::Retry, 3));
    }

    #[test]
    fn the_servers_rule_about_retries_holds_where_a_type_has_none() {
        let server =
            CommandRetries { not_started: StartRetry { max_retries: 5, ..StartRetry::default() }, failed: false };
        let all = CommandRetries { failed: true, ..server };
        let numbers = |value: Value, server: &CommandRetries| {
            let policy = spec(value).expect("a command").with_retries(server).policy();
            (policy.retry.max_attempts, policy.retry_not_started.map(|retry| retry.max_retries))
        };
        assert_eq!(numbers(json!({"argv": ["a"]}), &server), (1, Some(5)));
        assert_eq!(numbers(json!({"argv": ["a"]}), &all), (6, Some(5)));
        let own = json!({"argv": ["a"], "retry_not_started": {"max_retries": 0}});
        assert_eq!(numbers(own.clone(), &server), (1, Some(0)));
        assert_eq!(numbers(own, &all), (1, Some(0)));
        for server in [server, all] {
            assert_eq!(numbers(json!({"argv": ["a"], "retry": {"max_attempts": 2}}), &server), (2, None));
        }
    }

    fn large_vars() -> impl Strategy<Value = Vars> {
        let text = (0..40_000_usize).prop_map(|len| Value::String("x".repeat(len)));
        let leaf = prop_oneof![text.clone(), Just(json!(1)), Just(json!([[1, 2], {"a": "x".repeat(5_000)}]))];
        let value = leaf.prop_recursive(3, 12, 4, |inner| {
            proptest::collection::btree_map("[a-c]", inner, 0..4).prop_map(|map| json!(map))
        });
        proptest::collection::btree_map("[a-c]", value, 0..4).prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// However large the variables of a host and its groups are, no more is copied than the steps allow, and what is
        /// copied fills the places as the whole of them would.
        #[test]
        fn no_more_is_taken_from_a_host_than_steps_allow(
            (own, group) in (large_vars(), large_vars()),
            paths in proptest::collection::vec("[a-c](\\.[a-c]){0,3}", 1..20),
            budget in 0..200_000_u64,
        ) {
            let command = CommandSpec {
                argv: paths.iter().map(|path| Template::parse(&format!("{{{{ host.vars.{path} }}}}")).expect("a template")).collect(),
                ..CommandSpec::default()
            };
            let mut host = Host::named(crate::HostName::new("h").expect("a name"));
            let name = crate::GroupName::new("g").expect("a name");
            host.groups.insert(name.clone());
            host.vars = own;
            let groups = GroupVars::new([Group { name, groups: BTreeSet::new(), vars: group }]);
            let mut steps = Steps::up_to(budget);
            if let Ok(scope) = command.scope_of(&host.labels, &groups.of(&host), &mut steps) {
                let copied: u64 = json_texts(&scope.vars);
                prop_assert!(copied <= budget - steps.left(), "{copied} bytes for {} steps", budget - steps.left());
                let whole = HostScope { labels: BTreeMap::new(), vars: groups.effective(&host) };
                for template in &command.argv {
                    let fill = |host: &HostScope| template.fill(&Scope { params: &Vars::new(), host_name: "h", host });
                    prop_assert_eq!(fill(&scope), fill(&whole));
                }
            } else {
                prop_assert_eq!(steps.left(), 0);
            }
        }
    }

    /// The bytes of all texts in these variables.
    fn json_texts(vars: &Vars) -> u64 {
        fn of(value: &Value) -> u64 {
            match value {
                Value::String(text) => text.len() as u64,
                Value::Array(all) => all.iter().map(of).sum(),
                Value::Object(all) => json_texts(all),
                _ => 0,
            }
        }
        vars.values().map(of).sum()
    }

    #[test]
    fn all_texts_of_a_command_together_are_bounded() {
        let places: Vec<&str> = vec!["{{ params.a }}"; 20];
        let command = spec(json!({"argv": places, "params": {"properties": {"a": {}}}})).expect("a command");
        let params = json!({"a": "x".repeat(60_000)});
        let scope =
            Scope { params: params.as_object().expect("an object"), host_name: "h", host: &HostScope::default() };
        let (path, cannot) = command.try_fill(&scope).expect_err("1,200,000 bytes");
        assert_eq!((path.as_str(), cannot), ("argv[17]", Cannot::AllTooLong { max: 1_048_576 }));
    }
}
