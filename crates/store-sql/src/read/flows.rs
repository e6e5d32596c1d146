//! Runs of workflows, read.

use std::collections::HashMap;
use std::sync::Arc;

use bowline_model::idempotency::RequestHash;
use bowline_model::person::Person;
use bowline_model::question::AskRule;
use bowline_model::{ErrorClass, JobId, RunError, TenantId, Timestamp};
use bowline_store::{
    FlowRecord, INBOX_BYTES, Inbox, InboxItem, InboxMessage, InboxPart, NewQuestion, NewWait, Page, RECORDS_BYTES,
    StoreError, StoreResult, StoredFlow, WaitKind, WaitPlace, WaitRecord,
};

use super::jobs::result_bytes;
use super::pages::within;
use crate::db::{Col, Db, Mode, Row, Sql, Val};
use crate::job_row::{count, status_of};

pub async fn find_definition(db: &mut impl Db, id: i64) -> StoreResult<Option<String>> {
    Ok(db.query(DEFINITION, &[Val::Int(id)], |row| row.text(0)).await?.into_iter().next())
}

/// How many executions wait for an event now.
pub async fn count_waiting(
    db: &mut impl Db,
    tenant: TenantId,
    name: Arc<str>,
    key: Option<String>,
) -> StoreResult<u64> {
    let of =
        [Val::Id(*tenant.as_uuid()), Val::Int(WaitKind::Event.code()), Val::Text(&name), Val::OptText(key.as_deref())];
    Ok(db.query(WAITING, &of, |row| row.int(0)).await?.into_iter().next().unwrap_or(0).cast_unsigned())
}

/// Whether there are signals by name that are not spread, or that nobody needs any more.
pub async fn has_signals(db: &mut impl Db) -> StoreResult<bool> {
    Ok(!db.query(SIGNALS, &[], |_| Ok(())).await?.is_empty())
}

