//! The appearance of every figure: colours with their counterparts for a dark background, and the look
//! (colour, marker, dash) of each series.
//!
//! Drawings are made in the colours of the light scheme. [`dress`] adds a style sheet that changes their
//! colours if the viewer asks for a dark scheme on a screen. So one file serves both schemes, and a print
//! stays light. Colours follow Okabe and Ito, darkened where they are too faint on white. Two series of a
//! figure always differ by more than colour.
//!
//! This module draws nothing; see [`super::canvas`].

use plotters::style::RGBColor;

/// A colour of the light scheme. Only the colours of this module have a counterpart in the dark one.
pub type Colour = RGBColor;

/// The background.
pub const PAPER: Colour = RGBColor(255, 255, 255);
/// Titles and names.
pub const INK: Colour = RGBColor(31, 35, 40);
/// Numbers on axes, notes, values of a paper.
pub const MUTED: Colour = RGBColor(89, 99, 110);
/// Lines behind the data.
pub const GRID: Colour = RGBColor(225, 228, 232);
/// Context only: points of other groups.
pub const FAINT: Colour = RGBColor(196, 203, 211);
/// A chunk that is in the buffer.
pub const RESIDENT: Colour = RGBColor(219, 224, 230);
/// A chunk that is being read.
pub const READ: Colour = RGBColor(68, 76, 86);

const BLUE: Colour = RGBColor(0, 114, 178);
const VERMILION: Colour = RGBColor(213, 94, 0);
const GREEN: Colour = RGBColor(0, 145, 105);
const PURPLE: Colour = RGBColor(178, 84, 140);
const ORANGE: Colour = RGBColor(200, 130, 0);
const SKY: Colour = RGBColor(64, 158, 210);
const BROWN: Colour = RGBColor(140, 86, 75);
const SLATE: Colour = RGBColor(60, 66, 74);

/// Every colour with its counterpart in the dark scheme.
const DARK: [(Colour, &str); 15] = [
    (PAPER, "#0d1117"),
    (INK, "#e6edf3"),
    (MUTED, "#9da7b3"),
    (GRID, "#262c36"),
    (FAINT, "#444c56"),
    (RESIDENT, "#2d343e"),
    (READ, "#b7c0ca"),
    (BLUE, "#4aa3e0"),
    (VERMILION, "#ff8a3d"),
    (GREEN, "#2fc79a"),
    (PURPLE, "#e08fc0"),
    (ORANGE, "#f2b134"),
    (SKY, "#9bd8ff"),
    (BROWN, "#c9a093"),
    (SLATE, "#d7dee6"),
];

/// The shape of a series' markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// A filled circle.
    Circle,
    /// A filled square.
    Square,
    /// A filled triangle that stands on a side.
    Triangle,
    /// A filled square that stands on a corner.
    Diamond,
    /// Two strokes from corner to corner.
    Cross,
    /// Two strokes from side to side.
    Plus,
    /// A filled triangle that stands on a corner.
    TriangleDown,
    /// A circle that is not filled.
    Ring,
}

/// The dash of a line: lengths of dash and gap in pixels, or `None` for a solid line.
pub type Dash = Option<(u32, u32)>;

/// The look that distinguishes a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The colour of line and marker.
    pub colour: Colour,
    /// The shape of its markers.
    pub marker: Marker,
    /// The dash of its line.
    pub dash: Dash,
}

/// The looks in the order of assignment. The first four belong to the policies of the 2007 paper.
const LOOKS: [Look; 8] = [
    Look { colour: BLUE, marker: Marker::Circle, dash: None },
    Look { colour: VERMILION, marker: Marker::Triangle, dash: Some((9, 4)) },
    Look { colour: GREEN, marker: Marker::Square, dash: Some((3, 3)) },
    Look { colour: PURPLE, marker: Marker::Diamond, dash: Some((18, 5)) },
    Look { colour: ORANGE, marker: Marker::TriangleDown, dash: Some((6, 6)) },
    Look { colour: SKY, marker: Marker::Ring, dash: Some((2, 5)) },
    Look { colour: BROWN, marker: Marker::Cross, dash: Some((4, 8)) },
    Look { colour: SLATE, marker: Marker::Plus, dash: Some((5, 2)) },
];

/// Policies with the same look in every figure, with their place in `LOOKS`.
const POLICIES: [(&str, usize); 10] = [
    ("relevance", 0),
    ("normal", 1),
    ("attach", 2),
    ("elevator", 3),
    ("pbm", 4),
    ("relevance-2004", 5),
    ("sequential", 6),
    ("opt", 7),
    ("relevance-2007", 8),
    ("attach-2004", 9),
];

/// The look of place `index`. Colours repeat after eight places, then with other markers and dashes: 64 looks
/// differ.
pub fn look(index: usize) -> Look {
    let count = LOOKS.len();
    let round = index / count;
    let place = |shift: usize| LOOKS[(index + shift * round) % count];
    // Odd shifts: each of eight rounds pairs a colour with another marker and another dash.
    Look { colour: place(0).colour, marker: place(3).marker, dash: place(5).dash }
}

