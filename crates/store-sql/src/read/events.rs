//! The stream, read in the ledger's order.

use bowline_model::event::EventData;
use bowline_model::{Event, EventId, EventKind, HostName, JobId, TenantId, Timestamp};
use bowline_store::{EventFilter, EventPage, Page, Position, StoreError, StoreResult};

use crate::db::{Db, Row, Sql, Val};
use crate::job_row::count;

/// How many events one page looks at before it says "go on from here".
const SCAN_MAX: i64 = 10_000;
/// How many bytes of data one page carries: executors choose the length of what they report. One event always fits.
const PAGE_BYTES: usize = 1 << 20;
/// How far the clocks of two servers may be apart without an event being missed by `since`.
const SKEW_MS: i64 = 60_000;

fn read(row: &dyn Row, salt: u64) -> StoreResult<(Position, Event)> {
    let number = u64::try_from(row.int(1)?).unwrap_or(0);
    let position = Position { epoch: u64::try_from(row.int(0)?).unwrap_or(0), number };
    let at = row.at(7)?;
    let kind = row.text(6)?;
    let data = row.opt_text(8)?;
    let kind = kind.parse::<EventKind>().map_err(|_| StoreError::Broken(format!("unknown event kind {kind}")))?;
    let mut data: EventData = match data {
        None => EventData::default(),
        Some(text) => serde_json::from_str(&text).map_err(|e| StoreError::Broken(e.to_string()))?,
    };
    if data.by.is_none() && starts_a_job(kind) {
        data.by = row.opt_text(12)?;
    }
    let event = Event {
        id: EventId::at_position(at, salt, number),
        at,
        tenant: TenantId::from_uuid(row.id(2)?),
        kind,
        job: row.opt_id(3)?.map(JobId::from_uuid),
        host: row.opt_text(11)?.and_then(|name| HostName::new(&name).ok()),
        fence: row.opt_int(4)?.map(count),
        seq: row.opt_int(5)?.and_then(|seq| u64::try_from(seq).ok()),
        data,
        trace_id: row.opt_text(9)?,
        correlation_id: row.opt_text(10)?,
    };
    Ok((position, event))
}

/// Whether an event reports that a job was taken in. Its actor stands in the job's own row, so it is not stored with
/// each event a second time.
const fn starts_a_job(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::JobEnqueued
            | EventKind::JobScheduled
            | EventKind::JobAwaitsApproval
            | EventKind::JobOpened
            | EventKind::FlowOpened
    )
}

/// Two columns as a place; nothing is the beginning.
pub fn position(row: &dyn Row) -> StoreResult<Position> {
    let number = |n| -> StoreResult<u64> { Ok(row.opt_int(n)?.and_then(|v| u64::try_from(v).ok()).unwrap_or(0)) };
    Ok(Position { epoch: number(0)?, number: number(1)? })
}

pub fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Events after a position, oldest first.
pub async fn events_after(
    db: &mut impl Db,
    salt: u64,
    after: Position,
    filter: &EventFilter,
    limit: u32,
) -> StoreResult<EventPage> {
    let after = match filter.since {
        Some(since) if after == Position::default() => place_before(db, since.plus_millis(-SKEW_MS)).await?,
        _ => after,
    };
    read_on(db, AFTER, salt, after, filter, limit).await
}

/// Events before a position, newest first.
pub async fn events_before(
    db: &mut impl Db,
    salt: u64,
    before: Option<Position>,
    filter: &EventFilter,
    limit: u32,
) -> StoreResult<EventPage> {
    let end = Position { epoch: i64::MAX.unsigned_abs(), number: i64::MAX.unsigned_abs() };
    let mut page = read_on(db, BEFORE, salt, before.unwrap_or(end), filter, limit).await?;
    // Whoever asks for events since a moment is done when they are older, but for the skew of clocks.
    let since = filter.since.map(|since| since.plus_millis(-SKEW_MS));
    if let (Some(since), true) = (since, page.more && page.events.is_empty()) {
        page.more = page.end > place_before(db, since).await?;
    }
    Ok(page)
}

