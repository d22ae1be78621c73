//! A run as a timeline, after 2004, Fig. 3 and 4. Each chunk has a lane that shows when it was read (dark),
//! when it was in the buffer (light) and which queries worked on it. Below are the queries with their waits,
//! and the use of processors and device.
//!
//! [`Timeline`] is plain data that a host fills. The figure is meant for tables of up to some hundred chunks.
//! For more, and to compare policies, see [`crate::loads`].

use crate::FigureError;
use crate::axis::{Axis, Entry, HEADING_PX, Panel, heading, legend, legend_height};
use crate::canvas::{Anchor, Canvas, NAME_PX, Rect, SAMPLE_PX, TICK_PX, Type, draw, shortened};
use crate::theme::{GRID, INK, Look, MUTED, READ, RESIDENT, Words, look};

/// A stretch of time for one chunk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChunkSpan {
    /// The chunk's number, below [`Timeline::chunks`].
    pub chunk: u32,
    /// Seconds since the run began.
    pub start_s: f64,
    /// Seconds since the run began, not before `start_s`.
    pub end_s: f64,
}

/// The work of one query on one chunk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Processing {
    /// The query, as an index into [`Timeline::queries`].
    pub query: usize,
    /// The chunk's number, below [`Timeline::chunks`].
    pub chunk: u32,
    /// Seconds since the run began.
    pub start_s: f64,
    /// Seconds since the run began, not before `start_s`.
    pub end_s: f64,
}

/// The life of one query.
#[derive(Debug, Clone, PartialEq)]
pub struct QuerySpan {
    /// Its name in the legend.
    pub name: String,
    /// Its arrival, in seconds since the run began.
    pub start_s: f64,
    /// Its end, in seconds since the run began.
    pub end_s: f64,
    /// Times without a chunk to work on: start and end, in seconds since the run began.
    pub waits: Vec<(f64, f64)>,
}

/// The facts of one run of one policy that the figures need.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// The name of the figure.
    pub title: String,
    /// The policy that ran.
    pub policy: String,
    /// The number of chunks of the table: one lane each.
    pub chunks: u32,
    /// The end of the last query, in seconds since the run began.
    pub end_s: f64,
    /// Reads from the device, in the order of issue.
    pub reads: Vec<ChunkSpan>,
    /// Times of chunks in the buffer.
    pub resident: Vec<ChunkSpan>,
    /// Work of queries on chunks.
    pub processing: Vec<Processing>,
    /// The queries, in the order of arrival.
    pub queries: Vec<QuerySpan>,
    /// Share of all processors in use (0 to 1): each point `(second, share)` holds until the next.
    pub cpu_use: Vec<(f64, f64)>,
    /// Share of the device in use (0 to 1), in the same form.
    pub device_use: Vec<(f64, f64)>,
}

const WIDTH: f64 = 900.0;
const LEFT: f64 = 132.0;
const RIGHT: f64 = WIDTH - 62.0;
const QUERY_PX: f64 = 19.0;
const STRIP_PX: f64 = 44.0;
const GAP_PX: f64 = 22.0;

