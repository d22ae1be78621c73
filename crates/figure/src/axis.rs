//! Axes: the mapping of values to positions, with ticks at round numbers, and the panel with grid and legend
//! that the charts share.
//!
//! An axis begins and ends at the extent of the data, unless set otherwise. Charts leave out values that an
//! axis cannot show (not finite, or not positive on a logarithmic axis); see [`Span::shows`].

use crate::canvas::{Anchor, Canvas, NAME_PX, Place, Rect, SAMPLE_PX, TICK_PX, TITLE_PX, Type, text_width};
use crate::theme::{GRID, INK, Look, MUTED};

/// The distribution of values along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Equal differences have equal distances.
    #[default]
    Linear,
    /// Equal ratios have equal distances; shows positive values only.
    Log,
}

/// The specification of an axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    /// The quantity, with its unit in brackets.
    pub label: String,
    /// The distribution of values along it.
    pub scale: Scale,
    /// Its beginning and end; by default the data's extent, from zero on a linear axis.
    pub range: Option<(f64, f64)>,
    /// The positions of ticks; by default at round numbers.
    pub ticks: Option<Vec<f64>>,
}

impl Axis {
    /// A linear axis with defaults for everything else.
    pub fn linear(label: impl Into<String>) -> Self {
        Axis { label: label.into(), ..Axis::default() }
    }

    /// A logarithmic axis with defaults for everything else.
    pub fn log(label: impl Into<String>) -> Self {
        Axis { label: label.into(), scale: Scale::Log, ..Axis::default() }
    }

    /// Sets the ticks: only these values.
    pub fn ticks(self, ticks: Vec<f64>) -> Self {
        Axis { ticks: Some(ticks), ..self }
    }

    /// Sets the range, independent of the data.
    pub fn range(self, from: f64, to: f64) -> Self {
        Axis { range: Some((from, to)), ..self }
    }

    /// The axis for these values. `room_px` is its length and limits the number of ticks.
    pub fn span(&self, values: impl IntoIterator<Item = f64>, room_px: f64) -> Span {
        let usable = |value: &f64| value.is_finite() && (self.scale == Scale::Linear || *value > 0.0);
        let (low, high) = values
            .into_iter()
            .filter(usable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let found =
            if low > high { (if self.scale == Scale::Log { 1.0 } else { 0.0 }, 1.0) } else { (low, high) };
        let (low, high) = self.range.filter(|(from, to)| usable(from) && usable(to) && from < to).unwrap_or(
            match self.scale {
                Scale::Linear => (found.0.min(0.0), found.1.max(found.0.min(0.0) + f64::MIN_POSITIVE) * 1.04),
                Scale::Log => (found.0 / 1.08, found.1 * 1.08),
            },
        );
        let high = if high - low > f64::EPSILON * high.abs() { high } else { low + 1.0 };
        let mut span = Span { scale: self.scale, low, high, ticks: Vec::new() };
        let most = (room_px / 56.0).clamp(2.0, 9.0);
        let ticks = self.ticks.clone().unwrap_or_else(|| match self.scale {
            Scale::Linear => linear_ticks(low, high, most),
            Scale::Log => log_ticks(low, high, most),
        });
        span.ticks = ticks.into_iter().filter(|tick| span.shows(*tick)).collect();
        span
    }
}

/// An axis with its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    scale: Scale,
    low: f64,
    high: f64,
    /// Positions of ticks, ascending unless given otherwise.
    pub ticks: Vec<f64>,
}

impl Span {
    /// True if the axis can show the value.
    pub fn shows(&self, value: f64) -> bool {
        let slack = (self.high - self.low) * 1e-9;
        value.is_finite() && value >= self.low - slack && value <= self.high + slack
    }

    /// The value's position as a share of the axis: 0 at its beginning, 1 at its end; clamped to this range.
    pub fn share(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        part.clamp(0.0, 1.0)
    }

    /// The least value of the axis: the foot of bars on a logarithmic axis.
    pub fn low(&self) -> f64 {
        self.low
    }
}

fn linear_ticks(low: f64, high: f64, most: f64) -> Vec<f64> {
    let rough = (high - low) / most;
    let unit = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * unit).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * unit);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last.min(first + 20)).map(|n| n as f64 * step).collect()
}

