//! Line charts: medians with a band from the lowest to the highest seed, on linear or logarithmic axes, in
//! one panel or several side by side.
//!
//! A chart of one panel names its lines at their right ends; several panels share a legend above. The chart
//! draws only the given points: it neither smooths nor fits nor fills gaps.

use crate::FigureError;
use crate::axis::{
    Axis, BOTTOM_PX, Entry, HEADING_PX, LEFT_PX, Panel, TOP_PX, heading, legend, legend_height,
};
use crate::canvas::{Anchor, Canvas, NAME_PX, Place, Rect, SAMPLE_PX, Type, draw, text_width};
use crate::theme::{self, GRID, INK, Look, Words, looks};

/// A measured point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Position along the axis below.
    pub x: f64,
    /// The median over seeds.
    pub y: f64,
    /// Lowest and highest seed; equal to `y` without spread.
    pub spread: (f64, f64),
}

impl Point {
    /// A point without spread.
    pub fn exact(x: f64, y: f64) -> Self {
        Point { x, y, spread: (y, y) }
    }
}

/// The form of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Draw {
    /// A line with a marker at each point.
    #[default]
    Marked,
    /// A line alone, for many points or a formula.
    Line,
    /// Markers alone.
    Markers,
}

/// Points that belong together, in the order of `x`. Two series of one name share look and legend: for
/// example a formula as a line and its measurements as markers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// The points.
    pub points: Vec<Point>,
    /// As a line, as markers or as both.
    pub draw: Draw,
    /// By default the look of the name, see [`looks`].
    pub look: Option<Look>,
}

/// A pair of axes with series.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinePanel {
    /// The text above the panel.
    pub title: String,
    /// The axis below.
    pub x: Axis,
    /// The axis at the left.
    pub y: Axis,
    /// The series.
    pub series: Vec<Series>,
}

/// The figure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LineChart {
    /// The text above the figure.
    pub title: String,
    /// A description for blind readers.
    pub description: String,
    /// The panels, row by row.
    pub panels: Vec<LinePanel>,
    /// Panels in a row; at least one, at most the number of panels.
    pub columns: usize,
}

const WIDTH: f64 = 900.0;
const PLOT_PX: f64 = 250.0;
const LINE_GAP_PX: f64 = 17.0;

impl LineChart {
    /// The figure as SVG.
    ///
    /// # Errors
    /// [`FigureError::Draw`] if the backend fails.
    pub fn svg(&self) -> Result<String, FigureError> {
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let rows = self.panels.len().div_ceil(columns).max(1);
        let entries = self.entries();
        let direct = self.panels.len() == 1;
        let legend_px = if direct { 0.0 } else { legend_height(&entries, WIDTH) };
        let tall = if columns == 1 { PLOT_PX * 1.3 } else { PLOT_PX };
        let cell = (WIDTH / columns as f64, TOP_PX + tall + BOTTOM_PX + 8.0);
        let top = HEADING_PX + legend_px;
        let words = Words { title: &self.title, description: &self.description };
        draw((WIDTH, top + cell.1 * rows as f64), words, |canvas| {
            heading(canvas, &self.title, WIDTH);
            if !direct {
                legend(canvas, &entries, HEADING_PX, WIDTH);
            }
            let right_px = if direct { names_width(&entries) } else { 18.0 };
            for (index, panel) in self.panels.iter().enumerate() {
                let (left, top) =
                    ((index % columns) as f64 * cell.0, top + (index / columns) as f64 * cell.1);
                let rect = Rect {
                    left: left + LEFT_PX,
                    top: top + TOP_PX,
                    right: left + cell.0 - right_px,
                    bottom: top + TOP_PX + tall,
                };
                let drawn = paint(canvas, panel, rect, &entries);
                if direct {
                    name_lines(canvas, panel, &drawn, &entries);
                }
            }
        })
    }

    /// One entry for each name, in the order of appearance; series of one name share it.
    fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut wished: Vec<Option<Look>> = Vec::new();
        for series in self.panels.iter().flat_map(|panel| &panel.series) {
            let (line, marker) = (series.draw != Draw::Markers, series.draw != Draw::Line);
            match entries.iter_mut().find(|entry| entry.name == series.name) {
                Some(entry) => (entry.line, entry.marker) = (entry.line || line, entry.marker || marker),
                None => {
                    entries.push(Entry { name: series.name.clone(), look: theme::look(0), line, marker });
                    wished.push(series.look);
                }
            }
        }
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let given = looks(&names);
        for ((entry, given), wished) in entries.iter_mut().zip(given).zip(wished) {
            entry.look = wished.unwrap_or(given);
        }
        entries
    }
}

fn names_width(entries: &[Entry]) -> f64 {
    let widest = entries.iter().map(|entry| text_width(&entry.name, NAME_PX)).fold(0.0, f64::max);
    (widest + SAMPLE_PX + 30.0).clamp(18.0, WIDTH / 2.0)
}

