//! Time of the same requests on a disk, sequential and scattered.
//!
//! `cargo run --release -p coscan-device --example requests`

use coscan_base::{Instant, Span};
use coscan_device::{DeviceModel, DeviceSpec, Request, RequestId, SpecError, Transfer};

const REQUESTS: u64 = 100;
const BYTES: u64 = 256 << 10;

fn main() -> Result<(), SpecError> {
    let disk =
        DeviceSpec::new(DeviceModel::SeekDisk { bytes_per_s: 100_000_000, seek: Span::from_millis(8) })?;
    for (what, stride) in [("one after the other", 1), ("scattered", 7)] {
        let mut device = disk.build();
        for number in 0..REQUESTS {
            let offset = number * stride % REQUESTS * BYTES;
            let request = Request { id: RequestId(number), offset, bytes: BYTES, kind: Transfer::Read };
            device.submit(Instant::ZERO, request);
        }
        let (mut now, mut done) = (Instant::ZERO, Vec::new());
        while let Some(next) = device.next_completion() {
            now = next;
            device.advance(now, &mut done);
        }
        println!("{what}: {} requests in {:.3} s", done.len(), now.as_nanos() as f64 / 1e9);
    }
    Ok(())
}
