//! The one thread that gives birth to child processes.
//!
//! The kernel ties a child's death signal to the thread that forked it, not to the process. A test's thread ends with
//! the test, a runtime's blocking thread after some idle seconds; a database started there would die at a random
//! moment. This thread ends when the process does, so "dies with its parent" means what everybody reads into it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};

use crate::signal::{Signal, bequeath};

type Order = (Command, SyncSender<io::Result<Child>>);

/// Starts `command` so that it gets `last_will` when this process ends. It leads its own process group, so that Ctrl-C
/// and a test runner's group kill reach the test first, and the child through it.
pub(crate) fn spawn(mut command: Command, last_will: Signal) -> io::Result<Child> {
    static NURSERY: OnceLock<Sender<Order>> = OnceLock::new();
    command.process_group(0);
    bequeath(&mut command, last_will);
    let nursery = NURSERY.get_or_init(|| {
        let (orders, inbox) = channel::<Order>();
        std::thread::Builder::new()
            .name("nursery".to_owned())
            .spawn(move || {
                for (mut command, answer) in inbox {
                    // Whoever ordered waits for the answer; if it is gone, the child is dropped and nobody misses it.
                    let _ = answer.send(command.spawn());
                }
            })
            .expect("a process that runs tests can start one more thread");
        orders
    });
    let (answer, born) = sync_channel(1);
    nursery.send((command, answer)).expect("the nursery lives as long as the process");
    born.recv().expect("the nursery answers every order")
}
