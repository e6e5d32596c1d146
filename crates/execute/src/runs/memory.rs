//! What is remembered of runs that have no directory any more: which attempts at a job were executed, and under which fence
//! each host was leased last. Pure; the [journal](super::journal) keeps it on disk.

use std::collections::{HashMap, VecDeque};

use bowline_model::{HostName, JobId, RunId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::log::EndedAs;
use crate::manifest::Manifest;

/// A run that was executed here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executed {
    pub job: JobId,
    pub fence: u32,
    /// Which attempt at the job it was; 0 in lines from before it was kept.
    #[serde(default)]
    pub attempt: u32,
    /// The whole command, of which `job` was the part for this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<JobId>,
    pub run: RunId,
    pub host: HostName,
    pub host_fence: u64,
    pub outcome: EndedAs,
    pub exit_code: Option<i32>,
    pub at: Timestamp,
}

impl Executed {
    pub(super) fn new(manifest: &Manifest, outcome: EndedAs, exit_code: Option<i32>, at: Timestamp) -> Self {
        let Manifest { run, job, host, fence, attempt, command, host_fence, .. } = manifest;
        let (run, job, command, host) = (*run, *job, *command, host.clone());
        let (fence, attempt, host_fence) = (*fence, *attempt, *host_fence);
        Self { job, fence, attempt, command, run, host, host_fence, outcome, exit_code, at }
    }
}

/// Whether what was executed is this attempt or one after it, each as fence and attempt. A server that was restored from an
/// older copy gives out an attempt again under a higher fence; its number says what it is.
pub(super) const fn is_same_or_later(done: (u32, u32), asked: (u32, u32)) -> bool {
    done.0 >= asked.0 || (asked.1 > 0 && done.1 >= asked.1)
}

/// The newest runs, and every host.
#[derive(Debug, Clone)]
pub struct Memory {
    max: usize,
    /// Oldest first.
    order: VecDeque<Executed>,
    /// The highest fence of each job, as the place in `order` counted from the first run ever.
    by_job: HashMap<JobId, u64>,
    /// How many have left `order`.
    dropped: u64,
    hosts: HashMap<HostName, u64>,
}

impl Memory {
    /// Of at most so many runs.
    pub fn new(max: usize) -> Self {
        Self { max: max.max(1), order: VecDeque::new(), by_job: HashMap::new(), dropped: 0, hosts: HashMap::new() }
    }

    /// The run was executed.
    pub fn remember(&mut self, manifest: &Manifest, outcome: EndedAs, exit_code: Option<i32>, at: Timestamp) {
        self.learn(Executed::new(manifest, outcome, exit_code, at));
    }

    /// The host was leased under this fence.
    pub fn see_host(&mut self, host: &HostName, host_fence: u64) {
        match self.hosts.get_mut(host) {
            Some(known) => *known = host_fence.max(*known),
            None => drop(self.hosts.insert(host.clone(), host_fence)),
        }
    }

    /// The run in which this attempt at the job, or a later one, was executed.
    pub(super) fn executed(&self, job: JobId, fence: u32, attempt: u32) -> Option<&Executed> {
        self.highest(job).filter(|done| is_same_or_later((done.fence, done.attempt), (fence, attempt)))
    }

    /// The highest fence the host was leased under; 0 for one that is not known.
    pub(super) fn host_fence(&self, host: &HostName) -> u64 {
        self.hosts.get(host).copied().unwrap_or(0)
    }

    pub(super) fn runs(&self) -> &VecDeque<Executed> {
        &self.order
    }

    pub(super) fn hosts(&self) -> &HashMap<HostName, u64> {
        &self.hosts
    }

    pub(super) fn learn(&mut self, done: Executed) {
        self.see_host(&done.host, done.host_fence);
        if self.highest(done.job).is_none_or(|known| known.fence <= done.fence) {
            self.by_job.insert(done.job, self.dropped + self.order.len() as u64);
        }
        self.order.push_back(done);
        while self.order.len() > self.max {
            if let Some(oldest) = self.order.pop_front() {
                if self.by_job.get(&oldest.job) == Some(&self.dropped) {
                    self.by_job.remove(&oldest.job);
                }
                self.dropped += 1;
            }
        }
    }

    fn highest(&self, job: JobId) -> Option<&Executed> {
        let place = self.by_job.get(&job)?.checked_sub(self.dropped)?;
        self.order.get(usize::try_from(place).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::sample;

    fn manifest(job: u8, fence: u32) -> Manifest {
        let at = Timestamp::from_millis(1_000);
        let run = RunId::mint(at, [job, fence.to_le_bytes()[0], 0, 0, 0, 0, 0, 0, 0, 0]);
        Manifest { run, job: JobId::mint(at, [job; 10]), fence, ..sample() }
    }

    fn memory(max: usize, executed: &[(u8, u32)]) -> Memory {
        let mut memory = Memory::new(max);
        for (job, fence) in executed {
            memory.remember(&manifest(*job, *fence), EndedAs::Failed, None, Timestamp::from_millis(5));
        }
        memory
    }

    fn known(memory: &Memory, job: u8, fence: u32) -> Option<u32> {
        memory.executed(manifest(job, fence).job, fence, 0).map(|done| done.fence)
    }

    #[test]
    fn the_latest_attempt_counts_in_whatever_order_they_are_learned() {
        let memory = memory(10, &[(1, 5), (1, 3), (1, 4)]);
        assert_eq!((known(&memory, 1, 5), known(&memory, 1, 1)), (Some(5), Some(5)));
        assert_eq!((known(&memory, 1, 6), known(&memory, 2, 1)), (None, None));
        assert_eq!(memory.runs().len(), 3);
    }

    #[test]
    fn what_is_dropped_takes_no_later_attempt_with_it() {
        let before = memory(2, &[(1, 1), (1, 2), (2, 1)]);
        assert_eq!((known(&before, 1, 2), known(&before, 2, 1)), (Some(2), Some(1)));
        let after = memory(2, &[(1, 1), (1, 2), (2, 1), (3, 1)]);
        assert_eq!(known(&after, 1, 1), None);
        assert_eq!((known(&after, 2, 1), known(&after, 3, 1)), (Some(1), Some(1)));
        assert_eq!(after.runs().len(), 2);
    }

    #[test]
    fn the_fence_of_a_host_never_falls() {
        let host = sample().host;
        let mut memory = memory(10, &[]);
        assert_eq!(memory.host_fence(&host), 0);
        for (seen, known) in [(9, 9), (4, 9), (10, 10)] {
            memory.see_host(&host, seen);
            assert_eq!(memory.host_fence(&host), known);
        }
        memory.remember(&manifest(1, 1), EndedAs::Failed, None, Timestamp::from_millis(5));
        assert_eq!(memory.host_fence(&host), 10, "that run had an older lease");
    }
}
