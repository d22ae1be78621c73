//! The probability that a randomly filled buffer holds a useful chunk: 2007, formula 1 and Fig. 2, beside a
//! simulation that draws buffer contents.
//!
//! A table has `chunks` chunks, a query needs some of them, and a buffer holds some others. The question is
//! the probability that the two sets meet. The draws come from a seed. The buffer is random by definition, so
//! this says nothing about any policy.

use coscan_figure::axis::{Axis, number};
use coscan_figure::line::{Draw, LineChart, LinePanel, Point, Series};
use coscan_figure::theme::look;
use coscan_sim::scenario::Basis;

use crate::error::ReproError;
use crate::report::{Block, Finding, Row, Section};

/// Buffers drawn per point.
const DRAWS: u32 = 4000;

pub(crate) fn find() -> Result<Finding, ReproError> {
    let question = ReuseQuestion::paper(DRAWS, 1);
    let drawn = curves(&question);
    let svg = chart(question.chunks, &drawn).svg()?;
    let rows = drawn.iter().map(|curve| {
        let apart = curve.simulated.iter().filter_map(|(needed, share)| {
            let formula = curve.formula.iter().find(|(n, _)| n == needed)?.1;
            Some((share - formula).abs())
        });
        let apart = apart.fold(0.0, f64::max);
        let quantity = format!("largest difference to formula 1, {} of 100 chunks buffered", curve.buffered);
        let note = "the paper's formula against draws of the same model".to_owned();
        let row = Row::of_median("scan07-fig2", quantity, 0.0, &[apart], 1, 0.03);
        Row { note, ..row.on(Basis::Input) }
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

/// The curves of one buffer size.
#[derive(Debug, Clone, PartialEq)]
struct ReuseCurve {
    /// Chunks the buffer holds.
    buffered: u32,
    /// Chunks needed and the probability by formula 1, for every need from none to the whole table.
    formula: Vec<(u32, f64)>,
    /// Chunks needed and the share of draws with a useful chunk.
    simulated: Vec<(u32, f64)>,
}

/// The parameters of the computation.
#[derive(Debug, Clone, PartialEq)]
struct ReuseQuestion {
    /// Chunks of the table; the paper's figure has 100.
    chunks: u32,
    /// Chunks in the buffer, one curve each.
    buffered: Vec<u32>,
    /// Buffers drawn for each simulated point.
    draws: u32,
    seed: u64,
}

impl ReuseQuestion {
    /// The sizes of the paper's Fig. 2.
    fn paper(draws: u32, seed: u64) -> Self {
        ReuseQuestion { chunks: 100, buffered: vec![50, 20, 10, 5, 1], draws, seed }
    }
}

/// Formula 1: the probability that a buffer of `buffered` random chunks out of `chunks` holds at least one of
/// the `needed` ones. Cost: one step per buffered chunk. Sizes above `chunks` count as `chunks`.
fn probability(chunks: u32, needed: u32, buffered: u32) -> f64 {
    let (needed, buffered) = (needed.min(chunks), buffered.min(chunks));
    let misses = (0..buffered)
        .map(|drawn| f64::from((chunks - needed).saturating_sub(drawn)) / f64::from(chunks - drawn));
    1.0 - misses.product::<f64>()
}

/// Computes the curves. The sizes must be possible: a table with chunks, buffers no larger than it, and
/// draws.
fn curves(question: &ReuseQuestion) -> Vec<ReuseCurve> {
    let ReuseQuestion { chunks, draws, .. } = *question;
    let mut random = fastrand::Rng::with_seed(question.seed);
    let step = (chunks / 20).max(1);
    let curve = |buffered: &u32| ReuseCurve {
        buffered: *buffered,
        formula: (0..=chunks).map(|needed| (needed, probability(chunks, needed, *buffered))).collect(),
        simulated: (step..=chunks)
            .step_by(step as usize)
            .map(|needed| (needed, simulate(&mut random, chunks, needed, *buffered, draws)))
            .collect(),
    };
    question.buffered.iter().map(curve).collect()
}

/// The share of `draws` random buffers that hold one of the first `needed` chunks.
fn simulate(random: &mut fastrand::Rng, chunks: u32, needed: u32, buffered: u32, draws: u32) -> f64 {
    let mut deck: Vec<u32> = (0..chunks).collect();
    let useful = (0..draws).filter(|_| {
        // The first cards of a shuffle; the initial order of the deck does not matter.
        for place in 0..buffered as usize {
            let other = random.usize(place..deck.len());
            deck.swap(place, other);
        }
        deck[..buffered as usize].iter().any(|chunk| *chunk < needed)
    });
    useful.count() as f64 / f64::from(draws)
}

fn chart(chunks: u32, curves: &[ReuseCurve]) -> LineChart {
    let exact = |points: &[(u32, f64)]| points.iter().map(|(x, y)| Point::exact(f64::from(*x), *y)).collect();
    let share = |buffered: u32| 100.0 * f64::from(buffered) / f64::from(chunks);
    let pair = |(place, curve): (usize, &ReuseCurve)| {
        let name = format!("{}% buffered", number(share(curve.buffered)));
        let points = |name, points, draw| Series { name, points, draw, look: Some(look(place)) };
        let simulated = points(name.clone(), exact(&curve.simulated), Draw::Markers);
        [points(name, exact(&curve.formula), Draw::Line), simulated]
    };
    LineChart {
        title: "Probability of finding a useful chunk in a random buffer".to_owned(),
        description: "Lines are formula 1 of the 2007 paper, markers are drawn buffers.".to_owned(),
        panels: vec![LinePanel {
            title: "lines: formula 1; markers: share of drawn buffers".to_owned(),
            x: Axis::linear(format!("chunks needed by a query (of {chunks})")).range(0.0, f64::from(chunks)),
            y: Axis::linear("probability").range(0.0, 1.0),
            series: curves.iter().enumerate().flat_map(pair).collect(),
        }],
        columns: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_meets_its_limits_and_the_papers_example() {
        assert_eq!(probability(100, 0, 10), 0.0);
        assert_eq!(probability(100, 100, 1), 1.0);
        assert_eq!(probability(100, 10, 0), 0.0);
        assert!((probability(100, 20, 1) - 0.2).abs() < 1e-12);
        // "over 50% for a 10% scan with a buffer pool holding 10% of the relation"
        assert!((0.5..0.7).contains(&probability(100, 10, 10)));
        assert_eq!(probability(100, 60, 50), 1.0, "they must meet");
    }

    #[test]
    fn drawn_buffers_agree_with_the_formula() {
        let question = ReuseQuestion::paper(4000, 7);
        let drawn = curves(&question);
        let svg = chart(question.chunks, &drawn).svg().unwrap();
        for curve in &drawn {
            for (needed, share) in &curve.simulated {
                let expected = probability(100, *needed, curve.buffered);
                // Five standard deviations of a share of 4000 draws.
                assert!(
                    (share - expected).abs() < 0.04,
                    "{needed} of {}: {share} {expected}",
                    curve.buffered
                );
            }
        }
        assert!(roxmltree::Document::parse(&svg).is_ok() && svg.matches("50% buffered").count() == 1);
        assert_eq!(drawn, curves(&question), "the seed decides");
    }
}
