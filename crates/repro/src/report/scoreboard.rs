//! The scoreboard: what a paper measured beside what was measured here, and whether they agree.
//!
//! As JSON it is the machine form of `coscan repro --json`; as text it is what a terminal shows. It keeps
//! the order of its rows and judges nothing but the ratio of two numbers.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use coscan_sim::scenario::Basis;
use coscan_sim::statistics::{Spread, Summary};
use serde::{Deserialize, Serialize};

use coscan_figure::axis::number;

/// One quantity of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The experiment's id, as in `coscan repro --only ID`.
    pub experiment: String,
    /// The quantity, for example `relevance.stream_time_ratio`.
    pub quantity: String,
    /// What the paper measured.
    pub paper: f64,
    /// The median over seeds.
    pub measured: f64,
    /// Lowest and highest of what the host chose to call the spread, in the unit of `measured`.
    pub spread: (f64, f64),
    /// How many seeds the median is over.
    pub seeds: u32,
    /// How far `measured` may be from `paper`, as a share of `paper`.
    pub tolerance: f64,
    /// Whether it is no further.
    pub within: bool,
    /// What stands behind the paper's value.
    pub basis: Basis,
    /// Whether the row counts: not if a parameter was fitted to it.
    pub judged: bool,
    /// An explanation, or nothing.
    pub note: String,
}

impl Row {
    /// A row whose value is the median of what was measured, and whose spread is its range, as stated by the paper and
    /// judged.
    pub fn of_median(
        experiment: &str,
        quantity: String,
        paper: f64,
        measured: &[f64],
        seeds: u32,
        tolerance: f64,
    ) -> Self {
        let none = Spread { median: f64::NAN, min: f64::NAN, max: f64::NAN };
        let Spread { median, min, max } = Spread::of(measured.iter().copied()).unwrap_or(none);
        Row::new(experiment, quantity, paper, (median, (min, max)), seeds, tolerance)
    }

    /// A row whose value is the median over seeds, and whose spread is the middle half, as stated by the paper and
    /// judged.
    pub fn of_summary(
        experiment: &str,
        quantity: String,
        paper: f64,
        measured: Summary,
        seeds: u32,
        tolerance: f64,
    ) -> Self {
        Row::new(experiment, quantity, paper, (measured.median, measured.quartiles), seeds, tolerance)
    }

    fn new(
        experiment: &str,
        quantity: String,
        paper: f64,
        (measured, spread): (f64, (f64, f64)),
        seeds: u32,
        tolerance: f64,
    ) -> Self {
        let row = Row {
            experiment: experiment.to_owned(),
            quantity,
            paper,
            measured,
            spread,
            seeds,
            tolerance,
            within: false,
            basis: Basis::Stated,
            judged: true,
            note: String::new(),
        };
        row.judged()
    }

    /// Measured over paper; `None` when the paper's value is zero or either is not a number.
    pub fn ratio(&self) -> Option<f64> {
        let ratio = self.measured / self.paper;
        (self.paper != 0.0 && ratio.is_finite()).then_some(ratio)
    }

    /// The row with another basis.
    pub fn on(mut self, basis: Basis) -> Self {
        self.basis = basis;
        self.judged = basis.is_judged();
        self
    }

    /// The row with `within` set from its numbers: measured is at most `tolerance` times the paper's value
    /// away from it, or at most `tolerance` itself when that value is zero.
    pub fn judged(mut self) -> Self {
        let scale = if self.paper == 0.0 { 1.0 } else { self.paper.abs() };
        // A last digit lost in the subtraction must not decide.
        self.within = (self.measured - self.paper).abs() <= self.tolerance * scale * (1.0 + 1e-9);
        self
    }

    /// Whether the row agrees with the paper, in words.
    pub fn verdict(&self) -> &'static str {
        match (self.judged, self.within) {
            (false, _) => "fitted",
            (true, true) => "✓ within",
            (true, false) => "✗ not within",
        }
    }
}

/// All rows, grouped by experiment in the order they were added.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scoreboard {
    /// The rows.
    pub rows: Vec<Row>,
}