/// One page in the order of a statement.
async fn read_on(
    db: &mut impl Db,
    statement: Sql,
    salt: u64,
    from: Position,
    filter: &EventFilter,
    limit: u32,
) -> StoreResult<EventPage> {
    let mut page = EventPage { events: Vec::new(), end: from, more: true };
    let mut scanned = 0;
    let mut room = Room::default();
    while page.events.len() < limit as usize && scanned < SCAN_MAX {
        // A filter that drops most events is worth larger bites.
        let is_wide = filter.kinds.is_empty() && filter.trace_id.is_none() && filter.actors.is_none();
        let bite = if is_wide { i64::from(limit).max(100) } else { 1_000 };
        let params = [Val::Int(signed(page.end.epoch)), Val::Int(signed(page.end.number)), Val::Int(bite)];
        let rows = db.query(statement, &params, |row| room.take(row, salt, |event| filter.matches(event))).await?;
        scanned += i64::try_from(rows.len()).unwrap_or(bite);
        let short = i64::try_from(rows.len()).unwrap_or(bite) < bite;
        for row in rows {
            match row {
                Taken::NoRoom => return Ok(page),
                _ if page.events.len() == limit as usize => return Ok(page),
                Taken::Other(position) => page.end = position,
                Taken::Wanted(position, event) => {
                    page.end = position;
                    page.events.push((position, event));
                }
            }
        }
        if short {
            page.more = false;
            break;
        }
    }
    Ok(page)
}

/// The events of one job, oldest first; `None` if the tenant has no such job.
pub async fn job_events(
    db: &mut impl Db,
    salt: u64,
    tenant: TenantId,
    job: JobId,
    after: Option<Position>,
    limit: u32,
) -> StoreResult<Option<Page<(Position, Event), Position>>> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Id(*job.as_uuid())];
    let Some(number) = db.query(JOB_NUMBER, &key, |row| row.int(0)).await?.into_iter().next() else {
        return Ok(None);
    };
    let (after, limit) = (after.unwrap_or_default(), limit.max(1));
    let params = [
        Val::Int(number),
        Val::Int(signed(after.epoch)),
        Val::Int(signed(after.number)),
        Val::Int(i64::from(limit) + 1),
    ];
    // Two indexes, one for the ledger's own events and one for the executors'; merged here.
    let mut items = Vec::new();
    // Where one of the two stops for want of room, the page ends before whatever the other one has after that.
    let mut end = None;
    for statement in [OF_JOB, TOLD_OF_JOB] {
        let mut room = Room::default();
        let rows = db.query(statement, &params, |row| room.take(row, salt, |_| true)).await?;
        let mut last = None;
        for row in rows {
            match row {
                Taken::Wanted(position, event) => {
                    last = Some(position.number);
                    items.push((position, event));
                }
                Taken::Other(_) => {}
                Taken::NoRoom => {
                    end = last.into_iter().chain(end).min();
                    break;
                }
            }
        }
    }
    // Positions of one job are given under its lock: by number they are in the job's own order.
    items.sort_by_key(|(position, _)| position.number);
    let more = items.len() > limit as usize || end.is_some();
    items.truncate(limit as usize);
    items.retain(|(position, _)| end.is_none_or(|end| position.number <= end));
    let next = items.last().filter(|_| more).map(|(position, _)| *position);
    Ok(Some(Page { items, next }))
}

/// A row of a page.
#[expect(clippy::large_enum_variant, reason = "most rows are wanted; a box would cost an allocation for each event")]
enum Taken {
    Wanted(Position, Event),
    /// The filter leaves it out.
    Other(Position),
    /// The page is full before it.
    NoRoom,
}

/// What a page may still carry. Rows after the last one that fits are not parsed.
#[derive(Default)]
struct Room {
    bytes: usize,
    is_full: bool,
}

impl Room {
    fn take(&mut self, row: &dyn Row, salt: u64, wants: impl Fn(&Event) -> bool) -> StoreResult<Taken> {
        if self.is_full {
            return Ok(Taken::NoRoom);
        }
        let (position, event) = read(row, salt)?;
        if !wants(&event) {
            return Ok(Taken::Other(position));
        }
        let bytes = event.data.detail.as_ref().map_or(0, |detail| detail.as_str().len());
        if self.bytes > 0 && self.bytes + bytes > PAGE_BYTES {
            self.is_full = true;
            return Ok(Taken::NoRoom);
        }
        self.bytes += bytes;
        Ok(Taken::Wanted(position, event))
    }
}

/// Up to where retention has taken events, and the newest one that readers may rely on.
pub async fn event_range(db: &mut impl Db) -> StoreResult<(Position, Position)> {
    let pruned = db.query(PRUNED, &[], |row| row.text(0)).await?.into_iter().next();
    let pruned = pruned.map(|text| text.parse()).transpose();
    let pruned = pruned.map_err(|e| StoreError::Broken(format!("events_pruned is {e}")))?.unwrap_or_default();
    let last = db.query(LAST, &[], position).await?.into_iter().next().unwrap_or_default();
    // Where everything was taken, the place up to which it was taken is the newest there is.
    Ok((pruned, last.max(pruned)))
}

