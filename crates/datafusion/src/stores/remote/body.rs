//! Continuation of broken bodies at the break.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coscan_engine::{Object, Quirks, ReadError};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::{Error, GetResult, GetResultPayload, ObjectMeta, ObjectStore, Result};

use super::pause;

/// Limit of the bytes per request after a break. If the store's versions are unreliable, such bytes are
/// compared in memory.
const PIECE_BYTES_MAX: u64 = 16 << 20;

/// A body that is being read.
struct Body {
    store: Arc<dyn ObjectStore>,
    quirks: Arc<Quirks>,
    /// The description of the object in the first answer.
    meta: ObjectMeta,
    /// The remaining bytes.
    rest: Range<u64>,
    stream: BoxStream<'static, Result<Bytes>>,
    /// The end of the stream.
    end: u64,
    failures: u32,
}

/// Returns the answer with a body that continues after a broken connection, while the object is the same. The
/// body has exactly the announced number of bytes: more are cut off, and fewer are an error.
pub(super) fn continued(store: Arc<dyn ObjectStore>, quirks: Arc<Quirks>, answer: GetResult) -> GetResult {
    let GetResult { payload, meta, range, attributes } = answer;
    let stream = match payload {
        GetResultPayload::Stream(stream) => stream,
        payload @ GetResultPayload::File(..) => return GetResult { payload, meta, range, attributes },
    };
    let (end, rest) = (range.end, range.clone());
    let body = Body { store, quirks, meta: meta.clone(), rest, stream, end, failures: 0 };
    let stream =
        futures::stream::try_unfold(body, async |mut body| Ok(body.next().await?.map(|bytes| (bytes, body))));
    GetResult { payload: GetResultPayload::Stream(stream.boxed()), meta, range, attributes }
}

impl Body {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        while !self.rest.is_empty() {
            if self.rest.start == self.end {
                self.go_on().await?;
            }
            let error = match self.stream.try_next().await {
                Ok(Some(mut bytes)) => {
                    let left = self.end - self.rest.start;
                    bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                    self.rest.start += bytes.len() as u64;
                    return Ok(Some(bytes));
                }
                Ok(None) => self.ended_early(),
                Err(error) => error,
            };
            self.failed(error, None).await?;
            self.go_on().await?;
        }
        Ok(None)
    }

    /// Requests the remaining bytes.
    async fn go_on(&mut self) -> Result<()> {
        self.end = self.rest.end.min(self.rest.start + PIECE_BYTES_MAX);
        let piece = self.rest.start..self.end;
        loop {
            let object = Object { store: &*self.store, meta: &self.meta, quirks: &self.quirks };
            let error = match object.answer(&piece, tokio::time::sleep).await {
                Ok(answer) => {
                    self.stream = answer.into_stream();
                    return Ok(());
                }
                Err(error) => error,
            };
            if !error.is_transient() {
                return Err(self.shown(error));
            }
            let asked = error.retry_after();
            let error = self.shown(error);
            self.failed(error, asked).await?;
        }
    }

    /// Waits after a failure for as long as the store asks. Returns the error after too many failures, or if
    /// the wait would be too long.
    async fn failed(&mut self, error: Error, asked: Option<Duration>) -> Result<()> {
        self.failures += 1;
        let pause = pause::after(self.failures).max(asked.unwrap_or_default());
        if self.failures >= pause::ATTEMPTS || pause > pause::PATIENCE {
            return Err(error);
        }
        tracing::debug!(location = %self.meta.location, %error, "the answer breaks off, going on from there");
        tokio::time::sleep(pause).await;
        Ok(())
    }

    fn shown(&self, error: ReadError) -> Error {
        match error {
            ReadError::Store(error)
            | ReadError::Unusable(error)
            | ReadError::Refused { source: error, .. } => error,
            replaced @ ReadError::Replaced(_) => {
                Error::Precondition { path: self.meta.location.to_string(), source: Box::new(replaced) }
            }
            other => Error::Generic { store: "remote", source: Box::new(other) },
        }
    }

    fn ended_early(&self) -> Error {
        let Range { start, end } = self.rest;
        let location = &self.meta.location;
        let source =
            format!("the answer ends too early: bytes {start}..{end} of {location} are missing").into();
        Error::Generic { store: "remote", source }
    }
}
