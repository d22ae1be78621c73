//! Facts about queries and the files that they have open.

use std::collections::BTreeMap;

use coscan_base::Span;

use crate::event::{Access, Demand};
use crate::ids::{FileId, FrameNo, InstanceId, PageId, QueryId};
use crate::locality::{LocalReplacement, Pattern};

/// A file opened by a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its name.
    pub id: InstanceId,
    /// Its query.
    pub query: QueryId,
    /// The file.
    pub file: FileId,
    /// The pattern of references.
    pub pattern: Pattern,
    /// Desired size of its locality set, in pages.
    pub set_pages: u32,
    /// The replacement inside the locality set.
    pub replacement: LocalReplacement,
}

/// A reference that a query makes, or waits to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The instance.
    pub instance: Instance,
    /// The page.
    pub page: PageId,
    /// The kind of use.
    pub access: Access,
    /// The processor time the query had used.
    pub cpu: Span,
}

/// The phase of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has not been admitted.
    New,
    /// It runs, or waits for a page.
    Active,
    /// It was deactivated.
    Suspended,
}

/// The resource that a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lacking {
    /// A frame.
    Frame,
    /// The page in its promised frame, which is being written.
    Write(FrameNo),
    /// Its page, which is being read into this frame.
    Page(FrameNo),
    /// Its turn: the query is not active.
    Turn,
}

/// A query that has started and not ended.
#[derive(Clone, Debug)]
pub struct Query {
    pub(crate) demand: Demand,
    pub(crate) phase: Phase,
    pub(crate) instances: Vec<InstanceId>,
    pub(crate) pinned: Option<FrameNo>,
    pub(crate) request: Option<(Reference, Lacking)>,
}

impl Query {
    /// Its announced needs.
    pub fn demand(&self) -> Demand {
        self.demand
    }

    /// Its phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Its open files, in the order of opening.
    pub fn instances(&self) -> &[InstanceId] {
        &self.instances
    }
}

/// All queries and instances.
#[derive(Clone, Debug, Default)]
pub struct Queries {
    pub(crate) queries: BTreeMap<QueryId, Query>,
    pub(crate) instances: BTreeMap<InstanceId, Instance>,
    /// The number of active queries.
    pub(crate) active: u32,
}

impl Queries {
    /// A query.
    ///
    /// # Panics
    /// If it has not started or has ended.
    pub fn get(&self, query: QueryId) -> &Query {
        self.queries.get(&query).unwrap_or_else(|| panic!("query {query} is not running"))
    }

    /// A file instance.
    ///
    /// # Panics
    /// If it is not open.
    pub fn instance(&self, instance: InstanceId) -> &Instance {
        self.instances.get(&instance).unwrap_or_else(|| panic!("instance {instance} is not open"))
    }

    /// The active queries, by name.
    pub fn active(&self) -> impl Iterator<Item = QueryId> {
        self.queries.iter().filter(|(_, q)| q.phase == Phase::Active).map(|(id, _)| *id)
    }

    /// The number of active queries.
    pub fn active_count(&self) -> u32 {
        self.active
    }

    pub(crate) fn get_mut(&mut self, query: QueryId) -> &mut Query {
        self.queries.get_mut(&query).unwrap_or_else(|| panic!("query {query} is not running"))
    }

    pub(crate) fn set_phase(&mut self, query: QueryId, phase: Phase) {
        let q = self.get_mut(query);
        let before = std::mem::replace(&mut q.phase, phase);
        self.active += u32::from(phase == Phase::Active);
        self.active -= u32::from(before == Phase::Active);
    }
}
