//! Drives with known figures, and drives derived from published ones.
//!
//! The Atlas 10K is stated: zones, skews, spares, slipped sectors, seek curve, overheads and buffer were
//! measured on one drive for DiskSim (CMU-PDL-08-101). The other drives lack such figures. They are derived
//! from the tables of Schindler et al. (FAST 2002 and VLDB 2003), and each number names its source.

use coscan_base::Span;

use super::geometry::{TrackOrder, Zone};
use super::model::{DiskBus, DiskCache, DiskOverheads, HardDiskModel, ReadAhead};
use super::schedule::Schedule;
use super::seek::SeekCurve;

/// A drive by name.
#[derive(Clone, Copy, Debug)]
pub struct Drive {
    /// The name that users type.
    pub name: &'static str,
    /// A description; says whether the figures are measured or derived.
    pub summary: &'static str,
    /// Its numbers.
    pub model: fn() -> HardDiskModel,
}

/// All drives.
pub const DRIVES: [Drive; 7] = [
    Drive { name: "atlas10k", summary: "Quantum Atlas 10K, 9 GB, 1999: measured", model: atlas10k },
    Drive { name: "atlas10k2", summary: "Quantum Atlas 10K II, 2000: derived", model: atlas10k2 },
    Drive { name: "atlas10k3", summary: "Maxtor Atlas 10K III, 36 GB, 2002: derived", model: atlas10k3 },
    Drive { name: "c2247", summary: "HP C2247, 1 GB, 1992: derived", model: c2247 },
    Drive { name: "atlas3", summary: "Quantum Atlas III, 9 GB, 1997: derived", model: atlas3 },
    Drive {
        name: "ultrastar18lzx",
        summary: "IBM Ultrastar 18LZX, 18 GB, 1999: derived",
        model: ultrastar18lzx,
    },
    Drive { name: "cheetahx15", summary: "Seagate Cheetah X15, 18 GB, 2000: derived", model: cheetahx15 },
];

const fn micros(us: u64) -> Span {
    Span::from_nanos(us * 1000)
}

