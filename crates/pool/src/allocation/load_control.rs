//! Load control: the number of queries that may run at once.
//!
//! There are two kinds. By predicted demand, a query runs if the frames that all running queries want for
//! themselves fit; the allocation policy says how many a query wants. By feedback, one query less may run if
//! the device is busier than a threshold, otherwise one more.
//!
//! Source: Chou & DeWitt 1985, sections 3.2 and 4.2 for demand: the query that asks for more is the one that
//! stops, as in VMOS. Section 4.3 for feedback: estimator, optimizer and control switch, after the "50 %
//! rule" of Leroudier & Potier 1976; Chou & DeWitt found 87 % to be best.
//! **Choice:** a query that is alone always runs, whatever its demand.
//! **Choice:** the estimator is a moving mean in which the last sample has a weight of one half. The
//! optimizer changes the number by one query per sample. The control switch stops queries when they fault, as
//! under predicted demand, and starts the first that waits.
//! **Cost:** constant; adding up demands is linear in the running queries.

use std::fmt::{self, Debug};
use std::str::FromStr;

use crate::error::PoolConfigError;

/// The load for which a decision is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Frames of the pool.
    pub frames: u32,
    /// Frames that must remain free.
    pub spare: u32,
    /// Frames that running queries want, in total.
    pub demanded: u64,
    /// Running queries.
    pub active: u32,
}

/// Decides whether queries may run.
pub trait LoadControl: Debug + Send {
    /// True if a query that wants `wanted` frames may run in addition to this load.
    fn admits(&self, load: Load, wanted: u32) -> bool;

    /// True if a running query that has just asked for more must stop. The load includes this query.
    fn sheds(&self, load: Load) -> bool;

    /// The device was busy for this many thousandths of the time.
    fn on_utilisation(&mut self, permille: u32, active: u32);
}

/// All queries run.
#[derive(Clone, Copy, Debug)]
struct Unlimited;

impl LoadControl for Unlimited {
    fn admits(&self, _load: Load, _wanted: u32) -> bool {
        true
    }

    fn sheds(&self, _load: Load) -> bool {
        false
    }

    fn on_utilisation(&mut self, _permille: u32, _active: u32) {}
}

/// By predicted demand.
#[derive(Clone, Copy, Debug)]
struct Predicted;

impl LoadControl for Predicted {
    fn admits(&self, load: Load, wanted: u32) -> bool {
        load.demanded + u64::from(wanted) + u64::from(load.spare) <= u64::from(load.frames)
    }

    fn sheds(&self, load: Load) -> bool {
        load.demanded + u64::from(load.spare) > u64::from(load.frames)
    }

    fn on_utilisation(&mut self, _permille: u32, _active: u32) {}
}

/// By feedback on the device.
#[derive(Clone, Copy, Debug)]
struct Feedback {
    threshold_permille: u32,
    /// The estimate of utilisation.
    estimate_permille: u32,
    /// The optimizer's limit on running queries.
    active_max: u32,
}

impl LoadControl for Feedback {
    fn admits(&self, load: Load, _wanted: u32) -> bool {
        load.active < self.active_max
    }

    fn sheds(&self, load: Load) -> bool {
        load.active > self.active_max
    }

    fn on_utilisation(&mut self, permille: u32, active: u32) {
        self.estimate_permille = (self.estimate_permille + permille).div_ceil(2);
        self.active_max = if self.estimate_permille > self.threshold_permille {
            active.saturating_sub(1).max(1)
        } else {
            active + 1
        };
    }
}

/// The kinds of load control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoadControlName {
    /// None: every query runs at once.
    Unlimited,
    /// By predicted demand.
    Predicted,
    /// By feedback on the utilisation of the device.
    Feedback {
        /// The target utilisation, in thousandths of the time.
        threshold_permille: u32,
    },
}

impl LoadControlName {
    /// Feedback with the threshold that Chou & DeWitt 1985 found best.
    pub const FEEDBACK: LoadControlName = LoadControlName::Feedback { threshold_permille: 870 };

    /// The load control.
    ///
    /// # Errors
    /// If the threshold is above 1000 thousandths.
    pub fn build(self) -> Result<Box<dyn LoadControl>, PoolConfigError> {
        Ok(match self {
            LoadControlName::Unlimited => Box::new(Unlimited),
            LoadControlName::Predicted => Box::new(Predicted),
            LoadControlName::Feedback { threshold_permille } if threshold_permille > 1000 => {
                return Err(PoolConfigError::Threshold { threshold_permille });
            }
            LoadControlName::Feedback { threshold_permille } => {
                // Nothing is known of the device before the first sample: all queries may run.
                Box::new(Feedback { threshold_permille, estimate_permille: 0, active_max: u32::MAX })
            }
        })
    }
}

impl fmt::Display for LoadControlName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadControlName::Unlimited => f.write_str("unlimited"),
            LoadControlName::Predicted => f.write_str("predicted"),
            LoadControlName::Feedback { threshold_permille } => write!(f, "feedback:{threshold_permille}"),
        }
    }
}

impl FromStr for LoadControlName {
    type Err = PoolConfigError;

    fn from_str(name: &str) -> Result<Self, PoolConfigError> {
        let known = match name.split_once(':') {
            None if name == "unlimited" => Some(LoadControlName::Unlimited),
            None if name == "predicted" => Some(LoadControlName::Predicted),
            None if name == "feedback" => Some(LoadControlName::FEEDBACK),
            Some(("feedback", permille)) => permille
                .parse()
                .ok()
                .map(|threshold_permille| LoadControlName::Feedback { threshold_permille }),
            _ => None,
        };
        known.ok_or_else(|| PoolConfigError::UnknownName {
            what: "load control",
            name: name.to_owned(),
            known: "unlimited, predicted, feedback, feedback:THOUSANDTHS".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicted_demand_leaves_the_spare_frames() {
        let load = Load { frames: 100, spare: 1, demanded: 90, active: 5 };
        assert!(Predicted.admits(load, 9));
        assert!(!Predicted.admits(load, 10));
        assert!(!Predicted.sheds(Load { demanded: 99, ..load }));
        assert!(Predicted.sheds(Load { demanded: 100, ..load }));
    }

    #[test]
    fn feedback_goes_down_above_its_threshold_and_up_below() {
        let mut control = LoadControlName::FEEDBACK.build().unwrap();
        let load = |active| Load { active, ..Load::default() };
        assert!(control.admits(load(1000), 0), "nothing is known yet");
        control.on_utilisation(1000, 8);
        assert!(!control.sheds(load(8)), "the estimate is 500");
        for active in [8, 8, 8] {
            control.on_utilisation(1000, active);
        }
        assert!(control.sheds(load(8)) && !control.sheds(load(7)), "938 is above 870");
        assert!(!control.admits(load(7), 0) && control.admits(load(6), 0));
        control.on_utilisation(0, 7);
        assert!(control.admits(load(7), 0) && !control.admits(load(8), 0), "469 is below");
        control.on_utilisation(1000, 1);
        control.on_utilisation(1000, 1);
        control.on_utilisation(1000, 1);
        assert!(!control.sheds(load(1)), "one may always run");
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in [LoadControlName::Unlimited, LoadControlName::Predicted, LoadControlName::FEEDBACK] {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert!("feedback:x".parse::<LoadControlName>().is_err());
        assert!(LoadControlName::Feedback { threshold_permille: 1001 }.build().is_err());
    }
}
