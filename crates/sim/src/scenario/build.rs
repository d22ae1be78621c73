//! Construction of a world and a recipe from a file; every mistake is reported with its key.

use std::collections::BTreeMap;

use coscan_core::{ChunkSet, DeliveryOrder, Instant, PolicyName, Span, TableId, registry};

use super::device::device;
use super::draw::{Class, Kind, Random, Recipe, chunks_of_share};
use super::error::KeyError;
use super::file::{
    ClassFile, OperatorMemoryFile, QueryFile, RandomFile, ScenarioFile, SchedulerFile, SystemFile,
};
use super::operator::{ClassInfo, operator};
use super::table::{TableInfo, table_named};
use super::units::{BufferSize, Percent};
use crate::cpu::Scheduler;
use crate::placement::Placement;
use crate::workload::{OperatorMemory, Stream, Table, World};

/// The policies that a file names, or all.
pub(super) fn policies(file: &ScenarioFile) -> Result<Vec<PolicyName>, KeyError> {
    let Some(names) = &file.policies else { return Ok(registry::sharing().collect()) };
    let named = names.iter().enumerate().map(|(at, name)| {
        name.parse::<PolicyName>().map_err(|e| KeyError::new(format!("policies.{at}"), e.to_string()))
    });
    named.collect()
}

/// Rejects the paper's values of unknown policies. Policies that are not run are left out of comparisons.
pub(super) fn check_paper(file: &ScenarioFile) -> Result<(), KeyError> {
    let Some(paper) = &file.paper else { return Ok(()) };
    let known = |name: &str, key: String| {
        name.parse::<PolicyName>().map(|_| ()).map_err(|e| KeyError::new(key, e.to_string()))
    };
    known(&paper.baseline, "paper.baseline".to_owned())?;
    paper.policies.keys().try_for_each(|name| known(name, format!("paper.policies.{name}")))
}

/// The policies that are compared with the paper's, where their names differ.
pub(super) fn compared(file: &ScenarioFile) -> Result<BTreeMap<String, PolicyName>, KeyError> {
    let policy = |(name, policy): (&String, &String)| match policy.parse::<PolicyName>() {
        Ok(policy) => Ok((name.clone(), policy)),
        Err(error) => Err(KeyError::new(format!("compared.{name}"), error.to_string())),
    };
    file.compared.iter().map(policy).collect()
}

/// Builds a world and a recipe.
pub(super) fn build(file: &ScenarioFile) -> Result<(World, Recipe), KeyError> {
    let tables: Result<Vec<TableInfo>, KeyError> =
        file.table.iter().map(|(name, table)| TableInfo::new(name, table)).collect();
    let tables = tables?;
    if tables.is_empty() {
        return Err(KeyError::new("table", "a scenario needs a table: add [table.NAME]"));
    }
    let classes: Result<BTreeMap<&str, Class>, KeyError> = file
        .class
        .iter()
        .map(|(name, class)| Ok((name.as_str(), build_class(name, class, file, &tables)?)))
        .collect();
    let recipe = Builder { file, tables: &tables, classes: classes?, kinds: Vec::new() }.recipe()?;
    Ok((world(file, tables)?, recipe))
}

fn world(file: &ScenarioFile, tables: Vec<TableInfo>) -> Result<World, KeyError> {
    let system = &file.system;
    let at_least_one = |key: &str, value: u32| match value {
        0 => Err(KeyError::new(format!("system.{key}"), "must be at least 1")),
        _ => Ok(value),
    };
    let buffer_bytes = buffer_bytes("system.buffer", system.buffer, &tables)?;
    let tables: Vec<Table> = tables.into_iter().map(|info| info.table).collect();
    let device = device("device", &file.device)?;
    let bytes = Placement::of(&tables).bytes();
    if let Some(room) = device.bytes().filter(|room| *room < bytes) {
        let message = format!(
            "the tables take {bytes} bytes, and the device has {room}: choose a larger device, or an array"
        );
        return Err(KeyError::new("device", message));
    }
    Ok(World {
        buffer_bytes,
        loads_in_flight: at_least_one("loads_in_flight", system.loads_in_flight.unwrap_or(1))?,
        starved_below: at_least_one("starved_below", system.starved_below.unwrap_or(2))?,
        cores: at_least_one("cores", system.cores)?,
        scheduler: scheduler(system)?,
        io_cost: system.io_cost.map_or(Span::ZERO, |time| time.0),
        io_cost_per_mb: system.io_cost_per_mb.map_or(Span::ZERO, |time| time.0),
        operator_memory: match system.operator_memory {
            OperatorMemoryFile::Beside => OperatorMemory::Beside,
            OperatorMemoryFile::OfBuffer => OperatorMemory::OfBuffer,
        },
        device,
        tables,
        ..World::plain()
    })
}