impl Timeline {
    /// The figure as SVG. Times outside `0..end_s` are cut off.
    ///
    /// # Errors
    /// [`FigureError::Draw`] if the backend fails.
    pub fn svg(&self) -> Result<String, FigureError> {
        let entry = |(index, query): (usize, &QuerySpan)| Entry {
            name: query.name.clone(),
            look: Look { dash: None, ..look(index) },
            line: true,
            marker: false,
        };
        let entries: Vec<Entry> = self.queries.iter().enumerate().map(entry).collect();
        let queries_px = QUERY_PX * self.queries.len() as f64;
        let lanes_top = HEADING_PX + 25.0 + legend_height(&entries, WIDTH) + 6.0;
        let lanes_px = self.lane_px() * f64::from(self.chunks.max(1));
        let queries_top = lanes_top + lanes_px + GAP_PX;
        let waiting_top = queries_top + queries_px + GAP_PX;
        let strip = |index: f64| waiting_top + index * (STRIP_PX + GAP_PX);
        let title = format!("{}: {}", self.title, self.policy);
        let description = self.description();
        let words = Words { title: &title, description: &description };
        let bottom = strip(2.0) + STRIP_PX;
        draw((WIDTH, bottom + 44.0), words, |canvas| {
            heading(canvas, &title, WIDTH);
            draw_key(canvas, HEADING_PX + 10.0);
            legend(canvas, &entries, HEADING_PX + 25.0, WIDTH);
            self.draw_seconds(canvas, lanes_top, bottom);
            self.draw_lanes(canvas, lanes_top, &entries);
            self.draw_queries(canvas, queries_top, &entries);
            let most = self.queries.len().max(1) as f64;
            self.draw_strip(canvas, strip(0.0), "waiting", most, &self.waiting());
            self.draw_strip(canvas, strip(1.0), "CPU use", 100.0, &percent(&self.cpu_use));
            self.draw_strip(canvas, strip(2.0), "device use", 100.0, &percent(&self.device_use));
        })
    }

    fn description(&self) -> String {
        format!(
            "{} queries over {} chunks under {}: {} reads, done after {:.2} seconds.",
            self.queries.len(),
            self.chunks,
            self.policy,
            self.reads.len(),
            self.end_s
        )
    }

    fn lane_px(&self) -> f64 {
        // A lane must hold a line of two pixels for each query.
        let wanted = (self.queries.len() as f64 * 4.0 + 3.0).clamp(13.0, 22.0);
        wanted.min(900.0 / f64::from(self.chunks.max(1))).max(3.0)
    }

