//! What was asked for under a key.

use bowline_model::idempotency::{KeyScope, RequestHash, SecondAsk, second_ask};
use bowline_model::{JobId, TenantId, Timestamp};
use bowline_store::{StoreResult, Submitted};

use crate::db::{Db, Mode, Sql, Val};
use crate::job_row::status_of;
use crate::write::pruned_job;

/// The job that has a key, as whoever submits it again is answered: also after retention has removed the job, and not after
/// the time of the key.
pub async fn find_asked(
    db: &mut impl Db,
    tenant: TenantId,
    scope: KeyScope,
    key: &str,
    hash: RequestHash,
) -> StoreResult<Option<Submitted>> {
    let now = db.begin(Mode::Snapshot).await?;
    let found = look_up(db, now, tenant, (scope, key), hash).await;
    db.rollback().await;
    found
}

async fn look_up(
    db: &mut impl Db,
    now: Timestamp,
    tenant: TenantId,
    (scope, key): (KeyScope, &str),
    hash: RequestHash,
) -> StoreResult<Option<Submitted>> {
    let params = [Val::Id(*tenant.as_uuid()), Val::Int(scope.code()), Val::Text(key), Val::At(now)];
    let found = db.query(KEY, &params, |row| {
        let first: [u8; 32] = row.bytes(0)?.try_into().unwrap_or([0; 32]);
        let id = JobId::from_uuid(row.id(1)?);
        let job = match (row.opt_int(2)?, row.opt_int(3)?, row.opt_at(4)?) {
            (Some(number), Some(status), Some(at)) => {
                Some(Submitted::Replayed { id, number, status: status_of(status)?, at })
            }
            _ => None,
        };
        Ok((RequestHash::from_bytes(first), id, job))
    });
    let Some((first, id, job)) = found.await?.into_iter().next() else { return Ok(None) };
    Ok(Some(match (second_ask(first, id, hash), job) {
        (SecondAsk::Conflict(id), _) => Submitted::Conflict { key: key.to_owned(), id },
        (SecondAsk::Same(_), Some(job)) => job,
        (SecondAsk::Same(_), None) => pruned_job(db, now, tenant, id).await?,
    }))
}

/// After its time a key is new, whether or not it was removed yet.
const KEY: Sql = Sql::Same(
    "select k.hash, k.job, j.number, j.status, j.created_at
     from key k left join job j on j.tenant = k.tenant and j.id = k.job and j.parent is null
     where k.tenant = $1 and k.scope = $2 and k.key = $3 and k.expires_at > $4",
);
