//! How much waits where.

use bowline_model::{Lane, TenantId};
use bowline_store::{LaneDepth, StoreResult};

use crate::db::{Db, Mode, Sql, Val};

/// All counted at one moment: a job that moves from one place to the next in between would be seen twice, or nowhere.
pub async fn lane_depths(db: &mut impl Db, tenant: Option<TenantId>) -> StoreResult<Vec<LaneDepth>> {
    db.begin(Mode::Snapshot).await?;
    let depths = count_all(db, tenant).await;
    db.rollback().await;
    depths
}

async fn count_all(db: &mut impl Db, tenant: Option<TenantId>) -> StoreResult<Vec<LaneDepth>> {
    let mut depths: Vec<LaneDepth> =
        Lane::ALL.into_iter().map(|lane| LaneDepth { lane, queued: 0, scheduled: 0, running: 0, dead: 0 }).collect();
    let tenant = [Val::OptId(tenant.map(|t| *t.as_uuid()))];
    for (n, sql) in [QUEUED, SCHEDULED, RUNNING, DEAD].into_iter().enumerate() {
        for (lane, count) in db.query(sql, &tenant, |row| Ok((row.int(0)?, row.int(1)?))).await? {
            let Some(depth) = depths.iter_mut().find(|d| d.lane.code() == lane) else { continue };
            let count = u64::try_from(count).unwrap_or(0);
            match n {
                0 => depth.queued = count,
                1 => depth.scheduled = count,
                2 => depth.running = count,
                _ => depth.dead = count,
            }
        }
    }
    Ok(depths)
}

const QUEUED: Sql = Sql::Each {
    sqlite: "select c.lane, sum(q.jobs) from (select channel, count(*) as jobs from queue group by channel) q
             join channel c on c.id = q.channel where (?1 is null or c.tenant = ?1) group by c.lane",
    postgres: "select c.lane, sum(q.jobs)::bigint from (select channel, count(*) as jobs from queue group by channel) q
               join channel c on c.id = q.channel where ($1::uuid is null or c.tenant = $1::uuid) group by c.lane",
};
const SCHEDULED: Sql = Sql::Each {
    sqlite: "select c.lane, sum(t.jobs) from (select channel, count(*) as jobs from timer group by channel) t
             join channel c on c.id = t.channel where (?1 is null or c.tenant = ?1) group by c.lane",
    postgres: "select c.lane, sum(t.jobs)::bigint from (select channel, count(*) as jobs from timer group by channel) t
               join channel c on c.id = t.channel where ($1::uuid is null or c.tenant = $1::uuid) group by c.lane",
};
const RUNNING: Sql = Sql::Each {
    sqlite: "select c.lane, count(*) from lease l join job j on j.number = l.number join channel c on c.id = j.channel
             where (?1 is null or c.tenant = ?1) group by c.lane",
    postgres:
        "select c.lane, count(*) from lease l join job j on j.number = l.number join channel c on c.id = j.channel
               where ($1::uuid is null or c.tenant = $1::uuid) group by c.lane",
};
const DEAD: Sql = Sql::Each {
    sqlite: "select lane, count(*) from dead_letter where status = 1 and (?1 is null or tenant = ?1) group by lane",
    postgres: "select lane, count(*) from dead_letter where status = 1 and ($1::uuid is null or tenant = $1::uuid) group by lane",
};
