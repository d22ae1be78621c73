//! Yao's formula: the pages that random record accesses touch (Yao, CACM 1977; used by Chou & DeWitt 1985,
//! section 3.2).
//!
//! The code uses only additions, multiplications and divisions, so that the result is the same on every
//! machine. [`set`](super::set) uses it.

/// Yao's formula: the expected number of distinct pages touched when `accesses` different records out of
/// `records` are drawn. The records lie evenly on `pages` pages, `p = records / pages` on each:
///
/// `b = m (1 - prod_{i=1..k} (n - p - i + 1) / (n - i + 1))`, with `n` records, `m` pages and `k` accesses.
///
/// Accesses beyond the number of records touch no new page. Cost: linear in `accesses`, at most until every
/// page is touched.
///
/// The result is computed as the growing probability `t` that a page is touched,
/// `t += (1 - t) p / (n - i + 1)`. No number is subtracted from one close to it, so small results are as
/// exact as large ones.
pub fn pages_touched(records: u64, pages: u64, accesses: u64) -> f64 {
    if records == 0 || pages == 0 {
        return 0.0;
    }
    // Pages without a record are never touched.
    let pages = pages.min(records);
    let per_page = records as f64 / pages as f64;
    let mut touched = 0.0;
    for drawn in 0..accesses.min(records) {
        let left = (records - drawn) as f64;
        if left <= per_page {
            // Fewer records are left than one page holds: each page is touched.
            return pages as f64;
        }
        touched += (1.0 - touched) * (per_page / left);
    }
    pages as f64 * touched
}

/// The fast approximation `m (1 - (1 - 1/m)^k)` (Cardenas, CACM 1975): each access draws a page, and may draw
/// the same record twice. At most [`pages_touched`], and close to it from about ten records on a page.
///
/// Cost: logarithmic in `accesses`, by squaring. It adds up touched pages, as the exact form does, instead of
/// subtracting untouched ones.
pub fn pages_touched_fast(pages: u64, accesses: u64) -> f64 {
    if pages == 0 {
        return 0.0;
    }
    let either = |a: f64, b: f64| a + b * (1.0 - a);
    let (mut touched, mut by_power) = (0.0, 1.0 / pages as f64);
    let mut accesses = accesses;
    while accesses > 0 {
        if accesses % 2 == 1 {
            touched = either(touched, by_power);
        }
        by_power = either(by_power, by_power);
        accesses /= 2;
    }
    pages as f64 * touched
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The mean over all ways to draw `accesses` of `records` records, `records / pages` of them on each page.
    fn by_counting(records: u32, pages: u32, accesses: u32) -> f64 {
        let per_page = records / pages;
        let (mut ways, mut sum) = (0u32, 0u32);
        for drawn in 0u32..1 << records {
            if drawn.count_ones() == accesses {
                ways += 1;
                sum += (0..pages).filter(|p| drawn >> (p * per_page) & ((1 << per_page) - 1) != 0).count()
                    as u32;
            }
        }
        f64::from(sum) / f64::from(ways)
    }

    #[test]
    fn equals_the_mean_over_all_draws() {
        for (records, pages) in [(4, 2), (6, 3), (6, 2), (12, 4), (12, 3), (10, 5), (8, 8), (5, 1)] {
            for accesses in 0..=records {
                let expected = by_counting(records, pages, accesses);
                let found = pages_touched(records.into(), pages.into(), accesses.into());
                assert!((found - expected).abs() < 1e-12, "{accesses} of {records} on {pages}: {found}");
            }
        }
    }

    #[test]
    fn known_values() {
        // Two of four records on two pages: 2 (1 - 2/4 * 1/3).
        assert!((pages_touched(4, 2, 2) - 5.0 / 3.0).abs() < 1e-15);
        // Query II of the paper: 100 of 10,000 tuples, 22 on a page. By the fast form 455 (1 - (454/455)^100).
        assert!((pages_touched(10_000, 455, 100) - 90.26).abs() < 0.01);
        assert!((pages_touched_fast(455, 100) - 89.86).abs() < 0.01);
        // 1000 probes of a hash file with 400 tuples on 20 pages touch all of it.
        assert_eq!(pages_touched(400, 20, 1000), 20.0);
    }

    #[test]
    fn nothing_and_everything() {
        assert_eq!(pages_touched(0, 10, 5), 0.0);
        assert_eq!(pages_touched(10, 0, 5), 0.0);
        assert_eq!(pages_touched(10, 5, 0), 0.0);
        assert_eq!(pages_touched(10, 5, u64::MAX), 5.0);
        assert_eq!(pages_touched(3, 100, 3), 3.0);
        assert_eq!(pages_touched_fast(0, 5), 0.0);
        assert_eq!(pages_touched_fast(1, 1), 1.0);
    }

    #[test]
    fn one_access_touches_one_page_however_large_the_file() {
        for pages in [1_000, 1_000_000_000, 1_000_000_000_000] {
            assert!((pages_touched(pages * 20, pages, 1) - 1.0).abs() < 1e-12);
            assert!((pages_touched_fast(pages, 1) - 1.0).abs() < 1e-12);
        }
    }

    proptest! {
        #[test]
        fn more_accesses_touch_more_within_bounds(pages in 1u64..500, per_page in 1u64..50, k in 0u64..2000) {
            let records = pages * per_page;
            let exact = pages_touched(records, pages, k);
            let fast = pages_touched_fast(pages, k);
            prop_assert!(exact <= (pages.min(k) as f64) * (1.0 + 1e-12));
            prop_assert!(exact <= pages_touched(records, pages, k + 1) + 1e-9);
            prop_assert!(fast <= exact + 1e-9, "{fast} {exact}");
        }
    }
}
