//! A fragment: the part of a table that is restored as a whole. Here a fragment is a file.
//!
//! An archive restores objects and a tape library recalls files, so a smaller unit cannot be requested. The engine
//! handles row groups after the file is there.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, SubsecRound, Utc};
use object_store::ObjectMeta;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

/// A version of a file in a tier.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fragment {
    /// The location of the file in its store.
    pub location: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its modification time.
    pub modified: DateTime<Utc>,
    /// Its ETag, if the store's ETags survive a restore.
    pub tag: Option<String>,
}

impl Fragment {
    /// The version that a directory entry states. A file system's ETag contains the inode, which a recall may
    /// change: `tags` says whether the ETag counts.
    pub fn of(meta: &ObjectMeta, tags: bool) -> Self {
        // A store with ETags may state fractions of a second in one answer and omit them in the next.
        let modified = if tags { meta.last_modified.trunc_subsecs(0) } else { meta.last_modified };
        let tag = if tags { meta.e_tag.clone() } else { None };
        Fragment { location: meta.location.to_string(), bytes: meta.size, modified, tag }
    }

    /// Returns true if a directory entry states this version. Some listings have no ETags.
    pub fn is(&self, meta: &ObjectMeta, tags: bool) -> bool {
        let other = Fragment::of(meta, tags);
        let same_tag = self.tag.is_none() || other.tag.is_none() || self.tag == other.tag;
        same_tag && (self.bytes, self.modified) == (other.bytes, other.modified)
    }

    /// The path of the file in its store.
    pub fn path(&self) -> Path {
        // `Path::from` alone would escape the text a second time.
        Path::parse(&self.location).unwrap_or_else(|_| Path::from(self.location.as_str()))
    }

    /// The name of its files in the cache.
    pub fn key(&self) -> Key {
        let tag = self.tag.as_deref().unwrap_or_default();
        let text = format!("{}\0{}\0{}\0{tag}", self.location, self.bytes, self.modified.timestamp_micros());
        // FNV-1a. The record beside the file has the full name and is compared, so a collision is a miss.
        let hash = text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
        });
        Key(hash)
    }

    /// Text that distinguishes this version from others, for messages.
    pub fn version(&self) -> String {
        let tag = self.tag.as_deref().map(|tag| format!(", {tag}")).unwrap_or_default();
        format!("{} bytes of {}{tag}", self.bytes, self.modified.to_rfc3339())
    }
}

impl fmt::Display for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.location)
    }
}

/// The name of a fragment's files in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u128);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Key {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Key)
    }
}

#[cfg(test)]
pub(crate) fn sample(location: &str, bytes: u64) -> Fragment {
    Fragment { location: location.to_owned(), bytes, modified: DateTime::UNIX_EPOCH, tag: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_version_counts() {
        let one = sample("a/b.parquet", 10);
        let mut others = vec![sample("a/c.parquet", 10), sample("a/b.parquet", 11)];
        others.push(Fragment { modified: one.modified + chrono::TimeDelta::seconds(1), ..one.clone() });
        others.push(Fragment { tag: Some("x".to_owned()), ..one.clone() });
        assert!(others.iter().all(|other| other.key() != one.key()));
        assert_eq!(one.key().to_string().parse(), Ok(one.key()));
    }
}
