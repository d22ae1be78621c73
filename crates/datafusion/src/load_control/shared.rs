//! The load control that all sessions of an engine share, and its default memory.

use std::sync::Arc;

use coscan_engine::Engine;

use super::gauge::Gauge;
use super::lender::Lender;

/// Memory of the program itself, its threads, and metadata of files and plans, in bytes.
const PROGRAM_BYTES: u64 = 128 << 20;

/// Share of buffer and operators in the rest, in percent. The remainder is for memory that operators do not
/// account for.
const BUFFER_AND_OPERATORS_PERCENT: u64 = 75;

/// Least share of operators, however large the buffer.
const OPERATORS_PERCENT_MIN: u64 = 10;

/// Returns the default memory of all queries' operators together, beside a buffer of `buffer_bytes` in a
/// memory of `memory_bytes`. All are in bytes.
pub fn default_query_memory(memory_bytes: u64, buffer_bytes: u64) -> u64 {
    let all = memory_bytes.saturating_sub(PROGRAM_BYTES) / 100 * BUFFER_AND_OPERATORS_PERCENT;
    all.saturating_sub(buffer_bytes).max(memory_bytes / 100 * OPERATORS_PERCENT_MIN)
}

/// Returns the load control of an engine, which all its sessions share. The first session's setting holds.
/// The buffer is offered the memory that operators leave.
pub(crate) fn lender_of(engine: &Engine, query_memory: Option<u64>, process_memory: u64) -> Arc<Lender> {
    let lender = engine.companion(|| {
        let default = default_query_memory(process_memory, engine.buffer_bytes());
        Lender::new(query_memory.unwrap_or(default), default, Gauge::new(process_memory))
    });
    lender.settle(engine);
    lender
}

#[cfg(test)]
mod tests {
    use super::default_query_memory;

    #[test]
    fn the_parts_of_the_memory_leave_room_for_the_rest() {
        const GIB: u64 = 1 << 30;
        assert_eq!(default_query_memory(GIB, GIB / 2) >> 20, 159);
        assert_eq!(default_query_memory(16 * GIB, 8 * GIB) >> 20, 3999);
        assert_eq!(default_query_memory(GIB, 2 * GIB), GIB / 100 * 10);
    }
}
