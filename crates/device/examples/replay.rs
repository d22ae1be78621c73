//! Response times of a DiskSim trace on the modelled Atlas 10K, one a line in milliseconds:
//! `cargo run --release -p coscan-device --example replay -- requests.trace`

use coscan_device::hard_disk::atlas10k;
use coscan_device::replay::{read_disksim_trace, replay};
use coscan_device::{DeviceModel, DeviceSpec};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: replay TRACE")?;
    let arrivals = read_disksim_trace(&std::fs::read_to_string(path)?)?;
    let model = atlas10k();
    let blocks = model.blocks();
    let mut device = DeviceSpec::new(DeviceModel::HardDisk(Box::new(model)))?.build();
    for took in replay(&mut *device, blocks, &arrivals)? {
        println!("{:.6}", took.as_nanos() as f64 / 1e6);
    }
    Ok(())
}
