//! Events: reading the ledger's own order.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use bowline_model::event::EventData;
use bowline_model::{Event, EventKind, JobId, Severity, TenantId, Timestamp};

use crate::{Page, StoreResult};

/// A place in the ledger's order. Readers resume after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// The transaction, where the engine has several writers; 0 where it has one.
    pub epoch: u64,
    pub number: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.number)
    }
}

/// Why a text is not a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a position of the event stream")]
pub struct NotAPosition;

impl FromStr for Position {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Self, NotAPosition> {
        let (epoch, number) = text.split_once('-').ok_or(NotAPosition)?;
        let parse = |part: &str| {
            if part.is_empty() || part.len() > 19 || !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(NotAPosition);
            }
            part.parse().map_err(|_| NotAPosition)
        };
        Ok(Self { epoch: parse(epoch)?, number: parse(number)? })
    }
}

/// Which events to read.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// `None` is everybody's: for the server itself, never for a caller.
    pub tenant: Option<TenantId>,
    pub job: Option<JobId>,
    pub kinds: Vec<EventKind>,
    pub severity_min: Option<Severity>,
    pub trace_id: Option<String>,
    pub since: Option<Timestamp>,
    /// Told of one of these actors, by id; `None` is anybody.
    pub actors: Option<Vec<String>>,
}

impl EventFilter {
    pub fn matches(&self, event: &Event) -> bool {
        self.tenant.is_none_or(|tenant| tenant == event.tenant)
            && self.job.is_none_or(|job| event.job == Some(job))
            && (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && self.severity_min.is_none_or(|min| event.kind.severity() >= min)
            && self.trace_id.as_deref().is_none_or(|id| event.trace_id.as_deref() == Some(id))
            && self.since.is_none_or(|since| event.at >= since)
            && self.actors.as_ref().is_none_or(|actors| event.data.by.as_ref().is_some_and(|by| actors.contains(by)))
    }
}

/// Events in ledger order, or against it. `end` is how far the ledger was read, also where nothing matched.
#[derive(Debug, Clone)]
pub struct EventPage {
    pub events: Vec<(Position, Event)>,
    pub end: Position,
    /// Whether the ledger goes on beyond `end`.
    pub more: bool,
}

/// A fact that belongs to no job.
#[derive(Debug, Clone)]
pub struct Notice {
    pub tenant: TenantId,
    pub kind: EventKind,
    pub data: EventData,
}

#[async_trait]
pub trait EventStore: Send + Sync {
    /// Events after a position, oldest first. Reads at most a bounded stretch of the ledger, so a page may be empty
    /// although there is more.
    async fn events_after(&self, after: Position, filter: EventFilter, limit: u32) -> StoreResult<EventPage>;

    /// Events before a position, newest first; from the newest for `None`. Bounded as [`Self::events_after`] is.
    async fn events_before(&self, before: Option<Position>, filter: EventFilter, limit: u32) -> StoreResult<EventPage>;

    /// The events of one job, oldest first.
    async fn job_events(
        &self,
        tenant: TenantId,
        job: JobId,
        after: Option<Position>,
        limit: u32,
    ) -> StoreResult<Option<Page<(Position, Event), Position>>>;

    /// The place after which nothing is missing (before it, retention has taken some), and the newest one that readers may
    /// rely on.
    async fn event_range(&self) -> StoreResult<(Position, Position)>;

    async fn note(&self, notice: Notice) -> StoreResult<()>;
}
