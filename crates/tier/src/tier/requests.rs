//! Requests of other processes to the process that has a tier: restore files and keep their footers, drop copies.
//!
//! A request is a file in the folder `requests` of the cache. Its name is the process that asks and the number of its
//! request, and that process locks it while it waits. The answer is written beside it. A request whose lock is free
//! belongs to a process that has ended, and is cancelled.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use serde::{Deserialize, Serialize};

use super::Tier;
use crate::cache::FragmentCache;
use crate::config::TierConfig;
use crate::disk::write_whole;
use crate::error::TierError;
use crate::fragment::Fragment;
use crate::host::Shared;

/// Interval at which the tier's process checks for requests, and other processes for their answers.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Time limit of an answer that needs no restore.
const SHORT: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    /// Restore these files once and keep their footers.
    Footers(Vec<Fragment>),
    /// Drop the copies of the files with these names, or in the folders with these names.
    Drop(Vec<String>),
    /// Drop the copies and the kept footers of these files.
    Forget(Vec<Fragment>),
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Answer {
    error: Option<String>,
    dropped: Dropped,
}

/// Copies that were dropped from a cache. The names are those of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// The dropped files.
    pub files: Vec<String>,
    /// The files that stay, because queries want them.
    pub wanted: Vec<String>,
}

/// Drops the copies of these files, and of the files below these folders, from a tier's cache. Kept footers stay. If
/// another process has the tier, it drops the copies that no query wants.
///
/// # Errors
///
/// If the cache cannot be used, or the process that has it does not answer.
pub fn drop_copies(config: &TierConfig, locations: &[String]) -> Result<Dropped, TierError> {
    let given = locations.iter().filter(|location| !location.is_empty());
    let names: Vec<String> = given.map(|location| named(config, location)).collect();
    match FragmentCache::open(&config.name, &config.cache) {
        Ok(cache) => {
            let mut dropped = Dropped::default();
            for fragment in cache.fragments().into_iter().filter(|of| is_one_of(config, of, &names)) {
                cache.remove(&fragment);
                dropped.files.push(config.shown(&fragment));
            }
            dropped.files.sort();
            Ok(dropped)
        }
        Err(TierError::CacheInUse { .. }) => have_dropped(config, &Request::Drop(names)),
        Err(error) => Err(error),
    }
}

