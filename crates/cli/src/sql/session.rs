//! The session of the statements: the server's SQL, in this process.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow, ensure};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use coscan_server::sql::{QueryError, Results};
use coscan_server::{LocalColumn, LocalSession, shown_schema};
use coscan_tier::{Forecast, plain_addresses};
use futures::StreamExt;

use super::{SqlArgs, TableArg};
use crate::failure::squeeze;
use crate::session::{Access, Session, sql_error, user_name};
use crate::settings::Settings;

/// The session, and the engine below it.
pub struct SqlSession {
    pub engine: Session,
    local: LocalSession,
    user: String,
    catalogs: Vec<(String, String)>,
}

/// The progress of all running statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Chunks that scans have announced so far.
    pub chunks_wanted: u64,
    pub chunks_done: u64,
    /// Loads in flight.
    pub on_their_way: u64,
    pub bytes_read: u64,
    /// Bytes that were already in memory, or were read for another query.
    pub bytes_spared: u64,
}

/// The rows of a statement.
pub struct Rows(Results);

impl Rows {
    /// The columns. Several may have one name.
    pub fn schema(&self) -> SchemaRef {
        shown_schema(&self.0.schema())
    }

    /// The next rows. `None` after the last ones.
    pub async fn next(&mut self) -> Option<anyhow::Result<RecordBatch>> {
        let rows = self.0.next().await?.map_err(|error| failure(&error));
        Some(rows.and_then(|rows| named(rows, self.schema())))
    }
}

/// The rows with the names of these columns.
fn named(rows: RecordBatch, columns: SchemaRef) -> anyhow::Result<RecordBatch> {
    let count = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(columns, rows.columns().to_vec(), &count)?)
}

impl SqlSession {
    /// Opens the tiers, the catalogs and the tables. Must be called on the threads that run queries.
    pub async fn open(args: &SqlArgs, settings: &Settings) -> anyhow::Result<Self> {
        let cluster = args.cluster.start().await?;
        let mut engine = Session::in_cluster(settings, cluster.as_ref())?;
        engine.open_tiers(&args.tier, if args.dry_run { Access::Look } else { Access::Restore })?;
        for catalog in &args.catalog {
            let attached = engine.attach(&catalog.name, &catalog.address).await;
            attached.with_context(|| format!("cannot open the catalog {}", catalog.name))?;
        }
        let mut tables = BTreeMap::new();
        for TableArg { name, location } in &args.table {
            let is_new = tables.insert(name.clone(), location.clone()).is_none();
            ensure!(is_new, "cannot open table {name} at {location}: another table has this name");
        }
        let user = user_name().unwrap_or_else(|| "coscan".to_owned());
        let (coscan, tiers) = engine.context()?;
        let local = LocalSession::open(coscan.clone(), tables, tiers.cloned(), &user).await;
        let local = local.map_err(|error| anyhow!(plain_addresses(&squeeze(&error.to_string()))))?;
        local.set_tier_user(engine.tier_user());
        let catalogs = args.catalog.iter().map(|catalog| (catalog.name.clone(), catalog.address.clone()));
        Ok(SqlSession { engine, local, user, catalogs: catalogs.collect() })
    }

    /// Plans and runs a statement. Its rows come as they are computed.
    pub async fn run(&self, statement: &str) -> anyhow::Result<Rows> {
        self.local.query(statement).await.map(Rows).map_err(|error| failure(&error))
    }

    /// The restores that a statement would need. Definitions take effect.
    pub async fn forecast(&self, statement: &str) -> anyhow::Result<Vec<Forecast>> {
        let plan = self.local.physical_plan(statement).await.map_err(|error| failure(&error))?;
        match plan {
            Some(plan) => coscan_tier::forecast(&plan).await.map_err(sql_error),
            None => Ok(Vec::new()),
        }
    }

    pub fn progress(&self) -> Progress {
        let on_their_way = self.engine.loads_in_flight();
        let running = self.local.running();
        let all = running.iter().map(|query| query.account().progress());
        all.fold(Progress { on_their_way, ..Progress::default() }, |sum, of| Progress {
            chunks_wanted: sum.chunks_wanted + of.chunks_wanted,
            chunks_done: sum.chunks_done + of.done.chunks_delivered,
            bytes_read: sum.bytes_read + of.done.bytes_loaded,
            bytes_spared: sum.bytes_spared + of.done.bytes_from_buffer,
            ..sum
        })
    }

    /// The tables and the names of their columns, in the order of names.
    pub fn tables(&self) -> Vec<(String, Vec<String>)> {
        self.local.tables()
    }

    /// The databases: that of the tables, and the catalogs with their addresses.
    pub fn databases(&self) -> Vec<(String, String)> {
        let own = ("coscan".to_owned(), "the tables of this shell".to_owned());
        std::iter::once(own).chain(self.catalogs.clone()).collect()
    }

    /// What the shell works with.
    pub fn described(&self) -> String {
        format!(
            "coscan {} runs statements in this process, as user {}: {}, {} tables",
            env!("CARGO_PKG_VERSION"),
            self.user,
            self.engine.described(),
            self.tables().len()
        )
    }

    /// The columns of a table, whose name is written as in SQL.
    pub async fn columns(&self, table: &str) -> anyhow::Result<Vec<LocalColumn>> {
        self.local.columns(table).await.map_err(|error| failure(&error))
    }
}

/// An error with its hint, and with plain addresses of files.
fn failure(error: &QueryError) -> anyhow::Error {
    let hint = error.hint().map_or_else(String::new, |hint| format!("; {hint}"));
    anyhow!(plain_addresses(&squeeze(&format!("{error}{hint}"))))
}
