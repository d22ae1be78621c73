//! Everything that is not a local file: one conditional range request through `object_store`.
//!
//! Runs on a small runtime of its own that starts with the first request: the caller's runtime may be busy computing,
//! or missing.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use futures::StreamExt;
use object_store::{GetOptions, GetResult, ObjectMeta};
use tokio::runtime::{Builder, Runtime};

use super::{ReadError, Source, same_etag};
use crate::environment::Cancel;

#[derive(Default)]
pub(super) struct ObjectReader {
    runtime: OnceLock<Runtime>,
}

impl ObjectReader {
    fn runtime(&self) -> Result<&Runtime, ReadError> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime);
        }
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("coscan-store").enable_all().build()?;
        // Another thread may have been faster. Dropping a runtime here must not block.
        if let Err(second) = self.runtime.set(runtime) {
            second.shutdown_background();
        }
        self.runtime.get().ok_or(ReadError::Cancelled)
    }

    pub(super) fn read(
        &self,
        source: &Source,
        parts: &[Range<u64>],
        cancel: &Cancel,
        arrived: &mut dyn FnMut(usize, Bytes),
    ) -> Result<(), ReadError> {
        self.runtime()?.block_on(async {
            tokio::select! {
                outcome = request(source, parts, arrived) => outcome,
                () = cancel.cancelled() => Err(ReadError::Cancelled),
            }
        })
    }
}

impl Drop for ObjectReader {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Reads parts of an object, if it is still the version that was opened: one request for all of them, each reported
/// when it is complete.
///
/// # Errors
/// See [`ReadError`]; parts that were reported are valid nevertheless.
pub async fn request(
    source: &Source,
    parts: &[Range<u64>],
    arrived: &mut dyn FnMut(usize, Bytes),
) -> Result<(), ReadError> {
    let range = parts[0].start..parts[parts.len() - 1].end;
    // Conditions take strong, quoted ETags only (RFC 9110); others are compared with the response's,
    // which is just as safe and costs a request that is cut short.
    let etag =
        source.meta.e_tag.clone().filter(|tag| tag.len() > 1 && tag.starts_with('"') && tag.ends_with('"'));
    let mut options = GetOptions::new().with_range(Some(range.clone())).with_if_match(etag);
    options.version = source.meta.version.clone();
    let result = match source.store.get_opts(&source.meta.location, options).await {
        Err(object_store::Error::Precondition { source, .. }) => {
            return Err(ReadError::Replaced(source.to_string()));
        }
        other => other?,
    };
    check_version(&result.meta, &source.meta)?;
    if result.range.start != range.start {
        return Err(ReadError::Short { wanted: range.end - range.start, got: 0 });
    }
    scatter(result, parts, arrived).await
}

fn check_version(found: &ObjectMeta, opened: &ObjectMeta) -> Result<(), ReadError> {
    if found.size != opened.size {
        return Err(ReadError::Replaced(format!("{} bytes, was {}", found.size, opened.size)));
    }
    match (&found.e_tag, &opened.e_tag) {
        (Some(now), Some(then)) if !same_etag(now, then) => {
            Err(ReadError::Replaced(format!("ETag {now}, was {then}")))
        }
        (Some(_), Some(_)) => Ok(()),
        // HTTP dates have whole seconds.
        _ if found.last_modified.timestamp() != opened.last_modified.timestamp() => {
            Err(ReadError::Replaced("modified since it was opened".into()))
        }
        _ => Ok(()),
    }
}

/// Distributes the stream over the parts as it arrives.
async fn scatter(
    result: GetResult,
    parts: &[Range<u64>],
    arrived: &mut dyn FnMut(usize, Bytes),
) -> Result<(), ReadError> {
    let (start, wanted) = (parts[0].start, parts[parts.len() - 1].end - parts[0].start);
    let mut at = start;
    let mut current = 0;
    let mut filling = Vec::with_capacity((parts[0].end - start) as usize);
    let mut stream = result.into_stream();
    while current < parts.len() {
        let Some(bytes) = stream.next().await.transpose()? else {
            return Err(ReadError::Short { wanted, got: at - start });
        };
        let end = at + bytes.len() as u64;
        while current < parts.len() {
            let part = &parts[current];
            let from = at.max(part.start + filling.len() as u64);
            let to = end.min(part.end);
            if from < to {
                filling.extend_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
            }
            if (filling.len() as u64) < part.end - part.start {
                break;
            }
            arrived(current, Bytes::from(std::mem::take(&mut filling)));
            current += 1;
            if let Some(next) = parts.get(current) {
                filling = Vec::with_capacity((next.end - next.start) as usize);
            }
        }
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use coscan_core::StoreNo;
    use object_store::memory::InMemory;
    use object_store::{ObjectStore, ObjectStoreExt, path::Path};

    #[tokio::test]
    async fn a_stream_is_cut_into_its_parts_and_replacement_is_noticed() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let location = Path::from("data");
        store.put(&location, vec![7u8; 50].into()).await.unwrap();
        let data: Vec<u8> = (0..100).collect();
        store.put(&location, data.clone().into()).await.unwrap();
        let meta = store.head(&location).await.unwrap();
        let source =
            Source { name: "memory".into(), store: store.clone(), store_no: StoreNo(0), meta, local: None };
        let parts = [3..10, 10..10, 10..40, 60..100];
        let mut got = vec![Bytes::new(); 4];
        request(&source, &parts, &mut |at, bytes| got[at] = bytes).await.unwrap();
        for (bytes, part) in got.iter().zip(&parts) {
            assert_eq!(bytes[..], data[part.start as usize..part.end as usize]);
        }
        store.put(&location, vec![1u8; 100].into()).await.unwrap();
        let outcome = request(&source, &parts, &mut |_, _| ()).await;
        assert!(matches!(outcome, Err(ReadError::Replaced(_))), "{outcome:?}");
    }
}
