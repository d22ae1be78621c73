//! Decides whether the answer of a store is the version that was opened.
//!
//! A version is known by its size, and by *marks*: an ETag, or the time of the last change where either side
//! has no ETag. Marks are unreliable in many stores. An answer to HEAD has a weak tag where GET has a strong
//! one. A proxy adds `-gzip`. The time is that of the answer. Tags differ from server to server or from
//! answer to answer. The evidence is:
//!
//! - Another size, or another version id, is a replacement.
//! - Tags are compared without weakness, quotes and the suffixes of encodings; times in whole seconds.
//! - Another mark is a replacement if the store repeats it when it is asked again. It is asked more often if
//!   tags and times disagree. If a later answer has the known mark, that answer is taken. If the answers have
//!   several other marks, and two answers with different marks have the same bytes, this kind of mark proves
//!   nothing in this store, and is ignored from then on.
//!
//! This module makes no requests; [`super::object`] does.

use std::sync::atomic::{AtomicBool, Ordering};

use object_store::ObjectMeta;
use tokio::sync::{Mutex, MutexGuard};

/// Facts that were learned of a store. They hold as long as the engine knows files of the store.
#[derive(Debug, Default)]
pub struct Quirks {
    refuses_conditions: AtomicBool,
    tags_change: AtomicBool,
    times_change: AtomicBool,
    /// Whether a read has asked the store about a doubtful mark, to the end.
    has_settled: AtomicBool,
    settling: Mutex<()>,
}

/// A kind of mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Tag,
    Time,
}

/// The comparison of an answer's version with the known one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Same,
    Replaced(String),
    /// A mark differs, which may be an oddity of the store.
    Doubtful(Mark, String),
}

impl Quirks {
    /// Returns whether the store takes conditions, as far as is known.
    pub(super) fn takes_conditions(&self) -> bool {
        !self.refuses_conditions.load(Ordering::Relaxed) && !self.tags_change.load(Ordering::Relaxed)
    }

    /// Notes that the store has refused a condition that was met.
    pub(super) fn learn_refuses_conditions(&self) {
        self.refuses_conditions.store(true, Ordering::Relaxed);
    }

    /// Notes that the store has given different marks for the same version.
    pub(super) fn learn_changes(&self, mark: Mark) {
        match mark {
            Mark::Tag => self.tags_change.store(true, Ordering::Relaxed),
            Mark::Time => self.times_change.store(true, Ordering::Relaxed),
        }
    }

    /// Waits while another read is the first to ask the store about a doubtful mark: what it learns may settle this one, too.
    pub(super) async fn first_to_ask(&self) -> Option<MutexGuard<'_, ()>> {
        if self.has_settled.load(Ordering::Relaxed) {
            return None;
        }
        let turn = self.settling.lock().await;
        (!self.has_settled.load(Ordering::Relaxed)).then_some(turn)
    }

    /// A read has asked to the end.
    pub(super) fn settled(&self) {
        self.has_settled.store(true, Ordering::Relaxed);
    }

    /// Returns whether both have the same time, as far as times of this store prove anything.
    pub(super) fn same_time(&self, a: &ObjectMeta, b: &ObjectMeta) -> bool {
        let (a, b) = (mark_of(Mark::Time, a), mark_of(Mark::Time, b));
        !self.times_change.load(Ordering::Relaxed) && a.is_some() && a == b
    }

    /// Returns whether an answer is the version that was opened, beyond doubt.
    pub fn is_same(&self, found: &ObjectMeta, opened: &ObjectMeta) -> bool {
        self.compare(found, opened) == Verdict::Same
    }

    /// Compares an answer with the version that was opened.
    pub(super) fn compare(&self, found: &ObjectMeta, opened: &ObjectMeta) -> Verdict {
        if found.size != opened.size {
            return Verdict::Replaced(format!("{} bytes, was {}", found.size, opened.size));
        }
        if let (Some(now), Some(then)) = (&found.version, &opened.version)
            && now != then
        {
            return Verdict::Replaced(format!("version {now}, was {then}"));
        }
        if !self.tags_change.load(Ordering::Relaxed)
            && let (Some(now), Some(then)) = (&found.e_tag, &opened.e_tag)
        {
            return match same_etag(now, then) {
                true => Verdict::Same,
                false => Verdict::Doubtful(Mark::Tag, format!("ETag {now}, was {then}")),
            };
        }
        let told = |meta: &ObjectMeta| mark_of(Mark::Time, meta);
        match (told(found), told(opened)) {
            (Some(now), Some(then)) if now != then && !self.times_change.load(Ordering::Relaxed) => {
                Verdict::Doubtful(Mark::Time, "modified since it was opened".into())
            }
            _ => Verdict::Same,
        }
    }
}

