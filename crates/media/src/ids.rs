//! Identifiers: an integer with a type each, given by the host.

use coscan_core::identifier;

identifier!(
    /// A fragment: contiguous data on one medium that one request fetches.
    FragmentId(u64), "f"
);
identifier!(
    /// A medium: a tape, a platter, a cartridge. An archive without media has one.
    MediumId(u32), "m"
);
identifier!(
    /// A drive, counted from zero. An archive without media has one for each restore that it does at once.
    DriveId(u32), "d"
);
identifier!(
    /// The owner of lists: a user, a session, a query.
    UserId(u64), "u"
);
identifier!(
    /// A list of subqueries (SQ-list) of one schedule node; never used twice.
    ListId(u64), "l"
);
