//! Reads of everything except local files: one conditional range request through `object_store`, and more
//! requests where a store is odd.
//!
//! They run on a small runtime of their own that starts with the first request: the caller's runtime may be
//! busy computing, or missing.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use object_store::{Attributes, GetOptions, GetResult, GetResultPayload, ObjectMeta, ObjectStore};
use tokio::runtime::{Builder, Runtime};

use super::answer::{Answer, may_refuse_conditions};
use super::same::{self, Mark, Quirks, Verdict, mark_of};
use super::{ReadError, Source};
use crate::io::cancel::Cancel;

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

    #[allow(clippy::disallowed_methods, reason = "this is the real environment")]
    pub(super) fn read(
        &self,
        source: &Source,
        parts: &[Range<u64>],
        cancel: &Cancel,
        arrived: &mut dyn FnMut(usize, Bytes),
    ) -> Result<(), ReadError> {
        self.runtime()?.block_on(async {
            tokio::select! {
                outcome = read(source, parts, arrived, tokio::time::sleep) => outcome,
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

/// The number of further requests after an answer with another mark.
const ASKED_AGAIN: usize = 3;

/// The same number if the tag contradicts the time, which says that the object is the same: several servers
/// with tags of their own may answer in turn.
const ASKED_MORE: usize = 16;

/// The pause between such requests. Times have whole seconds: requests over several pauses show whether a
/// time is that of the answer.
const BETWEEN: Duration = Duration::from_millis(450);

/// The number of tries of a request that is one of several for the same bytes, after pauses of `BETWEEN` and
/// its multiples.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(40);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Reads parts of an object, if it is still the version that was opened. One request reads all of them; each
/// is reported when it is complete. For simulations: no time passes between requests.
///
/// # Errors
/// See [`ReadError`]. Parts that were reported are valid nevertheless.
pub async fn request(
    source: &Source,
    parts: &[Range<u64>],
    arrived: &mut dyn FnMut(usize, Bytes),
) -> Result<(), ReadError> {
    read(source, parts, arrived, |_| std::future::ready(())).await
}

/// As [`request`]; `pause` lets time pass.
async fn read<F: Future<Output = ()>>(
    source: &Source,
    parts: &[Range<u64>],
    arrived: &mut dyn FnMut(usize, Bytes),
    pause: impl Fn(Duration) -> F,
) -> Result<(), ReadError> {
    let range = parts[0].start..parts[parts.len() - 1].end;
    let object = Object { store: &*source.store, meta: &source.meta, quirks: &source.quirks };
    scatter(object.answer(&range, pause).await?, parts, arrived).await
}

/// An object in the version that was opened.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    /// The store that holds it.
    pub store: &'a dyn ObjectStore,
    /// The version that was opened.
    pub meta: &'a ObjectMeta,
    /// Facts that were learned of the store; the same for all its objects.
    pub quirks: &'a Quirks,
}

impl Object<'_> {
    /// Returns an answer for a range, if the object is still the version that was opened. Where the store is
    /// odd about versions, this takes several requests; `pause` lets time pass between them.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn answer<F: Future<Output = ()>>(
        self,
        range: &Range<u64>,
        pause: impl Fn(Duration) -> F,
    ) -> Result<GetResult, ReadError> {
        let first = self.get(range, true).await?;
        let compared = || self.quirks.compare(&first.meta, self.meta);
        let _turn = match compared() {
            Verdict::Doubtful(..) => self.quirks.first_to_ask().await,
            _ => None,
        };
        match compared() {
            Verdict::Same => Ok(first),
            Verdict::Replaced(detail) => Err(ReadError::Replaced(detail)),
            Verdict::Doubtful(mark, detail) => {
                let answer = Doubts { object: self, range, pause }.settle(first.meta, (mark, detail)).await?;
                self.quirks.settled();
                Ok(answer)
            }
        }
    }

    /// An answer for a range, of whatever version. With `condition`, the request demands the version that was
    /// opened, which avoids transferring bytes of another version. A store that refuses conditions gets none.
    async fn get(self, range: &Range<u64>, condition: bool) -> Result<GetResult, ReadError> {
        let condition = condition && self.quirks.takes_conditions();
        let tag = self.meta.e_tag.clone().filter(|tag| condition && same::is_strong(tag));
        let conditional = tag.is_some();
        match self.get_if(range, tag).await {
            Err(ReadError::Refused { status, .. }) if conditional && may_refuse_conditions(status) => {}
            Err(ReadError::Store(object_store::Error::NotImplemented { .. })) if conditional => {}
            other => return other,
        }
        let answer = self.get_if(range, None).await?;
        if self.quirks.compare(&answer.meta, self.meta) == Verdict::Same {
            tracing::info!(object = %self.meta.location, "the store refuses conditions that are met: it is asked without");
            self.quirks.learn_refuses_conditions();
        }
        Ok(answer)
    }

    async fn get_if(self, range: &Range<u64>, if_match: Option<String>) -> Result<GetResult, ReadError> {
        let answer = Answer::default();
        let mut options = GetOptions::new().with_range(Some(range.clone())).with_if_match(if_match);
        options.version = self.meta.version.clone();
        options.extensions.insert(answer.clone());
        let result = self.store.get_opts(&self.meta.location, options).await;
        let result = result.map_err(|error| answer.error(error))?;
        if result.range.start != range.start {
            // The range may lie behind the end of a shorter version.
            return Err(match self.quirks.compare(&result.meta, self.meta) {
                Verdict::Replaced(detail) => ReadError::Replaced(detail),
                _ => ReadError::Short { wanted: range.end - range.start, got: 0 },
            });
        }
        Ok(result)
    }
}

/// The requests after an answer whose mark is not that of the version that was opened; see [`super::same`].
struct Doubts<'a, P> {
    object: Object<'a>,
    range: &'a Range<u64>,
    pause: P,
}

