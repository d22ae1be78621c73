//! Identifiers: integers, each with its own type, given by the host.

use coscan_base::identifier;

identifier!(
    /// A fragment: contiguous data on one medium that one request fetches.
    FragmentId(u64), "f"
);
identifier!(
    /// A medium: a tape, a platter, a cartridge. An archive without media has one.
    MediumId(u32), "m"
);
identifier!(
    /// A drive, counted from zero. An archive without media has one for each simultaneous restore.
    DriveId(u32), "d"
);
identifier!(
    /// The owner of lists: a user, a session, a query.
    UserId(u64), "u"
);
identifier!(
    /// A list of subqueries (SQ-list) of one schedule node; each id is used once.
    ListId(u64), "l"
);
