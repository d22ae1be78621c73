//! Which command a disk serves next.

/// The order in which a disk serves the commands it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// First come, first served.
    Fcfs,
    /// Shortest seek first, by cylinders.
    Sstf,
    /// In ascending order of blocks, then again from the lowest.
    CLook,
    /// Shortest positioning first: seek and rotation.
    Sptf,
}

/// What is known of a command when the next one is chosen.
pub(super) struct Candidate {
    /// Its place in the order of arrival.
    pub nth: usize,
    pub first: u64,
    pub cylinders: u32,
    pub positioning: u64,
}

impl Schedule {
    /// The next of these, and the block where the head is; ties go to who came first.
    pub(super) fn choose(self, head: u64, candidates: impl Iterator<Item = Candidate>) -> Option<usize> {
        let key = |c: &Candidate| match self {
            Schedule::Fcfs => (0, 0, c.nth),
            Schedule::Sstf => (0, u64::from(c.cylinders), c.nth),
            Schedule::CLook => (u64::from(c.first < head), c.first, c.nth),
            Schedule::Sptf => (0, c.positioning, c.nth),
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
            })
        };
        let choose = |schedule: Schedule| schedule.choose(50, candidates());
        let orders = [Schedule::Fcfs, Schedule::Sstf, Schedule::CLook, Schedule::Sptf];
        assert_eq!(orders.map(choose), [Some(0), Some(1), Some(2), Some(2)]);
        assert_eq!(Schedule::CLook.choose(95, candidates()), Some(1));
    }
}