impl<F: Future<Output = ()>, P: Fn(Duration) -> F> Doubts<'_, P> {
    /// An answer of the version that was opened, as far as this store tells versions apart.
    async fn settle(
        &self,
        first: ObjectMeta,
        (mut mark, mut detail): (Mark, String),
    ) -> Result<GetResult, ReadError> {
        let Object { meta: opened, quirks, .. } = self.object;
        let mut seen = vec![first];
        loop {
            let same_time = mark == Mark::Tag && quirks.same_time(&seen[0], opened);
            for _ in 0..if same_time { ASKED_MORE } else { ASKED_AGAIN } {
                if mark == Mark::Time {
                    (self.pause)(BETWEEN).await;
                }
                let answer = self.ask().await?;
                match quirks.compare(&answer.meta, opened) {
                    Verdict::Same => return Ok(answer),
                    Verdict::Replaced(detail) => return Err(ReadError::Replaced(detail)),
                    Verdict::Doubtful(..) => seen.push(answer.meta),
                }
            }
            let kept = mark_of(mark, &seen[0]);
            if seen.iter().all(|meta| mark_of(mark, meta) == kept) {
                return Err(ReadError::Replaced(detail));
            }
            let (one, bytes_of_one) = self.whole().await?;
            let (two, bytes) = self.whole_of_another(mark, &one.meta).await?;
            let GetResult { meta, range, attributes, .. } = two;
            if mark_of(mark, &one.meta) == mark_of(mark, &meta) || bytes_of_one != bytes {
                return Err(ReadError::Replaced(detail));
            }
            tracing::info!(object = %opened.location, ?mark, "the store gives other marks for the same bytes: they prove nothing");
            quirks.learn_changes(mark);
            match quirks.compare(&meta, opened) {
                Verdict::Same => {
                    let payload = GetResultPayload::Stream(futures::stream::iter([Ok(bytes)]).boxed());
                    return Ok(GetResult { payload, meta, range, attributes });
                }
                Verdict::Replaced(detail) => return Err(ReadError::Replaced(detail)),
                // Without tags, the time decides. Answers from before a replacement have the known time.
                Verdict::Doubtful(other, why) => {
                    (mark, detail) = (other, why);
                    seen.retain(|meta| quirks.compare(meta, opened) != Verdict::Same);
                    seen.push(meta);
                }
            }
        }
    }

    /// An answer for the range. Repeats failed requests, because a failure here would restart the whole
    /// procedure.
    async fn ask(&self) -> Result<GetResult, ReadError> {
        let mut tries = 1;
        loop {
            match self.object.get(self.range, false).await {
                Err(error) if error.is_transient() && tries < TRIES => {
                    let asked = error.retry_after().unwrap_or_default().min(LONGEST_PAUSE);
                    (self.pause)(asked.max(PAUSE * tries)).await;
                    tries += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// An answer with all its bytes, whose mark is not that of `other`, if the store gives another one soon.
    async fn whole_of_another(
        &self,
        mark: Mark,
        other: &ObjectMeta,
    ) -> Result<(GetResult, Bytes), ReadError> {
        let mut asked = 0;
        loop {
            if mark == Mark::Time {
                (self.pause)(BETWEEN).await;
            }
            let answer = self.whole().await?;
            asked += 1;
            if asked > ASKED_AGAIN || mark_of(mark, &answer.0.meta) != mark_of(mark, other) {
                return Ok(answer);
            }
        }
    }

    /// An answer, and all its bytes.
    async fn whole(&self) -> Result<(GetResult, Bytes), ReadError> {
        let wanted = self.range.end - self.range.start;
        let mut tries = 1;
        loop {
            let GetResult { payload, meta, range, attributes } = self.ask().await?;
            let nothing = GetResultPayload::Stream(futures::stream::empty().boxed());
            let rest = GetResult {
                payload: nothing,
                meta: meta.clone(),
                range: range.clone(),
                attributes: Attributes::default(),
            };
            let bytes = GetResult { payload, meta, range, attributes }.bytes().await;
            let error = match bytes {
                Ok(bytes) if bytes.len() as u64 == wanted => return Ok((rest, bytes)),
                Ok(bytes) => ReadError::Short { wanted, got: bytes.len() as u64 },
                Err(error) => error.into(),
            };
            if tries >= TRIES {
                return Err(error);
            }
            (self.pause)(PAUSE * tries).await;
            tries += 1;
        }
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
        let source = Source {
            name: "memory".into(),
            store: store.clone(),
            store_no: StoreNo(0),
            meta,
            local: None,
            quirks: Arc::default(),
        };
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
