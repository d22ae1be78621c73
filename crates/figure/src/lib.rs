//! Figures: plain data in, one self-contained SVG text out.
//!
//! [`theme`] has the colours and looks, light and dark. [`canvas`] draws at positions in pixels. [`axis`] maps values
//! to positions. The kinds of figures use these: [`line`](mod@line) charts, [`scatter`] plots, grouped [`bars`], the
//! [`timeline`] of a run and its [`loads`].
//!
//! The crate reads and writes no files, runs no simulation and knows no experiment. Series differ by shape or
//! position as well as by colour, and texts never overlap.
#![deny(missing_docs)]

pub mod axis;
pub mod bars;
pub mod canvas;
pub mod line;
pub mod loads;
pub mod scatter;
pub mod theme;
pub mod timeline;

/// A figure could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// The SVG backend failed.
    #[error(
        "cannot draw the figure \"{title}\": {reason}; please report this with the data it was made from"
    )]
    Draw {
        /// The figure.
        title: String,
        /// The message of the backend.
        reason: String,
    },
}

/// The visible texts of a figure, without the name and description for the blind.
#[cfg(test)]
fn drawn_texts<'a>(document: &'a roxmltree::Document<'_>) -> Vec<&'a str> {
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.filter_map(|node| node.text()).map(str::trim).collect()
}
