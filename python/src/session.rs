//! Operations of a session: tables, stores, statements. A connection does them in its own process, the host of a shared engine
//! for each connection.

use std::collections::HashSet;
use std::sync::Arc;

use coscan_datafusion::{AnyCaseSchema, CoscanContext, store_with, with_account};
use coscan_engine::{PartState, PartView, QueryAccount, TableView};
use coscan_server::shown_schema;
use coscan_server::sql::{plan, speak};
use coscan_upstream::execute_logical_plan;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::{DataFusionError, ParamValues, Result, internal_err, plan_datafusion_err, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::MemTable;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::Url;

use crate::parameters::numbered;

/// Catalog and schema of tables that are given by name only.
pub(crate) const CATALOG: &str = "datafusion";
pub(crate) const SCHEMA: &str = "public";

/// What `current_user` is.
pub(crate) const USER: &str = "coscan";

/// Names and values as text.
pub(crate) type Pairs = Vec<(String, String)>;

/// An engine that is to be started.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Start {
    /// Names below `coscan.` and their values.
    pub(crate) settings: Pairs,
    /// Complete names of settings of the first session.
    pub(crate) session: Pairs,
    pub(crate) threads: Option<usize>,
    pub(crate) memory: Option<u64>,
}

impl Start {
    /// The number of threads that run queries.
    pub(crate) fn threads(&self) -> usize {
        let given = self.threads.filter(|&count| count > 0);
        given.or_else(|| std::thread::available_parallelism().ok().map(Into::into)).unwrap_or(1)
    }

    /// Starts the engine.
    pub(crate) fn open(&self) -> Result<CoscanContext> {
        let mut config = SessionConfig::new().with_information_schema(true);
        set_all(&mut config, &self.session)?;
        let mut builder = CoscanContext::builder()
            .session_config(config)
            .target_partitions(self.threads())
            .url_tables(true)
            .from_env();
        for (name, value) in &self.settings {
            builder = builder.set(name, value);
        }
        if let Some(bytes) = self.memory {
            builder = builder.process_memory(bytes);
        }
        let coscan = builder.build()?;
        coscan_lake::install(&coscan.ctx);
        if let Some(catalog) = coscan.ctx.catalog(CATALOG) {
            catalog.register_schema(SCHEMA, Arc::new(AnyCaseSchema::default()))?;
        }
        speak(&coscan.ctx, USER);
        Ok(coscan)
    }
}

/// Sets settings by their complete names.
pub(crate) fn set_all(config: &mut SessionConfig, settings: &Pairs) -> Result<()> {
    settings.iter().try_for_each(|(name, value)| config.options_mut().set(name, value))
}

/// A name as it is, not in lower case and not split at its dots.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Registers the files at paths or URLs as a table.
pub(crate) async fn register_files(
    coscan: &CoscanContext,
    name: &str,
    locations: &[String],
    options: &Pairs,
) -> Result<()> {
    let locations: Vec<_> = locations.iter().map(String::as_str).collect();
    let options: Vec<_> = options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    deregister(coscan, name)?;
    coscan.register_parquet_files(name, &locations, &options).await
}

/// Registers rows in memory as a table. Their buffers are not copied.
pub(crate) fn register_batches(
    coscan: &CoscanContext,
    name: &str,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
) -> Result<()> {
    check_names(&schema)?;
    // Queries read the partitions at the same time.
    let count = coscan.ctx.state().config().target_partitions().min(batches.len()).max(1);
    let mut partitions = vec![Vec::new(); count];
    for (at, batch) in batches.into_iter().enumerate() {
        partitions[at % count].push(batch);
    }
    deregister(coscan, name)?;
    coscan.ctx.register_table(&*quoted(name), Arc::new(MemTable::try_new(schema, partitions)?))?;
    Ok(())
}

/// # Errors
/// If two columns have one name.
fn check_names(schema: &Schema) -> Result<()> {
    let mut names = HashSet::new();
    match schema.fields().iter().find(|field| !names.insert(field.name())) {
        Some(field) => plan_err!("two columns have the name {}: give one of them another", field.name()),
        None => Ok(()),
    }
}

