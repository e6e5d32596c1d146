//! What happened in a run, numbered and sealed, one line each.
//!
//! A *record* is whole when its line ends and its checksum holds. A *torn tail* is whatever follows the last whole record:
//! a write that a crash cut short. *Damage* is a broken line with whole records behind it: no crash does that, a disk does.

#[cfg(target_os = "linux")]
mod crc32;
#[cfg(target_os = "linux")]
mod event_log;
mod happening;
#[cfg(target_os = "linux")]
mod line;
#[cfg(target_os = "linux")]
mod scan;

#[cfg(target_os = "linux")]
pub(crate) use event_log::{CommitError, EventLog};
pub use happening::{
    ChildProcess, Children, ChildrenBecame, Ended, EndedAs, Happening, HeldBy, Record, Stream, Truncation,
};
#[cfg(target_os = "linux")]
pub(crate) use line::{open as open_line, seal as seal_line};
#[cfg(target_os = "linux")]
pub(crate) use scan::{Line, Lines, Summary, last_ended, parse};
