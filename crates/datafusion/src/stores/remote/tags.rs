//! ETags of listings and of answers.
//!
//! Some stores send another ETag in a listing, or in the answer to HEAD, than with the object itself. So the
//! first answer with a body after a listing defines the object's tag for that listing. That answer contains
//! the footer, and all later reads must be of its version. Readers get the tag of the listing.
//!
//! Reads of the engine define no tags, because the engine compares them.

use std::collections::HashMap;
use std::sync::Mutex;

use object_store::ObjectMeta;
use object_store::path::Path;

use crate::lock::lock;

/// Limit of the known objects. Beyond it they are forgotten.
const OBJECTS_MAX: usize = 1 << 17;

/// The known objects of a store.
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
    /// Records a listing, or an answer to HEAD.
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

    /// Records an answer with a body. If it is the `first`, it defines the object's tag for the listing. Then
    /// replaces that tag by the listing's.
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

    /// Returns the condition of a request for the version that was listed with this tag. Returns `None` if
    /// the object's tag is weak, because weak tags never match.
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
