//! Grouped bars: one group per query or quantity, one bar per policy, with the spread over seeds and the
//! paper's value beside it.
//!
//! A series is recognised by its position in the group, its colour and the marker at the foot of its bars.
//! The chart neither sorts nor stacks.

use crate::FigureError;
use crate::axis::{
    Axis, BOTTOM_PX, Entry, HEADING_PX, LEFT_PX, Panel, Scale, Span, heading, legend, legend_height,
};
use crate::canvas::{Anchor, Canvas, NAME_PX, Rect, SAMPLE_PX, Type, draw, shortened};
use crate::theme::{INK, MUTED, Marker, PAPER, Words, looks};

/// One bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// The median over seeds.
    pub value: f64,
    /// Lowest and highest seed; equal to `value` without spread.
    pub spread: (f64, f64),
    /// The paper's value.
    pub paper: Option<f64>,
}

/// The bars of one policy, one for each group; `None` if it has no value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BarSeries {
    /// The policy.
    pub name: String,
    /// One for each group.
    pub bars: Vec<Option<Bar>>,
}

/// The figure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupedBars {
    /// The text above the figure.
    pub title: String,
    /// A description for blind readers.
    pub description: String,
    /// The quantity of a bar's height.
    pub y: Axis,
    /// Names of the groups, from left to right.
    pub groups: Vec<String>,
    /// The policies, in the order of their bars.
    pub series: Vec<BarSeries>,
}

const WIDTH: f64 = 900.0;
const PLOT_PX: f64 = 300.0;
const PAPER_NAME: &str = "the paper's value";

impl GroupedBars {
    /// The figure as SVG.
    ///
    /// # Errors
    /// [`FigureError::Draw`] if the backend fails.
    pub fn svg(&self) -> Result<String, FigureError> {
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        let entry =
            |(name, look): (&&str, _)| Entry { name: (*name).to_owned(), look, line: false, marker: true };
        let entries: Vec<Entry> = names.iter().zip(looks(&names)).map(entry).collect();
        let legend_px = legend_height(&entries, WIDTH) + if self.has_paper() { 21.0 } else { 0.0 };
        let top = HEADING_PX + legend_px + 14.0;
        let rect = Rect { left: LEFT_PX, top, right: WIDTH - 16.0, bottom: top + PLOT_PX };
        let words = Words { title: &self.title, description: &self.description };
        draw((WIDTH, rect.bottom + BOTTOM_PX - 8.0), words, |canvas| {
            heading(canvas, &self.title, WIDTH);
            legend(canvas, &entries, HEADING_PX, WIDTH);
            if self.has_paper() {
                let y = HEADING_PX + legend_px - 10.0;
                canvas.line(&[(20.0, y), (20.0 + SAMPLE_PX - 8.0, y)], INK, 2.4);
                canvas.text((22.0 + SAMPLE_PX, y), PAPER_NAME, Type::new(NAME_PX, INK, Anchor::Left));
            }
            self.paint(canvas, rect, &entries);
        })
    }

    fn has_paper(&self) -> bool {
        self.bars().any(|bar| bar.paper.is_some())
    }

    fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.series.iter().flat_map(|series| series.bars.iter().flatten())
    }

    fn paint(&self, canvas: &Canvas<'_>, rect: Rect, entries: &[Entry]) {
        let values: Vec<f64> = self
            .bars()
            .flat_map(|bar| [bar.value, bar.spread.0, bar.spread.1].into_iter().chain(bar.paper))
            .collect();
        let y = axis_for(&self.y, &values).span(values, rect.height());
        let x: Span =
            Axis::linear("").range(0.0, self.groups.len().max(1) as f64).ticks(vec![]).span([], 1.0);
        let panel = Panel { rect, x, y };
        panel.draw_y(canvas, &self.y.label);
        let group_px = rect.width() / self.groups.len().max(1) as f64;
        let bar_px = group_px * 0.8 / self.series.len().max(1) as f64;
        for (group, name) in self.groups.iter().enumerate() {
            let left = rect.left + group as f64 * group_px;
            let name = shortened(name, NAME_PX, group_px - 4.0);
            let set = Type::new(NAME_PX, INK, Anchor::Middle);
            canvas.text((left + group_px / 2.0, rect.bottom + 16.0), &name, set);
            for (index, (series, entry)) in self.series.iter().zip(entries).enumerate() {
                if let Some(bar) = series.bars.get(group).copied().flatten() {
                    let start = left + group_px * 0.1 + index as f64 * bar_px;
                    paint_bar(canvas, &panel, (start, bar_px), bar, entry);
                }
            }
        }
        panel.draw_frame(canvas);
    }
}

fn paint_bar(canvas: &Canvas<'_>, panel: &Panel, (start, wide): (f64, f64), bar: Bar, entry: &Entry) {
    if !bar.value.is_finite() {
        return;
    }
    let height = |value: f64| panel.place(0.0, value).1;
    let rect = Rect {
        left: start + 0.5,
        top: height(bar.value),
        right: start + wide - 0.5,
        bottom: panel.rect.bottom,
    };
    canvas.bar(rect, entry.look.colour, 1.0);
    let middle = start + wide / 2.0;
    let size = (wide * 0.28).min(5.0);
    if rect.height() > size * 3.5 && entry.look.marker != Marker::Ring {
        canvas.marker((middle, rect.bottom - size * 1.6), size, entry.look.marker, PAPER);
    }
    let (low, high) = bar.spread;
    if low < high && low.is_finite() && high.is_finite() {
        canvas.line(&[(middle, height(low)), (middle, height(high))], MUTED, 1.3);
    }
    if let Some(paper) = bar.paper.filter(|value| panel.y.shows(*value)) {
        let y = height(paper);
        canvas.line(&[(start, y), (start + wide, y)], PAPER, 5.0);
        canvas.line(&[(start, y), (start + wide, y)], INK, 2.4);
    }
}

/// The axis for the values. On a logarithmic axis bars stand on the power of ten below the least value, so
/// that every bar is visible.
fn axis_for(axis: &Axis, values: &[f64]) -> Axis {
    let positive = || values.iter().copied().filter(|value| value.is_finite() && *value > 0.0);
    let (least, most) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
    match (axis.scale, axis.range) {
        (Scale::Log, None) if least <= most => {
            axis.clone().range(10f64.powf((least / 1.2).log10().floor()), most * 1.15)
        }
        _ => axis.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawn_texts;

    #[test]
    fn every_bar_is_drawn_and_named() {
        let bar = |value| Some(Bar { value, spread: (value * 0.9, value * 1.1), paper: Some(value) });
        let figure = GroupedBars {
            title: "latency".to_owned(),
            y: Axis::log("seconds"),
            groups: vec!["F-01".to_owned(), "<F-10>".to_owned()],
            series: vec![
                BarSeries { name: "normal".to_owned(), bars: vec![bar(1.0), bar(20.0)] },
                BarSeries { name: "elevator".to_owned(), bars: vec![None, bar(5.0)] },
            ],
            ..GroupedBars::default()
        };
        let svg = figure.svg().unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts = drawn_texts(&document);
        assert!(["normal", "elevator", "F-01", "<F-10>", PAPER_NAME].iter().all(|name| texts.contains(name)));
        // The background and three bars.
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("rect")).count(), 4);
        let empty = GroupedBars::default().svg().unwrap();
        assert!(roxmltree::Document::parse(&empty).is_ok() && !empty.contains("NaN"));
    }
}
