//! A profile as text: the device's description of itself, and the findings.

use bytesize::ByteSize;
use comfy_table::Table;
use coscan_device::probe::{Estimate, Profile};

use crate::tables;

/// One property in one line.
pub struct Line {
    pub name: &'static str,
    pub estimate: Option<Estimate>,
    pub unit: Unit,
}

/// The unit of a number.
#[derive(Clone, Copy)]
pub enum Unit {
    Seconds,
    Bytes,
    BytesPerSecond,
    Count,
}

/// The properties of a profile that are a number with bounds.
pub fn lines(profile: &Profile) -> Vec<Line> {
    let line = |name, estimate, unit| Line { name, estimate, unit };
    let boundary = profile.boundary.as_ref();
    vec![
        line("fixed cost t0", profile.fixed_cost_s, Unit::Seconds),
        line("bandwidth B of one read", profile.bytes_per_s, Unit::BytesPerSecond),
        line("size for 90% efficiency", profile.efficient_bytes, Unit::Bytes),
        line("reads in flight for 95% of the peak", profile.depth.as_ref().map(|d| d.enough), Unit::Count),
        line(
            "throughput of large reads, as many",
            profile.depth.as_ref().and_then(|d| d.large).map(|large| large.bytes_per_s),
            Unit::BytesPerSecond,
        ),
        line("random over sequential", profile.random_over_sequential, Unit::Count),
        line(
            "time of a read beside writes over alone",
            profile.mixed.as_ref().map(|m| m.read_beside_writes),
            Unit::Count,
        ),
        line("penalty of crossing a boundary", boundary.map(|boundary| boundary.penalty_s), Unit::Seconds),
    ]
}

/// A number in its unit.
pub fn shown(value: f64, unit: Unit) -> String {
    let bytes = |value: f64| ByteSize(value.max(0.0) as u64).display().iec().to_string();
    match unit {
        Unit::Seconds if value.abs() < 1e-3 => format!("{:.1} us", value * 1e6),
        Unit::Seconds => format!("{:.3} ms", value * 1e3),
        Unit::Bytes => bytes(value),
        Unit::BytesPerSecond => format!("{}/s", bytes(value)),
        Unit::Count => format!("{value:.2}"),
    }
}

/// All findings as text.
pub fn findings(profile: &Profile) -> String {
    let mut table = tables::plain(&["property", "found", "95% bounds"]);
    let measured = |line: &Line| !line.name.contains("beside writes") || profile.mixed.is_some();
    for Line { name, estimate, unit } in lines(profile).into_iter().filter(measured) {
        let (found, bounds) = estimate.map_or(("not detected".to_owned(), String::new()), |e| {
            (shown(e.value, unit), format!("{} to {}", shown(e.low, unit), shown(e.high, unit)))
        });
        table.add_row([name.to_owned(), found, bounds]);
    }
    table.add_row(["boundaries".to_owned(), boundaries(profile), String::new()]);
    table.add_row(["changes of regime".to_owned(), regime(profile), String::new()]);
    let mut text = format!("{table}\n\n{}", latencies(profile));
    if !profile.declared.is_empty() {
        let declared: Vec<String> =
            profile.declared.iter().map(|(name, value)| format!("{name} {value}")).collect();
        text += &format!("\n\ndeclared: {}", declared.join(", "));
    }
    if !profile.complete {
        text += "\n\nA limit was reached before all was measured, or Ctrl-C was pressed: raise --time-limit or --byte-limit for the rest.";
    }
    text
}

fn boundaries(profile: &Profile) -> String {
    match &profile.boundary {
        Some(found) => {
            let bytes = |bytes: u64| shown(bytes as f64, Unit::Bytes);
            let share = 100.0 * found.penalty_share;
            format!(
                "every {} from {}; crossing one costs {share:.0}% of a read of {}",
                bytes(found.period_bytes),
                bytes(found.offset_bytes),
                bytes(found.request_bytes)
            )
        }
        None if profile.boundaries_searched => "not detected".to_owned(),
        None => "not measured".to_owned(),
    }
}

fn regime(profile: &Profile) -> String {
    let rate = |value| shown(value, Unit::BytesPerSecond);
    match &profile.regime {
        Some(found) => format!(
            "after {} without a pause: {} instead of {}",
            shown(found.after_bytes as f64, Unit::Bytes),
            rate(found.bytes_per_s_after),
            rate(found.bytes_per_s_before)
        ),
        None if profile.regime_searched => "not detected".to_owned(),
        None => "not measured".to_owned(),
    }
}

fn latencies(profile: &Profile) -> Table {
    let mut table = tables::plain(&["random read of", "p50", "p99"]);
    for latency in &profile.latencies {
        let seconds = |value| shown(value, Unit::Seconds);
        table.add_row([
            shown(latency.bytes as f64, Unit::Bytes),
            seconds(latency.p50_s.value),
            seconds(latency.p99_s),
        ]);
    }
    table
}
