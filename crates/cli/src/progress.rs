//! Progress on stderr: shown on a terminal, silent everywhere else.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that counts to `total` of `unit`.
pub fn counter(total: u64, unit: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    bar.set_style(style(&format!(
        "{{msg:24}} {{bar:32.cyan/dim}} {{human_pos}}/{{human_len}} {unit} {{elapsed}}, {{eta}} left"
    )));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A line that names the current step.
pub fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.set_style(style("{spinner} {msg} {elapsed}"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
