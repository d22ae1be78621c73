//! The sheet for figures: lines, bars, bands, markers and text at positions in pixels.
//!
//! The sheet is a thin layer over plotters' SVG backend. The backend rounds positions to whole units. So the
//! sheet is drawn eight times larger and shown smaller, and curves stay smooth. The first error is kept and
//! returned at the end, so that drawing code need not handle errors. The sheet knows neither axes nor data.

use std::cell::RefCell;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::FigureError;
use crate::theme::{self, Colour, Dash, Look, Marker, PAPER, Words};

/// Units of the drawing per pixel.
const UNITS: f64 = 8.0;

/// plotters divides font sizes by this before it writes them.
const FONT_RATIO: f64 = 1.24;

/// Size of titles in pixels.
pub const TITLE_PX: f64 = 16.0;
/// Size of names of axes and panels in pixels.
pub const NAME_PX: f64 = 12.5;
/// Size of ticks and legends in pixels.
pub const TICK_PX: f64 = 11.5;

/// A place in pixels from the upper left corner.
pub type Place = (f64, f64);

/// A rectangle in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rect {
    /// The left edge.
    pub left: f64,
    /// The upper edge.
    pub top: f64,
    /// The right edge.
    pub right: f64,
    /// The lower edge.
    pub bottom: f64,
}

impl Rect {
    /// The width in pixels.
    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    /// The height in pixels.
    pub fn height(&self) -> f64 {
        self.bottom - self.top
    }

    /// True if the interiors intersect.
    pub fn overlaps(&self, other: &Rect) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// True if the other rectangle lies inside this one.
    pub fn holds(&self, other: &Rect) -> bool {
        self.left <= other.left
            && self.top <= other.top
            && self.right >= other.right
            && self.bottom >= other.bottom
    }
}

/// The alignment of a text to its place. Except for `Upward` it is centred vertically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// It begins at its place.
    Left,
    /// Its middle is at its place.
    Middle,
    /// It ends at its place.
    Right,
    /// Turned to read from bottom to top, centred on its place.
    Upward,
}

/// The typesetting of a text.
#[derive(Debug, Clone, Copy)]
pub struct Type {
    /// The size in pixels.
    pub px: f64,
    /// The colour.
    pub colour: Colour,
    /// The alignment to its place.
    pub anchor: Anchor,
    /// True if it is bold.
    pub bold: bool,
}

impl Type {
    /// Text that is not bold.
    pub fn new(px: f64, colour: Colour, anchor: Anchor) -> Self {
        Type { px, colour, anchor, bold: false }
    }

    /// The same in bold.
    pub fn bold(self) -> Self {
        Type { bold: true, ..self }
    }
}

/// Width of a line of text in pixels. It is a generous estimate, because the viewer chooses the font.
pub fn text_width(text: &str, px: f64) -> f64 {
    let em = |character: char| match character {
        'i' | 'j' | 'l' | 'I' | 't' | 'f' | 'r' | '.' | ',' | ':' | ';' | '|' | '\'' | ' ' | '(' | ')' => {
            0.36
        }
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.94,
        'A'..='Z' | '0'..='9' => 0.67,
        other if other as u32 > 0x2E80 => 1.05,
        _ => 0.6,
    };
    text.chars().map(em).sum::<f64>() * px
}

/// The text itself if it is at most `width` pixels wide, otherwise its beginning with an ellipsis.
pub fn shortened(text: &str, px: f64, width: f64) -> String {
    if text_width(text, px) <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    for character in text.chars() {
        short.push(character);
        if text_width(&short, px) + px > width {
            short.pop();
            break;
        }
    }
    short.push('…');
    short
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A sheet to draw on.
pub struct Canvas<'a> {
    area: Area<'a>,
    failed: RefCell<Option<String>>,
}