/// What came in and was not heard yet, oldest first.
pub async fn flow_inbox(db: &mut impl Db, limit: u32, part: InboxPart) -> StoreResult<Inbox> {
    // One tenant may have any number of messages that are passed over.
    let (sizes, messages, from, except, until) = match part {
        InboxPart::After { id, except } => {
            let until = db.query(INBOX_UNTIL, &[Val::Int(id), Val::Int(INBOX_ROWS)], |row| row.int(0)).await?;
            (INBOX_SIZES, INBOX, id, except, until.into_iter().next())
        }
        InboxPart::Of(flow) => (INBOX_SIZES_OF, INBOX_OF, flow, Vec::new(), None),
    };
    let except: Vec<String> = except.iter().map(|tenant| tenant.as_uuid().simple().to_string()).collect();
    let except = except.join(",");
    let last = until.unwrap_or(i64::MAX);
    // Their sizes first: what is read of them is held in memory, whoever sent it.
    let params = [Val::Int(i64::from(limit)), Val::Int(from), Val::Int(last), Val::Text(&except)];
    let waiting = db.query(sizes, &params, |row| Ok((row.int(0)?, row.int(1)?))).await?;
    let Some(last) = within(INBOX_BYTES, &waiting) else { return Ok(Inbox { items: Vec::new(), next: until }) };
    let is_cut = waiting.len() >= limit as usize || waiting.last().is_some_and(|(id, _)| *id > last);
    let params = [Val::Int(i64::from(limit)), Val::Int(from), Val::Int(last), Val::Text(&except)];
    let items = db.query(messages, &params, |row| {
        let message = match (row.opt_text(2)?, row.opt_id(3)?) {
            (Some(told), _) => InboxMessage::Told(told),
            (None, Some(job)) => InboxMessage::Ended {
                job: JobId::from_uuid(job),
                status: status_of(row.int(4)?)?,
                result: row.opt_text(5)?,
                result_bytes: row.opt_int(7)?.and_then(|bytes| u64::try_from(bytes).ok()),
                // One that cannot be read must not keep everybody from hearing theirs.
                error: row.opt_text(6)?.map(|text| {
                    serde_json::from_str(&text).unwrap_or_else(|e| {
                        RunError::new(ErrorClass::Handler, format!("the stored error of the job does not parse: {e}"))
                    })
                }),
            },
            // The job is gone, and so is whoever waited for it.
            (None, None) => InboxMessage::Told(r#"{"is":"go_on"}"#.to_owned()),
        };
        Ok(InboxItem { id: row.int(0)?, flow: row.int(1)?, tenant: TenantId::from_uuid(row.id(8)?), message })
    });
    Ok(Inbox { items: items.await?, next: if is_cut { Some(last) } else { until } })
}

/// How many bytes would be read of each execution.
pub async fn flow_sizes(db: &mut impl Db, flows: Vec<i64>, until_step: Option<u32>) -> StoreResult<Vec<(i64, u64)>> {
    let until = vec![until_step.map_or(i64::MAX, i64::from); flows.len()];
    db.query_many(SIZES, &[Col::Int(flows), Col::Int(until)], |row| Ok((row.int(0)?, row.int(1)?.cast_unsigned())))
        .await
}

/// Runs as they were after so many steps, each with all that was recorded since its last snapshot.
pub async fn load_flows(db: &mut impl Db, flows: Vec<i64>, until_step: Option<u32>) -> StoreResult<Vec<StoredFlow>> {
    db.begin(Mode::Snapshot).await?;
    let loaded = load(db, flows, until_step).await;
    db.rollback().await;
    loaded
}

async fn load(db: &mut impl Db, flows: Vec<i64>, until_step: Option<u32>) -> StoreResult<Vec<StoredFlow>> {
    let until = until_step.map_or(i64::MAX, i64::from);
    let mut found = db.query_many(FLOWS, &[Col::Int(flows.clone())], read_flow).await?;
    let limits = || vec![until; flows.len()];
    let snapshots = db
        .query_many(SNAPSHOTS, &[Col::Int(flows.clone()), Col::Int(limits())], |row| {
            Ok((row.int(0)?, (row.int(1)?, row.text(2)?)))
        })
        .await?;
    let mut snapshots: HashMap<i64, (i64, String)> = snapshots.into_iter().collect();
    let from: Vec<i64> = flows.iter().map(|flow| snapshots.get(flow).map_or(0, |(turn, _)| *turn)).collect();
    let turns = db
        .query_many(TURNS, &[Col::Int(flows.clone()), Col::Int(from), Col::Int(limits())], |row| {
            Ok((row.int(0)?, row.text(1)?))
        })
        .await?;
    let mut records: HashMap<i64, Vec<String>> = HashMap::new();
    for (flow, turn) in turns {
        records.entry(flow).or_default().push(turn);
    }
    for flow in &mut found {
        flow.snapshot = snapshots.remove(&flow.number).map(|(_, body)| body);
        flow.records = records.remove(&flow.number).unwrap_or_default();
        flow.since_snapshot = flow.records.iter().map(String::len).sum();
    }
    Ok(found)
}

fn read_flow(row: &dyn Row) -> StoreResult<StoredFlow> {
    Ok(StoredFlow {
        number: row.int(0)?,
        job: JobId::from_uuid(row.id(1)?),
        tenant: TenantId::from_uuid(row.id(2)?),
        definition: row.int(3)?,
        workflow: row.text(4)?.into(),
        workflow_version: row.opt_int(5)?.map(count),
        version: u64::try_from(row.int(6)?).unwrap_or(0),
        depth: count(row.int(7)?),
        payload: row.opt_text(8)?.unwrap_or_else(|| "null".to_owned()),
        actor: row.text(9)?.into(),
        trace_id: row.opt_text(10)?.map(Into::into),
        correlation_id: row.opt_text(11)?.map(Into::into),
        snapshot: None,
        records: Vec::new(),
        since_snapshot: 0,
    })
}

pub async fn flow_number(db: &mut impl Db, tenant: TenantId, job: JobId) -> StoreResult<Option<i64>> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Id(*job.as_uuid())];
    Ok(db.query(NUMBER, &key, |row| row.int(0)).await?.into_iter().next())
}

