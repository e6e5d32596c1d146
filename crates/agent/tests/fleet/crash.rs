//! An agent that is killed in the middle of its work.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command};

use serde_json::json;

use crate::fake::{Fake, JOIN};
use crate::local::until_there;

/// An agent in a process of its own. Killed when dropped, as it would be by a machine that has no mercy.
pub struct Process(Child);

impl Process {
    pub fn start(fake: &Fake, data: &Path, join: &str, more: impl IntoIterator<Item = OsString>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline-fleet"));
        command.arg("agent").arg(fake.url()).arg(data).args(["web-1", join]).args(more);
        Self(command.spawn().unwrap())
    }

    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_command_outlives_an_agent_that_is_killed_and_is_not_started_again() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let data = room.path().join("data");
    let mut first = Process::start(&fake, &data, JOIN, []);
    let (go, starts, done) = (room.path().join("go"), room.path().join("starts"), room.path().join("done"));
    let script = format!(
        "echo $BOWLINE_RUN_ID >> {1}; echo before; mkfifo {0}; read line < {0}; echo after; touch {2}",
        go.display(),
        starts.display(),
        done.display()
    );
    let run = fake.queue(&json!({"script": script}));
    fake.until("it at work", |state| (state.text(&run, "stdout") == "before\n").then_some(())).await;
    first.kill();

    // It ends while nobody watches it.
    until_there(&go).await;
    std::fs::write(&go, "go\n").unwrap();
    until_there(&done).await;
    let _second = Process::start(&fake, &data, JOIN, []);
    assert_eq!(fake.until_ended(&run).await["status"], "success");
    assert_eq!(fake.get(|state| state.text(&run, "stdout")), "before\nafter\n");
    assert_eq!(std::fs::read_to_string(&starts).unwrap(), format!("{run}\n"), "one start");
    fake.assert_right();
}

#[tokio::test]
async fn a_run_whose_keeper_was_killed_too_is_told_as_lost() {
    let (fake, room) = (Fake::start().await, tempfile::tempdir().unwrap());
    let data = room.path().join("data");
    let mut first = Process::start(&fake, &data, JOIN, []);
    let run = fake.queue(&json!({"argv": ["sleep", "1000"]}));
    fake.until("it at work", |state| (!state.kinds(&run).is_empty()).then_some(())).await;
    first.kill();
    let directory = data.join("runs").join(&run).canonicalize().unwrap();
    let keeper = std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        line.contains(directory.to_str()?).then_some(pid)
    });
    let keeper = rustix::process::Pid::from_raw(keeper.expect("there is a keeper")).unwrap();
    rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
    let _second = Process::start(&fake, &data, JOIN, []);
    let end = fake.until_ended(&run).await;
    assert_eq!((&end["status"], &end["error"]["class"]), (&json!("failure"), &json!("lost")), "{end}");
    assert_eq!(end.get("exit_code"), None, "no exit code is invented");
    fake.assert_right();
}
