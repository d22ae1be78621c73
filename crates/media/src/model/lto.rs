//! LTO tape libraries. Tracks run back and forth along the tape, so positions that are close in bytes may be
//! far apart on the tape, and the reverse.
//!
//! The tape is written in *wraps* that alternate in direction, in four *bands*. A position in bytes becomes a
//! wrap and a longitudinal position (LPOS). The time to locate is the linear model that a production archive
//! (CTA at CERN) fitted to its drives. It has fixed costs for a change of wrap, of band and of direction, for
//! a turn and for a step back. The distance in LPOS adds a proportional cost.
//!
//! **Choices**: the fitted constants are those of LTO-7 drives with M8 media and are used for both
//! generations; only wraps, capacity and rates differ. Every wrap holds the same number of bytes. The landing
//! zone at either end of the tape is the outer 2 % of the LPOS range. Rewinding at an unload takes the stated
//! rewind time in proportion to the LPOS.

use coscan_base::Span;

use super::{LibraryError, Switch, check_drives, check_rate, time_for};

/// A generation of drives and media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LtoGeneration {
    /// LTO-7 half height: 6 TB in 112 wraps.
    Seven,
    /// LTO-9 half height: 18 TB in 280 wraps.
    Nine,
}

/// Numbers of a library of LTO drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lto {
    /// The generation of drives and media.
    pub generation: LtoGeneration,
    /// Drives.
    pub drives: u32,
    /// Arms that carry cartridges.
    pub arms: u32,
    /// Transfer rate of a drive.
    pub bytes_per_s: u64,
}

/// Published facts about a generation.
struct Facts {
    wraps: u64,
    medium_bytes: u64,
    load: Span,
    unload: Span,
    rewind: Span,
}

/// Bands of a tape.
const BANDS: u64 = 4;
/// Longitudinal positions of the first and the last data on a tape.
const LPOS: std::ops::Range<u64> = 2_696..171_097;
/// Upper bound of the time in which an arm carries one cartridge between slot and drive.
const MOVE: Span = Span::from_millis(3_000);

impl Lto {
    /// A library of LTO-9 half-height drives: 300 MB/s.
    pub const fn nine(drives: u32, arms: u32) -> Self {
        Lto { generation: LtoGeneration::Nine, drives, arms, bytes_per_s: 300_000_000 }
    }

    /// A library of LTO-7 half-height drives: 300 MB/s.
    pub const fn seven(drives: u32, arms: u32) -> Self {
        Lto { generation: LtoGeneration::Seven, drives, arms, bytes_per_s: 300_000_000 }
    }

    pub(super) fn check(&self) -> Result<(), LibraryError> {
        check_drives(self.drives)?;
        if self.arms == 0 {
            return Err(LibraryError::NoArm);
        }
        check_rate("transfer", self.bytes_per_s)
    }

    const fn facts(&self) -> Facts {
        match self.generation {
            LtoGeneration::Seven => Facts {
                wraps: 112,
                medium_bytes: 6_000_000_000_000,
                load: Span::from_millis(15_000),
                unload: Span::from_millis(20_000),
                rewind: Span::from_millis(60_000),
            },
            LtoGeneration::Nine => Facts {
                wraps: 280,
                medium_bytes: 18_000_000_000_000,
                load: Span::from_millis(16_000),
                unload: Span::from_millis(56_000),
                rewind: Span::from_millis(62_000),
            },
        }
    }

    pub(super) fn medium_bytes(&self) -> u64 {
        self.facts().medium_bytes
    }

    /// The switch to another cartridge. Mounting takes two moves if a cartridge must be removed first.
    pub(super) fn switch(&self, head: Option<u64>) -> Switch {
        let facts = self.facts();
        let Some(head) = head else {
            return Switch { unload: Span::ZERO, exchange: MOVE, load: facts.load };
        };
        let share = (self.place(head).lpos - LPOS.start) as f64 / (LPOS.end - LPOS.start) as f64;
        let rewind = (facts.rewind.as_nanos() as f64 * share) as u64;
        Switch {
            unload: Span::from_nanos(facts.unload.as_nanos() + rewind),
            exchange: Span::from_nanos(2 * MOVE.as_nanos()),
            load: facts.load,
        }
    }

    /// The place of a byte on the tape.
    fn place(&self, position: u64) -> Place {
        let facts = self.facts();
        let wrap_bytes = facts.medium_bytes / facts.wraps;
        let position = position.min(facts.medium_bytes - 1);
        let wrap = (position / wrap_bytes).min(facts.wraps - 1);
        let within = (position - wrap * wrap_bytes) as f64 / wrap_bytes as f64;
        let along = (within.min(1.0) * (LPOS.end - LPOS.start) as f64) as u64;
        let forward = wrap.is_multiple_of(2);
        let lpos = if forward { LPOS.start + along } else { LPOS.end - along };
        Place { wrap, band: wrap * BANDS / facts.wraps, forward, lpos }
    }

    pub(super) fn locate(&self, from: u64, to: u64) -> Span {
        if from == to {
            return Span::ZERO;
        }
        let (a, b) = (self.place(from), self.place(to));
        let one = |condition: bool| f64::from(u8::from(condition));
        let margin = (LPOS.end - LPOS.start) / 50;
        let landing = |place: &Place| place.lpos < LPOS.start + margin || place.lpos > LPOS.end - margin;
        let backwards = if a.forward { b.lpos < a.lpos } else { b.lpos > a.lpos };
        let seconds = 4.29 + 6.69 * one(a.wrap != b.wrap) + 3.2 * one(a.band != b.band)
            - 6.04 * one(landing(&a) != landing(&b))
            + 5.22 * one(a.forward != b.forward)
            + 11.32 * one(a.wrap == b.wrap && backwards)
            + 0.000_619_2 * a.lpos.abs_diff(b.lpos) as f64;
        // A position that follows directly is read on, even if the model includes a turn.
        let onward = to.checked_sub(from).map(|gap| time_for(gap, self.bytes_per_s).as_nanos());
        let nanos = (seconds.max(0.0) * 1e9) as u64;
        Span::from_nanos(onward.map_or(nanos, |onward| onward.min(nanos)))
    }
}

/// A place on the tape.
struct Place {
    wrap: u64,
    band: u64,
    forward: bool,
    lpos: u64,
}
