//! Asking a run to end.

use std::io;

use bowline_model::RunId;

use super::state::Runs;
use crate::disk;

#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    #[error("there is no run {0} here")]
    Unknown(RunId),
    #[error("the wish could not be written down")]
    Disk(#[from] io::Error),
}

impl Runs {
    /// Asks a run to end. Its keeper sees it within a tenth of a second; a run that has ended stays as it ended.
    pub fn cancel(&self, run: RunId) -> Result<(), CancelError> {
        if self.find(run).is_none() {
            return Err(CancelError::Unknown(run));
        }
        disk::private().write(true).create(true).truncate(false).open(self.shared.place(run).cancel())?;
        Ok(())
    }
}