/// The default maximum credit of a thread that has slept: that of Linux 2.6.
const SLEEP_CREDIT: Span = Span::from_millis(1000);

fn scheduler(system: &SystemFile) -> Result<Scheduler, KeyError> {
    match (system.scheduler, system.sleep_credit) {
        (SchedulerFile::ProcessorSharing, None) => Ok(Scheduler::ProcessorSharing),
        (SchedulerFile::ProcessorSharing, Some(_)) => Err(KeyError::new(
            "system.sleep_credit",
            "even shares know no credit: remove it, or set scheduler = \"sleepers-first\"",
        )),
        (SchedulerFile::SleepersFirst, credit) => {
            Ok(Scheduler::SleepersFirst { credit: credit.map_or(SLEEP_CREDIT, |time| time.0) })
        }
    }
}

fn buffer_bytes(key: &str, size: BufferSize, tables: &[TableInfo]) -> Result<u64, KeyError> {
    let bytes = match size {
        BufferSize::Bytes(bytes) => bytes,
        BufferSize::Chunks(chunks) => (chunks * tables[0].largest_chunk_bytes() as f64).round() as u64,
        BufferSize::Share(share) => {
            let total: u64 = tables.iter().map(TableInfo::bytes_total).sum();
            (share * total as f64).round() as u64
        }
    };
    if bytes == 0 { Err(KeyError::new(key, "a buffer must not be empty")) } else { Ok(bytes) }
}

fn build_class(
    name: &str,
    class: &ClassFile,
    file: &ScenarioFile,
    tables: &[TableInfo],
) -> Result<Class, KeyError> {
    let key = |key: &str| format!("class.{name}.{key}");
    let path = format!("class.{name}");
    let table = table_named(&path, class.table.as_deref(), tables)?;
    let info = &tables[table];
    let columns = info.columns(class.columns.as_deref()).map_err(|e| KeyError::new(key("columns"), e))?;
    let hertz = file.system.clock.map(|clock| clock.0);
    let work = info.work(class.cost, &columns, hertz).map_err(|e| KeyError::new(key("cost"), e))?;
    let at_least_one = |name: &str, value: Option<u32>| match value {
        Some(0) => Err(KeyError::new(key(name), "must be at least 1")),
        value => Ok(value.unwrap_or(1)),
    };
    let order = if class.in_order { DeliveryOrder::Table } else { DeliveryOrder::Any };
    let workers = at_least_one("workers", class.workers)?;
    let about = ClassInfo { path: &path, table: info, columns: &columns, order, workers };
    let operator = class.operator.as_ref().map(|file| operator(&about, file, tables, hertz)).transpose()?;
    Ok(Class {
        table: TableId(table as u32),
        chunks: info.chunks(),
        columns,
        order,
        operator: operator.unwrap_or_default(),
        workers,
        weight: at_least_one("weight", class.weight)?,
        work,
    })
}

/// Maximum number of streams, and of queries in one: larger numbers are mistakes.
const STREAMS_MAX: u32 = 10_000;

/// A recipe under construction.
struct Builder<'a> {
    file: &'a ScenarioFile,
    tables: &'a [TableInfo],
    classes: BTreeMap<&'a str, Class>,
    kinds: Vec<String>,
}

