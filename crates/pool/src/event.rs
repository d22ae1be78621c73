//! Events of a page-level pool: its only input.
//!
//! The host names queries, file instances and files. It must use each name of a query or an instance once.
//! The pool answers with [`action`](crate::action)s.

use coscan_base::Span;

use crate::ids::{FileId, FrameNo, InstanceId, QueryId};
use crate::locality::{LocalReplacement, Pattern};

/// The needs that a query announces before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Its hot set (Sacco & Schkolnick 1982), in pages.
    pub hot_set_pages: u32,
    /// The window of its working set, in processor time of the query.
    pub working_set_window: Span,
}

/// The kind of use that a query makes of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The query reads the page.
    Read,
    /// The query changes the page.
    Write,
    /// The query fills a new page: nothing is read from the device.
    Create,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A query wants to run. The pool answers with [`Admit`](crate::Action::Admit), at once or after a
    /// [`Wait`](crate::Action::Wait).
    QueryStarted {
        /// The query.
        query: QueryId,
        /// Its announced needs.
        demand: Demand,
    },
    /// A running query opened a file. It continues unless the answer is
    /// [`Deactivate`](crate::Action::Deactivate). In that case it waits until it is reactivated.
    FileOpened {
        /// The query.
        query: QueryId,
        /// The new instance.
        instance: InstanceId,
        /// The file.
        file: FileId,
        /// The pattern of references to it.
        pattern: Pattern,
        /// Desired size of its locality set, in pages.
        set_pages: u32,
        /// The replacement inside the locality set.
        replacement: LocalReplacement,
    },
    /// A running query wants a page and has finished with its previous page. The pool answers with
    /// [`Grant`](crate::Action::Grant), at once or later. The query may be deactivated before the answer.
    PageRequested {
        /// The query.
        query: QueryId,
        /// The file instance of the request.
        instance: InstanceId,
        /// The page's position in the instance's file.
        number: u32,
        /// The kind of use.
        access: Access,
        /// The processor time that the query has used.
        cpu: Span,
    },
    /// A page was read into a frame.
    ReadDone {
        /// The frame.
        frame: FrameNo,
    },
    /// A page could not be read, after all retries. The pool tells the queries that waited for it.
    ReadFailed {
        /// The frame.
        frame: FrameNo,
    },
    /// The page in a frame was written.
    WriteDone {
        /// The frame.
        frame: FrameNo,
    },
    /// The page could not be written. It is still dirty, and the pool asks again when it needs the frame.
    WriteFailed {
        /// The frame.
        frame: FrameNo,
    },
    /// The device is idle. The host sends this while [`Pool::wants_to_write`](crate::Pool::wants_to_write)
    /// holds; the answer is one write.
    DeviceIdle,
    /// A query closed a file.
    FileClosed {
        /// The query.
        query: QueryId,
        /// The instance.
        instance: InstanceId,
    },
    /// A file was deleted (a temporary result). Its pages are dropped without a write. All queries have
    /// closed it.
    FileDropped {
        /// The file.
        file: FileId,
    },
    /// A query finished or was cancelled: the pool releases everything that the query holds. Valid in every
    /// state of the query.
    QueryEnded {
        /// The query.
        query: QueryId,
    },
    /// A running query has used up its time slice.
    SliceEnded {
        /// The query.
        query: QueryId,
        /// The processor time that the query has used.
        cpu: Span,
    },
    /// The utilisation of the device since the last sample.
    UtilisationSampled {
        /// Thousandths of the time.
        permille: u32,
    },
}
