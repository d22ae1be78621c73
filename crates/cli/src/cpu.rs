//! CPU time of this process, over all threads.

use std::fs;

/// Seconds in user and kernel mode since the process started. `None` if the system does not provide them.
pub fn process_seconds() -> Option<f64> {
    parse(&fs::read_to_string("/proc/self/stat").ok()?, rustix::param::clock_ticks_per_second())
}

/// Reads fields 14 and 15 of /proc/self/stat. The second field is a name in brackets that may contain blanks.
fn parse(stat: &str, ticks_per_second: u64) -> Option<f64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / ticks_per_second as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_add_up() {
        let stat = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1";
        assert_eq!(parse(stat, 100), Some(2.0));
        assert_eq!(parse("nothing", 100), None);
    }
}
