//! The scoreboard: the paper's values beside the measured ones, and whether they agree.
//!
//! The JSON form is that of `coscan repro --json`; the text form is for a terminal. The scoreboard keeps the
//! order of its rows and judges only the ratio of two numbers.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use coscan_sim::scenario::Basis;
use coscan_sim::statistics::{Spread, Summary};
use serde::{Deserialize, Serialize};

use coscan_figure::axis::number;

use crate::papers::Paper;

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
    /// True if the row counts: its basis is `stated` or `range`.
    pub judged: bool,
    /// The paper's sentence, or the cells of its table.
    #[serde(default)]
    pub sentence: String,
    /// Other values of fitted parameters that move the figure.
    #[serde(default)]
    pub tainted: Vec<Taint>,
    /// An explanation, or empty.
    pub note: String,
}

/// Another value of a fitted parameter, and its effect on a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Taint {
    /// The parameter and its other value, for example `seek 0 ms`.
    pub parameter: String,
    /// The relative change of the figure.
    pub change: f64,
    /// True if the row would be within its tolerance.
    pub within: bool,
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
            sentence: String::new(),
            tainted: Vec::new(),
            note: String::new(),
        };
        row.judged()
    }

    /// The row with the paper's sentence.
    pub fn saying(self, sentence: impl Into<String>) -> Self {
        Row { sentence: sentence.into(), ..self }
    }

    /// True if another value of a fitted parameter would change the verdict.
    pub fn hangs_on_a_fit(&self) -> bool {
        self.tainted.iter().any(|taint| taint.within != self.within)
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
            (false, true) => "(within)",
            (false, false) => "(not within)",
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

    /// One line: the number of quantities that agree, that do not, and that do not count.
    pub fn summary(&self) -> String {
        let judged: Vec<&Row> = self.rows.iter().filter(|row| row.judged).collect();
        let within = judged.iter().filter(|row| row.within).count();
        let experiments = self.groups().len();
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let others = match self.rows.len() - judged.len() {
            0 => String::new(),
            others => format!("; {others} not counted"),
        };
        let all = judged.len();
        format!(
            "{within} of {all} quantit{} in {experiments} experiment{} within tolerance, {} not{others}",
            if all == 1 { "y" } else { "ies" },
            plural(experiments),
            all - within
        )
    }

    /// The rows within their tolerance and all rows by paper and basis, as lines of a table below
    /// [`BY_PAPER`]. The last column counts the rows whose verdict another value of a fitted parameter would
    /// change. The last line is the sum of the rows that count.
    pub fn by_paper(&self) -> Vec<[String; 5]> {
        let line = |paper: &str, basis: &str, rows: &[&Row]| {
            let within = rows.iter().filter(|row| row.within).count();
            let counted = rows.iter().filter(|row| row.judged).count();
            let hanging = rows.iter().filter(|row| row.hangs_on_a_fit()).count();
            [
                paper.to_owned(),
                basis.to_owned(),
                format!("{within} of {}", rows.len()),
                counted.to_string(),
                hanging.to_string(),
            ]
        };
        let mut lines = Vec::new();
        for paper in Paper::ALL {
            for basis in Basis::ALL {
                let of = |row: &&Row| Paper::of(&row.experiment) == Some(paper) && row.basis == basis;
                let rows: Vec<&Row> = self.rows.iter().filter(of).collect();
                if !rows.is_empty() {
                    lines.push(line(paper.title(), &basis.to_string(), &rows));
                }
            }
        }
        let counted: Vec<&Row> = self.rows.iter().filter(|row| row.judged).collect();
        lines.push(line("all that count", "", &counted));
        lines
    }

    /// The scoreboard as text for a terminal at most `columns` characters wide. Below it are the paper's
    /// sentences with the notes (one row a line, not wrapped), the table by paper and basis, and the summary.
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
        let notes: String = self.rows.iter().filter_map(Row::about).collect();
        let mut papers = Table::new();
        papers.load_preset(presets::UTF8_BORDERS_ONLY);
        papers.set_header(BY_PAPER);
        papers.add_rows(self.by_paper());
        format!("{table}\n{notes}{papers}\n{}\n", self.summary())
    }
}

/// The header of [`Scoreboard::by_paper`].
pub const BY_PAPER: [&str; 5] = ["paper", "basis", "within", "counted", "hang on a fit"];

impl Row {
    /// The sentence, the effects of fitted parameters, and the note, on one line; `None` without any.
    fn about(&self) -> Option<String> {
        let quoted = match self.sentence.as_str() {
            "" => String::new(),
            sentence => format!("“{sentence}”"),
        };
        let parts = [quoted, self.taints(), self.note.clone()];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| format!("{} {}: {}\n", self.experiment, self.quantity, parts.join("; ")))
    }

    /// The effects of fitted parameters, in words; empty without any.
    pub fn taints(&self) -> String {
        let one = |taint: &Taint| {
            let verdict = match taint.within == self.within {
                true => "",
                false if taint.within => ", within",
                false => ", not within",
            };
            format!("{} {:+.0}%{verdict}", taint.parameter, taint.change * 100.0)
        };
        match self.tainted.as_slice() {
            [] => String::new(),
            all => format!("moved by {}", all.iter().map(one).collect::<Vec<_>>().join(", ")),
        }
    }

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
            sentence: String::new(),
            tainted: Vec::new(),
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
            "measured": 0.36, "spread": [0.34, 0.39], "seeds": 20, "tolerance": 0.25, "within": true, "basis": "stated", "judged": true,
            "sentence": "", "tainted": [], "note": "",
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
    fn only_stated_values_and_ranges_count() {
        let all = Basis::ALL.map(|basis| row("scan07-table2", "a", 1.0, 1.0).on(basis));
        let board = Scoreboard { rows: all.to_vec() };
        let judged: Vec<bool> = board.rows.iter().map(|row| row.judged).collect();
        assert_eq!(judged, [true, true, false, false, false]);
        assert_eq!(
            board.summary(),
            "2 of 2 quantities in 1 experiment within tolerance, 0 not; 3 not counted"
        );
        assert_eq!(board.rows[3].verdict(), "(within)");
    }

    #[test]
    fn the_last_table_counts_by_paper_and_basis() {
        let taint = Taint { parameter: "seek 0 ms".to_owned(), change: -0.5, within: false };
        let moved = Row { tainted: vec![taint], ..row("scan07-table2", "a", 1.0, 1.0) };
        let missed = row("lachesis", "b", 1.0, 2.0);
        let input = row("lachesis", "c", 1.0, 1.0).on(Basis::Input);
        let board = Scoreboard { rows: vec![moved, missed, input] };
        let lines = board.by_paper();
        assert_eq!(lines[0][1..], ["stated", "1 of 1", "1", "1"]);
        assert_eq!(lines[1][1..], ["stated", "0 of 1", "1", "0"]);
        assert_eq!(lines[2][1..], ["input", "1 of 1", "0", "0"]);
        assert_eq!(lines[3], ["all that count", "", "1 of 2", "2", "1"]);
        assert!(board.text(120).contains("moved by seek 0 ms -50%, not within"));
    }
}
