//! Agents, read.

use bowline_model::{Admission, Labels, TenantId, WorkerName};
use bowline_store::{AgentRecord, StoreError, StoreResult};

use crate::db::{Db, Sql, Val};

pub async fn find_agent(db: &mut impl Db, tenant: TenantId, name: &WorkerName) -> StoreResult<Option<AgentRecord>> {
    let broken = |e: String| StoreError::Broken(format!("a stored agent cannot be read: {e}"));
    let key = [Val::Id(*tenant.as_uuid()), Val::Text(name.as_str())];
    let found = db.query(AGENT, &key, |row| {
        Ok(AgentRecord {
            tenant,
            name: name.clone(),
            public_key: row.bytes(0)?.try_into().map_err(|_| broken("its key is no key".to_owned()))?,
            sealing_key: match row.bytes(4)? {
                none if none.is_empty() => None,
                key => Some(key.try_into().map_err(|_| broken("its sealing key is no key".to_owned()))?),
            },
            labels: Labels::from_canonical(&row.text(1)?).map_err(|e| broken(e.to_string()))?,
            token: row.text(2)?,
            enrolled_at: row.at(3)?,
            admission: Admission::from_text(&row.text(5)?).map_err(|e| broken(e.to_string()))?,
            token_before: Some(row.text(6)?).filter(|id| !id.is_empty()),
        })
    });
    Ok(found.await?.into_iter().next())
}

const AGENT: Sql = Sql::Same(
    "select public_key, labels, token, enrolled_at, sealing_key, admission, token_before from agent
     where tenant = $1 and name = $2",
);
