//! The committed scoreboard, and departures from it.
//!
//! `experiments/baseline.json` is the reviewed output of `coscan repro --json`. The simulations are
//! deterministic: a figure changes only because the code changed. Rows that do not count are not compared.

use std::fmt;

use crate::report::{Row, Scoreboard};

/// The committed scoreboard.
static BASELINE: &str = include_str!("../experiments/baseline.json");

/// The tolerated relative change of a figure. The last digits of floating-point sums may differ between
/// machines; decisions may not.
const DRIFT: f64 = 0.02;

/// A judged row that differs from the committed one.
#[derive(Clone, Debug, PartialEq)]
pub struct Departure {
    experiment: String,
    quantity: String,
    how: How,
}

#[derive(Clone, Debug, PartialEq)]
enum How {
    Gone,
    NoLongerWithin { paper: f64, measured: f64 },
    Moved { from: f64, to: f64 },
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.experiment, self.quantity)?;
        match self.how {
            How::Gone => f.write_str("is not measured any more"),
            How::NoLongerWithin { paper, measured } => {
                write!(f, "was within its tolerance; now {measured} is too far from the paper's {paper}")
            }
            How::Moved { from, to } => write!(f, "moved from {from} to {to}"),
        }
    }
}

/// The committed scoreboard.
///
/// # Panics
/// If the file in the binary is not a scoreboard.
pub fn committed() -> Scoreboard {
    serde_json::from_str(BASELINE).expect("experiments/baseline.json is a scoreboard")
}

/// The judged rows of `baseline` that are missing or different in `now`; experiments that were not run are
/// left out.
pub fn departures(baseline: &Scoreboard, now: &Scoreboard) -> Vec<Departure> {
    let ran = |row: &&Row| now.rows.iter().any(|other| other.experiment == row.experiment);
    let committed = baseline.rows.iter().filter(|row| row.judged).filter(ran);
    committed
        .filter_map(|before| {
            let how = compare(before, find(now, before))?;
            Some(Departure { experiment: before.experiment.clone(), quantity: before.quantity.clone(), how })
        })
        .collect()
}

/// The judged rows of `now` that are missing in `baseline`.
pub fn uncommitted<'a>(baseline: &Scoreboard, now: &'a Scoreboard) -> Vec<&'a Row> {
    now.rows.iter().filter(|row| row.judged && find(baseline, row).is_none()).collect()
}

/// The row with the same name.
fn find<'a>(board: &'a Scoreboard, row: &Row) -> Option<&'a Row> {
    board.rows.iter().find(|other| (&other.experiment, &other.quantity) == (&row.experiment, &row.quantity))
}

fn compare(before: &Row, now: Option<&Row>) -> Option<How> {
    let Some(now) = now else { return Some(How::Gone) };
    if before.within && !now.within {
        return Some(How::NoLongerWithin { paper: now.paper, measured: now.measured });
    }
    let moved = (now.measured - before.measured).abs();
    (moved > DRIFT * before.measured.abs()).then_some(How::Moved { from: before.measured, to: now.measured })
}

#[cfg(test)]
mod tests {
    use super::*;
    use coscan_sim::scenario::Basis;

    fn row(experiment: &str, quantity: &str, measured: f64) -> Row {
        Row {
            experiment: experiment.to_owned(),
            quantity: quantity.to_owned(),
            paper: 1.0,
            measured,
            spread: (measured, measured),
            seeds: 1,
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

    fn told(before: Vec<Row>, now: Vec<Row>) -> Vec<String> {
        let departures = departures(&Scoreboard { rows: before }, &Scoreboard { rows: now });
        departures.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_judged_rows_of_experiments_that_ran_can_leave() {
        let before = vec![
            row("a", "x", 1.0),
            row("a", "y", 1.0).on(Basis::Fitted),
            row("b", "z", 1.0),
            row("a", "w", 3.0),
        ];
        assert!(told(before.clone(), before.clone()).is_empty());
        assert!(told(before.clone(), Vec::new()).is_empty(), "nothing was run");
        let now = vec![row("a", "x", 1.3), row("a", "w", 2.9)];
        let gone = "a x: was within its tolerance; now 1.3 is too far from the paper's 1";
        assert_eq!(told(before.clone(), now), [gone, "a w: moved from 3 to 2.9"]);
        let better = vec![row("a", "x", 1.01), row("a", "w", 3.0)];
        assert!(told(before.clone(), better).is_empty(), "a hundredth is no move");
        assert_eq!(told(before, vec![row("a", "x", 1.0)]), ["a w: is not measured any more"]);
    }

    #[test]
    fn what_is_not_committed_is_told_and_has_not_left() {
        let now = Scoreboard { rows: vec![row("a", "x", 1.0), row("a", "y", 1.0).on(Basis::Fitted)] };
        assert!(departures(&Scoreboard::default(), &now).is_empty());
        assert_eq!(uncommitted(&Scoreboard::default(), &now), [&now.rows[0]]);
        assert!(uncommitted(&now, &now).is_empty());
    }

    #[test]
    fn the_committed_scoreboard_knows_only_experiments_there_are() {
        let (known, committed) = (crate::names(), committed());
        assert!(committed.groups().iter().all(|(experiment, _)| known.contains(experiment)));
        assert!(committed.rows.iter().any(|row| row.judged));
    }

    #[test]
    fn every_committed_row_shows_a_sentence() {
        let committed = committed();
        let silent: Vec<&Row> = committed.rows.iter().filter(|row| row.sentence.is_empty()).collect();
        assert!(silent.is_empty(), "{silent:#?}");
    }
}
