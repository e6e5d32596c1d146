//! Requests that are carried out once for their key, where they make no job. Key and answer are stored with the effect.

use bowline_model::TenantId;
use bowline_store::{OnceKey, StoreResult};

use super::Desk;
use crate::db::{Db, Sql, Val};

/// What is known of a request under a key.
pub enum Known {
    /// The same was asked for before; so it was answered.
    Answered(String),
    /// Something else was.
    Conflict,
}

/// Whether a request under this key was carried out before.
pub async fn find_once(
    db: &mut impl Db,
    tenant: TenantId,
    operation: &str,
    once: Option<&OnceKey>,
) -> StoreResult<Option<Known>> {
    let Some(once) = once else { return Ok(None) };
    let params = [Val::Id(*tenant.as_uuid()), Val::Text(operation), Val::Text(&once.key)];
    let found = db.query(FIND, &params, |row| Ok((row.bytes(0)?, row.text(1)?))).await?.into_iter().next();
    Ok(found.map(
        |(hash, answer)| {
            if hash.as_slice() == once.hash.as_bytes() { Known::Answered(answer) } else { Known::Conflict }
        },
    ))
}

/// Remembers how it was answered, for as long as any key.
pub async fn keep_once(
    db: &mut impl Db,
    desk: &Desk<'_>,
    tenant: TenantId,
    operation: &str,
    once: Option<&OnceKey>,
    answer: &str,
) -> StoreResult<()> {
    let Some(once) = once else { return Ok(()) };
    let params = [
        Val::Id(*tenant.as_uuid()),
        Val::Text(operation),
        Val::Text(&once.key),
        Val::Bytes(once.hash.as_bytes()),
        Val::Text(answer),
        Val::At(desk.now.plus_millis(desk.key_ttl_ms)),
    ];
    db.execute(ADD, &params).await.map(drop)
}

/// Forgets what is old.
pub async fn forget_once(db: &mut impl Db, desk: &Desk<'_>) -> StoreResult<()> {
    db.execute(EXPIRE, &[Val::At(desk.now)]).await.map(drop)
}

const FIND: Sql = Sql::Same("select hash, answer from request_key where tenant = $1 and operation = $2 and key = $3");
/// A conflict of two at once is one: the second transaction is tried again, and finds the first.
const ADD: Sql = Sql::Same(
    "insert into request_key (tenant, operation, key, hash, answer, expires_at) values ($1, $2, $3, $4, $5, $6)",
);
const EXPIRE: Sql = Sql::Same("delete from request_key where expires_at <= $1");
