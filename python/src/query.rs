//! A planned statement, its running stream of rows, and a complete result.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::ThreadId;

use coscan_engine::QueryAccount;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StructArray};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::{ParamValues, Result};
use datafusion::execution::SendableRecordBatchStream;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::PyRecordBatch;
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};

use crate::core::{Batches, Core, Running, SIGNALS, Source, received};
use crate::errors;
use crate::session::{Planned, as_told, named, planned, with_names};
use crate::shared::client;
use crate::values::rows_of;

/// Numbers of runs.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A statement that is planned. Each start runs it again.
#[pyclass(frozen, module = "coscan._coscan")]
pub(crate) struct Query {
    core: Arc<Core>,
    statement: Statement,
}

/// A planned statement, where it runs.
pub(crate) enum Statement {
    Own(Box<Planned>),
    Shared(client::Statement),
}

impl Statement {
    fn schema(&self) -> &Schema {
        match self {
            Statement::Own(planned) => planned.schema(),
            Statement::Shared(statement) => statement.schema(),
        }
    }

    /// Plans a statement. One that changes something is carried out.
    pub(crate) async fn plan(source: &Source, sql: String, given: Option<ParamValues>) -> Result<Statement> {
        match source {
            Source::Own(coscan) => Ok(Statement::own(planned(coscan, &sql, given).await?)),
            Source::Shared(client) => Ok(Statement::Shared(client.plan(sql, given).await?)),
        }
    }

    fn own(planned: Planned) -> Self {
        Statement::Own(Box::new(planned))
    }
}

impl Query {
    pub(crate) fn new(core: Arc<Core>, statement: Statement) -> Self {
        Query { core, statement }
    }
}

#[pymethods]
impl Query {
    /// Begins to run the statement.
    fn start(&self) -> PyResult<Rows> {
        let schema = Arc::new(self.statement.schema().clone());
        match &self.statement {
            Statement::Own(planned) => {
                let account = Arc::new(QueryAccount::new(NUMBERS.fetch_add(1, Ordering::Relaxed), 1));
                let planned = planned.as_ref().clone();
                let counted = Some(Arc::clone(&account));
                Rows::start(&self.core, schema, Some(account), async move { planned.rows(counted).await })
            }
            Statement::Shared(statement) => {
                let statement = statement.clone();
                let told = Arc::clone(&schema);
                Rows::start(&self.core, schema, None, async move { as_told(&told, statement.rows().await?) })
            }
        }
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.statement.schema())?)
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        names(self.statement.schema())
    }

    /// The columns' types as text.
    #[getter]
    fn types(&self) -> Vec<String> {
        types(self.statement.schema())
    }

    /// The plan, after a run if `analyze` is set.
    fn explain(&self, py: Python<'_>, verbose: bool, analyze: bool) -> PyResult<Query> {
        let explained = match &self.statement {
            Statement::Own(planned) => {
                let planned = planned.as_ref().clone();
                self.core.wait(py, async move { Ok(Statement::own(planned.explain(verbose, analyze)?)) })?
            }
            Statement::Shared(statement) => {
                let statement = statement.clone();
                self.core.wait(py, async move {
                    Ok(Statement::Shared(statement.explain(verbose, analyze).await?))
                })?
            }
        };
        Ok(Query::new(Arc::clone(&self.core), explained))
    }

    /// The statement with only some of its first rows.
    fn limit(&self, py: Python<'_>, rows: usize) -> PyResult<Query> {
        let limited = match &self.statement {
            Statement::Own(planned) => {
                Statement::own(planned.limit(rows).map_err(|error| errors::raised(&error))?)
            }
            Statement::Shared(statement) => {
                let statement = statement.clone();
                self.core.wait(py, async move { Ok(Statement::Shared(statement.limit(rows).await?)) })?
            }
        };
        Ok(Query::new(Arc::clone(&self.core), limited))
    }
}

fn names(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

fn types(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.data_type().to_string()).collect()
}

/// The stream of a running statement. Dropping it ends the statement.
struct Stream {
    receiver: Batches,
    ended: bool,
    running: Arc<Running>,
    /// The engine goes on until the end of the stream.
    _core: Arc<Core>,
}

type Shared = Arc<Mutex<Option<Stream>>>;

/// A running statement. One reader at a time takes its batches.
#[pyclass(frozen, module = "coscan._coscan")]
pub(crate) struct Rows {
    schema: SchemaRef,
    /// `None` while it is read, and after its end.
    stream: Shared,
    /// Rows of a batch of which some were fetched.
    kept: Mutex<VecDeque<Py<PyTuple>>>,
    account: Option<Arc<QueryAccount>>,
    running: Weak<Running>,
}

