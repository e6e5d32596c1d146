//! The last gate before a command: whom it may run as here, how much it may use, and whether what its type asks for can be
//! given. A server that was taken over asks for whatever it likes; what the agent was started with is what counts.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bowline_execute::{HeldBy, Machine, Manifest, RunUser};
use bowline_model::fleet::CommandSpec;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::error::chain;
use crate::fleet::error::FleetError;
use crate::fleet::roster::Executor;
use crate::fleet::settings::IsolationSettings;

pub(crate) struct Guard {
    settings: IsolationSettings,
    /// What the agent's own user is called.
    own: String,
    /// Whom commands run as whose type names no user; `None` is the agent's own user.
    usual: Option<String>,
    machine: Machine,
    allow_new_privileges: bool,
    /// What is closed to commands that have the agent's user.
    closed: Vec<PathBuf>,
}

/// Whom the commands of an agent that is root run as, unless it was told otherwise.
const STRANGER: &str = "nobody";

/// Why a command is not executed by this agent. Nothing was begun.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GuardError {
    #[error("this agent does not run commands as {asked}; it may run them as {may}")]
    NotAllowed { asked: String, may: String },
    #[error("there is no user {0} on this host")]
    Unknown(String),
    #[error("user {name} cannot be looked up: {why}")]
    Lookup { name: String, why: String },
    #[error("{0} cannot be given to a command over SSH")]
    OverSsh(&'static str),
    #[error(
        "nothing on this host holds {0}, which the command's type asks for; give the agent a control group of its own \
         (--cgroup-parent), or run the command without"
    )]
    Unheld(String),
}

impl GuardError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAllowed { .. } => "USER_NOT_ALLOWED",
            Self::Unknown(_) | Self::Lookup { .. } => "USER_UNKNOWN",
            Self::OverSsh(_) | Self::Unheld(_) => "NOT_ISOLATED",
        }
    }
}

impl Guard {
    /// Refuses settings that this agent could not keep, and says what it can and cannot enforce.
    pub fn open(
        settings: &IsolationSettings,
        allow_new_privileges: bool,
        closed: Vec<PathBuf>,
    ) -> Result<Self, FleetError> {
        let machine = Machine::look(settings.cgroup_parent.as_deref());
        let guard = Self { closed, ..Self::new(settings.clone(), RunUser::own_name(), machine, allow_new_privileges) };
        guard.check()?;
        info!("isolation on this host: {}", guard.describe());
        if guard.shares_agent_user() {
            warn!(
                "commands may run as the agent's own user ({}) and read its key and credential; it gets sealed secrets only if \
                 its join token says so (see \"Users\" in docs/guide/agents.md)",
                guard.own
            );
        }
        if !settings.limits.is_empty() && guard.machine.limits.values().any(|by| *by == HeldBy::Nothing) {
            warn!("some limits cannot be enforced on this host; what holds each is told with the start of every run");
        }
        Ok(guard)
    }

    fn new(settings: IsolationSettings, own: String, machine: Machine, allow_new_privileges: bool) -> Self {
        let by_default = (machine.root && !settings.share_user).then(|| STRANGER.to_owned());
        let usual = settings.run_as.clone().or(by_default);
        Self { settings, own, usual, machine, allow_new_privileges, closed: Vec::new() }
    }

    /// Whether some command may run as this agent's user, with its key and credential in reach.
    pub fn shares_agent_user(&self) -> bool {
        let may_be_own = || {
            let usual = self.usual.as_ref().is_none_or(|usual| *usual == self.own);
            usual || self.may_say_own() || self.settings.allow_users.contains(&self.own)
        };
        match self.machine.root {
            true => self.allow_new_privileges || may_be_own(),
            false => !self.closes(),
        }
    }

    /// Whether a type may name the agent's own user: where the agent was not told whom commands run as.
    fn may_say_own(&self) -> bool {
        self.settings.run_as.is_none()
    }

    /// Whether the directory of an agent that is not root is closed to commands.
    fn closes(&self) -> bool {
        !self.settings.share_user && !self.allow_new_privileges && self.machine.can_close()
    }

