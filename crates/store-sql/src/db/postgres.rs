//! The PostgreSQL side: one connection, statements prepared once, batches pipelined.

use std::borrow::Cow;
use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bowline_model::Timestamp;
use bowline_store::{Clock, LedgerClock, StoreError, StoreResult};
use bytes::{BufMut, BytesMut};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::target::PgTarget;
use super::{Batch, Col, Db, Mode, Row, Sql, Val, tls, zero};

/// How to reach the server, and how long to be patient with it.
#[derive(Debug, Clone)]
pub struct PgSettings {
    pub url: String,
    pub connect_timeout: Duration,
    /// The longest a statement may take before the connection is given up.
    pub statement_timeout: Duration,
    /// `None`: the database's clock is the authority. Tests own time by setting one.
    pub clock: Option<Arc<dyn Clock>>,
}

/// A connection to a PostgreSQL ledger.
pub struct PgDb {
    client: Client,
    prepared: HashMap<&'static str, Statement>,
    settings: Arc<PgSettings>,
    /// Judges what the database says about the time.
    clock: Option<Arc<LedgerClock>>,
    broken: bool,
}

impl std::fmt::Debug for PgDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PgDb").field("broken", &self.broken).finish_non_exhaustive()
    }
}

impl PgDb {
    /// Connects. The connection's own task runs on the current thread.
    pub async fn connect(settings: &Arc<PgSettings>) -> StoreResult<Self> {
        let unavailable = |what: String| StoreError::Unavailable(what);
        let target = PgTarget::parse(&settings.url).map_err(|e| unavailable(chain(&e)))?;
        let (client, connection) = tokio::time::timeout(settings.connect_timeout, tls::connect(&target))
            .await
            .map_err(|_| unavailable("PostgreSQL did not answer in time".to_owned()))?
            .map_err(|e| unavailable(chain(&e)))?;
        tokio::task::spawn_local(async move {
            if let Err(e) = connection.await {
                tracing::debug!(error = %e, "a PostgreSQL connection ended");
            }
        });
        let mut db =
            Self { client, prepared: HashMap::new(), settings: Arc::clone(settings), clock: None, broken: false };
        // A session that waits for a lock does not notice that we gave it up; so it gives up, too, or they would pile up.
        // A server that freezes in mid-transaction must not hold back the others' view of the stream.
        // Every statement here walks indexes from a handful of keys. A plan made while the tables were small would scan
        // them instead, and be kept while they grow; so the planner is not offered that choice.
        let patience = format!("set statement_timeout = {}", settings.statement_timeout.as_millis());
        let set = "set idle_in_transaction_session_timeout = '10s'; set synchronous_commit = on; set jit = off; \
                   set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; \
                   set default_transaction_isolation = 'read committed'; set application_name = 'bowline'";
        db.script(&format!("{set}; {patience}")).await?;
        Ok(db)
    }

    /// Transactions on it go by this clock.
    pub fn with_clock(mut self, clock: &Arc<LedgerClock>) -> Self {
        self.clock = Some(Arc::clone(clock));
        self
    }

    /// For migrations and settings: a script of several statements.
    pub async fn script(&mut self, text: &str) -> StoreResult<()> {
        let patience = self.settings.statement_timeout;
        let done = tokio::time::timeout(patience, self.client.batch_execute(text)).await;
        self.settle(done)
    }

