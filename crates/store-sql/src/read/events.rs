//! The stream, read in the ledger's order.

use bowline_model::event::EventData;
use bowline_model::{Event, EventId, EventKind, JobId, TenantId};
use bowline_store::{EventFilter, EventPage, Page, Position, StoreError, StoreResult};

use crate::db::{Db, Row, Sql, Val};
use crate::job_row::count;

/// How many events one page looks at before it says "go on from here".
const SCAN_MAX: i64 = 10_000;

fn read(row: &dyn Row, salt: u64) -> StoreResult<(Position, Event)> {
    let number = u64::try_from(row.int(1)?).unwrap_or(0);
    let position = Position { epoch: u64::try_from(row.int(0)?).unwrap_or(0), number };
    let at = row.at(7)?;
    let kind = row.text(6)?;
    let data = row.opt_text(8)?;
    let event = Event {
        id: EventId::at_position(at, salt, number),
        at,
        tenant: TenantId::from_uuid(row.id(2)?),
        kind: kind.parse::<EventKind>().map_err(|_| StoreError::Broken(format!("unknown event kind {kind}")))?,
        job: row.opt_id(3)?.map(JobId::from_uuid),
        fence: row.opt_int(4)?.map(count),
        seq: row.opt_int(5)?.and_then(|seq| u64::try_from(seq).ok()),
        data: match data {
            None => EventData::default(),
            Some(text) => serde_json::from_str(&text).map_err(|e| StoreError::Broken(e.to_string()))?,
        },
        trace_id: row.opt_text(9)?,
        correlation_id: row.opt_text(10)?,
    };
    Ok((position, event))
}

fn signed(value: u64) -> i64 {
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
    let mut page = EventPage { events: Vec::new(), end: after, more: true };
    let mut scanned = 0;
    while page.events.len() < limit as usize && scanned < SCAN_MAX {
        // A filter that drops most events is worth larger bites.
        let bite = if filter.kinds.is_empty() && filter.trace_id.is_none() { i64::from(limit).max(100) } else { 1_000 };
        let params = [Val::Int(signed(page.end.epoch)), Val::Int(signed(page.end.number)), Val::Int(bite)];
        let rows = db.query(AFTER, &params, |row| read(row, salt)).await?;
        scanned += i64::try_from(rows.len()).unwrap_or(bite);
        let short = i64::try_from(rows.len()).unwrap_or(bite) < bite;
        for (position, event) in rows {
            if page.events.len() == limit as usize {
                return Ok(page);
            }
            page.end = position;
            if filter.matches(&event) {
                page.events.push((position, event));
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
    let mut items = db.query(OF_JOB, &params, |row| read(row, salt)).await?;
    items.extend(db.query(TOLD_OF_JOB, &params, |row| read(row, salt)).await?);
    // Positions of one job are given under its lock: by number they are in the job's own order.
    items.sort_by_key(|(position, _)| position.number);
    let next = (items.len() > limit as usize).then(|| items[limit as usize - 1].0);
    items.truncate(limit as usize);
    Ok(Some(Page { items, next }))
}

pub async fn event_range(db: &mut impl Db) -> StoreResult<(Position, Position)> {
    let read = |row: &dyn Row| {
        let number = |n| -> StoreResult<u64> { Ok(row.opt_int(n)?.and_then(|v| u64::try_from(v).ok()).unwrap_or(0)) };
        Ok(Position { epoch: number(0)?, number: number(1)? })
    };
    let first = db.query(FIRST, &[], read).await?.into_iter().next().unwrap_or_default();
    let last = db.query(LAST, &[], read).await?.into_iter().next().unwrap_or_default();
    Ok((first, last))
}

macro_rules! event_columns {
    ($epoch:literal) => {
        concat!(
            "select ",
            $epoch,
            ", e.position, e.tenant, j.id, e.fence, e.seq, e.kind, e.at, e.data, j.trace_id, j.correlation_id
             from event e left join job j on j.number = e.number "
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
const JOB_NUMBER: Sql = Sql::Same("select number from job where tenant = $1 and id = $2");
const FIRST: Sql = Sql::Each {
    sqlite: "select 0, min(position) from event",
    postgres: "select txid, position from event order by txid, position limit 1",
};
const LAST: Sql = Sql::Each {
    sqlite: "select 0, max(position) from event",
    postgres: "select txid, position from event where txid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
               order by txid desc, position desc limit 1",
};
