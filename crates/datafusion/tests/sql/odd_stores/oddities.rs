//! The oddities of a store, and the expected answer of a query over it.

/// ETags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tags {
    Strong,
    Weak,
    /// Strong in HEAD, weak in GET.
    StrongAndWeak,
    /// GET has the suffix of an encoding.
    Encoded,
    Absent,
    OfHead,
    OfGet,
    /// Listings and HEAD have others than GET.
    OtherInHead,
    /// Every answer has another.
    Changing,
    /// Two servers answer in turn, each with its own tags.
    TwoServers,
}

/// Times of the last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    Told,
    Absent,
    OfHead,
    OfAnswer,
}

/// Answers to HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heads {
    Good,
    Refused(u16),
    NoLength,
    ZeroLength,
}

/// Answers to requests for ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranges {
    Good,
    /// All bytes are sent.
    Ignored,
    WrongStart,
    NotTold,
    NoTotal,
    WrongTotal,
}

/// Answers to `If-Match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conditions {
    Honest,
    Ignored,
    Refused(u16),
}

/// An overloaded server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    Never,
    Every { status: u16, every: u64, retry_after: Option<&'static str> },
    Always(u16),
}

/// Bodies of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bodies {
    Whole,
    Slow,
    /// Each n-th answer breaks within its body.
    BreakOff(u64),
    /// Each n-th request gets no answer, and the connection is closed.
    Reset(u64),
}

/// All oddities of one store.
#[derive(Clone, Copy, Debug)]
pub struct Oddities {
    pub tags: Tags,
    pub times: Times,
    pub heads: Heads,
    pub ranges: Ranges,
    pub conditions: Conditions,
    pub busy: Busy,
    pub bodies: Bodies,
    /// Whether the table is a folder.
    pub listed: bool,
    /// Whether the object is missing.
    pub missing: bool,
    /// The number of GETs after which the object is replaced.
    pub replaced_after: Option<u64>,
}

/// A store without oddities.
pub const PLAIN: Oddities = Oddities {
    tags: Tags::Strong,
    times: Times::Told,
    heads: Heads::Good,
    ranges: Ranges::Good,
    conditions: Conditions::Honest,
    busy: Busy::Never,
    bodies: Bodies::Whole,
    listed: false,
    missing: false,
    replaced_after: None,
};

pub const TAGS: [Tags; 10] = [
    Tags::Strong,
    Tags::Weak,
    Tags::StrongAndWeak,
    Tags::Encoded,
    Tags::Absent,
    Tags::OfHead,
    Tags::OfGet,
    Tags::OtherInHead,
    Tags::Changing,
    Tags::TwoServers,
];

pub const TIMES: [Times; 4] = [Times::Told, Times::Absent, Times::OfHead, Times::OfAnswer];

pub const HEADS: [Heads; 6] = [
    Heads::Good,
    Heads::Refused(403),
    Heads::Refused(405),
    Heads::Refused(501),
    Heads::NoLength,
    Heads::ZeroLength,
];

pub const RANGES: [Ranges; 6] =
    [Ranges::Good, Ranges::Ignored, Ranges::WrongStart, Ranges::NotTold, Ranges::NoTotal, Ranges::WrongTotal];

pub const CONDITIONS: [Conditions; 7] = [
    Conditions::Honest,
    Conditions::Ignored,
    Conditions::Refused(400),
    Conditions::Refused(405),
    Conditions::Refused(412),
    Conditions::Refused(417),
    Conditions::Refused(501),
];

const fn busy(status: u16, every: u64, retry_after: Option<&'static str>) -> Busy {
    Busy::Every { status, every, retry_after }
}

pub const BUSY: [Busy; 10] = [
    Busy::Never,
    busy(429, 3, None),
    busy(503, 4, None),
    busy(500, 4, None),
    busy(502, 3, None),
    busy(429, 5, Some("retry-after: 0\r\n")),
    busy(503, 6, Some("retry-after: 1\r\n")),
    busy(503, 6, Some("retry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n")),
    Busy::Always(501),
    Busy::Always(401),
];

pub const BODIES: [Bodies; 5] =
    [Bodies::Whole, Bodies::Slow, Bodies::BreakOff(3), Bodies::Reset(3), Bodies::Reset(4)];

/// The expected answer of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The rows of the first version.
    Rows,
    /// The rows of either version, or the error that it was replaced; never some rows of each.
    OneVersion,
    /// An error whose text contains one of these.
    Error(&'static [&'static str]),
    /// The store does not say enough: any rows, or any error.
    Anything,
}

impl Oddities {
    /// A random store. Most properties are normal.
    pub fn draw(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        fn pick<T: Copy>(random: &mut fastrand::Rng, all: &[T], odd: u32) -> T {
            if random.u32(..100) < odd { all[random.usize(..all.len())] } else { all[0] }
        }
        Oddities {
            tags: pick(&mut random, &TAGS, 70),
            times: pick(&mut random, &TIMES, 50),
            heads: pick(&mut random, &HEADS, 30),
            ranges: pick(&mut random, &RANGES, 10),
            conditions: pick(&mut random, &CONDITIONS, 50),
            busy: pick(&mut random, &BUSY, 20),
            bodies: pick(&mut random, &BODIES, 30),
            listed: random.u32(..4) == 0,
            missing: random.u32(..25) == 0,
            replaced_after: (random.u32(..4) == 0).then(|| random.u64(1..9)),
        }
    }

    /// Returns the expected answer of a query over all rows.
    pub fn expected(&self) -> Expected {
        match self.busy {
            Busy::Always(501) => return Expected::Error(&["501"]),
            Busy::Always(_) => return Expected::Error(&["401", "unauthenticated", "Unauthenticated"]),
            _ => {}
        }
        if self.missing {
            return match self.listed {
                // The listing contains it.
                true => Expected::Error(&["404", "not found", "replaced"]),
                false => Expected::Error(&["t.parquet"]),
            };
        }
        match self.ranges {
            Ranges::Good => {}
            Ranges::Ignored => return Expected::Error(&["range", "Range"]),
            Ranges::WrongStart => return Expected::Error(&["Requested"]),
            Ranges::NotTold => return Expected::Error(&["Content-Range"]),
            Ranges::NoTotal => return Expected::Error(&["CONTENT_RANGE"]),
            // The size from HEAD by GET is wrong, too.
            Ranges::WrongTotal => {
                return Expected::Error(&["replaced", "Parquet", "parquet", "range", "Invalid", "Requested"]);
            }
        }
        match self.replaced_after {
            None => Expected::Rows,
            Some(_) if self.tells_versions() => Expected::OneVersion,
            Some(_) => Expected::Anything,
        }
    }

    /// Returns whether requests fail that would succeed if they were repeated.
    pub fn fails_at_times(&self) -> bool {
        matches!(self.busy, Busy::Every { .. })
            || matches!(self.bodies, Bodies::BreakOff(_) | Bodies::Reset(_))
    }

    /// Returns whether answers distinguish versions by what is compared: tags if both sides have them,
    /// otherwise times.
    fn tells_versions(&self) -> bool {
        let times = self.times == Times::Told;
        match self.tags {
            Tags::Strong | Tags::Weak | Tags::StrongAndWeak | Tags::Encoded | Tags::OtherInHead => true,
            // The tags of the engine's reads are neither.
            Tags::Absent | Tags::OfHead | Tags::OfGet => times,
            // Tags that change with each answer prove nothing.
            Tags::Changing | Tags::TwoServers => times,
        }
    }
}
