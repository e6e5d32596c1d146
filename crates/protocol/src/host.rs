//! A task for one host: `params` of a task of type `bowline.command`.

use bowline_model::fleet::{HostLock, HostScope, PinnedCommand};
use bowline_model::host::Connection;
use bowline_model::{HostName, JobId};
use serde::{Deserialize, Serialize};

/// What an agent is told to run, and where.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostTask {
    /// The unit: the same for every attempt on this host for this job. `job_id` of the task is the whole command.
    pub unit_id: JobId,
    pub command: PinnedCommand,
    pub host: TargetHost,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TargetHost {
    pub id: i64,
    pub name: HostName,
    pub connection: Connection,
    pub lock: HostLock,
    /// Grows with every hand-out that wants the host alone; those that share it have the same. An older one must be refused
    /// there.
    pub fence: i64,
    /// What the command wants to know about the host.
    #[serde(default)]
    pub scope: HostScope,
}