    fn across(&self, second: f64) -> f64 {
        let share = if self.end_s > 0.0 { second / self.end_s } else { 0.0 };
        LEFT + share.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    fn stretch(&self, (start_s, end_s): (f64, f64), top: f64, bottom: f64) -> Rect {
        let left = self.across(start_s);
        Rect { left, top, right: self.across(end_s).max(left + 0.5), bottom }
    }

    fn draw_seconds(&self, canvas: &Canvas<'_>, top: f64, bottom: f64) {
        let rect = Rect { left: LEFT, top, right: RIGHT, bottom };
        let end_s = if self.end_s > 0.0 { self.end_s } else { 1.0 };
        let x = Axis::linear("").range(0.0, end_s).span([], rect.width());
        let y = Axis::linear("").ticks(Vec::new()).span([], rect.height());
        Panel { rect, x, y }.draw_x(canvas, "time (s)");
    }

    fn draw_lanes(&self, canvas: &Canvas<'_>, top: f64, entries: &[Entry]) {
        let lane = self.lane_px();
        let chunks = self.chunks.max(1);
        // Chunk 0 lies at the bottom, as on an axis.
        let lane_top = |chunk: u32| top + f64::from(chunks - 1 - chunk.min(chunks - 1)) * lane;
        let every = (14.0 / lane).ceil().max(1.0) as u32;
        for chunk in 0..self.chunks {
            let y = lane_top(chunk) + lane;
            canvas.line(&[(LEFT, y), (RIGHT, y)], GRID, 0.6);
            if chunk % every == 0 {
                let set = Type::new(TICK_PX.min(lane * f64::from(every) - 1.0), MUTED, Anchor::Right);
                canvas.text((LEFT - 7.0, y - lane / 2.0), &chunk.to_string(), set);
            }
        }
        let middle = top + f64::from(chunks) * lane / 2.0;
        canvas.text((LEFT - 44.0, middle), "chunk", Type::new(NAME_PX, INK, Anchor::Upward));
        for (spans, colour) in [(&self.resident, RESIDENT), (&self.reads, READ)] {
            for span in spans.iter().filter(|span| span.chunk < self.chunks) {
                let y = lane_top(span.chunk);
                canvas.bar(self.stretch((span.start_s, span.end_s), y + 0.8, y + lane - 0.2), colour, 1.0);
            }
        }
        for work in self.processing.iter().filter(|work| work.chunk < self.chunks) {
            let Some(entry) = entries.get(work.query) else { continue };
            let part = (work.query as f64 + 0.5) / entries.len() as f64;
            let y = lane_top(work.chunk) + 1.0 + part * (lane - 1.4);
            let half = ((lane - 2.0) / entries.len() as f64 * 0.3).clamp(0.5, 1.3);
            let rect = self.stretch((work.start_s, work.end_s), y - half, y + half);
            canvas.bar(rect, entry.look.colour, 1.0);
        }
    }

    fn draw_queries(&self, canvas: &Canvas<'_>, top: f64, entries: &[Entry]) {
        for (index, (query, entry)) in self.queries.iter().zip(entries).enumerate() {
            let y = top + (index as f64 + 0.5) * QUERY_PX;
            let name = shortened(&query.name, TICK_PX, LEFT - 16.0);
            canvas.text((LEFT - 7.0, y), &name, Type::new(TICK_PX, INK, Anchor::Right));
            canvas.bar(self.stretch((query.start_s, query.end_s), y - 5.0, y + 5.0), entry.look.colour, 1.0);
            for wait in &query.waits {
                canvas.bar(self.stretch(*wait, y - 4.0, y + 4.0), super::theme::PAPER, 1.0);
            }
            let took = format!("{:.2} s", query.end_s - query.start_s);
            let x = self.across(query.end_s) + 6.0;
            canvas.text((x, y), &took, Type::new(TICK_PX, INK, Anchor::Left));
        }
    }

    /// The number of waiting queries, as a step function.
    fn waiting(&self) -> Vec<(f64, f64)> {
        let waits = self.queries.iter().flat_map(|query| &query.waits);
        let mut changes: Vec<(f64, f64)> = waits.flat_map(|(from, to)| [(*from, 1.0), (*to, -1.0)]).collect();
        changes.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut now = 0.0;
        let step = |(second, change): (f64, f64)| {
            now += change;
            (second, now)
        };
        changes.into_iter().map(step).collect()
    }

    /// Draws a step function as an area under a name. Each pixel's width shows its mean over that time.
    fn draw_strip(&self, canvas: &Canvas<'_>, top: f64, name: &str, most: f64, steps: &[(f64, f64)]) {
        let bottom = top + STRIP_PX;
        let bins = (RIGHT - LEFT) as usize;
        let height = |value: f64| bottom - (value / most).clamp(0.0, 1.0) * STRIP_PX;
        let mut outline = vec![(LEFT, bottom)];
        for (bin, value) in means(steps, self.end_s, bins).into_iter().enumerate() {
            let (x, y) = (LEFT + bin as f64, height(value));
            if outline.last().is_none_or(|last| (last.1 - y).abs() > 1e-9) {
                let before = outline.last().map_or(bottom, |last| last.1);
                outline.extend([(x, before), (x, y)]);
            }
        }
        let last = outline.last().map_or(bottom, |last| last.1);
        outline.extend([(RIGHT, last), (RIGHT, bottom)]);
        canvas.polygon(&outline, MUTED, 0.55);
        canvas.line(&[(LEFT, top), (LEFT, bottom), (RIGHT, bottom)], MUTED, 1.0);
        canvas.text((LEFT, top - 9.0), name, Type::new(TICK_PX, INK, Anchor::Left));
        let unit = if most == 100.0 { "%" } else { "" };
        for (value, y) in [(most, top + 2.0), (0.0, bottom - 3.0)] {
            let text = format!("{value:.0}{unit}");
            canvas.text((LEFT - 7.0, y), &text, Type::new(TICK_PX, MUTED, Anchor::Right));
        }
    }
}

fn percent(steps: &[(f64, f64)]) -> Vec<(f64, f64)> {
    steps.iter().map(|(second, share)| (*second, share * 100.0)).collect()
}

fn draw_key(canvas: &Canvas<'_>, y: f64) {
    let key = [(16.0, READ, "being read"), (140.0, RESIDENT, "in the buffer")];
    for (x, colour, name) in key {
        canvas.bar(Rect { left: x, top: y - 5.0, right: x + SAMPLE_PX, bottom: y + 5.0 }, colour, 1.0);
        canvas.text((x + SAMPLE_PX + 6.0, y), name, Type::new(NAME_PX, INK, Anchor::Left));
    }
    let note = "lines in a lane: queries that process the chunk, from top to bottom; hollow: waiting";
    canvas.text((286.0, y), note, Type::new(NAME_PX, MUTED, Anchor::Left));
}

/// The mean of a step function in each of `bins` equal parts of `0..end_s`; 0 before its first step.
fn means(steps: &[(f64, f64)], end_s: f64, bins: usize) -> Vec<f64> {
    let mut sums = vec![0.0; bins];
    if end_s <= 0.0 {
        return sums;
    }
    let per_second = bins as f64 / end_s;
    for (index, (start_s, value)) in steps.iter().enumerate() {
        let until_s = steps.get(index + 1).map_or(end_s, |next| next.0);
        let (from, to) = (start_s.clamp(0.0, end_s) * per_second, until_s.clamp(0.0, end_s) * per_second);
        let last = (to.ceil() as usize).min(bins);
        for (bin, sum) in sums.iter_mut().enumerate().take(last).skip(from as usize) {
            let covered = to.min(bin as f64 + 1.0) - from.max(bin as f64);
            *sum += value * covered.max(0.0);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawn_texts;

    fn run() -> Timeline {
        let span = |chunk, start_s, end_s| ChunkSpan { chunk, start_s, end_s };
        let query = |name: &str, waits| QuerySpan { name: name.to_owned(), start_s: 0.0, end_s: 2.0, waits };
        Timeline {
            title: "two <queries>".to_owned(),
            policy: "attach".to_owned(),
            chunks: 2,
            end_s: 2.0,
            reads: vec![span(0, 0.0, 0.5), span(1, 0.5, 1.0)],
            resident: vec![span(0, 0.5, 1.5), span(1, 1.0, 2.0)],
            processing: vec![Processing { query: 1, chunk: 0, start_s: 0.5, end_s: 1.0 }],
            queries: vec![query("Q1 & co", vec![(0.0, 0.5)]), query("Q2", vec![(0.0, 1.0)])],
            cpu_use: vec![(0.5, 1.0)],
            device_use: vec![(0.0, 1.0), (1.0, 0.0)],
        }
    }

    #[test]
    fn everything_that_happened_is_drawn() {
        let svg = run().svg().unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts = drawn_texts(&document);
        assert!(
            ["Q1 & co", "Q2", "waiting", "CPU use", "device use", "2.00 s"].iter().all(|t| texts.contains(t))
        );
        // The background, the key's 2, 2 reads, 2 residences, 1 processing, 2 queries, 2 waits.
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("rect")).count(), 12);
    }

    #[test]
    fn nothing_and_odd_numbers_are_drawn_too() {
        let odd = Timeline {
            reads: vec![ChunkSpan { chunk: 99, start_s: -1.0, end_s: 9.0 }],
            processing: vec![Processing { query: 7, chunk: 0, start_s: 0.0, end_s: 1.0 }],
            ..run()
        };
        for timeline in [Timeline::default(), odd] {
            assert!(roxmltree::Document::parse(&timeline.svg().unwrap()).is_ok());
        }
    }

    #[test]
    fn strips_show_means_over_time() {
        assert_eq!(means(&[(0.0, 1.0), (1.0, 0.0), (1.5, 1.0)], 2.0, 2), [1.0, 0.5]);
        assert_eq!(means(&[(0.5, 1.0)], 1.0, 1), [0.5]);
        assert_eq!(run().waiting(), [(0.0, 1.0), (0.0, 2.0), (0.5, 1.0), (1.0, 0.0)]);
    }
}