pub async fn find_flow(db: &mut impl Db, tenant: TenantId, job: JobId) -> StoreResult<Option<FlowRecord>> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Id(*job.as_uuid())];
    let found = db
        .query(FLOW, &key, |row| {
            let forked = row.opt_id(5)?.map(JobId::from_uuid).zip(row.opt_int(6)?.map(count));
            let record = FlowRecord {
                workflow: row.text(0)?,
                workflow_version: row.opt_int(1)?.map(count),
                steps: count(row.int(2)?),
                node: row.opt_text(3)?,
                paused_for: row.opt_text(4)?,
                forked_from: forked,
                parent: row.opt_id(7)?.map(JobId::from_uuid),
                decisions: count(row.int(9)?),
                waits: Vec::new(),
            };
            Ok((row.int(8)?, record))
        })
        .await?;
    let Some((number, mut record)) = found.into_iter().next() else { return Ok(None) };
    record.waits = db.query(WAITS_OF, &[Val::Int(number)], read_wait).await?;
    Ok(Some(record))
}

fn read_wait(row: &dyn Row) -> StoreResult<WaitRecord> {
    let kind = row.int(2)?;
    Ok(WaitRecord {
        job: JobId::from_uuid(row.id(0)?),
        actor: row.text(14)?,
        workflow: row.text(1)?,
        wait: NewWait {
            kind: WaitKind::from_code(kind).ok_or_else(|| StoreError::Broken(format!("unknown wait {kind}")))?,
            node: row.text(3)?.into(),
            visit: count(row.int(4)?),
            name: Arc::from(row.text(5)?),
            key: row.opt_text(6)?,
            expires_at: row.opt_at(7)?,
            question: if kind == WaitKind::Approval.code() {
                Some(NewQuestion {
                    hash: RequestHash::from_bytes(row.bytes(10)?.try_into().unwrap_or([0; 32])),
                    rule: AskRule { quorum: count(row.int(11)?), four_eyes: row.bool(12)? },
                })
            } else {
                None
            },
        },
        since: row.at(8)?,
        given: u32::try_from(Person::list(&row.text(13)?).len()).unwrap_or(u32::MAX),
    })
}

pub async fn list_waits(
    db: &mut impl Db,
    tenant: TenantId,
    kind: WaitKind,
    after: Option<WaitPlace>,
    limit: u32,
) -> StoreResult<Page<WaitRecord, WaitPlace>> {
    // Before every wait there is.
    let nowhere = || WaitPlace { since: Timestamp::default(), flow: 0, node: "".into(), visit: 0 };
    let after = after.unwrap_or_else(nowhere);
    let params = [
        Val::Id(*tenant.as_uuid()),
        Val::Int(kind.code()),
        Val::Int(i64::from(limit) + 1),
        Val::At(after.since),
        Val::Int(after.flow),
        Val::Text(&after.node),
        Val::Int(i64::from(after.visit)),
    ];
    let mut found = db.query(WAITS, &params, |row| Ok((read_wait(row)?, row.int(9)?))).await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next = found.last().filter(|_| more).map(|(last, flow)| {
        let wait = &last.wait;
        WaitPlace { since: last.since, flow: *flow, node: Arc::clone(&wait.node), visit: wait.visit }
    });
    Ok(Page { items: found.into_iter().map(|(wait, _)| wait).collect(), next })
}

/// Records of a run, turn by turn: from the turn that has this step on, and after this turn.
pub async fn flow_records(
    db: &mut impl Db,
    tenant: TenantId,
    job: JobId,
    from_step: u32,
    after: u64,
    limit: u32,
) -> StoreResult<Page<String, u64>> {
    let params = [
        Val::Id(*tenant.as_uuid()),
        Val::Id(*job.as_uuid()),
        Val::Int(i64::from(from_step)),
        Val::Int(i64::from(limit) + 1),
        Val::Int(i64::try_from(after).unwrap_or(i64::MAX)),
    ];
    let turns = db.query(RECORDS_SIZES, &params, |row| Ok((row.int(0)?, row.int(1)?))).await?;
    let page = &turns[..turns.len().min(limit as usize)];
    let Some(last) = within(RECORDS_BYTES, page) else { return Ok(Page { items: Vec::new(), next: None }) };
    let params = [params[0], params[1], params[2], Val::Int(last), params[4]];
    let items = db.query(RECORDS, &params, |row| row.text(0)).await?;
    let next = turns.last().filter(|(turn, _)| *turn > last).map(|_| last.cast_unsigned());
    Ok(Page { items, next })
}

