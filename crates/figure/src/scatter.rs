//! Scatter plots of named points, one panel per group: for the mixes of 2007, Fig. 5, relative to a baseline
//! policy at (1, 1).
//!
//! Every panel has the same axes and shows the other groups' points faintly behind its own. Names are beside
//! their points if they cover nothing there. A name without room nearby moves away and gets a line.

use crate::FigureError;
use crate::axis::{Axis, BOTTOM_PX, HEADING_PX, LEFT_PX, Panel, TOP_PX, heading};
use crate::canvas::{Anchor, Canvas, NAME_PX, Place, Rect, TICK_PX, Type, draw, text_width};
use crate::theme::{FAINT, INK, Look, MUTED, Words, looks};

/// A named point.
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    /// Its name in the figure.
    pub name: String,
    /// Position along the axis below.
    pub x: f64,
    /// Position along the axis at the left.
    pub y: f64,
}

/// Points of one policy.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// The policy.
    pub name: String,
    /// Its points.
    pub dots: Vec<Dot>,
}

/// The figure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scatter {
    /// The text above the figure.
    pub title: String,
    /// A description for blind readers.
    pub description: String,
    /// The axis below.
    pub x: Axis,
    /// The axis at the left.
    pub y: Axis,
    /// The policies.
    pub groups: Vec<Group>,
    /// The policy that all values are relative to. Lines at 1 on both axes have its name.
    pub baseline: Option<String>,
}

const WIDTH: f64 = 900.0;
const DOT_PX: f64 = 4.6;
const CONTEXT_PX: f64 = 2.4;

impl Scatter {
    /// The figure as SVG.
    ///
    /// # Errors
    /// [`FigureError::Draw`] if the backend fails.
    pub fn svg(&self) -> Result<String, FigureError> {
        let columns = self.groups.len().clamp(1, 2);
        let rows = self.groups.len().div_ceil(columns).max(1);
        let plot_px = if columns == 1 { 420.0 } else { 330.0 };
        let cell = (WIDTH / columns as f64, TOP_PX + plot_px + BOTTOM_PX + 8.0);
        let names: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
        let looks = looks(&names);
        let words = Words { title: &self.title, description: &self.description };
        draw((WIDTH, HEADING_PX + cell.1 * rows as f64), words, |canvas| {
            heading(canvas, &self.title, WIDTH);
            for index in 0..self.groups.len() {
                let (left, row) = ((index % columns) as f64 * cell.0, (index / columns) as f64);
                let top = HEADING_PX + row * cell.1 + TOP_PX;
                let rect =
                    Rect { left: left + LEFT_PX, top, right: left + cell.0 - 16.0, bottom: top + plot_px };
                self.paint(canvas, rect, index, &looks);
            }
        })
    }

    fn paint(&self, canvas: &Canvas<'_>, rect: Rect, index: usize, looks: &[Look]) {
        let look = looks[index];
        let dots = || self.groups.iter().flat_map(|group| &group.dots);
        let one = self.baseline.iter().map(|_| 1.0);
        let panel = Panel {
            rect,
            x: self.x.span(dots().map(|dot| dot.x).chain(one.clone()), rect.width()),
            y: self.y.span(dots().map(|dot| dot.y).chain(one), rect.height()),
        };
        let group = &self.groups[index];
        panel.draw_y(canvas, &self.y.label);
        panel.draw_x(canvas, &self.x.label);
        canvas.marker((rect.left + 5.0, rect.top - 13.0), DOT_PX, look.marker, look.colour);
        canvas.text(
            (rect.left + 16.0, rect.top - 13.0),
            &group.name,
            Type::new(NAME_PX, INK, Anchor::Left).bold(),
        );
        let mut taken = self.draw_baseline(canvas, &panel);
        let seen = |group: &Group| -> Vec<(Place, String)> {
            let shown = group.dots.iter().filter(|dot| panel.shows(dot.x, dot.y));
            shown.map(|dot| (panel.place(dot.x, dot.y), dot.name.clone())).collect()
        };
        for (other, group) in self.groups.iter().enumerate().filter(|(other, _)| *other != index) {
            for (at, _) in seen(group) {
                canvas.marker(at, CONTEXT_PX, looks[other].marker, FAINT);
                taken.push(around(at, CONTEXT_PX));
            }
        }
        let own = seen(group);
        taken.extend(own.iter().map(|(at, _)| around(*at, DOT_PX + 1.0)));
        for (at, name) in &own {
            taken.push(put_name(canvas, rect, *at, name, &taken));
        }
        own.iter().for_each(|(at, _)| canvas.marker(*at, DOT_PX, look.marker, look.colour));
        panel.draw_frame(canvas);
    }

