//! Jobs and their runs, read.

use bowline_model::job::JobKind;
use bowline_model::planted::{self, Mistake};
use bowline_model::{
    ErrorClass, JobId, JobPolicy, JobState, JobStatus, Labels, Lane, RunError, RunId, RunStatus, TaskType, TenantId,
    WorkerName,
};
use bowline_store::{JobFilter, JobRecord, Origin, Page, RunRecord, StoreError, StoreResult, WaitingFacts};
use serde::Deserialize;

use crate::db::{Db, Mode, Row, Sql, Val};
use crate::job_row::{count, kind_of, policy_of, status_of};

/// How many jobs one page looks at before it says "go on from here".
const SCAN_MAX: i64 = 5_000;

fn broken(e: impl std::fmt::Display) -> StoreError {
    StoreError::Broken(e.to_string())
}

/// What went wrong, as it was stored. One that cannot be read is an error, too, and says so: it must not hide its job, nor
/// all others of a list.
pub(super) fn error_of(text: Option<String>) -> Option<RunError> {
    let text = text?;
    Some(serde_json::from_str(&text).unwrap_or_else(|e| unreadable("its stored error", e)))
}

fn unreadable(what: &str, why: impl std::fmt::Display) -> RunError {
    RunError::new(ErrorClass::Handler, format!("{UNREADABLE}: {what}: {why}"))
}

/// How the error of a job begins that is shown although something of it is missing.
const UNREADABLE: &str = "this job could not be read as it was stored";

/// Reads what it can of a row, and remembers the first thing that it could not.
#[derive(Default)]
struct Reader {
    missing: Option<RunError>,
}

impl Reader {
    fn or<T, E: std::fmt::Display>(&mut self, what: &str, read: Result<T, E>, instead: T) -> T {
        read.unwrap_or_else(|why| {
            self.missing.get_or_insert_with(|| unreadable(what, why));
            instead
        })
    }
}

/// What people call a command: its type, or the first word of what is executed. It is read here and not in SQL: there, one
/// payload that cannot be read would hide all jobs of a list.
fn name_of(payload: &str) -> String {
    #[derive(Deserialize)]
    struct Pinned {
        name: Option<String>,
        #[serde(default)]
        spec: Spec,
    }
    #[derive(Deserialize, Default)]
    struct Spec {
        argv: Option<Vec<String>>,
    }
    let pinned: Option<Pinned> = serde_json::from_str(payload).ok();
    let named = pinned.and_then(|p| p.name.or_else(|| p.spec.argv.and_then(|argv| argv.into_iter().next())));
    named.unwrap_or_else(|| "script".to_owned())
}

/// One unreadable row must not hide the others: what cannot be read of it is replaced, and its error says what it was.
fn read_job(row: &dyn Row) -> StoreResult<JobRecord> {
    let mut reader = Reader::default();
    let lane = row.int(4)?;
    let task_type = reader.or("its type", TaskType::new(&row.text(3)?), TaskType::unreadable());
    let lane = reader.or("its lane", Lane::from_code(lane).ok_or_else(|| format!("no lane is {lane}")), Lane::Default);
    let requires = reader.or("its labels", Labels::from_canonical(&row.text(5)?), Labels::default());
    let kind = reader.or("its kind", kind_of(row.int(27)?), JobKind::Task);
    let status = reader.or("its status", status_of(row.int(7)?), JobStatus::Failed);
    let policy = reader.or("its policy", policy_of(row.opt_text(17)?.as_deref()), JobPolicy::default());
    let error = error_of(row.opt_text(16)?);
    Ok(JobRecord {
        id: JobId::from_uuid(row.id(0)?),
        number: row.int(1)?,
        tenant: TenantId::from_uuid(row.id(2)?),
        task_type,
        lane,
        requires,
        priority: i16::try_from(row.int(6)?).unwrap_or(0),
        state: JobState {
            kind,
            status,
            attempts: count(row.int(8)?),
            failures: count(row.int(9)?),
            losses: count(row.int(10)?),
            fence: count(row.int(11)?),
            due_at: row.opt_at(12)?,
        },
        created_at: row.at(13)?,
        updated_at: row.at(14)?,
        finished_at: row.opt_at(15)?,
        error: reader.missing.or(error),
        policy,
        origin: Origin {
            email: None,
            actor: row.text(18)?.into(),
            request_id: row.text(19)?.into(),
            trace_id: row.opt_text(20)?.map(Into::into),
            correlation_id: row.opt_text(21)?.map(Into::into),
            author: None,
        },
        idempotency_key: row.opt_text(22)?,
        external_id: row.opt_text(23)?,
        replay_of: row.opt_id(24)?.map(JobId::from_uuid),
        payload: row.opt_text(25)?,
        result: row.opt_text(26)?,
        command: row.opt_text(28)?.map(|payload| name_of(&payload)),
        begun_by: row.opt_id(29)?.map(JobId::from_uuid),
        workflow: row.opt_text(30)?,
    })
}

