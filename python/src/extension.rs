//! Cooperative scans for sessions of the Python package `datafusion`, through DataFusion's stable interface.
//!
//! The session sends each optimized logical plan to a [`Planner`] of this library. It plans with a session of its own,
//! whose scans are cooperative, and returns one node ([`Planned`]) that runs the plan on the engine's threads. Plans and
//! tables cross as numbers: the codec ([`Numbers`]) keeps them until the other side asks for them. Plans without a Parquet
//! file, and those that cannot be made here, go to the session's own planner.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use coscan_upstream::boxed;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, TableReference, internal_datafusion_err, internal_err, not_impl_err};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::{Extension as ExtensionNode, LogicalPlan};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties, execute_stream,
};
use datafusion_ffi::execution::FFI_TaskContextProvider;
use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use datafusion_ffi::proto::physical_extension_codec::FFI_PhysicalExtensionCodec;
use datafusion_ffi::query_planner::FFI_QueryPlanner;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::connection::Connection;
use crate::core::Core;
use crate::errors;
use crate::functions::with_own_functions;

/// Begins the bytes that this library's codec writes.
const MARK: &[u8] = b"coscan";

/// Plans and tables that are kept for the other side. The oldest are forgotten, because not all are asked for.
const KEPT: usize = 1024;

/// What a session is equipped with; see the module's documentation.
#[pyclass(frozen, module = "coscan._coscan")]
pub(crate) struct Extension {
    core: Arc<Core>,
    plain: Arc<SessionState>,
    numbers: Arc<Numbers>,
    reasons: Arc<Reasons>,
}

/// The newest reason for a plan that was made elsewhere, and counts.
#[derive(Debug, Default)]
struct Reasons(Mutex<(u64, u64, Option<String>)>);

impl Reasons {
    fn planned(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
    }

    fn left(&self, reason: String) {
        let mut reasons = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reasons.1 += 1;
        reasons.2 = Some(reason);
    }
}

#[pymethods]
impl Extension {
    #[new]
    fn new(connection: &Connection) -> PyResult<Self> {
        let core = connection.core()?;
        let coscan = core.coscan()?;
        let handle = core.handle()?;
        let _entered = handle.enter();
        let mut config = coscan.ctx.copied_config();
        config.options_mut().execution.time_zone = None;
        let plain = Arc::new(coscan.new_session(config).state());
        Ok(Extension { core, plain, numbers: Arc::default(), reasons: Arc::default() })
    }

    /// How many plans were made here, how many elsewhere, and why the last of these.
    fn counts(&self) -> (u64, u64, Option<String>) {
        self.reasons.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[classattr]
    fn __datafusion_codec_id__() -> &'static str {
        "coscan"
    }

    fn __datafusion_session_components__<'py>(
        slf: Bound<'py, Self>,
        _ctx: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let codecs = PyDict::new(py);
        codecs.set_item("logical_extension_codecs", PyTuple::new(py, [&slf])?)?;
        codecs.set_item("physical_extension_codecs", PyTuple::new(py, [&slf])?)?;
        py.import("datafusion.extensions")?.getattr("SessionExtensionComponents")?.call((), Some(&codecs))
    }

    fn __datafusion_logical_extension_codec__<'py>(
        &self,
        py: Python<'py>,
        session: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let codec = Arc::clone(&self.numbers) as Arc<dyn LogicalExtensionCodec>;
        let codec = FFI_LogicalExtensionCodec::new(codec, Some(self.core.handle()?), provider(session)?);
        PyCapsule::new_with_value(py, codec, c"datafusion_logical_extension_codec")
    }

    fn __datafusion_physical_extension_codec__<'py>(
        &self,
        py: Python<'py>,
        session: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let codec = Arc::clone(&self.numbers) as Arc<dyn PhysicalExtensionCodec>;
        let codec = FFI_PhysicalExtensionCodec::new(codec, Some(self.core.handle()?), provider(session)?);
        PyCapsule::new_with_value(py, codec, c"datafusion_physical_extension_codec")
    }

    fn __datafusion_session_planner__<'py>(
        &self,
        ctx: &Bound<'py, PyAny>,
        fallback: &Bound<'py, PyCapsule>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let fallback: FFI_QueryPlanner = inside(fallback, c"datafusion_query_planner")?;
        let planner = Planner {
            core: Arc::clone(&self.core),
            plain: Arc::clone(&self.plain),
            fallback: (&fallback).into(),
            reasons: Arc::clone(&self.reasons),
        };
        let logical = ctx.call_method0("__datafusion_logical_extension_codec__")?;
        let physical = ctx.call_method0("__datafusion_physical_extension_codec__")?;
        let planner = FFI_QueryPlanner::new_with_ffi_codecs(
            Arc::new(planner),
            inside(logical.cast()?, c"datafusion_logical_extension_codec")?,
            inside(physical.cast()?, c"datafusion_physical_extension_codec")?,
        );
        PyCapsule::new_with_value(ctx.py(), planner, c"datafusion_query_planner")
    }
}

