//! `SELECT * FROM coscan_queries()`: the running and the waiting queries, and the queries for which they
//! wait.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};

use crate::load_control::Lender;
use crate::load_control::state::Line;
use crate::options::CoscanOptions;

/// The name of the table function.
pub(crate) const NAME: &str = "coscan_queries";

/// The queries of an engine that are under load control, of all sessions. Only administrators see the text of
/// other sessions' queries.
#[derive(Debug)]
pub(crate) struct QueriesFunction {
    lender: Arc<Lender>,
}

impl QueriesFunction {
    pub(crate) fn new(lender: Arc<Lender>) -> Self {
        QueriesFunction { lender }
    }
}

impl TableFunctionImpl for QueriesFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            return plan_err!("{NAME}() takes no arguments");
        }
        let session = args.session();
        let options = session.config_options().extensions.get::<CoscanOptions>();
        let sees_all = options.is_some_and(|options| options.administrator);
        let batch =
            rows(&self.lender.control.view(), |line| sees_all || line.about.session == session.session_id())?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}

fn rows(lines: &[Line], sees: impl Fn(&Line) -> bool) -> Result<RecordBatch> {
    let numbers =
        |of: fn(&Line) -> u64| -> ArrayRef { Arc::new(lines.iter().map(of).collect::<UInt64Array>()) };
    let waits_for = lines.iter().map(|line| {
        let ids: Vec<String> = line.waits_for.iter().map(u64::to_string).collect();
        (!ids.is_empty()).then(|| ids.join(", "))
    });
    let plans = lines.iter().map(|line| sees(line).then_some(line.about.text.as_str()));
    let columns: [(&str, ArrayRef); 9] = [
        ("query", numbers(|line| line.id)),
        ("state", Arc::new(lines.iter().map(|line| Some(line.state)).collect::<StringArray>())),
        ("run", Arc::new(lines.iter().map(|line| line.attempt).collect::<UInt32Array>())),
        ("seconds", Arc::new(lines.iter().map(|line| line.for_time.as_secs_f64()).collect::<Float64Array>())),
        ("promised_bytes", numbers(|line| line.wants)),
        ("used_bytes", numbers(|line| line.used)),
        ("peak_bytes", numbers(|line| line.peak)),
        ("waits_for", Arc::new(waits_for.collect::<StringArray>())),
        ("plan", Arc::new(plans.collect::<StringArray>())),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))?)
}
