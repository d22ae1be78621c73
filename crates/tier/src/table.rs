//! Tables whose files lie in a tier: `CREATE EXTERNAL TABLE .. OPTIONS ('coscan.tier' 'NAME')`, or a location under
//! a tier's root.
//!
//! They are DataFusion's listing tables over the tier's store. One thing differs: footers of files that are not
//! online cannot be read. The statement must name the columns, or footers must be kept before (`coscan tier
//! footers`).

use std::sync::Arc;

use coscan_upstream::boxed;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{Constraints, DataFusionError, Result, Statistics, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::listing_table_factory::ListingTableFactory;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{CreateExternalTable, Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::TryStreamExt;
use object_store::ObjectMeta;

use crate::error::TierError;
use crate::fragment::Fragment;
use crate::tier::Tier;
use crate::tiers::{Tiers, address};

/// The option that names a table's tier.
const OPTION: &str = "coscan.tier";

/// A footer is read exactly, without half a megabyte before it, because only the footer is kept.
const FOOTER_HINT: (&str, &str) = ("format.metadata_size_hint", "8");

/// The factory for tables of `CREATE EXTERNAL TABLE`.
#[derive(Debug)]
pub(crate) struct TierTables {
    tiers: Tiers,
    /// The factory for all other tables.
    plain: Arc<dyn TableProviderFactory>,
}

impl TierTables {
    pub(crate) fn new(tiers: Tiers, plain: Option<Arc<dyn TableProviderFactory>>) -> Self {
        TierTables { tiers, plain: plain.unwrap_or_else(|| Arc::new(ListingTableFactory::new())) }
    }

    fn tier_of(&self, command: &CreateExternalTable) -> Result<Option<Tier>, TierError> {
        if let Some(name) = command.options.get(OPTION) {
            return self.tiers.named(name).cloned().map(Some);
        }
        Ok(command.locations.first().and_then(|location| self.tiers.around(location)).cloned())
    }
}

impl TableProviderFactory for TierTables {
    boxed!(TierTables::table as create);
}

impl TierTables {
    async fn table(
        &self,
        state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let Some(tier) = self.tier_of(command)? else { return self.plain.create(state, command).await };
        let mut command = command.clone();
        command.options.remove(OPTION);
        command.options.entry(FOOTER_HINT.0.to_owned()).or_insert_with(|| FOOTER_HINT.1.to_owned());
        let locations = command.locations.iter().map(|location| address(tier.config(), location));
        command.locations = locations.collect::<Result<_, _>>()?;
        if command.schema.fields().is_empty() {
            if let Some(unknown) = footer_unknown(&tier, &command.locations, state).await? {
                return Err(unknown.into());
            }
            return Ok(Arc::new(TierTable(self.plain.create(state, &command).await?)));
        }
        let made = match self.plain.create(state, &command).await {
            Err(error) if is_footer_unknown(&error) => self.plain.create(&*modest(state)?, &command).await,
            made => made,
        };
        Ok(Arc::new(TierTable(made?)))
    }
}

/// A table in a tier: a listing table that plans without statistics if footers are not known. The plan has less
/// information; results are the same.
#[derive(Debug)]
struct TierTable(Arc<dyn TableProvider>);

impl TableProvider for TierTable {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.0.constraints()
    }

    fn table_type(&self) -> TableType {
        self.0.table_type()
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.0.get_table_definition()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.0.get_column_default(column)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.0.supports_filters_pushdown(filters)
    }

    fn statistics(&self) -> Option<Statistics> {
        self.0.statistics()
    }

    boxed!(TierTable::plan as scan);
}

impl TierTable {
    async fn plan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match self.0.scan(state, projection, filters, limit).await {
            Err(error) if is_footer_unknown(&error) => {
                self.0.scan(&*modest(state)?, projection, filters, limit).await
            }
            scan => scan,
        }
    }
}

/// The session with statistics disabled.
fn modest(state: &dyn Session) -> Result<Box<SessionState>> {
    let Some(state) = state.as_any().downcast_ref::<SessionState>() else {
        return plan_err!("tables in a tier need DataFusion's own session");
    };
    let mut state = state.clone();
    state.config_mut().options_mut().execution.collect_statistics = false;
    Ok(Box::new(state))
}

/// Returns true if the cause of the error is an unknown footer.
fn is_footer_unknown(error: &DataFusionError) -> bool {
    matches!(TierError::inside(error), Some(TierError::FooterUnknown { .. }))
}

/// The error for a file of the table whose footer is not kept and that is not online. `None` if there is no such
/// file.
async fn footer_unknown(tier: &Tier, locations: &[String], state: &dyn Session) -> Result<Option<TierError>> {
    let mut unknown = Vec::new();
    for location in locations {
        unknown.extend(files(location, state).await?);
    }
    let fetcher = tier.fetcher();
    let tags = fetcher.driver.tags_survive();
    let unknown = unknown.iter().map(|meta| Fragment::of(meta, tags));
    let unknown: Vec<Fragment> = unknown.filter(|fragment| !fetcher.cache.has_footer(fragment)).collect();
    let offline = tier.to_restore(unknown).await?;
    Ok(offline.first().map(|fragment| tier.footer_unknown(fragment)))
}

/// The Parquet files at an address.
async fn files(location: &str, state: &dyn Session) -> Result<Vec<ObjectMeta>> {
    coscan_datafusion::table_files(state, location).await
}

/// The Parquet files at an address and in all folders below it.
pub(crate) async fn files_below(location: &str, state: &dyn Session) -> Result<Vec<ObjectMeta>> {
    let url = ListingTableUrl::parse(location)?;
    let store = state.runtime_env().object_store(&url)?;
    if !url.is_collection() {
        return files(location, state).await;
    }
    let all: Vec<ObjectMeta> = store.list(Some(url.prefix())).try_collect().await?;
    Ok(all.into_iter().filter(|meta| meta.location.as_ref().ends_with(".parquet")).collect())
}
