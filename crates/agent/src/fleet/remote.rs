//! Runs on hosts that have no agent, over SSH.
//!
//! They are executed by this process, and have directories like those of this host: the start marker is on disk before the first
//! word goes to the host, output and end are on disk before they are told. If this process dies in the middle, the next one
//! finds a marker without an end and says so; the run is never begun again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bowline_execute::{
    ChildProcess, Children, ChildrenBecame, Ended, EndedAs, Happening, Inside, Manifest, Secrets, Stream,
};
use bowline_model::RunId;
use bowline_model::host::Connection;
use bowline_protocol::{HostTask, Task};
use bowline_ssh::{
    ChildSearch, ChildrenSeen, NotStarted, Output, OutputSink, RemoteCommand, RemoteExit, Secret, SshError, SshPool,
    StopCause, StopEnd, Target,
};
use serde_json::json;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant as Moment, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Span, error, info};

use crate::error::chain;
use crate::fleet::begin::{not_begun, prepare};
use crate::fleet::roster::Executor;
use crate::fleet::shared::Fleet;

/// From the request to end to its enforcement, for what a command left running.
const CHILDREN_GRACE: Duration = Duration::from_secs(10);
/// Every process of a run has it in its environment, unless it was replaced there.
const RUN_VARIABLE: &str = "BOWLINE_RUN_ID";
/// Output waits this long for more of it before it goes to disk.
const GATHER: Duration = Duration::from_millis(100);

/// What is executed over SSH now, and how to end it.
pub(crate) struct Remotes {
    pool: SshPool,
    cancels: Mutex<HashMap<RunId, CancellationToken>>,
}

impl Remotes {
    pub fn new(pool: SshPool) -> Self {
        Self { pool, cancels: Mutex::default() }
    }