impl Builder<'_> {
    fn recipe(mut self) -> Result<Recipe, KeyError> {
        let streams = self.streams()?;
        let random = self.file.random.as_ref().map(|random| self.random(random)).transpose()?;
        if streams.is_empty() && random.is_none() {
            return Err(KeyError::new("", "no queries: add [[stream]] or [random]"));
        }
        let changes = self.file.budget_changes.iter().enumerate().map(|(at, change)| {
            let bytes = buffer_bytes(&format!("budget_changes.{at}.buffer"), change.buffer, self.tables)?;
            Ok((Instant::ZERO + change.at.0, bytes))
        });
        let budget_changes = changes.collect::<Result<_, KeyError>>()?;
        Ok(Recipe { kinds: self.kinds, streams, random, budget_changes })
    }

    /// The number of a kind of query.
    fn kind(&mut self, name: &str) -> usize {
        self.kinds.iter().position(|kind| kind == name).unwrap_or_else(|| {
            self.kinds.push(name.to_owned());
            self.kinds.len() - 1
        })
    }

    fn class(&self, key: &str, name: &str) -> Result<Class, KeyError> {
        self.classes.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.classes.keys().copied().collect();
            KeyError::new(key, format!("there is no class '{name}'; there are {}", known.join(", ")))
        })
    }

    fn streams(&mut self) -> Result<Vec<Stream>, KeyError> {
        let mut streams = Vec::new();
        for (number, stream) in self.file.stream.iter().enumerate() {
            let mut queries = Vec::new();
            for (at, query) in stream.queries.iter().enumerate() {
                let key = format!("stream.{number}.queries.{at}");
                let class = self.class(&format!("{key}.class"), &query.class)?;
                let kind = self.kind(query.name.as_ref().unwrap_or(&query.class));
                let chunks = ranges(&key, query, class.chunks)?;
                let mut query = class.query(kind, chunks);
                query.cancel_after = self.file.stream[number].queries[at].cancel_after.map(|time| time.0);
                queries.push(query);
            }
            streams.push(Stream { start: Instant::ZERO + stream.start.0, queries });
        }
        Ok(streams)
    }

    fn random(&mut self, file: &RandomFile) -> Result<Random, KeyError> {
        for (key, value) in [("streams", file.streams), ("queries", file.queries)] {
            if !(1..=STREAMS_MAX).contains(&value) {
                return Err(KeyError::new(
                    format!("random.{key}"),
                    format!("must be from 1 to {STREAMS_MAX}"),
                ));
            }
        }
        let (shares, kinds, counts) = if file.counts.is_empty() {
            let (shares, kinds) = self.drawn_kinds(file)?;
            (shares, kinds, None)
        } else {
            let (kinds, counts) = self.counted_kinds(file)?;
            (1, kinds, Some(counts))
        };
        Ok(Random {
            streams: file.streams,
            queries: file.queries,
            stagger: file.stagger.0,
            kinds,
            shares,
            assign: file.assign,
            aligned: file.aligned.unwrap_or(true),
            counts,
        })
    }

    fn drawn_kinds(&mut self, file: &RandomFile) -> Result<(usize, Vec<Kind>), KeyError> {
        let missing = |key: &str| KeyError::new("random", format!("needs {key}, or [[random.counts]]"));
        let classes = file.classes.as_ref().filter(|c| !c.is_empty()).ok_or_else(|| missing("classes"))?;
        let shares = file.shares.as_ref().filter(|s| !s.is_empty()).ok_or_else(|| missing("shares"))?;
        let mut kinds = Vec::new();
        for (at, name) in classes.iter().enumerate() {
            let class = self.class(&format!("random.classes.{at}"), name)?;
            for share in shares {
                kinds.push(self.kind_of(name, &class, *share));
            }
        }
        Ok((shares.len(), kinds))
    }

    fn counted_kinds(&mut self, file: &RandomFile) -> Result<(Vec<Kind>, Vec<u32>), KeyError> {
        if file.classes.is_some() || file.shares.is_some() {
            return Err(KeyError::new("random.counts", "counts say it all: remove classes and shares"));
        }
        let wanted = file.streams * file.queries;
        let total: u32 = file.counts.iter().map(|count| count.count).sum();
        if total != wanted {
            let message = format!("the counts add up to {total}, but streams x queries is {wanted}");
            return Err(KeyError::new("random.counts", message));
        }
        let kinds = file.counts.iter().enumerate().map(|(at, count)| {
            let class = self.class(&format!("random.counts.{at}.class"), &count.class)?;
            Ok(self.kind_of(&count.class, &class, count.share))
        });
        let kinds = kinds.collect::<Result<_, KeyError>>()?;
        Ok((kinds, file.counts.iter().map(|count| count.count).collect()))
    }

    fn kind_of(&mut self, name: &str, class: &Class, share: Percent) -> Kind {
        let percent = (share.0 * 1e4).round() / 1e2;
        let number = self.kind(&format!("{name}-{percent:0>2}"));
        Kind { number, class: class.clone(), share: share.0 }
    }
}

/// The chunks that a written query reads: all, or ranges such as "0..20" in chunks or "10%..50%".
fn ranges(key: &str, query: &QueryFile, chunks: u32) -> Result<ChunkSet, KeyError> {
    let Some(ranges) = &query.ranges else { return Ok(ChunkSet::range(0..chunks)) };
    let runs = ranges.iter().enumerate().map(|(at, text)| {
        let refuse = || {
            let message =
                format!("'{text}' is no range in {chunks} chunks: write \"0..{chunks}\" or \"10%..50%\"");
            KeyError::new(format!("{key}.ranges.{at}"), message)
        };
        let bound = |text: &str| match text.trim().parse::<Percent>() {
            Ok(Percent(0.0)) => Some(0),
            Ok(share) => Some(chunks_of_share(chunks, share.0)),
            Err(_) => text.trim().parse().ok(),
        };
        let (start, end) = text.split_once("..").ok_or_else(refuse)?;
        let (start, end) = (bound(start).ok_or_else(refuse)?, bound(end).ok_or_else(refuse)?);
        if start < end && end <= chunks { Ok(start..end) } else { Err(refuse()) }
    });
    runs.collect()
}
