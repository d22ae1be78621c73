//! What a run is made of: the world it happens in and the queries that come.
//!
//! Plain data without choices left open. Where it comes from, a scenario file with its seed or a recorded
//! trace, is not this file's business; what happens with it is the host's.

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
    /// How many loads may be in flight at once.
    pub loads_in_flight: u32,
    /// Below how many available chunks per worker a scan is starved.
    pub starved_below: u32,
    /// Processors; each serves one worker at a time.
    pub cores: u32,
    /// Who goes first where there are more workers than processors.
    pub scheduler: Scheduler,
    /// Processor time that a request to the device takes beside it; what is read has arrived when both are done.
    pub io_cost: Span,
    /// And for each megabyte (10⁶ bytes) of it.
    pub io_cost_per_mb: Span,
    /// For how many workers the buffer manager keeps room, see
    /// [`AbmConfig::processors`]; matters only where workers take room of the buffer.
    pub processors: u32,
    /// Whether what operators keep takes room of the buffer.
    pub operator_memory: OperatorMemory,
    /// Where the tables are stored.
    pub device: DeviceSpec,
    /// Bytes of decoded arrays that the host keeps of a part once a worker has had it, by table, chunk and
    /// column; empty if it keeps none.
    pub decoded: BTreeMap<(TableId, ChunkNo, ColumnNo), u64>,
}

impl World {
    /// A machine with nothing on it, to fill in: the papers' settings, one processor, a disk that costs
    /// nothing but transfer at 100 MB/s.
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

    /// The settings of the buffer manager. A scan that processes a chunk is never taken
    /// for a stalled one: simulated queries do not stop reading.
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

/// Where the memory of operators comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperatorMemory {
    /// It is beside the buffer, as much as there is need of.
    #[default]
    Beside,
    /// The buffer has so much less, down to a quarter of its size; the rest is beside it.
    OfBuffer,
}

/// A table and its name.
#[derive(Clone, Debug)]
pub struct Table {
    /// What scenario files and figures call it.
    pub name: String,
    /// Its chunks, columns and pages.
    pub layout: TableLayout,
}

/// The queries of a run.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// The kinds of queries, such as "F-10", which latencies are reported by.
    pub kinds: Vec<String>,
    /// Streams, each of which runs its queries one after another.
    pub streams: Vec<Stream>,
    /// When the buffer gets another size, and which, in bytes.
    pub budget_changes: Vec<(Instant, u64)>,
}

impl Workload {
    /// All queries with the number of their stream, in the order that names their scans.
    pub fn queries(&self) -> impl Iterator<Item = (usize, &Query)> {
        self.streams.iter().enumerate().flat_map(|(at, stream)| stream.queries.iter().map(move |q| (at, q)))
    }
}

/// Queries that run back to back. A workload of streams with one query each is open: queries arrive
/// when they arrive, however busy the system is.
#[derive(Clone, Debug)]
pub struct Stream {
    /// When its first query arrives.
    pub start: Instant,
    /// Its queries.
    pub queries: Vec<Query>,
}

/// One query: what it reads and what it does with it.
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
    /// In which order it takes them.
    pub order: DeliveryOrder,
    /// How many chunks it works on at once.
    pub workers: u32,
    /// How much it counts.
    pub weight: u32,
    /// Bytes of the buffer that a worker takes beside the chunk it holds.
    pub workspace_bytes: u64,
    /// Processor time for each chunk of the table, by chunk number.
    pub work: Arc<[Span]>,
    /// What it does with its chunks, and what else it reads for that.
    pub operator: Operator,
    /// Chunks of other tables that go with its own, beside those that its operator announces.
    pub matching: Vec<MatchingChunks>,
    /// When it is cancelled, counted from its start, if it is still running then.
    pub cancel_after: Option<Span>,
}

impl Query {
    /// What a scan of these chunks announces, of its own table or of its operator's input.
    ///
    /// # Panics
    /// If the operator has no input and the scan is one of it.
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
    /// If the operator has no input and that is asked for.
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
    /// If the operator has no input and the chunk is one of it.
    pub fn work_of(&self, side: Side, chunk: ChunkNo) -> Span {
        match side {
            Side::Own => self.work_for(chunk),
            Side::Input => self.operator.input().expect("the operator has an input").work[chunk.index()],
        }
    }
}
