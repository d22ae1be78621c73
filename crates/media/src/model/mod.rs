//! Libraries: time and price of fetching a fragment.
//!
//! There are three kinds. A *robot* has drives that seek at a constant rate (the tape stacker and the optical
//! jukebox of 1996). An *LTO library* has drives that locate by wraps and bands. An *archive* tier mounts
//! nothing and answers after a delay. All are plain numbers that are checked once. The scheduler estimates
//! with a library; a simulator uses it as the truth.
//!
//! Positions on a medium are bytes from its beginning.

mod archive;
mod lto;
mod price;
mod robot;

pub use archive::Archive;
pub use lto::{Lto, LtoGeneration};
pub use price::Price;
pub use robot::Robot;

use coscan_base::Span;
use thiserror::Error;

/// A library with checked numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Library(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Robot(Robot),
    Lto(Lto),
    Archive(Archive),
}

/// The three steps of a switch of media, one after the other; only the middle one needs an arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// The drive alone: rewind and eject the mounted medium.
    pub unload: Span,
    /// An arm carries media between drive and shelf. The number of arms limits how many exchanges run at
    /// once.
    pub exchange: Span,
    /// The drive alone: load until it is ready to read.
    pub load: Span,
}

impl Switch {
    /// The sum, without waiting for an arm.
    pub fn total(&self) -> Span {
        Span::from_nanos(
            self.unload
                .as_nanos()
                .saturating_add(self.exchange.as_nanos())
                .saturating_add(self.load.as_nanos()),
        )
    }
}

/// An impossible number of a library, and the change to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LibraryError {
    /// No drive can read.
    #[error("a library needs at least 1 drive and at most {DRIVES_MAX}, not {0}")]
    Drives(u32),
    /// No medium can be mounted.
    #[error("a library with several media needs at least 1 arm")]
    NoArm,
    /// A rate of zero, or above the range in which arithmetic in nanoseconds is exact.
    #[error("{setting} is {bytes_per_s} bytes/s: use 1 byte/s to 1 TiB/s")]
    Rate {
        /// The setting.
        setting: &'static str,
        /// Its value.
        bytes_per_s: u64,
    },
    /// A time that is too long.
    #[error("{setting} is longer than 30 days: use a shorter time")]
    TooLong {
        /// The setting.
        setting: &'static str,
    },
    /// A medium without capacity.
    #[error("a medium must hold at least 1 byte")]
    Empty,
}

/// Upper bound of the number of drives.
const DRIVES_MAX: u32 = 100_000;
/// Upper bound of rates; it keeps every product within 128 bits.
const RATE_MAX: u64 = 1 << 40;
/// Upper bound of every part of an access.
const TIME_MAX: Span = Span::from_millis(30 * 24 * 3600 * 1000);

impl Library {
    /// A robot whose drives seek at a constant rate.
    ///
    /// # Errors
    /// The first implausible number.
    pub fn robot(robot: Robot) -> Result<Self, LibraryError> {
        robot.check()?;
        Ok(Library(Kind::Robot(robot)))
    }

    /// A library of LTO drives.
    ///
    /// # Errors
    /// The first implausible number.
    pub fn lto(lto: Lto) -> Result<Self, LibraryError> {
        lto.check()?;
        Ok(Library(Kind::Lto(lto)))
    }

    /// An archive tier.
    ///
    /// # Errors
    /// The first implausible number.
    pub fn archive(archive: Archive) -> Result<Self, LibraryError> {
        archive.check()?;
        Ok(Library(Kind::Archive(archive)))
    }

    /// The tape stacker of Sarawagi & Stonebraker 1996, Table 1: one drive, ten tapes of 10 GB.
    pub fn tape_stacker_1996() -> Self {
        Library(Kind::Robot(Robot::tape_stacker_1996()))
    }

