//! Bodies that break off are continued from where they did.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::{
    Error, GetOptions, GetRange, GetResult, GetResultPayload, ObjectMeta, ObjectStore, Result,
};

use super::pause;
use futures::stream::BoxStream;

/// A body that is being read.
struct Body {
    store: Arc<dyn ObjectStore>,
    options: GetOptions,
    /// As the first answer described the object.
    meta: ObjectMeta,
    /// What is still to come.
    rest: Range<u64>,
    stream: BoxStream<'static, Result<Bytes>>,
    failures: u32,
}

/// The answer, with a body that goes on when the connection breaks, as long as the object is the same. It has no more bytes
/// than the answer says, and fewer are an error.
pub(super) fn continued(store: Arc<dyn ObjectStore>, options: GetOptions, answer: GetResult) -> GetResult {
    let GetResult { payload, meta, range, attributes } = answer;
    let stream = match payload {
        GetResultPayload::Stream(stream) => stream,
        payload @ GetResultPayload::File(..) => return GetResult { payload, meta, range, attributes },
    };
    let body = Body { store, options, meta: meta.clone(), rest: range.clone(), stream, failures: 0 };
    let stream =
        futures::stream::try_unfold(body, async |mut body| Ok(body.next().await?.map(|bytes| (bytes, body))));
    GetResult { payload: GetResultPayload::Stream(stream.boxed()), meta, range, attributes }
}

impl Body {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        while !self.rest.is_empty() {
            let error = match self.stream.try_next().await {
                Ok(Some(mut bytes)) => {
                    let left = self.rest.end - self.rest.start;
                    bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                    self.rest.start += bytes.len() as u64;
                    return Ok(Some(bytes));
                }
                Ok(None) => self.broken("the answer ends too early"),
                Err(error) => error,
            };
            self.failures += 1;
            if self.failures >= pause::ATTEMPTS {
                return Err(error);
            }
            tracing::debug!(location = %self.meta.location, %error, "the answer breaks off, going on from there");
            tokio::time::sleep(pause::after(self.failures)).await;
            let options =
                GetOptions { range: Some(GetRange::Bounded(self.rest.clone())), ..self.options.clone() };
            let answer = self.store.get_opts(&self.meta.location, options).await?;
            if !self.is_same(&answer.meta) || answer.range != self.rest {
                return Err(error);
            }
            self.stream = answer.into_stream();
        }
        Ok(None)
    }

    fn is_same(&self, now: &ObjectMeta) -> bool {
        let same_mark = match (&self.meta.e_tag, &now.e_tag) {
            (None, None) => self.meta.last_modified == now.last_modified,
            (then, now) => then == now,
        };
        same_mark && self.meta.size == now.size
    }

    fn broken(&self, what: &str) -> Error {
        let Range { start, end } = self.rest;
        Error::Generic {
            store: "remote",
            source: format!("{what}: bytes {start}..{end} of {} are missing", self.meta.location).into(),
        }
    }
}
