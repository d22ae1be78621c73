//! What the host of a page-level pool is to do: the only output.

use crate::ids::{FrameNo, PageId, QueryId};

/// Something the host is to do. The actions of one call must be carried out in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The query may run.
    Admit {
        /// The query.
        query: QueryId,
    },
    /// The query may not run yet; it is in the queue.
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
        /// The query that asked first.
        query: QueryId,
    },
    /// Write the page in a frame, which stays readable meanwhile. Answer with `WriteDone` or `WriteFailed`.
    Write {
        /// The frame.
        frame: FrameNo,
        /// The page.
        page: PageId,
    },
    /// The answer to a request: the page is in a frame, and stays until the query's next request or its end.
    Grant {
        /// The query.
        query: QueryId,
        /// The page.
        page: PageId,
        /// Where it is.
        frame: FrameNo,
    },
    /// The other answer to a request: the page cannot be read.
    Fail {
        /// The query.
        query: QueryId,
        /// The page.
        page: PageId,
    },
    /// Stop the query: memory or the device is overloaded. A request it has made is answered after it is
    /// reactivated.
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
