//! Where output is, read.

use bowline_model::{HostName, JobId, RunId, RunStatus, TenantId, Timestamp, WorkerName};
use bowline_store::{
    Encoding, OUTPUT_GRACE_MS, OUTPUT_MAX_BYTES, OutputAnswer, OutputOf, OutputRange, OutputStream, StoreError,
    StoreResult,
};

use crate::db::{Db, Mode, Sql, Val};

fn whole(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

pub async fn may_bring(
    db: &mut impl Db,
    tenant: TenantId,
    worker: &WorkerName,
    run: RunId,
    stream: OutputStream,
    end: u64,
) -> StoreResult<OutputAnswer> {
    let now = db.begin(Mode::Snapshot).await?;
    let answer = judge_range(db, now, tenant, worker, (run, stream, end)).await;
    db.rollback().await;
    answer.map(|(answer, _)| answer)
}

/// Whether a worker may bring a range that ends at `end`, and how long the stream may become.
pub async fn judge_range(
    db: &mut impl Db,
    now: Timestamp,
    tenant: TenantId,
    worker: &WorkerName,
    (run, stream, end): (RunId, OutputStream, u64),
) -> StoreResult<(OutputAnswer, u64)> {
    let key = [Val::Id(*run.as_uuid()), Val::Id(*tenant.as_uuid())];
    let found = db.query(RUN, &key, |row| {
        let status = RunStatus::from_code(row.int(1)?);
        Ok((row.text(0)?, status, row.opt_at(2)?, row.opt_text(3)?))
    });
    let Some((owner, status, finished_at, command)) = found.await?.into_iter().next() else {
        return Ok((OutputAnswer::NotFound, 0));
    };
    if owner != worker.as_str() {
        return Ok((OutputAnswer::NotYours, 0));
    }
    let max = command.as_deref().map_or(OUTPUT_MAX_BYTES, output_max);
    if end > max {
        return Ok((OutputAnswer::TooLong { max }, max));
    }
    let stored = held_to(db, run, stream).await?;
    // A lost run may have gone on, and its agent brings the evidence whenever it comes back.
    let over = status.is_some_and(|status| !status.is_active() && !status.is_opinion());
    let late = finished_at.is_some_and(|at| at.plus_millis(OUTPUT_GRACE_MS) < now);
    if over && late && end > stored {
        return Ok((OutputAnswer::Ended, max));
    }
    Ok((OutputAnswer::Held { stored, added: false }, max))
}

/// The limit of a pinned command.
fn output_max(command: &str) -> u64 {
    #[derive(serde::Deserialize)]
    struct Pinned {
        spec: Limits,
    }
    #[derive(serde::Deserialize)]
    struct Limits {
        output_max_bytes: Option<u64>,
    }
    let pinned: Option<Pinned> = serde_json::from_str(command).ok();
    pinned.and_then(|pinned| pinned.spec.output_max_bytes).unwrap_or(OUTPUT_MAX_BYTES)
}

/// How much of a stream is there without a gap. Ranges come in order but for the last few, so only those are walked.
pub async fn held_to(db: &mut impl Db, run: RunId, stream: OutputStream) -> StoreResult<u64> {
    let key = [Val::Id(*run.as_uuid()), Val::Int(stream.code())];
    let whole_of = db.query(ENDS, &key, |row| Ok((row.opt_int(0)?, row.opt_int(1)?))).await?;
    if let Some((Some(end), Some(sum))) = whole_of.first()
        && end == sum
    {
        return Ok(whole(*end));
    }
    let mut held = 0;
    for (begins, bytes) in db.query(ALL, &key, |row| Ok((row.int(0)?, row.int(1)?))).await? {
        if whole(begins) > held {
            break;
        }
        held = held.max(whole(begins + bytes));
    }
    Ok(held)
}

pub async fn find_output(
    db: &mut impl Db,
    tenant: TenantId,
    job: JobId,
    host: Option<&HostName>,
) -> StoreResult<Option<OutputOf>> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Id(*job.as_uuid()), Val::Text(host.map_or("", HostName::as_str))];
    let sql = if host.is_some() { OF_HOST } else { OF_JOB };
    let found = db.query(sql, if host.is_some() { &key } else { &key[..2] }, |row| {
        let status =
            RunStatus::from_code(row.int(1)?).ok_or_else(|| StoreError::Broken("unknown run status".to_owned()))?;
        let incomplete = row.int(2)? < row.int(3)?;
        let run = RunId::from_uuid(row.id(0)?);
        Ok(OutputOf { run, ended: !status.is_active() && !incomplete, stdout: 0, stderr: 0 })
    });
    let Some(mut found) = found.await?.into_iter().next() else { return Ok(None) };
    found.stdout = held_to(db, found.run, OutputStream::Stdout).await?;
    found.stderr = held_to(db, found.run, OutputStream::Stderr).await?;
    Ok(Some(found))
}

pub async fn list_output(
    db: &mut impl Db,
    run: RunId,
    stream: OutputStream,
    after: u64,
    limit: u32,
) -> StoreResult<Vec<OutputRange>> {
    let params = [
        Val::Id(*run.as_uuid()),
        Val::Int(stream.code()),
        Val::Int(i64::try_from(after).unwrap_or(i64::MAX)),
        Val::Int(i64::from(limit)),
    ];
    db.query(RANGES, &params, |row| {
        let broken = |what: &str| StoreError::Broken(format!("output of run {run}: {what}"));
        Ok(OutputRange {
            begins: whole(row.int(0)?),
            bytes: whole(row.int(1)?),
            sha256: row.bytes(2)?.try_into().map_err(|_| broken("a hash of the wrong length"))?,
            encoding: Encoding::from_code(row.int(3)?).ok_or_else(|| broken("an unknown encoding"))?,
            key: row.text(4)?.into(),
        })
    })
    .await
}

/// With the command that its unit is pinned to, which stands in the parent.
const RUN: Sql = Sql::Same(
    "select r.worker, r.status, r.finished_at, p.payload
     from run r join job j on j.number = r.number left join job p on p.number = j.parent
     where r.id = $1 and r.tenant = $2",
);
const ENDS: Sql = Sql::Each {
    sqlite: "select max(begins + bytes), sum(bytes) from output where run = ?1 and stream = ?2",
    postgres: "select max(begins + bytes), sum(bytes)::bigint from output where run = $1 and stream = $2",
};
const ALL: Sql = Sql::Same("select begins, bytes from output where run = $1 and stream = $2 order by begins");
const OF_JOB: Sql = Sql::Same(
    "select r.id, r.status, r.acked_seq, r.last_seq from job j join run r on r.number = j.number
     where j.tenant = $1 and j.id = $2 and j.parent is null order by r.fence desc limit 1",
);
const OF_HOST: Sql = Sql::Same(
    "select r.id, r.status, r.acked_seq, r.last_seq
     from job p join job j on j.parent = p.number join host h on h.id = j.host join run r on r.number = j.number
     where p.tenant = $1 and p.id = $2 and p.parent is null and h.name = $3 order by j.host desc, r.fence desc limit 1",
);
/// Ranges are at most a few MiB long, so those that reach over the place are near before it.
const RANGES: Sql = Sql::Same(
    "select begins, bytes, sha256, encoding, key from output
     where run = $1 and stream = $2 and begins + bytes > $3 order by begins limit $4",
);