/// Draws a figure of `width` times `height` pixels and applies the theme.
///
/// # Errors
/// [`FigureError::Draw`] if the backend fails.
pub fn draw(
    (width, height): (f64, f64),
    words: Words<'_>,
    paint: impl FnOnce(&Canvas<'_>),
) -> Result<String, FigureError> {
    let mut svg = String::new();
    {
        let size = ((width * UNITS) as u32, (height * UNITS) as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let canvas = Canvas { area, failed: RefCell::new(None) };
        canvas.keep(canvas.area.fill(&PAPER));
        paint(&canvas);
        canvas.keep(canvas.area.present());
        if let Some(reason) = canvas.failed.into_inner() {
            return Err(FigureError::Draw { title: words.title.to_owned(), reason });
        }
    }
    Ok(theme::dress(&svg, width as u32, words))
}

fn units(px: f64) -> i32 {
    (px * UNITS).round() as i32
}

fn place((x, y): Place) -> (i32, i32) {
    (units(x), units(y))
}

impl Canvas<'_> {
    fn keep<E: std::fmt::Display>(&self, result: Result<(), E>) {
        if let Err(error) = result {
            self.failed.borrow_mut().get_or_insert_with(|| error.to_string());
        }
    }

    /// A line through `points`, `px` wide.
    pub fn line(&self, points: &[Place], colour: Colour, px: f64) {
        if points.len() > 1 {
            let path: Vec<_> = points.iter().copied().map(place).collect();
            self.keep(self.area.draw(&PathElement::new(path, colour.stroke_width(units(px) as u32))));
        }
    }

    /// A line with the given dash pattern.
    pub fn dashed(&self, points: &[Place], colour: Colour, px: f64, dash: Dash) {
        let Some((on, off)) = dash.filter(|_| points.len() > 1) else { return self.line(points, colour, px) };
        let path: Vec<_> = points.iter().copied().map(place).collect();
        let (on, off) = (units(f64::from(on)), units(f64::from(off)));
        let style = colour.stroke_width(units(px) as u32);
        self.keep(self.area.draw(&DashedPathElement::new(path, on as u32, off as u32, style)));
    }

    /// A filled rectangle; `opacity` from 0 to 1.
    pub fn bar(&self, rect: Rect, colour: Colour, opacity: f64) {
        let corners = [place((rect.left, rect.top)), place((rect.right, rect.bottom))];
        self.keep(self.area.draw(&Rectangle::new(corners, colour.mix(opacity).filled())));
    }

    /// A filled polygon; `opacity` from 0 to 1.
    pub fn polygon(&self, points: &[Place], colour: Colour, opacity: f64) {
        if points.len() > 2 {
            let path: Vec<_> = points.iter().copied().map(place).collect();
            self.keep(self.area.draw(&Polygon::new(path, colour.mix(opacity).filled())));
        }
    }

    /// A series' marker, `px` from its centre to its rim.
    pub fn marker(&self, (x, y): Place, px: f64, marker: Marker, colour: Colour) {
        let corners = |offsets: &[Place]| -> Vec<Place> {
            offsets.iter().map(|(dx, dy)| (x + dx * px, y + dy * px)).collect()
        };
        let fill = |offsets: &[Place]| self.polygon(&corners(offsets), colour, 1.0);
        let stroke = |from: Place, to: Place| self.line(&corners(&[from, to]), colour, px * 0.5);
        match marker {
            Marker::Circle => self.circle((x, y), px * 0.92, colour.filled()),
            Marker::Ring => self.circle((x, y), px * 0.85, colour.stroke_width(units(px * 0.45) as u32)),
            Marker::Square => fill(&[(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)]),
            Marker::Triangle => fill(&[(0.0, -1.1), (1.05, 0.8), (-1.05, 0.8)]),
            Marker::TriangleDown => fill(&[(0.0, 1.1), (1.05, -0.8), (-1.05, -0.8)]),
            Marker::Diamond => fill(&[(0.0, -1.2), (1.0, 0.0), (0.0, 1.2), (-1.0, 0.0)]),
            Marker::Cross => {
                stroke((-0.9, -0.9), (0.9, 0.9));
                stroke((-0.9, 0.9), (0.9, -0.9));
            }
            Marker::Plus => {
                stroke((-1.1, 0.0), (1.1, 0.0));
                stroke((0.0, -1.1), (0.0, 1.1));
            }
        }
    }

    fn circle(&self, centre: Place, px: f64, style: ShapeStyle) {
        self.keep(self.area.draw(&Circle::new(place(centre), units(px), style)));
    }

    /// A line of text. Characters that XML does not allow are left out.
    pub fn text(&self, at: Place, text: &str, set: Type) {
        let text: String = text.chars().filter(|character| theme::is_xml(*character)).collect();
        let style = if set.bold { FontStyle::Bold } else { FontStyle::Normal };
        let mut font = FontDesc::new(FontFamily::SansSerif, set.px * UNITS * FONT_RATIO, style);
        let side = match set.anchor {
            Anchor::Left => HPos::Left,
            Anchor::Right => HPos::Right,
            Anchor::Middle | Anchor::Upward => HPos::Center,
        };
        if set.anchor == Anchor::Upward {
            font = font.transform(FontTransform::Rotate270);
        }
        let style = TextStyle::from(font).color(&set.colour).pos(Pos::new(side, VPos::Center));
        self.keep(self.area.draw(&Text::new(text, place(at), style)));
    }

    /// The sample of a series before its name: a piece of its line and its marker.
    pub fn sample(&self, (x, y): Place, look: Look, line: bool, marker: bool) {
        if line {
            self.dashed(&[(x, y), (x + SAMPLE_PX, y)], look.colour, 2.0, look.dash);
        }
        if marker {
            self.marker((x + SAMPLE_PX / 2.0, y), 4.5, look.marker, look.colour);
        }
    }
}

/// Width of [`Canvas::sample`].
pub const SAMPLE_PX: f64 = 26.0;
