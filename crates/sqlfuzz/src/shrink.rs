//! Shrinks a failing case while it fails in the same way: fewer queries, settings, tables, files and rows,
//! then simpler queries, then all again.
//!
//! The result is small, but not minimal, and the search ends in bounded time.

use std::time::{Duration, Instant};

use coscan_engine::registry;
use tokio::runtime::Runtime;

use crate::case::{Case, Found, Tally};
use crate::data::spread::{Nulls, Spread};
use crate::data::{Column, DataFile, Database, Stored, Table, Writer};
use crate::query::simpler;
use crate::settings::Settings;

/// Time limit of shrinking a case.
pub(crate) const SHRINKS_FOR: Duration = Duration::from_secs(30);

/// Attempts per case if a failure depends on the interleaving of threads.
const CHANCES: usize = 5;

/// Returns the smaller case and its failure.
pub(crate) fn shrink(runtime: &Runtime, case: Case, found: Found, time: Duration) -> (Case, Found) {
    let mut search = Search { runtime, case, found, chances: 1, until: Instant::now() + time };
    search.choose_chances();
    search.only_the_query();
    loop {
        let mut changed = search.pass(settings);
        changed |= search.pass(databases);
        changed |= search.pass(tests);
        if !changed || search.is_over() {
            return (search.case, search.found);
        }
    }
}

struct Search<'a> {
    runtime: &'a Runtime,
    case: Case,
    found: Found,
    chances: usize,
    until: Instant,
}

impl Search<'_> {
    fn is_over(&self) -> bool {
        Instant::now() > self.until
    }

    /// Runs the case and returns its failure, if it is the same one.
    fn fails(&self, case: &Case) -> Option<Found> {
        for _ in 0..self.chances {
            let played = self.runtime.block_on(case.play(&mut Tally::default()));
            if let Ok(Err(found)) = played
                && found.difference.resembles(&self.found.difference)
            {
                return Some(*found);
            }
        }
        None
    }

    fn try_out(&mut self, case: Case) -> bool {
        match self.fails(&case) {
            Some(found) => {
                (self.case, self.found) = (case, found);
                true
            }
            None => false,
        }
    }

    /// Sets the number of attempts: several if the case does not fail again at once.
    fn choose_chances(&mut self) {
        if self.fails(&self.case.clone()).is_none() {
            self.chances = CHANCES;
        }
    }

    fn only_the_query(&mut self) {
        if let Some(test) = self.found.test {
            let mut alone = self.case.clone();
            alone.tests = vec![alone.tests[test].clone()];
            let mut in_order = alone.clone();
            in_order.settings.together = false;
            if self.try_out(in_order) || self.try_out(alone) {
                return;
            }
        }
        let mut at = 0;
        while at < self.case.tests.len() && self.case.tests.len() > 1 && !self.is_over() {
            let mut without = self.case.clone();
            without.tests.remove(at);
            if !self.try_out(without) {
                at += 1;
            }
        }
    }

    /// Tries all smaller cases until none fails. Returns whether one did.
    fn pass(&mut self, smaller: fn(&Case) -> Vec<Case>) -> bool {
        let mut changed = false;
        let mut at = 0;
        loop {
            // Candidates that were tried before the last change are not tried again in this pass.
            let candidates = smaller(&self.case);
            let Some(candidate) = candidates.into_iter().nth(at) else { return changed };
            if self.is_over() {
                return changed;
            }
            if self.try_out(candidate) {
                changed = true;
            } else {
                at += 1;
            }
        }
    }
}

fn settings(case: &Case) -> Vec<Case> {
    let now = &case.settings;
    let mut all = Vec::new();
    let mut with = |settings: Settings| all.push(settings);
    for (on, off) in [
        (now.together, Settings { together: false, ..now.clone() }),
        (now.shadowing, Settings { shadowing: false, ..now.clone() }),
        (now.local, Settings { local: false, ..now.clone() }),
        (now.small_buffer, Settings { small_buffer: false, ..now.clone() }),
        (now.refusals.is_some(), Settings { refusals: None, ..now.clone() }),
    ] {
        if on {
            with(off);
        }
    }
    if let Some(odd) = &now.odd {
        with(Settings { odd: None, ..now.clone() });
        odd.simpler().into_iter().for_each(|odd| with(Settings { odd: Some(odd), ..now.clone() }));
    }
    for policy in now.policies.iter().filter(|_| now.policies.len() > 1) {
        with(Settings { policies: vec![*policy], ..now.clone() });
    }
    let usual = registry::sharing().find(|policy| policy.as_str() == "normal");
    if let Some(usual) = usual.filter(|usual| now.policies != [*usual]) {
        with(Settings { policies: vec![usual], ..now.clone() });
    }
    for at in 0..now.datafusion.len() {
        let mut next = now.clone();
        next.datafusion.remove(at);
        with(next);
    }
    for at in 0..now.coscan.len() {
        let mut next = now.clone();
        if next.coscan.remove(at).0 != "small_table_bytes" {
            with(next);
        }
    }
    all.into_iter().map(|settings| Case { settings, ..case.clone() }).collect()
}