impl Scoreboard {
    /// The experiments in the order of their first row, each with its rows.
    pub fn groups(&self) -> Vec<(&str, Vec<&Row>)> {
        let mut groups: Vec<(&str, Vec<&Row>)> = Vec::new();
        for row in &self.rows {
            match groups.iter_mut().find(|(experiment, _)| *experiment == row.experiment) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((&row.experiment, vec![row])),
            }
        }
        groups
    }

    /// One line: how many quantities agree, how many do not, and how many do not count because something was fitted to
    /// them.
    pub fn summary(&self) -> String {
        let judged: Vec<&Row> = self.rows.iter().filter(|row| row.judged).collect();
        let within = judged.iter().filter(|row| row.within).count();
        let experiments = self.groups().len();
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let fitted = match self.rows.len() - judged.len() {
            0 => String::new(),
            fitted => format!("; {fitted} fitted, not counted"),
        };
        let all = judged.len();
        format!(
            "{within} of {all} quantit{} in {experiments} experiment{} within tolerance, {} not{fitted}",
            if all == 1 { "y" } else { "ies" },
            plural(experiments),
            all - within
        )
    }

    /// The scoreboard as text for a terminal at most `columns` characters wide, with notes (one to a
    /// line, not wrapped) and the summary below.
    pub fn text(&self, columns: u16) -> String {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_BORDERS_ONLY);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
        table.set_header([
            "experiment",
            "quantity",
            "paper",
            "measured",
            "spread",
            "ratio",
            "tol.",
            "basis",
            "",
        ]);
        for (experiment, rows) in self.groups() {
            for (index, row) in rows.into_iter().enumerate() {
                let name = if index == 0 { experiment } else { "" };
                table.add_row(std::iter::once(name.to_owned()).chain(row.cells().into_iter().take(8)));
            }
        }
        for column in 2..7 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let noted = self.rows.iter().filter(|row| !row.note.is_empty());
        let notes: String =
            noted.map(|row| format!("{} {}: {}\n", row.experiment, row.quantity, row.note)).collect();
        format!("{table}\n{notes}{}\n", self.summary())
    }
}

impl Row {
    /// What a table shows after the experiment's name: quantity, paper, measured, spread, ratio,
    /// tolerance, basis, verdict, note.
    pub fn cells(&self) -> [String; 9] {
        [
            self.quantity.clone(),
            number(self.paper),
            number(self.measured),
            format!("{} – {}", number(self.spread.0), number(self.spread.1)),
            self.ratio().map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
            format!("±{}%", number(self.tolerance * 100.0)),
            self.basis.to_string(),
            self.verdict().to_owned(),
            self.note.clone(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn row(experiment: &str, quantity: &str, paper: f64, measured: f64) -> Row {
        Row {
            experiment: experiment.to_owned(),
            quantity: quantity.to_owned(),
            paper,
            measured,
            spread: (0.34, 0.39),
            seeds: 20,
            tolerance: 0.25,
            within: false,
            basis: Basis::Stated,
            judged: true,
            note: String::new(),
        }
        .judged()
    }

    #[test]
    fn json_is_the_form_that_others_read() {
        let board =
            Scoreboard { rows: vec![row("scan07-table2", "relevance.stream_time_ratio", 0.351, 0.36)] };
        let expected = serde_json::json!([{
            "experiment": "scan07-table2", "quantity": "relevance.stream_time_ratio", "paper": 0.351,
            "measured": 0.36, "spread": [0.34, 0.39], "seeds": 20, "tolerance": 0.25, "within": true, "basis": "stated", "judged": true, "note": "",
        }]);
        assert_eq!(serde_json::to_value(&board).unwrap(), expected);
    }

    #[test]
    fn the_tolerance_is_judged_at_its_edges() {
        assert!(row("e", "q", 0.4, 0.5).within && row("e", "q", 0.4, 0.3).within);
        assert!(!row("e", "q", 0.4, 0.5001).within && !row("e", "q", 0.4, f64::NAN).within);
        assert!(row("e", "q", 0.0, 0.25).within && row("e", "q", 0.0, 0.3).ratio().is_none());
    }

    #[test]
    fn the_terminal_shows_groups_and_the_summary() {
        let noted = Row { note: "why it differs".to_owned(), ..row("two", "b", 1.0, 2.0) };
        let board = Scoreboard { rows: vec![row("one", "a", 1.0, 1.0), noted, row("one", "c", 1.0, 1.0)] };
        assert_eq!(board.groups().iter().map(|(_, rows)| rows.len()).collect::<Vec<_>>(), [2, 1]);
        let text = board.text(120);
        assert!(text.contains("✗ not within") && text.contains("2.00"), "{text}");
        assert!(text.ends_with("2 of 3 quantities in 2 experiments within tolerance, 1 not\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
        assert!(text.contains("\ntwo b: why it differs\n"), "{text}");
        assert_eq!(text.matches("one").count(), 1);
        assert!(Scoreboard::default().text(80).contains("0 of 0"));
    }

    #[test]
    fn what_was_fitted_does_not_count() {
        let fitted = row("one", "b", 1.0, 1.0).on(Basis::Fitted);
        let board = Scoreboard { rows: vec![row("one", "a", 1.0, 2.0), fitted] };
        assert_eq!(
            board.summary(),
            "0 of 1 quantity in 1 experiment within tolerance, 1 not; 1 fitted, not counted"
        );
        assert_eq!(board.rows[1].verdict(), "fitted");
    }
}
