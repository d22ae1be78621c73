//! Object stores by address: `s3://`, `gs://`, `az://` and `http(s)://`, with credentials and endpoints from
//! the usual environment variables.

pub(crate) mod bounded_store;
pub(crate) mod presigned;
pub(crate) mod remote;
pub(crate) mod requests;

use std::sync::Arc;

use coscan_engine::StoreId;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry, ObjectStoreUrl};
use object_store::ClientOptions;
use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::ReqwestConnector;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use url::{Position, Url};

use crate::stores::bounded_store::bounded;
use crate::stores::presigned::{Queries, QueryConnector, has_query};
use crate::stores::remote::{RemoteStore, Repeating, no_other_retries};
use crate::stores::requests::Counted;

/// The stores of a session. An unregistered store is configured from the environment at first use, by
/// `register_parquet`, `CREATE EXTERNAL TABLE` or `SELECT ... FROM 's3://...'`.
#[derive(Debug)]
pub struct EnvironmentStores {
    known: DefaultObjectStoreRegistry,
    /// The queries of URLs that had one when they were named.
    queries: Arc<Queries>,
}

impl Default for EnvironmentStores {
    fn default() -> Self {
        let known = DefaultObjectStoreRegistry::new();
        // The footers of its files can claim any length.
        let files =
            Url::parse("file://").ok().and_then(|url| known.get_store(&url).ok().map(|store| (url, store)));
        if let Some((url, store)) = files {
            known.register_store(&url, bounded(store));
        }
        EnvironmentStores { known, queries: Arc::default() }
    }
}

impl ObjectStoreRegistry for EnvironmentStores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.known.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.known.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if has_query(url) {
            self.queries.note(url);
        }
        if let Ok(store) = self.known.get_store(url) {
            return Ok(store);
        }
        let store = store_sending(url, &[], &self.queries)?;
        self.known.register_store(url, Arc::clone(&store));
        Ok(store)
    }
}

/// Returns the store of an address, configured from the environment.
///
/// # Errors
/// If no store is known for the address, or its environment variables are incomplete.
pub fn store_for(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    store_with(url, &[])
}

/// Returns the store of an address as [`store_for`] does, with options by the names that `object_store` has, such as
/// `("aws_region", "eu-central-1")` or `("allow_http", "true")`. They take precedence over the environment.
///
/// # Errors
/// As [`store_for`], or if an option is unknown or has an invalid value.
pub fn store_with(url: &Url, options: &[(String, String)]) -> Result<Arc<dyn ObjectStore>> {
    store_sending(url, options, &Arc::default())
}

/// Returns the store of an address. Its requests are sent with these queries.
fn store_sending(
    url: &Url,
    options: &[(String, String)],
    queries: &Arc<Queries>,
) -> Result<Arc<dyn ObjectStore>> {
    let address = url.as_str();
    let wrong = |error: object_store::Error| {
        DataFusionError::External(Box::new(error)).context(format!("cannot open the store of {address}"))
    };
    let writes = client(url, options, queries, false)?.map_err(wrong)?;
    let reads = client(url, options, queries, true)?.map_err(wrong)?;
    Ok(Arc::new(RemoteStore::new(reads, writes, matches!(url.scheme(), "http" | "https"))))
}

