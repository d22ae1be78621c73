//! Names of things: an integer with a type each. All are given by the host.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A fragment: what lies contiguously on one medium and is fetched by one request.
    FragmentId(u64), "f"
);
id!(
    /// A medium: a tape, a platter, a cartridge. An archive that mounts nothing has one.
    MediumId(u32), "m"
);
id!(
    /// A drive, counted from zero. An archive that mounts nothing has one for each restore it does at once.
    DriveId(u32), "d"
);
id!(
    /// Who asks: a user, a session, a query; several lists may belong to one.
    UserId(u64), "u"
);
id!(
    /// A list of subqueries (SQ-list) of one schedule node; never used twice.
    ListId(u64), "l"
);