/// Opens the store of an address with options.
pub(crate) fn register_store(coscan: &CoscanContext, address: &str, options: &Pairs) -> Result<()> {
    let url = Url::parse(address).map_err(|error| plan_datafusion_err!("{address}: {error}"))?;
    let store = store_with(&url, options)?;
    coscan.ctx.register_object_store(&url, store);
    Ok(())
}

/// Forgets a table. Returns whether there was one.
pub(crate) fn deregister(coscan: &CoscanContext, name: &str) -> Result<bool> {
    Ok(coscan.ctx.deregister_table(&*quoted(name))?.is_some())
}

/// The names of the tables.
pub(crate) fn tables(coscan: &CoscanContext) -> Vec<String> {
    let schema = coscan.ctx.catalog(CATALOG).and_then(|catalog| catalog.schema(SCHEMA));
    let mut names = schema.map(|schema| schema.table_names()).unwrap_or_default();
    names.sort();
    names
}

/// A planned statement, and the columns that its readers are told.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    frame: DataFrame,
    told: SchemaRef,
}

impl Planned {
    /// The sides of a UNION have their common type only once the plan is analyzed.
    fn new(frame: DataFrame) -> Result<Self> {
        let (state, plan) = frame.into_parts();
        let told = match plan {
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => Arc::clone(plan.schema().inner()),
            _ => {
                let options = state.config_options();
                let analyzed = state.analyzer().execute_and_check(plan.clone(), options, |_, _| {})?;
                shown_schema(analyzed.schema().inner())
            }
        };
        Ok(Planned { frame: DataFrame::new(state, plan), told })
    }

    /// The columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.told
    }

    /// The plan of the statement as text, after a run if `analyze` is set.
    pub(crate) fn explain(&self, verbose: bool, analyze: bool) -> Result<Self> {
        Planned::new(self.frame.clone().explain(verbose, analyze)?)
    }

    /// The statement with only some of its first rows.
    pub(crate) fn limit(&self, rows: usize) -> Result<Self> {
        Ok(Planned { frame: self.frame.clone().limit(0, Some(rows))?, told: Arc::clone(&self.told) })
    }

    /// Runs the statement. The account counts what its scans want and have.
    pub(crate) async fn rows(self, account: Option<Arc<QueryAccount>>) -> Result<SendableRecordBatchStream> {
        let frame = match account {
            Some(account) => with_account(self.frame, account),
            None => self.frame,
        };
        as_told(&self.told, frame.execute_stream().await?)
    }
}

/// Plans a statement. One that changes something is carried out.
pub(crate) async fn planned(
    coscan: &CoscanContext,
    sql: &str,
    given: Option<ParamValues>,
) -> Result<Planned> {
    let frame = match given {
        None => with_no_parameter(statement(coscan, sql, None).await?)?,
        Some(ParamValues::List(values)) => {
            let sql = numbered(sql, values.len())?;
            statement(coscan, &sql, Some(ParamValues::List(values))).await?
        }
        Some(values) => statement(coscan, sql, Some(values)).await?,
    };
    if !matches!(frame.logical_plan(), LogicalPlan::Copy(_) | LogicalPlan::Dml(_)) {
        return Planned::new(frame);
    }
    let batches = frame.collect().await?;
    if batches.is_empty() {
        return Err(DataFusionError::Internal("a statement that writes returned no count".to_owned()));
    }
    Planned::new(coscan.ctx.read_batches(batches)?)
}

/// Plans a statement in the SQL of `coscan sql`. `SET` and `CREATE` take effect at once.
pub(crate) async fn statement(
    coscan: &CoscanContext,
    sql: &str,
    values: Option<ParamValues>,
) -> Result<DataFrame> {
    let plan = plan(&coscan.ctx.state(), sql, values).await?;
    execute_logical_plan(&coscan.ctx, plan).await
}