/// A mark in the form that is compared; `None` if the answer has none. Clients give the beginning of time for
/// a missing time.
pub(super) fn mark_of(mark: Mark, meta: &ObjectMeta) -> Option<String> {
    match mark {
        Mark::Tag => meta.e_tag.as_deref().map(|tag| core_of(tag).to_owned()),
        Mark::Time => {
            let modified = meta.last_modified;
            // HTTP dates have whole seconds.
            (modified.timestamp_micros() != 0).then(|| modified.timestamp().to_string())
        }
    }
}

/// Returns whether two ETags are the same except for their spelling.
pub(crate) fn same_etag(a: &str, b: &str) -> bool {
    a == b || core_of(a) == core_of(b)
}

/// Suffixes that servers add to the tag of an encoded answer.
const ENCODINGS: [&str; 6] = ["gzip", "br", "zstd", "deflate", "df", "x-gzip"];

/// A tag without weakness, quotes and encoding. Listings of some stores leave out the quotes that answers
/// have.
fn core_of(tag: &str) -> &str {
    let tag = tag.trim();
    let tag = tag.strip_prefix("W/").or_else(|| tag.strip_prefix("w/")).unwrap_or(tag).trim_matches('"');
    let encoded = ENCODINGS.iter().find_map(|encoding| {
        let rest = tag.strip_suffix(encoding)?;
        let plain = rest.trim_end_matches(['-', ';', '+', ':', '.']);
        (plain.len() < rest.len() && !plain.is_empty()).then_some(plain)
    });
    // A quote may stand before the suffix.
    encoded.unwrap_or(tag).trim_matches('"')
}

/// Returns whether a condition may use this tag: conditions take only strong, quoted tags (RFC 9110).
pub(super) fn is_strong(tag: &str) -> bool {
    tag.len() > 1 && tag.starts_with('"') && tag.ends_with('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_without_weakness_quotes_and_encodings() {
        for (a, b) in [
            ("\"x\"", "x"),
            ("W/\"x\"", "\"x\""),
            ("w/\"x\"", "\"x\""),
            ("\"x-gzip\"", "\"x\""),
            ("\"x\"-gzip", "\"x\""),
            ("W/\"x--gzip\"", "\"x\""),
            ("\"x;br\"", "W/\"x\""),
        ] {
            assert!(same_etag(a, b), "{a} {b}");
        }
        for (a, b) in
            [("\"x\"", "\"y\""), ("\"gzip\"", "\"br\""), ("\"-gzip\"", "\"\""), ("\"abr\"", "\"a\"")]
        {
            assert!(!same_etag(a, b), "{a} {b}");
        }
    }

    #[test]
    fn what_is_not_told_is_not_held_against_a_version() {
        let told = ObjectMeta {
            location: "a".into(),
            last_modified: (std::time::UNIX_EPOCH + std::time::Duration::from_secs(9000)).into(),
            size: 7,
            e_tag: Some("\"1\"".into()),
            version: None,
        };
        let no_tag = ObjectMeta { e_tag: None, ..told.clone() };
        let nothing = ObjectMeta { last_modified: Default::default(), ..no_tag.clone() };
        let quirks = Quirks::default();
        for (a, b) in [(&told, &no_tag), (&no_tag, &told), (&told, &nothing), (&nothing, &nothing)] {
            assert_eq!(quirks.compare(a, b), Verdict::Same);
        }
        let other = ObjectMeta { e_tag: Some("\"2\"".into()), ..told.clone() };
        assert!(matches!(quirks.compare(&other, &told), Verdict::Doubtful(Mark::Tag, _)));
        let longer = ObjectMeta { size: 8, ..nothing.clone() };
        assert!(matches!(quirks.compare(&longer, &nothing), Verdict::Replaced(_)));
        quirks.learn_changes(Mark::Tag);
        assert_eq!(quirks.compare(&other, &told), Verdict::Same);
        let later =
            ObjectMeta { last_modified: told.last_modified + std::time::Duration::from_secs(9), ..other };
        assert!(matches!(quirks.compare(&later, &told), Verdict::Doubtful(Mark::Time, _)));
    }
}
