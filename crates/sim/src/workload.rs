//! The input of a run: its world and its queries.
//!
//! The types are plain data without open choices. A scenario file with its seed or a recorded trace provides
//! it, and the host runs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use coscan_core::{
    AbmConfig, ChunkNo, ChunkSet, ColumnNo, ColumnSet, DeliveryOrder, Instant, MatchingChunks, ScanSpec,
    Span, TableId, TableLayout,
};
use coscan_device::{DeviceModel, DeviceSpec};

use crate::cpu::Scheduler;
use crate::operator::{Operator, Side};

/// The machine and the tables.
#[derive(Clone, Debug)]
pub struct World {
    /// The tables, one after the other on the device; a table's position is its [`TableId`].
    pub tables: Vec<Table>,
    /// The buffer manager's byte budget.
    pub buffer_bytes: u64,
    /// The maximum number of loads in flight.
    pub loads_in_flight: u32,
    /// The number of available chunks per worker below which a scan is starved.
    pub starved_below: u32,
    /// Processors; each serves one worker at a time.
    pub cores: u32,
    /// The order of workers if there are more than processors.
    pub scheduler: Scheduler,
    /// Processor time of a request to the device, beside the device's time; data has arrived when both are
    /// done.
    pub io_cost: Span,
    /// Additional processor time for each megabyte (10⁶ bytes) of the request.
    pub io_cost_per_mb: Span,
    /// The number of workers for which the buffer manager keeps room, see [`AbmConfig::processors`]. It
    /// matters only if workers take room of the buffer.
    pub processors: u32,
    /// True if operators' memory takes room of the buffer.
    pub operator_memory: OperatorMemory,
    /// The device that stores the tables.
    pub device: DeviceSpec,
    /// Bytes of decoded arrays that the host keeps of a part after its first delivery, by table, chunk and
    /// column; empty if it keeps none.
    pub decoded: BTreeMap<(TableId, ChunkNo, ColumnNo), u64>,
}

impl World {
    /// An empty machine to fill in: the papers' settings, one processor, a disk that costs only transfer at
    /// 100 MB/s.
    pub fn plain() -> Self {
        let device = DeviceModel::SeekDisk { bytes_per_s: 100_000_000, seek: Span::ZERO };
        World {
            tables: Vec::new(),
            buffer_bytes: 1 << 30,
            loads_in_flight: 1,
            starved_below: 2,
            cores: 1,
            scheduler: Scheduler::ProcessorSharing,
            io_cost: Span::ZERO,
            io_cost_per_mb: Span::ZERO,
            processors: 1,
            operator_memory: OperatorMemory::Beside,
            device: DeviceSpec::new(device).expect("the model is sound"),
            decoded: BTreeMap::new(),
        }
    }

    /// The settings of the buffer manager. A scan that processes a chunk never counts as stalled: simulated
    /// queries do not stop reading.
    pub fn abm_config(&self) -> AbmConfig {
        AbmConfig {
            loads_in_flight_max: self.loads_in_flight,
            starved_below: self.starved_below,
            stall_after: Span::MAX,
            processors: self.processors,
            ..AbmConfig::new(self.buffer_bytes)
        }
    }
}

/// The source of operators' memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperatorMemory {
    /// Beside the buffer, without limit.
    #[default]
    Beside,
    /// Part of the buffer, down to a quarter of its size; the rest is beside it.
    OfBuffer,
}

/// A table and its name.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name in scenario files and figures.
    pub name: String,
    /// Its chunks, columns and pages.
    pub layout: TableLayout,
}

/// The queries of a run.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// The kinds of queries, such as "F-10". Latencies are reported per kind.
    pub kinds: Vec<String>,
    /// Streams, each of which runs its queries one after another.
    pub streams: Vec<Stream>,
    /// Changes of the buffer's size: time and bytes.
    pub budget_changes: Vec<(Instant, u64)>,
}

impl Workload {
    /// All queries with the number of their stream, in the order that defines the ids of their scans.
    pub fn queries(&self) -> impl Iterator<Item = (usize, &Query)> {
        self.streams.iter().enumerate().flat_map(|(at, stream)| stream.queries.iter().map(move |q| (at, q)))
    }
}

/// Queries that run back to back. A workload of streams with one query each is open: queries arrive
/// independently of the load.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The arrival of its first query.
    pub start: Instant,
    /// Its queries.
    pub queries: Vec<Query>,
}

/// One query: its reads and its work on them.
#[derive(Clone, Debug)]
pub struct Query {
    /// Its kind, as an index into [`Workload::kinds`].
    pub kind: usize,
    /// The table it scans.
    pub table: TableId,
    /// The columns it uses.
    pub columns: ColumnSet,
    /// The chunks it needs.
    pub chunks: ChunkSet,
    /// The order in which it takes them.
    pub order: DeliveryOrder,
    /// The number of chunks that it processes at once.
    pub workers: u32,
    /// Its weight.
    pub weight: u32,
    /// Bytes of the buffer that a worker takes besides its chunk.
    pub workspace_bytes: u64,
    /// Processor time for each chunk of the table, by chunk number.
    pub work: Arc<[Span]>,
    /// Its work on its chunks, and its other input.
    pub operator: Operator,
    /// Matching chunks of other tables, besides those that its operator announces.
    pub matching: Vec<MatchingChunks>,
    /// The time from its start after which it is cancelled, if it is still running.
    pub cancel_after: Option<Span>,
}

impl Query {
    /// The announcement of a scan of these chunks, of its own table or of its operator's input.
    ///
    /// # Panics
    /// If the operator has no input and `side` is the input.
    pub fn spec(&self, side: Side, chunks: ChunkSet, order: DeliveryOrder) -> ScanSpec {
        let (table, columns) = self.reads(side);
        let matching = match side {
            Side::Own => self.matching.iter().cloned().chain(self.operator.matching(&chunks)).collect(),
            Side::Input => Vec::new(),
        };
        ScanSpec {
            table,
            columns: columns.clone(),
            chunks,
            matching,
            workers: self.workers,
            order,
            weight: self.weight,
            workspace_bytes: self.workspace_bytes,
        }
    }

    /// The table and the columns it reads.
    ///
    /// # Panics
    /// If the operator has no input and `side` is the input.
    pub fn reads(&self, side: Side) -> (TableId, &ColumnSet) {
        match side {
            Side::Own => (self.table, &self.columns),
            Side::Input => {
                let input = self.operator.input().expect("the operator has an input");
                (input.table, &input.columns)
            }
        }
    }

    /// Processor time for one chunk of its own.
    pub fn work_for(&self, chunk: ChunkNo) -> Span {
        self.work[chunk.index()]
    }

    /// Processor time for one chunk of either side.
    ///
    /// # Panics
    /// If the operator has no input and `side` is the input.
    pub fn work_of(&self, side: Side, chunk: ChunkNo) -> Span {
        match side {
            Side::Own => self.work_for(chunk),
            Side::Input => self.operator.input().expect("the operator has an input").work[chunk.index()],
        }
    }
}
