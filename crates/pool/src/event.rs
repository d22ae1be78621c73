//! What happens to a page-level pool: the only input.
//!
//! The host names queries, file instances and files. It never uses a name of a query or an instance twice. The
//! answers of the pool are in [`action`](crate::action).

use coscan_core::Span;

use crate::ids::{FileId, FrameNo, InstanceId, QueryId};
use crate::locality::{LocalReplacement, Pattern};

/// What a query says about its needs before it runs.
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
    /// A running query opened a file. It continues, unless the answer is [`Deactivate`](crate::Action::Deactivate):
    /// then it waits until it is reactivated.
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
    /// A running query wants a page and has finished with the one before. Answered by
    /// [`Grant`](crate::Action::Grant), now or later; the query may be deactivated before that.
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
    /// A page was read into a frame.
    ReadDone {
        /// The frame.
        frame: FrameNo,
    },
    /// A page could not be read, after all retries. The queries that waited for it are told.
    ReadFailed {
        /// The frame.
        frame: FrameNo,
    },
    /// The page in a frame was written.
    WriteDone {
        /// The frame.
        frame: FrameNo,
    },
    /// It could not be written: the page is still dirty, and the pool asks again when it needs the frame.
    WriteFailed {
        /// The frame.
        frame: FrameNo,
    },
    /// The device is idle. To be sent while [`Pool::wants_to_write`](crate::Pool::wants_to_write) holds; the answer
    /// is one write.
    DeviceIdle,
    /// A query closed a file.
    FileClosed {
        /// The query.
        query: QueryId,
        /// The instance.
        instance: InstanceId,
    },
    /// A file was deleted (a temporary result): its pages are dropped and need not be written. No query has it open.
    FileDropped {
        /// The file.
        file: FileId,
    },
    /// A query finished or was cancelled: everything it holds is released. Valid in every state of the query.
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
