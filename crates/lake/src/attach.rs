//! Catalogs by their addresses.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::prelude::SessionContext;

use crate::catalog::address::{Address, Format};
use crate::catalog::{Catalog, LakeCatalog};
use crate::ducklake::DuckLakeCatalog;
use crate::iceberg::IcebergCatalog;

/// Opens the catalog at an address, such as `iceberg+rest://HOST` or `ducklake+sqlite:///PATH`, and adds it to a session under
/// a name. Its schemas have the tables that the catalog has when a query names them. The forms of addresses are in
/// `docs/lake.md`. The cost is a request for each schema.
///
/// # Errors
/// If the address is none, or the catalog cannot be read.
pub async fn attach(ctx: &SessionContext, name: &str, address: &str) -> Result<()> {
    let address = Address::parse(address)?;
    let (refresh, runtime) = (address.refresh, ctx.runtime_env());
    let catalog: Arc<dyn Catalog> = match address.format {
        Format::Iceberg(kind) => Arc::new(IcebergCatalog::open(address, kind, &runtime).await?),
        Format::DuckLake => Arc::new(DuckLakeCatalog::open(address).await?),
    };
    let catalog = LakeCatalog::new(catalog, name, runtime, refresh).await?;
    ctx.register_catalog(name, Arc::new(catalog));
    Ok(())
}
