//! Miss-ratio curves as a figure, one line for each policy.

use coscan_figure::axis::{Axis, Scale};
use coscan_figure::line::{self, Draw, LineChart, LinePanel, Series};

use crate::table::policies;
use crate::{CacheError, Point};

/// The ratio of the largest to the smallest size from which the axis of sizes is logarithmic.
const LOG_FROM: usize = 20;

/// Number of points of a line above which it has no markers.
const MARKED_MOST: usize = 30;

/// The miss ratio of each policy by the size of the pool, as SVG.
///
/// # Errors
/// [`CacheError::Figure`] if the backend fails.
pub fn miss_ratio_curves(points: &[Point], title: &str) -> Result<String, CacheError> {
    let sizes = || points.iter().map(|point| point.size);
    let wide = sizes().max().unwrap_or(1) >= LOG_FROM * sizes().min().unwrap_or(1);
    let x = Axis {
        scale: if wide { Scale::Log } else { Scale::Linear },
        label: "size of the pool (pages)".to_owned(),
        ..Axis::default()
    };
    let series = policies(points).into_iter().map(|policy| curve(points, policy)).collect();
    let panel = LinePanel { title: String::new(), x, y: Axis::linear("misses per request"), series };
    let description =
        format!("Misses per request of {} by the size of the pool", policies(points).join(", "));
    let chart = LineChart { title: title.to_owned(), description, panels: vec![panel], columns: 1 };
    Ok(chart.svg()?)
}

fn curve(points: &[Point], policy: &str) -> Series {
    let mut own: Vec<&Point> = points.iter().filter(|point| point.policy == policy).collect();
    own.sort_by_key(|point| point.size);
    Series {
        name: policy.to_owned(),
        draw: if own.len() > MARKED_MOST { Draw::Line } else { Draw::Marked },
        points: own.iter().map(|point| line::Point::exact(point.size as f64, point.miss_ratio())).collect(),
        look: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_a_curve() {
        let point = |policy: &str, size: usize| Point {
            policy: policy.to_owned(),
            size,
            requests: 100,
            misses: 100 / size as u64,
            seconds: 0.0,
        };
        let points: Vec<Point> =
            [1, 5, 50].into_iter().flat_map(|size| [point("lru", size), point("s3-fifo", size)]).collect();
        let svg = miss_ratio_curves(&points, "a < b").unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).map(str::trim).collect();
        for name in ["lru", "s3-fifo", "a < b", "size of the pool (pages)"] {
            assert!(texts.contains(&name), "{name} is not in {texts:?}");
        }
        assert!(miss_ratio_curves(&[], "").is_ok());
    }
}
