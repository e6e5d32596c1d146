//! The SQLite side: one connection, on a thread of its own.

use std::path::Path;
use std::sync::Arc;

use bowline_model::Timestamp;
use bowline_store::{Clock, StoreError, StoreResult};
use rusqlite::config::DbConfig;
use rusqlite::types::{Null, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, Statement, ToSql};
use uuid::Uuid;

use super::{Batch, Col, Db, FaultPlan, Injected, Mode, Moment, Row, Sql, Val, checkpoint};

/// A connection to a SQLite ledger.
#[derive(Debug)]
pub struct SqliteDb {
    connection: Connection,
    clock: Arc<dyn Clock>,
    next_number: i64,
    /// Tests and simulations let it fail on purpose.
    faults: Option<Arc<dyn FaultPlan>>,
}

impl SqliteDb {
    /// Opens the writer. Full synchronisation: what is committed survives a power cut.
    pub fn open_writer(path: &Path, clock: Arc<dyn Clock>) -> StoreResult<Self> {
        let connection = Connection::open(path).map_err(error)?;
        Self::prepare(connection, clock, "pragma journal_mode = wal; pragma synchronous = full;")
    }

    /// Opens a reader beside the writer.
    pub fn open_reader(path: &Path, clock: Arc<dyn Clock>) -> StoreResult<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(error)?;
        Self::prepare(connection, clock, "pragma query_only = on;")
    }

    /// A ledger in memory that lives as long as this connection.
    pub fn open_memory(clock: Arc<dyn Clock>) -> StoreResult<Self> {
        Self::prepare(Connection::open_in_memory().map_err(error)?, clock, "")
    }

    /// From now on this connection fails as the plan says.
    pub fn inject(&mut self, plan: Arc<dyn FaultPlan>) {
        self.faults = Some(plan);
    }

    fn fail(&self, moment: Moment) -> StoreResult<()> {
        match self.faults.as_ref().and_then(|plan| plan.at(moment)) {
            None => Ok(()),
            Some(Injected::Unavailable) => Err(StoreError::Unavailable("injected".to_owned())),
            Some(Injected::Conflict) => Err(StoreError::Conflict("injected".to_owned())),
            Some(Injected::Unknown) => Err(StoreError::Unknown("injected".to_owned())),
        }
    }

    fn prepare(connection: Connection, clock: Arc<dyn Clock>, pragmas: &str) -> StoreResult<Self> {
        connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(error)?;
        connection.set_prepared_statement_cache_capacity(128);
        // Plans must not depend on what is bound. Where SQLite thinks they might, it would prepare the statement again for
        // every row, which costs more than running it.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(error)?;
        connection
            .execute_batch("pragma cache_size = -16384; pragma temp_store = memory; pragma foreign_keys = off;")
            .map_err(error)?;
        connection.execute_batch(pragmas).map_err(error)?;
        Ok(Self { connection, clock, next_number: 0, faults: None })
    }

    /// For migrations: a script of several statements.
    pub fn script(&mut self, text: &str) -> StoreResult<()> {
        self.connection.execute_batch(text).map_err(error)
    }

    /// Lets another thread move the writer's log into the file.
    ///
    /// Its page cache is no larger than the others': most commits that move pages about make SQLite walk all of the cache
    /// (while the file is smaller than a gigabyte), which with 64 MiB was a fifth of the writer's time. What is not in it is
    /// in the kernel's.
    pub fn tune_writer(&mut self, path: &Path) -> StoreResult<std::thread::JoinHandle<()>> {
        checkpoint::start(path, &mut self.connection)
    }

    /// Remembers which job numbers are taken. Called once, after migrations.
    pub fn load_numbers(&mut self) -> StoreResult<()> {
        let text = "select max(coalesce((select max(number) from job), 0), \
                    coalesce((select cast(value as integer) from ledger where key = 'numbers_pruned'), 0))";
        self.next_number = 1 + self.connection.query_row(text, [], |row| row.get::<_, i64>(0)).map_err(error)?;
        Ok(())
    }
}

impl Db for SqliteDb {
    async fn begin(&mut self, mode: Mode) -> StoreResult<Timestamp> {
        self.fail(Moment::Begin)?;
        // `immediate`, because a transaction that reads first and writes later would fail in between.
        let text = if mode == Mode::Write { "begin immediate" } else { "begin" };
        self.connection.execute_batch(text).map_err(error)?;
        Ok(self.clock.now())
    }

    async fn commit(&mut self) -> StoreResult<()> {
        self.fail(Moment::BeforeCommit)?;
        self.connection.execute_batch("commit").map_err(|e| {
            if is_lost_sync(&e) {
                // After a failed sync the kernel may have dropped the pages; nothing on this file can be trusted to
                // reach the disk any more. Recovery on the next start is the only honest way on.
                tracing::error!(error = %e, "the disk did not confirm a commit, stopping so that recovery can decide");
                std::process::abort();
            }
            error(e)
        })?;
        self.fail(Moment::AfterCommit)
    }