/// A place before the first event that happened at `moment` or later, found by halving: events are written in the order
/// of time, but for the clocks of several servers and the length of a transaction.
async fn place_before(db: &mut impl Db, moment: Timestamp) -> StoreResult<Position> {
    let ends = db.query(ENDS, &[], |row| Ok((row.opt_int(0)?.unwrap_or(0), row.opt_int(1)?.unwrap_or(0)))).await?;
    let (mut low, mut high) = ends.first().map_or((0, 0), |(first, last)| (*first, last + 1));
    while low < high {
        let middle = low + (high - low) / 2;
        let found = db.query(FROM, &[Val::Int(middle)], |row| Ok((row.int(0)?, row.at(1)?))).await?;
        match found.first() {
            Some((key, at)) if *at < moment => low = key + 1,
            _ => high = middle,
        }
    }
    let before = db.query(LAST_OF, &[Val::Int(low.max(1) - 1)], position).await?;
    Ok(before.into_iter().next().unwrap_or_default())
}

macro_rules! event_columns {
    ($epoch:literal) => {
        concat!(
            "select ",
            $epoch,
            ", e.position, e.tenant, coalesce(p.id, j.id, g.id), e.fence, e.seq, e.kind, e.at, e.data,
               coalesce(p.trace_id, j.trace_id, g.trace_id), 
               coalesce(p.correlation_id, p.request_id, j.correlation_id, j.request_id, g.correlation_id), h.name,
               coalesce(p.actor, j.actor, g.actor)
             from event e left join job j on j.number = e.number
             left join gone g on j.number is null and g.number = e.number
             left join job p on p.number = j.parent
             left join host h on h.id = coalesce(j.host, g.host) "
        )
    };
}

/// Only transactions older than the oldest open one: a younger one could still put an event before those we show.
const AFTER: Sql = Sql::Each {
    sqlite: concat!(event_columns!("0"), "where e.position > ?2 and ?1 >= 0 order by e.position limit ?3"),
    postgres: concat!(
        event_columns!("e.txid"),
        "where (e.txid, e.position) > ($1, $2) and e.txid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
         order by e.txid, e.position limit $3"
    ),
};
const BEFORE: Sql = Sql::Each {
    sqlite: concat!(event_columns!("0"), "where e.position < ?2 and ?1 >= 0 order by e.position desc limit ?3"),
    postgres: concat!(
        event_columns!("e.txid"),
        "where (e.txid, e.position) < ($1, $2) and e.txid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
         order by e.txid desc, e.position desc limit $3"
    ),
};
const OF_JOB: Sql = Sql::Each {
    sqlite: concat!(
        event_columns!("0"),
        "where e.number = ?1 and e.seq is null and e.position > ?3 and ?2 >= 0 order by e.position limit ?4"
    ),
    postgres: concat!(
        event_columns!("e.txid"),
        "where e.number = $1 and e.seq is null and e.position > $3 and $2::bigint >= 0 order by e.position limit $4"
    ),
};
const TOLD_OF_JOB: Sql = Sql::Each {
    sqlite: concat!(
        event_columns!("0"),
        "where e.number = ?1 and e.seq is not null and e.position > ?3 and ?2 >= 0 order by e.position limit ?4"
    ),
    postgres: concat!(
        event_columns!("e.txid"),
        "where e.number = $1 and e.seq is not null and e.position > $3 and $2::bigint >= 0 order by e.position limit $4"
    ),
};
const JOB_NUMBER: Sql = Sql::Same(
    "select number from job where tenant = $1 and id = $2 and parent is null
     union all select number from gone where tenant = $1 and id = $2 and host is null",
);
/// The last place that a key can have.
const LAST_OF: Sql = Sql::Each { sqlite: "select 0, ?1", postgres: "select $1::bigint, 9223372036854775807::bigint" };
const PRUNED: Sql = Sql::Same("select value from ledger where key = 'events_pruned'");
/// The first and the last key by which events are ordered: the position on SQLite, the transaction on PostgreSQL.
const ENDS: Sql = Sql::Each {
    sqlite: "select (select min(position) from event), (select max(position) from event)",
    postgres: "select (select min(txid) from event), (select max(txid) from event)",
};
const FROM: Sql = Sql::Each {
    sqlite: "select position, at from event where position >= ?1 order by position limit 1",
    postgres: "select txid, at from event where txid >= $1 order by txid, position limit 1",
};
const LAST: Sql = Sql::Each {
    sqlite: "select 0, max(position) from event",
    postgres: "select txid, position from event where txid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
               order by txid desc, position desc limit 1",
};
