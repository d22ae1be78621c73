//! Tables, stores, settings and statements of a connection.

use std::sync::{Arc, Mutex, PoisonError};

use coscan_datafusion::{AnyCaseSchema, CoscanContext, store_with};
use datafusion::common::{DataFusionError, ParamValues, Result};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionConfig;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::input::AnyRecordBatch;
use url::Url;

use crate::core::Core;
use crate::errors;
use crate::parameters::{numbered, parameters};
use crate::query::{Query, Rows};
use crate::scan::{Scan, start};

/// Catalog and schema of tables that are given by name only.
const CATALOG: &str = "datafusion";
const SCHEMA: &str = "public";

/// An engine with a session. Threads may use it at the same time.
#[pyclass(frozen, module = "coscan._coscan")]
pub(crate) struct Connection {
    /// `None` once it is closed. Queries that run keep the engine until their end.
    core: Mutex<Option<Arc<Core>>>,
}

#[pymethods]
impl Connection {
    /// Starts an engine. `settings` have names below `coscan.`, `session_settings` complete ones.
    #[new]
    #[pyo3(signature = (settings, session_settings, threads = None, memory = None))]
    fn new(
        py: Python<'_>,
        settings: Vec<(String, String)>,
        session_settings: Vec<(String, String)>,
        threads: Option<usize>,
        memory: Option<u64>,
    ) -> PyResult<Self> {
        let threads = threads.filter(|&count| count > 0);
        let threads =
            threads.or_else(|| std::thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
        let core = py.detach(|| {
            Core::start(threads, || {
                let mut config = SessionConfig::new().with_information_schema(true);
                for (name, value) in &session_settings {
                    config.options_mut().set(name, value)?;
                }
                let mut builder = CoscanContext::builder()
                    .session_config(config)
                    .target_partitions(threads)
                    .url_tables(true)
                    .from_env();
                for (name, value) in &settings {
                    builder = builder.set(name, value);
                }
                if let Some(bytes) = memory {
                    builder = builder.process_memory(bytes);
                }
                let coscan = builder.build()?;
                if let Some(catalog) = coscan.ctx.catalog(CATALOG) {
                    catalog.register_schema(SCHEMA, Arc::new(AnyCaseSchema::default()))?;
                }
                Ok(coscan)
            })
        })?;
        Ok(Connection { core: Mutex::new(Some(core)) })
    }

    /// Registers the files at paths or URLs as a table.
    fn register_files(
        &self,
        py: Python<'_>,
        name: String,
        locations: Vec<String>,
        options: Vec<(String, String)>,
    ) -> PyResult<()> {
        let core = self.core()?;
        let coscan = core.coscan()?.clone();
        core.wait(py, async move {
            let locations: Vec<_> = locations.iter().map(String::as_str).collect();
            let options: Vec<_> =
                options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            coscan.ctx.deregister_table(&*quoted(&name))?;
            coscan.register_parquet_files(&name, &locations, &options).await
        })
    }

    /// Registers an object with `__arrow_c_stream__` or `__arrow_c_array__` as a table. Its buffers are not copied.
    fn register_arrow(&self, py: Python<'_>, name: &str, batches: AnyRecordBatch) -> PyResult<()> {
        let ctx = self.core()?.coscan()?.ctx.clone();
        let reader = batches.into_reader()?;
        let registered = py.detach(|| -> Result<()> {
            let schema = reader.schema();
            let batches = reader.collect::<Result<Vec<_>, _>>()?;
            // Queries read the partitions at the same time.
            let count = ctx.state().config().target_partitions().min(batches.len()).max(1);
            let mut partitions = vec![Vec::new(); count];
            for (at, batch) in batches.into_iter().enumerate() {
                partitions[at % count].push(batch);
            }
            ctx.deregister_table(&*quoted(name))?;
            ctx.register_table(&*quoted(name), Arc::new(MemTable::try_new(schema, partitions)?))?;
            Ok(())
        });
        registered.map_err(|error| errors::raised(&error))
    }

    /// Opens the store of an address with options.
    fn register_store(&self, address: &str, options: Vec<(String, String)>) -> PyResult<()> {
        let url = Url::parse(address).map_err(|error| errors::programming(&format!("{address}: {error}")))?;
        let store = store_with(&url, &options).map_err(|error| errors::raised(&error))?;
        self.core()?.coscan()?.ctx.register_object_store(&url, store);
        Ok(())
    }

    /// Forgets a table. Returns whether there was one.
    fn deregister(&self, name: &str) -> PyResult<bool> {
        let table = self.core()?.coscan()?.ctx.deregister_table(&*quoted(name));
        Ok(table.map_err(|error| errors::raised(&error))?.is_some())
    }

    /// The names of the tables.
    fn tables(&self) -> PyResult<Vec<String>> {
        let catalog = self.core()?.coscan()?.ctx.catalog(CATALOG);
        let schema = catalog.and_then(|catalog| catalog.schema(SCHEMA));
        let mut names = schema.map(|schema| schema.table_names()).unwrap_or_default();
        names.sort();
        Ok(names)
    }

    /// Plans a statement. One that changes something is carried out.
    #[pyo3(signature = (sql, given = None))]
    fn plan(&self, py: Python<'_>, sql: String, given: Option<Bound<'_, PyAny>>) -> PyResult<Query> {
        let core = self.core()?;
        let given = given.map(|given| parameters(&given)).transpose()?;
        let coscan = core.coscan()?.clone();
        let frame = core.wait(py, async move { planned(&coscan, &sql, given).await })?;
        Ok(Query::new(core, frame))
    }

    /// An awaitable of [`Self::plan`].
    #[pyo3(signature = (sql, given = None))]
    fn plan_async<'py>(
        &self,
        py: Python<'py>,
        sql: String,
        given: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let core = self.core()?;
        let given = given.map(|given| parameters(&given)).transpose()?;
        let coscan = core.coscan()?.clone();
        let (receiver, running) = core.begin(async move { planned(&coscan, &sql, given).await })?;
        pyo3_async_runtimes::tokio::future_into_py(py, async move {
            let frame = receiver.recv_async().await;
            drop(running);
            let frame = frame.map_err(|_| errors::closed())?.map_err(|error| errors::raised(&error))?;
            Ok(Query::new(core, frame))
        })
    }