    async fn rollback(&mut self) {
        if !self.connection.is_autocommit()
            && let Err(e) = self.connection.execute_batch("rollback")
        {
            tracing::warn!(error = %e, "rollback failed");
        }
    }

    async fn job_numbers(&mut self, count: usize) -> StoreResult<Vec<i64>> {
        let first = self.next_number;
        self.next_number += i64::try_from(count).unwrap_or(0);
        Ok((first..self.next_number).collect())
    }

    async fn execute(&mut self, sql: Sql, params: &[Val<'_>]) -> StoreResult<u64> {
        self.fail(Moment::Statement)?;
        let mut statement = self.connection.prepare_cached(&sql.sqlite()).map_err(error)?;
        bind_vals(&mut statement, params)?;
        statement.raw_execute().map(|n| n as u64).map_err(error)
    }

    async fn execute_many(&mut self, sql: Sql, cols: &[Col<'_>]) -> StoreResult<u64> {
        self.fail(Moment::Statement)?;
        let mut statement = self.connection.prepare_cached(&sql.sqlite()).map_err(error)?;
        let mut changed = 0;
        for row in 0..cols.first().map_or(0, Col::len) {
            bind_row(&mut statement, cols, row)?;
            changed += statement.raw_execute().map_err(error)? as u64;
        }
        Ok(changed)
    }

    async fn execute_batch(&mut self, batch: &Batch<'_>) -> StoreResult<Vec<u64>> {
        let mut changed = Vec::with_capacity(batch.len());
        for (sql, cols) in batch {
            changed.push(self.execute_many(*sql, cols).await?);
        }
        Ok(changed)
    }

    async fn query<T>(
        &mut self,
        sql: Sql,
        params: &[Val<'_>],
        mut read: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        self.fail(Moment::Statement)?;
        let mut statement = self.connection.prepare_cached(&sql.sqlite()).map_err(error)?;
        bind_vals(&mut statement, params)?;
        let mut found = Vec::new();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(error)? {
            found.push(read(&SqliteRow(row))?);
        }
        Ok(found)
    }

    async fn query_many<T>(
        &mut self,
        sql: Sql,
        cols: &[Col<'_>],
        mut read: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        self.fail(Moment::Statement)?;
        let mut statement = self.connection.prepare_cached(&sql.sqlite()).map_err(error)?;
        let mut found = Vec::new();
        for place in 0..cols.first().map_or(0, Col::len) {
            bind_row(&mut statement, cols, place)?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().map_err(error)? {
                found.push(read(&SqliteRow(row))?);
            }
        }
        Ok(found)
    }

    fn is_usable(&self) -> bool {
        true
    }
}

fn bind<V: ToSql>(statement: &mut Statement<'_>, place: usize, value: V) -> StoreResult<()> {
    statement.raw_bind_parameter(place + 1, value).map_err(error)
}

/// Bytes that SQLite reads where they lie.
struct Borrowed<'a>(&'a [u8]);

impl ToSql for Borrowed<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(self.0)))
    }
}

fn bind_vals(statement: &mut Statement<'_>, params: &[Val<'_>]) -> StoreResult<()> {
    for (place, value) in params.iter().enumerate() {
        match value {
            Val::Int(v) | Val::OptInt(Some(v)) => bind(statement, place, v)?,
            Val::Bool(v) => bind(statement, place, v)?,
            Val::Id(v) | Val::OptId(Some(v)) => bind(statement, place, Borrowed(v.as_bytes()))?,
            Val::Text(v) | Val::OptText(Some(v)) => bind(statement, place, *v)?,
            Val::At(v) | Val::OptAt(Some(v)) => bind(statement, place, v.as_micros())?,
            Val::Bytes(v) => bind(statement, place, Borrowed(v))?,
            Val::OptInt(None) | Val::OptId(None) | Val::OptText(None) | Val::OptAt(None) => {
                bind(statement, place, Null)?;
            }
        }
    }
    Ok(())
}

fn bind_row(statement: &mut Statement<'_>, cols: &[Col<'_>], row: usize) -> StoreResult<()> {
    for (place, col) in cols.iter().enumerate() {
        match col {
            Col::Int(v) => bind(statement, place, v[row])?,
            Col::OptInt(v) => bind(statement, place, v[row])?,
            Col::Bool(v) => bind(statement, place, v[row])?,
            Col::Id(v) => bind(statement, place, Borrowed(v[row].as_bytes()))?,
            Col::OptId(v) => bind(statement, place, v[row].as_ref().map(|id| Borrowed(id.as_bytes())))?,
            Col::Text(v) => bind(statement, place, v[row])?,
            Col::OptText(v) => bind(statement, place, v[row])?,
            Col::At(v) => bind(statement, place, v[row].as_micros())?,
            Col::OptAt(v) => bind(statement, place, v[row].map(Timestamp::as_micros))?,
            Col::Bytes(v) => bind(statement, place, Borrowed(v[row]))?,
        }
    }
    Ok(())
}

