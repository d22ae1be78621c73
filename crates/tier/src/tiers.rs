//! The tiers of a process, and the addresses of their files.
//!
//! The files of a tier have addresses of their own: `tier+NAME` before the scheme's own path. So each scan shows the
//! tier that it reads.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use datafusion::execution::object_store::ObjectStoreUrl;
use url::Url;

use crate::config::{Kind, TierConfig};
use crate::error::TierError;
use crate::store::TierStore;
use crate::tier::Tier;

/// The prefix of a tier's addresses.
const SCHEME: &str = "tier+";

/// The tiers that a process has opened. Cloning is cheap.
#[derive(Clone)]
pub struct Tiers(pub(crate) Arc<BTreeMap<String, Arc<TierStore>>>);

impl fmt::Debug for Tiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Tiers {
    /// Opens tiers; see [`Tier::open`].
    ///
    /// # Errors
    ///
    /// If one cannot be opened, or two have one name.
    pub fn open(configs: impl IntoIterator<Item = TierConfig>) -> Result<Self, TierError> {
        Tiers::of_open(configs.into_iter().map(Tier::open).collect::<Result<Vec<_>, _>>()?)
    }

    /// Opens tiers read-only, also while another process has them; see [`Tier::look`].
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn look(configs: impl IntoIterator<Item = TierConfig>) -> Result<Self, TierError> {
        Tiers::of_open(configs.into_iter().map(Tier::look).collect::<Result<Vec<_>, _>>()?)
    }

    /// Opens tiers. A tier whose cache belongs to another process is opened read-only.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_or_look(configs: impl IntoIterator<Item = TierConfig>) -> Result<Self, TierError> {
        let open = |config: TierConfig| match Tier::open(config.clone()) {
            Err(TierError::CacheInUse { .. }) => Tier::look(config),
            opened => opened,
        };
        Tiers::of_open(configs.into_iter().map(open).collect::<Result<Vec<_>, _>>()?)
    }

    /// The set of these open tiers.
    ///
    /// # Errors
    ///
    /// If two have one name.
    pub fn of_open(opened: impl IntoIterator<Item = Tier>) -> Result<Self, TierError> {
        let mut tiers = BTreeMap::new();
        for tier in opened {
            let name = tier.config().name.clone();
            if tiers.contains_key(&name) {
                let (setting, problem) = ("'name'".to_owned(), "is that of another tier, too".to_owned());
                return Err(TierError::Config { tier: name, setting, problem });
            }
            tiers.insert(name, Arc::new(TierStore::new(tier)));
        }
        Ok(Tiers(Arc::new(tiers)))
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Tier> {
        self.0.values().map(|store| store.tier())
    }

    /// The tier of that name.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn named(&self, name: &str) -> Result<&Tier, TierError> {
        self.0.get(name).map(|store| store.tier()).ok_or_else(|| TierError::UnknownTier {
            name: name.to_owned(),
            known: self.0.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// The tier that the store's address belongs to.
    pub(crate) fn at(&self, url: &ObjectStoreUrl) -> Option<Tier> {
        let name = url.as_str().strip_prefix(SCHEME)?.split(':').next()?;
        self.0.get(name).map(|store| store.tier().clone())
    }

    /// The tier whose root contains a location.
    pub(crate) fn around(&self, location: &str) -> Option<&Tier> {
        self.all().find(|tier| address(tier.config(), location).is_ok())
    }
}

/// The address, in a session, of a file or folder in a tier.
pub(crate) fn address(config: &TierConfig, location: &str) -> Result<String, TierError> {
    let outside = || TierError::OutsideRoot {
        tier: config.name.clone(),
        location: location.to_owned(),
        root: config.root.to_string(),
    };
    let url = match &config.kind {
        Kind::Archive(_) => Url::parse(location).map_err(|_| outside())?,
        Kind::Folder(_) => {
            let path = location.strip_prefix("file://").unwrap_or(location);
            let path = Path::new(path).canonicalize().map_err(|_| outside())?;
            let url =
                if path.is_dir() { Url::from_directory_path(&path) } else { Url::from_file_path(&path) };
            url.map_err(|()| outside())?
        }
    };
    if !url.as_str().starts_with(config.root.as_str()) && format!("{url}/") != config.root.as_str() {
        return Err(outside());
    }
    let rest = url.as_str().split_once(':').map_or("", |(_, rest)| rest);
    Ok(format!("{SCHEME}{}:{rest}", config.name))
}

/// Replaces the session's addresses of tier files in a text by those of the definitions.
pub fn plain_addresses(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(SCHEME) {
        let (before, address) = rest.split_at(at);
        plain.push_str(before);
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let name = address[SCHEME.len()..].find(|c| !is_name(c)).unwrap_or(address.len() - SCHEME.len());
        let after = &address[SCHEME.len() + name..];
        (rest, plain) = match after.strip_prefix("://") {
            Some(path) if path.starts_with('/') => (path, plain),
            Some(path) => (path, plain + "s3://"),
            None => (after, plain + &address[..SCHEME.len() + name]),
        };
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_as_people_write_them() {
        for (text, plain) in [
            ("no file at tier+tape:///hsm/a, and tier+ice-2://b/c.", "no file at /hsm/a, and s3://b/c."),
            ("nothing of that", "nothing of that"),
            ("a tier+ b, tier+x", "a tier+ b, tier+x"),
        ] {
            assert_eq!(plain_addresses(text), plain);
        }
    }
}
