//! Chunk loads over time, one panel per policy, after 2007, Fig. 4. A dot is a first load of a chunk, a cross
//! a repeated one.
//!
//! The figure is made from the same [`Timeline`] as the lanes, but suits hundreds of chunks and thousands of
//! loads.

use std::collections::BTreeSet;

use crate::FigureError;
use crate::axis::{
    Axis, BOTTOM_PX, Entry, HEADING_PX, LEFT_PX, Panel, TOP_PX, heading, legend, legend_height,
};
use crate::canvas::{Canvas, Rect, draw};
use crate::theme::{Look, Marker, Words, look};
use crate::timeline::Timeline;

const WIDTH: f64 = 900.0;
const PLOT_PX: f64 = 190.0;

/// Draws one panel per run, all with the same axes, so that they can be compared.
///
/// # Errors
/// [`FigureError::Draw`] if the backend fails.
pub fn svg(title: &str, description: &str, runs: &[Timeline]) -> Result<String, FigureError> {
    let columns = runs.len().clamp(1, 2);
    let rows = runs.len().div_ceil(columns).max(1);
    let entry = |name: &str, look| Entry { name: name.to_owned(), look, line: false, marker: true };
    let entries = [entry("a chunk is loaded", marks().0), entry("it is loaded again", marks().1)];
    let top = HEADING_PX + legend_height(&entries, WIDTH);
    let cell = (WIDTH / columns as f64, TOP_PX + PLOT_PX + BOTTOM_PX + 6.0);
    let end_s = runs.iter().map(|run| run.end_s).fold(0.0, f64::max);
    let chunks = runs.iter().map(|run| run.chunks).max().unwrap_or(0).max(1);
    draw((WIDTH, top + cell.1 * rows as f64), Words { title, description }, |canvas| {
        heading(canvas, title, WIDTH);
        legend(canvas, &entries, HEADING_PX, WIDTH);
        for (index, run) in runs.iter().enumerate() {
            let left = (index % columns) as f64 * cell.0;
            let top = top + (index / columns) as f64 * cell.1 + TOP_PX;
            let rect = Rect { left: left + LEFT_PX, top, right: left + cell.0 - 18.0, bottom: top + PLOT_PX };
            let x = Axis::linear("time (s)").span([end_s], rect.width());
            let y = Axis::linear("chunk").range(0.0, f64::from(chunks)).span([], rect.height());
            paint(canvas, run, &Panel { rect, x, y });
        }
    })
}

/// The looks of a first load and of a repeated one.
fn marks() -> (Look, Look) {
    (look(0), Look { marker: Marker::Cross, ..look(1) })
}

fn paint(canvas: &Canvas<'_>, run: &Timeline, panel: &Panel) {
    panel.draw_name(canvas, &format!("{}: {} loads, {:.1} s", run.policy, run.reads.len(), run.end_s));
    panel.draw_y(canvas, "chunk");
    panel.draw_x(canvas, "time (s)");
    let mut loaded = BTreeSet::new();
    for read in &run.reads {
        let (seen, first) = ((read.start_s, f64::from(read.chunk)), loaded.insert(read.chunk));
        if panel.shows(seen.0, seen.1) {
            let (look, px) = if first { (marks().0, 1.3) } else { (marks().1, 1.8) };
            canvas.marker(panel.place(seen.0, seen.1), px, look.marker, look.colour);
        }
    }
    panel.draw_frame(canvas);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::ChunkSpan;

    #[test]
    fn first_loads_are_dots_and_others_crosses() {
        let read = |chunk, start_s| ChunkSpan { chunk, start_s, end_s: start_s + 0.1 };
        let run = Timeline {
            policy: "normal".to_owned(),
            chunks: 3,
            end_s: 4.0,
            reads: vec![read(0, 0.0), read(1, 1.0), read(0, 2.0)],
            ..Timeline::default()
        };
        let svg = svg("loads <1>", "", &[run.clone(), run]).unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        // Two runs of two first loads, and the legend.
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("circle")).count(), 5);
        assert!(svg.contains("normal: 3 loads, 4.0 s") && svg.contains("it is loaded again"));
        assert!(roxmltree::Document::parse(&super::svg("none", "", &[]).unwrap()).is_ok());
    }
}
