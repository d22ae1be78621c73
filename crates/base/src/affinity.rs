//! The choice of a worker for each piece of a table.
//!
//! Rendezvous hashing: each piece has its own order of workers, and the first is its home. So all coordinators choose the
//! same worker without agreement, and a new worker takes only its share of the pieces. No worker is the home of more
//! than 1.25 of the mean (Mirrokni, Thorup, Zadimoghaddam: consistent hashing with bounded loads, 2018): a piece
//! whose worker is full has its home at the next in its order.
//!
//! A piece leaves its home if the worker would have more than 1.5 of the mean of all running statements. So a piece
//! that many statements want is read by several workers.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The bytes of the pieces whose home is at a worker, at most, in parts of the mean.
const BOUND: f64 = 1.25;

/// The bytes of a worker at which pieces leave their home, in parts of the mean.
const RELIEF: f64 = 1.5;

/// Returns the worker of each piece, as its position in `workers`.
///
/// `pieces` are keys and bytes. `busy` are the bytes of running statements for each worker. Takes
/// O(pieces x workers) time.
///
/// # Panics
/// If there is no worker.
pub fn assign<K: Hash>(pieces: &[(K, u64)], workers: &[impl Hash], busy: &[u64]) -> Vec<usize> {
    let workers: Vec<u64> = workers.iter().map(hash).collect();
    let pieces: Vec<(u64, u64)> = pieces.iter().map(|(piece, bytes)| (hash(piece), *bytes)).collect();
    assign_hashed(&pieces, &workers, busy)
}

