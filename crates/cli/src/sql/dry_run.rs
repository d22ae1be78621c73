//! `coscan sql --dry-run`: the files that each query would restore from tiers. Nothing is restored and no query
//! runs.

use std::io::{self, Write};

use anyhow::Context;
use bytesize::ByteSize;

use super::session::SqlSession;
use super::statements;

/// Prints the forecasts of all statements.
pub async fn run(session: &SqlSession, texts: &[String]) -> anyhow::Result<()> {
    let mut number = 0;
    for statement in texts.iter().flat_map(|text| statements::all(text)) {
        number += 1;
        let forecasts = session.forecast(statement).await.with_context(|| format!("statement {number}"))?;
        let mut out = io::stdout().lock();
        if forecasts.is_empty() {
            writeln!(out, "statement {number}: reads no tier")?;
        }
        for forecast in forecasts {
            writeln!(
                out,
                "statement {number}: tier {}: {} fragments ({}), {} cached, {} to restore ({}), {} changes of medium, about {:.0} s, \
                 price {:.4}{}",
                forecast.tier,
                forecast.fragments,
                ByteSize(forecast.bytes),
                forecast.cached,
                forecast.restores.len(),
                ByteSize(forecast.restore_bytes),
                forecast.switches,
                forecast.time.as_secs_f64(),
                forecast.price,
                forecast.left.map(|left| format!(" of {left:.4} left")).unwrap_or_default(),
            )?;
            for (fragment, file) in forecast.restores.iter().zip(&forecast.files) {
                writeln!(out, "  {file} ({})", ByteSize(fragment.bytes))?;
            }
        }
    }
    Ok(())
}
