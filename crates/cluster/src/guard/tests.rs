//! Each condition, with the wrong rows that a plan returns without it.

use std::path::Path;
use std::sync::Arc;

use coscan_datafusion::{CoscanContext, CoscanOptions};
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::MemTable;
use datafusion::datasource::physical_plan::parquet::{ParquetAccessPlan, RowGroupAccess};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_proto::bytes::{physical_plan_from_bytes, physical_plan_to_bytes};
use tempfile::TempDir;

use super::*;

/// A session, as coordinators have it.
struct Here {
    coscan: CoscanContext,
    folder: TempDir,
}

impl Here {
    fn new() -> Self {
        let coscan = CoscanContext::builder().target_partitions(2).build().expect("a session");
        Here { coscan, folder: tempfile::tempdir().expect("a folder") }
    }

    fn write(&self, name: &str, columns: Vec<(&str, ArrayRef)>) -> std::path::PathBuf {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("a folder");
        let batch = RecordBatch::try_from_iter(columns).expect("a batch");
        let file = std::fs::File::create(&path).expect("a file");
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
        writer.write(&batch).expect("rows");
        writer.close().expect("a footer");
        path
    }

    async fn table(&self, name: &str, path: &Path) {
        let path = path.to_str().expect("text");
        self.coscan.register_parquet(name, path).await.expect("a table");
    }

    /// The session whose plans have no cooperative scans.
    fn plain(&self) -> SessionState {
        let mut state = self.coscan.ctx.state();
        if let Some(options) = state.config_mut().options_mut().extensions.get_mut::<CoscanOptions>() {
            options.enabled = false;
        }
        state
    }

    async fn plan(&self, sql: &str) -> Arc<dyn ExecutionPlan> {
        let logical = coscan_datafusion::sql(&self.coscan.ctx, sql).await.expect(sql).into_optimized_plan();
        let state = self.plain();
        state.query_planner().create_physical_plan(&logical.expect(sql), &state).await.expect(sql)
    }

