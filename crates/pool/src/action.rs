//! Actions for the host of a page-level pool: its only output.

use crate::ids::{FrameNo, PageId, QueryId};

/// An instruction to the host. The host must carry out the actions of one call in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The query may run.
    Admit {
        /// The query.
        query: QueryId,
    },
    /// The query must wait; it is in the queue.
    Wait {
        /// The query.
        query: QueryId,
    },
    /// Read a page into a frame. Answer with `ReadDone` or `ReadFailed`.
    Read {
        /// The frame; its content is overwritten.
        frame: FrameNo,
        /// The page.
        page: PageId,
        /// The query that asked first for the page.
        query: QueryId,
    },
    /// Write the page in a frame; the page stays readable meanwhile. Answer with `WriteDone` or
    /// `WriteFailed`.
    Write {
        /// The frame.
        frame: FrameNo,
        /// The page.
        page: PageId,
    },
    /// The answer to a request: the page is in a frame. It stays there until the query's next request or end.
    Grant {
        /// The query.
        query: QueryId,
        /// The page.
        page: PageId,
        /// The page's frame.
        frame: FrameNo,
    },
    /// The other answer to a request: the page cannot be read.
    Fail {
        /// The query.
        query: QueryId,
        /// The page.
        page: PageId,
    },
    /// Stop the query: memory or the device is overloaded. A request that the query has made is answered
    /// after the query is reactivated.
    Deactivate {
        /// The query.
        query: QueryId,
    },
    /// The query may continue.
    Reactivate {
        /// The query.
        query: QueryId,
    },
}
