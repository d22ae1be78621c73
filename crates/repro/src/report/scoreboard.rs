//! The scoreboard: the paper's values beside the measured ones, and whether they agree.
//!
//! The JSON form is that of `coscan repro --json`; the text form is for a terminal. The scoreboard keeps the
//! order of its rows and judges only the ratio of two numbers.

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
    /// The paper's value.
    pub paper: f64,
    /// The median over seeds.
    pub measured: f64,
    /// Lowest and highest value of the spread, in the unit of `measured`; the host defines the spread.
    pub spread: (f64, f64),
    /// The number of seeds of the median.
    pub seeds: u32,
    /// The tolerated distance of `measured` from `paper`, as a share of `paper`.
    pub tolerance: f64,
    /// True if the distance is within the tolerance.
    pub within: bool,
    /// The basis of the paper's value.
    pub basis: Basis,
    /// True if the row counts: false if a parameter was fitted to it.
    pub judged: bool,
    /// An explanation, or empty.
    pub note: String,
}

impl Row {
    /// A judged row with a stated value of the paper. Its value is the median of the measurements, its spread
    /// their range.
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

    /// A judged row with a stated value of the paper. Its value is the median over seeds, its spread the
    /// middle half.
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

    /// Measured over paper; `None` if the paper's value is zero or either is NaN.
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

    /// The row with `within` computed from its numbers. The distance between measured and paper's value must
    /// be at most `tolerance` times the paper's value, or at most `tolerance` if that value is zero.
    pub fn judged(mut self) -> Self {
        let scale = if self.paper == 0.0 { 1.0 } else { self.paper.abs() };
        // Rounding in the last digit of the subtraction must not decide.
        self.within = (self.measured - self.paper).abs() <= self.tolerance * scale * (1.0 + 1e-9);
        self
    }

    /// The agreement with the paper, in words.
    pub fn verdict(&self) -> &'static str {
        match (self.judged, self.within) {
            (false, _) => "fitted",
            (true, true) => "✓ within",
            (true, false) => "✗ not within",
        }
    }
}

/// All rows, grouped by experiment in the order of their addition.
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

    /// One line: the number of quantities that agree, that do not, and that do not count because a parameter
    /// was fitted to them.
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

    /// The scoreboard as text for a terminal at most `columns` characters wide. Notes (one per line, not
    /// wrapped) and the summary are below.
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
    /// The cells of a table after the experiment's name: quantity, paper, measured, spread, ratio, tolerance,
    /// basis, verdict, note.
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