impl Rows {
    /// Begins to run a stream on the engine's threads.
    pub(crate) fn start(
        core: &Arc<Core>,
        schema: SchemaRef,
        account: Option<Arc<QueryAccount>>,
        opening: impl Future<Output = Result<SendableRecordBatchStream>> + Send + 'static,
    ) -> PyResult<Rows> {
        let (receiver, running) = core.stream(opening)?;
        let running = Arc::new(running);
        let weak = Arc::downgrade(&running);
        let stream = Stream { receiver, ended: false, running, _core: Arc::clone(core) };
        Ok(Rows {
            schema,
            stream: Arc::new(Mutex::new(Some(stream))),
            kept: Mutex::default(),
            account,
            running: weak,
        })
    }

    fn taken(&self) -> Option<Stream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the next batch. Calls `watched` now and then while it waits.
    fn next(&self, py: Python<'_>, watched: Option<&Bound<'_, PyAny>>) -> PyResult<Option<RecordBatch>> {
        let Some(stream) = self.taken() else { return Ok(None) };
        let batch = match received(py, &stream.receiver, watched)? {
            Ok(Some(batch)) => batch,
            Ok(None) => return Ok(None),
            Err(error) => return Err(errors::raised(&error)),
        };
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
        Ok(Some(batch))
    }
}

#[pymethods]
impl Rows {
    /// Returns the next batch, or nothing at the end. A signal whose handler raises ends the statement.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<PyRecordBatch>> {
        Ok(self.next(py, None)?.map(PyRecordBatch::new))
    }

    /// Takes all batches that are left. Calls `watched` now and then while it waits.
    #[pyo3(signature = (watched = None))]
    fn collect(&self, py: Python<'_>, watched: Option<Bound<'_, PyAny>>) -> PyResult<Table> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next(py, watched.as_ref())? {
            batches.push(batch);
        }
        Ok(Table { schema: Arc::clone(&self.schema), batches })
    }

    /// An awaitable of all batches that are left. Its cancellation ends the statement.
    fn collect_async<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (schema, stream) = (Arc::clone(&self.schema), self.taken());
        pyo3_async_runtimes::tokio::future_into_py(py, async move {
            let mut batches = Vec::new();
            if let Some(stream) = stream {
                while let Some(batch) = next_of(&stream).await? {
                    batches.push(batch);
                }
            }
            Ok(Table { schema, batches })
        })
    }

    /// An awaitable of the next batch, or of nothing at the end.
    fn next_async<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (shared, stream) = (Arc::clone(&self.stream), self.taken());
        pyo3_async_runtimes::tokio::future_into_py(py, async move {
            let Some(stream) = stream else { return Ok(None) };
            let batch = next_of(&stream).await?;
            if batch.is_some() {
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
            }
            Ok(batch.map(PyRecordBatch::new))
        })
    }

    /// Takes up to this number of rows, or all that are left.
    fn fetch(&self, py: Python<'_>, count: Option<usize>) -> PyResult<Vec<Py<PyTuple>>> {
        let count = count.unwrap_or(usize::MAX);
        let mut rows = Vec::new();
        loop {
            {
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                let missing = (count - rows.len()).min(kept.len());
                rows.extend(kept.drain(..missing));
            }
            if rows.len() == count {
                return Ok(rows);
            }
            let Some(batch) = self.next(py, None)? else { return Ok(rows) };
            let fetched = rows_of(py, &batch)?;
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).extend(fetched);
        }
    }

    /// Ends the statement, also while another thread takes its rows.
    fn cancel(&self) {
        if let Some(running) = self.running.upgrade() {
            running.stop();
        }
        drop(self.taken());
    }

    /// Chunks that the scans have announced so far, those they have had, bytes read for them, and bytes that were in memory
    /// or were read for another query.
    fn progress(&self) -> Option<(u64, u64, u64, u64)> {
        let progress = self.account.as_ref()?.progress();
        let done = progress.done;
        Some((progress.chunks_wanted, done.chunks_delivered, done.bytes_loaded, done.bytes_from_buffer))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let Some(stream) = self.taken() else {
            return Err(errors::programming("these rows were taken already: start the statement again"));
        };
        let threading = py.import("threading")?;
        let is_main = threading.call_method0("current_thread")?.is(&threading.call_method0("main_thread")?);
        let main = is_main.then(|| std::thread::current().id());
        capsule(py, &self.schema, Reader { stream, main }, requested_schema)
    }
}

async fn next_of(stream: &Stream) -> PyResult<Option<RecordBatch>> {
    match stream.receiver.recv_async().await {
        Ok(batch) => batch.map_err(|error| errors::raised(&error)),
        Err(_) => Err(errors::cancelled()),
    }
}

/// Batches as a capsule of Arrow's C stream interface.
fn capsule<'py>(
    py: Python<'py>,
    schema: &SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
    requested_schema: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let field =
        Field::new_struct("", schema.fields().clone(), false).with_metadata(schema.metadata().clone());
    let rows = batches.map(|batch| Ok(Arc::new(StructArray::from(batch?)) as ArrayRef));
    let reader = ArrayIterator::new(rows, Arc::new(field));
    Ok(to_stream_pycapsule(py, Box::new(reader), requested_schema)?)
}