fn log_ticks(low: f64, high: f64, most: f64) -> Vec<f64> {
    const STEPS: [&[f64]; 4] = [
        &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
        &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
        &[1.0, 2.0, 5.0],
        &[1.0],
    ];
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let at = |steps: &[f64], every: i32| -> Vec<f64> {
        let decades = decades.clone().filter(|decade| decade.rem_euclid(every) == 0);
        let ticks = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
        ticks.filter(|tick| *tick >= low && *tick <= high).collect()
    };
    let mut choices = STEPS.iter().map(|steps| at(steps, 1)).chain((2..9).map(|every| at(&[1.0], every)));
    choices.find(|ticks| ticks.len() as f64 <= most + 1.0).unwrap_or_default()
}

/// The text of a number at a tick or beside a point: at least three digits, no needless zeros.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e6).contains(&size) {
        let exponent = size.log10().floor();
        let mantissa = number(value / 10f64.powf(exponent));
        let raised: String = format!("{exponent}").chars().map(superscript).collect();
        return if mantissa == "1" { format!("10{raised}") } else { format!("{mantissa}·10{raised}") };
    }
    let digits = if size >= 100.0 {
        0
    } else if size >= 10.0 {
        1
    } else if size >= 1.0 {
        2
    } else {
        3
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn superscript(character: char) -> char {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    match character.to_digit(10) {
        Some(digit) => DIGITS[digit as usize],
        None => '⁻',
    }
}

/// A rectangle with an axis below and one at its left.
pub struct Panel {
    /// The rectangle of the values.
    pub rect: Rect,
    /// From left to right.
    pub x: Span,
    /// From bottom to top.
    pub y: Span,
}

/// Room that a panel's axis needs at the left of its rectangle, in pixels.
pub const LEFT_PX: f64 = 62.0;
/// Room that a panel's axis needs below its rectangle, in pixels.
pub const BOTTOM_PX: f64 = 46.0;
/// Room that a panel's name needs above its rectangle, in pixels.
pub const TOP_PX: f64 = 26.0;

impl Panel {
    /// The place of a point.
    pub fn place(&self, x: f64, y: f64) -> Place {
        let across = self.rect.left + self.x.share(x) * self.rect.width();
        (across, self.rect.bottom - self.y.share(y) * self.rect.height())
    }

    /// True if both axes have a place for the point.
    pub fn shows(&self, x: f64, y: f64) -> bool {
        self.x.shows(x) && self.y.shows(y)
    }

    /// Draws the grid and the axis at the left.
    pub fn draw_y(&self, canvas: &Canvas<'_>, label: &str) {
        for tick in &self.y.ticks {
            let (_, y) = self.place(self.x.low, *tick);
            canvas.line(&[(self.rect.left, y), (self.rect.right, y)], GRID, 1.0);
            let set = Type::new(TICK_PX, MUTED, Anchor::Right);
            canvas.text((self.rect.left - 7.0, y), &number(*tick), set);
        }
        let middle = (self.rect.top + self.rect.bottom) / 2.0;
        canvas.text(
            (self.rect.left - LEFT_PX + 10.0, middle),
            label,
            Type::new(NAME_PX, INK, Anchor::Upward),
        );
    }

    /// Draws the grid and the axis below. Labels of ticks that would touch others are left out.
    pub fn draw_x(&self, canvas: &Canvas<'_>, label: &str) {
        let mut free_from = f64::NEG_INFINITY;
        for tick in &self.x.ticks {
            let (x, _) = self.place(*tick, self.y.low);
            canvas.line(&[(x, self.rect.top), (x, self.rect.bottom)], GRID, 1.0);
            let (text, half) = (number(*tick), text_width(&number(*tick), TICK_PX) / 2.0);
            if x - half > free_from {
                canvas.text((x, self.rect.bottom + 14.0), &text, Type::new(TICK_PX, MUTED, Anchor::Middle));
                free_from = x + half + 4.0;
            }
        }
        let middle = (self.rect.left + self.rect.right) / 2.0;
        canvas.text((middle, self.rect.bottom + 34.0), label, Type::new(NAME_PX, INK, Anchor::Middle));
    }

    /// Draws the lines of both axes, over grid and data.
    pub fn draw_frame(&self, canvas: &Canvas<'_>) {
        let Rect { left, top, right, bottom } = self.rect;
        canvas.line(&[(left, top), (left, bottom), (right, bottom)], MUTED, 1.2);
    }

    /// Draws the panel's name above it.
    pub fn draw_name(&self, canvas: &Canvas<'_>, name: &str) {
        let set = Type::new(NAME_PX, INK, Anchor::Left).bold();
        let name = super::canvas::shortened(name, NAME_PX * 1.08, self.rect.width());
        canvas.text((self.rect.left, self.rect.top - 13.0), &name, set);
    }
}

/// Draws a figure's name at the top left; returns its height.
pub fn heading(canvas: &Canvas<'_>, title: &str, width: f64) -> f64 {
    let title = super::canvas::shortened(title, TITLE_PX * 1.08, width - 32.0);
    canvas.text((16.0, 21.0), &title, Type::new(TITLE_PX, INK, Anchor::Left).bold());
    HEADING_PX
}

/// Height of [`heading`].
pub const HEADING_PX: f64 = 40.0;

/// One entry of a legend.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The name of the entry.
    pub name: String,
    /// Its look in the figure.
    pub look: Look,
    /// True if a piece of line is shown.
    pub line: bool,
    /// True if a marker is shown.
    pub marker: bool,
}