/// A copy of the value in a capsule of DataFusion.
fn inside<T: Clone>(capsule: &Bound<'_, PyCapsule>, name: &std::ffi::CStr) -> PyResult<T> {
    let pointer = capsule.pointer_checked(Some(name))?;
    // SAFETY: capsules of this name hold a value of this type. Its layout is stable within a major version, and
    // `datafusion` checks the version of what it takes.
    Ok(unsafe { pointer.cast::<T>().as_ref() }.clone())
}

fn provider(session: &Bound<'_, PyAny>) -> PyResult<FFI_TaskContextProvider> {
    let capsule = session.call_method0("__datafusion_task_context_provider__")?;
    inside(capsule.cast()?, c"datafusion_task_context_provider")
}

/// Plans with the engine's session.
#[derive(Debug)]
struct Planner {
    core: Arc<Core>,
    /// A session of the engine with DataFusion's own functions, whose SQL is not that of connections.
    plain: Arc<SessionState>,
    fallback: Arc<dyn QueryPlanner + Send + Sync>,
    reasons: Arc<Reasons>,
}

impl QueryPlanner for Planner {
    boxed!(Planner::plan as create_physical_plan);
}

impl Planner {
    async fn plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let reason = match reason_against(plan)? {
            Some(reason) => reason.to_owned(),
            None => match self.planned(plan, session).await {
                Ok(planned) => {
                    self.reasons.planned();
                    return Ok(planned);
                }
                Err(error) => errors::text(&error),
            },
        };
        self.reasons.left(reason);
        self.fallback.create_physical_plan(plan, session).await
    }
}

impl Planner {
    async fn planned(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        self.core.coscan().map_err(|error| internal_datafusion_err!("{error}"))?;
        let state = state_like(&self.plain, session);
        let mut plan = with_own_functions(plan.clone(), &state)?;
        if let LogicalPlan::Explain(explain) = &mut plan {
            // This does not cross. Without it, no physical plan would be shown.
            explain.logical_optimization_succeeded = true;
        }
        let task = state.task_ctx();
        // The caller's thread belongs to another runtime.
        let begun =
            self.core.begin(async move { state.query_planner().create_physical_plan(&plan, &state).await });
        let (receiver, running) = begun.map_err(|error| internal_datafusion_err!("{error}"))?;
        let inner =
            receiver.recv_async().await.map_err(|_| internal_datafusion_err!("the engine has ended"))??;
        drop(running);
        Ok(Arc::new(Planned::new(Arc::clone(&self.core), inner, task)))
    }
}

/// Returns why a plan is not for this planner, if it is not.
fn reason_against(plan: &LogicalPlan) -> Result<Option<&'static str>> {
    if matches!(
        plan,
        LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Statement(_)
    ) {
        return Ok(Some("the statement is no query"));
    }
    let mut reads_files = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let table = source_as_provider(&scan.source)?;
            let listing = (table.as_ref() as &dyn std::any::Any).downcast_ref::<ListingTable>();
            reads_files |= listing.is_some_and(|table| table.options().format.get_ext() == "parquet");
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok((!reads_files).then_some("the query reads no Parquet file"))
}

