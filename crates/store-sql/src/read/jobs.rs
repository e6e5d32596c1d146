//! Jobs and their runs, read.

use bowline_model::job::JobKind;
use bowline_model::planted::{self, Mistake};
use bowline_model::{
    ErrorClass, JobId, JobPolicy, JobState, JobStatus, Labels, Lane, RunError, RunId, RunStatus, TaskType, TenantId,
    WorkerName,
};
use bowline_store::{JobFilter, JobRecord, JobRef, Origin, Page, RunRecord, StoreError, StoreResult, WaitingFacts};
use serde::Deserialize;

use super::tokens::actors_in;
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
    let named = match serde_json::from_str::<Pinned>(payload) {
        Ok(pinned) => pinned.name.or_else(|| pinned.spec.argv.and_then(|argv| argv.into_iter().next())),
        Err(_) => name_in_the_beginning(payload),
    };
    named.unwrap_or_else(|| "script".to_owned())
}

/// The same, where a list has read no more than the beginning of the payload: we wrote it, so its fields have an order and no
/// spaces. A quote within a text has a backslash before it, so no text looks like a field.
fn name_in_the_beginning(payload: &str) -> Option<String> {
    let text_after = |mark: &str| {
        let (_, rest) = payload.split_once(mark)?;
        serde_json::Deserializer::from_str(rest).into_iter::<String>().next()?.ok()
    };
    let is_named = payload.starts_with("{\"name\":\"");
    if is_named { text_after("{\"name\":") } else { text_after("\"argv\":[") }
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
        paused_for: row.opt_text(31)?,
        deadline_at: row.opt_at(32)?,
        result_bytes: row.opt_int(33)?.and_then(|bytes| u64::try_from(bytes).ok()),
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

/// Which jobs one page looks at, before the filter is asked.
enum Bite {
    /// All, by their ids.
    All(uuid::Uuid),
    /// Runs of a workflow, or children of one, by their numbers: each has an index of its own.
    Workflow(i64),
    Children(i64),
}

/// Jobs of a tenant, newest first, without payloads and results.
pub async fn list_jobs(
    db: &mut impl Db,
    tenant: TenantId,
    filter: &JobFilter,
    before: Option<JobId>,
    limit: u32,
) -> StoreResult<Page<JobRecord, JobId>> {
    let nothing = Page { items: Vec::new(), next: None };
    let parent = match filter.parent {
        None => 0,
        Some(parent) => match number_of(db, tenant, parent).await? {
            Some(number) => number,
            None => return Ok(nothing),
        },
    };
    let bite = if filter.parent.is_none() && filter.workflow.is_none() {
        Bite::All(before.map_or(uuid::Uuid::max(), |id| *id.as_uuid()))
    } else {
        // Where the page before ended; a job that retention has taken since ends the list.
        let from = match before {
            None => i64::MAX,
            Some(id) => match number_of(db, tenant, id).await? {
                Some(number) => number,
                None => return Ok(nothing),
            },
        };
        if filter.parent.is_some() { Bite::Children(from) } else { Bite::Workflow(from) }
    };
    let label = filter.label.as_ref().map(|(name, value)| format!(" {name}={value} ")).unwrap_or_default();
    let text = filter.text.as_ref().map(|text| text.to_lowercase()).unwrap_or_default();
    let actors = actors_in(filter.actors.as_deref());
    let paused_for = filter.paused_for.unwrap_or_default();
    let status = match (filter.status, filter.paused_for) {
        (Some(status), _) => status.code(),
        (None, None) => 0,
        // No status but this one.
        (None, Some(_)) => -1,
    };
    let params = [
        Val::Id(*tenant.as_uuid()),
        match bite {
            Bite::All(from) => Val::Id(from),
            Bite::Workflow(from) | Bite::Children(from) => Val::Int(from),
        },
        Val::Int(SCAN_MAX.max(i64::from(limit) + 1)),
        Val::Int(status),
        Val::Int(filter.lane.map_or(0, Lane::code)),
        Val::Text(filter.task_type.as_ref().map_or("", TaskType::as_str)),
        Val::Int(i64::from(limit) + 1),
        Val::OptAt(filter.created_after),
        Val::OptAt(filter.created_before),
        Val::Text(filter.workflow.as_deref().unwrap_or_default()),
        Val::Text(&actors),
        Val::Text(&label),
        Val::Text(&text),
        Val::Int(i64::from(filter.no_children)),
        Val::Int(parent),
        Val::Text(paused_for),
    ];
    let (list, end, shared) = match bite {
        Bite::All(_) => (LIST, BITE_END, &params[..3]),
        Bite::Workflow(_) => (LIST_OF_WORKFLOW, BITE_END_OF_WORKFLOW, &params[..3]),
        Bite::Children(_) => (LIST_OF_CHILDREN, BITE_END_OF_CHILDREN, &params[..3]),
    };
    let mut items = db.query(list, &params, read_job).await?;
    match bite {
        Bite::All(_) => items.sort_by_key(|job| std::cmp::Reverse(job.id)),
        Bite::Workflow(_) | Bite::Children(_) => items.sort_by_key(|job| std::cmp::Reverse(job.number)),
    }
    let full = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = if full {
        items.last().map(|job| job.id)
    } else {
        // Nothing more in this bite; the next one begins where it ended.
        let of = match bite {
            Bite::All(_) => None,
            Bite::Workflow(_) => params.get(9),
            Bite::Children(_) => params.get(14),
        };
        let end_params: Vec<Val<'_>> = shared.iter().chain(of).copied().collect();
        let end = db.query(end, &end_params, |row| row.opt_id(0)).await?;
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

async fn number_of(db: &mut impl Db, tenant: TenantId, job: JobId) -> StoreResult<Option<i64>> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Id(*job.as_uuid())];
    Ok(db.query(NUMBER, &key, |row| row.int(0)).await?.into_iter().next())
}

/// The jobs that are meant, newest first.
pub async fn resolve_job(db: &mut impl Db, tenant: TenantId, job: &JobRef) -> StoreResult<Vec<JobId>> {
    let tenant = Val::Id(*tenant.as_uuid());
    let found = match job {
        JobRef::Number(number) => db.query(BY_NUMBER, &[tenant, Val::Int(*number)], |row| row.id(0)).await?,
        JobRef::Suffix(suffix) => {
            let pattern = format!("%{suffix}");
            let params = [tenant, Val::Text(&pattern), Val::Int(JobRef::SCAN_MAX), Val::Int(JobRef::FOUND_MAX)];
            db.query(BY_SUFFIX, &params, |row| row.id(0)).await?
        }
    };
    let mut ids: Vec<JobId> = found.into_iter().map(JobId::from_uuid).collect();
    ids.sort_unstable_by_key(|id| std::cmp::Reverse(*id));
    Ok(ids)
}

pub async fn waiting_facts(db: &mut impl Db, tenant: TenantId, job: JobId) -> StoreResult<WaitingFacts> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Id(*job.as_uuid())];
    let ahead = db.query(AHEAD, &key, |row| row.int(0)).await?;
    Ok(WaitingFacts { ahead: ahead.first().map_or(0, |n| u64::try_from(*n).unwrap_or(0)) })
}

