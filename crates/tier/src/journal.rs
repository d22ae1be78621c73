//! The journal of requests to a tier and their costs.
//!
//! Each request is written before it is sent. A process that starts again therefore knows which restores are in
//! progress and how much was spent. Each event is one line of JSON. A line that a crash cut off is the last one and
//! is ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::disk::write_whole;
use crate::error::TierError;
use crate::fragment::{Fragment, Key};

/// The journal of a tier.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    books: Mutex<Books>,
}

#[derive(Debug)]
struct Books {
    /// `None`: nothing is written.
    file: Option<File>,
    pending: BTreeMap<Key, Asked>,
    /// The restores that the tier has taken up.
    taken: BTreeSet<Key>,
    spent: Spent,
}

/// Costs of restores, each with the time of its request.
type Spent = Vec<(DateTime<Utc>, f64)>;

/// A requested restore.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// The fragment.
    pub fragment: Fragment,
    /// The time of the first request.
    pub at: DateTime<Utc>,
    /// The price.
    pub price: f64,
    /// The user that wanted the fragment first.
    #[serde(rename = "for")]
    pub whom: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Asked(Asked),
    /// The tier has taken up the request.
    Taken(String),
    /// The fragment is in the cache.
    Came(String),
    /// The restore has failed. Another request costs again.
    Failed(String),
}

impl Journal {
    /// Opens the journal of the cache in `dir`. Removes entries that are not needed any more: restores that finished
    /// more than `days` ago.
    ///
    /// # Errors
    ///
    /// If it cannot be read or written.
    pub fn open(dir: &Path, now: DateTime<Utc>, days: u32) -> Result<Self, TierError> {
        let path = dir.join("journal");
        let mut kept = read(&path)?;
        let since = now - TimeDelta::days(i64::from(days));
        let (pending, taken, spent) = entered(&kept);
        kept.retain(|line| match line {
            Line::Asked(asked) => asked.at >= since || pending.contains_key(&asked.fragment.key()),
            Line::Taken(key) => key.parse().is_ok_and(|key: Key| taken.contains(&key)),
            Line::Came(key) | Line::Failed(key) => {
                key.parse().is_ok_and(|key: Key| !pending.contains_key(&key))
            }
        });
        let text: String =
            kept.iter().filter_map(|line| serde_json::to_string(line).ok()).map(|line| line + "\n").collect();
        write_whole(&path, text.as_bytes()).map_err(TierError::io("write the journal", &path))?;
        let file =
            OpenOptions::new().append(true).open(&path).map_err(TierError::io("open the journal", &path))?;
        Ok(Journal { path, books: Mutex::new(Books { file: Some(file), pending, taken, spent }) })
    }

    /// Opens the journal of the cache in `dir` read-only, while another process may write it.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn as_it_is(dir: &Path) -> Result<Self, TierError> {
        let path = dir.join("journal");
        let (pending, taken, spent) = entered(&read(&path)?);
        Ok(Journal { path, books: Mutex::new(Books { file: None, pending, taken, spent }) })
    }

    /// Reads the journal of the cache in `dir`, also while another process uses it. Returns the pending restores,
    /// and the total cost of those requested in the last `days`.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn look(dir: &Path, now: DateTime<Utc>, days: u32) -> Result<(Vec<Asked>, f64), TierError> {
        let (pending, _, spent) = entered(&read(&dir.join("journal"))?);
        Ok((pending.into_values().collect(), sum_since(&spent, now - TimeDelta::days(i64::from(days)))))
    }

    /// The requested restores that have neither finished nor failed.
    pub fn pending(&self) -> Vec<Asked> {
        self.books().pending.values().cloned().collect()
    }

    /// Returns true if the restore was requested and has neither finished nor failed.
    pub fn is_pending(&self, fragment: &Fragment) -> bool {
        self.books().pending.contains_key(&fragment.key())
    }

    /// Returns true if the restore is pending and the tier has not taken it up. Another request then costs nothing
    /// more.
    pub fn is_owed(&self, fragment: &Fragment) -> bool {
        self.books().is_owed(fragment.key())
    }

    /// The total cost of the restores requested since `since`.
    pub fn spent(&self, since: DateTime<Utc>) -> f64 {
        sum_since(&self.books().spent, since)
    }

    /// Records that a fragment will be requested. A pending fragment costs nothing more. It costs again if the tier
    /// took up the request and has to be asked again, because the restored copy has expired.
    ///
    /// # Errors
    ///
    /// If the amount spent since `since` would exceed `limit`, as `Err(Ok(spent))`, or if the disk refuses the line.
    pub fn ask(
        &self,
        asked: Asked,
        since: DateTime<Utc>,
        limit: Option<f64>,
    ) -> Result<(), Result<f64, TierError>> {
        let mut books = self.books();
        if books.is_owed(asked.fragment.key()) {
            return Ok(());
        }
        let spent = sum_since(&books.spent, since);
        if limit.is_some_and(|limit| spent + asked.price > limit) {
            return Err(Ok(spent));
        }
        self.write(&mut books, &Line::Asked(asked.clone())).map_err(Err)?;
        books.spent.push((asked.at, asked.price));
        books.taken.remove(&asked.fragment.key());
        books.pending.insert(asked.fragment.key(), asked);
        Ok(())
    }

    /// Records that the tier has taken up the request.
    pub fn taken(&self, fragment: &Fragment) {
        let (mut books, key) = (self.books(), fragment.key());
        if !books.pending.contains_key(&key) {
            return;
        }
        if let Err(error) = self.write(&mut books, &Line::Taken(key.to_string())) {
            // A process that finds the copy gone counts its next restore as this one.
            tracing::warn!(%error, "journal");
        }
        books.taken.insert(key);
    }

    /// Records that a fragment is in the cache.
    pub fn came(&self, fragment: &Fragment) {
        self.settle(fragment, Line::Came(fragment.key().to_string()));
    }

    /// Records that a restore has failed.
    pub fn failed(&self, fragment: &Fragment) {
        self.settle(fragment, Line::Failed(fragment.key().to_string()));
    }

    fn settle(&self, fragment: &Fragment, line: Line) {
        let mut books = self.books();
        books.taken.remove(&fragment.key());
        if books.pending.remove(&fragment.key()).is_some()
            && let Err(error) = self.write(&mut books, &line)
        {
            // The next process will request a restore that already exists, which costs nothing.
            tracing::warn!(%error, "journal");
        }
    }

    fn write(&self, books: &mut Books, line: &Line) -> Result<(), TierError> {
        let text = serde_json::to_string(line).unwrap_or_default() + "\n";
        let Some(file) = &mut books.file else {
            return Err(TierError::io("write the journal", &self.path)(
                std::io::ErrorKind::ReadOnlyFilesystem.into(),
            ));
        };
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        written.map_err(TierError::io("write the journal", &self.path))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // Numbers change after the line is written, so after a panic in between the file is right.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn is_owed(&self, key: Key) -> bool {
        self.pending.contains_key(&key) && !self.taken.contains(&key)
    }
}

