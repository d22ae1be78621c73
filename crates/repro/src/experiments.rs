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
    "scan07-example"
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
    /// True if it runs on the machine of 2007; the example of that paper's introduction has none.
    pub(crate) fn is_on_the_machine_of_2007(&self) -> bool {
        self.name.starts_with("scan07") && self.name != "scan07-example"
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a table of a scenario file, without the buffer, which the experiments vary.
    fn table<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
        let behind = text.split(&format!("\n[{name}]\n")).nth(1).expect("every scenario has the table");
        let lines = behind.lines().take_while(|line| !line.starts_with('['));
        lines.filter(|line| !line.is_empty() && !line.starts_with("buffer")).collect()
    }

    #[test]
    fn the_experiments_of_2007_share_one_machine() {
        let of_2007: Vec<&Experiment> = all().iter().filter(|e| e.is_on_the_machine_of_2007()).collect();
        assert_eq!(of_2007.len(), 7);
        for name in ["system", "device"] {
            let first = table(of_2007[0].text, name);
            assert!(of_2007.iter().all(|experiment| table(experiment.text, name) == first), "{name}");
        }
    }
}
