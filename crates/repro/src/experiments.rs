//! The experiments inside coscan, the papers' and ours: one scenario file and one line in this list each, and
//! the scenario of slow media.

use coscan_sim::scenario::{MediaScenario, Scenario, ScenarioError, Setting};

/// A scenario inside the binary.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name in commands.
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

static MEDIA: MediaExperiment =
    MediaExperiment { name: "slow-media", text: include_str!("../experiments/slow-media.toml") };

/// A scenario of slow media inside the binary.
#[derive(Clone, Copy, Debug)]
pub struct MediaExperiment {
    /// Its name in commands.
    pub name: &'static str,
    text: &'static str,
}

/// All experiments with scans, in the order of the papers, followed by ours.
pub fn all() -> &'static [Experiment] {
    EXPERIMENTS
}

/// The experiment with that name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

/// The experiment of slow media.
pub fn media() -> &'static MediaExperiment {
    &MEDIA
}

impl MediaExperiment {
    /// The scenario with settings on top.
    ///
    /// # Errors
    /// If the file is not a scenario of slow media, or the settings do not fit it.
    pub fn scenario_with(&self, settings: &[Setting]) -> Result<MediaScenario, ScenarioError> {
        MediaScenario::parse(&file_of(self.name), self.text, settings)
    }
}

/// The file name of an experiment in errors.
fn file_of(name: &str) -> String {
    format!("experiments/{name}.toml")
}

impl Experiment {
    /// The scenario of the file.
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
        Scenario::parse(&file_of(self.name), self.text, settings)
    }
}