/// The stream for a reader of Arrow's C interface, which may be any thread, with the interpreter or without it.
struct Reader {
    stream: Stream,
    /// The thread that handles signals, if it made the reader. Another thread must not wait for the interpreter here: the
    /// thread that has it may wait for this one.
    main: Option<ThreadId>,
}

impl Reader {
    /// The next message, unless a signal comes whose handler raises. The library that waits cannot pass on the exception, so
    /// that Ctrl-C is repeated for the time when it has returned.
    fn received(&self) -> Result<Option<RecordBatch>, ArrowError> {
        loop {
            match self.stream.receiver.recv_timeout(SIGNALS) {
                Ok(batch) => {
                    return batch.map_err(|error| ArrowError::ExternalError(errors::text(&error).into()));
                }
                Err(flume::RecvTimeoutError::Disconnected) => {
                    return Err(ArrowError::ExternalError(errors::CANCELLED.into()));
                }
                Err(flume::RecvTimeoutError::Timeout) => {
                    if self.main == Some(std::thread::current().id()) {
                        Python::attach(signals).map_err(|error| ArrowError::ExternalError(error.into()))?;
                    }
                }
            }
        }
    }
}

/// Handles signals. Ctrl-C is left for the caller.
fn signals(py: Python<'_>) -> PyResult<()> {
    let handled = py.check_signals();
    if let Err(error) = &handled
        && error.is_instance_of::<PyKeyboardInterrupt>(py)
    {
        py.import("_thread")?.call_method0("interrupt_main")?;
    }
    handled
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.stream.ended {
            return None;
        }
        let batch = self.received().transpose();
        self.stream.ended = !matches!(batch, Some(Ok(_)));
        if self.stream.ended {
            self.stream.running.stop();
        }
        batch
    }
}

/// A complete result.
#[pyclass(frozen, module = "coscan._coscan")]
pub(crate) struct Table {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

#[pymethods]
impl Table {
    /// The number of rows.
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        names(&self.schema)
    }

    /// The columns' types as text.
    #[getter]
    fn types(&self) -> Vec<String> {
        types(&self.schema)
    }

    /// All rows.
    fn rows(&self, py: Python<'_>) -> PyResult<Vec<Py<PyTuple>>> {
        let mut rows = Vec::new();
        for batch in &self.batches {
            rows.extend(rows_of(py, batch)?);
        }
        Ok(rows)
    }

    /// Up to this number of rows behind the first ones.
    fn rows_behind(&self, py: Python<'_>, first: usize, count: usize) -> PyResult<Vec<Py<PyTuple>>> {
        let (mut skipped, mut missing) = (first, count);
        let mut rows = Vec::new();
        for batch in &self.batches {
            let from = skipped.min(batch.num_rows());
            let taken = missing.min(batch.num_rows() - from);
            if taken > 0 {
                rows.extend(rows_of(py, &batch.slice(from, taken))?);
            }
            skipped -= from;
            missing -= taken;
            if missing == 0 {
                break;
            }
        }
        Ok(rows)
    }

    /// The first rows.
    fn first(&self, rows: usize) -> Table {
        let mut missing = rows;
        let mut batches = Vec::new();
        for batch in &self.batches {
            let taken = batch.slice(0, missing.min(batch.num_rows()));
            missing -= taken.num_rows();
            if taken.num_rows() > 0 {
                batches.push(taken);
            }
        }
        Table { schema: Arc::clone(&self.schema), batches }
    }

    /// The same rows, in columns whose names differ: `a`, `a_1` for two of the name `a`.
    fn with_unique_names(&self) -> PyResult<Table> {
        let mut taken = HashSet::new();
        let mut unique = |name: &String| {
            let others = (1..).map(|number| format!("{name}_{number}"));
            std::iter::once(name.clone()).chain(others).find(|name| taken.insert(name.clone()))
        };
        let names: Vec<String> =
            self.schema.fields().iter().filter_map(|field| unique(field.name())).collect();
        let renamed = |batch: &RecordBatch| named(batch, &names);
        let batches = self.batches.iter().map(renamed).collect::<Result<_>>();
        let schema = with_names(&self.schema, &names);
        Ok(Table { schema, batches: batches.map_err(|error| errors::raised(&error))? })
    }

    /// The rows as a table of text.
    fn text(&self) -> PyResult<String> {
        let empty = [RecordBatch::new_empty(Arc::clone(&self.schema))];
        let batches = if self.batches.is_empty() { &empty } else { self.batches.as_slice() };
        let text = pretty_format_batches(batches).map_err(|error| errors::data(&error.to_string()))?;
        Ok(text.to_string())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.schema.as_ref())?)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        capsule(py, &self.schema, self.batches.clone().into_iter().map(Ok), requested_schema)
    }
}