/// One look for each name, in their order. A known policy always has the same look; other names take the
/// remaining places.
pub fn looks<S: AsRef<str>>(names: &[S]) -> Vec<Look> {
    let known = |name: &str| POLICIES.iter().find(|(policy, _)| *policy == name).map(|(_, place)| *place);
    let places: Vec<Option<usize>> = names.iter().map(|name| known(name.as_ref())).collect();
    let mut free = (0..).filter(|place| !places.contains(&Some(*place)));
    places.iter().map(|place| look(place.or_else(|| free.next()).unwrap_or_default())).collect()
}

/// The texts of a figure for blind readers.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    /// Its name, in a few words.
    pub title: &'a str,
    /// Its description, in a sentence or two; may be empty.
    pub description: &'a str,
}

/// Makes a drawing of plotters' SVG backend a figure. The figure scales with the available room up to `width`
/// pixels, follows the viewer's colour scheme, and has a name and a description.
///
/// The drawing must use only colours of this module; other colours stay the same in the dark scheme.
pub fn dress(drawing: &str, width: u32, words: Words<'_>) -> String {
    let Some((before, rest)) = drawing.split_once("<svg ") else { return drawing.to_owned() };
    let Some((attributes, body)) = rest.split_once('>') else { return drawing.to_owned() };
    let view = attribute(attributes, "viewBox").unwrap_or("0 0 1 1");
    let title = escape(words.title);
    let description = match words.description {
        "" => String::new(),
        text => format!("<desc>{}</desc>\n", escape(text)),
    };
    format!(
        "{before}<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{CLASS}\" viewBox=\"{view}\" role=\"img\" \
         aria-label=\"{title}\" style=\"width:100%;max-width:{width}px;height:auto\">\n\
         <title>{title}</title>\n{description}<style>{}</style>{body}",
        dark_sheet()
    )
}

/// The class of every figure. It limits the style sheet to the figure.
const CLASS: &str = "coscan-figure";

fn dark_sheet() -> String {
    let rules: String = DARK
        .iter()
        .map(|(light, dark)| {
            let hex = format!("#{:02X}{:02X}{:02X}", light.0, light.1, light.2);
            format!(".{CLASS} [fill=\"{hex}\"]{{fill:{dark}}}.{CLASS} [stroke=\"{hex}\"]{{stroke:{dark}}}")
        })
        .collect();
    format!("@media screen and (prefers-color-scheme:dark){{{rules}}}")
}

fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = attributes.split_once(&format!("{name}=\""))?;
    value.split_once('"').map(|(value, _)| value)
}

/// Text escaped for use between tags and in attributes. Characters that XML does not allow are left out.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            other if is_xml(other) => escaped.push(other),
            _ => {}
        }
    }
    escaped
}

/// True if XML 1.0 allows the character.
pub(super) fn is_xml(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn colours_are_distinct_in_both_schemes() {
        let light: BTreeSet<_> = DARK.iter().map(|(c, _)| (c.0, c.1, c.2)).collect();
        let dark: BTreeSet<_> = DARK.iter().map(|(_, dark)| *dark).collect();
        assert_eq!((light.len(), dark.len()), (DARK.len(), DARK.len()));
        assert!(LOOKS.iter().all(|look| DARK.iter().any(|(light, _)| *light == look.colour)));
    }

    /// Relative luminance as WCAG 2 defines it.
    fn luminance(red: u8, green: u8, blue: u8) -> f64 {
        let linear = |byte: u8| {
            let share = f64::from(byte) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    fn contrast(one: f64, other: f64) -> f64 {
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    fn parsed(hex: &str) -> f64 {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        luminance(byte(1), byte(3), byte(5))
    }

    #[test]
    fn series_and_text_stand_out_from_both_backgrounds() {
        let (white, black) = (1.0, parsed("#0d1117"));
        let least = |colour: Colour| if [INK, MUTED].contains(&colour) { 4.5 } else { 2.9 };
        for (light, dark) in DARK {
            if [PAPER, GRID, FAINT, RESIDENT].contains(&light) {
                continue;
            }
            assert!(contrast(luminance(light.0, light.1, light.2), white) >= least(light), "{light:?}");
            assert!(contrast(parsed(dark), black) >= least(light), "{dark}");
        }
    }

    #[test]
    fn policies_keep_their_look_and_others_get_a_free_one() {
        let some = looks(&["mine", "relevance", "normal"]);
        assert_eq!(some[1], look(0));
        assert_eq!(some[2], look(1));
        assert_eq!(some[0], look(2));
        let many: Vec<String> = (0..8).map(|n| format!("q{n}")).collect();
        let markers: BTreeSet<_> = looks(&many).iter().map(|look| format!("{:?}", look.marker)).collect();
        assert_eq!(markers.len(), 8);
        let all: BTreeSet<_> = (0..64).map(|place| format!("{:?}", look(place))).collect();
        assert_eq!(all.len(), 64);
    }

    #[test]
    fn what_xml_cannot_hold_is_escaped_or_left_out() {
        assert_eq!(escape("a<b & \"c\"\u{0}\u{FFFF}'"), "a&lt;b &amp; &quot;c&quot;&apos;");
    }
}
