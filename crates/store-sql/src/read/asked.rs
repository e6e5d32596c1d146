//! What was asked for under a key.

use bowline_model::idempotency::{KeyScope, RequestHash, SecondAsk, second_ask};
use bowline_model::{JobId, TenantId};
use bowline_store::{StoreResult, Submitted};

use crate::db::{Db, Sql, Val};
use crate::job_row::status_of;

pub async fn find_asked(
    db: &mut impl Db,
    tenant: TenantId,
    scope: KeyScope,
    key: &str,
    hash: RequestHash,
) -> StoreResult<Option<Submitted>> {
    let params = [Val::Id(*tenant.as_uuid()), Val::Int(scope.code()), Val::Text(key)];
    let found = db.query(KEY, &params, |row| {
        let first: [u8; 32] = row.bytes(0)?.try_into().unwrap_or([0; 32]);
        let id = JobId::from_uuid(row.id(1)?);
        let job = Submitted::Replayed { id, number: row.int(2)?, status: status_of(row.int(3)?)?, at: row.at(4)? };
        Ok((RequestHash::from_bytes(first), id, job))
    });
    Ok(found.await?.into_iter().next().map(|(first, id, job)| match second_ask(first, id, hash) {
        SecondAsk::Same(_) => job,
        SecondAsk::Conflict(id) => Submitted::Conflict { key: key.to_owned(), id },
    }))
}

const KEY: Sql = Sql::Same(
    "select k.hash, j.id, j.number, j.status, j.created_at
     from key k join job j on j.tenant = k.tenant and j.id = k.job and j.parent is null
     where k.tenant = $1 and k.scope = $2 and k.key = $3",
);
