//! The status that `coscan tier status` shows: pending, mounted and cached fragments, with users, expected time and
//! cost.
//!
//! The process that has the tier writes the status to a file in the cache's folder, and others read this file. If no
//! process has the tier, the status comes from the folder and the journal, and no restore is in progress.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};
use coscan_media::{FragmentId, Instant, MediumId, Status, UserId};
use serde::{Deserialize, Serialize};

use crate::cache::fragments_in;
use crate::config::TierConfig;
use crate::disk::write_whole;
use crate::error::TierError;
use crate::fetch::Fetcher;
use crate::fragment::Fragment;
use crate::journal::{Asked, Journal};

/// The status of a tier at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TierStatus {
    /// Its name.
    pub tier: String,
    /// The moment.
    pub at: DateTime<Utc>,
    /// The process that has the tier. `None` if there is none.
    pub pid: Option<u32>,
    /// Fragments in the cache.
    pub cached: Vec<WantedFile>,
    /// Bytes of the cached fragments and of those in progress.
    pub used_bytes: u64,
    /// Maximum bytes in the cache.
    pub cache_bytes: u64,
    /// Drives, with the fragments that they fetch.
    pub fetching: Vec<Fetching>,
    /// Wanted fragments that are not being fetched.
    pub pending: Vec<WantedFile>,
    /// Restores that were requested and paid, and are not finished.
    pub asked: Vec<Asked>,
    /// Queries that wait or run.
    pub queries: Vec<Query>,
    /// Restores and recalls since the process started.
    pub fetches: u64,
    /// Failed fetches since the process started.
    pub failures: u64,
    /// Cost of restores in the days that count.
    pub spent: f64,
    /// Limit of this cost.
    pub cost_limit: Option<f64>,
    /// Price of the pending fragments.
    pub pending_price: f64,
    /// Expected time at which all pending fragments are there, if the definition's numbers are right.
    pub expected: Option<DateTime<Utc>>,
}

/// A fragment and the users that want it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WantedFile {
    /// Its file.
    pub file: String,
    /// Its bytes.
    pub bytes: u64,
    /// The users that want it.
    #[serde(rename = "for")]
    pub whom: Vec<String>,
}

/// A drive, or one of the restores in progress.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fetching {
    /// Its number.
    pub drive: u32,
    /// The mounted medium.
    pub medium: Option<String>,
    /// The fragment that it fetches.
    pub fragment: Option<WantedFile>,
    /// Duration of this fetch so far, in seconds.
    #[serde(default)]
    pub fetching_s: Option<f64>,
}

/// A list of subqueries of a query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Query {
    /// The query's user.
    pub user: String,
    /// Age of the list in seconds.
    pub age_s: f64,
    /// Time without a subquery to run, in seconds.
    pub waiting_s: Option<f64>,
    /// Subqueries that wait for fragments.
    pub pending: usize,
    /// Subqueries that run.
    pub running: usize,
    /// Subqueries that are done.
    pub done: usize,
}

/// Names for the scheduler's numbers.
pub(crate) struct Names<'a> {
    pub(crate) fragment: &'a dyn Fn(FragmentId) -> WantedFile,
    pub(crate) user: &'a dyn Fn(UserId) -> String,
    pub(crate) medium: &'a dyn Fn(MediumId) -> Option<String>,
}

pub(crate) fn of(
    fetcher: &Fetcher,
    status: &Status,
    names: &Names<'_>,
    now: Instant,
    last: Option<Instant>,
) -> TierStatus {
    let at = Utc::now();
    let seconds = |since: Instant| now.as_nanos().saturating_sub(since.as_nanos()) as f64 / 1e9;
    let nanos =
        |then: Instant| i64::try_from(then.as_nanos().saturating_sub(now.as_nanos())).unwrap_or(i64::MAX);
    let idle = status.pending.is_empty() && status.drives.iter().all(|drive| drive.fetching.is_none());
    let asked = fetcher.journal.pending();
    let pending: Vec<WantedFile> = status.pending.iter().map(|id| (names.fragment)(*id)).collect();
    let paid: BTreeSet<String> = asked.iter().map(|asked| fetcher.config.shown(&asked.fragment)).collect();
    let unpaid = pending.iter().filter(|wanted| !paid.contains(&wanted.file)).map(|wanted| wanted.bytes);
    let pending_price = fetcher.config.prices(unpaid);
    let drives = status.drives.iter().filter(|drive| drive.fetching.is_some() || drive.mounted.is_some());
    TierStatus {
        tier: fetcher.config.name.clone(),
        at,
        pid: Some(std::process::id()),
        cached: status.cached.iter().map(|(id, ..)| (names.fragment)(*id)).collect(),
        used_bytes: status.used_bytes,
        cache_bytes: status.budget_bytes,
        fetching: drives
            .map(|drive| Fetching {
                drive: drive.drive.0,
                medium: drive.mounted.and_then(|medium| (names.medium)(medium)),
                fragment: drive.fetching.map(|id| (names.fragment)(id)),
                fetching_s: drive.fetching.map(|_| seconds(drive.since)),
            })
            .collect(),
        pending_price,
        pending,
        asked,
        queries: status
            .lists
            .iter()
            .map(|list| Query {
                user: (names.user)(list.user),
                age_s: seconds(list.submitted),
                waiting_s: list.waiting_since.map(seconds),
                pending: list.pending,
                running: list.running,
                done: list.done,
            })
            .collect(),
        fetches: status.totals.fetches,
        failures: status.totals.failures,
        spent: fetcher.spent(),
        cost_limit: fetcher.config.cost_limit,
        expected: last.filter(|_| !idle).map(|last| at + TimeDelta::nanoseconds(nanos(last))),
    }
}

