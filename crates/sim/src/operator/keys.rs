//! Key ranges of a table's chunks, where rows lie in the order of the key.
//!
//! Only ranges are kept, as in the statistics of a file; rows are not.

use std::ops::Range;

use thiserror::Error;

/// A value of the column by which a table is clustered.
pub type Key = u64;

/// The least and the greatest key of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkKeys {
    /// The least.
    pub first: Key,
    /// The greatest.
    pub last: Key,
}

/// Keys that cannot be spread over a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The number of values is zero.
    #[error("a key needs at least one value")]
    None,
    /// There are more values than rows.
    #[error("{values} values are more than the table's {rows} rows")]
    TooMany {
        /// The values.
        values: u64,
        /// The rows.
        rows: u64,
    },
    /// No value may lie in two chunks, so each chunk needs its own.
    #[error("{values} values are fewer than the table's {chunks} chunks: allow split values")]
    TooFew {
        /// The values.
        values: u64,
        /// The chunks.
        chunks: usize,
    },
}

/// Spreads `values` keys, from 0 on, over chunks of these numbers of rows. With `split`, values have runs of
/// rows of different lengths, which may cross chunk boundaries. Without it, each chunk has its own values.
///
/// # Errors
/// If there are too many or too few values.
pub fn spread(rows: &[u64], values: u64, split: bool) -> Result<Vec<ChunkKeys>, KeyError> {
    let total: u64 = rows.iter().sum();
    if values == 0 {
        return Err(KeyError::None);
    }
    if values > total {
        return Err(KeyError::TooMany { values, rows: total });
    }
    if !split && values < rows.len() as u64 {
        return Err(KeyError::TooFew { values, chunks: rows.len() });
    }
    let share = |row: u64| (u128::from(row) * u128::from(values) / u128::from(total)) as u64;
    // Without splits each chunk gets at least one value, and the others in proportion to its rows.
    let spare = |row: u64| {
        let spare = values - rows.len() as u64;
        (u128::from(row) * u128::from(spare) / u128::from(total)) as u64
    };
    let mut before = 0;
    let chunks = rows.iter().enumerate().map(|(at, rows)| {
        let (from, to) = (before, before + rows);
        before = to;
        match split {
            true => {
                let of = |row| key_of(row, share(row), values, total);
                ChunkKeys { first: of(from), last: of(to.max(from + 1) - 1) }
            }
            false => {
                let (first, next) = (at as u64 + spare(from), at as u64 + 1 + spare(to));
                ChunkKeys { first, last: next - 1 }
            }
        }
    });
    Ok(chunks.collect())
}

/// The key of a row. The run of key k begins at `(k + u) * total / values`, where u below a half is drawn
/// from k. So every run has rows as long as every key has two. `even` is the key if all runs were equally
/// long.
fn key_of(row: u64, even: Key, values: u64, total: u64) -> Key {
    if even == 0 || total / values < 2 {
        return even;
    }
    let late = u128::from(mixed(even) % 512);
    let begins = (u128::from(even) * 1024 + late) * u128::from(total) / (u128::from(values) * 1024);
    if u128::from(row) < begins { even - 1 } else { even }
}

/// A pseudo-random number (SplitMix64).
fn mixed(of: u64) -> u64 {
    let mut z = of.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The chunks whose keys overlap `keys`. `of` returns the keys of a chunk; chunks are in the order of their
/// keys.
pub fn overlap<T>(chunks: &[T], of: impl Fn(&T) -> ChunkKeys, keys: ChunkKeys) -> Range<u32> {
    let from = chunks.partition_point(|chunk| of(chunk).last < keys.first);
    let to = chunks.partition_point(|chunk| of(chunk).first <= keys.last);
    from as u32..to.max(from) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_values_run_over_borders_and_cover_every_key() {
        for (values, rows) in [(10, 100), (33, 100), (100, 100), (3, 100), (1, 7), (70, 100)] {
            let keys = spread(&[rows / 4, rows / 4, rows - rows / 4 * 2], values, true).unwrap();
            assert_eq!((keys[0].first, keys[2].last), (0, values - 1), "{values}");
            for pair in keys.windows(2) {
                assert!(pair[0].first <= pair[0].last);
                assert!(pair[1].first == pair[0].last || pair[1].first == pair[0].last + 1, "{keys:?}");
            }
        }
        let chunks = vec![1000; 50];
        let keys = spread(&chunks, 9000, true).unwrap();
        let shared = keys.windows(2).filter(|pair| pair[0].last == pair[1].first).count();
        assert!((20..50).contains(&shared), "runs end anywhere: {shared} of 49 borders are inside of one");
        // Runs that are longer than chunks.
        let keys = spread(&chunks, 10, true).unwrap();
        assert!(keys.iter().filter(|k| k.first == k.last).count() > 30);
    }

    #[test]
    fn whole_values_belong_to_one_chunk() {
        for values in [5, 6, 17, 100] {
            let keys = spread(&[20, 20, 20, 20, 20], values, false).unwrap();
            assert_eq!((keys[0].first, keys[4].last), (0, values - 1));
            assert!(keys.windows(2).all(|pair| pair[1].first == pair[0].last + 1), "{keys:?}");
            assert!(keys.iter().all(|k| k.first <= k.last));
        }
        assert_eq!(spread(&[20, 20], 1, false), Err(KeyError::TooFew { values: 1, chunks: 2 }));
        assert_eq!(spread(&[20, 20], 41, true), Err(KeyError::TooMany { values: 41, rows: 40 }));
        assert_eq!(spread(&[20], 0, true), Err(KeyError::None));
    }

    #[test]
    fn overlaps_include_the_ends() {
        let keys = [(0, 3), (3, 3), (3, 7), (9, 9)].map(|(first, last)| ChunkKeys { first, last });
        let of = |first, last| overlap(&keys, |k| *k, ChunkKeys { first, last });
        assert_eq!([of(0, 2), of(3, 3), of(8, 8), of(4, 20), of(10, 11)], [0..1, 0..3, 3..3, 2..4, 4..4]);
    }
}