/// The length of the result in the object store of the run that a job `j` succeeded with. 3 is the stream of results, 10 the
/// status of success.
macro_rules! result_bytes {
    () => {
        "case when j.status = 10 and j.result is null then
           (select cast(sum(o.bytes) as bigint) from run s join output o on o.run = s.id
            where s.number = j.number and s.fence = j.fence and o.stream = 3) end"
    };
}
pub(super) use result_bytes;
/// What [`read_job`] reads. A job of kind 2 is a command, and what people call it is in its payload.
macro_rules! job_record {
    ($payload:literal, $command:literal, $stored:expr, $body:expr) => {
        concat!(
            "select j.id, j.number, j.tenant, c.type, c.lane, c.requires, j.priority, j.status, j.attempts, j.failures,
                    j.losses, j.fence, j.due_at, j.created_at, j.updated_at, j.finished_at, j.error, j.policy, j.actor,
                    j.request_id, j.trace_id, j.correlation_id, j.idempotency_key, j.external_id, j.replay_of, ",
            $payload,
            ", j.kind, ",
            $command,
            ",
              (select p.id from job p where p.number = j.flow), (select f.workflow from flow f where f.number = j.number),
              (select f.paused_for from flow f where f.number = j.number),
              (select d.at from deadline d where d.number = j.number), ",
            $stored,
            " ",
            $body
        )
    };
}