    /// Draws the lines at 1, with the baseline's name above the panel. Returns the areas that names must not
    /// cover.
    fn draw_baseline(&self, canvas: &Canvas<'_>, panel: &Panel) -> Vec<Rect> {
        let Some(name) = self.baseline.as_ref().filter(|_| panel.shows(1.0, 1.0)) else { return Vec::new() };
        let Rect { left, top, right, bottom } = panel.rect;
        let (x, y) = panel.place(1.0, 1.0);
        canvas.dashed(&[(left, y), (right, y)], MUTED, 1.2, Some((4, 3)));
        canvas.dashed(&[(x, top), (x, bottom)], MUTED, 1.2, Some((4, 3)));
        let set = Type::new(TICK_PX, MUTED, Anchor::Right);
        canvas.text((right, top - 13.0), &format!("dashed: {name} = 1"), set);
        let across = Rect { left, top: y - 1.0, right, bottom: y + 1.0 };
        vec![across, Rect { left: x - 1.0, top, right: x + 1.0, bottom }]
    }
}

fn around((x, y): Place, px: f64) -> Rect {
    Rect { left: x - px, top: y - px, right: x + px, bottom: y + px }
}

/// Draws a name near its point, outside the taken areas and inside the panel; returns its rectangle.
fn put_name(canvas: &Canvas<'_>, inside: Rect, (x, y): Place, name: &str, taken: &[Rect]) -> Rect {
    let half = text_width(name, TICK_PX) / 2.0;
    let spot = |distance: f64, (dx, dy): (f64, f64)| {
        let centre = (x + dx * (distance + half), y + dy * (distance + 3.0));
        let rect = Rect {
            left: centre.0 - half,
            top: centre.1 - TICK_PX * 0.55,
            right: centre.0 + half,
            bottom: centre.1 + TICK_PX * 0.55,
        };
        (centre, rect, distance)
    };
    const SIDES: [(f64, f64); 8] = [
        (1.0, 0.0),
        (-1.0, 0.0),
        (0.0, -1.0),
        (0.0, 1.0),
        (0.75, -0.8),
        (0.75, 0.8),
        (-0.75, -0.8),
        (-0.75, 0.8),
    ];
    let spots = (0..9).flat_map(|ring| SIDES.map(|side| spot(8.0 + 9.0 * f64::from(ring), side)));
    let free = |rect: &Rect| inside.holds(rect) && !taken.iter().any(|other| other.overlaps(rect));
    let (centre, rect, distance) =
        spots.into_iter().find(|(_, rect, _)| free(rect)).unwrap_or_else(|| spot(8.0, SIDES[0]));
    if distance > 8.0 {
        let end = (centre.0.clamp(x.min(rect.right), x.max(rect.left)), centre.1);
        canvas.line(&[(x, y), (end.0.clamp(rect.left, rect.right), end.1)], FAINT, 1.0);
    }
    canvas.text(centre, name, Type::new(TICK_PX, INK, Anchor::Middle));
    rect
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawn_texts;

    #[test]
    fn every_group_and_point_is_named() {
        let dot = |n: u32| Dot { name: format!("SF-{n}"), x: 1.0 + f64::from(n) / 9.0, y: 2.0 };
        let group = |name: &str| Group { name: name.to_owned(), dots: (0..15).map(dot).collect() };
        let figure = Scatter {
            title: "mixes".to_owned(),
            x: Axis::log("stream time"),
            y: Axis::log("latency"),
            groups: vec![group("normal"), group("<attach>"), group("elevator")],
            baseline: Some("relevance".to_owned()),
            ..Scatter::default()
        };
        let svg = figure.svg().unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts = drawn_texts(&document);
        assert!(["normal", "<attach>", "elevator"].iter().all(|name| texts.contains(name)));
        assert_eq!(texts.iter().filter(|text| **text == "SF-7").count(), 3);
        assert!(roxmltree::Document::parse(&Scatter::default().svg().unwrap()).is_ok());
    }
}