impl TierStatus {
    pub(crate) fn write(&self, dir: &Path) -> Result<(), TierError> {
        let path = dir.join("status.json");
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        write_whole(&path, &text).map_err(TierError::io("write", &path))
    }

    /// Reads the last status of the process that has the tier, or of the last process that had it. `None` if there
    /// never was one.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub fn read(config: &TierConfig) -> Result<Option<Self>, TierError> {
        let (dir, path) = (&config.cache, config.cache.join("status.json"));
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(TierError::io("read", &path)(error)),
        };
        let wrong = |error: serde_json::Error| TierError::io("read", &path)(error.into());
        let status: TierStatus = serde_json::from_slice(&text).map_err(wrong)?;
        let alive = File::open(dir.join("lock")).is_ok_and(|lock| lock.try_lock_shared().is_err());
        Ok(Some(if alive { status } else { status.left(config)? }))
    }

    /// The part of the status that remains true without a process.
    fn left(self, config: &TierConfig) -> Result<Self, TierError> {
        let wanted = |fragment: Fragment| WantedFile {
            file: config.shown(&fragment),
            bytes: fragment.bytes,
            whom: Vec::new(),
        };
        let cached: Vec<WantedFile> = fragments_in(&config.cache)?.into_iter().map(wanted).collect();
        let (asked, spent) = Journal::look(&config.cache, Utc::now(), config.cost_days)?;
        Ok(TierStatus {
            pid: None,
            used_bytes: cached.iter().map(|fragment| fragment.bytes).sum(),
            cache_bytes: config.cache_bytes,
            cached,
            fetching: Vec::new(),
            pending: Vec::new(),
            asked,
            queries: Vec::new(),
            spent,
            cost_limit: config.cost_limit,
            pending_price: 0.0,
            expected: None,
            ..self
        })
    }

    /// One line with the fragments that queries wait for, the time waited and the expected time. `None` if no query
    /// waits.
    pub fn waiting(&self) -> Option<String> {
        let waited =
            self.queries.iter().filter(|query| query.pending > 0).filter_map(|query| query.waiting_s);
        let waited = waited.max_by(f64::total_cmp)?;
        let fetching: Vec<(&Fetching, &WantedFile)> =
            self.fetching.iter().filter_map(|drive| Some((drive, drive.fragment.as_ref()?))).collect();
        let files = fetching.len() + self.pending.len();
        if files == 0 {
            return None;
        }
        let mut text = format!("waiting {} for {files} files of tier {}", spoken(waited), self.tier);
        match fetching.first() {
            Some((drive, wanted)) => {
                let medium =
                    drive.medium.as_deref().map(|medium| format!(" on {medium}")).unwrap_or_default();
                let since = spoken(drive.fetching_s.unwrap_or_default());
                text += &format!(": {}{medium} on its way for {since}", wanted.file);
                if fetching.len() > 1 {
                    text += &format!(", {} more on their way", fetching.len() - 1);
                }
            }
            None => text += ": none is on its way yet",
        }
        if let Some(expected) = self.expected {
            let left = (expected - self.at).num_milliseconds() as f64 / 1e3;
            text += &format!(", all expected in {}", spoken(left));
        }
        Some(text)
    }

    /// The age of the status.
    pub fn age(&self) -> TimeDelta {
        Utc::now() - self.at
    }
}

/// A time in a readable unit.
fn spoken(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds:.0} s"),
        ..7_200.0 => format!("{:.0} min", seconds / 60.0),
        ..172_800.0 => format!("{:.1} h", seconds / 3_600.0),
        _ => format!("{:.1} d", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_what_is_waited_for() {
        let wanted = |file: &str| WantedFile { file: file.to_owned(), bytes: 1, whom: Vec::new() };
        let query =
            |waiting_s| Query { user: String::new(), age_s: 9.0, waiting_s, pending: 2, running: 0, done: 0 };
        let drive = |file: Option<&str>| Fetching {
            drive: 0,
            medium: Some("T1".to_owned()),
            fragment: file.map(wanted),
            fetching_s: file.map(|_| 12.0),
        };
        let at = DateTime::UNIX_EPOCH;
        let mut status = TierStatus {
            tier: "tape".to_owned(),
            at,
            pid: None,
            cached: Vec::new(),
            used_bytes: 0,
            cache_bytes: 9,
            fetching: vec![drive(None), drive(Some("/r/a"))],
            pending: vec![wanted("/r/b")],
            asked: Vec::new(),
            queries: vec![query(None), query(Some(300.0)), query(Some(5.0))],
            fetches: 0,
            failures: 0,
            spent: 0.0,
            cost_limit: None,
            pending_price: 0.0,
            expected: Some(at + TimeDelta::hours(3)),
        };
        let text =
            "waiting 5 min for 2 files of tier tape: /r/a on T1 on its way for 12 s, all expected in 3.0 h";
        assert_eq!(status.waiting().as_deref(), Some(text));
        status.fetching.clear();
        let text = "waiting 5 min for 1 files of tier tape: none is on its way yet, all expected in 3.0 h";
        assert_eq!(status.waiting().as_deref(), Some(text));
        status.queries.truncate(1);
        assert_eq!(status.waiting(), None);
    }
}
