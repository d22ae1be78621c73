//! Snapshots of the engine and its queries as JSON for the page.
//!
//! Each table is written once for all browsers. A browser that has the table already does not get it again. A user
//! gets only the tables that its role sees. Only administrators get the statements of other users.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use coscan_datafusion::result_taken_from;
use coscan_engine::{Observation, PartView, QueryProgress, ScanView, TableView};
use serde_json::{Value, json};

use super::estimate::{Estimate, Left};
use super::operators::Working;
use crate::access::User;
use crate::sql::{Finished, RunningQuery};

/// Longer statements are cut.
const SQL_SHOWN: usize = 2000;

/// A statement that has announced no scan after this time has none.
const WITHOUT_SCANS: Duration = Duration::from_secs(1);

/// One snapshot.
pub(crate) struct Frame {
    /// Policy, ledger and counters: JSON without its braces.
    pub(crate) head: String,
    pub(crate) tables: Vec<TableFrame>,
    pub(crate) queries: Vec<QueryFrame>,
}

/// A table, written once for all browsers.
#[derive(Clone)]
pub(crate) struct TableFrame {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// The numbers of its chunks.
    pub(crate) live: Vec<Range<u32>>,
    /// Grows with every change.
    pub(crate) version: u64,
    pub(crate) json: Arc<str>,
    parts: Vec<PartView>,
}

/// A query that runs or waits for its turn.
pub(crate) struct QueryFrame {
    pub(crate) id: u64,
    user: String,
    sql: String,
    protocol: &'static str,
    policy: String,
    running: bool,
    elapsed: Duration,
    rows: u64,
    progress: QueryProgress,
    waiting: Duration,
    ready: u32,
    on_their_way: u32,
    tables: Vec<u32>,
    taken_from: Option<u64>,
    left: Option<Left>,
    /// While no scan runs: the operator that works, and the rows that it made.
    works: Option<(String, usize)>,
}

impl Frame {
    /// Makes a snapshot. Unchanged tables are taken from the previous frame.
    pub(crate) fn new(
        seen: Observation,
        before: Option<&Frame>,
        name_of: impl Fn(&str) -> String,
        queries: Vec<QueryFrame>,
    ) -> Self {
        let head = head(&seen);
        let known: HashMap<u32, &TableFrame> =
            before.iter().flat_map(|frame| &frame.tables).map(|table| (table.id, table)).collect();
        let table = |view: TableView| {
            let name = name_of(&view.file);
            match known.get(&view.id) {
                Some(old) if old.parts == view.parts && old.live == view.live && old.name == name => {
                    TableFrame::clone(old)
                }
                old => TableFrame::new(view, name, old.map_or(0, |old| old.version) + 1),
            }
        };
        Frame { head, tables: seen.tables.into_iter().map(table).collect(), queries }
    }
}

/// The values of the engine as a whole.
fn head(seen: &Observation) -> String {
    let (usage, stats) = (&seen.usage, &seen.stats);
    let head = json!({
        "t": millis(seen.at),
        "policy": seen.policy.as_str(),
        "buffer": seen.buffer_bytes,
        "usage": {
            "budget": usage.budget, "encoded": usage.resident, "loading": usage.loading,
            "decoded": usage.decoded, "workspace": usage.workspace, "points": usage.points,
        },
        "inFlight": seen.loads_in_flight,
        "wanted": stats.bytes_wanted, "read": stats.bytes_read, "delivered": stats.bytes_delivered,
        "loads": stats.loads, "chunks": stats.chunks_delivered, "evictions": stats.evictions,
        "decoded": stats.slices_decoded, "decodedByOthers": stats.slices_shared,
        "decodeMs": stats.decode_ns / 1_000_000, "waitMs": stats.abm_wait_ns / 1_000_000,
    });
    let text = head.to_string();
    text[1..text.len() - 1].to_owned()
}

fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}

impl TableFrame {
    fn new(view: TableView, name: String, version: u64) -> Self {
        let json = json!({
            "id": view.id,
            "name": name,
            "files": view.files,
            "chunks": view.live.iter().map(|run| run.len()).sum::<usize>(),
            "columns": view.columns,
            "cells": view.cells,
        });
        let mut json = json.to_string();
        json.pop();
        json.push_str(",\"parts\":[");
        write_runs(&view.parts, &mut json);
        json.push_str("]}");
        TableFrame { id: view.id, name, live: view.live, version, json: json.into(), parts: view.parts }
    }

    /// The position of a chunk among the live chunks.
    pub(crate) fn position(&self, chunk: u32) -> Option<u32> {
        let mut before = 0;
        for run in &self.live {
            if run.contains(&chunk) {
                return Some(before + chunk - run.start);
            }
            before += run.len() as u32;
        }
        None
    }
}

/// Cells as runs of equal ones: their number, and `8 * wanted + 4 * held + state`.
fn write_runs(parts: &[PartView], json: &mut String) {
    let mut separator = "";
    for run in parts.chunk_by(|a, b| a == b) {
        let PartView { state, held, wanted } = run[0];
        let code = 8 * u64::from(wanted) + 4 * u64::from(held) + state as u64;
        // Writing to a string cannot fail.
        let _ = write!(json, "{separator}{},{code}", run.len());
        separator = ",";
    }
}