const JOB: Sql = Sql::Same(job_record!(
    "j.payload, j.result",
    "case when j.kind = 2 then j.payload end",
    result_bytes!(),
    "from job j join channel c on c.id = j.channel
     where j.tenant = $1 and j.id = $2 and j.parent is null"
));
const JOB_OF_ANYBODY: Sql = Sql::Same(job_record!(
    "j.payload, j.result",
    "case when j.kind = 2 then j.payload end",
    result_bytes!(),
    "from job j join channel c on c.id = j.channel where j.id = $1"
));
/// What [`read_run`] reads.
macro_rules! run_columns {
    () => {
        "r.id, r.attempt, r.fence, r.status, r.worker, r.claimed_at, r.started_at, r.finished_at, r.error, r.last_seq,
         r.acked_seq, r.exit_code"
    };
}
pub(super) use run_columns;
const RUNS: Sql = Sql::Same(concat!("select ", run_columns!(), " from run r where r.number = $1 order by r.fence"));
/// Jobs of a bite that fit a filter. What is empty or 0 filters nothing. 6 is the code of `paused`, 2 the kind of a command.
macro_rules! list {
    ($sqlite_bite:literal, $postgres_bite:literal, $order:literal) => {
        Sql::Each {
            sqlite: job_record!(
                "null, null",
                "case when j.kind = 2 then substr(j.payload, 1, 4096) end",
                "null",
                concat!(
                    "from (",
                    $sqlite_bite,
                    ") j join channel c on c.id = j.channel left join flow w on w.number = j.number
         where ((?4 = 0 and ?16 = '') or j.status = ?4 or (?16 <> '' and j.status = 6 and w.paused_for = ?16))
           and (?5 = 0 or c.lane = ?5) and (?6 = '' or c.type = ?6)
           and (?8 is null or j.created_at >= ?8) and (?9 is null or j.created_at < ?9)
           and (?10 = '' or w.workflow = ?10)
           and (?11 = '' or replace(?11, '\n' || j.actor || '\n', '') <> ?11)
           and (?12 = '' or instr(' ' || c.requires || ' ', ?12) > 0)
           and (?13 = '' or instr(lower(c.type || ' ' || coalesce(w.workflow, '') || ' ' || coalesce(j.external_id, '') ||
                 ' ' || coalesce(j.correlation_id, '') || ' ' || coalesce(j.idempotency_key, '') || ' ' ||
                 coalesce(j.error, '') || ' ' || case when j.kind = 2 then coalesce(j.payload, '') else '' end), ?13) > 0)
           and (?14 = 0 or j.flow is null) and (?15 = 0 or j.flow = ?15)
         order by ",
                    $order,
                    " desc limit ?7"
                )
            ),
            postgres: job_record!(
                "null::text, null::text",
                "case when j.kind = 2 then substr(j.payload::text, 1, 4096) end",
                "null::bigint",
                concat!(
                    "from (",
                    $postgres_bite,
                    ") j join channel c on c.id = j.channel left join flow w on w.number = j.number
         where (($4::bigint = 0 and $16::text = '') or j.status = $4::bigint
                or ($16::text <> '' and j.status = 6 and w.paused_for = $16::text))
           and ($5::bigint = 0 or c.lane = $5::bigint) and ($6::text = '' or c.type = $6::text)
           and ($8::timestamptz is null or j.created_at >= $8) and ($9::timestamptz is null or j.created_at < $9)
           and ($10::text = '' or w.workflow = $10::text)
           and ($11::text = '' or replace($11::text, '\n' || j.actor || '\n', '') <> $11::text)
           and ($12::text = '' or position($12::text in ' ' || c.requires || ' ') > 0)
           and ($13::text = '' or position($13::text in lower(c.type || ' ' || coalesce(w.workflow, '') || ' ' ||
                 coalesce(j.external_id, '') || ' ' || coalesce(j.correlation_id, '') || ' ' ||
                 coalesce(j.idempotency_key, '') || ' ' || coalesce(j.error::text, '') || ' ' ||
                 case when j.kind = 2 then coalesce(j.payload::text, '') else '' end)) > 0)
           and ($14::bigint = 0 or j.flow is null) and ($15::bigint = 0 or j.flow = $15::bigint)
         order by ",
                    $order,
                    " desc limit $7"
                )
            ),
        }
    };
}