/// A zone of the Atlas 10K: last cylinder, sectors per track, track skew, cylinder skew, spares, slipped sectors.
type ZoneRow = (u32, u32, u32, u32, u32, &'static [u32]);

#[rustfmt::skip]
const ATLAS_10K_ZONES: [ZoneRow; 24] = [
    (432, 334, 63, 113, 89, &[55017, 358148, 394564, 420533, 483742]),
    (848, 334, 63, 113, 84, &[]),
    (1264, 334, 63, 113, 87, &[194210, 447828, 683935]),
    (1688, 324, 63, 101, 85, &[537635]),
    (2104, 324, 63, 101, 84, &[]),
    (2520, 324, 63, 101, 85, &[54818]),
    (2936, 324, 62, 101, 84, &[]),
    (3360, 324, 61, 98, 92, &[138144, 291290, 615857, 616604, 619565, 620636, 623597, 624668]),
    (3776, 324, 61, 98, 87, &[534099, 587856, 611695]),
    (4192, 324, 61, 98, 85, &[786643]),
    (4608, 324, 61, 98, 85, &[292535]),
    (5032, 306, 58, 98, 79, &[688362]),
    (5448, 306, 58, 98, 89, &[119404, 122999, 123000, 123212, 123213, 126501, 126714, 130309, 130310, 130522, 704354]),
    (5864, 302, 57, 92, 88, &[307482, 634665, 634666, 665410, 668170, 669168, 671928, 672624, 675384, 676383]),
    (6280, 293, 56, 91, 73, &[725499]),
    (6704, 288, 55, 91, 85, &[474619, 474620, 476035, 476036, 477915, 477916, 479331, 479332, 481499, 481500, 482915, 482916, 667331]),
    (7120, 288, 55, 88, 72, &[]),
    (7536, 280, 54, 88, 77, &[49233, 206955, 206956, 425882, 480918]),
    (7952, 270, 51, 87, 66, &[]),
    (8376, 262, 51, 83, 66, &[]),
    (8792, 255, 48, 83, 66, &[]),
    (9208, 246, 47, 75, 60, &[]),
    (9624, 237, 45, 75, 60, &[]),
    (10041, 229, 44, 75, 229, &[]),
];

/// Seek times of the Atlas 10K: cylinders and microseconds.
#[rustfmt::skip]
const ATLAS_10K_SEEKS: [(u32, u64); 138] = [
    (1, 1245), (2, 1157), (3, 1163), (4, 1378), (5, 1355), (6, 1437), (7, 1494), (8, 1645), (9, 1506),
    (10, 1531), (12, 1515), (14, 1535), (16, 1547), (18, 1576), (20, 1620), (25, 1628), (30, 1698),
    (35, 1804), (40, 1929), (45, 2051), (50, 1863), (60, 2313), (70, 1927), (80, 2420), (90, 1970),
    (100, 2011), (125, 2083), (150, 2531), (175, 2380), (200, 2651), (225, 2785), (250, 2858), (275, 2843),
    (300, 2930), (325, 2992), (350, 2987), (375, 3047), (400, 3146), (425, 3065), (450, 3159), (475, 3298),
    (500, 3208), (600, 3097), (700, 3263), (800, 3321), (900, 3516), (1000, 3820), (1100, 3892),
    (1200, 3825), (1300, 3920), (1400, 5225), (1500, 4198), (1600, 4513), (1700, 4305), (1800, 4426),
    (1900, 4802), (2000, 4842), (2100, 4975), (2200, 5013), (2300, 5162), (2400, 4891), (2500, 5224),
    (2600, 5395), (2700, 5158), (2800, 5218), (2900, 5320), (3000, 5643), (3100, 5468), (3200, 5465),
    (3300, 5630), (3400, 5664), (3500, 5703), (3600, 5809), (3700, 5862), (3800, 6059), (3900, 6200),
    (4000, 6226), (4100, 6313), (4200, 6415), (4300, 6255), (4400, 6357), (4500, 6405), (4600, 6486),
    (4700, 9463), (4800, 6714), (4900, 6816), (5000, 6814), (5100, 7239), (5200, 7306), (5300, 7025),
    (5400, 7103), (5500, 7257), (5600, 7221), (5700, 7332), (5800, 7377), (5900, 7443), (6000, 7525),
    (6100, 7610), (6200, 7706), (6300, 7744), (6400, 7806), (6500, 7892), (6600, 7992), (6700, 8079),
    (6800, 8078), (6900, 8170), (7000, 8205), (7100, 8359), (7200, 8686), (7300, 8778), (7400, 8539),
    (7500, 8551), (7600, 8999), (7700, 8714), (7800, 9192), (7900, 8852), (8000, 8951), (8100, 9058),
    (8200, 9117), (8300, 9137), (8400, 9213), (8500, 9337), (8600, 9433), (8700, 9542), (8800, 9494),
    (8900, 9650), (9000, 10114), (9100, 10092), (9200, 9807), (9300, 9911), (9400, 10234), (9500, 10499),
    (9600, 10160), (9700, 10664), (9800, 10694), (9900, 10854), (10000, 10464), (10021, 10828),
];

/// Quantum Atlas 10K, 9 GB, as the drive that DiskSim was validated with.
pub fn atlas10k() -> HardDiskModel {
    let zone = |&(last_cylinder, sectors, track_skew, cylinder_skew, spares, slips): &ZoneRow| Zone {
        last_cylinder,
        sectors,
        track_skew,
        cylinder_skew,
        spares,
        slips: slips.to_vec(),
    };
    HardDiskModel {
        rpm: 10_025,
        heads: 6,
        order: TrackOrder::SameHead,
        zones: ATLAS_10K_ZONES.iter().map(zone).collect(),
        seeks: atlas10k_seeks(),
        head_switch: micros(176),
        write_settle: micros(487),
        zero_latency: true,
        cache: DiskCache {
            segments: 10,
            segment_blocks: 374,
            read_ahead: ReadAhead::Tracks,
            free_reads: true,
            write_back: true,
            stream_hits: false,
            sneaky_hits: false,
        },
        bus: DiskBus { block: micros(99), hold: false },
        overheads: DiskOverheads {
            read_hit: micros(184),
            read_miss: Span::ZERO,
            write_after_read: micros(186),
            write_after_write: micros(189),
        },
        queue_depth: 1,
        schedule: Schedule::Fcfs,
    }
}

fn atlas10k_seeks() -> SeekCurve {
    let points = ATLAS_10K_SEEKS.iter().map(|(distance, us)| (*distance, us * 1000)).collect();
    SeekCurve::new(points).unwrap_or_else(|message| unreachable!("{message}"))
}

/// The figures that differ between derived drives.
struct Derived {
    rpm: u32,
    heads: u32,
    cylinders: u32,
    zones: u32,
    outermost: u32,
    innermost: u32,
    head_switch_us: u64,
    /// Time by which a track is rotated relative to the previous one, at a change of head and at a change of
    /// cylinder.
    skew_us: (u64, u64),
    /// Factor on the times of the Atlas 10K's seek curve.
    seek_time: f64,
    zero_latency: bool,
    /// Time of a block on the bus, in nanoseconds.
    bus_ns: u64,
}

/// Time of a block on buses of 10, 80 and 160 MB/s, in nanoseconds.
const FAST_SCSI_NS: u64 = 51_200;
const ULTRA2_NS: u64 = 6_400;
const ULTRA160_NS: u64 = 3_200;

/// Quantum Atlas 10K II, derived. Stated (FAST 2002, Table 1, quoted from memory): 10,000 rpm, 0.6 ms head
/// switch, 528 to 353 sectors per track, 52,014 tracks. Fitted: seek curve and skew, to the mean seek of 2.2 ms
/// in the first zone and the streaming efficiency of 0.89 in Fig. 3 of VLDB 2003. Assumed: heads, zones, buffer.
pub fn atlas10k2() -> HardDiskModel {
    derived(&Derived {
        rpm: 10_000,
        heads: 3,
        cylinders: 17_338,
        zones: 18,
        outermost: 528,
        innermost: 353,
        head_switch_us: 600,
        skew_us: (740, 1_100),
        seek_time: 0.84,
        zero_latency: true,
        bus_ns: ULTRA160_NS,
    })
}

/// Maxtor Atlas 10K III, 36 GB, derived. Stated (VLDB 2003, Table 1): 10,000 rpm, 0.6 ms head switch, 4.5 ms
/// mean seek, 686 to 396 sectors per track, 124,088 tracks, 4 heads. Fitted: the seek curve, that of the
/// Atlas 10K stretched to the mean seek. Reading: skews, from the head switch and the shortest seek. Assumed:
/// zones, so narrow towards the middle that the capacity is the stated one, and the buffer.
pub fn atlas10k3() -> HardDiskModel {
    derived(&Derived {
        rpm: 10_000,
        heads: 4,
        cylinders: 31_022,
        zones: 18,
        outermost: 686,
        innermost: 396,
        head_switch_us: 600,
        skew_us: (700, 1_100),
        seek_time: 0.80,
        zero_latency: true,
        bus_ns: ULTRA160_NS,
    })
}

// The other drives of Table 1 of VLDB 2003. Stated there: revolutions, head switch, mean seek, sectors per
// track, tracks, heads. Fitted: the seek curve, that of the Atlas 10K stretched to the mean seek. Reading:
// skews, from the head switch and the shortest seek; that drives of Quantum begin a track anywhere and the
// others do not (FAST 2002, from memory). Assumed: zones, as narrow towards the middle as those of the Atlas
// 10K III, buffer, bus.

/// HP C2247, 1 GB, derived from Table 1 of VLDB 2003.
pub fn c2247() -> HardDiskModel {
    derived(&Derived {
        rpm: 5_400,
        heads: 13,
        cylinders: 1_973,
        zones: 8,
        outermost: 96,
        innermost: 56,
        head_switch_us: 1_000,
        skew_us: (1_100, 2_300),
        seek_time: 1.78,
        zero_latency: false,
        bus_ns: FAST_SCSI_NS,
    })
}

/// Quantum Atlas III, 9 GB, derived from Table 1 of VLDB 2003.
pub fn atlas3() -> HardDiskModel {
    derived(&Derived {
        rpm: 7_200,
        heads: 10,
        cylinders: 8_057,
        zones: 18,
        outermost: 256,
        innermost: 168,
        head_switch_us: 1_000,
        skew_us: (1_100, 2_000),
        seek_time: 1.51,
        zero_latency: true,
        bus_ns: ULTRA2_NS,
    })
}

/// IBM Ultrastar 18LZX, 18 GB, derived from Table 1 of VLDB 2003.
pub fn ultrastar18lzx() -> HardDiskModel {
    derived(&Derived {
        rpm: 10_000,
        heads: 10,
        cylinders: 11_634,
        zones: 18,
        outermost: 382,
        innermost: 195,
        head_switch_us: 800,
        skew_us: (900, 1_400),
        seek_time: 1.05,
        zero_latency: false,
        bus_ns: ULTRA2_NS,
    })
}

/// Seagate Cheetah X15, 18 GB, derived from Table 1 of VLDB 2003. The stated number of tracks is not a
/// multiple of the heads: the model has two more.
pub fn cheetahx15() -> HardDiskModel {
    derived(&Derived {
        rpm: 15_000,
        heads: 6,
        cylinders: 17_292,
        zones: 18,
        outermost: 386,
        innermost: 286,
        head_switch_us: 800,
        skew_us: (900, 1_000),
        seek_time: 0.694,
        zero_latency: false,
        bus_ns: ULTRA160_NS,
    })
}

fn derived(drive: &Derived) -> HardDiskModel {
    let base = atlas10k();
    let period_us = 60_000_000 / u64::from(drive.rpm);
    let zone = |nth: u32| {
        let along = f64::from(nth) / f64::from(drive.zones - 1);
        let inward = 0.24 * along + 0.76 * along * along;
        let sectors = f64::from(drive.outermost) - f64::from(drive.outermost - drive.innermost) * inward;
        let sectors = sectors.round() as u32;
        let skew = |us: u64| (us * u64::from(sectors)).div_ceil(period_us) as u32;
        Zone {
            last_cylinder: ((nth + 1) * drive.cylinders).div_ceil(drive.zones) - 1,
            sectors,
            track_skew: skew(drive.skew_us.0),
            cylinder_skew: skew(drive.skew_us.1),
            spares: 0,
            slips: Vec::new(),
        }
    };
    let wider = f64::from(drive.cylinders) / f64::from(base.zones.last().map_or(0, |z| z.last_cylinder) + 1);
    HardDiskModel {
        rpm: drive.rpm,
        heads: drive.heads,
        zones: (0..drive.zones).map(zone).collect(),
        seeks: base.seeks.scaled(wider, drive.seek_time),
        head_switch: micros(drive.head_switch_us),
        cache: DiskCache { segments: 16, segment_blocks: 1024, stream_hits: true, ..base.cache },
        zero_latency: drive.zero_latency,
        bus: DiskBus { block: Span::from_nanos(drive.bus_ns), ..base.bus },
        ..base
    }
}