/// Builds the client of `object_store` for an address. With `repeats` it repeats requests by the table of
/// this crate.
fn client(
    url: &Url,
    options: &[(String, String)],
    queries: &Arc<Queries>,
    repeats: bool,
) -> Result<object_store::Result<Arc<dyn ObjectStore>>> {
    let host = &url[..Position::BeforePath];
    // The builders share these methods, but no trait.
    macro_rules! built {
        ($builder:expr) => {
            built!($builder, ReqwestConnector::default())
        };
        ($builder:expr, $connector:expr) => {{
            let mut builder = $builder;
            for (name, value) in options {
                let key = name.to_ascii_lowercase().parse();
                builder = builder.with_config(key.map_err(|_| unknown_option(url, name))?, value);
            }
            let counted = Counted::new(host, $connector);
            let builder = match repeats {
                true => builder.with_http_connector(Repeating(counted)).with_retry(no_other_retries()),
                false => builder.with_http_connector(counted),
            };
            builder.build().map(|store| Arc::new(store) as Arc<dyn ObjectStore>)
        }};
    }
    let address = url.as_str();
    Ok(match url.scheme() {
        "s3" | "s3a" => built!(AmazonS3Builder::from_env().with_url(address)),
        "gs" => built!(GoogleCloudStorageBuilder::from_env().with_url(address)),
        "az" | "azure" | "adl" | "abfs" | "abfss" => {
            built!(MicrosoftAzureBuilder::from_env().with_url(address))
        }
        "http" | "https" => {
            let client = ClientOptions::new().with_allow_http(true);
            let builder = HttpBuilder::new().with_url(host).with_client_options(client);
            built!(builder, QueryConnector { queries: Arc::clone(queries) })
        }
        scheme => {
            return Err(DataFusionError::Configuration(format!(
                "{address}: there is no store for '{scheme}:'; there are s3, gs, az, http and https"
            )));
        }
    })
}

fn unknown_option(url: &Url, name: &str) -> DataFusionError {
    let scheme = url.scheme();
    DataFusionError::Configuration(format!("'{name}' is no option of stores with addresses {scheme}://"))
}

/// Returns whether a store is exactly this machine's file system from its root: DataFusion's own for
/// `file:///`. A store with a prefix, or a wrapper, was chosen by the host and must be asked for every byte.
pub(crate) fn is_plain_local(store: &Arc<dyn ObjectStore>) -> bool {
    // A store does not reveal its type. Its two descriptions together identify the plain one.
    let plain: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
    [Arc::clone(&plain), bounded(plain)]
        .iter()
        .any(|plain| store.to_string() == plain.to_string() && format!("{store:?}") == format!("{plain:?}"))
}

/// Stores that the host declares equal to those of other sessions under the same name. Such sessions share
/// what they read. Otherwise only sessions with the same instance of a store share. Add it to a session's
/// configuration as an extension.
#[derive(Clone, Debug, Default)]
pub struct SharedStores {
    names: Vec<(ObjectStoreUrl, String)>,
}

impl SharedStores {
    /// Declares that the store at `url` is the one called `name`.
    pub fn with(mut self, url: ObjectStoreUrl, name: &str) -> Self {
        self.names.push((url, name.to_owned()));
        self
    }
}

/// Returns the identity of the store that a session knows under `url`.
pub(crate) fn store_id(url: &ObjectStoreUrl, store: &Arc<dyn ObjectStore>, context: &TaskContext) -> StoreId {
    let shared = context.session_config().get_extension::<SharedStores>();
    let named = shared.as_ref().and_then(|shared| shared.names.iter().find(|(of, _)| of == url));
    named.map_or_else(|| StoreId::instance(store), |(_, name)| StoreId::named(name))
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use object_store::prefix::PrefixStore;

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
    fn only_the_plain_file_system_is_read_directly() {
        let plain: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
        assert!(is_plain_local(&plain));
        assert!(is_plain_local(&bounded(plain)));
        let folder = tempfile::tempdir().expect("a folder");
        let others: [Arc<dyn ObjectStore>; 3] = [
            Arc::new(LocalFileSystem::new_with_prefix(folder.path()).expect("a folder")),
            Arc::new(PrefixStore::new(LocalFileSystem::new(), "tenant")),
            Arc::new(InMemory::new()),
        ];
        assert!(others.iter().all(|store| !is_plain_local(store)));
    }

    #[test]
    fn unknown_schemes_are_named() {
        let error = EnvironmentStores::default().get_store(&url("ftp://host/t.parquet")).expect_err("ftp");
        assert!(error.to_string().contains("'ftp:'"), "{error}");
    }
}