/// # Errors
/// If the statement has a parameter.
fn with_no_parameter(frame: DataFrame) -> Result<DataFrame> {
    match frame.logical_plan().get_parameter_names()?.into_iter().min() {
        Some(name) => plan_err!("the parameter {name} has no value"),
        None => Ok(frame),
    }
}

/// The rows with the names of columns that their readers were told.
///
/// # Errors
/// If a type differs from what they were told. Readers of Arrow's C interface would take the buffers for values of that.
pub(crate) fn as_told(told: &Schema, rows: SendableRecordBatchStream) -> Result<SendableRecordBatchStream> {
    let schema = rows.schema();
    let mut pairs = told.fields().iter().zip(schema.fields());
    let differing = pairs.clone().find(|(told, of)| !told.data_type().equals_datatype(of.data_type()));
    if let Some((told, of)) = differing {
        return internal_err!(
            "the column {} was planned as {} and is computed as {}",
            told.name(),
            told.data_type(),
            of.data_type()
        );
    }
    if pairs.all(|(told, of)| told.name() == of.name()) {
        return Ok(rows);
    }
    let names: Vec<String> = told.fields().iter().map(|field| field.name().clone()).collect();
    let renamed = with_names(&schema, &names);
    let rows = rows.map(move |batch| named(&batch?, &names));
    Ok(Box::pin(RecordBatchStreamAdapter::new(renamed, rows)))
}

/// The columns with these names.
pub(crate) fn with_names(schema: &Schema, names: &[String]) -> SchemaRef {
    let field = |(field, name): (&FieldRef, &String)| field.as_ref().clone().with_name(name);
    let fields: Fields = schema.fields().iter().zip(names).map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The batch with these names of columns.
pub(crate) fn named(batch: &RecordBatch, names: &[String]) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = with_names(batch.schema_ref(), names);
    Ok(RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options)?)
}

/// The chunks of each table: a letter for each cell of a column, and how many scans want it. A cell stands for neighbours if a
/// table has more chunks than `cells`, over all its columns.
pub(crate) fn chunks(coscan: &CoscanContext, cells: usize) -> Value {
    let table = |table: TableView| {
        let state = |part: &PartView| match part.state {
            PartState::Absent => '.',
            PartState::OnItsWay => 'r',
            PartState::Encoded => 'e',
            PartState::Decoded => 'd',
        };
        let rows = || table.parts.chunks(table.cells.max(1));
        json!({
            "file": table.file,
            "files": table.files,
            "chunks": table.live.iter().map(|range| range.len()).sum::<usize>(),
            "columns": table.columns,
            "states": rows().map(|row| row.iter().map(state).collect()).collect::<Vec<String>>(),
            "wanted": rows().map(|row| row.iter().map(|part| part.wanted).collect()).collect::<Vec<Vec<_>>>(),
        })
    };
    coscan.engine.observe(cells).tables.into_iter().map(table).collect()
}

/// The counters of the engine since its start.
pub(crate) fn stats(coscan: &CoscanContext) -> Map<String, Value> {
    let engine = &coscan.engine;
    let (seen, stats) = (engine.observe(0), engine.stats());
    [
        ("seconds", seen.at.as_secs_f64().into()),
        ("policy", seen.policy.as_str().into()),
        ("buffer_bytes", seen.buffer_bytes.into()),
        ("bytes_read", stats.bytes_read.into()),
        ("loads", stats.loads.into()),
        ("loads_in_flight", seen.loads_in_flight.into()),
        ("parts_from_buffer", stats.parts_from_buffer.into()),
        ("parts_loaded", stats.parts_loaded.into()),
        ("evictions", stats.evictions.into()),
        ("slices_decoded", stats.slices_decoded.into()),
        ("slices_shared", stats.slices_shared.into()),
        ("scans", seen.scans.len().into()),
    ]
    .into_iter()
    .map(|(name, value): (&str, Value)| (name.to_owned(), value))
    .collect()
}