    fn checked(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Sent, Reason> {
        check(plan, &Functions::of(&self.coscan.ctx.state()), Sent::default())
    }

    /// The rows of the plan after the encoding of this crate.
    async fn rows_elsewhere(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<String, String> {
        let state = self.plain();
        let functions = Functions::of(&SessionContext::new().state());
        let sent = check(plan, &functions, Sent::default()).map_err(|reason| reason.to_string())?;
        let plan = crate::scan::with_cluster_scans(Arc::clone(plan), &state).await.expect("scans");
        same_when_decoded(&plan, &functions, &sent, &state).map_err(|reason| reason.to_string())?;
        let codecs: Vec<Arc<dyn PhysicalExtensionCodec>> = vec![Arc::new(DistributedCodec), Arc::new(Codec)];
        let codec = ComposedPhysicalExtensionCodec::new(codecs);
        let converter = DeduplicatingProtoConverter::default();
        let bytes = physical_plan_to_bytes_with_proto_converter(plan, &codec, &converter).expect("bytes");
        let context = functions.with(&sent).expect("functions").context(&state, state.config().clone());
        let converter = DeduplicatingProtoConverter::default();
        let decoded = physical_plan_from_bytes_with_proto_converter(&bytes, &context, &codec, &converter);
        rows(decoded.expect("a plan"), Arc::new(context)).await
    }
}

/// The rows of the plan after DataFusion's encoding, in a process with DataFusion's aggregate functions.
async fn rows_without_conditions(plan: &Arc<dyn ExecutionPlan>) -> Result<String, String> {
    let bytes = physical_plan_to_bytes(Arc::clone(plan)).expect("bytes");
    let session = SessionContext::new();
    let functions = coscan_upstream::scalar_functions();
    functions.iter().for_each(|function| session.register_udf(function.as_ref().clone()));
    let context = session.task_ctx();
    let decoded = physical_plan_from_bytes(&bytes, &context).map_err(|error| error.to_string())?;
    rows(decoded, context).await
}

async fn rows(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<datafusion::execution::TaskContext>,
) -> Result<String, String> {
    let batches = collect(plan, context).await.map_err(|error| error.to_string())?;
    Ok(pretty_format_batches(&batches).expect("text").to_string())
}

fn integers(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

#[tokio::test]
async fn types_that_files_promote_are_promoted_elsewhere() {
    let here = Here::new();
    here.write("t/a.parquet", vec![("v", integers(&[9_007_199_254_740_993]))]);
    here.write("t/b.parquet", vec![("v", Arc::new(Float64Array::from(vec![1.5])))]);
    here.table("t", &here.folder.path().join("t")).await;
    let plan = here.plan("SELECT v FROM t").await;
    // The value of the first file has no floating-point number.
    let lost = rows_without_conditions(&plan).await.expect("rows");
    assert!(lost.contains("9007199254740992"), "{lost}");
    let error = here.rows_elsewhere(&plan).await.expect_err("a value that is not in the type");
    assert!(error.contains("column v cannot be Float64"), "{error}");
}

#[tokio::test]
async fn rows_that_a_table_leaves_out_stay_out() {
    let here = Here::new();
    let path = here.write("t.parquet", vec![("v", integers(&[1, 2, 3]))]);
    here.table("t", &path).await;
    let plan = here.plan("SELECT v FROM t").await;
    let scan = plan.downcast_ref::<DataSourceExec>().expect("a scan");
    let config = scan.data_source().downcast_ref::<FileScanConfig>().expect("files").clone();
    let mut groups = config.file_groups.clone();
    let without_rows = ParquetAccessPlan::new(vec![RowGroupAccess::Skip]);
    let files = groups[0].iter().cloned().map(|file| file.with_extension(without_rows.clone()));
    groups[0] = files.collect::<Vec<_>>().into();
    let config = FileScanConfigBuilder::from(config).with_file_groups(groups).build();
    let plan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(config);
    let own = rows(Arc::clone(&plan), here.coscan.ctx.task_ctx()).await.expect("rows");
    assert!(!own.contains('1'), "{own}");
    let back = rows_without_conditions(&plan).await.expect("rows");
    assert!(back.contains('1'), "{back}");
    assert_eq!(here.checked(&plan), Err(Reason::Scan(Unsendable::FileNotes)));
}

#[tokio::test]
async fn a_function_is_the_same_elsewhere() {
    let here = Here::new();
    let path = here.write("t.parquet", vec![("v", integers(&[i64::MAX, i64::MAX]))]);
    here.table("t", &path).await;
    for sql in ["SELECT sum(v) FROM t", "SELECT v + 1 AS w FROM t"] {
        let plan = here.plan(sql).await;
        // A sum wraps around, and an operation is not known there.
        let without = rows_without_conditions(&plan).await;
        assert!(
            without.as_ref().map_or_else(|error| error.contains("checked_add"), |sum| sum.contains("| -2")),
            "{without:?}"
        );
        let error = here.rows_elsewhere(&plan).await.expect_err(sql);
        assert!(error.contains("overflow") || error.contains("out of range"), "{error}");
    }
    // A process that lacks the function gets no plan with it.
    let plan = here.plan("SELECT sum(v) FROM t").await;
    let mut functions = Functions::of(&SessionContext::new().state());
    functions.aggregate.clear();
    assert_eq!(check(&plan, &functions, Sent::default()), Err(Reason::Function("sum".to_owned())));
}

#[tokio::test]
async fn two_functions_of_one_name_stay() {
    let here = Here::new();
    let path = here.write("t.parquet", vec![("v", integers(&[1])), ("w", integers(&[2]))]);
    here.table("t", &path).await;
    let plan = here.plan("SELECT v + w AS a, CAST(v AS INT) + CAST(w AS INT) * 2 AS b, arrow_cast(v, 'Int16') + arrow_cast(w, 'Int16') AS c FROM t").await;
    let found = here.checked(&plan);
    let is_named = |reason: &Reason| matches!(reason, Reason::Function(name) if name.contains("in two forms") || name == "checked_arithmetic");
    assert!(found.as_ref().is_err_and(is_named), "{found:?}");
}

#[tokio::test]
async fn windows_with_parts_that_are_not_encoded_stay() {
    let here = Here::new();
    let path = here.write("t.parquet", vec![("v", integers(&[1, 2, 3]))]);
    here.table("t", &path).await;
    for sql in [
        "SELECT count(*) FILTER (WHERE v > 1) OVER () AS n FROM t",
        "SELECT count(v) FILTER (WHERE v > 1) OVER (ORDER BY v ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM t",
        "SELECT first_value(nullif(v, 1)) IGNORE NULLS OVER (ORDER BY v) AS n FROM t",
        "SELECT last_value(v) OVER (ORDER BY v DESC) AS n, lag(v) OVER (ORDER BY v) AS m FROM t",
    ] {
        let plan = here.plan(sql).await;
        assert!(matches!(here.checked(&plan), Err(Reason::Encoding(_))), "{sql}");
    }
    let plan = here.plan("SELECT count(*) FILTER (WHERE v > 1) OVER () AS n FROM t").await;
    let own = rows(Arc::clone(&plan), here.coscan.ctx.task_ctx()).await.expect("rows");
    let without = rows_without_conditions(&plan).await.expect("rows");
    assert!(own.contains("| 2 |") && without.contains("| 3 |"), "{own} {without}");
    let plan = here.plan("SELECT lag(v) OVER (ORDER BY v) AS n FROM t").await;
    here.checked(&plan).expect("a plan that can be sent");
}

#[tokio::test]
async fn sources_that_are_no_files_stay() {
    let here = Here::new();
    let batch = RecordBatch::try_from_iter([("v", integers(&[1]))]).expect("a batch");
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).expect("a table");
    here.coscan.ctx.register_table("m", Arc::new(table)).expect("a name");
    let plan = here.plan("SELECT v FROM m").await;
    assert!(matches!(here.checked(&plan), Err(Reason::Source(_))));
}

#[tokio::test]
async fn conditions_are_guarded_elsewhere() {
    let here = Here::new();
    let path = here.write("t.parquet", vec![("a", integers(&[1, 6])), ("b", integers(&[0, 2]))]);
    here.table("t", &path).await;
    let guarded = here.plan("SELECT a FROM t WHERE b <> 0 AND a / b > 1").await;
    let plan = coscan_upstream::without_guards(guarded).expect("a plan");
    let sent = here.checked(&plan).expect("a plan that can be sent");
    assert_eq!(sent.functions.len(), 0);
    let again = coscan_upstream::with_guards(plan).expect("a plan");
    let found = rows(again, here.coscan.ctx.task_ctx()).await.expect("rows");
    assert!(found.contains("| 6 |"), "{found}");
}
