//! Blocks: rules that commands may not run somewhere. They are looked at when a run is about to start (`units.rs`).

use bowline_model::event::EventData;
use bowline_model::{EventKind, TenantId};
use bowline_store::{BLOCK_SELECTOR_BYTES_MAX, BLOCKS_MAX, BlockAnswer, BlockedPlace, NewBlock, StoreResult};

use super::Desk;
use crate::changes::{Changes, Heard};
use crate::db::{Db, Sql, Val};
use crate::read::{find_host, find_inventory};

pub async fn block(db: &mut impl Db, desk: &Desk<'_>, block: &NewBlock) -> StoreResult<(BlockAnswer, Heard)> {
    let Some(inventory) = find_inventory(db, block.tenant, &block.inventory).await? else {
        return Ok((BlockAnswer::NoInventory, Heard::default()));
    };
    let (host, selector, place) = match &block.place {
        BlockedPlace::Selector(text) => (None, Some(text.as_str()), text.clone()),
        BlockedPlace::Host(name) => match find_host(db, block.tenant, &block.inventory, name).await? {
            Some(found) => (Some(found.id), None, name.to_string()),
            None => return Ok((BlockAnswer::NoHost, Heard::default())),
        },
    };
    let in_force = [Val::Id(*block.tenant.as_uuid()), Val::At(desk.now)];
    let in_force = db.query(IN_FORCE, &in_force, |row| Ok((row.int(0)?, row.int(1)?))).await?;
    let (blocks, bytes) = in_force.first().copied().unwrap_or_default();
    let more = i64::try_from(selector.map_or(0, str::len)).unwrap_or(i64::MAX);
    for (what, used, max) in
        [("blocks", blocks + 1, BLOCKS_MAX), ("block_selectors", bytes + more, BLOCK_SELECTOR_BYTES_MAX)]
    {
        if used > max {
            return Ok((BlockAnswer::TooMany { what, max }, Heard::default()));
        }
    }
    let params = [
        Val::Id(*block.tenant.as_uuid()),
        Val::Int(inventory.id),
        Val::OptInt(host),
        Val::OptText(selector),
        Val::OptText(block.command.as_deref()),
        Val::Text(&block.reason),
        Val::Text(&block.by),
        Val::At(desk.now),
        Val::OptAt(block.expires_at),
    ];
    let id = db.query(ADD, &params, |row| row.int(0)).await?.first().copied().unwrap_or_default();
    let what = block.command.as_deref().unwrap_or("every command");
    let reason = format!("block {id}: {what} on {place}: {}", block.reason);
    let heard = tell(db, desk, block.tenant, EventKind::HostBlocked, &block.by, reason).await?;
    Ok((BlockAnswer::Made(id), heard))
}

pub async fn unblock(
    db: &mut impl Db,
    desk: &Desk<'_>,
    tenant: TenantId,
    id: i64,
    by: &str,
    reason: Option<&str>,
) -> StoreResult<(bool, Heard)> {
    if db.execute(LIFT, &[Val::Id(*tenant.as_uuid()), Val::Int(id), Val::At(desk.now)]).await? == 0 {
        return Ok((false, Heard::default()));
    }
    let reason = reason.map_or_else(|| format!("block {id}"), |reason| format!("block {id}: {reason}"));
    Ok((true, tell(db, desk, tenant, EventKind::HostUnblocked, by, reason).await?))
}

async fn tell(
    db: &mut impl Db,
    desk: &Desk<'_>,
    tenant: TenantId,
    kind: EventKind,
    by: &str,
    reason: String,
) -> StoreResult<Heard> {
    let mut changes = Changes::at(desk.now);
    let data = EventData { by: Some(by.to_owned()), reason: Some(reason), ..EventData::default() };
    changes.tell(tenant, None, None, kind, data);
    changes.write(db).await
}

const ADD: Sql = Sql::Same(
    "insert into block (tenant, inventory, host, selector, command, reason, by, at, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning id",
);
const IN_FORCE: Sql = Sql::Same(
    "select count(*), cast(coalesce(sum(length(selector)), 0) as bigint) from block
     where tenant = $1 and lifted_at is null and (expires_at is null or expires_at > $2)",
);
const LIFT: Sql = Sql::Same("update block set lifted_at = $3 where tenant = $1 and id = $2 and lifted_at is null");
