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
    sum(db, &[QUEUED, SCHEDULED, super::flows::LIVE]).await
}

pub async fn stored_by_tenant(db: &mut impl Db) -> StoreResult<Vec<(TenantId, u64)>> {
    sum(
        db,
        &[
            JOBS,
            OUTPUT,
            EXECUTIONS,
            INBOX,
            SIGNALS,
            HOSTS,
            GROUPS,
            TARGETS,
            DIGESTS,
            TOKENS,
            DEFINITIONS,
            RESOURCES,
            REPORTED,
            REPORTED_BEFORE,
        ],
    )
    .await
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
    sqlite: "select tenant, sum(coalesce(octet_length(payload), 0) + coalesce(octet_length(result), 0)
                                + coalesce(octet_length(approved), 0))
             from job group by tenant",
    postgres: "select tenant, sum(coalesce(pg_column_size(payload), 0) + coalesce(pg_column_size(result), 0)
                                  + coalesce(pg_column_size(approved), 0))::bigint
               from job group by tenant",
};
const OUTPUT: Sql = Sql::Each {
    sqlite: "select r.tenant, sum(o.bytes) from output o join run r on r.id = o.run group by r.tenant",
    postgres: "select r.tenant, sum(o.bytes)::bigint from output o join run r on r.id = o.run group by r.tenant",
};
/// Each turn adds what it recorded to its execution, so that the records need not be looked at.
const EXECUTIONS: Sql = Sql::Each {
    sqlite: "select tenant, sum(bytes) from flow group by tenant",
    postgres: "select tenant, sum(bytes)::bigint from flow group by tenant",
};
const INBOX: Sql = Sql::Each {
    sqlite: "select f.tenant, sum(coalesce(octet_length(i.body), 0)) from flow_inbox i join flow f on f.number = i.flow
             group by f.tenant",
    postgres: "select f.tenant, sum(coalesce(pg_column_size(i.body), 0))::bigint
               from flow_inbox i join flow f on f.number = i.flow group by f.tenant",
};
const SIGNALS: Sql = Sql::Each {
    sqlite: "select tenant, sum(octet_length(body)) from flow_signal group by tenant",
    postgres: "select tenant, sum(pg_column_size(body))::bigint from flow_signal group by tenant",
};
const HOSTS: Sql = Sql::Each {
    sqlite:
        "select tenant, sum(octet_length(name) + octet_length(labels) + octet_length(groups) + octet_length(connection)
                                + coalesce(octet_length(vars), 0)) from host group by tenant",
    postgres: "select tenant, sum(pg_column_size(name) + pg_column_size(labels) + pg_column_size(groups)
                                  + pg_column_size(connection) + coalesce(pg_column_size(vars), 0))::bigint
               from host group by tenant",
};
const GROUPS: Sql = Sql::Each {
    sqlite: "select i.tenant, sum(octet_length(g.name) + octet_length(g.groups) + coalesce(octet_length(g.vars), 0))
             from host_group g join inventory i on i.id = g.inventory group by i.tenant",
    postgres: "select i.tenant, sum(pg_column_size(g.name) + pg_column_size(g.groups) + coalesce(pg_column_size(g.vars), 0))::bigint
               from host_group g join inventory i on i.id = g.inventory group by i.tenant",
};
const DEFINITIONS: Sql = Sql::Each {
    sqlite: "select tenant, sum(octet_length(body)) from flow_definition group by tenant",
    postgres: "select tenant, sum(pg_column_size(body))::bigint from flow_definition group by tenant",
};
/// The hosts of each command, by number, and what was approved for each of them.
const TARGETS: Sql = Sql::Each {
    sqlite: "select tenant, sum(octet_length(targets)) from fleet group by tenant",
    postgres: "select tenant, sum(pg_column_size(targets))::bigint from fleet group by tenant",
};
const DIGESTS: Sql = Sql::Each {
    sqlite: "select tenant, sum(coalesce(octet_length(digests), 0)) from approval group by tenant",
    postgres: "select tenant, sum(coalesce(pg_column_size(digests), 0))::bigint from approval group by tenant",
};
/// Also those that were revoked: their rows stay.
const TOKENS: Sql = Sql::Each {
    sqlite: "select tenant, sum(octet_length(name) + octet_length(secret_hash) + octet_length(scopes)
                                + octet_length(labels)) from token where tenant is not null group by tenant",
    postgres:
        "select tenant, sum(pg_column_size(name) + pg_column_size(secret_hash) + pg_column_size(scopes)
                                  + pg_column_size(labels))::bigint from token where tenant is not null group by tenant",
};
/// All versions, because none is removed as long as its resource is there.
const RESOURCES: Sql = Sql::Each {
    sqlite: "select r.tenant, sum(octet_length(v.spec) + coalesce(octet_length(v.source), 0)) from resource_version v join resource r on r.id = v.resource
             group by r.tenant",
    postgres: "select r.tenant, sum(pg_column_size(v.spec) + coalesce(pg_column_size(v.source), 0))::bigint
               from resource_version v join resource r on r.id = v.resource group by r.tenant",
};
/// What workers reported: each run has the sum, so that the events need not be looked at.
const REPORTED: Sql = Sql::Each {
    sqlite: "select tenant, sum(told_bytes) from run group by tenant",
    postgres: "select tenant, sum(told_bytes)::bigint from run group by tenant",
};
const REPORTED_BEFORE: Sql = Sql::Each {
    sqlite: "select tenant, sum(told_bytes) from gone group by tenant",
    postgres: "select tenant, sum(told_bytes)::bigint from gone group by tenant",
};
const ASIDE: Sql = Sql::Same("select tenant, subject, at from set_aside order by tenant, subject");