fn databases(case: &Case) -> Vec<Case> {
    let tables = &case.database.tables;
    let mut all: Vec<Vec<Table>> = Vec::new();
    for at in 0..tables.len() {
        let mut without = tables.clone();
        without.remove(at);
        all.push(without);
        for table in smaller_tables(&tables[at]) {
            let mut next = tables.clone();
            next[at] = table;
            all.push(next);
        }
    }
    all.into_iter().map(|tables| Case { database: Database { tables }, ..case.clone() }).collect()
}

fn tests(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    for (at, test) in case.tests.iter().enumerate() {
        let length = test.query.to_sql().len();
        for smaller in simpler(test) {
            // Every replacement is shorter, so the search ends.
            if smaller.query.to_sql().len() < length || test.form != smaller.form {
                let mut next = case.clone();
                next.tests[at] = smaller;
                all.push(next);
            }
        }
    }
    all
}

fn smaller_tables(table: &Table) -> Vec<Table> {
    let mut all = Vec::new();
    for at in 0..table.files.len() {
        if table.files.len() > 1 {
            let mut next = table.clone();
            next.files.remove(at);
            all.push(next);
        }
        for file in smaller_files(&table.files[at]) {
            let mut next = table.clone();
            next.files[at] = file;
            all.push(next);
        }
    }
    for at in (0..table.columns.len()).rev() {
        if table.columns.len() > 1 {
            let mut next = table.clone();
            next.columns.remove(at);
            next.files.iter_mut().for_each(|file| drop(file.stored.remove(at)));
            all.push(next);
        }
        for column in simpler_columns(&table.columns[at]) {
            let mut next = table.clone();
            next.columns[at] = column;
            all.push(next);
        }
    }
    for (on, off) in [
        (table.hive, Table { hive: false, ..table.clone() }),
        (table.ordered, Table { ordered: false, ..table.clone() }),
        (table.declared, Table { declared: false, ..table.clone() }),
        (table.clustered_with.is_some(), Table { clustered_with: None, ..table.clone() }),
    ] {
        if on {
            all.push(off);
        }
    }
    all.extend(simpler_writers(&table.writer).into_iter().map(|writer| Table { writer, ..table.clone() }));
    all
}

fn smaller_files(file: &DataFile) -> Vec<DataFile> {
    let mut all = Vec::new();
    for (at, &rows) in file.row_groups.iter().enumerate() {
        let mut next = file.clone();
        next.row_groups.remove(at);
        all.push(next);
        for fewer in [rows / 2, rows - rows / 4, rows.saturating_sub(1)] {
            if fewer > 0 && fewer < rows {
                let mut next = file.clone();
                next.row_groups[at] = fewer;
                all.push(next);
            }
        }
    }
    for at in 0..file.stored.len() {
        if file.stored[at] != Stored::AsDeclared {
            let mut next = file.clone();
            next.stored[at] = Stored::AsDeclared;
            all.push(next);
        }
    }
    all
}

fn simpler_columns(column: &Column) -> Vec<Column> {
    let mut all = Vec::new();
    if column.nulls != Nulls::None {
        all.push(Column { nulls: Nulls::None, ..column.clone() });
    }
    let simple = |spread| matches!(spread, Spread::RowNumber | Spread::Few(2) | Spread::Constant);
    if !simple(column.spread) {
        for spread in [Spread::Constant, Spread::Few(2), Spread::RowNumber] {
            all.push(Column { spread, ..column.clone() });
        }
    }
    all
}

fn simpler_writers(writer: &Writer) -> Vec<Writer> {
    let usual = Writer::default();
    let one = |change: fn(&mut Writer, &Writer)| {
        let mut next = writer.clone();
        change(&mut next, &usual);
        next
    };
    let all = [
        usual.clone(),
        one(|writer, usual| writer.compression = usual.compression),
        one(|writer, usual| writer.dictionary = usual.dictionary),
        one(|writer, usual| writer.dictionary_bytes = usual.dictionary_bytes),
        one(|writer, usual| writer.page_rows = usual.page_rows),
        one(|writer, usual| writer.second_version = usual.second_version),
        one(|writer, usual| writer.statistics = usual.statistics),
        one(|writer, usual| writer.statistics_bytes = usual.statistics_bytes),
        one(|writer, usual| writer.bloom_filters = usual.bloom_filters),
        one(|writer, usual| writer.offset_index = usual.offset_index),
        one(|writer, usual| writer.other_encodings = usual.other_encodings),
        one(|writer, usual| writer.types_forgotten = usual.types_forgotten),
    ];
    all.into_iter().filter(|next| next != writer).collect()
}
