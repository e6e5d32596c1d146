//! Either engine behind one type, so that the ledger's logic is compiled once.

use bowline_model::Timestamp;
use bowline_store::StoreResult;

use super::{Batch, Col, Db, Mode, PgDb, Row, Sql, SqliteDb, Val};

/// A connection to either engine.
#[derive(Debug)]
pub enum AnyDb {
    Sqlite(SqliteDb),
    Pg(PgDb),
}

macro_rules! either {
    ($self:ident, $db:ident => $call:expr) => {
        match $self {
            AnyDb::Sqlite($db) => $call,
            AnyDb::Pg($db) => $call,
        }
    };
}

impl Db for AnyDb {
    async fn begin(&mut self, mode: Mode) -> StoreResult<Timestamp> {
        either!(self, db => db.begin(mode).await)
    }

    async fn commit(&mut self) -> StoreResult<()> {
        either!(self, db => db.commit().await)
    }

    async fn rollback(&mut self) {
        either!(self, db => db.rollback().await);
    }

    async fn job_numbers(&mut self, count: usize) -> StoreResult<Vec<i64>> {
        either!(self, db => db.job_numbers(count).await)
    }

    async fn execute(&mut self, sql: Sql, params: &[Val<'_>]) -> StoreResult<u64> {
        either!(self, db => db.execute(sql, params).await)
    }

    async fn execute_many(&mut self, sql: Sql, cols: &[Col<'_>]) -> StoreResult<u64> {
        either!(self, db => db.execute_many(sql, cols).await)
    }

    async fn execute_batch(&mut self, batch: &Batch<'_>) -> StoreResult<Vec<u64>> {
        either!(self, db => db.execute_batch(batch).await)
    }

    async fn query_two<A, B>(
        &mut self,
        first: (Sql, &[Col<'_>]),
        read_first: impl FnMut(&dyn Row) -> StoreResult<A>,
        second: (Sql, &[Col<'_>]),
        read_second: impl FnMut(&dyn Row) -> StoreResult<B>,
    ) -> StoreResult<(Vec<A>, Vec<B>)> {
        either!(self, db => db.query_two(first, read_first, second, read_second).await)
    }

    async fn query<T>(
        &mut self,
        sql: Sql,
        params: &[Val<'_>],
        read: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        either!(self, db => db.query(sql, params, read).await)
    }

    async fn query_many<T>(
        &mut self,
        sql: Sql,
        cols: &[Col<'_>],
        read: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        either!(self, db => db.query_many(sql, cols, read).await)
    }

    fn is_usable(&self) -> bool {
        either!(self, db => db.is_usable())
    }
}
