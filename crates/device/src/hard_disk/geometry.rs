//! Geometry of a disk: zones, tracks, skews, spare and slipped sectors, and the order of tracks.
//!
//! A zone is a run of cylinders whose tracks have equally many sectors. Its tracks are numbered in the order
//! of logical blocks; [`TrackOrder`] maps a number to cylinder and head. Defects that were remapped after the
//! disk left the factory are not modelled: a new disk has none.

use super::Picos;

/// The order of tracks within a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackOrder {
    /// All heads of a cylinder, then the next cylinder from head 0.
    Cylinders,
    /// All heads of a cylinder, then the next cylinder from the last head. Every second cylinder of a zone
    /// uses the heads backwards, and a cylinder switch needs no head switch.
    SameHead,
    /// Several cylinders with one head, back with the next, and so on: a snake on every surface.
    Serpentine {
        /// Tracks in a row on one surface.
        tracks: u32,
    },
}

/// A group of cylinders with equal tracks, as the drive's maker states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its last cylinder; the first follows the previous zone.
    pub last_cylinder: u32,
    /// Sectors on a track.
    pub sectors: u32,
    /// Sectors by which a track's first sector is rotated relative to the previous track, at a change of
    /// head.
    pub track_skew: u32,
    /// The same at a change of cylinder.
    pub cylinder_skew: u32,
    /// Sectors at the end of the zone that hold no blocks.
    pub spares: u32,
    /// Sectors, counted from the start of the zone, that are skipped because they are bad. Ascending.
    pub slips: Vec<u32>,
}

/// A track as the mechanism sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Track {
    pub cylinder: u32,
    pub head: u32,
    pub sectors: u32,
    /// Sectors by which sector 0 is rotated relative to the index mark.
    skew: u32,
    /// Its first block.
    pub first: u64,
    /// The block behind its last.
    pub end: u64,
    /// Its bad sectors, which hold no block, ascending.
    slipped: Vec<u32>,
}

impl Track {
    /// The sector that holds a block of this track.
    pub fn sector_of(&self, block: u64) -> u32 {
        let mut sector = (block - self.first) as u32;
        for slip in &self.slipped {
            sector += u32::from(*slip <= sector);
        }
        sector
    }

    /// The block in a sector, if there is one.
    pub fn block_at(&self, sector: u32) -> Option<u64> {
        if self.slipped.contains(&sector) {
            return None;
        }
        let slips = self.slipped.iter().filter(|slip| **slip < sector).count() as u64;
        let block = self.first + u64::from(sector) - slips;
        (block < self.end).then_some(block)
    }

    /// The time from the index mark to the start of a sector, in a revolution of `period`.
    pub fn offset(&self, sector: u32, period: Picos) -> Picos {
        let turned = (self.skew + sector) % self.sectors;
        u64::from(turned) * period / u64::from(self.sectors)
    }

    /// The first sector that begins `phase` or later after the index mark.
    pub fn sector_from(&self, phase: Picos, period: Picos) -> u32 {
        let turned = (phase * u64::from(self.sectors)).div_ceil(period) as u32;
        (turned + self.sectors - self.skew) % self.sectors
    }
}

/// The mapping of blocks to tracks.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    heads: u32,
    order: TrackOrder,
    zones: Vec<PlacedZone>,
    blocks: u64,
}

#[derive(Clone, Debug)]
struct PlacedZone {
    zone: Zone,
    first_cylinder: u32,
    first_block: u64,
    blocks: u64,
}

/// The place of a track in its zone, and the switches from the zone's first track to it.
struct Placed {
    cylinder: u32,
    head: u32,
    head_switches: u32,
    cylinder_switches: u32,
}

impl Geometry {
    /// Zones in the order of their cylinders, checked by the caller.
    pub fn new(heads: u32, order: TrackOrder, zones: &[Zone]) -> Self {
        let (mut placed, mut first_cylinder, mut first_block) = (Vec::new(), 0, 0);
        for zone in zones {
            let cylinders = zone.last_cylinder + 1 - first_cylinder;
            let sectors = u64::from(cylinders) * u64::from(heads) * u64::from(zone.sectors);
            let blocks = sectors - u64::from(zone.spares);
            placed.push(PlacedZone { zone: zone.clone(), first_cylinder, first_block, blocks });
            first_cylinder = zone.last_cylinder + 1;
            first_block += blocks;
        }
        Geometry { heads, order, zones: placed, blocks: first_block }
    }

