//! What happens to a page-level pool: the only way in.
//!
//! The host names queries, file instances and files; it never uses a name of a query or an instance twice. Nothing
//! here says what the pool does about it: see [`action`](crate::action).

use coscan_core::Span;

use crate::ids::{FileId, FrameNo, InstanceId, QueryId};
use crate::locality::{LocalReplacement, Pattern};

/// What a query is known to want before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Its hot set (Sacco & Schkolnick 1982), in pages.
    pub hot_set_pages: u32,
    /// The window of its working set, in processor time of the query.
    pub working_set_window: Span,
}

/// What a query does to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It looks at it.
    Read,
    /// It changes it.
    Write,
    /// It fills a page that did not exist before: there is nothing to read from the device.
    Create,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A query wants to run. Answered by [`Admit`](crate::Action::Admit), now or later; by
    /// [`Wait`](crate::Action::Wait) if not now.
    QueryStarted {
        /// The query.
        query: QueryId,
        /// What it will want.
        demand: Demand,
    },
    /// A running query opened a file. It goes on, unless the answer is
    /// [`Deactivate`](crate::Action::Deactivate): then it stands still until reactivated.
    FileOpened {
        /// The query.
        query: QueryId,
        /// The new instance.
        instance: InstanceId,
        /// The file.
        file: FileId,
        /// How it will be referenced.
        pattern: Pattern,
        /// Desired size of its locality set, in pages.
        set_pages: u32,
        /// How to replace inside the locality set.
        replacement: LocalReplacement,
    },
    /// A running query wants a page, and is done with the one before. Answered by
    /// [`Grant`](crate::Action::Grant), now or later; the query may be deactivated in between.
    PageRequested {
        /// The query.
        query: QueryId,
        /// Through which of its instances.
        instance: InstanceId,
        /// The page's position in the instance's file.
        number: u32,
        /// What for.
        access: Access,
        /// The processor time the query has used.
        cpu: Span,
    },
    /// What was to be read into a frame is there.
    ReadDone {
        /// The frame.
        frame: FrameNo,
    },
    /// It cannot be read, all retries included. Who waited for it is told.
    ReadFailed {
        /// The frame.
        frame: FrameNo,
    },
    /// What was to be written from a frame is safe.
    WriteDone {
        /// The frame.
        frame: FrameNo,
    },
    /// It could not be written: the page is still dirty, and the pool will ask again when it wants the frame.
    WriteFailed {
        /// The frame.
        frame: FrameNo,
    },
    /// The device has nothing to do. Worth telling while [`Pool::wants_to_write`](crate::Pool::wants_to_write) holds:
    /// one write comes back.
    DeviceIdle,
    /// A query closed a file.
    FileClosed {
        /// The query.
        query: QueryId,
        /// The instance.
        instance: InstanceId,
    },
    /// A file is no more (a temporary result): its pages are void and need not be written. Nobody has it open.
    FileDropped {
        /// The file.
        file: FileId,
    },
    /// A query is over, or was cancelled: whatever it holds is free again. Valid in every state of the query.
    QueryEnded {
        /// The query.
        query: QueryId,
    },
    /// A running query has used up its time slice.
    SliceEnded {
        /// The query.
        query: QueryId,
        /// The processor time it has used.
        cpu: Span,
    },
    /// How busy the device was since the last sample.
    UtilisationSampled {
        /// Thousandths of the time.
        permille: u32,
    },
}
