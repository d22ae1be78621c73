//! Object stores by address: `s3://`, `gs://`, `az://` and `http(s)://`, with credentials and endpoints
//! from the usual environment variables of each.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use object_store::ClientOptions;
use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use url::{Position, Url};

/// A session's stores; one that is not registered is set up from the environment when it is first named,
/// be it by `register_parquet`, `CREATE EXTERNAL TABLE` or `SELECT ... FROM 's3://...'`.
#[derive(Debug, Default)]
pub struct EnvironmentStores {
    known: DefaultObjectStoreRegistry,
}

impl ObjectStoreRegistry for EnvironmentStores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.known.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.known.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if let Ok(store) = self.known.get_store(url) {
            return Ok(store);
        }
        let store = store_for(url)?;
        self.known.register_store(url, Arc::clone(&store));
        Ok(store)
    }
}

/// The store of an address, configured from the environment.
pub fn store_for(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    let address = url.as_str();
    let store: object_store::Result<Arc<dyn ObjectStore>> = match url.scheme() {
        "s3" | "s3a" => AmazonS3Builder::from_env().with_url(address).build().map(|s| Arc::new(s) as _),
        "gs" => GoogleCloudStorageBuilder::from_env().with_url(address).build().map(|s| Arc::new(s) as _),
        "az" | "azure" | "adl" | "abfs" | "abfss" => {
            MicrosoftAzureBuilder::from_env().with_url(address).build().map(|s| Arc::new(s) as _)
        }
        "http" | "https" => {
            let options = ClientOptions::new().with_allow_http(true);
            let host = &url[..Position::BeforePath];
            HttpBuilder::new().with_url(host).with_client_options(options).build().map(|s| Arc::new(s) as _)
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

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    fn url(address: &str) -> Url {
        Url::parse(address).expect(address)
    }

    #[test]
    fn stores_are_set_up_when_they_are_named() {
        let stores = EnvironmentStores::default();
        for address in ["s3://bucket/table/", "http://localhost:1/table.parquet", "file:///table.parquet"] {
            let first = stores.get_store(&url(address)).expect(address);
            assert!(Arc::ptr_eq(&first, &stores.get_store(&url(address)).expect(address)), "{address}");
        }
    }

    #[test]
    fn a_registered_store_is_kept() {
        let stores = EnvironmentStores::default();
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        stores.register_store(&url("s3://mine"), Arc::clone(&store));
        assert!(Arc::ptr_eq(&store, &stores.get_store(&url("s3://mine/table/")).expect("mine")));
    }

    #[test]
    fn unknown_schemes_are_named() {
        let error = EnvironmentStores::default().get_store(&url("ftp://host/t.parquet")).expect_err("ftp");
        assert!(error.to_string().contains("'ftp:'"), "{error}");
    }
}
