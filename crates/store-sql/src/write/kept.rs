//! Hosts that are kept because a run went missing there: from the moment nobody knows whether it goes on, until it must be
//! over, or somebody says that it is. How long that is, the model says.

use std::collections::{BTreeSet, HashMap};

use bowline_model::EventKind;
use bowline_model::event::EventData;
use bowline_model::fleet::{HostLock, Missing, PinnedCommand};
use bowline_model::job::JobKind;
use bowline_model::planted::{self, Mistake};
use bowline_store::{ReleaseOrder, StoreResult};

use super::Desk;
use super::report::RunRow;
use crate::changes::{Changes, Heard};
use crate::db::{Col, Db, Sql, Val};
use crate::read::find_host;

/// Keeps the hosts of these runs, as far as several agents reach them. Where a host has its own agent, that one is the gate.
pub async fn keep(db: &mut impl Db, desk: &Desk<'_>, missing: &[&RunRow]) -> StoreResult<()> {
    let shared: Vec<&RunRow> = missing.iter().copied().filter(|row| !row.own_agent).collect();
    keep_all(db, desk, &shared).await
}

/// Keeps the hosts of these runs, also where a host has its own agent: that one is gone, and what it knew with it.
pub async fn keep_all(db: &mut impl Db, desk: &Desk<'_>, missing: &[&RunRow]) -> StoreResult<()> {
    let there: Vec<(&RunRow, i64, bool)> = missing
        .iter()
        .filter(|_| !planted::on(Mistake::HostNotKept))
        .filter_map(|row| match (row.job.state.kind, row.job.host) {
            (JobKind::Unit(lock), Some(host)) => Some((*row, host, lock == HostLock::Shared)),
            _ => None,
        })
        .collect();
    if there.is_empty() {
        return Ok(());
    }
    let commands: BTreeSet<i64> = there.iter().filter_map(|(row, ..)| row.job.parent).collect();
    let graces: HashMap<i64, u64> = db
        .query_many(PAYLOADS, &[Col::Int(commands.into_iter().collect())], |row| {
            let pinned: Option<PinnedCommand> = serde_json::from_str(&row.opt_text(1)?.unwrap_or_default()).ok();
            Ok((row.int(0)?, pinned.map_or(0, |command| command.spec.kill_grace_ms)))
        })
        .await?
        .into_iter()
        .collect();
    let kept: Vec<_> = there
        .into_iter()
        .filter_map(|(row, host, shared)| {
            let run = Missing {
                claimed_at: row.claimed_at,
                timeout_ms: row.job.policy.timeout_ms,
                kill_grace_ms: row.job.parent.and_then(|command| graces.get(&command).copied()).unwrap_or(0),
            };
            Some((row, host, shared, desk.margin.until(&run, desk.now)?))
        })
        .collect();
    let cols = [
        Col::Id(kept.iter().map(|(row, ..)| *row.run.as_uuid()).collect()),
        Col::Int(kept.iter().map(|(_, host, ..)| *host).collect()),
        Col::Int(kept.iter().map(|(row, ..)| row.job.number).collect()),
        Col::Bool(kept.iter().map(|(_, _, shared, _)| *shared).collect()),
        Col::Text(kept.iter().map(|(row, ..)| row.worker.as_str()).collect()),
        Col::At(vec![desk.now; kept.len()]),
        Col::At(kept.iter().map(|(.., until)| *until).collect()),
    ];
    db.execute_many(KEEP, &cols).await.map(drop)
}

/// These runs are missing no longer: their hosts are for whoever is next.
pub async fn let_go(db: &mut impl Db, runs: Vec<uuid::Uuid>) -> StoreResult<Heard> {
    if runs.is_empty() {
        return Ok(Heard::default());
    }
    let hosts = db.query_many(LET_GO, &[Col::Id(runs)], |row| row.int(0)).await?;
    Ok(Heard { hosts, ..Heard::default() })
}

/// The same for runs that must be over by now.
pub async fn let_go_of_the_past(db: &mut impl Db, desk: &Desk<'_>) -> StoreResult<Heard> {
    let hosts = db.query(PAST, &[Val::At(desk.now)], |row| row.int(0)).await?;
    Ok(Heard { hosts, ..Heard::default() })
}

/// A person knows that nothing runs there any more.
pub async fn release(
    db: &mut impl Db,
    desk: &Desk<'_>,
    order: &ReleaseOrder,
) -> StoreResult<(Option<u64>, Vec<Heard>)> {
    let Some(host) = find_host(db, order.tenant, &order.inventory, &order.host).await? else {
        return Ok((None, Vec::new()));
    };
    let hosts = db.query(RELEASE, &[Val::Int(host.id)], |row| row.int(0)).await?;
    let released = hosts.len() as u64;
    if released == 0 {
        return Ok((Some(0), Vec::new()));
    }
    let mut changes = Changes::at(desk.now);
    let (by, reason, host) = (Some(order.by.to_string()), Some(order.reason.clone()), Some(order.host.clone()));
    let data = EventData { by, reason, host, ..EventData::default() };
    changes.tell(order.tenant, None, None, EventKind::HostReleased, data);
    Ok((Some(released), vec![Heard { hosts, ..Heard::default() }, changes.write(db).await?]))
}

const PAYLOADS: Sql = Sql::Each {
    sqlite: "select number, payload from job where number = ?1",
    postgres: "select number, payload from job where number = any ($1::bigint[])",
};
const KEEP: Sql = Sql::Each {
    sqlite: "insert into kept (run, host, unit, shared, agent, since, until) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             on conflict do nothing",
    postgres: "insert into kept (run, host, unit, shared, agent, since, until)
               select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::boolean[], $5::text[],
                                    $6::timestamptz[], $7::timestamptz[]) on conflict do nothing",
};
const LET_GO: Sql = Sql::Each {
    sqlite: "delete from kept where run = ?1 returning host",
    postgres: "delete from kept where run = any ($1::uuid[]) returning host",
};
const PAST: Sql = Sql::Same("delete from kept where until <= $1 returning host");
const RELEASE: Sql = Sql::Same("delete from kept where host = $1 returning host");