    /// Begins a scan; see [`Scan`].
    fn scan(
        &self,
        py: Python<'_>,
        sql: String,
        in_order: bool,
        batch_rows: Option<usize>,
        shard: (usize, usize),
    ) -> PyResult<Rows> {
        let core = self.core()?;
        let coscan = core.coscan()?.clone();
        let scan = Scan { sql, in_order, batch_rows: batch_rows.filter(|&rows| rows > 0), shard };
        let batches = core.wait(py, async move { start(&coscan, &scan).await })?;
        let schema = batches.schema();
        Rows::start(&core, schema, None, async move { Ok(batches) })
    }

    /// The counters of the engine since its start.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let core = self.core()?;
        let engine = &core.coscan()?.engine;
        let (seen, stats) = (engine.observe(0), engine.stats());
        let counters = PyDict::new(py);
        counters.set_item("seconds", seen.at.as_secs_f64())?;
        counters.set_item("policy", seen.policy.as_str())?;
        counters.set_item("buffer_bytes", seen.buffer_bytes)?;
        counters.set_item("bytes_read", stats.bytes_read)?;
        counters.set_item("loads", stats.loads)?;
        counters.set_item("loads_in_flight", seen.loads_in_flight)?;
        counters.set_item("parts_from_buffer", stats.parts_from_buffer)?;
        counters.set_item("parts_loaded", stats.parts_loaded)?;
        counters.set_item("evictions", stats.evictions)?;
        counters.set_item("slices_decoded", stats.slices_decoded)?;
        counters.set_item("slices_shared", stats.slices_shared)?;
        counters.set_item("scans", seen.scans.len())?;
        Ok(counters)
    }

    /// Closes the connection. Queries that run go on.
    fn close(&self) {
        let core = self.core.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(core);
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.core.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl Connection {
    pub(crate) fn core(&self) -> PyResult<Arc<Core>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(errors::closed)
    }
}

/// A name as it is, not in lower case and not split at its dots.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

async fn planned(coscan: &CoscanContext, sql: &str, given: Option<ParamValues>) -> Result<DataFrame> {
    let frame = match given {
        None => coscan.sql(sql).await?,
        Some(ParamValues::List(values)) => {
            coscan.sql(&numbered(sql)).await?.with_param_values(ParamValues::List(values))?
        }
        Some(values) => coscan.sql(sql).await?.with_param_values(values)?,
    };
    if !matches!(frame.logical_plan(), LogicalPlan::Copy(_) | LogicalPlan::Dml(_)) {
        return Ok(frame);
    }
    let batches = frame.collect().await?;
    if batches.is_empty() {
        return Err(DataFusionError::Internal("a statement that writes returned no count".to_owned()));
    }
    coscan.ctx.read_batches(batches)
}
