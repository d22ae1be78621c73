//! URLs with a query, such as presigned ones (`https://host/t.parquet?X-Amz-Signature=..`). The query is sent
//! with each request.
//!
//! Stores know paths only. So the path of such a file ends in a mark that identifies its query. The mark
//! distinguishes files that differ only in the query, and keeps signatures out of plans and messages. The
//! client of the store replaces the mark by the query. The signature covers only reads, so a HEAD request
//! becomes a read of the first byte.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::ListingTableUrl;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService, ReqwestConnector,
};
use object_store::path::Path;
use object_store::{ClientOptions, HeaderValue};
use url::Url;

use crate::lock::lock;

/// The character before the mark in a path.
const MARK: char = '?';

/// Limit of the remembered queries. The oldest are dropped.
const QUERIES_MAX: usize = 10_000;

/// Returns whether requests for this URL need its query.
pub(crate) fn has_query(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.query().is_some_and(|query| !query.is_empty())
}

/// Returns whether a table's file has a query.
pub(crate) fn is_presigned(url: &ListingTableUrl) -> bool {
    has_query(url.get_url())
}

/// Returns the table URL of a file at a URL with a query. The last part of its path is marked.
pub(crate) fn table_url(url: &Url) -> Result<ListingTableUrl> {
    let mut hasher = DefaultHasher::new();
    url.query().hash(&mut hasher);
    let path = Path::from_url_path(url.path())?;
    let mut marked = url.clone();
    let Ok(mut parts) = marked.path_segments_mut() else {
        return Err(DataFusionError::Plan("a URL with a query must have a path".to_owned()));
    };
    let name = format!("{}{MARK}{:016x}", path.filename().unwrap_or_default(), hasher.finish());
    parts.pop_if_empty().pop().push(&name);
    drop(parts);
    ListingTableUrl::try_new(marked, None)
}

/// The queries of marked paths, by host and path.
#[derive(Debug, Default)]
pub(crate) struct Queries(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    queries: HashMap<String, String>,
    oldest_first: VecDeque<String>,
}

impl Queries {
    /// Stores the query of a URL that [`table_url`] made.
    pub(crate) fn note(&self, url: &Url) {
        let Some(query) = url.query() else { return };
        let key = key(url.authority(), url.path());
        let mut known = lock(&self.0);
        if known.queries.insert(key.clone(), query.to_owned()).is_none() {
            known.oldest_first.push_back(key);
        }
        if known.oldest_first.len() > QUERIES_MAX
            && let Some(oldest) = known.oldest_first.pop_front()
        {
            known.queries.remove(&oldest);
        }
    }

    fn query(&self, authority: &str, path: &str) -> Option<String> {
        lock(&self.0).queries.get(&key(authority, path)).cloned()
    }
}

fn key(authority: &str, path: &str) -> String {
    format!("{authority}{path}")
}

/// A connector whose clients send queries.
#[derive(Debug)]
pub(crate) struct QueryConnector {
    pub(crate) queries: Arc<Queries>,
}

impl HttpConnector for QueryConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(QueryService { inner, queries: Arc::clone(&self.queries) }))
    }
}

#[derive(Debug)]
struct QueryService {
    inner: HttpClient,
    queries: Arc<Queries>,
}

#[async_trait]
impl HttpService for QueryService {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let uri = request.uri();
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let Some(query) = self.queries.query(authority, uri.path()) else {
            return self.inner.execute(request).await;
        };
        // The mark is escaped in a path.
        let path = uri.path().rsplit_once("%3F").map_or(uri.path(), |(path, _)| path);
        let url = format!("{}://{authority}{path}?{query}", uri.scheme_str().unwrap_or("https"));
        *request.uri_mut() = url.parse().map_err(|error| HttpError::new(HttpErrorKind::Request, error))?;
        if request.method().as_str() != "HEAD" {
            return self.inner.execute(request).await;
        }
        *request.method_mut() =
            "GET".parse().map_err(|error| HttpError::new(HttpErrorKind::Request, error))?;
        request.headers_mut().insert("range", HeaderValue::from_static("bytes=0-0"));
        self.inner.execute(request).await.map(as_head)
    }
}

/// Converts the answer to a read of the first byte to the answer of a HEAD request.
fn as_head(response: HttpResponse) -> HttpResponse {
    let (mut parts, body) = response.into_parts();
    if parts.status.as_u16() != 206 {
        // A whole object, or an error, whose text is kept.
        let body = if parts.status.is_success() { HttpResponseBody::from(Bytes::new()) } else { body };
        return HttpResponse::from_parts(parts, body);
    }
    let range = parts.headers.get("content-range").and_then(|range| range.to_str().ok());
    let size = range.and_then(|range| range.rsplit_once('/')).and_then(|(_, size)| size.parse::<u64>().ok());
    if let Some(size) = size {
        parts.headers.insert("content-length", HeaderValue::from(size));
        parts.headers.remove("content-range");
    }
    if let Ok(ok) = 200_u16.try_into() {
        parts.status = ok;
    }
    HttpResponse::from_parts(parts, HttpResponseBody::from(Bytes::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str) -> ListingTableUrl {
        table_url(&Url::parse(text).expect(text)).expect(text)
    }

    #[test]
    fn files_that_differ_in_their_query_have_different_paths() {
        let (one, other) =
            (marked("http://h:1/a/b%20c.parquet?id=1"), marked("http://h:1/a/b%20c.parquet?id=2"));
        assert_ne!(one.prefix(), other.prefix());
        assert_eq!(one.prefix(), marked("http://h:1/a/b%20c.parquet?id=1").prefix());
        assert!(one.prefix().as_ref().starts_with("a/b c.parquet?"), "{}", one.prefix());
        assert!(!one.prefix().as_ref().contains("id=1"));
        assert_eq!(one.object_store().as_str(), "http://h:1/");
    }

    #[test]
    fn the_query_is_found_by_the_path_that_a_store_asks_for() {
        let queries = Queries::default();
        let url = marked("http://h:1/a/b%20c.parquet?sig=%2Bx&y");
        queries.note(url.get_url());
        assert_eq!(queries.query("h:1", url.get_url().path()).as_deref(), Some("sig=%2Bx&y"));
        assert_eq!(queries.query("h:1", "/a/b%20c.parquet"), None);
        assert_eq!(queries.query("h:2", url.get_url().path()), None);
    }
}
