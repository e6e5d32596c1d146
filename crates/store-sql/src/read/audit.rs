//! The audit trail, read; and walked, for those who doubt it.

use std::collections::BTreeSet;

use bowline_model::Timestamp;
use bowline_model::audit::{AuditRecord, Chain, ChainWalk, Digest, Head};
use bowline_store::{AuditFilter, AuditFrom, Page, StoreError, StoreResult};

use super::tokens::actors_in;
use crate::db::{Db, Row, Sql, Val};

fn digest(bytes: Vec<u8>) -> StoreResult<Digest> {
    let bytes = bytes.try_into().map_err(|_| StoreError::Broken("a hash has the wrong length".to_owned()))?;
    Ok(Digest::from_bytes(bytes))
}

fn record(row: &dyn Row) -> StoreResult<AuditRecord> {
    Ok(AuditRecord {
        number: u64::try_from(row.int(0)?).unwrap_or(0),
        at: row.at(1)?,
        actor: row.text(2)?,
        on_behalf_of: row.opt_text(3)?,
        scopes: row.text(4)?,
        action: row.text(5)?,
        resource: row.text(6)?,
        diff: row.opt_text(7)?,
        reason: row.opt_text(8)?,
        request_id: row.opt_text(9)?,
        ip: row.opt_text(10)?,
        result: row.text(11)?,
        prev: digest(row.bytes(12)?)?,
        hash: digest(row.bytes(13)?)?,
    })
}

/// Later than anything that is recorded.
const END: Timestamp = Timestamp::from_millis(253_402_300_799_000);

pub async fn list_audit(
    db: &mut impl Db,
    chain: Chain,
    filter: &AuditFilter,
    from: AuditFrom,
    limit: u32,
) -> StoreResult<Page<AuditRecord, u64>> {
    let limit = limit.max(1);
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let (sql, place) = match from {
        AuditFrom::After(number) => (FORWARDS, signed(number)),
        AuditFrom::Before(number) => (BACKWARDS, number.map_or(i64::MAX, signed)),
    };
    let text = |text: &'_ Option<String>| text.clone().unwrap_or_default();
    let (action, resource) = (text(&filter.action), text(&filter.resource));
    let actors = actors_in(filter.actors.as_deref());
    let params = [
        Val::Id(*chain.as_uuid()),
        Val::Int(place),
        Val::Text(&actors),
        Val::Text(&action),
        Val::Text(&resource),
        Val::At(filter.since.unwrap_or_default()),
        Val::At(filter.until.unwrap_or(END)),
        Val::Int(i64::from(limit) + 1),
    ];
    let mut items = db.query(sql, &params, record).await?;
    let next = (items.len() > limit as usize).then(|| items[limit as usize - 1].number);
    items.truncate(limit as usize);
    Ok(Page { items, next })
}

pub async fn audit_heads(db: &mut impl Db, now: Timestamp) -> StoreResult<Vec<Head>> {
    let read = |row: &dyn Row| {
        Ok(Head {
            chain: Chain::from_uuid(row.id(0)?),
            number: u64::try_from(row.int(1)?).unwrap_or(0),
            hash: digest(row.bytes(2)?)?,
            at: now,
        })
    };
    db.query(HEADS, &[], read).await
}

/// Walks every chain to where the ledger says it ends. How many records there are, and what is wrong with them.
pub async fn verify_audit(db: &mut impl Db, faults: &mut Vec<String>) -> StoreResult<u64> {
    let heads = audit_heads(db, Timestamp::default()).await?;
    let begun: Vec<Chain> = db.query(CHAINS, &[], |row| Ok(Chain::from_uuid(row.id(0)?))).await?;
    let mut seen = 0;
    for chain in heads.iter().map(|head| head.chain).chain(begun).collect::<BTreeSet<_>>() {
        let mut walk = ChainWalk::new(chain, heads.iter().copied());
        let mut after = 0;
        let end = loop {
            let page = list_audit(db, chain, &AuditFilter::default(), AuditFrom::After(after), 2_000).await?;
            seen += page.items.len() as u64;
            if let Err(fault) = page.items.iter().try_for_each(|record| walk.step(record)) {
                break Err(fault);
            }
            match page.next {
                Some(next) => after = next,
                None => break walk.finish(),
            }
        };
        let head = heads.iter().find(|head| head.chain == chain).map_or(0, |head| head.number);
        match end {
            Err(fault) => faults.push(format!("audit chain {chain}: {fault}")),
            Ok((last, _)) if last > head => {
                faults.push(format!(
                    "audit chain {chain}: it ends with record {last}, yet the ledger holds {head} for its end"
                ));
            }
            Ok(_) => {}
        }
    }
    Ok(seen)
}

/// The text of [`actors_in`] loses an actor that is in it.
macro_rules! records {
    ($rest:literal) => {
        Sql::Same(concat!(
            "select number, at, actor, on_behalf_of, scopes, action, resource, diff, reason, request_id, ip, result, prev,
                    hash
             from audit
             where chain = $1 and ($3 = '' or replace($3, '\n' || actor || '\n', '') <> $3) and ($4 = '' or action = $4)
               and ($5 = '' or resource = $5 or (resource > $5 || '/' and resource < $5 || '0'))
               and at >= $6 and at < $7 and ",
            $rest
        ))
    };
}
const FORWARDS: Sql = records!("number > $2 order by number limit $8");
const BACKWARDS: Sql = records!("number < $2 order by number desc limit $8");
const HEADS: Sql = Sql::Same("select chain, number, hash from audit_chain order by chain");
const CHAINS: Sql = Sql::Same("select distinct chain from audit");
