//! 2007, Fig. 2: the probability that a random buffer holds something useful, by formula 1 and by drawing
//! buffers.

use super::{Finding, ReproError};
use crate::figure::reuse::{ReuseQuestion, reuse};
use crate::report::{Block, Row, Section};

/// Buffers drawn per point.
const DRAWS: u32 = 4000;

pub(super) fn find() -> Result<Finding, ReproError> {
    let (curves, svg) = reuse(&ReuseQuestion::paper(DRAWS, 1))?;
    let rows = curves.iter().map(|curve| {
        let apart = curve.simulated.iter().filter_map(|(needed, share)| {
            let formula = curve.formula.iter().find(|(n, _)| n == needed)?.1;
            Some((share - formula).abs())
        });
        let apart = apart.fold(0.0, f64::max);
        let row = Row {
            experiment: "scan07-fig2".to_owned(),
            quantity: format!("largest difference to formula 1, {} of 100 chunks buffered", curve.buffered),
            paper: 0.0,
            measured: apart,
            spread: (apart, apart),
            seeds: 1,
            tolerance: 0.03,
            within: false,
            note: String::new(),
        };
        row.judged()
    });
    let text = format!(
        "A scan that takes chunks in any order finds something useful in a randomly filled buffer with the \
         probability of formula 1; one that must have a certain chunk next finds it with the share of the \
         table that is buffered. Markers: {DRAWS} buffers drawn per point."
    );
    let section = Section {
        experiment: "scan07-fig2".to_owned(),
        title: "Reuse probability (2007, Fig. 2)".to_owned(),
        blocks: vec![
            Block::Text(text),
            Block::Figure { caption: "Probability of finding a useful chunk".to_owned(), svg },
        ],
    };
    Ok(Finding { rows: rows.collect(), section })
}
