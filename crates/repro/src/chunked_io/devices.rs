//! The disks of 2004, §3.2, as models.
//!
//! The paper names a 40 GB IBM DeskStar of 7200 rpm, a 36 GB Seagate Cheetah of 10,000 rpm, and a 3ware 7810
//! with 8 SATA drives of 7200 rpm and stripes of 64 KB. It gives no figures for them, and each has several
//! generations. The models are those on sale shortly before: Deskstar 120GXP and Cheetah 10K.6.
//!
//! - Seeks: the makers' averages for reads, 8.5 ms (120GXP specification, revision 4.1, §4.4.2) and 4.7 ms
//!   (Cheetah), plus half a rotation. Command overhead (0.3 ms on the Deskstar) is left out.
//! - Bandwidth: the middle between the sustained rates of the outermost and the innermost zone: 48 and 23
//!   MB/s, and 68 and 38 MB/s. The reason is that random chunks of a large file lie in all zones of the disk.
//! - A step forward to a page of the same 8 MB: a track-to-track seek, 1.2 ms and 0.4 ms, plus half a rotation.
//! - The array's drives are modelled as Deskstars, because the paper finds that each needs chunks of 4 MB
//!   "just like we measured". The controller and its bus are not modelled.
//!
//! All figures but the Deskstar's seek are as commonly quoted of these drives, and not checked against their
//! manuals.

use coscan_core::Span;
use coscan_device::{DeviceModel, DeviceSpec, RaidLevel};

/// Disks of the array, X in the paper's Table 3.
pub(crate) const DISKS: u32 = 8;
pub(crate) const STRIPE_UNIT_BYTES: u64 = 64 << 10;

/// A disk's figures in the model.
#[derive(Clone, Copy)]
pub(crate) struct Disk {
    pub(crate) name: &'static str,
    bytes_per_s: u64,
    /// Average seek.
    seek_ns: u64,
    /// Seek to a neighbouring track.
    track_ns: u64,
    /// Half a rotation.
    latency_ns: u64,
}

pub(crate) const DESKTOP: Disk = Disk {
    name: "desktop disk",
    bytes_per_s: 35_500_000,
    seek_ns: 8_500_000,
    track_ns: 1_200_000,
    latency_ns: 4_167_000,
};

pub(crate) const SERVER: Disk = Disk {
    name: "server disk",
    bytes_per_s: 53_000_000,
    seek_ns: 4_700_000,
    track_ns: 400_000,
    latency_ns: 3_000_000,
};

pub(crate) const ARRAY: &str = "RAID-5 of 8";

/// The distance between accesses.
#[derive(Clone, Copy)]
pub(crate) enum Reach {
    /// Any place on the disk.
    Random,
    /// Forward, within a few tracks.
    Forward,
}

impl Disk {
    /// Time from the end of one transfer to the beginning of the next.
    fn access(&self, reach: Reach) -> Span {
        let arm_ns = match reach {
            Reach::Random => self.seek_ns,
            Reach::Forward => self.track_ns,
        };
        Span::from_nanos(arm_ns + self.latency_ns)
    }

    fn model(&self, reach: Reach) -> DeviceModel {
        DeviceModel::SeekDisk { bytes_per_s: self.bytes_per_s, seek: self.access(reach) }
    }

    pub(crate) fn spec(&self, reach: Reach) -> DeviceSpec {
        DeviceSpec::new(self.model(reach)).expect("the model is sound")
    }
}

/// An array of desktop disks.
pub(crate) fn array(level: RaidLevel, reach: Reach) -> DeviceSpec {
    let member = Box::new(DESKTOP.model(reach));
    let stripe_unit_bytes = STRIPE_UNIT_BYTES;
    let model = DeviceModel::Raid { level, disks: DISKS, stripe_unit_bytes, member };
    DeviceSpec::new(model).expect("the model is sound")
}

/// The parameters in words.
pub(crate) fn described() -> String {
    let disk = |disk: &Disk| {
        let ms = |reach| disk.access(reach).as_nanos() as f64 / 1e6;
        format!(
            "{}: {} MB/s, {:.1} ms to a random place, {:.1} ms to a page ahead",
            disk.name,
            disk.bytes_per_s as f64 / 1e6,
            ms(Reach::Random),
            ms(Reach::Forward),
        )
    };
    format!(
        "The paper names its disks without numbers; these are of drives of that size and speed on sale then \
         (IBM Deskstar 120GXP, Seagate Cheetah 10K.6). {}; {}. Bandwidth is the middle between the outermost \
         and the innermost zone, access time the average read seek plus half a rotation. The arrays have \
         {DISKS} such desktop disks and stripe units of 64 KiB; controller and bus are not modelled.",
        disk(&DESKTOP),
        disk(&SERVER),
    )
}
