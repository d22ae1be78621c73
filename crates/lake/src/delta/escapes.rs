//! Characters above U+FFFF that are escaped as two halves in JSON (`\ud842\udfb7`), as Python writes them.
//!
//! arrow-json 59, with which the kernel reads logs, adds the halves wrongly: characters above U+1FFFF become others. [`Unescaped`]
//! is a store whose JSON files have the characters themselves.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use futures::StreamExt;
use futures::stream::BoxStream;

/// The length of an escape of two halves.
const PAIR: usize = 12;

/// Returns whether a JSON text may have an escaped half.
pub(super) fn has_halves(json: &[u8]) -> bool {
    let is_half =
        |part: &[u8]| matches!(part, [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B']);
    json.windows(4).any(is_half)
}

/// Returns the JSON text with characters in the place of escapes of two halves.
fn without_pairs(json: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let (before, escape) = rest.split_at(at);
        found.extend_from_slice(before);
        let read = match pair(escape) {
            Some(character) => {
                found.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                PAIR
            }
            None => {
                // The backslash and what it escapes.
                let read = escape.len().min(2);
                found.extend_from_slice(&escape[..read]);
                read
            }
        };
        rest = &escape[read..];
    }
    found.extend_from_slice(rest);
    found
}

/// The character of an escape of two halves.
fn pair(escape: &[u8]) -> Option<char> {
    let half = |text: &[u8]| {
        let digits = text.strip_prefix(b"\\u")?.get(..4)?;
        u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
    };
    let halves = [half(escape)?, half(escape.get(PAIR / 2..)?)?];
    char::decode_utf16(halves).next()?.ok().filter(|character| character.len_utf16() == 2)
}

/// A store whose JSON files have no escapes of two halves.
#[derive(Debug)]
pub(super) struct Unescaped(pub(super) Arc<dyn ObjectStore>);

impl fmt::Display for Unescaped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[async_trait]
impl ObjectStore for Unescaped {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.0.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let is_whole = options.range.is_none() && !options.head;
        let got = self.0.get_opts(path, options).await?;
        if !is_whole || !path.as_ref().ends_with(".json") {
            return Ok(got);
        }
        let (meta, attributes) = (got.meta.clone(), got.attributes.clone());
        let bytes = got.bytes().await?;
        let bytes = if has_halves(&bytes) { Bytes::from(without_pairs(&bytes)) } else { bytes };
        let range = 0..bytes.len() as u64;
        let payload = GetResultPayload::Stream(futures::stream::iter([Ok(bytes)]).boxed());
        Ok(GetResult { payload, meta, range, attributes })
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.get_ranges(path, ranges).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_become_characters() {
        let of = |json: &str| String::from_utf8(without_pairs(json.as_bytes())).expect("a text");
        assert_eq!(of(r#"{"pk":"\ud842\udfb7\uD83D\uDE00"}"#), "{\"pk\":\"\u{20bb7}\u{1f600}\"}");
        // A backslash that is escaped itself, halves alone, and other escapes.
        for same in
            [r#"{"a":"\\ud842\\udfb7"}"#, r#""\udfb7\ud842""#, r#""\ud842x""#, r#""\u00e4\n\\""#, "\\"]
        {
            assert_eq!(of(same), same);
        }
        assert!(has_halves(br"x\uD842") && !has_halves(br"\u0842"));
    }
}
