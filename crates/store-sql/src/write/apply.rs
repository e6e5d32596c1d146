//! Several documents in one transaction. It is shared with other wishes, so what a refused list has done is taken back to
//! where the list began, and not further.

use bowline_store::{Applied, AppliedOne, Applying, NotApplied, PutAnswer, ResourceStored, StoreError, StoreResult};

use super::Desk;
use super::hosts::put_inventory;
use super::resources::put_resource;
use crate::changes::Heard;
use crate::db::{Db, Sql};

pub async fn apply(db: &mut impl Db, desk: &Desk<'_>, documents: &[Applying]) -> StoreResult<(Applied, Vec<Heard>)> {
    db.execute(MARK, &[]).await?;
    let mut order: Vec<usize> = (0..documents.len()).collect();
    // Everybody takes them in one order, so that two lists never wait for each other in a circle.
    order.sort_by_key(|n| place(&documents[*n]));
    let mut done: Vec<Option<AppliedOne>> = vec![None; documents.len()];
    let mut all_heard = Vec::new();
    for n in order {
        let (one, heard) = match one(db, desk, &documents[n]).await? {
            Ok(done) => done,
            Err(why) => {
                db.execute(BACK, &[]).await?;
                db.execute(UNMARK, &[]).await?;
                return Ok((Applied::Refused { document: n, why }, Vec::new()));
            }
        };
        done[n] = Some(one);
        all_heard.push(heard);
    }
    db.execute(UNMARK, &[]).await?;
    let done: Option<Vec<AppliedOne>> = done.into_iter().collect();
    let done = done.ok_or_else(|| StoreError::Broken("a document was left out".to_owned()))?;
    Ok((Applied::Done(done), all_heard))
}

fn place(document: &Applying) -> (&str, &str) {
    match document {
        Applying::Resource(put) => (put.key.kind.as_str(), put.key.name.as_str()),
        Applying::Inventory(put) => ("", put.inventory.as_str()),
    }
}

async fn one(
    db: &mut impl Db,
    desk: &Desk<'_>,
    document: &Applying,
) -> StoreResult<Result<(AppliedOne, Heard), NotApplied>> {
    Ok(match document {
        Applying::Resource(put) => match put_resource(db, desk, put).await? {
            (ResourceStored::Overtaken { latest }, _) => Err(NotApplied::Overtaken { latest }),
            (stored, heard) => Ok((AppliedOne::Resource(stored), heard)),
        },
        Applying::Inventory(put) => match put_inventory(db, desk, put).await? {
            (PutAnswer::Circle(group), _) => Err(NotApplied::Circle(group)),
            (PutAnswer::Done(counts), heard) => Ok((AppliedOne::Inventory(counts), heard)),
        },
    })
}

const MARK: Sql = Sql::Same("savepoint documents");
const BACK: Sql = Sql::Same("rollback to savepoint documents");
const UNMARK: Sql = Sql::Same("release savepoint documents");
