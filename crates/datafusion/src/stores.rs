//! Object stores by address: `s3://`, `gs://`, `az://` and `http(s)://`, with credentials and endpoints
//! from the usual environment variables of each.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::object_store::ObjectStore;
use datafusion::prelude::SessionContext;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use url::Url;

/// Makes the store that `address` lies in known to the session, if the address is a URL of one and the
/// session does not know it yet. Paths of local files need none.
pub fn register_store_for(ctx: &SessionContext, address: &str) -> Result<()> {
    let Ok(url) = Url::parse(address) else { return Ok(()) };
    if url.scheme() == "file" || url.host_str().is_none() {
        return Ok(());
    }
    if ctx.runtime_env().object_store_registry.get_store(&url).is_ok() {
        return Ok(());
    }
    ctx.register_object_store(&url, store_for(&url)?);
    Ok(())
}

/// The store of an address, configured from the environment.
pub fn store_for(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    let address = url.as_str();
    let store: object_store::Result<Arc<dyn ObjectStore>> = match url.scheme() {
        "s3" | "s3a" => AmazonS3Builder::from_env().with_url(address).build().map(|s| Arc::new(s) as _),
        "gs" | "gcs" => GoogleCloudStorageBuilder::from_env().with_url(address).build().map(|s| Arc::new(s) as _),
        "az" | "azure" | "adl" | "abfs" | "abfss" => {
            MicrosoftAzureBuilder::from_env().with_url(address).build().map(|s| Arc::new(s) as _)
        }
        "http" | "https" => {
            let host = &url[..url::Position::BeforePath];
            HttpBuilder::new()
                .with_url(host)
                .with_client_options(object_store::ClientOptions::new().with_allow_http(true))
                .build()
                .map(|s| Arc::new(s) as _)
        }
        scheme => {
            return Err(DataFusionError::Configuration(format!(
                "{address}: there is no store for '{scheme}:'; there are s3, gs, az, http and https"
            )));
        }
    };
    store.map_err(|error| {
        DataFusionError::External(Box::new(error)).context(format!("cannot open the store of {address}"))
    })
}