    fn check(&self) -> Result<(), FleetError> {
        for name in self.usual.iter().chain(&self.settings.allow_users) {
            if !self.machine.root {
                return Err(FleetError::NotRoot { user: name.clone() });
            }
            match RunUser::find(name) {
                Ok(Some(_)) => {}
                Ok(None) => return Err(FleetError::NoSuchUser { user: name.clone() }),
                Err(source) => return Err(FleetError::UserLookup { user: name.clone(), source }),
            }
        }
        self.settings.limits.check().map_err(|(limit, what)| FleetError::Limits { limit, what })
    }

    /// What the server is told about it.
    pub fn tell(&self) -> Value {
        let IsolationSettings { allow_users, limits, .. } = &self.settings;
        let run_as = self.usual.as_ref().unwrap_or(&self.own);
        json!({"run_as": run_as, "allow_users": allow_users, "limits_max": limits, "machine": self.machine,
               "sandbox": self.machine.sandbox().is_ok()})
    }

    /// The same for people.
    pub fn describe(&self) -> String {
        let run_as = self.usual.as_ref().unwrap_or(&self.own);
        let own = (self.may_say_own() && self.usual.is_some()).then_some(&self.own);
        let others: Vec<&str> = self.settings.allow_users.iter().chain(own).map(String::as_str).collect();
        let others = if others.is_empty() { String::new() } else { format!(" (or {})", others.join(", ")) };
        let shared = if self.shares_agent_user() { ", and may share the agent's user" } else { "" };
        format!("commands run as {run_as}{others}{shared}; {}", self.machine.describe())
    }

    /// Commands of other users work below this directory, so they must get there.
    pub fn can_work_in(&self, data: &Path) -> Result<(), FleetError> {
        let Ok(data) = data.canonicalize() else { return Ok(()) };
        let names = self.usual.iter().chain(&self.settings.allow_users);
        for user in names.filter_map(|name| RunUser::find(name).ok().flatten()).filter(|user| user.uid != 0) {
            let closed = data.ancestors().find(|path| fs::metadata(path).is_ok_and(|meta| !passes(&user, &meta)));
            if let Some(path) = closed {
                return Err(FleetError::Closed { path: path.to_owned(), user: user.name });
            }
        }
        Ok(())
    }

    /// Whether any command runs as somebody else than this agent.
    pub fn has_other_users(&self) -> bool {
        self.usual.is_some() || !self.settings.allow_users.is_empty()
    }

    /// Puts into the manifest what this agent gives to a command of this type, or says why it gives nothing.
    pub fn admit(&self, spec: &CommandSpec, executor: Executor, manifest: &mut Manifest) -> Result<(), GuardError> {
        match executor {
            Executor::Remote => {
                // The connection says who logs in, and nothing there is ours to enforce.
                let cannot = [
                    (spec.user.is_some(), "a user"),
                    (!spec.sandbox.is_none(), "a sandbox"),
                    (!spec.limits.is_empty(), "limits"),
                ];
                cannot.into_iter().find(|(asked, _)| *asked).map_or(Ok(()), |(_, what)| Err(GuardError::OverSsh(what)))
            }
            Executor::Local | Executor::Simulated => {
                manifest.user = self.user(spec.user.as_deref())?;
                if !self.machine.root && self.closes() {
                    manifest.closed.clone_from(&self.closed);
                }
                manifest.sandbox = spec.sandbox;
                manifest.limits = spec.limits.within(&self.settings.limits);
                if executor == Executor::Simulated {
                    return Ok(());
                }
                // What the agent was started with and nothing holds is told with the run; what a type asks for is had or refused.
                let is_root = manifest.user.as_ref().map_or(self.machine.root, |user| user.uid == 0);
                let unheld = self.machine.unheld(&spec.limits, is_root);
                if unheld.is_empty() { Ok(()) } else { Err(GuardError::Unheld(unheld.join(" and "))) }
            }
        }
    }

    fn user(&self, asked: Option<&str>) -> Result<Option<RunUser>, GuardError> {
        let usual = self.usual.as_deref();
        let Some(name) = asked.or(usual) else { return Ok(None) };
        let is_own = name == self.own && (usual.is_none() || self.may_say_own());
        if is_own {
            return Ok(None);
        }
        if usual != Some(name) && !self.settings.allow_users.iter().any(|allowed| allowed == name) {
            let own = (usual.is_none() || self.may_say_own()).then(|| self.own.clone());
            let may = self.usual.iter().cloned().chain(own).chain(self.settings.allow_users.iter().cloned());
            let may: Vec<String> = may.collect();
            return Err(GuardError::NotAllowed { asked: name.to_owned(), may: may.join(", ") });
        }
        match RunUser::find(name) {
            Ok(Some(user)) => Ok(Some(user)),
            Ok(None) => Err(GuardError::Unknown(name.to_owned())),
            Err(error) => Err(GuardError::Lookup { name: name.to_owned(), why: chain(&error) }),
        }
    }
}