/// The engine's session with the settings of another one.
fn state_like(plain: &SessionState, session: &dyn Session) -> SessionState {
    let mut state = plain.clone();
    let options = state.config_mut().options_mut();
    for entry in session.config_options().entries() {
        if let Some(value) = entry.value.filter(|_| !entry.key.starts_with("coscan.")) {
            // Settings of other extensions have no effect here.
            let _ = options.set(&entry.key, &value);
        }
    }
    state
}

/// A plan that runs on the engine's threads, as one partition.
#[derive(Debug)]
struct Planned {
    core: Arc<Core>,
    inner: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    properties: Arc<PlanProperties>,
}

impl Planned {
    fn new(core: Arc<Core>, inner: Arc<dyn ExecutionPlan>, task: Arc<TaskContext>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(inner.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Planned { core, inner, task, properties: Arc::new(properties) }
    }
}

impl DisplayAs for Planned {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CoscanExec")
    }
}

impl ExecutionPlan for Planned {
    fn name(&self) -> &'static str {
        "CoscanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("CoscanExec has no children") }
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("CoscanExec has one partition, not {partition}");
        }
        let (inner, task) = (Arc::clone(&self.inner), Arc::clone(&self.task));
        let started = self.core.stream(async move { execute_stream(inner, task) });
        let started = started.map_err(|error| internal_datafusion_err!("{error}"))?;
        let core = Arc::clone(&self.core);
        let batches = futures::stream::unfold(Some((started, core)), async |state| {
            let ((receiver, running), core) = state?;
            match receiver.recv_async().await {
                Ok(Ok(Some(batch))) => Some((Ok(batch), Some(((receiver, running), core)))),
                Ok(Ok(None)) => None,
                Ok(Err(error)) => Some((Err(error), None)),
                Err(_) => Some((internal_err!("the engine has ended"), None)),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.inner.schema(), Box::pin(batches))))
    }
}

/// Keeps plans and tables by number.
#[derive(Debug, Default)]
struct Numbers {
    plans: Mutex<Kept<Arc<dyn ExecutionPlan>>>,
    tables: Mutex<Kept<Arc<dyn TableProvider>>>,
}

#[derive(Debug)]
struct Kept<T> {
    next: u64,
    items: BTreeMap<u64, T>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept { next: 0, items: BTreeMap::new() }
    }
}

/// Keeps an item and writes its number.
fn keep<T>(kept: &Mutex<Kept<T>>, item: T, bytes: &mut Vec<u8>) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let number = kept.next;
    kept.next += 1;
    kept.items.insert(number, item);
    if kept.items.len() > KEPT {
        kept.items.pop_first();
    }
    bytes.extend_from_slice(MARK);
    bytes.extend_from_slice(&number.to_le_bytes());
}

/// The item of a number that this library wrote.
fn kept<T: Clone>(kept: &Mutex<Kept<T>>, bytes: &[u8]) -> Result<T> {
    let number = bytes.strip_prefix(MARK).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let Some(number) = number else { return not_impl_err!("these bytes are not coscan's") };
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let item = kept.items.get(&number).cloned();
    item.ok_or_else(|| internal_datafusion_err!("the plan {number} is no longer kept: plan the query again"))
}

impl PhysicalExtensionCodec for Numbers {
    fn try_decode(
        &self,
        bytes: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        kept(&self.plans, bytes)
    }

    fn try_encode(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if !plan.is::<Planned>() {
            return not_impl_err!("{} is no plan of coscan", plan.name());
        }
        keep(&self.plans, plan, bytes);
        Ok(())
    }
}

impl LogicalExtensionCodec for Numbers {
    fn try_decode(&self, _: &[u8], _: &[LogicalPlan], _: &TaskContext) -> Result<ExtensionNode> {
        not_impl_err!("coscan has no logical nodes")
    }

    fn try_encode(&self, _: &ExtensionNode, _: &mut Vec<u8>) -> Result<()> {
        not_impl_err!("coscan has no logical nodes")
    }

    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        _: &TableReference,
        _: SchemaRef,
        _: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        kept(&self.tables, bytes)
    }

    fn try_encode_table_provider(
        &self,
        _: &TableReference,
        table: Arc<dyn TableProvider>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        keep(&self.tables, table, bytes);
        Ok(())
    }
}
