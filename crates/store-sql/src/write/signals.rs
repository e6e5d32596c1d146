//! Signals by name: stored once, and spread over the executions that wait for them a page at a time.
//!
//! *Spreading*: a signal that some of those who wait for it may not have yet. The first page is told in the transaction that
//! stores the signal, so most signals are spread when they are answered. The others are continued by whoever is next
//! (`spread_signals`), in the order of the executions' numbers; how far that went is stored with the messages of each page, so
//! each execution gets the signal once, whoever crashes in between. Signals of one name are spread one after the other, so an
//! execution gets them in the order in which they were sent.

use bowline_model::{TenantId, Timestamp};
use bowline_store::{NewSignal, PENDING_SIGNALS_MAX, Remembered, Signaled, StoreResult, WaitKind};

use super::Desk;
use super::once::{Known, find_once, keep_once};
use crate::changes::Heard;
use crate::db::{Col, Db, Sql, Val};
use crate::read::WAITING;

/// Executions that are told in one transaction.
const PAGE: usize = 500;
/// Signals that are continued in one transaction.
const SIGNALS: i64 = 4;

/// A signal, as far as it was spread.
struct Spreading {
    id: i64,
    tenant: TenantId,
    name: String,
    key: Option<String>,
    at: Timestamp,
    after: i64,
}

/// Tells everybody who waits for it. Whoever waits without a key hears of every key.
pub async fn signal_flows(db: &mut impl Db, desk: &Desk<'_>, signal: &NewSignal) -> StoreResult<(Signaled, Heard)> {
    let operation = format!("signals/{}", signal.name);
    match find_once(db, signal.tenant, &operation, signal.once.as_ref()).await? {
        None => {}
        Some(Known::Answered(runs)) => {
            return Ok((Signaled::Replayed(runs.parse().unwrap_or(0)), Heard::default()));
        }
        Some(Known::Conflict) => return Ok((Signaled::KeyConflict, Heard::default())),
    }
    let of = [
        Val::Id(*signal.tenant.as_uuid()),
        Val::Int(WaitKind::Event.code()),
        Val::Text(&signal.name),
        Val::OptText(signal.key.as_deref()),
    ];
    let waiting = db.query(WAITING, &of, |row| row.int(0)).await?.into_iter().next().unwrap_or(0).cast_unsigned();
    if waiting > 0 {
        let pending = db.query(PENDING, &of[..1], |row| Ok((row.int(0)?, row.int(1)?))).await?;
        let (signals, bytes) = pending.into_iter().next().unwrap_or_default();
        let has = Remembered { signals: signals.cast_unsigned(), bytes: bytes.cast_unsigned() };
        let too_much = has.signals > 0 && has.bytes + signal.message.len() as u64 > PENDING_SIGNALS_MAX.bytes;
        if has.signals >= PENDING_SIGNALS_MAX.signals || too_much {
            return Ok((Signaled::Full(has), Heard::default()));
        }
        let row = [of[0], of[2], of[3], Val::Text(&signal.message), Val::At(desk.now)];
        let id = db.query(ADD, &row, |row| row.int(0)).await?.into_iter().next().unwrap_or(0);
        // An older one of this name comes first.
        if db.query(OLDER, &[of[0], of[2], Val::Int(id)], |_| Ok(())).await?.is_empty() {
            let (tenant, name, key) = (signal.tenant, signal.name.to_string(), signal.key.clone());
            // Everybody who is counted gets it, whatever the clock of another server said.
            let at = desk.now.plus_millis(3_600_000);
            spread(db, Spreading { id, tenant, name, key, at, after: 0 }).await?;
        }
    }
    keep_once(db, desk, signal.tenant, &operation, signal.once.as_ref(), &waiting.to_string()).await?;
    Ok((Signaled::Told(waiting), Heard { flows: waiting > 0, ..Heard::default() }))
}

/// Continues signals that are not spread yet, and removes those that nobody needs any more. Says whether there was anything
/// to do.
pub async fn spread_signals(db: &mut impl Db) -> StoreResult<(bool, Heard)> {
    let found = db
        .query(NEXT, &[Val::Int(SIGNALS)], |row| {
            Ok(Spreading {
                id: row.int(0)?,
                tenant: TenantId::from_uuid(row.id(1)?),
                name: row.text(2)?,
                key: row.opt_text(3)?,
                at: row.at(4)?,
                after: row.int(5)?,
            })
        })
        .await?;
    let any = !found.is_empty();
    for signal in found {
        spread(db, signal).await?;
    }
    let removed = db.execute(REMOVE, &[]).await?;
    Ok((any || removed > 0, Heard { flows: any, ..Heard::default() }))
}

