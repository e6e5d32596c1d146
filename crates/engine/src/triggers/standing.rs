//! How a trigger stands on this server: for people who look. In memory, from the start of the server on; nothing is decided
//! by it.

use std::sync::{Mutex, PoisonError};

use bowline_model::{JobId, Timestamp};

/// How a trigger stands here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Since when its queue is read; `None` while it is not.
    pub reading_since: Option<Timestamp>,
    /// Messages that came, the same one as often as it did.
    pub delivered: u64,
    /// Messages that started something.
    pub started: u64,
    /// Messages whose job was there already.
    pub replayed: u64,
    /// Messages that could not start anything.
    pub refused: u64,
    pub last_job: Option<JobId>,
    pub last_error: Option<Mishap>,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mishap {
    pub at: Timestamp,
    pub message: String,
}

/// Where a trigger's reader writes, and others read.
#[derive(Debug, Default)]
pub(super) struct Board(Mutex<Standing>);

impl Board {
    pub fn change(&self, change: impl FnOnce(&mut Standing)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub fn trouble(&self, at: Timestamp, message: String) {
        self.change(|standing| standing.last_error = Some(Mishap { at, message }));
    }

    pub fn look(&self) -> Standing {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
