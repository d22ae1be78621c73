//! Tags of listings and tags of answers.
//!
//! Some stores tell another ETag in a listing, or in the answer to HEAD, than with the object itself. So what the first answer
//! with a body says, after an object was listed, is taken for what the listing says: that answer brings the footer, and all that is
//! read later has to be of its version. Readers are told the tag of the listing.
//!
//! Nothing is concluded from what the engine reads: it compares.

use std::collections::HashMap;
use std::sync::Mutex;

use object_store::ObjectMeta;
use object_store::path::Path;

use crate::lock::lock;

/// With more objects, what is known of them is forgotten.
const OBJECTS_MAX: usize = 1 << 17;

/// What is known of a store's objects.
#[derive(Debug, Default)]
pub(super) struct Tags(Mutex<HashMap<Path, Tag>>);

/// An object's tag.
#[derive(Debug)]
struct Tag {
    /// In the last listing.
    listed: String,
    /// In the first answer with a body since then.
    answered: Option<String>,
}

impl Tags {
    /// A listing, or an answer to HEAD.
    pub(super) fn told(&self, meta: &ObjectMeta) {
        let mut known = lock(&self.0);
        let Some(tag) = &meta.e_tag else {
            known.remove(&meta.location);
            return;
        };
        if known.get(&meta.location).is_some_and(|known| known.listed == *tag) {
            return;
        }
        if known.len() >= OBJECTS_MAX {
            known.clear();
        }
        known.insert(meta.location.clone(), Tag { listed: tag.clone(), answered: None });
    }

    /// An answer with a body; `first`: if it is the first, it says what the listing means. It tells the tag of the listing
    /// afterwards.
    pub(super) fn answered(&self, meta: &mut ObjectMeta, first: bool) {
        let mut known = lock(&self.0);
        let Some((known, tag)) = known.get_mut(&meta.location).zip(meta.e_tag.as_mut()) else { return };
        if first && known.answered.is_none() {
            known.answered = Some(tag.clone());
        }
        if known.answered.as_ref() == Some(tag) {
            tag.clone_from(&known.listed);
        }
    }

    /// The condition with which an object is asked for in the version that was listed with this tag; none if that is not known
    /// to be possible: weak tags are never met.
    pub(super) fn condition(&self, location: &Path, listed: String) -> Option<String> {
        let known = lock(&self.0);
        let known = known.get(location).filter(|known| known.listed == listed);
        match known.and_then(|known| known.answered.clone()) {
            Some(answered) => answered.starts_with('"').then_some(answered),
            None => Some(listed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_says_what_the_listing_means() {
        let meta = |tag: &str| ObjectMeta {
            location: Path::from("a"),
            last_modified: Default::default(),
            size: 1,
            e_tag: Some(tag.to_owned()),
            version: None,
        };
        let tags = Tags::default();
        let answered = |tag: &str, first: bool| {
            let mut answer = meta(tag);
            tags.answered(&mut answer, first);
            answer.e_tag.expect("a tag")
        };
        let condition = |listed: &str| tags.condition(&Path::from("a"), listed.to_owned());
        tags.told(&meta("\"listed\""));
        assert_eq!(answered("\"object\"", false), "\"object\"", "the engine's reads say nothing");
        assert_eq!(condition("\"listed\"").as_deref(), Some("\"listed\""));
        assert_eq!(answered("\"object\"", true), "\"listed\"");
        assert_eq!(condition("\"listed\"").as_deref(), Some("\"object\""));
        assert_eq!(answered("\"object\"", false), "\"listed\"");
        assert_eq!(answered("\"other\"", true), "\"other\"", "a replacement");
        tags.told(&meta("\"listed\""));
        assert_eq!(answered("\"other\"", true), "\"other\"");
        tags.told(&meta("\"listed again\""));
        assert_eq!(answered("W/\"other\"", true), "\"listed again\"");
        assert_eq!(condition("\"listed again\""), None);
    }
}
