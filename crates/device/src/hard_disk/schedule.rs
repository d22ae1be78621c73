//! Order in which a disk serves commands.

/// The order in which a disk serves the commands it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// First come, first served.
    Fcfs,
    /// Shortest seek first, by cylinders.
    Sstf,
    /// In ascending order of blocks, then from the lowest again.
    CLook,
    /// Shortest positioning first: seek and rotation.
    Sptf,
    /// Shortest positioning first, minus a share of the command's waiting time, in thousandths. The share
    /// prevents starvation (ASPTF: Worthington, Ganger, Patt, SIGMETRICS 1994).
    AgedSptf {
        /// Thousandths of the waiting time that count as positioning saved.
        per_mille: u32,
    },
}

/// A command among which the next one is chosen.
pub(super) struct Candidate {
    /// Its place in the order of arrival.
    pub nth: usize,
    pub first: u64,
    pub cylinders: u32,
    pub positioning: u64,
    /// Time since its arrival at the drive.
    pub waited: u64,
}

impl Schedule {
    /// Returns the next command for a head at block `head`; ties go to the first to arrive.
    pub(super) fn choose(self, head: u64, candidates: impl Iterator<Item = Candidate>) -> Option<usize> {
        let key = |c: &Candidate| match self {
            Schedule::Fcfs => (0, 0, c.nth),
            Schedule::Sstf => (0, i128::from(c.cylinders), c.nth),
            Schedule::CLook => (u64::from(c.first < head), i128::from(c.first), c.nth),
            Schedule::Sptf => (0, i128::from(c.positioning), c.nth),
            Schedule::AgedSptf { per_mille } => {
                let aged = i128::from(c.waited) * i128::from(per_mille) / 1000;
                (0, i128::from(c.positioning) - aged, c.nth)
            }
        };
        candidates.min_by_key(key).map(|c| c.nth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_takes_what_it_says() {
        let candidates = || {
            let all = [(90, 5, 30), (10, 2, 60), (60, 4, 20)];
            all.into_iter().enumerate().map(|(nth, (first, cylinders, positioning))| Candidate {
                nth,
                first,
                cylinders,
                positioning,
                waited: 60 - 30 * nth as u64,
            })
        };
        let choose = |schedule: Schedule| schedule.choose(50, candidates());
        let orders = [Schedule::Fcfs, Schedule::Sstf, Schedule::CLook, Schedule::Sptf];
        assert_eq!(orders.map(choose), [Some(0), Some(1), Some(2), Some(2)]);
        assert_eq!(Schedule::CLook.choose(95, candidates()), Some(1));
        // 30, 60 and 20 less a fifth of 60, 30 and 0.
        assert_eq!(Schedule::AgedSptf { per_mille: 200 }.choose(50, candidates()), Some(0));
        assert_eq!(Schedule::AgedSptf { per_mille: 0 }.choose(50, candidates()), Some(2));
    }
}
