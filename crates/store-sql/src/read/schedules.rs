//! Schedules and what became of them, read.

use bowline_model::resource::ResourceKind;
use bowline_model::{JobId, ResourceName, TenantId};
use bowline_store::{DueSchedules, Page, Refusal, ScheduleRecord, ScheduleState, StoreError, StoreResult};

use crate::db::{Db, Mode, Row, Sql, Val};
use crate::job_row::count;

fn amount(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn schedule(row: &dyn Row) -> StoreResult<ScheduleRecord> {
    let broken = |what: String| StoreError::Broken(format!("a stored schedule cannot be read: {what}"));
    let state = match row.opt_at(6)? {
        None => None,
        Some(seen) => Some(ScheduleState {
            seen,
            due_at: row.opt_at(7)?,
            fired: row.opt_at(8)?.zip(row.opt_at(9)?),
            job: row.opt_id(10)?.map(JobId::from_uuid),
            refused: match (row.opt_at(11)?, row.opt_at(12)?, row.opt_text(13)?) {
                (Some(instant), Some(at), Some(why)) => Some(Refusal { instant, at, why }),
                _ => None,
            },
            missed: amount(row.int(14)?),
            passed_over: amount(row.int(15)?),
        }),
    };
    Ok(ScheduleRecord {
        resource: row.int(0)?,
        tenant: TenantId::from_uuid(row.id(1)?),
        name: ResourceName::new(&row.text(2)?).map_err(|e| broken(e.to_string()))?,
        version: count(row.int(3)?),
        spec: row.text(4)?.into(),
        owner: row.text(5)?,
        state,
    })
}

/// In one snapshot, by the ledger's own time.
pub async fn due_schedules(db: &mut impl Db, limit: u32, except: Vec<TenantId>) -> StoreResult<DueSchedules> {
    let except: Vec<String> = except.iter().map(|tenant| tenant.as_uuid().simple().to_string()).collect();
    let except = except.join(",");
    let now = db.begin(Mode::Snapshot).await?;
    let found = async {
        let due = db.query(DUE, &[Val::At(now), Val::Int(limit.into()), Val::Text(&except)], schedule).await?;
        let next = db.query(NEXT, &[Val::At(now)], |row| row.at(0)).await?.into_iter().next();
        Ok(DueSchedules { due, next_at: next, now })
    }
    .await;
    db.rollback().await;
    found
}

pub async fn find_schedule(
    db: &mut impl Db,
    tenant: TenantId,
    name: &ResourceName,
) -> StoreResult<Option<ScheduleRecord>> {
    let kind = ResourceKind::Schedule.as_str();
    let params = [Val::Id(*tenant.as_uuid()), Val::Text(kind), Val::Text(name.as_str())];
    Ok(db.query(ONE, &params, schedule).await?.into_iter().next())
}

pub async fn list_schedules(
    db: &mut impl Db,
    tenant: TenantId,
    after: Option<&ResourceName>,
    limit: u32,
) -> StoreResult<Page<ScheduleRecord, ResourceName>> {
    let params = [
        Val::Id(*tenant.as_uuid()),
        Val::Text(ResourceKind::Schedule.as_str()),
        Val::Text(after.map_or("", ResourceName::as_str)),
        Val::Int(i64::from(limit) + 1),
    ];
    let mut items = db.query(ALL, &params, schedule).await?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = if more { items.last().map(|last| last.name.clone()) } else { None };
    Ok(Page { items, next })
}

macro_rules! record_text {
    ($rest:literal) => {
        concat!(
            "select r.id, r.tenant, r.name, v.version, v.spec, coalesce(r.owner, v.by), s.seen, s.due_at, s.fired_instant, s.fired_at,
                    s.fired_job, s.refused_instant, s.refused_at, s.refused_why, coalesce(s.missed, 0),
                    coalesce(s.passed_over, 0) ",
            $rest
        )
    };
}
macro_rules! record {
    ($rest:literal) => {
        Sql::Same(record_text!($rest))
    };
}

/// Why two texts: a list of tenants is a text, which each engine takes apart in its own way.
const DUE: Sql = Sql::Each {
    sqlite: record_text!(
        "from schedule s join resource r on r.id = s.resource
         join resource_version v on v.resource = r.id and v.version = s.version
         where s.due_at <= $1 and instr($3, lower(hex(r.tenant))) = 0 order by s.due_at, s.resource limit $2"
    ),
    postgres: record_text!(
        "from schedule s join resource r on r.id = s.resource
         join resource_version v on v.resource = r.id and v.version = s.version
         where s.due_at <= $1 and r.tenant <> all (string_to_array($3::text, ',')::uuid[])
         order by s.due_at, s.resource limit $2"
    ),
};
const NEXT: Sql = Sql::Same("select due_at from schedule where due_at > $1 order by due_at limit 1");
const ONE: Sql = record!(
    "from resource r join resource_version v on v.resource = r.id and v.version = coalesce(r.active, r.latest)
     left join schedule s on s.resource = r.id where r.tenant = $1 and r.kind = $2 and r.name = $3"
);
const ALL: Sql = record!(
    "from resource r join resource_version v on v.resource = r.id and v.version = coalesce(r.active, r.latest)
     left join schedule s on s.resource = r.id where r.tenant = $1 and r.kind = $2 and r.name > $3
     order by r.name limit $4"
);
