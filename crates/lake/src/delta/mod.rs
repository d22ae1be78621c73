//! Delta tables.
//!
//! [`log`] reads the log by `delta_kernel`, which decides what a version consists of. [`columns`] and [`files`]
//! translate its columns and files. Newer features than the kernel reads are errors of the kernel.

mod columns;
mod files;
mod log;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use coscan_datafusion::folder_url;
use datafusion::arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::CreateExternalTable;

use crate::table::LakeTable;
use log::{DeltaLog, Wanted};

/// The name of the format in `STORED AS`.
pub(crate) const FORMAT: &str = "DELTA";

/// The age at which a snapshot is looked up again. Dashboards send bursts of queries: one of them looks.
const REFRESH: Duration = Duration::from_secs(1);

/// Makes Delta tables.
#[derive(Debug)]
pub(crate) struct DeltaTables;

/// The options of a table.
#[derive(Debug)]
struct Options {
    wanted: Wanted,
    refresh: Duration,
}

#[async_trait]
impl TableProviderFactory for DeltaTables {
    async fn create(
        &self,
        state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let [location] = &command.locations[..] else {
            return plan_err!("a Delta table has one location");
        };
        if !command.schema.fields().is_empty() || !command.table_partition_cols.is_empty() {
            return plan_err!("the columns of a Delta table are those of its log: leave them out");
        }
        if !command.order_exprs.is_empty() || command.unbounded {
            return plan_err!("a Delta table is neither ordered nor unbounded: leave WITH ORDER out");
        }
        let mut options = Options::of(command)?;
        let (folder, version) = split_version(location);
        if let Some(version) = version {
            options.read(Wanted::Version(version))?;
        }
        let url = folder_url(folder)?;
        let store = state.runtime_env().object_store(&url)?;
        let refresh = matches!(options.wanted, Wanted::Newest).then_some(options.refresh);
        let log = DeltaLog::new(location, &url, store, options.wanted)?;
        Ok(Arc::new(LakeTable::open(Arc::new(log), url.object_store(), refresh).await?))
    }
}

impl Options {
    fn of(command: &CreateExternalTable) -> Result<Self> {
        let mut options = Options { wanted: Wanted::Newest, refresh: REFRESH };
        let mut keys: Vec<_> = command.options.iter().collect();
        keys.sort();
        for (key, value) in keys {
            match key.trim_start_matches("format.").trim_start_matches("delta.") {
                "version" => match value.parse() {
                    Ok(version) => options.read(Wanted::Version(version))?,
                    Err(_) => return plan_err!("delta.version is a number such as 7, not '{value}'"),
                },
                "timestamp" => match string_to_timestamp_nanos(value) {
                    Ok(at) => options.read(Wanted::Time(at.div_euclid(1_000_000)))?,
                    Err(_) => {
                        return plan_err!(
                            "delta.timestamp is a time such as '2026-11-29 12:00:00Z', not '{value}'"
                        );
                    }
                },
                "refresh" => match value.parse() {
                    Ok(seconds) => options.refresh = Duration::from_secs(seconds),
                    Err(_) => return plan_err!("delta.refresh is a number of seconds, not '{value}'"),
                },
                _ => {
                    return plan_err!(
                        "a Delta table has the options delta.version, delta.timestamp and delta.refresh, not '{key}'"
                    );
                }
            }
        }
        Ok(options)
    }

    fn read(&mut self, wanted: Wanted) -> Result<()> {
        if !matches!(self.wanted, Wanted::Newest) {
            return plan_err!("a Delta table is read at one version or at one time");
        }
        self.wanted = wanted;
        Ok(())
    }
}

/// Splits a location such as `data/t@v7`, as Spark writes it, unless there is a folder of that name.
fn split_version(location: &str) -> (&str, Option<u64>) {
    let split = location.rsplit_once("@v").filter(|_| !Path::new(location).exists());
    match split.and_then(|(folder, version)| Some((folder, version.parse().ok()?))) {
        Some((folder, version)) => (folder, Some(version)),
        None => (location, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_may_name_a_version() {
        assert_eq!(split_version("s3://b/t@v12"), ("s3://b/t", Some(12)));
        for location in ["s3://b/t@home", "s3://b/t@v", "s3://b/t@v1/x", "t"] {
            assert_eq!(split_version(location), (location, None));
        }
    }
}