    /// Total number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The track that holds a block.
    ///
    /// # Panics
    /// If the disk has no such block.
    pub fn track_of(&self, block: u64) -> Track {
        let at = self.zones.partition_point(|zone| zone.first_block <= block) - 1;
        let PlacedZone { zone, first_cylinder, first_block, blocks } = &self.zones[at];
        let mut sector = block - first_block;
        assert!(sector < *blocks, "a request beyond the end of the disk");
        for slip in &zone.slips {
            sector += u64::from(u64::from(*slip) <= sector);
        }
        let sectors = u64::from(zone.sectors);
        let index = sector / sectors;
        let from = index * sectors;
        let slipped: Vec<u32> =
            zone.slips.iter().map(|slip| u64::from(*slip)).fold(Vec::new(), |mut on, slip| {
                if (from..from + sectors).contains(&slip) {
                    on.push((slip - from) as u32);
                }
                on
            });
        let before = zone.slips.iter().filter(|slip| u64::from(**slip) < from).count() as u64;
        let first = from - before;
        let end = (first + sectors - slipped.len() as u64).min(*blocks);
        let cylinders = zone.last_cylinder + 1 - first_cylinder;
        let place = self.place(index as u32, cylinders);
        let skew = u64::from(zone.track_skew) * u64::from(place.head_switches)
            + u64::from(zone.cylinder_skew) * u64::from(place.cylinder_switches);
        Track {
            cylinder: first_cylinder + place.cylinder,
            head: place.head,
            sectors: zone.sectors,
            skew: (skew % sectors) as u32,
            first: first_block + first,
            end: first_block + end,
            slipped,
        }
    }

    fn place(&self, track: u32, cylinders: u32) -> Placed {
        let heads = self.heads;
        let (cylinder, nth) = (track / heads, track % heads);
        let backwards = self.order == TrackOrder::SameHead && cylinder % 2 == 1;
        match self.order {
            TrackOrder::Cylinders | TrackOrder::SameHead => Placed {
                cylinder,
                head: if backwards { heads - 1 - nth } else { nth },
                head_switches: track - cylinder,
                cylinder_switches: cylinder,
            },
            TrackOrder::Serpentine { tracks } => {
                let band = track / (tracks * heads);
                let width = tracks.min(cylinders - band * tracks);
                let (head, along) = {
                    let within = track % (tracks * heads);
                    (within / width, within % width)
                };
                let across = if head % 2 == 0 { along } else { width - 1 - along };
                let head_switches = band * (heads - 1) + head;
                Placed {
                    cylinder: band * tracks + across,
                    head,
                    head_switches,
                    cylinder_switches: track - head_switches,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(last_cylinder: u32, spares: u32, slips: &[u32]) -> Zone {
        Zone { last_cylinder, sectors: 10, track_skew: 3, cylinder_skew: 4, spares, slips: slips.to_vec() }
    }

    fn place(geometry: &Geometry, block: u64) -> (u32, u32, u32) {
        let track = geometry.track_of(block);
        (track.cylinder, track.head, track.sector_of(block))
    }

    #[test]
    fn every_block_has_a_sector_of_its_own_and_is_found_there() {
        let zones = [zone(3, 12, &[0, 17, 18, 55]), zone(9, 1, &[])];
        for order in [TrackOrder::Cylinders, TrackOrder::SameHead, TrackOrder::Serpentine { tracks: 4 }] {
            let geometry = Geometry::new(3, order, &zones);
            assert_eq!(geometry.blocks(), 120 - 12 + 180 - 1);
            let mut seen = std::collections::BTreeSet::new();
            for block in 0..geometry.blocks() {
                let track = geometry.track_of(block);
                assert!((track.first..track.end).contains(&block), "{order:?} {block}");
                assert_eq!(track.block_at(track.sector_of(block)), Some(block), "{order:?} {block}");
                assert!(seen.insert(place(&geometry, block)), "{order:?} {block}");
            }
        }
    }

    #[test]
    fn heads_go_back_and_forth_without_a_switch_between_cylinders() {
        let geometry = Geometry::new(3, TrackOrder::SameHead, &[zone(3, 0, &[])]);
        let tracks: Vec<(u32, u32)> = (0..7).map(|n| place(&geometry, n * 10)).map(|p| (p.0, p.1)).collect();
        assert_eq!(tracks, [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0), (2, 0)]);
    }

    #[test]
    fn a_snake_goes_along_a_surface_and_back_along_the_next() {
        let geometry = Geometry::new(2, TrackOrder::Serpentine { tracks: 3 }, &[zone(4, 0, &[])]);
        let tracks: Vec<(u32, u32)> = (0..10).map(|n| place(&geometry, n * 10)).map(|p| (p.0, p.1)).collect();
        let want = [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (0, 1), (3, 0), (4, 0), (4, 1), (3, 1)];
        assert_eq!(tracks, want);
    }

    #[test]
    fn skews_add_up_from_the_first_track_of_the_zone() {
        let geometry = Geometry::new(3, TrackOrder::SameHead, &[zone(3, 0, &[])]);
        // Two head switches and one cylinder switch: 3 + 3 + 4 sectors.
        let track = geometry.track_of(30);
        assert_eq!(track.offset(0, 1000), 0);
        assert_eq!(geometry.track_of(20).offset(0, 1000), 600);
        assert_eq!(track.sector_from(1, 1000), 1);
        assert_eq!(track.sector_from(100, 1000), 1);
        assert_eq!(track.sector_from(901, 1000), 0);
    }
}