struct SqliteRow<'a>(&'a rusqlite::Row<'a>);

impl SqliteRow<'_> {
    fn get<T: rusqlite::types::FromSql>(&self, n: usize) -> StoreResult<T> {
        self.0.get(n).map_err(error)
    }
}

fn id_from(bytes: &[u8]) -> StoreResult<Uuid> {
    Uuid::from_slice(bytes).map_err(|e| StoreError::Broken(format!("an id has {} bytes: {e}", bytes.len())))
}

impl Row for SqliteRow<'_> {
    fn int(&self, n: usize) -> StoreResult<i64> {
        self.get(n)
    }

    fn opt_int(&self, n: usize) -> StoreResult<Option<i64>> {
        self.get(n)
    }

    fn bool(&self, n: usize) -> StoreResult<bool> {
        self.get(n)
    }

    fn id(&self, n: usize) -> StoreResult<Uuid> {
        id_from(self.0.get_ref(n).map_err(error)?.as_blob().map_err(|e| StoreError::Broken(e.to_string()))?)
    }

    fn opt_id(&self, n: usize) -> StoreResult<Option<Uuid>> {
        match self.0.get_ref(n).map_err(error)? {
            ValueRef::Null => Ok(None),
            _ => self.id(n).map(Some),
        }
    }

    fn text(&self, n: usize) -> StoreResult<String> {
        self.get(n)
    }

    fn opt_text(&self, n: usize) -> StoreResult<Option<String>> {
        self.get(n)
    }

    fn at(&self, n: usize) -> StoreResult<Timestamp> {
        self.get(n).map(Timestamp::from_micros)
    }

    fn opt_at(&self, n: usize) -> StoreResult<Option<Timestamp>> {
        self.get::<Option<i64>>(n).map(|at| at.map(Timestamp::from_micros))
    }

    fn bytes(&self, n: usize) -> StoreResult<Vec<u8>> {
        self.get(n)
    }
}

fn is_lost_sync(e: &rusqlite::Error) -> bool {
    // SQLITE_IOERR_FSYNC and SQLITE_IOERR_DIR_FSYNC.
    matches!(e, rusqlite::Error::SqliteFailure(f, _) if matches!(f.extended_code, 1034 | 1290))
}

/// What an error of SQLite means for the caller. Nothing was committed in any case: SQLite says so or rolls back.
pub(super) fn error(e: rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode as Code;
    match &e {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            Code::DatabaseBusy | Code::DatabaseLocked => StoreError::Unavailable(format!("SQLite is locked: {e}")),
            Code::DiskFull => StoreError::Unavailable("the disk is full".to_owned()),
            Code::SystemIoFailure | Code::CannotOpen | Code::ReadOnly | Code::OutOfMemory => {
                StoreError::Unavailable(format!("SQLite cannot use its file: {e}"))
            }
            _ => StoreError::Broken(e.to_string()),
        },
        _ => StoreError::Broken(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_that_failed_is_told_apart_from_other_errors_of_the_disk() {
        let failed = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        for (code, is_lost) in [
            (rusqlite::ffi::SQLITE_IOERR_FSYNC, true),
            (rusqlite::ffi::SQLITE_IOERR_DIR_FSYNC, true),
            (rusqlite::ffi::SQLITE_IOERR_WRITE, false),
            (rusqlite::ffi::SQLITE_FULL, false),
        ] {
            assert_eq!(is_lost_sync(&failed(code)), is_lost, "{code}");
        }
    }

    #[test]
    fn a_ledger_that_cannot_be_used_now_is_told_apart_from_a_broken_one() {
        let failed = |code| error(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None));
        for (code, word) in [
            (rusqlite::ffi::SQLITE_BUSY, "locked"),
            (rusqlite::ffi::SQLITE_LOCKED, "locked"),
            (rusqlite::ffi::SQLITE_FULL, "the disk is full"),
            (rusqlite::ffi::SQLITE_IOERR, "cannot use its file"),
            (rusqlite::ffi::SQLITE_CANTOPEN, "cannot use its file"),
            (rusqlite::ffi::SQLITE_READONLY, "cannot use its file"),
            (rusqlite::ffi::SQLITE_NOMEM, "cannot use its file"),
        ] {
            let told = failed(code);
            assert!(matches!(&told, StoreError::Unavailable(why) if why.contains(word)), "{code}: {told:?}");
        }
        for code in [rusqlite::ffi::SQLITE_CONSTRAINT, rusqlite::ffi::SQLITE_CORRUPT] {
            let told = failed(code);
            assert!(matches!(told, StoreError::Broken(_)), "{code}: {told:?}");
        }
        assert!(matches!(error(rusqlite::Error::QueryReturnedNoRows), StoreError::Broken(_)));
    }
}
