//! The positions of chunks for given boundaries. Pure.

/// Boundaries, and the limit on gaps that keep chunks from crossing them.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    /// Bytes from one boundary to the next. Not zero.
    pub unit: u64,
    /// Bytes from the start of the file to the first boundary.
    pub offset: u64,
    /// Maximum size of gaps, in percent of the data so far.
    pub waste_percent: u8,
}

impl Units {
    /// Number of boundaries inside these bytes.
    pub fn crossings(&self, start: u64, bytes: u64) -> u64 {
        match bytes {
            0 => 0,
            bytes => self.nth(start + bytes - 1) - self.nth(start),
        }
    }

    /// The position of a chunk whose first possible position is `at`. It is the next boundary if the chunk then
    /// crosses fewer boundaries, and if the gaps are within the limit for the `data` bytes before the chunk plus its
    /// own. Otherwise it is `at`.
    pub fn place(&self, at: u64, bytes: u64, room: u64, data: u64) -> u64 {
        let next = self.next(at);
        let allowed = u128::from(data + bytes) * u128::from(self.waste_percent) / 100;
        let worth = self.crossings(next, bytes) < self.crossings(at, bytes);
        if worth && u128::from(room + next - at) <= allowed { next } else { at }
    }

    /// The number of the unit that contains a byte.
    fn nth(&self, byte: u64) -> u64 {
        (byte + self.unit - self.offset % self.unit) / self.unit
    }

    /// The first boundary at or after a byte.
    fn next(&self, byte: u64) -> u64 {
        let into = (byte + self.unit - self.offset % self.unit) % self.unit;
        if into == 0 { byte } else { byte + self.unit - into }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_crosses_as_few_boundaries_as_it_can_within_the_room_there_may_be() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let units = Units {
                unit: rng.u64(1..500),
                offset: rng.u64(0..1000),
                waste_percent: [0, 10, 100][rng.usize(0..3)],
            };
            let (mut at, mut room, mut data) = (4, 0, 0);
            for _ in 0..20 {
                let bytes = rng.u64(0..1200);
                let place = units.place(at, bytes, room, data);
                room += place - at;
                data += bytes;
                assert!(place >= at && units.crossings(place, bytes) <= units.crossings(at, bytes));
                assert!(room * 100 <= data * u64::from(units.waste_percent), "{units:?}");
                // The same result by counting.
                let inside =
                    (place + 1..place + bytes).filter(|byte| byte % units.unit == units.offset % units.unit);
                assert_eq!(inside.count() as u64, units.crossings(place, bytes), "{units:?} {place} {bytes}");
                if units.waste_percent == 100 && data > bytes + 2 * units.unit + room {
                    assert_eq!(units.crossings(place, bytes), bytes.div_ceil(units.unit).saturating_sub(1));
                }
                at = place + bytes;
            }
        }
    }
}