fn paint(canvas: &Canvas<'_>, panel: &LinePanel, rect: Rect, entries: &[Entry]) -> Panel {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let x = panel.x.span(points().map(|point| point.x), rect.width());
    let y = panel.y.span(points().flat_map(|p| [p.y, p.spread.0, p.spread.1]), rect.height());
    let drawn = Panel { rect, x, y };
    drawn.draw_name(canvas, &panel.title);
    drawn.draw_y(canvas, &panel.y.label);
    drawn.draw_x(canvas, &panel.x.label);
    let look = |series: &Series| entries.iter().find(|entry| entry.name == series.name);
    let pairs = || panel.series.iter().filter_map(|series| Some((series, look(series)?)));
    for (series, entry) in pairs() {
        draw_band(canvas, &drawn, series, entry.look);
    }
    for (series, entry) in pairs() {
        let seen = series.points.iter().filter(|point| drawn.shows(point.x, point.y));
        let places: Vec<Place> = seen.map(|point| drawn.place(point.x, point.y)).collect();
        if series.draw != Draw::Markers {
            canvas.dashed(&places, entry.look.colour, 2.0, entry.look.dash);
        }
        if series.draw != Draw::Line {
            places.iter().for_each(|at| canvas.marker(*at, 4.2, entry.look.marker, entry.look.colour));
        }
    }
    drawn.draw_frame(canvas);
    drawn
}

fn draw_band(canvas: &Canvas<'_>, panel: &Panel, series: &Series, look: Look) {
    let spread: Vec<&Point> = series.points.iter().filter(|p| panel.shows(p.x, p.y)).collect();
    if spread.iter().any(|point| point.spread.0 < point.spread.1) {
        let upper = spread.iter().map(|point| panel.place(point.x, point.spread.1));
        let lower = spread.iter().rev().map(|point| panel.place(point.x, point.spread.0));
        canvas.polygon(&upper.chain(lower).collect::<Vec<_>>(), look.colour, 0.15);
    }
}

/// Draws names at the right, near the ends of their lines, without overlap.
fn name_lines(canvas: &Canvas<'_>, panel: &LinePanel, drawn: &Panel, entries: &[Entry]) {
    let end = |entry: &Entry| -> Place {
        let series = panel.series.iter().find(|series| series.name == entry.name);
        let seen = series.and_then(|s| s.points.iter().rev().find(|p| drawn.shows(p.x, p.y)));
        seen.map_or((drawn.rect.right, drawn.rect.bottom), |point| drawn.place(point.x, point.y))
    };
    let mut ends: Vec<(Place, &Entry)> = entries.iter().map(|entry| (end(entry), entry)).collect();
    ends.sort_by(|(one, _), (other, _)| one.1.total_cmp(&other.1));
    let wanted: Vec<f64> = ends.iter().map(|(at, _)| at.1).collect();
    let places = apart(&wanted, LINE_GAP_PX, drawn.rect.top, drawn.rect.bottom);
    for ((at, entry), y) in ends.iter().zip(places) {
        let x = drawn.rect.right + 14.0;
        canvas.line(&[(at.0 + 5.0, at.1), (x - 2.0, y)], GRID, 1.0);
        canvas.sample((x, y), entry.look, entry.line, entry.marker);
        canvas.text((x + SAMPLE_PX + 6.0, y), &entry.name, Type::new(NAME_PX, INK, Anchor::Left));
    }
}

/// Ascending places at least `gap` apart, near the ascending wanted ones, below `top`, and above `bottom` if
/// there is room.
fn apart(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut places = wanted.to_vec();
    for (left, place) in places.iter_mut().rev().enumerate() {
        *place = place.min(bottom - left as f64 * gap);
    }
    let mut least = top;
    for place in &mut places {
        *place = place.max(least);
        least = *place + gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawn_texts;

    fn chart(panels: usize, names: &[&str]) -> LineChart {
        let points = |k: usize| {
            (1..6).map(move |n| Point { x: n as f64, y: (n * k) as f64, spread: (n as f64, 30.0) })
        };
        let series = |(k, name): (usize, &&str)| Series {
            name: (*name).to_owned(),
            points: points(k + 1).collect(),
            ..Series::default()
        };
        let panel = LinePanel {
            title: "a < b".to_owned(),
            x: Axis::linear("n"),
            y: Axis::log("time (s)"),
            series: names.iter().enumerate().map(series).collect(),
        };
        LineChart {
            title: "A & B".to_owned(),
            description: String::new(),
            panels: vec![panel; panels],
            columns: 2,
        }
    }

    #[test]
    fn the_figure_is_well_formed_and_names_every_series() {
        let names = ["normal", "relevance", "<odd> & \"quoted\""];
        for panels in [0, 1, 3] {
            let svg = chart(panels, &names).svg().unwrap();
            let document = roxmltree::Document::parse(&svg).unwrap();
            let texts = drawn_texts(&document);
            for name in names.iter().filter(|_| panels > 0) {
                assert_eq!(texts.iter().filter(|text| *text == name).count(), 1, "{name} in {panels} panels");
            }
            assert!(texts.contains(&"A & B"));
            assert!(document.root_element().attribute("viewBox").is_some());
        }
    }

    #[test]
    fn series_without_points_or_with_impossible_ones_are_drawn_empty() {
        let mut odd = chart(1, &["normal", "attach"]);
        odd.panels[0].series[0].points.clear();
        odd.panels[0].series[1].points = vec![Point::exact(f64::NAN, 1.0), Point::exact(1.0, 0.0)];
        let svg = odd.svg().unwrap();
        assert!(!svg.contains("NaN") && svg.contains("attach"));
    }

    #[test]
    fn names_keep_their_distance() {
        assert_eq!(apart(&[10.0, 11.0, 90.0], 17.0, 0.0, 100.0), [10.0, 27.0, 90.0]);
        assert_eq!(apart(&[98.0, 99.0], 17.0, 0.0, 100.0), [83.0, 100.0]);
    }
}