impl QueryFrame {
    pub(crate) fn new(
        query: &RunningQuery,
        scans: &[ScanView],
        estimate: &mut Estimate,
        working: &mut Working,
    ) -> Self {
        let progress = query.account().progress();
        let elapsed = query.started.elapsed();
        let left = progress.chunks_wanted.saturating_sub(progress.done.chunks_delivered);
        // Before its scans are announced, a statement has none either.
        let has_begun = progress.chunks_wanted > 0 || elapsed > WITHOUT_SCANS;
        let plan = query.plan().filter(|_| left == 0 && has_begun);
        let own = scans.iter().filter(|scan| scan.query == Some(query.id));
        let mut tables: Vec<u32> = own.clone().map(|scan| scan.table).collect();
        tables.sort_unstable();
        tables.dedup();
        QueryFrame {
            id: query.id,
            user: query.user.clone(),
            sql: query.sql.chars().take(SQL_SHOWN).collect(),
            protocol: query.protocol.as_str(),
            policy: query.policy.clone(),
            running: query.is_running(),
            elapsed,
            rows: query.rows(),
            waiting: own.clone().map(|scan| scan.waiting).max().unwrap_or_default(),
            ready: own.clone().map(|scan| scan.chunks_ready).sum(),
            on_their_way: own.map(|scan| scan.chunks_on_their_way).sum(),
            tables,
            taken_from: query.plan().and_then(result_taken_from),
            left: estimate.note(elapsed, progress.done.chunks_delivered, progress.chunks_wanted),
            works: plan.and_then(|plan| working.look(plan)),
            progress,
        }
    }

    /// The changing values of a query, for a user. With `first`, also the constant ones.
    pub(crate) fn json(&self, user: &User, first: bool) -> Value {
        let QueryProgress { chunks_wanted, bytes_wanted, done, .. } = &self.progress;
        let mut json = json!({
            "id": self.id, "running": self.running, "elapsed": millis(self.elapsed), "rows": self.rows,
            "wanted": chunks_wanted, "done": done.chunks_delivered.min(*chunks_wanted), "bytes": bytes_wanted,
            "read": done.bytes_loaded, "spared": done.bytes_from_buffer,
            "waited": millis(done.wait_time), "waiting": millis(self.waiting),
            "ready": self.ready, "coming": self.on_their_way, "tables": self.tables,
            "from": self.taken_from, "works": self.works, "left": self.left.map(|left| [millis(left.least), millis(left.most)]),
        });
        if first && let Some(fields) = json.as_object_mut() {
            let shown = user.role.admin || user.owns(&self.user);
            fields.insert("user".to_owned(), json!(self.user));
            fields.insert("sql".to_owned(), json!(shown.then_some(&self.sql)));
            fields.insert("protocol".to_owned(), json!(self.protocol));
            fields.insert("policy".to_owned(), json!(self.policy));
        }
        json
    }
}

/// The tables and queries that one browser has got.
#[derive(Default)]
pub(crate) struct Sent {
    tables: HashMap<u32, u64>,
    queries: HashSet<u64>,
}

/// A finished statement, for a user.
pub(crate) fn finished(of: &Finished, user: &User) -> Value {
    let shown = user.role.admin || user.owns(&of.user);
    let sql: String = of.sql.chars().take(SQL_SHOWN).collect();
    let ended_at = of.started_at + of.took;
    let ended_at = ended_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let error = of.error.as_ref().map(|(code, text)| if shown { text.as_str() } else { code });
    json!({
        "id": of.id, "user": of.user, "sql": shown.then_some(sql), "protocol": of.protocol.as_str(),
        "policy": of.policy, "ended": millis(ended_at), "took": millis(of.took), "rows": of.rows,
        "read": of.read, "spared": of.spared, "error": error,
    })
}

/// What happened since the last frame, for a user.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) loads: Vec<Value>,
    pub(crate) finished: Vec<Value>,
}

/// A frame for a user, without the parts in `sent`.
pub(crate) fn message(frame: &Frame, user: &User, sent: &mut Sent, news: &News) -> String {
    let visible: Vec<&TableFrame> = frame.tables.iter().filter(|table| user.role.sees(&table.name)).collect();
    let mut text =
        format!("{{{},\"all\":{}", frame.head, json!(visible.iter().map(|t| t.id).collect::<Vec<_>>()));
    text.push_str(",\"tables\":[");
    let mut separator = "";
    for table in visible.iter().filter(|table| sent.tables.get(&table.id) != Some(&table.version)) {
        text.push_str(separator);
        text.push_str(&table.json);
        separator = ",";
    }
    sent.tables = visible.iter().map(|table| (table.id, table.version)).collect();
    text.push_str("],\"queries\":[");
    separator = "";
    for query in &frame.queries {
        text.push_str(separator);
        let _ = write!(text, "{}", query.json(user, !sent.queries.contains(&query.id)));
        separator = ",";
    }
    sent.queries = frame.queries.iter().map(|query| query.id).collect();
    let _ = write!(text, "],\"points\":{},\"finished\":{}}}", json!(news.loads), json!(news.finished));
    text
}

#[cfg(test)]
mod tests {
    use coscan_engine::PartState;

    use super::*;

    #[test]
    fn cells_are_written_as_runs() {
        let absent = PartView::default();
        let wanted = PartView { state: PartState::Decoded, held: true, wanted: 2 };
        let mut json = String::new();
        write_runs(&[absent, absent, wanted], &mut json);
        assert_eq!(json, "2,0,1,23");
    }

    #[test]
    fn positions_leave_out_chunks_that_are_gone() {
        let view = TableView {
            id: 1,
            file: String::new(),
            files: 2,
            live: vec![0..3, 5..8],
            columns: vec![],
            cells: 6,
            parts: vec![],
        };
        let table = TableFrame::new(view, "t".to_owned(), 1);
        assert_eq!(
            [2, 3, 5, 7, 8].map(|chunk| table.position(chunk)),
            [Some(2), None, Some(3), Some(5), None]
        );
        assert!(serde_json::from_str::<Value>(&table.json).unwrap()["chunks"] == 6);
    }
}