const ROW_PX: f64 = 21.0;

/// Height of the legend of these entries.
pub fn legend_height(entries: &[Entry], width: f64) -> f64 {
    if entries.is_empty() {
        0.0
    } else {
        places(entries, width).last().map_or(0.0, |(_, y)| y + ROW_PX + 4.0)
    }
}

/// Draws a legend in rows from `top` on.
pub fn legend(canvas: &Canvas<'_>, entries: &[Entry], top: f64, width: f64) {
    for (entry, (x, y)) in entries.iter().zip(places(entries, width)) {
        let y = top + y + ROW_PX / 2.0;
        canvas.sample((x, y), entry.look, entry.line, entry.marker);
        canvas.text((x + SAMPLE_PX + 6.0, y), &entry.name, Type::new(NAME_PX, INK, Anchor::Left));
    }
}

fn places(entries: &[Entry], width: f64) -> Vec<Place> {
    let (mut x, mut y) = (16.0, 0.0);
    let mut places = Vec::new();
    for entry in entries {
        let wide = SAMPLE_PX + 6.0 + text_width(&entry.name, NAME_PX);
        if x > 16.0 && x + wide > width - 16.0 {
            (x, y) = (16.0, y + ROW_PX);
        }
        places.push((x, y));
        x += wide + 18.0;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(linear_ticks(0.0, 10.4, 6.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(log_ticks(0.9, 9.0, 7.0), [1.0, 1.5, 2.0, 3.0, 5.0, 7.0]);
        assert_eq!(log_ticks(1e-5, 1.0, 6.0).len(), 6);
        assert!(log_ticks(1e-300, 1e300, 4.0).len() <= 5 || log_ticks(1e-300, 1e300, 4.0).is_empty());
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.25, 1.5, 12.5, 128.0, 131_072.0, 1e-5, 2e6, -3.0].map(number);
        assert_eq!(shown, ["0", "0.25", "1.5", "12.5", "128", "131072", "10⁻⁵", "2·10⁶", "-3"]);
    }

    #[test]
    fn an_axis_without_values_or_with_one_still_has_length() {
        for axis in [Axis::linear("x"), Axis::log("x")] {
            for values in [vec![], vec![f64::NAN], vec![0.0], vec![5.0, 5.0], vec![-2.0, -2.0]] {
                let span = axis.span(values.clone(), 300.0);
                assert!(span.high > span.low && span.low.is_finite(), "{axis:?} {values:?} {span:?}");
            }
        }
    }

    #[test]
    fn a_log_axis_spaces_ratios_evenly() {
        let span = Axis::log("x").range(1.0, 100.0).span([], 300.0);
        assert!((span.share(10.0) - 0.5).abs() < 1e-12);
        assert!(!span.shows(0.5) && span.share(0.0) == 0.0);
    }
}
