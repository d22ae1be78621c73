//! HTTP stores as found in practice: a wrapper of the `object_store` stores that copes with their
//! differences.
//!
//! - Requests are repeated by one table ([`service`]). A broken body is continued at the break.
//! - A refused HEAD becomes a GET of one byte.
//! - ETags of answers are reported as those of the listing where the two differ ([`tags`]).
//! - A file that an HTTP server reports as missing is not searched for as a folder. The error of a server
//!   without folders says so.
//!
//! Writes go to `object_store` unchanged.

mod body;
mod gate;
mod pause;
mod service;
mod tags;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use coscan_engine::{Answer, Quirks};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

pub(crate) use service::{Repeating, no_other_retries};

use self::service::Noted;
use self::tags::Tags;
use crate::lock::lock;

/// Limit of the missing objects that are remembered.
const MISSING_MAX: usize = 64;

/// The store; see the module's documentation.
pub(crate) struct RemoteStore {
    /// Reads and lists. Its client is [`Repeating`]; it does not repeat requests itself.
    reads: Arc<dyn ObjectStore>,
    writes: Arc<dyn ObjectStore>,
    /// Whether it lists by PROPFIND, which few servers know.
    is_http: bool,
    refuses_head: AtomicBool,
    tags: Arc<Tags>,
    /// Peculiarities of the store that broken bodies have shown.
    quirks: Arc<Quirks>,
    missing: Mutex<VecDeque<Path>>,
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStore").field("reads", &self.reads).finish_non_exhaustive()
    }
}

impl fmt::Display for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reads.fmt(f)
    }
}

impl RemoteStore {
    pub(crate) fn new(reads: Arc<dyn ObjectStore>, writes: Arc<dyn ObjectStore>, is_http: bool) -> Self {
        RemoteStore {
            reads,
            writes,
            is_http,
            refuses_head: AtomicBool::new(false),
            tags: Arc::default(),
            quirks: Arc::default(),
            missing: Mutex::default(),
        }
    }

    async fn head(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        let noted = Noted::of(&mut options);
        let refused = if self.refuses_head.load(Ordering::Relaxed) {
            None
        } else {
            match self.reads.get_opts(location, options.clone()).await {
                // Some servers send the length of the answer's body, which is zero.
                Ok(found) if found.meta.size == 0 => {
                    let whole = self.head_by_get(location, options).await;
                    return Ok(self.told(whole.unwrap_or(found)));
                }
                Ok(found) => return Ok(self.told(found)),
                Err(error) => match noted.status() {
                    Some(403 | 405 | 501 | 200..300) => Some(error),
                    status => return Err(self.not_found(location, status, error)),
                },
            }
        };
        let found = self.head_by_get(location, options).await;
        match (found, refused) {
            (Ok(found), _) => {
                self.refuses_head.store(true, Ordering::Relaxed);
                Ok(self.told(found))
            }
            (Err((Some(404), error)), _) => Err(self.not_found(location, Some(404), error)),
            // The error of the first request is the relevant one.
            (Err(_), Some(refused)) => Err(refused),
            (Err((status, error)), None) => Err(self.not_found(location, status, error)),
        }
    }

    /// Answers HEAD by a GET of the first byte. Gets the whole object if the server does not support ranges,
    /// or the object is empty.
    async fn head_by_get(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> Result<GetResult, (Option<u16>, Error)> {
        let mut options = GetOptions { head: false, range: Some(GetRange::Bounded(0..1)), ..options };
        let noted = Noted::of(&mut options);
        let mut found = self.reads.get_opts(location, options.clone()).await;
        if matches!(noted.status(), Some(200..300 | 416)) && found.is_err() {
            options.range = None;
            found = self.reads.get_opts(location, options).await;
        }
        let GetResult { meta, attributes, .. } = found.map_err(|error| (noted.status(), error))?;
        let payload = GetResultPayload::Stream(futures::stream::empty().boxed());
        Ok(GetResult { payload, range: 0..meta.size, meta, attributes })
    }

    /// Stores the tag of an object.
    fn told(&self, found: GetResult) -> GetResult {
        self.tags.told(&found.meta);
        found
    }

    /// Returns the error of a missing object, and remembers the object.
    fn not_found(&self, location: &Path, status: Option<u16>, error: Error) -> Error {
        if status == Some(404) {
            let mut missing = lock(&self.missing);
            if missing.len() == MISSING_MAX {
                missing.pop_front();
            }
            missing.push_back(location.clone());
        }
        error
    }

    /// Returns an error in place of a listing below a path that an HTTP server has reported as missing, if
    /// its name looks like a file's.
    fn known_missing(&self, prefix: Option<&Path>) -> Option<Error> {
        let prefix = prefix.filter(|prefix| self.is_http && prefix.extension().is_some())?;
        let is_missing = lock(&self.missing).contains(prefix);
        is_missing.then(|| Error::NotFound {
            path: prefix.to_string(),
            source: "the server says that it is not there (404)".into(),
        })
    }

    fn listed(
        &self,
        listed: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (tags, is_http) = (Arc::clone(&self.tags), self.is_http);
        let each = move |listed: Result<ObjectMeta>| match listed {
            Ok(meta) => {
                tags.told(&meta);
                Ok(meta)
            }
            Err(error) if is_http => Err(without_folders(error)),
            Err(error) => Err(error),
        };
        listed.map(each).boxed()
    }
}

/// Replaces the error of a server that does not list.
fn without_folders(error: Error) -> Error {
    let Error::Generic { source, .. } = &error else { return error };
    let text = source.to_string();
    let refused = ["400", "403", "404", "405", "501"];
    if !text.contains("PROPFIND")
        || !refused.iter().any(|status| text.contains(&format!("status code: {status}")))
    {
        return error;
    }
    let source = format!("the server lists no folders: name each file by its address ({text})").into();
    Error::Generic { store: "HTTP", source }
}

#[async_trait]
impl ObjectStore for RemoteStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.writes.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.writes.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        if options.head {
            return self.head(location, options).await;
        }
        let by_engine = options.extensions.get::<Answer>().is_some();
        options.if_match = options.if_match.and_then(|tag| self.tags.condition(location, tag));
        let result = self.reads.get_opts(location, options).await?;
        let mut result = match by_engine {
            true => result,
            false => body::continued(Arc::clone(&self.reads), Arc::clone(&self.quirks), result),
        };
        self.tags.answered(&mut result.meta, !by_engine);
        Ok(result)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.writes.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.known_missing(prefix) {
            Some(missing) => futures::future::ready(Err(missing)).into_stream().boxed(),
            None => self.listed(self.reads.list(prefix)),
        }
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(self.reads.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        if let Some(missing) = self.known_missing(prefix) {
            return Err(missing);
        }
        let listed = self.reads.list_with_delimiter(prefix).await;
        let listed = listed.map_err(|error| if self.is_http { without_folders(error) } else { error })?;
        listed.objects.iter().for_each(|meta| self.tags.told(meta));
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.writes.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.writes.rename_opts(from, to, options).await
    }
}
