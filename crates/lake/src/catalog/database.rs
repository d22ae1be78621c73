//! A database with a catalog: SQLite or PostgreSQL. It is only read.

use std::fmt;
use std::time::Duration;

use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use sqlx::any::{AnyPoolOptions, AnyRow, install_default_drivers};
use sqlx::{Any, AnyPool, AssertSqlSafe, Row, Transaction};

use super::address::Address;

/// The longest wait for a connection.
const WAIT: Duration = Duration::from_secs(10);

/// Connections at the same time.
const CONNECTIONS: u32 = 4;

/// A database.
pub(crate) struct Database {
    pool: AnyPool,
    /// The address for people.
    shown: String,
    /// Whether it is PostgreSQL, or else SQLite.
    is_postgresql: bool,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.shown).finish()
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Database {
    /// Connects to the database of an address.
    pub(crate) async fn open(address: Address) -> Result<Self> {
        let shown = address.shown();
        install_default_drivers();
        let mut url = address.url;
        let is_postgresql = url.scheme() != "sqlite";
        if !is_postgresql {
            // Without this SQLite makes the file.
            url.query_pairs_mut().append_pair("mode", "ro");
        }
        let pool = AnyPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(WAIT);
        match pool.connect(url.as_str()).await {
            Ok(pool) => Ok(Database { pool, shown, is_postgresql }),
            Err(error) => Err(failed(&shown, error)),
        }
    }

    /// Begins to read: what follows is of one point in time.
    pub(crate) async fn read(&self) -> Result<Reading<'_>> {
        let begin =
            if self.is_postgresql { "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" } else { "BEGIN" };
        let transaction = self.pool.begin_with(begin).await.map_err(|error| failed(&self.shown, error))?;
        Ok(Reading { database: self, transaction })
    }

    /// Returns the values of a query's only column, without nulls.
    pub(crate) async fn texts(&self, sql: &str, values: &[&str]) -> Result<Vec<String>> {
        self.read().await?.texts(sql, values).await
    }
}

/// A database at one point in time.
pub(crate) struct Reading<'a> {
    database: &'a Database,
    transaction: Transaction<'a, Any>,
}

impl Reading<'_> {
    /// Runs a query with the values of `$1` and so on. Its columns are texts: other types are cast in it.
    pub(crate) async fn rows<const N: usize>(
        &mut self,
        sql: &str,
        values: &[&str],
    ) -> Result<Vec<[Option<String>; N]>> {
        let rows = self.run(sql, values).await?;
        let rows: Option<Vec<_>> = rows.into_iter().map(|row| row.try_into().ok()).collect();
        rows.ok_or_else(|| internal_datafusion_err!("a query of a catalog has not {N} columns"))
    }

    /// Runs a query as [`Self::rows`] does, of any number of columns.
    pub(crate) async fn run(&mut self, sql: &str, values: &[&str]) -> Result<Vec<Vec<Option<String>>>> {
        let query = sqlx::query(AssertSqlSafe(sql.to_owned()));
        let query = values.iter().fold(query, |query, value| query.bind((*value).to_owned()));
        let failed = |error| failed(&self.database.shown, error);
        let rows = query.fetch_all(&mut *self.transaction).await.map_err(failed)?;
        let of = |row: &AnyRow| (0..row.len()).map(|at| row.try_get(at).map_err(failed)).collect();
        rows.iter().map(of).collect()
    }

    /// Returns the values of a query's only column, without nulls.
    pub(crate) async fn texts(&mut self, sql: &str, values: &[&str]) -> Result<Vec<String>> {
        Ok(self.rows::<1>(sql, values).await?.into_iter().filter_map(|[text]| text).collect())
    }

    /// Returns the columns of a table with their types; none if there is no such table.
    pub(crate) async fn columns(&mut self, table: &str) -> Result<Vec<(String, String)>> {
        let sql = match self.database.is_postgresql {
            true => {
                "SELECT CAST(column_name AS TEXT), CAST(data_type AS TEXT) FROM information_schema.columns WHERE table_name = $1"
            }
            false => "SELECT name, type FROM pragma_table_info($1)",
        };
        let rows = self.rows::<2>(sql, &[table]).await?;
        Ok(rows.into_iter().filter_map(|[name, kind]| Some((name?, kind?.to_lowercase()))).collect())
    }

    /// Returns the expression for the bytes of a column in hexadecimal digits.
    pub(crate) fn hexadecimal(&self, column: &str) -> String {
        match self.database.is_postgresql {
            true => format!("encode({column}, 'hex')"),
            // In SQLite the digits of a null are an empty text.
            false => format!("CASE WHEN {column} IS NOT NULL THEN hex({column}) END"),
        }
    }
}

/// A name as a statement has it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn failed(shown: &str, error: sqlx::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error)).context(format!("the catalog {shown}"))
}
