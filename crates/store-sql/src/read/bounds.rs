//! What tenants use, and which evaluations are set aside, read.

use std::collections::BTreeMap;

use bowline_model::TenantId;
use bowline_store::{SetAsideRecord, StoreResult};

use crate::db::{Db, Row, Sql};

fn counted(row: &dyn Row) -> StoreResult<(TenantId, u64)> {
    Ok((TenantId::from_uuid(row.id(0)?), u64::try_from(row.int(1)?).unwrap_or(0)))
}

/// The sum of several questions, by tenant.
async fn sum(db: &mut impl Db, questions: &[Sql]) -> StoreResult<Vec<(TenantId, u64)>> {
    let mut sums: BTreeMap<TenantId, u64> = BTreeMap::new();
    for question in questions {
        for (tenant, count) in db.query(*question, &[], |row| counted(row)).await? {
            *sums.entry(tenant).or_default() += count;
        }
    }
    Ok(sums.into_iter().collect())
}

pub async fn queued_by_tenant(db: &mut impl Db) -> StoreResult<Vec<(TenantId, u64)>> {
    sum(db, &[QUEUED, SCHEDULED]).await
}

pub async fn stored_by_tenant(db: &mut impl Db) -> StoreResult<Vec<(TenantId, u64)>> {
    sum(db, &[JOBS, OUTPUT]).await
}

pub async fn list_set_aside(db: &mut impl Db, tenant: Option<TenantId>) -> StoreResult<Vec<SetAsideRecord>> {
    let found = db
        .query(ASIDE, &[], |row| {
            Ok(SetAsideRecord { tenant: TenantId::from_uuid(row.id(0)?), subject: row.text(1)?, at: row.at(2)? })
        })
        .await?;
    Ok(found.into_iter().filter(|record| tenant.is_none_or(|tenant| record.tenant == tenant)).collect())
}

const QUEUED: Sql = Sql::Same(
    "select c.tenant, q.jobs from channel c
     join (select channel, count(*) as jobs from queue group by channel) q on q.channel = c.id",
);
const SCHEDULED: Sql = Sql::Same(
    "select c.tenant, t.jobs from channel c
     join (select channel, count(*) as jobs from timer group by channel) t on t.channel = c.id",
);
/// Why two texts: each engine has its own way to know a length without reading the text.
const JOBS: Sql = Sql::Each {
    sqlite: "select tenant, sum(coalesce(octet_length(payload), 0) + coalesce(octet_length(result), 0))
             from job group by tenant",
    postgres: "select tenant, sum(coalesce(pg_column_size(payload), 0) + coalesce(pg_column_size(result), 0))::bigint
               from job group by tenant",
};
const OUTPUT: Sql = Sql::Each {
    sqlite: "select r.tenant, sum(o.bytes) from output o join run r on r.id = o.run group by r.tenant",
    postgres: "select r.tenant, sum(o.bytes)::bigint from output o join run r on r.id = o.run group by r.tenant",
};
const ASIDE: Sql = Sql::Same("select tenant, subject, at from set_aside order by tenant, subject");
