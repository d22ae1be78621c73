//! A connection: an engine in this process with a session, or a session of an engine that processes share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::{ParamValues, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::input::AnyRecordBatch;
use serde_json::Value;

use crate::core::{Core, Source};
use crate::errors;
use crate::parameters::parameters;
use crate::query::{Query, Rows, Statement};
use crate::scan::{Scan, start};
use crate::session::{self, Pairs, Start};

/// Threads may use it at the same time.
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
        settings: Pairs,
        session_settings: Pairs,
        threads: Option<usize>,
        memory: Option<u64>,
    ) -> PyResult<Self> {
        let given = Start { settings, session: session_settings, threads, memory };
        let core = py.detach(|| Core::start(given.threads(), || given.open().map(Source::Own)))?;
        Ok(Connection { core: Mutex::new(Some(core)) })
    }

    /// Connects to the shared engine at a socket; `None` if there is none. `given` is a [`Start`] in JSON: the engine that
    /// this process would start.
    #[staticmethod]
    fn shared(py: Python<'_>, socket: PathBuf, given: &str, folder: PathBuf) -> PyResult<Option<Self>> {
        let given: Start =
            serde_json::from_str(given).map_err(|error| errors::programming(&error.to_string()))?;
        let core = py.detach(|| Core::connect(&socket, given, folder))?;
        Ok(core.map(|core| Connection { core: Mutex::new(Some(core)) }))
    }

    /// Registers the files at paths or URLs as a table.
    fn register_files(
        &self,
        py: Python<'_>,
        name: String,
        locations: Vec<String>,
        options: Pairs,
    ) -> PyResult<()> {
        self.on_threads(py, |source| async move {
            match source {
                Source::Own(coscan) => session::register_files(&coscan, &name, &locations, &options).await,
                Source::Shared(client) => client.register_files(name, locations, options).await,
            }
        })
    }

    /// Registers an object with `__arrow_c_stream__` or `__arrow_c_array__` as a table. Its buffers are not copied, unless
    /// the engine is a shared one.
    fn register_arrow(&self, py: Python<'_>, name: String, batches: AnyRecordBatch) -> PyResult<()> {
        let core = self.core()?;
        // Another process has no use for the threads.
        core.source()?;
        let reader = batches.into_reader()?;
        let read =
            py.detach(|| -> Result<_> { Ok((reader.schema(), reader.collect::<Result<Vec<_>, _>>()?)) });
        let (schema, batches) = read.map_err(|error| errors::raised(&error))?;
        self.on_threads(py, |source| async move {
            match source {
                Source::Own(coscan) => session::register_batches(&coscan, &name, schema, batches),
                Source::Shared(client) => client.register_batches(name, schema, batches).await,
            }
        })
    }

    /// Opens the store of an address with options.
    fn register_store(&self, py: Python<'_>, address: String, options: Pairs) -> PyResult<()> {
        self.on_threads(py, |source| async move {
            match source {
                Source::Own(coscan) => session::register_store(&coscan, &address, &options),
                Source::Shared(client) => client.register_store(address, options).await,
            }
        })
    }

    /// Opens the catalog at an address.
    fn attach(&self, py: Python<'_>, name: String, address: String) -> PyResult<()> {
        self.on_threads(py, |source| async move {
            match source {
                Source::Own(coscan) => coscan_lake::attach(&coscan.ctx, &name, &address).await,
                Source::Shared(client) => client.attach(name, address).await,
            }
        })
    }

    /// Forgets a table. Returns whether there was one.
    fn deregister(&self, py: Python<'_>, name: String) -> PyResult<bool> {
        self.on_threads(py, |source| async move {
            match source {
                Source::Own(coscan) => session::deregister(&coscan, &name),
                Source::Shared(client) => client.deregister(name).await,
            }
        })
    }

    /// The names of the tables.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.on_threads(py, |source| async move {
            match source {
                Source::Own(coscan) => Ok(session::tables(&coscan)),
                Source::Shared(client) => client.tables().await,
            }
        })
    }

    /// Plans a statement. One that changes something is carried out.
    #[pyo3(signature = (sql, given = None))]
    fn plan(&self, py: Python<'_>, sql: String, given: Option<Bound<'_, PyAny>>) -> PyResult<Query> {
        let core = self.core()?;
        let given = given.map(|given| parameters(&given)).transpose()?;
        let statement = core.wait(py, planned(&core, sql, given)?)?;
        Ok(Query::new(core, statement))
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
        let (receiver, running) = core.begin(planned(&core, sql, given)?)?;
        pyo3_async_runtimes::tokio::future_into_py(py, async move {
            let statement = receiver.recv_async().await;
            drop(running);
            let statement =
                statement.map_err(|_| errors::closed())?.map_err(|error| errors::raised(&error))?;
            Ok(Query::new(core, statement))
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
        let scan = Scan { sql, in_order, batch_rows: batch_rows.filter(|&rows| rows > 0), shard };
        let batches = self.on_threads(py, |source| async move {
            match source {
                Source::Own(coscan) => start(&coscan, &scan).await,
                Source::Shared(client) => client.scan(scan).await,
            }
        })?;
        let schema = batches.schema();
        Rows::start(&core, schema, None, async move { Ok(batches) })
    }

    /// The counters of the engine since its start.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.on_threads(py, |source| async move {
            match source {
                Source::Own(coscan) => Ok(session::stats(&coscan)),
                Source::Shared(client) => client.stats().await,
            }
        })?;
        let counters = PyDict::new(py);
        for (name, value) in stats {
            match value {
                Value::String(text) => counters.set_item(name, text)?,
                value => match value.as_u64() {
                    Some(count) => counters.set_item(name, count)?,
                    None => counters.set_item(name, value.as_f64())?,
                },
            }
        }
        Ok(counters)
    }

    /// The chunks of each table in JSON; see [`session::chunks`].
    fn chunks(&self, py: Python<'_>, cells: usize) -> PyResult<String> {
        let chunks = self.on_threads(py, |source| async move {
            match source {
                Source::Own(coscan) => Ok(session::chunks(&coscan, cells)),
                Source::Shared(client) => client.chunks(cells).await,
            }
        })?;
        Ok(chunks.to_string())
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

    /// Runs the work on the connection's threads and waits for its value.
    fn on_threads<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(Source) -> F,
    ) -> PyResult<T> {
        let core = self.core()?;
        let source = core.source()?.clone();
        core.wait(py, work(source))
    }
}

fn planned(
    core: &Core,
    sql: String,
    given: Option<ParamValues>,
) -> PyResult<impl Future<Output = Result<Statement>> + Send + 'static> {
    let source = core.source()?.clone();
    Ok(async move { Statement::plan(&source, sql, given).await })
}
