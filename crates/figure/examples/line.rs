//! A line chart as SVG on standard output: `cargo run --release -p coscan-figure --example line > line.svg`

use coscan_figure::FigureError;
use coscan_figure::axis::Axis;
use coscan_figure::line::{Draw, LineChart, LinePanel, Point, Series};

fn main() -> Result<(), FigureError> {
    let curve = |name: &str, of: fn(f64) -> f64| Series {
        name: name.to_owned(),
        points: (1..=20).map(|x| Point::exact(f64::from(x), of(f64::from(x)))).collect(),
        draw: Draw::Marked,
        look: None,
    };
    let panel = LinePanel {
        title: String::new(),
        x: Axis::linear("x"),
        y: Axis::linear("y"),
        series: vec![curve("square root", f64::sqrt), curve("logarithm", f64::ln)],
    };
    let chart = LineChart {
        title: "Two slow curves".to_owned(),
        description: "The square root and the logarithm from 1 to 20.".to_owned(),
        panels: vec![panel],
        columns: 1,
    };
    println!("{}", chart.svg()?);
    Ok(())
}