    fn settle<T>(
        &mut self,
        done: Result<Result<T, tokio_postgres::Error>, tokio::time::error::Elapsed>,
    ) -> StoreResult<T> {
        match done {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(e)) => {
                self.broken |= e.is_closed() || e.as_db_error().is_none();
                Err(error(&e))
            }
            Err(_) => {
                self.broken = true;
                Err(StoreError::Unavailable("PostgreSQL did not answer in time".to_owned()))
            }
        }
    }

    async fn statement(&mut self, sql: Sql) -> StoreResult<Statement> {
        let text = sql.postgres();
        if let Some(statement) = self.prepared.get(text) {
            return Ok(statement.clone());
        }
        let patience = self.settings.statement_timeout;
        let done = tokio::time::timeout(patience, self.client.prepare(text)).await;
        let statement = self.settle(done)?;
        self.prepared.insert(text, statement.clone());
        Ok(statement)
    }

    async fn rows(
        &mut self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> StoreResult<Vec<tokio_postgres::Row>> {
        let patience = self.settings.statement_timeout;
        let done = tokio::time::timeout(patience, self.client.query(statement, params)).await;
        self.settle(done)
    }
}

impl Db for PgDb {
    async fn begin(&mut self, mode: Mode) -> StoreResult<Timestamp> {
        const BEGIN: Sql = Sql::Same("begin");
        const SNAPSHOT: Sql = Sql::Same("begin isolation level repeatable read read only");
        const NOW: Sql = Sql::Same("select clock_timestamp()");
        let begin = self.statement(if mode == Mode::Write { BEGIN } else { SNAPSHOT }).await?;
        let now = self.statement(NOW).await?;
        let patience = self.settings.statement_timeout;
        let done = tokio::time::timeout(patience, async {
            // Polled together, sent together: one round trip.
            tokio::try_join!(self.client.execute(&begin, &[]), self.client.query_one(&now, &[]))
        })
        .await;
        let (_, row) = self.settle(done)?;
        let said = match &self.settings.clock {
            Some(clock) => clock.now(),
            None => PgRow(&row).at(0)?,
        };
        Ok(self.clock.as_ref().map_or(said, |clock| clock.observe(said)))
    }

    async fn commit(&mut self) -> StoreResult<()> {
        const COMMIT: Sql = Sql::Same("commit");
        let commit = self.statement(COMMIT).await?;
        let patience = self.settings.statement_timeout;
        let done = tokio::time::timeout(patience, self.client.execute(&commit, &[])).await;
        match self.settle(done) {
            // The server said no: then it is no.
            Err(StoreError::Unavailable(why)) if self.broken => Err(StoreError::Unknown(why)),
            other => other.map(drop),
        }
    }

    async fn rollback(&mut self) {
        if !self.broken {
            const ROLLBACK: &str = "rollback";
            let patience = self.settings.statement_timeout;
            let done = tokio::time::timeout(patience, self.client.batch_execute(ROLLBACK)).await;
            if self.settle(done).is_err() {
                self.broken = true;
            }
        }
    }

    async fn job_numbers(&mut self, count: usize) -> StoreResult<Vec<i64>> {
        const NUMBERS: Sql = Sql::Same("select nextval('job_number') from generate_series(1, $1::bigint)");
        let mut numbers = self.query(NUMBERS, &[Val::Int(i64::try_from(count).unwrap_or(0))], |row| row.int(0)).await?;
        numbers.sort_unstable();
        Ok(numbers)
    }