const LIST: Sql = list!(
    "select * from job where tenant = ?1 and id < ?2 and parent is null order by id desc limit ?3",
    "select * from job where tenant = $1 and id < $2 and parent is null order by id desc limit $3",
    "j.id"
);
const LIST_OF_WORKFLOW: Sql = list!(
    "select b.* from flow f join job b on b.number = f.number
     where f.tenant = ?1 and f.workflow = ?10 and f.number < ?2 order by f.number desc limit ?3",
    "select b.* from flow f join job b on b.number = f.number
     where f.tenant = $1 and f.workflow = $10::text and f.number < $2 order by f.number desc limit $3",
    "j.number"
);
const LIST_OF_CHILDREN: Sql = list!(
    "select * from job where flow = ?15 and tenant = ?1 and parent is null and number < ?2 order by number desc limit ?3",
    "select * from job where flow = $15::bigint and tenant = $1 and parent is null and number < $2
     order by number desc limit $3",
    "j.number"
);
const BITE_END_OF_WORKFLOW: Sql = Sql::Same(
    "select id from job where number = (select case when count(*) = $3 then min(b.number) else null end from
       (select number from flow where tenant = $1 and workflow = $4 and number < $2 order by number desc limit $3) b)",
);
const BITE_END_OF_CHILDREN: Sql = Sql::Same(
    "select id from job where number = (select case when count(*) = $3 then min(b.number) else null end from
       (select number from job where flow = $4 and tenant = $1 and parent is null and number < $2
        order by number desc limit $3) b)",
);
const NUMBER: Sql = Sql::Same("select number from job where tenant = $1 and id = $2 and parent is null");
const BY_NUMBER: Sql = Sql::Same("select id from job where tenant = $1 and number = $2 and parent is null");
/// Why two texts: an id is a blob here and a uuid there.
const BY_SUFFIX: Sql = Sql::Each {
    sqlite: "select id from (select id from job where tenant = ?1 and parent is null order by id desc limit ?3) b
             where lower(hex(id)) like ?2 order by id desc limit ?4",
    postgres: "select id from (select id from job where tenant = $1 and parent is null order by id desc limit $3) b
               where replace(id::text, '-', '') like $2::text order by id desc limit $4",
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

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn a_command_has_the_same_name_when_only_the_beginning_of_it_is_read() {
        let long = "x".repeat(10_000);
        for (payload, name) in [
            (format!(r#"{{"name":"uptime","version":3,"spec":{{"argv":["sh","{long}"]}},"params":{{}}}}"#), "uptime"),
            (format!(r#"{{"spec":{{"argv":["s\"h\u0041","{long}"]}},"params":{{"argv":["no"]}}}}"#), "s\"hA"),
            (format!(r#"{{"spec":{{"script":"\"argv\":[\"no\"] {long}"}},"params":{{}}}}"#), "script"),
        ] {
            assert_eq!(name_of(&payload), name);
            assert_eq!(name_of(&payload[..4_096]), name);
        }
        assert_eq!(name_of("not JSON"), "script");
    }
}
