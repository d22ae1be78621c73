//! The experiments that come with coscan, the papers' and ours: one scenario file each, one line each in this list.

use coscan_sim::scenario::{Scenario, ScenarioError, Setting};

/// A scenario that is part of the program.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// What commands call it.
    pub name: &'static str,
    text: &'static str,
}

macro_rules! experiments {
    ($($name:literal)*) => {
        &[$(Experiment { name: $name, text: include_str!(concat!("../experiments/", $name, ".toml")) }),*]
    };
}

static EXPERIMENTS: &[Experiment] = experiments! {
    "scan04-homogeneous"
    "scan04-heterogeneous"
    "scan07-table2"
    "scan07-table2-counts"
    "scan07-fig5"
    "scan07-fig6"
    "scan07-fig7"
    "scan07-table3"
    "scan07-table4"
    "order-aggregation"
    "order-join"
    "order-sorted"
    "chunk-size"
};

/// All experiments, in the order of the papers, and ours behind them.
pub fn all() -> &'static [Experiment] {
    EXPERIMENTS
}

/// The experiment of that name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

impl Experiment {
    /// The scenario as it stands in the file.
    ///
    /// # Errors
    /// If the file is not a scenario.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        self.scenario_with(&[])
    }

    /// The scenario with settings on top.
    ///
    /// # Errors
    /// If the file is not a scenario, or the settings do not fit it.
    pub fn scenario_with(&self, settings: &[Setting]) -> Result<Scenario, ScenarioError> {
        Scenario::parse(&format!("experiments/{}.toml", self.name), self.text, settings)
    }
}