    /// The magneto-optical jukebox of the same table: two drives, 32 platters of 1.3 GB.
    pub fn optical_jukebox_1996() -> Self {
        Library(Kind::Robot(Robot::optical_jukebox_1996()))
    }

    /// The same library with another number of drives.
    ///
    /// # Errors
    /// If the number is zero or too large.
    pub fn with_drives(mut self, drives: u32) -> Result<Self, LibraryError> {
        check_drives(drives)?;
        match &mut self.0 {
            Kind::Robot(robot) => robot.drives = drives,
            Kind::Lto(lto) => lto.drives = drives,
            Kind::Archive(archive) => archive.restores_at_once = drives,
        }
        Ok(self)
    }

    /// Number of drives, or of simultaneous restores.
    pub fn drives(&self) -> u32 {
        match &self.0 {
            Kind::Robot(robot) => robot.drives,
            Kind::Lto(lto) => lto.drives,
            Kind::Archive(archive) => archive.restores_at_once,
        }
    }

    /// Number of arms that carry media; zero if nothing is mounted.
    pub fn arms(&self) -> u32 {
        match &self.0 {
            Kind::Robot(robot) => robot.arms,
            Kind::Lto(lto) => lto.arms,
            Kind::Archive(_) => 0,
        }
    }

    /// True if media must be mounted. Otherwise a switch takes no time and media are ignored.
    pub fn mounts(&self) -> bool {
        !matches!(self.0, Kind::Archive(_))
    }

    /// Capacity of a medium in bytes; `None` if unlimited.
    pub fn medium_bytes(&self) -> Option<u64> {
        match &self.0 {
            Kind::Robot(robot) => Some(robot.medium_bytes),
            Kind::Lto(lto) => Some(lto.medium_bytes()),
            Kind::Archive(_) => None,
        }
    }

    /// The switch to another medium in a drive whose head is at `head`; `None` if the drive is empty.
    pub fn switch(&self, head: Option<u64>) -> Switch {
        match &self.0 {
            Kind::Robot(robot) => robot.switch(),
            Kind::Lto(lto) => lto.switch(head),
            Kind::Archive(_) => Switch::default(),
        }
    }

    /// Time in which the head moves between two positions; after a switch it is at 0.
    pub fn locate(&self, from: u64, to: u64) -> Span {
        match &self.0 {
            Kind::Robot(robot) => robot.locate(from, to),
            Kind::Lto(lto) => lto.locate(from, to),
            Kind::Archive(_) => Span::ZERO,
        }
    }

    /// Time to read `bytes` bytes once the head is in place. For an archive: time to restore and read them.
    pub fn transfer(&self, bytes: u64) -> Span {
        match &self.0 {
            Kind::Robot(robot) => time_for(bytes, robot.bytes_per_s),
            Kind::Lto(lto) => time_for(bytes, lto.bytes_per_s),
            Kind::Archive(archive) => archive.restore(bytes),
        }
    }

    /// Price of fetching a fragment of `bytes` bytes.
    pub fn price(&self, bytes: u64) -> Price {
        match &self.0 {
            Kind::Archive(archive) => archive.price(bytes),
            _ => Price::ZERO,
        }
    }
}

/// Time of `bytes` at a rate, rounded up.
fn time_for(bytes: u64, bytes_per_s: u64) -> Span {
    let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bytes_per_s));
    Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn check_drives(drives: u32) -> Result<(), LibraryError> {
    if (1..=DRIVES_MAX).contains(&drives) { Ok(()) } else { Err(LibraryError::Drives(drives)) }
}

fn check_rate(setting: &'static str, bytes_per_s: u64) -> Result<(), LibraryError> {
    if (1..=RATE_MAX).contains(&bytes_per_s) {
        Ok(())
    } else {
        Err(LibraryError::Rate { setting, bytes_per_s })
    }
}

fn check_time(setting: &'static str, time: Span) -> Result<(), LibraryError> {
    if time > TIME_MAX { Err(LibraryError::TooLong { setting }) } else { Ok(()) }
}