/// Asks the process that has the tier to drop copies.
fn have_dropped(config: &TierConfig, request: &Request) -> Result<Dropped, TierError> {
    let asked = Asked::new(&config.cache, request)?;
    let began = Instant::now();
    while began.elapsed() < SHORT {
        if let Some(answer) = asked.answer(config)? {
            return Ok(answer.dropped);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Err(refused(config, format!("it did not answer in {} s", SHORT.as_secs())))
}

/// Drops the copies and the kept footers of these files. If another process has the tier, that process does it.
///
/// # Errors
///
/// If a query wants one of the copies, or the process that has the tier does not answer.
pub(crate) async fn forget(tier: &Tier, files: &[Fragment]) -> Result<(), TierError> {
    let config = tier.config();
    let wanted = if tier.is_ours() {
        shown(config, tier.shared().forget(files))
    } else {
        let (of, request) = (config.clone(), Request::Forget(files.to_vec()));
        let dropped = tokio::task::spawn_blocking(move || have_dropped(&of, &request)).await;
        dropped.map_err(|error| refused(config, error.to_string()))??.wanted
    };
    match wanted.first() {
        None => Ok(()),
        Some(first) => Err(refused(
            config,
            format!(
                "queries want {} of the cached files, such as {first}: try again when they have ended",
                wanted.len()
            ),
        )),
    }
}

/// The name of a file or folder as in [`TierConfig::shown`], without a slash at the end.
fn named(config: &TierConfig, location: &str) -> String {
    let mut name = location.to_owned();
    if config.root.scheme() == "file" {
        let path = Path::new(location.strip_prefix("file://").unwrap_or(location));
        // A deleted file has only the given name.
        let path =
            path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned());
        name = path.display().to_string();
    }
    name.trim_end_matches('/').to_owned()
}

fn is_one_of(config: &TierConfig, fragment: &Fragment, names: &[String]) -> bool {
    let shown = config.shown(fragment);
    let below = |rest: &str| rest.is_empty() || rest.starts_with('/');
    names.iter().any(|name| shown.strip_prefix(name.as_str()).is_some_and(below))
}

/// Asks the process that has the tier to restore these files and keep their footers. `progress` gets the number of
/// files left and their bytes after each.
pub(crate) async fn have_footers_kept(
    tier: &Tier,
    missing: Vec<Fragment>,
    mut progress: impl FnMut(usize, u64),
) -> Result<(), TierError> {
    if missing.is_empty() {
        return Ok(());
    }
    let (config, cache) = (tier.config(), &tier.fetcher().cache);
    let mut left: BTreeSet<&Fragment> = missing.iter().collect();
    let asked = Asked::new(&config.cache, &Request::Footers(missing.clone()))?;
    loop {
        let is_done = asked.answer(config)?.is_some();
        let before = left.len();
        left.retain(|fragment| !cache.has_footer(fragment));
        if left.len() < before {
            progress(left.len(), left.iter().map(|fragment| fragment.bytes).sum());
        }
        if is_done {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn refused(config: &TierConfig, why: String) -> TierError {
    TierError::Refused { tier: config.name.clone(), why }
}

/// Number of requests of this process.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// A request of this process. Dropping it withdraws it.
struct Asked {
    path: PathBuf,
    /// The locked file.
    _file: File,
}

impl Asked {
    fn new(dir: &Path, request: &Request) -> Result<Self, TierError> {
        let folder = dir.join("requests");
        // A request may come at once after an answer, so it has another name.
        let number = REQUESTS.fetch_add(1, Relaxed);
        let path = folder.join(format!("{}.{number}.request", std::process::id()));
        let part = path.with_extension("tmp");
        let text = serde_json::to_vec(request).unwrap_or_default();
        let written = fs::create_dir_all(&folder).and_then(|()| {
            let mut file = File::create(&part)?;
            file.lock()?;
            file.write_all(&text)?;
            fs::rename(&part, &path)?;
            Ok(file)
        });
        let file = written.map_err(TierError::io("ask the process that has the tier, in", &path))?;
        Ok(Asked { path, _file: file })
    }

    /// The answer, if there is one.
    fn answer(&self, config: &TierConfig) -> Result<Option<Answer>, TierError> {
        let path = self.path.with_extension("answer");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let lock = File::open(config.cache.join("lock"));
                if lock.is_ok_and(|lock| lock.try_lock_shared().is_ok()) {
                    return Err(TierError::OwnerEnded { tier: config.name.clone() });
                }
                return Ok(None);
            }
            Err(error) => return Err(TierError::io("read", &path)(error)),
        };
        let answer: Answer =
            serde_json::from_slice(&text).map_err(|error| TierError::io("read", &path)(error.into()))?;
        match answer.error {
            Some(why) => Err(refused(config, why)),
            None => Ok(Some(answer)),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        for extension in ["request", "answer"] {
            let _ = fs::remove_file(self.path.with_extension(extension));
        }
    }
}

/// Answers requests for as long as this process has the tier.
pub(crate) fn serve(tier: &Tier) {
    let shared = tier.shared();
    let (folder, weak) = (tier.config().cache.join("requests"), Arc::downgrade(shared));
    remove_withdrawn(&folder);
    shared.runtime.spawn(async move {
        let mut known = BTreeSet::new();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(shared) = weak.upgrade() else { return };
            let there: BTreeSet<PathBuf> = requests(&folder).into_iter().collect();
            known.retain(|path| there.contains(path));
            for path in there {
                if known.insert(path.clone()) {
                    shared.runtime.spawn(answer(weak.clone(), path));
                }
            }
        }
    });
}

/// Removes the requests of processes that have ended. A process that still waits for an earlier owner's answer waits
/// for this process.
fn remove_withdrawn(folder: &Path) {
    let waiting = requests(folder).into_iter().filter(|path| is_locked(path));
    let waiting: BTreeSet<PathBuf> = waiting.collect();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !waiting.contains(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_err())
}

fn requests(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "request")).collect()
}

async fn answer(shared: Weak<Shared>, path: PathBuf) {
    let request = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Request>(&text).ok());
    let (Some(request), Some(tier)) = (request, shared.upgrade().map(Tier::of)) else { return };
    let mut answer = Answer::default();
    match request {
        Request::Drop(names) => answer.dropped = drop_unwanted(&tier, &names),
        Request::Forget(files) => answer.dropped.wanted = shown(tier.config(), tier.shared().forget(&files)),
        Request::Footers(missing) => {
            let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            let who = name.split('.').next().unwrap_or_default();
            let kept = std::pin::pin!(keep_footers(&tier, missing, format!("footers (process {who})")));
            match select(kept, std::pin::pin!(withdrawn(&path))).await {
                Either::Left((kept, _)) => answer.error = kept.err().map(|error| error.to_string()),
                Either::Right(_) => {
                    let _ = fs::remove_file(&path);
                    return;
                }
            }
        }
    }
    let text = serde_json::to_vec(&answer).unwrap_or_default();
    if let Err(error) = write_whole(&path.with_extension("answer"), &text) {
        tracing::warn!(%error, "a request cannot be answered");
    }
}

fn drop_unwanted(tier: &Tier, names: &[String]) -> Dropped {
    let config = tier.config();
    let (dropped, wanted) = tier.shared().drop_copies(|fragment| is_one_of(config, fragment, names));
    Dropped { files: shown(config, dropped), wanted: shown(config, wanted) }
}

fn shown(config: &TierConfig, fragments: Vec<Fragment>) -> Vec<String> {
    let mut files: Vec<String> = fragments.iter().map(|fragment| config.shown(fragment)).collect();
    files.sort();
    files
}

async fn keep_footers(tier: &Tier, missing: Vec<Fragment>, whom: String) -> Result<(), TierError> {
    let cache = &tier.fetcher().cache;
    let missing = missing.into_iter().filter(|fragment| !cache.has_footer(fragment));
    let list = tier.submit(&whom, missing.map(|fragment| vec![vec![fragment]]).collect()).await?;
    while let Some(ready) = list.next().await? {
        list.done(ready);
    }
    Ok(())
}

/// Waits until the process that asks has ended or withdrawn its request.
async fn withdrawn(path: &Path) {
    while is_locked(path) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
