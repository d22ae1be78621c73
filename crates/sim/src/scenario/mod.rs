//! Scenario files: experiments as text. `docs/scenarios.md` explains every key.
//!
//! A [`Scenario`] is the checked content of a file and the settings on top of it. It has one or more points
//! (several if a key is swept), each a world and a recipe for the queries. It also has the policies and seeds
//! to run them under, and the paper's values. This module runs nothing.

mod build;
mod device;
mod draw;
mod error;
mod file;
mod media;
mod operator;
mod overrides;
mod table;
mod units;

use std::collections::BTreeMap;
use std::path::Path;

use coscan_core::PolicyName;
use serde::de::DeserializeOwned;
use toml::Table;

pub use draw::Recipe;
pub use error::ScenarioError;
pub use file::{Basis, ExpectFile, PaperFile, PaperValues};
pub use media::MediaScenario;
pub use overrides::Setting;

use crate::workload::World;
use error::{KeyError, Source};
use file::{ScenarioFile, SweepFile};

/// An experiment, ready to run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name in commands.
    pub name: String,
    /// Its name in figures and tables.
    pub title: String,
    /// Its source.
    pub source: String,
    /// Notes: calibrated parameters, deviations.
    pub notes: String,
    /// The policies to compare.
    pub policies: Vec<PolicyName>,
    /// The policies that are compared with the paper's, by the paper's name, where their names differ.
    pub compared: BTreeMap<String, PolicyName>,
    /// Seeds: one run of each policy per seed.
    pub seeds: Vec<u64>,
    /// The points to run: one, or one per combination of swept values.
    pub points: Vec<Point>,
    /// The paper's values.
    pub paper: Option<PaperFile>,
    /// Single expected values.
    pub expect: Vec<ExpectFile>,
}

/// One combination of swept values.
#[derive(Clone, Debug)]
pub struct Point {
    /// The swept keys and their values; empty without a sweep.
    pub at: Vec<(String, String)>,
    /// The machine and the tables.
    pub world: World,
    /// The queries, to be drawn with a seed.
    pub recipe: Recipe,
}

impl Scenario {
    /// The paper's name of a policy: its own, unless the paper's policy of that name is compared with another
    /// one.
    pub fn name_in_paper(&self, policy: PolicyName) -> Option<&str> {
        let other = self.compared.iter().find(|(_, compared)| **compared == policy);
        let own = || (!self.compared.contains_key(policy.as_str())).then_some(policy.as_str());
        other.map(|(name, _)| name.as_str()).or_else(own)
    }

    /// Reads a scenario from a file, with settings on top.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a scenario.
    pub fn load(path: &Path, settings: &[Setting]) -> Result<Self, ScenarioError> {
        Self::parse(&path.display().to_string(), &read(path)?, settings)
    }

    /// Reads a scenario from text; errors name it `origin`.
    ///
    /// # Errors
    /// If the text is not a scenario.
    pub fn parse(origin: &str, text: &str, settings: &[Setting]) -> Result<Self, ScenarioError> {
        let source = Source { origin, text };
        let read = |text: &str| toml::from_str::<ScenarioFile>(text);
        let mut file = read(text).map_err(|e| source.toml_error(&e))?;
        let mut document: Table = text.parse().map_err(|e| source.toml_error(&e))?;
        for setting in settings {
            setting.apply(&mut document).map_err(|e| source.locate(e))?;
        }
        if !settings.is_empty() {
            file = changed(&source, &document)?;
        }
        let mut points = Vec::new();
        for at in combinations(&file.sweep, settings).map_err(|e| source.locate(e))? {
            let mut point = document.clone();
            for (setting, _) in &at {
                setting.apply(&mut point).map_err(|e| source.locate(e))?;
            }
            let swept = if at.is_empty() { file.clone() } else { changed(&source, &point)? };
            let (world, recipe) = build::build(&swept).map_err(|e| source.locate(e))?;
            let at = at.into_iter().map(|(setting, label)| (setting.key, label)).collect();
            points.push(Point { at, world, recipe });
        }
        let policies = build::policies(&file).map_err(|e| source.locate(e))?;
        build::check_paper(&file).map_err(|e| source.locate(e))?;
        let compared = build::compared(&file).map_err(|e| source.locate(e))?;
        Ok(Scenario {
            name: file.name,
            title: file.title,
            source: file.source,
            notes: file.notes,
            policies,
            compared,
            seeds: file.seeds.map_or_else(|| vec![1], |seeds| seeds.0),
            points,
            paper: file.paper,
            expect: file.expect,
        })
    }
}

fn read(path: &Path) -> Result<String, ScenarioError> {
    std::fs::read_to_string(path).map_err(|error| ScenarioError {
        origin: path.display().to_string(),
        line: None,
        key: String::new(),
        message: format!("cannot be read: {error}"),
    })
}

/// Reads a document that settings have changed. Errors name the key, and its line if the file has it.
fn changed<T: DeserializeOwned>(source: &Source<'_>, document: &Table) -> Result<T, ScenarioError> {
    let text = document.to_string();
    toml::from_str(&text).map_err(|error| {
        let changed = Source { origin: source.origin, text: &text };
        let ScenarioError { key, message, .. } = changed.toml_error(&error);
        source.locate(KeyError { key, message })
    })
}

/// All combinations of swept values, the last key fastest; a key set by hand is not swept.
fn combinations(sweeps: &[SweepFile], settings: &[Setting]) -> Result<Vec<Vec<(Setting, String)>>, KeyError> {
    let mut combinations = vec![Vec::new()];
    for (number, sweep) in sweeps.iter().enumerate() {
        if settings.iter().any(|setting| setting.key == sweep.key) {
            continue;
        }
        let labels = labels(number, sweep)?;
        let values: Vec<(Setting, String)> = sweep
            .values
            .iter()
            .zip(labels)
            .map(|(value, label)| (Setting { key: sweep.key.clone(), value: value.clone() }, label))
            .collect();
        combinations = combinations
            .into_iter()
            .flat_map(|before| {
                values.iter().map(move |value| [before.as_slice(), std::slice::from_ref(value)].concat())
            })
            .collect();
    }
    Ok(combinations)
}

/// The labels of a sweep's values.
fn labels(number: usize, sweep: &SweepFile) -> Result<Vec<String>, KeyError> {
    if sweep.values.is_empty() {
        return Err(KeyError::new(format!("sweep.{number}.values"), "a sweep needs at least one value"));
    }
    match &sweep.labels {
        Some(labels) if labels.len() != sweep.values.len() => {
            let message = format!("{} labels for {} values", labels.len(), sweep.values.len());
            Err(KeyError::new(format!("sweep.{number}.labels"), message))
        }
        Some(labels) => Ok(labels.clone()),
        None => {
            let text = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Ok(sweep.values.iter().map(text).collect())
        }
    }
}
