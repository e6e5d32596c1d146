//! From the command's pipes to the spools, secrets replaced on the way.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{Errno, read, write};

use super::bell::Bell;
use super::spool::Spool;
use crate::redact::Redactor;

const BUFFER_BYTES: usize = 128 << 10;
/// How long output is awaited from what a command left behind.
const LEFTOVER_GRACE: Duration = Duration::from_secs(1);
/// How much is still read after that: what fits into a pipe was written before.
const LAST_READ_BYTES: usize = 1 << 20;

/// One pump for each stream.
pub(super) struct Pumps {
    threads: Vec<JoinHandle<()>>,
    done: Receiver<()>,
    stop: Arc<OwnedFd>,
}

impl Pumps {
    pub(super) fn start(pipes: [OwnedFd; 2], redactor: &Redactor, spools: &[Arc<Spool>; 2], bell: &Arc<Bell>) -> Self {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("one more descriptor can be had"));
        let (tell, done) = channel();
        let pumps = pipes.into_iter().zip(spools).map(|(pipe, spool)| {
            let (spool, bell, tell) = (spool.clone(), bell.clone(), tell.clone());
            let pump = Pump { pipe, stop: stop.clone(), redactor: redactor.clone(), spool, bell };
            let work = move || {
                pump.run();
                let _ = tell.send(());
            };
            std::thread::Builder::new().name("pump".to_owned()).spawn(work).expect("one more thread can be had")
        });
        Self { threads: pumps.collect(), done, stop }
    }

    /// Waits for the end of both streams, a short while if somebody who was left behind still holds them. True if so.
    pub(super) fn drain(self) -> bool {
        let deadline = Instant::now() + LEFTOVER_GRACE;
        let ended = |_: &_| self.done.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok();
        let cut_off = self.threads.iter().filter(|thread| ended(thread)).count() < self.threads.len();
        let _ = write(&self.stop, &1u64.to_ne_bytes());
        for thread in self.threads {
            // A pump that fell has said why. What it had read is on its way to disk.
            let _ = thread.join();
        }
        cut_off
    }
}

struct Pump {
    pipe: OwnedFd,
    stop: Arc<OwnedFd>,
    redactor: Redactor,
    spool: Arc<Spool>,
    bell: Arc<Bell>,
}

impl Pump {
    fn run(mut self) {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut clean = Vec::new();
        let mut allowance = None;
        while allowance != Some(0) {
            match read(&self.pipe, buffer.as_mut_slice()) {
                Ok(0) => break,
                Ok(count) => {
                    self.take(&buffer[..count], &mut clean);
                    if allowance.is_none() && self.is_stopped() {
                        allowance = Some(LAST_READ_BYTES);
                    }
                    allowance = allowance.map(|left| left.saturating_sub(count));
                }
                Err(Errno::INTR) => {}
                // Nothing there now: wait for more, or for the word that no more is wanted.
                Err(Errno::AGAIN) if self.is_stopped() => break,
                Err(Errno::AGAIN) => {
                    let waited = [self.pipe.as_fd(), self.stop.as_fd()];
                    let _ = poll(&mut waited.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)), None);
                }
                Err(_) => break,
            }
        }
        self.redactor.finish(&mut clean);
        self.keep(&clean);
    }

    fn take(&mut self, bytes: &[u8], clean: &mut Vec<u8>) {
        if self.redactor.is_idle() {
            return self.keep(bytes);
        }
        self.redactor.push(bytes, clean);
        self.keep(clean);
        clean.clear();
    }

    fn keep(&self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.spool.write(bytes);
            if self.spool.has_news() {
                self.bell.ring(bytes.len() as u64);
            }
        }
    }

    fn is_stopped(&self) -> bool {
        let mut stop = [PollFd::new(&self.stop, PollFlags::IN)];
        poll(&mut stop, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}
