//! A thread with a runtime of its own, for servers that play a part in a test but must not share its stage.
//!
//! A proxy that lived in the test's runtime would stand still whenever the test blocks, and would live in the test's
//! paused time. Here it has its own clock and its own thread, and ends when its guard is dropped.

use std::thread::JoinHandle;

use tokio_util::sync::CancellationToken;

pub(crate) struct Backstage {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Backstage {
    /// Runs `play` until it returns. It is asked to return through the token, and waited for, on drop.
    pub fn run<F>(name: &str, play: impl FnOnce(CancellationToken) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()>,
    {
        let stop = CancellationToken::new();
        let cue = stop.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || runtime().block_on(play(cue)))
            .expect("a process that runs tests can start one more thread");
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Backstage {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic over there has already printed itself; a second one here would hide it.
            let _ = thread.join();
        }
    }
}

/// Runs `work` to its end from a place that may or may not be inside a runtime already.
pub(crate) fn block_on<F, T>(work: impl FnOnce() -> F + Send) -> T
where
    F: Future<Output = T>,
    T: Send,
{
    std::thread::scope(|scope| {
        scope.spawn(|| runtime().block_on(work())).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime needs only an epoll descriptor")
}