/// Whether this user may pass through this directory.
fn passes(user: &RunUser, directory: &Metadata) -> bool {
    let bit = match () {
        () if directory.uid() == user.uid => 0o100,
        () if user.groups.contains(&directory.gid()) => 0o010,
        () => 0o001,
    };
    directory.mode() & bit != 0
}

#[cfg(test)]
mod tests {
    use bowline_execute::Limits;

    use super::*;

    fn guard(run_as: Option<&str>, allow: &[&str], root: bool, own: &str) -> Guard {
        let settings = IsolationSettings {
            run_as: run_as.map(str::to_owned),
            allow_users: allow.iter().map(|name| (*name).to_owned()).collect(),
            ..IsolationSettings::default()
        };
        Guard::new(settings, own.to_owned(), Machine { root, ..Machine::look(None) }, false)
    }

    fn name(user: Result<Option<RunUser>, GuardError>) -> Result<Option<String>, &'static str> {
        user.map(|user| user.map(|user| user.name)).map_err(|error| error.code())
    }

    #[test]
    fn only_users_that_the_agent_was_given_are_become() {
        let named = |name: &str| Ok(Some(name.to_owned()));
        let plain = guard(None, &[], true, "root");
        assert_eq!(name(plain.user(None)), named("nobody"), "root is not shared unless a type says so");
        assert_eq!(name(plain.user(Some("root"))), Ok(None), "it is root anyway");
        assert_eq!(name(plain.user(Some("daemon"))), Err("USER_NOT_ALLOWED"));
        let unprivileged = guard(None, &[], false, "ann");
        assert_eq!(name(unprivileged.user(None)), Ok(None));
        assert_eq!(name(unprivileged.user(Some("ann"))), Ok(None));
        assert_eq!(name(unprivileged.user(Some("root"))), Err("USER_NOT_ALLOWED"));
        let lowered = guard(Some("nobody"), &[], true, "root");
        assert_eq!(name(lowered.user(None)), named("nobody"));
        assert_eq!(name(lowered.user(Some("nobody"))), named("nobody"));
        assert_eq!(name(lowered.user(Some("root"))), Err("USER_NOT_ALLOWED"), "the way back is closed");
        let listed = guard(Some("nobody"), &["daemon", "gone-since"], true, "root");
        assert_eq!(name(listed.user(Some("daemon"))), named("daemon"));
        assert_eq!(name(listed.user(Some("gone-since"))), Err("USER_UNKNOWN"));
        let refused = listed.user(Some("bin")).unwrap_err().to_string();
        assert_eq!(refused, "this agent does not run commands as bin; it may run them as nobody, daemon, gone-since");
    }

    #[test]
    fn an_agent_says_whether_commands_share_its_user() {
        let shares = |guard: &Guard| guard.shares_agent_user();
        let sharing = |mut guard: Guard| {
            guard.settings.share_user = true;
            Guard::new(guard.settings, guard.own, guard.machine, false)
        };
        let gaining = |guard: Guard| Guard { allow_new_privileges: true, ..guard };
        assert!(shares(&guard(None, &[], true, "root")), "a type may say root");
        assert!(shares(&sharing(guard(None, &[], true, "root"))));
        assert!(shares(&guard(Some("root"), &[], true, "root")));
        assert!(shares(&guard(Some("nobody"), &["root"], true, "root")));
        assert!(shares(&gaining(guard(Some("nobody"), &[], true, "root"))), "sudo makes it root");
        assert!(!shares(&guard(Some("nobody"), &["daemon"], true, "root")));
        let unprivileged = |landlock| {
            let mut guard = guard(None, &[], false, "ann");
            guard.machine = Machine { landlock, seccomp: true, ..guard.machine };
            guard
        };
        assert!(!shares(&unprivileged(Some(3))), "its directory is closed");
        assert!(shares(&unprivileged(None)), "what the kernel cannot give is shown");
        assert!(shares(&gaining(unprivileged(Some(6)))) && shares(&sharing(unprivileged(Some(6)))));
    }

    #[test]
    fn the_directory_of_an_agent_that_is_not_root_is_closed_to_its_commands() {
        use crate::fleet::command::{manifest, tests::task};
        use serde_json::json;
        let (task, wish) = task(&json!({"spec": {"argv": ["x"]}}));
        let closed = |root: bool, landlock| {
            let mut guard = guard(root.then_some("nobody"), &[], root, "ann");
            guard.machine = Machine { landlock, seccomp: true, ..guard.machine };
            guard.closed = vec!["/data".into()];
            let mut made = manifest(&task, &wish, false).unwrap();
            guard.admit(&wish.command.spec, Executor::Local, &mut made).unwrap();
            made.closed
        };
        assert_eq!(closed(false, Some(6)), [PathBuf::from("/data")]);
        assert!(
            closed(false, None).is_empty(),
            "there it runs all the same, and the agent says that it shares its user"
        );
        assert!(closed(true, Some(6)).is_empty(), "another user does not get there anyway");
    }

    #[test]
    fn settings_that_cannot_be_kept_are_refused_at_the_start() {
        let error = |guard: Guard| guard.check().unwrap_err().to_string();
        assert_eq!(
            error(guard(Some("nobody"), &[], false, "ann")),
            "only an agent that is root can run commands as nobody; start it as root, or without --run-as and --allow-user"
        );
        assert!(error(guard(None, &["nobody"], false, "ann")).contains("root"));
        assert!(error(guard(Some("no-such"), &[], true, "root")).starts_with("there is no user no-such on this host"));
        assert!(guard(Some("nobody"), &["daemon"], true, "root").check().is_ok());
        assert!(guard(None, &[], false, "ann").check().is_ok());
        let mut tight = guard(None, &[], false, "ann");
        tight.settings.limits.memory_max_bytes = Some(1);
        assert!(error(tight).contains("memory_max_bytes"));
    }

    #[test]
    fn what_a_type_asks_for_is_given_within_what_the_agent_allows_and_never_over_ssh() {
        use crate::fleet::command::{manifest, tests::task};
        use serde_json::json;
        let mut guard = guard(None, &[], true, "root");
        guard.machine.limits.extend(["pids_max", "memory_max_bytes"].map(|name| (name.to_owned(), HeldBy::Group)));
        guard.settings.limits = Limits { pids_max: Some(50), file_max_bytes: Some(9), ..Limits::default() };
        let limits = json!({"pids_max": 500, "memory_max_bytes": 1 << 20});
        let (task, wish) = task(&json!({"spec": {"argv": ["x"], "sandbox": "strict", "limits": limits}}));
        let mut made = manifest(&task, &wish, false).unwrap();
        guard.admit(&wish.command.spec, Executor::Local, &mut made).unwrap();
        assert_eq!(made.sandbox, bowline_execute::Sandbox::Strict);
        let held = Limits {
            pids_max: Some(50),
            memory_max_bytes: Some(1 << 20),
            cpu_max_percent: None,
            file_max_bytes: Some(9),
        };
        assert_eq!(made.limits, held);
        guard.machine.limits.insert("pids_max".to_owned(), HeldBy::User);
        guard.machine.limits.insert("memory_max_bytes".to_owned(), HeldBy::Nothing);
        let refused = guard.admit(&wish.command.spec, Executor::Local, &mut made).unwrap_err();
        assert_eq!((refused.code(), refused), ("NOT_ISOLATED", GuardError::Unheld("memory_max_bytes".to_owned())));
        assert_eq!(
            guard.admit(&wish.command.spec, Executor::Simulated, &mut made),
            Ok(()),
            "nothing is executed there"
        );
        let most = crate::fleet::command::tests::task(&json!({"spec": {"argv": ["x"]}})).1.command.spec;
        assert_eq!(guard.admit(&most, Executor::Local, &mut made), Ok(()), "the agent's own most is shown instead");
        let over_ssh = guard.admit(&wish.command.spec, Executor::Remote, &mut made).unwrap_err();
        assert_eq!((over_ssh.code(), over_ssh), ("NOT_ISOLATED", GuardError::OverSsh("a sandbox")));
    }
}
