//! A run that the executor did not begin: what the server is told about it.

use bowline_execute::{BeginError, Ended};
use bowline_model::{ErrorClass, Timestamp};
use serde_json::json;

use crate::error::chain;
use crate::fleet::outbox::{Story, event};
use crate::fleet::outcome::run_end;

/// The whole story of such a run. `None` when its story is told already, by the first one of its name.
pub fn story(fence: u32, at: Timestamp, error: &BeginError) -> Option<Story> {
    use ErrorClass::{Busy, Permanent, Transient};
    let (code, class) = match error {
        BeginError::AlreadyStarted(_) => return None,
        BeginError::AlreadyExecuted { run, outcome: Some(outcome), exit_code } => {
            // The server lost its memory of it. What happened then is what happened, and it does not happen again.
            let message = format!("it was executed here before, as run {run}, and not again");
            let data = json!({"kind": "repeated", "repeated_of": run, "outcome": outcome, "exit_code": exit_code,
                              "message": message});
            let ended = Ended {
                outcome: *outcome,
                exit_code: *exit_code,
                signal: None,
                message: Some(message),
                children: None,
                duration_ms: None,
                stdout_bytes: 0,
                stderr_bytes: 0,
                last_seq: 1,
            };
            let (events, ended) = (vec![event(1, at, &data)], Some(run_end(&ended)));
            return Some(Story { fence, events, output: None, ended });
        }
        BeginError::AlreadyExecuted { outcome: None, .. } => ("STILL_RUNNING", Busy),
        BeginError::Superseded { .. } => ("SUPERSEDED", Permanent),
        BeginError::HostBusy { .. } => ("HOST_BUSY", Busy),
        BeginError::NoSpace => ("NO_SPACE", Transient),
        BeginError::Manifest(_) => ("BAD_COMMAND", Permanent),
        BeginError::Secret(_) => ("SECRET_MISSING", Permanent),
        BeginError::Sandbox { .. } => ("NO_SANDBOX", Permanent),
        BeginError::User(_) => ("USER_NOT_ALLOWED", Permanent),
        BeginError::Keeper(_) => ("NO_KEEPER", Transient),
        BeginError::Disk(_) => ("DISK_ERROR", Transient),
    };
    let message = match error {
        BeginError::NoSpace => format!("NO_SPACE: {error}"),
        _ => chain(error),
    };
    Some(Story::not_begun(fence, at, code, class, &message))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::io;

    use bowline_execute::{BadManifest, EndedAs, NoSandbox, Sandbox};
    use bowline_model::{HostName, RunId};

    use super::*;

    #[test]
    fn every_refusal_has_its_words() {
        let run = RunId::mint(Timestamp::from_millis(1), [7; 10]);
        let before = |outcome, exit_code| BeginError::AlreadyExecuted { run, outcome, exit_code };
        let errors = [
            BeginError::AlreadyStarted(run),
            before(None, None),
            before(Some(EndedAs::Succeeded), Some(0)),
            before(Some(EndedAs::Failed), Some(3)),
            before(Some(EndedAs::Interrupted), None),
            BeginError::Superseded { host: HostName::new("web-1").unwrap(), given: 1, seen: 2 },
            BeginError::HostBusy { run },
            BeginError::NoSpace,
            BeginError::Manifest(BadManifest::NoProgram),
            BeginError::Secret("db".to_owned()),
            BeginError::Sandbox { sandbox: Sandbox::Strict, source: NoSandbox::NoLandlock },
            BeginError::User("deploy".to_owned()),
            BeginError::Keeper(io::ErrorKind::NotFound.into()),
            BeginError::Disk(io::ErrorKind::PermissionDenied.into()),
        ];
        let mut table = String::new();
        for error in errors {
            let Some(story) = story(4, Timestamp::from_millis(5), &error) else {
                writeln!(table, "-").unwrap();
                continue;
            };
            let end = story.ended.unwrap();
            assert_eq!((story.fence, story.events.len(), end.last_seq), (4, 1, 1));
            let data: serde_json::Value = serde_json::from_str(story.events[0].data.get()).unwrap();
            let code = data["code"].as_str().or(data["repeated_of"].as_str().map(|_| "repeated_of")).unwrap();
            let words = end.error.map(|error| format!("{}: {}", error.class.as_str(), error.message));
            writeln!(table, "{code} {:?} {:?} {}", end.status, end.exit_code, words.unwrap_or_default()).unwrap();
        }
        let table = table.replace(&run.to_string(), "RUN");
        assert_eq!(
            table,
            "-\n\
             STILL_RUNNING Failure None busy: this or a later attempt at the job was executed here before, as run RUN\n\
             repeated_of Success Some(0) \n\
             repeated_of Failure Some(3) exit: exit code 3; it was executed here before, as run RUN, and not again\n\
             repeated_of Failure None lost: it was executed here before, as run RUN, and not again\n\
             SUPERSEDED Failure None permanent: host web-1 has been leased under 2 since, and 1 is over\n\
             HOST_BUSY Failure None busy: the host is busy with run RUN\n\
             NO_SPACE Failure None transient: NO_SPACE: there is not enough room on the disk\n\
             BAD_COMMAND Failure None permanent: the manifest names no program\n\
             SECRET_MISSING Failure None permanent: the value of secret db is missing, or cannot be a variable's value\n\
             NO_SANDBOX Failure None permanent: a command in the sandbox `strict` cannot be executed here: this kernel has no \
             Landlock, or it is switched off\n\
             USER_NOT_ALLOWED Failure None permanent: this agent is not root and cannot become user deploy\n\
             NO_KEEPER Failure None transient: the keeper could not be started: entity not found\n\
             DISK_ERROR Failure None transient: the run directory could not be made: permission denied\n"
        );
    }
}