/// Returns the hash of a piece or a worker. All processes of one version compute the same.
pub fn hash(of: &impl Hash) -> u64 {
    // This hasher has fixed keys.
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// [`assign`] for pieces and workers whose hashes are known.
///
/// # Panics
/// If there is no worker.
pub fn assign_hashed(pieces: &[(u64, u64)], workers: &[u64], busy: &[u64]) -> Vec<usize> {
    relieved(pieces, homes(pieces, workers), workers, busy)
}

/// Returns the home of each piece of a table.
///
/// # Panics
/// If there is no worker.
pub fn homes(pieces: &[(u64, u64)], workers: &[u64]) -> Vec<usize> {
    assert!(!workers.is_empty(), "pieces need a worker");
    let total: u64 = pieces.iter().map(|(_, bytes)| bytes).sum();
    let most = total as f64 / workers.len() as f64 * BOUND;
    let mut loads = vec![0; workers.len()];
    let mut chosen = Vec::with_capacity(pieces.len());
    for &(piece, bytes) in pieces {
        let fits = |worker: usize| (loads[worker] + bytes) as f64 <= most;
        let first = first_of(piece, workers, |_| true).unwrap_or(0);
        // A piece larger than the bound stays with the first worker that has none.
        let home = if fits(first) { Some(first) } else { first_of(piece, workers, fits) };
        let home = home.or_else(|| first_of(piece, workers, |worker| loads[worker] == 0)).unwrap_or(first);
        loads[home] += bytes;
        chosen.push(home);
    }
    chosen
}

/// Moves pieces of a statement away from workers that are busy with others.
pub fn relieved(pieces: &[(u64, u64)], mut chosen: Vec<usize>, workers: &[u64], busy: &[u64]) -> Vec<usize> {
    let running: u64 = busy.iter().sum();
    if running == 0 {
        return chosen;
    }
    let total = running + pieces.iter().map(|(_, bytes)| bytes).sum::<u64>();
    let most = total as f64 / workers.len() as f64 * RELIEF;
    let mut loads = busy.to_vec();
    loads.resize(workers.len(), 0);
    for (&(piece, bytes), home) in pieces.iter().zip(&mut chosen) {
        if (loads[*home] + bytes) as f64 > most {
            // The worker with the least to do in units of the piece, the first in its order among equals.
            let least = loads.iter().map(|load| load / bytes.max(1)).min().unwrap_or(0);
            *home = first_of(piece, workers, |worker| loads[worker] / bytes.max(1) == least).unwrap_or(*home);
        }
        loads[*home] += bytes;
    }
    chosen
}

/// Returns the first of some workers in a piece's order.
fn first_of(piece: u64, workers: &[u64], is_fit: impl Fn(usize) -> bool) -> Option<usize> {
    (0..workers.len()).filter(|worker| is_fit(*worker)).max_by_key(|worker| weight(piece, workers[*worker]))
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: fast splittable pseudorandom number generators, 2014).
fn weight(piece: u64, worker: u64) -> u64 {
    let mut mixed = piece ^ worker.rotate_left(32);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(count: usize) -> Vec<String> {
        (0..count).map(|worker| format!("10.0.0.{worker}:7433")).collect()
    }

    fn pieces(count: usize) -> Vec<((&'static str, usize), u64)> {
        (0..count).map(|piece| (("orders.parquet", piece), 1 << 20)).collect()
    }

    fn loads(chosen: &[usize], workers: usize) -> Vec<usize> {
        let mut loads = vec![0; workers];
        chosen.iter().for_each(|&worker| loads[worker] += 1);
        loads
    }

    #[test]
    fn no_worker_has_more_than_its_bound() {
        for count in 1..9 {
            let chosen = assign(&pieces(400), &workers(count), &vec![0; count]);
            let most = loads(&chosen, count).into_iter().max().expect("a worker");
            assert!(most as f64 <= 400.0 / count as f64 * BOUND, "{count} workers: {most} of 400 pieces");
        }
    }

    #[test]
    fn a_new_worker_moves_its_share() {
        for count in 1..9 {
            let (before, after) = (workers(count), workers(count + 1));
            let old = assign(&pieces(1000), &before, &vec![0; count]);
            let new = assign(&pieces(1000), &after, &vec![0; count + 1]);
            let moved = old.iter().zip(&new).filter(|(old, new)| before[**old] != after[**new]).count();
            let share = 1000.0 / (count + 1) as f64;
            assert!(moved as f64 <= 1.5 * share, "{moved} pieces moved, the share is {share}");
            assert!(moved as f64 >= 0.5 * share, "{moved} pieces moved, the share is {share}");
        }
    }

    #[test]
    fn the_pieces_of_a_worker_that_left_are_the_only_ones_to_move_far() {
        let (before, mut after) = (workers(5), workers(5));
        let left = after.remove(2);
        let old = assign(&pieces(1000), &before, &[0; 5]);
        let new = assign(&pieces(1000), &after, &[0; 4]);
        let stayed = old.iter().zip(&new).filter(|(old, _)| before[**old] != left);
        let moved = stayed.filter(|(old, new)| before[**old] != after[**new]).count();
        assert!(moved <= 100, "{moved} pieces of other workers moved");
    }

    #[test]
    fn statements_one_after_another_find_their_pieces_again() {
        let first = assign(&pieces(50), &workers(3), &[0; 3]);
        assert_eq!(first, assign(&pieces(50), &workers(3), &[0; 3]));
        // All workers are as busy with the same statement.
        let busy: Vec<u64> = loads(&first, 3).iter().map(|pieces| (*pieces as u64) << 20).collect();
        let second = assign(&pieces(50), &workers(3), &busy);
        let same = first.iter().zip(&second).filter(|(first, second)| first == second).count();
        assert!(same >= 45, "{same} of 50 pieces");
    }

    #[test]
    fn a_piece_that_many_statements_want_is_read_by_several_workers() {
        let mut busy = vec![0; 4];
        for _ in 0..100 {
            let chosen = assign(&[("hot", 1u64 << 20)], &workers(4), &busy);
            busy[chosen[0]] += 1 << 20;
        }
        let (most, mean) = (*busy.iter().max().expect("a worker"), (100u64 << 20) / 4);
        assert!(most as f64 <= 1.5 * mean as f64, "{busy:?}");
    }
}
