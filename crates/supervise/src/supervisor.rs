//! Who watches the tasks.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// What a task is, and so what its end means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    HttpServer,
    Dispatcher,
    LeaseReaper,
    Timers,
    Scheduler,
    Triggers,
    Conductor,
    Turner,
    Pruner,
    QuotaCounter,
    EventTail,
    BuiltInWorker,
    Demonstration,
    KeyRefresh,
    AuditHeads,
    ConfigReload,
    Refusals,
    SecretCache,
    CertificateReload,
    ClockWatch,
}

/// What follows from a task that fell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    StopServer,
    Restart,
    LetGo,
}

impl TaskKind {
    pub const fn on_failure(self) -> OnFailure {
        match self {
            // Without its door the server is no server.
            Self::HttpServer => OnFailure::StopServer,
            // Loops over stored truth: a fresh start is always safe.
            Self::Dispatcher
            | Self::LeaseReaper
            | Self::Timers
            | Self::Scheduler
            | Self::Triggers
            | Self::Conductor
            | Self::Turner
            | Self::Pruner
            | Self::QuotaCounter
            | Self::EventTail
            | Self::BuiltInWorker
            | Self::KeyRefresh
            | Self::AuditHeads
            | Self::ConfigReload
            | Self::Refusals
            | Self::SecretCache
            | Self::CertificateReload
            | Self::ClockWatch => OnFailure::Restart,
            Self::Demonstration => OnFailure::LetGo,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::HttpServer => "http server",
            Self::Dispatcher => "dispatcher",
            Self::LeaseReaper => "lease reaper",
            Self::Timers => "timers",
            Self::Scheduler => "scheduler",
            Self::Triggers => "triggers",
            Self::Conductor => "conductor",
            Self::Turner => "turner",
            Self::Pruner => "pruner",
            Self::QuotaCounter => "quota counter",
            Self::EventTail => "event tail",
            Self::BuiltInWorker => "built-in worker",
            Self::Demonstration => "demonstration",
            Self::KeyRefresh => "key refresh",
            Self::AuditHeads => "audit heads",
            Self::ConfigReload => "config reload",
            Self::Refusals => "refused requests",
            Self::SecretCache => "secret cache",
            Self::CertificateReload => "certificate reload",
            Self::ClockWatch => "clock watch",
        }
    }
}

#[derive(Debug, Default)]
struct State {
    running: Mutex<Vec<&'static str>>,
    handles: Mutex<Vec<AbortHandle>>,
}

/// Starts tasks, starts them again, and ends them.
#[derive(Debug, Clone, Default)]
pub struct Supervisor {
    tracker: TaskTracker,
    stop: CancellationToken,
    state: Arc<State>,
}

impl Supervisor {
    pub fn new() -> Self {
        Self::default()
    }

    /// Canceled when the house is to close. Tasks finish what they hold and return.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Runs a task until it ends well, or the house closes. `make` makes it anew when it is to be started again.
    pub fn start<F>(&self, kind: TaskKind, mut make: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let (stop, state) = (self.stop.clone(), Arc::clone(&self.state));
        lock(&state.running).push(kind.name());
        let started = self.tracker.spawn(async move {
            let mut pause = Duration::from_millis(50);
            loop {
                // A task of its own, so that a panic in it is an answer here.
                let ended = guarded(make()).await;
                let why = match ended {
                    Ok(()) => break,
                    Err(why) => why,
                };
                if stop.is_cancelled() {
                    tracing::warn!(task = kind.name(), "the {} fell while closing: {why}", kind.name());
                    break;
                }
                match kind.on_failure() {
                    OnFailure::StopServer => {
                        tracing::error!(task = kind.name(), "the {} fell, so the server stops: {why}", kind.name());
                        stop.cancel();
                        break;
                    }
                    OnFailure::LetGo => {
                        tracing::warn!(task = kind.name(), "the {} fell: {why}", kind.name());
                        break;
                    }
                    OnFailure::Restart => {
                        tracing::error!(task = kind.name(), "the {} fell and is started again: {why}", kind.name());
                        tokio::select! {
                            () = stop.cancelled() => break,
                            () = tokio::time::sleep(pause) => {}
                        }
                        pause = (pause * 2).min(Duration::from_secs(5));
                    }
                }
            }
            let mut running = lock(&state.running);
            if let Some(place) = running.iter().position(|name| *name == kind.name()) {
                running.remove(place);
            }
        });
        lock(&self.state.handles).push(started.abort_handle());
    }

    /// Ends every task where it stands, as a crash would.
    pub fn abort(&self) {
        self.stop.cancel();
        lock(&self.state.handles).drain(..).for_each(|task| task.abort());
    }

    /// Asks every task to end and waits for them. The names of those left behind when time is up.
    pub async fn close(&self, patience: Duration) -> Vec<&'static str> {
        self.stop.cancel();
        self.tracker.close();
        if tokio::time::timeout(patience, self.tracker.wait()).await.is_ok() {
            return Vec::new();
        }
        lock(&self.state.running).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::disallowed_methods, reason = "this is the supervisor")]
async fn guarded(task: impl Future<Output = anyhow::Result<()>> + Send + 'static) -> Result<(), String> {
    match AbortOnDropHandle::new(tokio::spawn(task)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(join) => Err(match join.try_into_panic() {
            Ok(panic) => {
                let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                format!("panic: {}", text.unwrap_or_else(|| "without a message".to_owned()))
            }
            Err(_) => "it was aborted".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_loop_that_panics_is_started_again() {
        let supervisor = Supervisor::new();
        let starts = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&starts);
        supervisor.start(TaskKind::LeaseReaper, move || {
            let nth = seen.fetch_add(1, Ordering::SeqCst);
            async move { if nth < 2 { panic!("fall {nth}") } else { Ok(()) } }
        });
        supervisor.tracker.close();
        supervisor.tracker.wait().await;
        assert_eq!(starts.load(Ordering::SeqCst), 3);
        assert!(!supervisor.stop().is_cancelled());
    }

    #[tokio::test]
    async fn without_its_door_the_server_stops() {
        let supervisor = Supervisor::new();
        supervisor.start(TaskKind::HttpServer, || async { anyhow::bail!("port taken") });
        supervisor.stop().cancelled().await;
        assert_eq!(supervisor.close(Duration::from_secs(5)).await, Vec::<&str>::new());
    }

    #[tokio::test]
    async fn whoever_does_not_leave_is_named() {
        let supervisor = Supervisor::new();
        supervisor.start(TaskKind::Pruner, std::future::pending::<anyhow::Result<()>>);
        assert_eq!(supervisor.close(Duration::from_millis(10)).await, ["pruner"]);
    }
}
