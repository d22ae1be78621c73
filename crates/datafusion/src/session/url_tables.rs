//! Tables named by the path or URL of their files: `SELECT * FROM 'file.parquet'`.

use std::sync::Arc;

use coscan_upstream::boxed;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::common::Result;
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionContext;
use datafusion_session::SessionStore;

use crate::table::factory::table_at;

/// Finds tables whose names look like paths. [`SessionContext::enable_url_table`] accepts any name, so no
/// table or view could have the name of a folder in the current one.
#[derive(Debug)]
struct PathTables(DynamicListTableFactory);

impl UrlTableFactory for PathTables {
    boxed!(PathTables::table as try_new);
}

impl PathTables {
    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !name.contains(['/', std::path::MAIN_SEPARATOR, '.', '*']) {
            return Ok(None);
        }
        let session = self.0.session_store().get_session().upgrade();
        let state =
            session.and_then(|session| session.read().as_any().downcast_ref::<SessionState>().cloned());
        let Some(state) = state else { return Ok(None) };
        match table_at(&state, name).await? {
            Some(table) => Ok(Some(table)),
            // CSV, JSON and others.
            None => self.0.try_new(name).await,
        }
    }
}

/// Returns the session with tables that are named by the paths of their files, lake tables included. Names without a
/// `/`, `.` or `*` stay those of tables.
pub fn with_url_tables(ctx: SessionContext) -> SessionContext {
    let factory = Arc::new(PathTables(DynamicListTableFactory::new(SessionStore::new())));
    let known = Arc::clone(ctx.state_ref().read().catalog_list());
    let catalogs = DynamicFileCatalog::new(known, Arc::clone(&factory) as Arc<dyn UrlTableFactory>);
    let session = ctx.session_id();
    let builder = ctx.into_state_builder().with_session_id(session).with_catalog_list(Arc::new(catalogs));
    let ctx = SessionContext::new_with_state(builder.build());
    factory.0.session_store().with_state(ctx.state_weak_ref());
    ctx
}
