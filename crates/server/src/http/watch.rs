//! Snapshots of the engine, ten times a second while browsers watch, once for all of them.
//!
//! Every snapshot replaces the previous one. A slow browser gets the newest snapshot when it has taken the last, so
//! none queue up. While the server is idle, snapshots continue, but only every tenth is sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;

use super::estimate::Estimate;
use super::frame::{Frame, QueryFrame};
use super::operators::Working;
use crate::sql::Tables;
use crate::state::{SharedState, State};

/// The interval.
const EVERY: Duration = Duration::from_millis(100);

/// While the server is idle, one of this many snapshots is sent.
const IDLE_LOOKS: u32 = 10;

/// Maximum number of cells per table.
const PARTS_MAX: usize = 12_000;

/// Maximum number of browsers. Further ones are refused.
const VIEWERS_MAX: usize = 100;

/// See the module's documentation.
pub(crate) struct Watch {
    state: Weak<State>,
    frames: Arc<watch::Sender<Option<Arc<Frame>>>>,
    /// Set while snapshots are taken.
    looking: Arc<Mutex<bool>>,
}

impl Watch {
    pub(crate) fn new(state: SharedState) -> Self {
        let frames = Arc::new(watch::Sender::new(None));
        Watch { state: Arc::downgrade(&state), frames, looking: Arc::default() }
    }

    /// Number of watching browsers.
    pub(crate) fn viewers(&self) -> usize {
        self.frames.receiver_count()
    }

    /// The SQL names of the engine's tables, by number.
    pub(crate) fn table_names(&self) -> HashMap<u32, String> {
        let Some(state) = self.state.upgrade() else { return HashMap::new() };
        let names = Names::of_tables(state.tables());
        let tables = state.engine().observe(PARTS_MAX).tables.into_iter();
        tables.map(|table| (table.id, names.of(&table.file))).collect()
    }

    /// The SQL names of tables by their files.
    pub(crate) fn names(&self) -> Names {
        Names(self.state.upgrade().map_or_else(Vec::new, |state| state.tables().locations()))
    }

    /// Adds a browser. `None` if there are too many.
    pub(crate) fn subscribe(&self) -> Option<watch::Receiver<Option<Arc<Frame>>>> {
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        if self.viewers() >= VIEWERS_MAX {
            return None;
        }
        let receiver = self.frames.subscribe();
        if !std::mem::replace(&mut *looking, true) {
            tokio::spawn(look(self.state.clone(), self.frames.clone(), self.looking.clone()));
        }
        Some(receiver)
    }
}

async fn look(state: Weak<State>, frames: Arc<watch::Sender<Option<Arc<Frame>>>>, looking: Arc<Mutex<bool>>) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut estimates: HashMap<u64, (Estimate, Working)> = HashMap::new();
    let mut idle = 0;
    loop {
        ticks.tick().await;
        {
            let mut looking = looking.lock().unwrap_or_else(PoisonError::into_inner);
            if frames.receiver_count() == 0 {
                *looking = false;
                return;
            }
        }
        let Some(state) = state.upgrade() else { return };
        let before = frames.borrow().clone();
        let frame = frame(&state, before.as_deref(), &mut estimates);
        idle = if is_idle(&frame, before.as_deref()) { idle + 1 } else { 0 };
        if idle % IDLE_LOOKS == 0 {
            frames.send_replace(Some(Arc::new(frame)));
        }
    }
}

fn frame(state: &State, before: Option<&Frame>, estimates: &mut HashMap<u64, (Estimate, Working)>) -> Frame {
    let seen = state.engine().observe(PARTS_MAX);
    let queries: Vec<_> = state.registry().queries();
    estimates.retain(|id, _| queries.iter().any(|query| query.id == *id));
    let queries = queries.iter().map(|query| {
        let (estimate, working) = estimates.entry(query.id).or_default();
        QueryFrame::new(query, &seen.scans, estimate, working)
    });
    let queries = queries.collect();
    let names = Names::of_tables(state.tables());
    Frame::new(seen, before, |file| names.of(file), queries)
}

/// Returns true if no query runs and no table changed.
fn is_idle(frame: &Frame, before: Option<&Frame>) -> bool {
    let tables = |frame: &Frame| frame.tables.iter().map(|t| (t.id, t.version)).collect::<Vec<_>>();
    frame.queries.is_empty()
        && before.is_some_and(|before| before.queries.is_empty() && tables(before) == tables(frame))
}

/// The names of tables, and their locations.
pub(crate) struct Names(Vec<(String, Option<String>)>);

impl Names {
    pub(crate) fn of_tables(tables: &Tables) -> Self {
        Names(tables.locations())
    }

    /// The SQL name of the table that this file belongs to.
    pub(crate) fn of(&self, file: &str) -> String {
        name_of(file, &self.0)
    }
}

/// The SQL name of the table that a file belongs to: the table whose location is the longest prefix of the file's
/// address. Files of unknown tables keep their own name.
fn name_of(file: &str, tables: &[(String, Option<String>)]) -> String {
    let path = |address: &str| {
        let local = address.strip_prefix("file://").unwrap_or(address);
        let absolute = match local.starts_with('/') || local.contains("://") {
            true => local.to_owned(),
            false => std::path::absolute(local)
                .map_or(local.to_owned(), |path| path.to_string_lossy().into_owned()),
        };
        absolute.trim_end_matches('/').to_owned()
    };
    let file = path(file);
    let begins = |location: &str| {
        let fixed = location.split(['*', '?', '[']).next().unwrap_or_default();
        let pattern = fixed.len() < location.len();
        let location = path(fixed);
        let rest = file.strip_prefix(&location)?;
        (rest.is_empty() || rest.starts_with('/') || pattern).then_some(location.len())
    };
    let fitting = tables.iter().filter_map(|(name, location)| Some((begins(location.as_deref()?)?, name)));
    match fitting.max_by_key(|(length, _)| *length) {
        Some((_, name)) => name.clone(),
        None => {
            let last = file.rsplit('/').next().unwrap_or_default();
            last.split('.').next().unwrap_or_default().to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_the_name_that_sql_gives_them() {
        let table = |name: &str, location: &str| (name.to_owned(), Some(location.to_owned()));
        let tables = [
            table("all", "/data/"),
            table("trips", "/data/trips"),
            table("line", "/data/lineitem.parquet"),
            table("far", "s3://bucket/far/"),
            ("made".to_owned(), None),
        ];
        for (file, name) in [
            ("file:///data/trips/a.parquet", "trips"),
            ("file:///data/lineitem.parquet", "line"),
            ("file:///data/tripsy/b.parquet", "all"),
            ("s3://bucket/far/y=1/c.parquet", "far"),
            ("file:///elsewhere/x.parquet", "x"),
        ] {
            assert_eq!(name_of(file, &tables), name, "{file}");
        }
        assert_eq!(name_of("file:///d/part-1.parquet", &[table("parts", "/d/part-*.parquet")]), "parts");
    }
}
