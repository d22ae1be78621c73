//! A scan beside random reads on a modelled Atlas 10K III, with extents of 64 KB and with extents of one
//! track.

use coscan_device::hard_disk::atlas10k3;
use coscan_device::{DeviceModel, DeviceSpec};
use coscan_layout::{Arrivals, Beside, Extents, PAGE_BLOCKS, Stream, Unit, replay};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let disk = atlas10k3();
    let blocks = 200_000;
    let layouts = [
        ("64 KB", Extents::fixed(0, blocks / (8 * PAGE_BLOCKS), 8)),
        ("a track", Extents::between(&disk.track_starts(0, blocks))),
    ];
    let spec = DeviceSpec::new(DeviceModel::HardDisk(Box::new(disk)))?;
    for (extent, extents) in layouts {
        let mut reads = Vec::new();
        Stream::new(0, 10_000).reach(10_000, &extents, Unit::Extent, &mut reads);
        let arrivals = Arrivals::PerSecond(50.0);
        let beside = Beside { arrivals, blocks: PAGE_BLOCKS, within: (0, 20_000_000), seed: 1 };
        let replayed = replay(&mut *spec.build(), &reads, 2, Some(beside));
        println!("extents of {extent}: {} requests, {:.2} s", reads.len(), replayed.io_s);
    }
    Ok(())
}