/// Executions that wait for an event. Whoever waits without a key waits for every key.
pub(crate) const WAITING: Sql = Sql::Each {
    sqlite: "select count(distinct flow) from flow_wait
             where tenant = ?1 and kind = ?2 and name = ?3 and (key is null or key = ?4)",
    postgres: "select count(distinct flow) from flow_wait
               where tenant = $1 and kind = $2 and name = $3 and (key is null or key = $4::text)",
};
/// Executions of each tenant that live. Their timers are limits, not places in a line, so no other question counts them.
pub(super) const LIVE: Sql = Sql::Same("select tenant, count(*) from flow where live group by tenant");
const DEFINITION: Sql = Sql::Same("select body from flow_definition where id = $1");
/// Messages of others that one question passes over at most.
const INBOX_ROWS: i64 = 20_000;
const INBOX_UNTIL: Sql = Sql::Same("select id from flow_inbox where id > $1 order by id limit 1 offset $2");
/// What is said to a run that has not begun (2: pending) waits with it.
macro_rules! inbox {
    ($($which:tt)+) => {
        concat!(
            "select i.id, i.flow, coalesce(i.body, s.body), j.id, j.status, j.result, j.error, ",
            result_bytes!(),
            ", f.tenant from flow_inbox i join flow f on f.number = i.flow
             left join job j on j.number = i.child left join flow_signal s on s.id = i.signal
             where ",
            $($which)+,
            " and i.id <= $3 and not exists (select 1 from job r where r.number = i.flow and r.status = 2)
             order by i.id limit $1"
        )
    };
}
macro_rules! inbox_sizes {
    ($result:literal, $($which:tt)+) => {
        concat!(
            "select i.id, cast(coalesce(octet_length(i.body), octet_length(s.body), 0) + coalesce(octet_length(",
            $result,
            "), 0) as bigint)
             from flow_inbox i join flow f on f.number = i.flow
             left join job j on j.number = i.child left join flow_signal s on s.id = i.signal
             where ",
            $($which)+,
            " and i.id <= $3 and not exists (select 1 from job r where r.number = i.flow and r.status = 2)
             order by i.id limit $1"
        )
    };
}
/// Why two texts each: a list of tenants is a text, which each engine takes apart in its own way.
macro_rules! after {
    (sqlite) => {
        "i.id > $2 and instr($4, lower(hex(f.tenant))) = 0"
    };
    (postgres) => {
        "i.id > $2 and f.tenant <> all (string_to_array($4::text, ',')::uuid[])"
    };
}
macro_rules! of_flow {
    (sqlite) => {
        "i.flow = $2 and $4 = ''"
    };
    (postgres) => {
        "i.flow = $2 and $4::text = ''"
    };
}
const INBOX: Sql = Sql::Each { sqlite: inbox!(after!(sqlite)), postgres: inbox!(after!(postgres)) };
const INBOX_OF: Sql = Sql::Each { sqlite: inbox!(of_flow!(sqlite)), postgres: inbox!(of_flow!(postgres)) };
const INBOX_SIZES: Sql = Sql::Each {
    sqlite: inbox_sizes!("j.result", after!(sqlite)),
    postgres: inbox_sizes!("j.result::text", after!(postgres)),
};
const INBOX_SIZES_OF: Sql = Sql::Each {
    sqlite: inbox_sizes!("j.result", of_flow!(sqlite)),
    postgres: inbox_sizes!("j.result::text", of_flow!(postgres)),
};
const SIGNALS: Sql = Sql::Same(
    "select 1 from flow_signal s where s.spreading or not exists (select 1 from flow_inbox i where i.signal = s.id) limit 1",
);
/// What [`SNAPSHOTS`] and [`TURNS`] find, and the payload.
const SIZES: Sql = Sql::Each {
    sqlite: "with snapshot as (select turn, body from flow_snapshot
                               where flow = ?1 and (steps < ?2 or turn = 1 and steps = ?2) order by turn desc limit 1)
             select f.number, coalesce(octet_length(j.payload), 0)
                    + coalesce((select octet_length(body) from snapshot), 0)
                    + coalesce((select sum(octet_length(t.records)) from flow_turn t
                                where t.flow = ?1 and t.turn > coalesce((select turn from snapshot), 0)
                                  and t.first_step <= ?2), 0)
             from flow f join job j on j.number = f.number where f.number = ?1",
    postgres: "select f.number, (coalesce(octet_length(j.payload::text), 0) + coalesce(s.bytes, 0)
                      + coalesce((select sum(octet_length(t.records)) from flow_turn t
                                  where t.flow = f.number and t.turn > coalesce(s.turn, 0)
                                    and t.first_step <= k.until), 0))::bigint
               from unnest($1::bigint[], $2::bigint[]) as k (number, until)
               join flow f on f.number = k.number join job j on j.number = f.number
               left join lateral (select o.turn, octet_length(o.body) as bytes from flow_snapshot o
                                  where o.flow = f.number and (o.steps < k.until or o.turn = 1 and o.steps = k.until)
                                  order by o.turn desc limit 1) s on true",
};
const FLOWS: Sql = Sql::Each {
    sqlite:
        "select f.number, j.id, f.tenant, f.definition, f.workflow, f.workflow_version, f.version, f.depth, j.payload,
                    j.actor, j.trace_id, j.correlation_id
             from flow f join job j on j.number = f.number where f.number = ?1",
    postgres: "select f.number, j.id, f.tenant, f.definition, f.workflow, f.workflow_version, f.version, f.depth,
                      j.payload, j.actor, j.trace_id, j.correlation_id
               from flow f join job j on j.number = f.number where f.number = any ($1::bigint[])",
};
/// One that was taken after the very step asked for may know of more: what people said to the run while it stood there. Nobody
/// said anything before the first turn, and a fork begins with a snapshot.
const SNAPSHOTS: Sql = Sql::Each {
    sqlite: "select flow, turn, body from flow_snapshot where flow = ?1 and (steps < ?2 or turn = 1 and steps = ?2)
             order by turn desc limit 1",
    postgres: "select distinct on (s.flow) s.flow, s.turn, s.body from flow_snapshot s
               join unnest($1::bigint[], $2::bigint[]) as k (flow, until)
                 on s.flow = k.flow and (s.steps < k.until or s.turn = 1 and s.steps = k.until)
               order by s.flow, s.turn desc",
};
const TURNS: Sql = Sql::Each {
    sqlite: "select flow, records from flow_turn where flow = ?1 and turn > ?2 and first_step <= ?3 order by turn",
    postgres: "select t.flow, t.records from flow_turn t
               join unnest($1::bigint[], $2::bigint[], $3::bigint[]) as k (flow, after, until)
                 on t.flow = k.flow and t.turn > k.after and t.first_step <= k.until
               order by t.flow, t.turn",
};
const NUMBER: Sql = Sql::Same(
    "select j.number from job j join flow f on f.number = j.number
     where j.tenant = $1 and j.id = $2 and j.parent is null",
);
const FLOW: Sql = Sql::Same(
    "select f.workflow, f.workflow_version, f.steps, f.node, f.paused_for, f.forked_from, f.forked_step, p.id, f.number,
            f.decisions
     from job j join flow f on f.number = j.number left join job p on p.number = j.flow
     where j.tenant = $1 and j.id = $2 and j.parent is null",
);
/// What [`read_wait`] reads.
macro_rules! wait_columns {
    () => {
        "select j.id, f.workflow, w.kind, w.node, w.visit, w.name, w.key, w.expires_at, w.since, w.flow,
                w.hash, w.quorum, w.four_eyes, w.yes, j.actor
         from flow_wait w join flow f on f.number = w.flow join job j on j.number = w.flow "
    };
}
const WAITS_OF: Sql = Sql::Same(concat!(wait_columns!(), "where w.flow = $1 order by w.since, w.node, w.visit"));
const WAITS: Sql = Sql::Same(concat!(
    wait_columns!(),
    "where w.tenant = $1 and w.kind = $2 and (w.since, w.flow, w.node, w.visit) > ($4, $5, $6, $7)
     order by w.since, w.flow, w.node, w.visit limit $3"
));
const RECORDS_SIZES: Sql = Sql::Same(
    "select t.turn, cast(octet_length(t.records) as bigint) from flow_turn t join job j on j.number = t.flow
     where j.tenant = $1 and j.id = $2 and j.parent is null and t.last_step >= $3 and t.turn > $5
     order by t.turn limit $4",
);
const RECORDS: Sql = Sql::Same(
    "select t.records from flow_turn t join job j on j.number = t.flow
     where j.tenant = $1 and j.id = $2 and j.parent is null and t.last_step >= $3 and t.turn > $5 and t.turn <= $4
     order by t.turn",
);
