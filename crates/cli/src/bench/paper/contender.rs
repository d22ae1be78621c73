//! The measured systems: a sharing policy on a fresh engine, or the query engine without coscan.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use indicatif::ProgressBar;

use super::stats::Cost;
use crate::bench::run::run_streams;
use crate::bench::workload::{Outcome, Workload};
use crate::cpu;
use crate::session::{Load, Session};
use crate::settings::{PolicyName, Settings};

/// One column of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    Policy(PolicyName),
    DataFusion,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contender::Policy(policy) => write!(f, "{policy}"),
            Contender::DataFusion => f.write_str("DataFusion"),
        }
    }
}

/// The results of a contender for a workload.
pub struct Run {
    pub outcomes: Vec<Outcome>,
    pub cost: Cost,
    /// Every load of a chunk, in order; empty for the plain engine.
    pub loads: Vec<Load>,
}

impl Run {
    /// A hash (FNV-1a) of the chunks in the order of their loads.
    pub fn trace_hash(&self) -> String {
        let bytes = self.loads.iter().flat_map(|load| load.chunk.to_le_bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("{hash:016x}")
    }
}

impl Contender {
    /// The trace file of the run with this seed, if runs are recorded: policy and seed before the file's extension.
    pub fn record_of(self, settings: &Settings, seed: u64) -> Option<PathBuf> {
        let (Contender::Policy(policy), Some(path)) = (self, &settings.record) else { return None };
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let extension = path.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
        Some(path.with_file_name(format!("{stem}-{policy}-{seed}{extension}")))
    }

    /// Runs the workload on a fresh engine under the limits of `settings`.
    pub async fn run(
        self,
        settings: &Settings,
        workload: &Workload,
        bar: &ProgressBar,
    ) -> anyhow::Result<Run> {
        let session = match self {
            Contender::Policy(policy) => {
                let record = self.record_of(settings, workload.seed);
                let settings = settings.with("coscan.policy", policy.as_str())?;
                Session::cooperative(&Settings { record, ..settings })?
            }
            Contender::DataFusion => Session::plain(settings)?,
        };
        for (name, table) in &workload.tables {
            session.register_files(name, &table.files).await?;
        }
        let session = Arc::new(session);
        let before = session.counters();
        let cpu_before = cpu::process_seconds();
        let t0 = Instant::now();
        let (outcomes, loads) = session.watching_loads(run_streams(&session, workload, t0, bar)).await?;
        let cpu_s = cpu::process_seconds().zip(cpu_before).map(|(after, before)| after - before);
        let spent = session.counters().since(&before);
        let cost = Cost { cpu_s, loads: spent.loads, bytes: spent.bytes_read, cores: settings.threads };
        session.finish_recording()?;
        Ok(Run { outcomes, cost, loads })
    }
}