    pub fn cancel(&self, run: RunId) {
        if let Some(cancel) = self.lock().get(&run) {
            info!(run.id = %run, "run {run} was canceled; its command is asked to end");
            cancel.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, CancellationToken>> {
        self.cancels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries out an accepted run, from its beginning to its end on disk.
pub(crate) async fn carry_out(
    fleet: Arc<Fleet>,
    remotes: Arc<Remotes>,
    places: Arc<Semaphore>,
    task: Task,
    wish: HostTask,
) {
    let run = task.task_id;
    let cancel = CancellationToken::new();
    remotes.lock().insert(run, cancel.clone());
    if let Some((inside, order)) = begin(&fleet, &places, task, wish).await {
        execute(&remotes.pool, inside, order, cancel).await;
    }
    remotes.lock().remove(&run);
}

/// What is to be executed, and where.
struct Order {
    run: RunId,
    target: Target,
    command: RemoteCommand,
}

async fn begin(fleet: &Arc<Fleet>, places: &Semaphore, task: Task, wish: HostTask) -> Option<(Inside, Order)> {
    let _place = places.acquire().await.ok()?;
    let (fleet, run, span) = (Arc::clone(fleet), task.task_id, Span::current());
    let begun = tokio::task::spawn_blocking(move || {
        let _in_run = span.entered();
        let (manifest, secrets) = prepare(&fleet, &task, &wish, Executor::Remote)?;
        let order = Order { run, target: target(&wish), command: command(&manifest, &secrets) };
        match fleet.runs.begin_inside(manifest, &secrets) {
            Ok(mut inside) => {
                let connecting = json!({"kind": "connecting", "via": "ssh", "target": order.target.to_string()});
                if let serde_json::Value::Object(connecting) = connecting {
                    inside.tell(Happening::Other(connecting));
                }
                info!(run.id = %run, job.id = %task.job_id, "run {run} of {} has begun on {}", wish.command.type_name(), wish.host.name);
                Some((inside, order))
            }
            Err(error) => {
                not_begun(&fleet, run, task.fence, &error);
                None
            }
        }
    });
    begun.await.unwrap_or_else(|broken| {
        error!(run.id = %run, "the agent broke at the beginning of run {run}: {broken}");
        None
    })
}

fn target(wish: &HostTask) -> Target {
    let mut target = Target::new(wish.host.name.as_str());
    if let Connection::Ssh { address, port, user, .. } = &wish.host.connection {
        if let Some(address) = address {
            target.address.clone_from(address);
        }
        target.port = port.unwrap_or(target.port);
        target.user.clone_from(user);
    }
    target
}

fn command(manifest: &Manifest, secrets: &Secrets) -> RemoteCommand {
    let value = |(variable, name): (&String, &String)| Some((variable.clone(), Secret::new(secrets.get(name)?)));
    let mut command = RemoteCommand::new(manifest.argv.clone());
    command.env = manifest.env.iter().map(|(variable, value)| (variable.clone(), value.clone())).collect();
    command.secret_env = manifest.secrets.iter().filter_map(value).collect();
    command.cwd = manifest.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
    command.stdin = manifest.stdin.clone().unwrap_or_default().into();
    command.time_limit = Some(Duration::from_millis(manifest.timeout_ms));
    command.kill_grace = Duration::from_millis(manifest.kill_grace_ms);
    command.children = Some(ChildSearch {
        end_after: (!manifest.leave_children).then_some(CHILDREN_GRACE),
        marker: manifest.env.get(RUN_VARIABLE).map(|run| format!("{RUN_VARIABLE}={run}")),
    });
    command
}

type Shelf = Arc<Mutex<Option<Inside>>>;

fn lock(shelf: &Shelf) -> MutexGuard<'_, Option<Inside>> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Output on its way to the run directory.
struct Sink {
    shelf: Shelf,
    news: Arc<Notify>,
}

#[async_trait]
impl OutputSink for Sink {
    async fn write(&mut self, output: Output) -> std::io::Result<()> {
        let stream = match output.stream {
            bowline_ssh::Stream::Stdout => Stream::Stdout,
            bowline_ssh::Stream::Stderr => Stream::Stderr,
        };
        if let Some(inside) = &mut *lock(&self.shelf) {
            inside.write(stream, &output.data);
        }
        self.news.notify_one();
        Ok(())
    }
}

async fn execute(pool: &SshPool, inside: Inside, order: Order, cancel: CancellationToken) {
    let Order { run, target, command } = order;
    let ends_children = ends_children(&command);
    let began = Instant::now();
    let (shelf, news): (Shelf, _) = (Arc::new(Mutex::new(Some(inside))), Arc::new(Notify::new()));
    news.notify_one();
    let mut sink = Sink { shelf: Arc::clone(&shelf), news: Arc::clone(&news) };
    let result = {
        let work = pool.exec(&target, &command, &mut sink, cancel);
        tokio::pin!(work);
        let mut flush_at = None;
        loop {
            tokio::select! {
                result = &mut work => break result,
                () = news.notified(), if flush_at.is_none() => flush_at = Some(Moment::now() + GATHER),
                () = sleep_until(flush_at.unwrap_or_else(Moment::now)), if flush_at.is_some() => {
                    flush_at = None;
                    flush(run, &shelf).await;
                }
            }
        }
    };
    let ended = ended(&result, ends_children, began.elapsed());
    let children = result.as_ref().ok().and_then(|exit| children(&exit.children, ends_children));
    let write = move || {
        lock(&shelf).take().map_or(Ok(()), |mut inside| {
            if let Some(children) = children {
                inside.tell(Happening::Children(children));
            }
            inside.end(ended)
        })
    };
    match tokio::task::spawn_blocking(write).await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => error!(run.id = %run, "the end of run {run} could not be written down: {}", chain(&why)),
        Err(broken) => error!(run.id = %run, "the agent broke at the end of run {run}: {broken}"),
    }
}

async fn flush(run: RunId, shelf: &Shelf) {
    let shelf = Arc::clone(shelf);
    let write = move || lock(&shelf).as_mut().map_or(Ok(()), Inside::flush);
    match tokio::task::spawn_blocking(write).await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => error!(run.id = %run, "what run {run} writes cannot be kept yet: {}", chain(&why)),
        Err(broken) => error!(run.id = %run, "the agent broke at the output of run {run}: {broken}"),
    }
}

fn ends_children(command: &RemoteCommand) -> bool {
    command.children.as_ref().is_some_and(|search| search.end_after.is_some())
}

/// What it left running, as it is told of commands on this host.
fn children(seen: &ChildrenSeen, ends: bool) -> Option<Children> {
    let ChildrenSeen::Found(left) = seen else { return None };
    let name = |(pid, name): &(u32, String)| ChildProcess { pid: *pid, name: name.clone() };
    Some(Children {
        became: if ends { ChildrenBecame::Ended } else { ChildrenBecame::Left },
        count: left.count,
        killed: left.killed,
        remain: left.remain,
        processes: left.processes.iter().take(Children::NAMED_MAX).map(name).collect(),
    })
}

/// How it ended, and no more than is known about it.
fn ended(result: &Result<RemoteExit, SshError>, ends_children: bool, took: Duration) -> Ended {
    let mut ended = Ended {
        outcome: EndedAs::Interrupted,
        exit_code: None,
        signal: None,
        message: None,
        children: None,
        duration_ms: Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        stdout_bytes: 0,
        stderr_bytes: 0,
        last_seq: 0,
    };
    match result {
        Ok(exit) => {
            ended.outcome = if exit.is_success() { EndedAs::Succeeded } else { EndedAs::Failed };
            ended.exit_code = exit.code.map(|code| i32::try_from(code).unwrap_or(i32::MAX));
            ended.signal = exit.signal.as_deref().and_then(signal_number);
            let mut words = Vec::new();
            if let (Some(signal), None) = (&exit.signal, ended.signal) {
                words.push(format!("ended by signal {signal}"));
            }
            let children = children(&exit.children, ends_children);
            ended.children = children.as_ref().map(|children| (children.became, children.count));
            match (&exit.children, children) {
                (_, Some(children)) if !ends_children => {
                    words.push(format!("processes that it left running: {}", children.count));
                }
                (_, Some(children)) => {
                    words.push(format!("processes that it left running and that were ended: {}", children.count));
                    if children.remain > 0 {
                        words.push(format!("processes that did not end when they were killed: {}", children.remain));
                    }
                }
                (ChildrenSeen::Unknown(why), None) => {
                    words.push(format!("it is not known whether it left processes running: {why}"));
                }
                _ => {}
            }
            if !exit.output_complete {
                words.push("its output may not be complete".to_owned());
            }
            ended.message = (!words.is_empty()).then(|| words.join("; "));
        }
        Err(error) => {
            ended.outcome = match error {
                SshError::NotStarted { cause: NotStarted::Canceled, .. } => EndedAs::Canceled,
                SshError::NotStarted { cause, .. } if cause.is_unreachable() => EndedAs::Unreachable,
                SshError::NotStarted { .. } => EndedAs::NotStarted,
                SshError::OutcomeUnknown { .. } => EndedAs::Interrupted,
                SshError::Stopped { stopped, .. } => match (&stopped.cause, &stopped.end) {
                    (StopCause::TimeLimit(_), _) => EndedAs::TimedOut,
                    (StopCause::Canceled, StopEnd::Confirmed | StopEnd::MainProcessOnly) => EndedAs::Canceled,
                    // It may still run: nobody knows how it ends.
                    (StopCause::Canceled, StopEnd::Unconfirmed { .. }) | (StopCause::Output(_), _) => {
                        EndedAs::Interrupted
                    }
                },
            };
            ended.message = Some(chain(error));
        }
    }
    ended
}

fn signal_number(name: &str) -> Option<i32> {
    const NAMES: [(&str, i32); 9] = [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ILL", 4),
        ("ABRT", 6),
        ("KILL", 9),
        ("SEGV", 11),
        ("PIPE", 13),
        ("TERM", 15),
    ];
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use bowline_ssh::{LeftChildren, Lost, Stopped};

    use super::*;
    use crate::fleet::outcome::run_end;

    #[test]
    fn every_end_says_what_is_known_and_no_more() {
        let exit = |code, signal: Option<&str>, output_complete| {
            let children = ChildrenSeen::None;
            Ok(RemoteExit { code, signal: signal.map(str::to_owned), output_complete, children })
        };
        let left = |remain| {
            let processes = vec![(7, "sleep".to_owned())];
            let children = ChildrenSeen::Found(LeftChildren { count: 1, killed: 0, remain, processes });
            Ok(RemoteExit { code: Some(1), signal: None, output_complete: true, children })
        };
        let unseen = RemoteExit {
            code: Some(1),
            signal: None,
            output_complete: true,
            children: ChildrenSeen::Unknown("no session".to_owned()),
        };
        let target = || "web-1:22".to_owned();
        let stopped =
            |cause, end| Err(SshError::Stopped { target: target(), stopped: Stopped { cause, end, exit: None } });
        let unsure = || StopEnd::Unconfirmed { reason: "silence".to_owned() };
        let limit = StopCause::TimeLimit(Duration::from_secs(5));
        let results = [
            exit(Some(0), None, true),
            exit(Some(3), None, false),
            exit(None, Some("KILL"), true),
            exit(None, Some("XCPU"), true),
            Err(SshError::NotStarted { target: target(), cause: NotStarted::ExecRefused }),
            Err(SshError::NotStarted { target: target(), cause: NotStarted::Canceled }),
            Err(SshError::OutcomeUnknown { target: target(), cause: Lost::NoExit }),
            stopped(limit, unsure()),
            stopped(StopCause::Canceled, StopEnd::Confirmed),
            stopped(StopCause::Canceled, unsure()),
            left(0),
            left(1),
            Ok(unseen),
        ];
        let mut table = String::new();
        for result in results {
            let end = run_end(&ended(&result, true, Duration::from_millis(1)));
            let error = end.error.map(|error| format!(" {}: {}", error.class.as_str(), error.message));
            writeln!(table, "{:?} {:?}{}", end.status, end.exit_code, error.unwrap_or_default()).unwrap();
        }
        assert_eq!(
            table,
            "Success Some(0)\n\
             Failure Some(3) exit: exit code 3; its output may not be complete\n\
             Failure None exit: ended by signal 9\n\
             Failure None permanent: ended by signal XCPU\n\
             Failure None transient: the command was not started on web-1:22: the server refused to run a command\n\
             Canceled None\n\
             Failure None lost: the command was sent to web-1:22, and it is not known what became of it: the server closed the \
             session without saying how the command ended\n\
             Failure None timeout: the command on web-1:22 was stopped: its time limit of 5s was over; it may still run: silence\n\
             Canceled None\n\
             Failure None lost: the command on web-1:22 was stopped: canceled; it may still run: silence\n\
             Failure Some(1) exit: exit code 1; processes that it left running and that were ended: 1\n\
             Failure Some(1) exit: exit code 1; processes that it left running and that were ended: 1; processes that did not end when \
             they were killed: 1\n\
             Failure Some(1) exit: exit code 1; it is not known whether it left processes running: no session\n"
        );
    }
}
