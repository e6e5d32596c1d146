//! Evaluations that are set aside, written.

use bowline_model::event::EventData;
use bowline_model::{EventKind, TenantId};
use bowline_store::StoreResult;

use super::Desk;
use crate::changes::{Changes, Heard};
use crate::db::{Db, Sql, Val};

pub async fn set_aside(db: &mut impl Db, desk: &Desk<'_>, subjects: &[(TenantId, String)]) -> StoreResult<Heard> {
    let mut changes = Changes::at(desk.now);
    for (tenant, subject) in subjects {
        let params = [Val::Id(*tenant.as_uuid()), Val::Text(subject), Val::At(desk.now)];
        if db.execute(ADD, &params).await? == 1 {
            let reason = Some(format!("the server ended twice while {subject} was evaluated"));
            let data = EventData { reason, ..EventData::default() };
            changes.tell(*tenant, None, None, EventKind::EvaluationSetAside, data);
        }
    }
    changes.write(db).await
}

pub async fn resume_evaluation(
    db: &mut impl Db,
    desk: &Desk<'_>,
    tenant: TenantId,
    subject: &str,
    by: &str,
) -> StoreResult<(bool, Heard)> {
    if db.execute(REMOVE, &[Val::Id(*tenant.as_uuid()), Val::Text(subject)]).await? == 0 {
        return Ok((false, Heard::default()));
    }
    let mut changes = Changes::at(desk.now);
    let data = EventData { by: Some(by.to_owned()), reason: Some(subject.to_owned()), ..EventData::default() };
    changes.tell(tenant, None, None, EventKind::EvaluationResumed, data);
    Ok((true, changes.write(db).await?))
}

const ADD: Sql = Sql::Same("insert into set_aside (tenant, subject, at) values ($1, $2, $3) on conflict do nothing");
const REMOVE: Sql = Sql::Same("delete from set_aside where tenant = $1 and subject = $2");