/// The pending restores after these lines, those that were taken up, and every cost with its time.
fn entered(lines: &[Line]) -> (BTreeMap<Key, Asked>, BTreeSet<Key>, Spent) {
    let (mut pending, mut taken, mut spent) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    for line in lines {
        match line {
            Line::Asked(asked) => {
                taken.remove(&asked.fragment.key());
                pending.insert(asked.fragment.key(), asked.clone());
                spent.push((asked.at, asked.price));
            }
            Line::Taken(key) => taken.extend(key.parse::<Key>()),
            Line::Came(key) | Line::Failed(key) => {
                if let Ok(key) = key.parse() {
                    pending.remove(&key);
                    taken.remove(&key);
                }
            }
        }
    }
    (pending, taken, spent)
}

fn sum_since(spent: &[(DateTime<Utc>, f64)], since: DateTime<Utc>) -> f64 {
    // `sum` of no floating-point numbers is -0.
    spent.iter().filter(|(at, _)| *at >= since).fold(0.0, |sum, (_, price)| sum + price)
}

fn read(path: &Path) -> Result<Vec<Line>, TierError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(TierError::io("read the journal", path)(error)),
    };
    let lines = text.lines().map(serde_json::from_str::<Line>);
    Ok(lines
        .map_while(|line| line.inspect_err(|error| tracing::warn!(%error, "journal: cut off")).ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragment::sample;

    fn asked(name: &str, price: f64, at: DateTime<Utc>) -> Asked {
        Asked { fragment: sample(name, 1), at, price, whom: "me".to_owned() }
    }

    #[test]
    fn pending_restores_and_costs_are_found_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let now = Utc::now();
        let since = now - TimeDelta::days(30);
        let journal = Journal::open(dir.path(), now, 30).expect("a journal");
        for name in ["a", "b", "c", "a"] {
            journal.ask(asked(name, 1.0, now), since, Some(3.0)).expect("within the limit");
        }
        assert!(
            matches!(journal.ask(asked("d", 1.0, now), since, Some(3.5)), Err(Ok(spent)) if spent == 3.0)
        );
        journal.came(&sample("a", 1));
        journal.failed(&sample("b", 1));
        drop(journal);
        // A crash in the middle of a line.
        let path = dir.path().join("journal");
        let mut text = fs::read_to_string(&path).expect("the journal");
        text.push_str("{\"came\":\"00");
        fs::write(&path, text).expect("written");
        for _ in 0..2 {
            let journal = Journal::open(dir.path(), now, 30).expect("a journal");
            assert_eq!(journal.pending(), [asked("c", 1.0, now)]);
            assert_eq!(journal.spent(since), 3.0);
        }
    }

    #[test]
    fn what_was_taken_up_and_has_to_be_asked_for_again_costs_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let now = Utc::now();
        let since = now - TimeDelta::days(30);
        for spent in [1.0, 2.0] {
            let journal = Journal::open(dir.path(), now, 30).expect("a journal");
            for _ in 0..2 {
                journal.ask(asked("a", 1.0, now), since, Some(2.5)).expect("within the limit");
            }
            assert!(journal.is_owed(&sample("a", 1)), "asked for, not heard of");
            journal.taken(&sample("a", 1));
            assert!(journal.is_pending(&sample("a", 1)) && !journal.is_owed(&sample("a", 1)));
            assert_eq!(journal.spent(since), spent);
        }
        let journal = Journal::open(dir.path(), now, 30).expect("a journal");
        assert!(
            matches!(journal.ask(asked("a", 1.0, now), since, Some(2.5)), Err(Ok(spent)) if spent == 2.0)
        );
    }

    #[test]
    fn what_is_old_is_forgotten_unless_it_is_pending() {
        let dir = tempfile::tempdir().expect("a folder");
        let now = Utc::now();
        let old = now - TimeDelta::days(40);
        let journal = Journal::open(dir.path(), old, 30).expect("a journal");
        for name in ["a", "b"] {
            journal.ask(asked(name, 1.0, old), old, None).expect("no limit");
        }
        journal.came(&sample("a", 1));
        drop(journal);
        drop(Journal::open(dir.path(), now, 30).expect("a journal"));
        let journal = Journal::open(dir.path(), now, 30).expect("a journal");
        assert_eq!(journal.pending(), [asked("b", 1.0, old)]);
        assert_eq!((journal.spent(now), journal.spent(old)), (0.0, 1.0));
    }
}