pub(super) fn read_run(row: &dyn Row) -> StoreResult<RunRecord> {
    let status = row.int(3)?;
    Ok(RunRecord {
        id: RunId::from_uuid(row.id(0)?),
        attempt: count(row.int(1)?),
        fence: count(row.int(2)?),
        status: RunStatus::from_code(status).ok_or_else(|| broken(format!("unknown run status {status}")))?,
        worker: WorkerName::new(&row.text(4)?).map_err(broken)?,
        claimed_at: row.at(5)?,
        started_at: row.opt_at(6)?,
        finished_at: row.opt_at(7)?,
        error: error_of(row.opt_text(8)?),
        last_seq: u64::try_from(row.int(9)?).unwrap_or(0),
        acked_seq: u64::try_from(row.int(10)?).unwrap_or(0),
        exit_code: row.opt_int(11)?.and_then(|code| i32::try_from(code).ok()),
    })
}

/// A job and its runs, oldest first, both of the same moment.
pub async fn find_job(
    db: &mut impl Db,
    tenant: TenantId,
    job: JobId,
) -> StoreResult<Option<(JobRecord, Vec<RunRecord>)>> {
    db.begin(Mode::Snapshot).await?;
    let found = job_and_runs(db, tenant, job).await;
    db.rollback().await;
    found
}

async fn job_and_runs(
    db: &mut impl Db,
    tenant: TenantId,
    job: JobId,
) -> StoreResult<Option<(JobRecord, Vec<RunRecord>)>> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Id(*job.as_uuid())];
    let found = if planted::on(Mistake::ForgetTenant) {
        db.query(JOB_OF_ANYBODY, &key[1..], read_job).await?
    } else {
        db.query(JOB, &key, read_job).await?
    };
    let Some(job) = found.into_iter().next() else { return Ok(None) };
    let runs = db.query(RUNS, &[Val::Int(job.number)], read_run).await?;
    Ok(Some((job, runs)))
}

/// Jobs of a tenant, newest first, without payloads and results.
pub async fn list_jobs(
    db: &mut impl Db,
    tenant: TenantId,
    filter: &JobFilter,
    before: Option<JobId>,
    limit: u32,
) -> StoreResult<Page<JobRecord, JobId>> {
    let from = before.map_or(uuid::Uuid::max(), |id| *id.as_uuid());
    let params = [
        Val::Id(*tenant.as_uuid()),
        Val::Id(from),
        Val::Int(SCAN_MAX.max(i64::from(limit) + 1)),
        Val::Int(filter.status.map_or(0, bowline_model::JobStatus::code)),
        Val::Int(filter.lane.map_or(0, Lane::code)),
        Val::Text(filter.task_type.as_ref().map_or("", TaskType::as_str)),
        Val::Int(i64::from(limit) + 1),
        Val::OptAt(filter.created_after),
        Val::OptAt(filter.created_before),
    ];
    let mut items = db.query(LIST, &params, read_job).await?;
    items.sort_by_key(|job| std::cmp::Reverse(job.id));
    let full = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = if full {
        items.last().map(|job| job.id)
    } else {
        // Nothing more in this bite; the next one begins where it ended.
        let end = db.query(BITE_END, &params[..3], |row| row.opt_id(0)).await?;
        end.into_iter().next().flatten().map(JobId::from_uuid)
    };
    // Older than asked for: there is no need to go on.
    let done = filter.created_after.is_some_and(|at| {
        next.is_some_and(|id| {
            let (seconds, nanos) = id.as_uuid().get_timestamp().map_or((0, 0), |t| t.to_unix());
            let millis = i64::try_from(seconds).unwrap_or(0) * 1_000 + i64::from(nanos / 1_000_000);
            millis + 60_000 < at.as_millis()
        })
    });
    Ok(Page { items, next: next.filter(|_| !done) })
}

