//! Counts of the requests to stores that coscan sets up by address, for this process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use coscan_engine::StorePrices;
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService};
use object_store::{ClientOptions, Result};

use crate::lock::lock;

static STORES: Mutex<BTreeMap<String, Arc<Counts>>> = Mutex::new(BTreeMap::new());

/// The requests to a store since the process began. Repeated requests count each time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreRequests {
    /// The beginning of its files' addresses, for example `s3://bucket`.
    pub store: String,
    /// GET and HEAD of files.
    pub reads: u64,
    /// Listings, and requests that write.
    pub lists: u64,
    /// The bytes that its answers announced.
    pub bytes: u64,
}

impl StoreRequests {
    /// Returns their price in dollars, or `None` if there are no prices for the store.
    pub fn price(&self, prices: &StorePrices) -> Option<f64> {
        prices.of(&self.store, self.reads, self.lists, self.bytes)
    }
}

/// Returns the requests to each store that was used, in the order of addresses.
pub fn store_requests() -> Vec<StoreRequests> {
    let of = |(store, counts): (&String, &Arc<Counts>)| StoreRequests {
        store: store.clone(),
        reads: counts.reads.load(Ordering::Relaxed),
        lists: counts.lists.load(Ordering::Relaxed),
        bytes: counts.bytes.load(Ordering::Relaxed),
    };
    lock(&STORES).iter().map(of).filter(|of| of.reads + of.lists > 0).collect()
}

#[derive(Debug, Default)]
struct Counts {
    reads: AtomicU64,
    lists: AtomicU64,
    bytes: AtomicU64,
}

/// A connector whose clients count requests.
#[derive(Debug)]
pub(super) struct Counted<C> {
    inner: C,
    counts: Arc<Counts>,
}

impl<C> Counted<C> {
    /// Counts requests to the store with this address.
    pub(super) fn new(store: &str, inner: C) -> Self {
        let counts = Arc::clone(lock(&STORES).entry(store.to_owned()).or_default());
        Counted { inner, counts }
    }
}

impl<C: HttpConnector> HttpConnector for Counted<C> {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let inner = self.inner.connect(options)?;
        Ok(HttpClient::new(CountedService { inner, counts: Arc::clone(&self.counts) }))
    }
}

#[derive(Debug)]
struct CountedService {
    inner: HttpClient,
    counts: Arc<Counts>,
}

#[async_trait]
impl HttpService for CountedService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let counts = if is_read(&request) { &self.counts.reads } else { &self.counts.lists };
        counts.fetch_add(1, Ordering::Relaxed);
        let is_head = request.method().as_str() == "HEAD";
        let answer = self.inner.execute(request).await?;
        let length = answer.headers().get("content-length").filter(|_| !is_head);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        self.counts.bytes.fetch_add(length.unwrap_or(0), Ordering::Relaxed);
        Ok(answer)
    }
}

/// S3 and Azure list by GET with a query; `object_store` lists Google's buckets by S3's query, and HTTP by PROPFIND.
fn is_read(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or("");
    let lists = query.split('&').any(|part| part.starts_with("list-type=") || part == "comp=list");
    matches!(request.method().as_str(), "GET" | "HEAD") && !lists
}
