//! A transaction handle over both engines: the whole difference between them, as far as the ledger's logic can see it.
//!
//! Values go in as columns, one vector per column: SQLite loops a prepared statement over the rows, PostgreSQL gets
//! arrays and unnests them. Where both take one text there is one text; where they part, both stand together.
//! Futures on SQLite are ready at once. Nothing here decides anything.

mod any;
mod checkpoint;
mod fault;
mod postgres;
mod sqlite;
mod target;
mod tls;
mod zero;

use std::borrow::Cow;

use bowline_model::Timestamp;
use bowline_store::StoreResult;
use uuid::Uuid;

pub use any::AnyDb;
pub use fault::{FaultPlan, Injected, Moment};
pub use postgres::{PgDb, PgSettings};
pub use sqlite::SqliteDb;
pub use target::{InvalidTarget, PgTarget, SslMode, with_defaults};
pub(crate) use tls::connect as connect_postgres;

/// A statement: one text, or one for each engine.
#[derive(Debug, Clone, Copy)]
pub enum Sql {
    Same(&'static str),
    Each { sqlite: &'static str, postgres: &'static str },
}

impl Sql {
    /// With its parameters by number. To SQLite `$2` is a mere name, numbered by where it first stands; `?2` is the second.
    pub fn sqlite(self) -> Cow<'static, str> {
        match self {
            Self::Same(text) | Self::Each { sqlite: text, .. } if text.contains('$') => text.replace('$', "?").into(),
            Self::Same(text) | Self::Each { sqlite: text, .. } => text.into(),
        }
    }

    pub const fn postgres(self) -> &'static str {
        match self {
            Self::Same(text) | Self::Each { postgres: text, .. } => text,
        }
    }
}

/// A parameter of a statement that runs once.
#[derive(Debug, Clone, Copy)]
pub enum Val<'a> {
    Int(i64),
    OptInt(Option<i64>),
    Bool(bool),
    Id(Uuid),
    OptId(Option<Uuid>),
    Text(&'a str),
    OptText(Option<&'a str>),
    At(Timestamp),
    OptAt(Option<Timestamp>),
    Bytes(&'a [u8]),
}

/// A column of parameters of a statement that runs for many rows.
#[derive(Debug, Clone)]
pub enum Col<'a> {
    Int(Vec<i64>),
    OptInt(Vec<Option<i64>>),
    Bool(Vec<bool>),
    Id(Vec<Uuid>),
    OptId(Vec<Option<Uuid>>),
    Text(Vec<&'a str>),
    OptText(Vec<Option<&'a str>>),
    At(Vec<Timestamp>),
    OptAt(Vec<Option<Timestamp>>),
    Bytes(Vec<&'a [u8]>),
}

impl Col<'_> {
    pub fn len(&self) -> usize {
        match self {
            Self::Int(v) => v.len(),
            Self::OptInt(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::Id(v) => v.len(),
            Self::OptId(v) => v.len(),
            Self::Text(v) => v.len(),
            Self::OptText(v) => v.len(),
            Self::At(v) => v.len(),
            Self::OptAt(v) => v.len(),
            Self::Bytes(v) => v.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A row that came back, read by place.
pub trait Row {
    fn int(&self, n: usize) -> StoreResult<i64>;
    fn opt_int(&self, n: usize) -> StoreResult<Option<i64>>;
    fn bool(&self, n: usize) -> StoreResult<bool>;
    fn id(&self, n: usize) -> StoreResult<Uuid>;
    fn opt_id(&self, n: usize) -> StoreResult<Option<Uuid>>;
    fn text(&self, n: usize) -> StoreResult<String>;
    fn opt_text(&self, n: usize) -> StoreResult<Option<String>>;
    fn at(&self, n: usize) -> StoreResult<Timestamp>;
    fn opt_at(&self, n: usize) -> StoreResult<Option<Timestamp>>;
    fn bytes(&self, n: usize) -> StoreResult<Vec<u8>>;
}

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Write,
    /// One consistent look at everything.
    Snapshot,
}

/// Several statements for many rows, to be sent together.
pub type Batch<'a> = Vec<(Sql, Vec<Col<'a>>)>;

/// One connection, and at most one transaction on it.
#[expect(async_fn_in_trait, reason = "used by generic code on the ledger's own threads only; nothing needs Send")]
pub trait Db {
    /// Opens a transaction and says what time it is for it.
    async fn begin(&mut self, mode: Mode) -> StoreResult<Timestamp>;
    /// `Unknown` when the answer was lost.
    async fn commit(&mut self) -> StoreResult<()>;
    async fn rollback(&mut self);
    /// `count` new job numbers, ascending.
    async fn job_numbers(&mut self, count: usize) -> StoreResult<Vec<i64>>;
    async fn execute(&mut self, sql: Sql, params: &[Val<'_>]) -> StoreResult<u64>;
    /// Runs the statement for every row of the columns; answers how many rows were changed in all.
    async fn execute_many(&mut self, sql: Sql, cols: &[Col<'_>]) -> StoreResult<u64>;
    /// Runs several such statements in order, with one round trip where that matters; answers how many rows each changed.
    async fn execute_batch(&mut self, batch: &Batch<'_>) -> StoreResult<Vec<u64>>;
    /// Runs two queries for every row of their columns, the second after the first, with one round trip where that matters.
    async fn query_two<A, B>(
        &mut self,
        first: (Sql, &[Col<'_>]),
        read_first: impl FnMut(&dyn Row) -> StoreResult<A>,
        second: (Sql, &[Col<'_>]),
        read_second: impl FnMut(&dyn Row) -> StoreResult<B>,
    ) -> StoreResult<(Vec<A>, Vec<B>)> {
        let found = self.query_many(first.0, first.1, read_first).await?;
        Ok((found, self.query_many(second.0, second.1, read_second).await?))
    }
    async fn query<T>(
        &mut self,
        sql: Sql,
        params: &[Val<'_>],
        read: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>>;
    /// Runs the query for every row of the columns.
    async fn query_many<T>(
        &mut self,
        sql: Sql,
        cols: &[Col<'_>],
        read: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>>;
    /// Whether the connection can still be used.
    fn is_usable(&self) -> bool;
}