pub async fn waiting_facts(db: &mut impl Db, tenant: TenantId, job: JobId) -> StoreResult<WaitingFacts> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Id(*job.as_uuid())];
    let ahead = db.query(AHEAD, &key, |row| row.int(0)).await?;
    Ok(WaitingFacts { ahead: ahead.first().map_or(0, |n| u64::try_from(*n).unwrap_or(0)) })
}

/// What [`read_job`] reads. A job of kind 2 is a command, and what people call it is in its payload.
macro_rules! job_record {
    ($payload:literal, $body:literal) => {
        concat!(
            "select j.id, j.number, j.tenant, c.type, c.lane, c.requires, j.priority, j.status, j.attempts, j.failures,
                    j.losses, j.fence, j.due_at, j.created_at, j.updated_at, j.finished_at, j.error, j.policy, j.actor,
                    j.request_id, j.trace_id, j.correlation_id, j.idempotency_key, j.external_id, j.replay_of, ",
            $payload,
            ", j.kind, case when j.kind = 2 then j.payload end,
              (select p.id from job p where p.number = j.flow), (select f.workflow from flow f where f.number = j.number) ",
            $body
        )
    };
}

const JOB: Sql = Sql::Same(job_record!(
    "j.payload, j.result",
    "from job j join channel c on c.id = j.channel
     where j.tenant = $1 and j.id = $2 and j.parent is null"
));
const JOB_OF_ANYBODY: Sql =
    Sql::Same(job_record!("j.payload, j.result", "from job j join channel c on c.id = j.channel where j.id = $1"));
/// What [`read_run`] reads.
macro_rules! run_columns {
    () => {
        "r.id, r.attempt, r.fence, r.status, r.worker, r.claimed_at, r.started_at, r.finished_at, r.error, r.last_seq,
         r.acked_seq, r.exit_code"
    };
}
pub(super) use run_columns;
const RUNS: Sql = Sql::Same(concat!("select ", run_columns!(), " from run r where r.number = $1 order by r.fence"));
const LIST: Sql = Sql::Each {
    sqlite: job_record!(
        "null, null",
        "from (select * from job where tenant = ?1 and id < ?2 and parent is null order by id desc limit ?3) j join channel c on c.id = j.channel
         where (?4 = 0 or j.status = ?4) and (?5 = 0 or c.lane = ?5) and (?6 = '' or c.type = ?6)
           and (?8 is null or j.created_at >= ?8) and (?9 is null or j.created_at < ?9)
         order by j.id desc limit ?7"
    ),
    postgres: job_record!(
        "null::text, null::text",
        "from (select * from job where tenant = $1 and id < $2 and parent is null order by id desc limit $3) j join channel c on c.id = j.channel
         where ($4::bigint = 0 or j.status = $4::bigint) and ($5::bigint = 0 or c.lane = $5::bigint)
           and ($6::text = '' or c.type = $6::text)
           and ($8::timestamptz is null or j.created_at >= $8) and ($9::timestamptz is null or j.created_at < $9)
         order by j.id desc limit $7"
    ),
};
/// The last job of a bite that was full: where the next bite begins.
const BITE_END: Sql = Sql::Same(
    "select case when count(*) = $3 then 
              (select id from job where tenant = $1 and id < $2 and parent is null order by id desc limit 1 offset $3 - 1)
            else null end
     from (select 1 from job where tenant = $1 and id < $2 and parent is null order by id desc limit $3) b",
);
const AHEAD: Sql = Sql::Same(
    "select count(*) from (
       select 1 from job j join queue q on q.channel = j.channel
       where j.tenant = $1 and j.id = $2 and j.parent is null
         and (q.rank < 0 - j.priority or (q.rank = 0 - j.priority and q.number < j.number))
       limit 10000) a",
);