    async fn execute(&mut self, sql: Sql, params: &[Val<'_>]) -> StoreResult<u64> {
        let statement = self.statement(sql).await?;
        let boxed: Vec<Param<'_>> = params.iter().map(Param::of).collect();
        let refs: Vec<&(dyn ToSql + Sync)> = boxed.iter().map(Param::as_sql).collect();
        let patience = self.settings.statement_timeout;
        let done = tokio::time::timeout(patience, self.client.execute(&statement, &refs)).await;
        self.settle(done)
    }

    async fn execute_many(&mut self, sql: Sql, cols: &[Col<'_>]) -> StoreResult<u64> {
        if cols.first().is_none_or(Col::is_empty) {
            return Ok(0);
        }
        let statement = self.statement(sql).await?;
        let boxed: Vec<Arrays<'_>> = cols.iter().map(Arrays::of).collect();
        let refs: Vec<&(dyn ToSql + Sync)> = boxed.iter().map(Arrays::as_sql).collect();
        let patience = self.settings.statement_timeout;
        let done = tokio::time::timeout(patience, self.client.execute(&statement, &refs)).await;
        self.settle(done)
    }

    async fn execute_batch(&mut self, batch: &Batch<'_>) -> StoreResult<Vec<u64>> {
        let mut ready = Vec::with_capacity(batch.len());
        let mut changed = vec![0; batch.len()];
        for (place, (sql, cols)) in batch.iter().enumerate() {
            if cols.first().is_some_and(|col| !col.is_empty()) {
                let statement = self.statement(*sql).await?;
                ready.push((place, statement, cols.iter().map(Arrays::of).collect::<Vec<_>>()));
            }
        }
        let params: Vec<Vec<&(dyn ToSql + Sync)>> =
            ready.iter().map(|(.., cols)| cols.iter().map(Arrays::as_sql).collect()).collect();
        let patience = self.settings.statement_timeout;
        let client = &self.client;
        let mut calls: Vec<_> = ready
            .iter()
            .zip(&params)
            .map(|((place, statement, _), params)| Some((*place, Box::pin(client.execute(statement, params)))))
            .collect();
        // Every call is polled once before the first is waited for, so all are on the wire together, in order.
        let together = std::future::poll_fn(move |cx| {
            use std::task::Poll;
            let mut waiting = false;
            for slot in &mut calls {
                if let Some((place, call)) = slot {
                    match call.as_mut().poll(cx) {
                        Poll::Ready(Ok(rows)) => {
                            changed[*place] = rows;
                            *slot = None;
                        }
                        Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                        Poll::Pending => waiting = true,
                    }
                }
            }
            if waiting { Poll::Pending } else { Poll::Ready(Ok(std::mem::take(&mut changed))) }
        });
        let done = tokio::time::timeout(patience, together).await;
        self.settle(done)
    }

    async fn query_two<A, B>(
        &mut self,
        first: (Sql, &[Col<'_>]),
        mut read_first: impl FnMut(&dyn Row) -> StoreResult<A>,
        second: (Sql, &[Col<'_>]),
        mut read_second: impl FnMut(&dyn Row) -> StoreResult<B>,
    ) -> StoreResult<(Vec<A>, Vec<B>)> {
        if [first.1, second.1].iter().any(|cols| cols.first().is_none_or(Col::is_empty)) {
            let found = self.query_many(first.0, first.1, read_first).await?;
            return Ok((found, self.query_many(second.0, second.1, read_second).await?));
        }
        let statements = (self.statement(first.0).await?, self.statement(second.0).await?);
        let boxed = [first.1, second.1].map(|cols| cols.iter().map(Arrays::of).collect::<Vec<_>>());
        let [one, two] = boxed.each_ref().map(|cols| cols.iter().map(Arrays::as_sql).collect::<Vec<_>>());
        let patience = self.settings.statement_timeout;
        let client = &self.client;
        let done = tokio::time::timeout(patience, async {
            // Polled together, sent together; the server answers the first before it looks at the second.
            tokio::try_join!(client.query(&statements.0, &one), client.query(&statements.1, &two))
        })
        .await;
        let (one, two) = self.settle(done)?;
        let found = one.iter().map(|row| read_first(&PgRow(row))).collect::<StoreResult<_>>()?;
        Ok((found, two.iter().map(|row| read_second(&PgRow(row))).collect::<StoreResult<_>>()?))
    }

    async fn query<T>(
        &mut self,
        sql: Sql,
        params: &[Val<'_>],
        mut read: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        let statement = self.statement(sql).await?;
        let boxed: Vec<Param<'_>> = params.iter().map(Param::of).collect();
        let refs: Vec<&(dyn ToSql + Sync)> = boxed.iter().map(Param::as_sql).collect();
        let rows = self.rows(&statement, &refs).await?;
        rows.iter().map(|row| read(&PgRow(row))).collect()
    }

    async fn query_many<T>(
        &mut self,
        sql: Sql,
        cols: &[Col<'_>],
        mut read: impl FnMut(&dyn Row) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        if cols.first().is_none_or(Col::is_empty) {
            return Ok(Vec::new());
        }
        let statement = self.statement(sql).await?;
        let boxed: Vec<Arrays<'_>> = cols.iter().map(Arrays::of).collect();
        let refs: Vec<&(dyn ToSql + Sync)> = boxed.iter().map(Arrays::as_sql).collect();
        let rows = self.rows(&statement, &refs).await?;
        rows.iter().map(|row| read(&PgRow(row))).collect()
    }

    fn is_usable(&self) -> bool {
        !self.broken && !self.client.is_closed()
    }
}

/// A moment on the wire: microseconds since 2000.
#[derive(Debug, Clone, Copy)]
struct PgTime(i64);

const EPOCH_2000_US: i64 = 946_684_800_000_000;

impl PgTime {
    const fn of(at: Timestamp) -> Self {
        Self(at.as_micros().saturating_sub(EPOCH_2000_US))
    }
}

impl ToSql for PgTime {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i64(self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for PgTime {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(i64::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

/// A whole number in whatever width the statement expects.
#[derive(Debug, Clone, Copy)]
struct PgInt(i64);

impl ToSql for PgInt {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match *ty {
            Type::INT2 => out.put_i16(i16::try_from(self.0)?),
            Type::INT4 => out.put_i32(i32::try_from(self.0)?),
            _ => out.put_i64(self.0),
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT2 | Type::INT4 | Type::INT8)
    }

    to_sql_checked!();
}

/// A parameter in the form the driver wants.
enum Param<'a> {
    Int(Option<PgInt>),
    Bool(bool),
    Id(Option<Uuid>),
    Text(Option<Cow<'a, str>>),
    At(Option<PgTime>),
    Bytes(&'a [u8]),
}

impl<'a> Param<'a> {
    fn of(value: &Val<'a>) -> Self {
        match *value {
            Val::Int(v) => Self::Int(Some(PgInt(v))),
            Val::OptInt(v) => Self::Int(v.map(PgInt)),
            Val::Bool(v) => Self::Bool(v),
            Val::Id(v) => Self::Id(Some(v)),
            Val::OptId(v) => Self::Id(v),
            Val::Text(v) => Self::Text(Some(zero::written(v))),
            Val::OptText(v) => Self::Text(v.map(zero::written)),
            Val::At(v) => Self::At(Some(PgTime::of(v))),
            Val::OptAt(v) => Self::At(v.map(PgTime::of)),
            Val::Bytes(v) => Self::Bytes(v),
        }
    }

    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Int(v) => v,
            Self::Bool(v) => v,
            Self::Id(v) => v,
            Self::Text(v) => v,
            Self::At(v) => v,
            Self::Bytes(v) => v,
        }
    }
}

/// A column in the form the driver wants.
enum Arrays<'a> {
    Int(&'a [i64]),
    OptInt(&'a [Option<i64>]),
    Bool(&'a [bool]),
    Id(&'a [Uuid]),
    OptId(&'a [Option<Uuid>]),
    Text(Vec<Cow<'a, str>>),
    OptText(Vec<Option<Cow<'a, str>>>),
    At(Vec<PgTime>),
    OptAt(Vec<Option<PgTime>>),
    Bytes(&'a [&'a [u8]]),
}

impl<'a> Arrays<'a> {
    fn of(col: &'a Col<'_>) -> Self {
        match col {
            Col::Int(v) => Self::Int(v),
            Col::OptInt(v) => Self::OptInt(v),
            Col::Bool(v) => Self::Bool(v),
            Col::Id(v) => Self::Id(v),
            Col::OptId(v) => Self::OptId(v),
            Col::Text(v) => Self::Text(v.iter().map(|text| zero::written(text)).collect()),
            Col::OptText(v) => Self::OptText(v.iter().map(|text| text.map(zero::written)).collect()),
            Col::At(v) => Self::At(v.iter().map(|at| PgTime::of(*at)).collect()),
            Col::OptAt(v) => Self::OptAt(v.iter().map(|at| at.map(PgTime::of)).collect()),
            Col::Bytes(v) => Self::Bytes(v),
        }
    }

    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Int(v) => v,
            Self::OptInt(v) => v,
            Self::Bool(v) => v,
            Self::Id(v) => v,
            Self::OptId(v) => v,
            Self::Text(v) => v,
            Self::OptText(v) => v,
            Self::At(v) => v,
            Self::OptAt(v) => v,
            Self::Bytes(v) => v,
        }
    }
}

struct PgRow<'a>(&'a tokio_postgres::Row);

impl<'a> PgRow<'a> {
    fn get<T: FromSql<'a>>(&self, n: usize) -> StoreResult<T> {
        self.0.try_get(n).map_err(|e| StoreError::Broken(format!("column {n}: {e}")))
    }
}

impl Row for PgRow<'_> {
    fn int(&self, n: usize) -> StoreResult<i64> {
        self.opt_int(n)?.ok_or_else(|| StoreError::Broken(format!("column {n} is null")))
    }

    fn opt_int(&self, n: usize) -> StoreResult<Option<i64>> {
        match *self.0.columns()[n].type_() {
            Type::INT2 => self.get::<Option<i16>>(n).map(|v| v.map(i64::from)),
            Type::INT4 => self.get::<Option<i32>>(n).map(|v| v.map(i64::from)),
            _ => self.get(n),
        }
    }

    fn bool(&self, n: usize) -> StoreResult<bool> {
        self.get(n)
    }

    fn id(&self, n: usize) -> StoreResult<Uuid> {
        self.get(n)
    }

    fn opt_id(&self, n: usize) -> StoreResult<Option<Uuid>> {
        self.get(n)
    }

    fn text(&self, n: usize) -> StoreResult<String> {
        self.opt_text(n)?.ok_or_else(|| StoreError::Broken(format!("column {n} is null")))
    }

    fn opt_text(&self, n: usize) -> StoreResult<Option<String>> {
        let text = match *self.0.columns()[n].type_() {
            Type::JSON => self.get::<Option<JsonText>>(n)?.map(|text| text.0),
            _ => self.get(n)?,
        };
        Ok(text.map(zero::read))
    }

    fn at(&self, n: usize) -> StoreResult<Timestamp> {
        self.opt_at(n)?.ok_or_else(|| StoreError::Broken(format!("column {n} is null")))
    }

    fn opt_at(&self, n: usize) -> StoreResult<Option<Timestamp>> {
        Ok(self.get::<Option<PgTime>>(n)?.map(|at| Timestamp::from_micros(at.0.saturating_add(EPOCH_2000_US))))
    }

    fn bytes(&self, n: usize) -> StoreResult<Vec<u8>> {
        self.get(n)
    }
}

/// A `json` value as its own text, not parsed.
struct JsonText(String);

impl<'a> FromSql<'a> for JsonText {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?.to_owned()))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSON
    }
}

/// An error with everything that caused it.
pub(super) fn chain(e: &dyn Error) -> String {
    let mut text = e.to_string();
    let mut cause = e.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

/// What an error of PostgreSQL means for the caller, before a commit was sent.
fn error(e: &tokio_postgres::Error) -> StoreError {
    let Some(code) = e.code() else { return StoreError::Unavailable(chain(e)) };
    let conflict = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::UNIQUE_VIOLATION,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    // 08 connection, 53 no resources, 57 operator intervention, 58 system error, 25P03 idle in transaction.
    let away = ["08", "53", "57", "58"].iter().any(|class| code.code().starts_with(class))
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION;
    if conflict.contains(code) {
        StoreError::Conflict(chain(e))
    } else if away {
        StoreError::Unavailable(chain(e))
    } else {
        StoreError::Broken(chain(e))
    }
}