/// Tells one page of those who wait for it.
async fn spread(db: &mut impl Db, signal: Spreading) -> StoreResult<()> {
    let params = [
        Val::Id(*signal.tenant.as_uuid()),
        Val::Int(WaitKind::Event.code()),
        Val::Text(&signal.name),
        Val::OptText(signal.key.as_deref()),
        Val::Int(signal.after),
        Val::At(signal.at),
        Val::Int(PAGE as i64),
    ];
    let flows = db.query(PAGE_OF, &params, |row| row.int(0)).await?;
    let (is_over, last) = (flows.len() < PAGE, flows.last().copied().unwrap_or(signal.after));
    if !flows.is_empty() {
        let ids = vec![signal.id; flows.len()];
        db.execute_many(TELL, &[Col::Int(flows), Col::Int(ids)]).await?;
    }
    db.execute(MOVE, &[Val::Int(signal.id), Val::Int(last), Val::Bool(!is_over)]).await?;
    Ok(())
}

const PENDING: Sql = Sql::Each {
    sqlite: "select count(*), coalesce(sum(octet_length(body)), 0) from flow_signal where tenant = ?1",
    postgres: "select count(*), coalesce(sum(octet_length(body)), 0)::bigint from flow_signal where tenant = $1",
};
const ADD: Sql = Sql::Each {
    sqlite:
        "insert into flow_signal (tenant, name, key, body, at, after_flow, spreading) values (?1, ?2, ?3, ?4, ?5, 0, 1)
             returning id",
    postgres: "insert into flow_signal (tenant, name, key, body, at, after_flow, spreading)
               values ($1, $2, $3, $4, $5, 0, true) returning id",
};
const OLDER: Sql = Sql::Each {
    sqlite: "select 1 from flow_signal where tenant = ?1 and name = ?2 and id < ?3 and spreading limit 1",
    postgres: "select 1 from flow_signal where tenant = $1 and name = $2 and id < $3 and spreading limit 1",
};
/// Those who waited when it was sent; whoever began since waits for the next one.
const PAGE_OF: Sql = Sql::Each {
    sqlite: "select distinct flow from flow_wait
             where tenant = ?1 and kind = ?2 and name = ?3 and (key is null or key = ?4) and flow > ?5 and since <= ?6
             order by flow limit ?7",
    postgres: "select distinct flow from flow_wait
               where tenant = $1 and kind = $2 and name = $3 and (key is null or key = $4::text) and flow > $5
                 and since <= $6
               order by flow limit $7",
};
const TELL: Sql = Sql::Each {
    sqlite: "insert into flow_inbox (flow, signal) values (?1, ?2)",
    postgres: "insert into flow_inbox (flow, signal) select * from unnest($1::bigint[], $2::bigint[])",
};
const MOVE: Sql = Sql::Same("update flow_signal set after_flow = $2, spreading = $3 where id = $1");
/// Why two texts: another server may be continuing the same ones.
const NEXT: Sql = Sql::Each {
    sqlite: "select s.id, s.tenant, s.name, s.key, s.at, s.after_flow from flow_signal s
             where s.spreading and not exists (select 1 from flow_signal o where o.tenant = s.tenant and o.name = s.name
                                               and o.spreading and o.id < s.id)
             order by s.id limit ?1",
    postgres: "select s.id, s.tenant, s.name, s.key, s.at, s.after_flow from flow_signal s
               where s.spreading and not exists (select 1 from flow_signal o where o.tenant = s.tenant
                                                 and o.name = s.name and o.spreading and o.id < s.id)
               order by s.id limit $1 for update of s skip locked",
};
const REMOVE: Sql = Sql::Each {
    sqlite: "delete from flow_signal where not spreading
             and not exists (select 1 from flow_inbox i where i.signal = flow_signal.id)",
    postgres: "delete from flow_signal s where not spreading
               and not exists (select 1 from flow_inbox i where i.signal = s.id)",
};
