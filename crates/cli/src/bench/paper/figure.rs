//! The paper's Figure 4 as SVG: which chunk was loaded when, one panel per policy.
//!
//! A dot is a load, a cross a load of a chunk that had been loaded before. Colours are told apart by
//! everyone (Okabe and Ito), shapes carry the same difference, and the picture follows the viewer's
//! light or dark setting: a style sheet recolours the attributes that plotters writes.

use std::collections::BTreeSet;
use std::ops::Range;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::session::Load;

/// One policy's loads.
pub struct Panel {
    pub title: String,
    pub loads: Vec<Load>,
    /// When its last query was done.
    pub total_time_s: f64,
}

const WIDTH: u32 = 1160;
const PANEL_HEIGHT: u32 = 250;
const HEADER_HEIGHT: u32 = 64;
const COLUMNS: usize = 2;

const PAPER: RGBColor = RGBColor(255, 255, 255);
const INK: RGBColor = RGBColor(31, 35, 40);
const GRID: RGBColor = RGBColor(225, 228, 232);
const FIRST: RGBColor = RGBColor(0, 114, 178);
const AGAIN: RGBColor = RGBColor(213, 94, 0);

/// What a dark viewer sees instead. Attributes have lower precedence than any style sheet.
const DARK: [(RGBColor, &str); 5] =
    [(PAPER, "#0d1117"), (INK, "#e6edf3"), (GRID, "#30363d"), (FIRST, "#56b4e9"), (AGAIN, "#e69f00")];

/// Draws the panels; all have the same axes, so that they can be compared.
pub fn draw(heading: &str, panels: &[Panel], chunks: u32) -> anyhow::Result<String> {
    let rows = panels.len().div_ceil(COLUMNS).max(1);
    let height = HEADER_HEIGHT + PANEL_HEIGHT * rows as u32;
    let seconds = panels.iter().map(|panel| panel.total_time_s).fold(0.1, f64::max);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&PAPER).map_err(failed)?;
        let (header, body) = root.split_vertically(HEADER_HEIGHT);
        draw_header(&header, heading)?;
        for (area, panel) in body.split_evenly((rows, COLUMNS)).iter().zip(panels) {
            draw_panel(area, panel, 0.0..seconds, 0..chunks.max(1))?;
        }
        root.present().map_err(failed)?;
    }
    Ok(with_dark_mode(&svg))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw_header(area: &Area<'_>, heading: &str) -> anyhow::Result<()> {
    let text = |size: u32| ("sans-serif", size).into_font().color(&INK);
    area.draw(&Text::new(heading.to_owned(), (16, 12), text(17))).map_err(failed)?;
    area.draw(&Circle::new((22, 48), 3, FIRST.filled())).map_err(failed)?;
    area.draw(&Text::new("a chunk is loaded", (32, 41), text(13))).map_err(failed)?;
    area.draw(&Cross::new((172, 48), 3, AGAIN.stroke_width(1))).map_err(failed)?;
    area.draw(&Text::new("loaded again", (182, 41), text(13))).map_err(failed)?;
    Ok(())
}

fn draw_panel(area: &Area<'_>, panel: &Panel, seconds: Range<f64>, chunks: Range<u32>) -> anyhow::Result<()> {
    let text = |size: u32| ("sans-serif", size).into_font().color(&INK);
    let caption = format!("{}: {} loads, {:.1} s", panel.title, panel.loads.len(), panel.total_time_s);
    let mut chart = ChartBuilder::on(area)
        .caption(caption, text(15))
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(48)
        .build_cartesian_2d(seconds, chunks)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .label_style(text(12))
        .x_desc("time (s)")
        .y_desc("chunk")
        .x_labels(8)
        .y_labels(6)
        .x_label_formatter(&|second| format!("{second:.0}"))
        .draw()
        .map_err(failed)?;
    let mut seen = BTreeSet::new();
    let (first, again): (Vec<&Load>, Vec<&Load>) =
        panel.loads.iter().partition(|load| seen.insert(load.chunk));
    let place = |load: &Load| (load.at_s, load.chunk);
    chart
        .draw_series(first.iter().map(|load| Circle::new(place(load), 2, FIRST.filled())))
        .map_err(failed)?;
    chart
        .draw_series(again.iter().map(|load| Cross::new(place(load), 2, AGAIN.stroke_width(1))))
        .map_err(failed)?;
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw the figure: {error}")
}

fn with_dark_mode(svg: &str) -> String {
    let rules: String = DARK
        .iter()
        .map(|(light, dark)| {
            let hex = format!("#{:02X}{:02X}{:02X}", light.0, light.1, light.2);
            format!("[fill=\"{hex}\"]{{fill:{dark}}}[stroke=\"{hex}\"]{{stroke:{dark}}}")
        })
        .collect();
    let style = format!("<style>@media (prefers-color-scheme: dark){{{rules}}}</style>");
    match svg.find("<svg").and_then(|open| svg[open..].find('>').map(|close| open + close + 1)) {
        Some(at) => format!("{}\n{style}{}", &svg[..at], &svg[at..]),
        None => svg.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_is_drawn_and_both_modes_are_there() {
        let load = |at_s, chunk| Load { at_s, chunk };
        let panel = |title: &str, loads| Panel { title: title.to_owned(), loads, total_time_s: 3.0 };
        let panels = [
            panel("normal", vec![load(0.5, 0), load(1.0, 1), load(2.0, 0)]),
            panel("relevance", vec![load(0.5, 0), load(1.0, 1)]),
        ];
        let svg = draw("loads", &panels, 2).unwrap();
        assert!(svg.contains("normal: 3 loads, 3.0 s") && svg.contains("relevance: 2 loads"));
        // Four first loads and the legend's.
        assert_eq!(svg.matches("<circle").count(), 5);
        assert!(svg.contains("prefers-color-scheme: dark"));
        for (light, _) in DARK {
            let hex = format!("#{:02X}{:02X}{:02X}", light.0, light.1, light.2);
            assert!(svg.matches(&hex).count() > 2, "{hex} is written as plotters writes it");
        }
        assert!(svg.ends_with("</svg>\n") || svg.ends_with("</svg>"));
    }
}
