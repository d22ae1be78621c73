//! Query shapes that a campaign can exclude while a known fault would be found repeatedly.

use std::str::FromStr;

/// The optional shapes that are drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// Volatile functions: `random()`, `uuid()`.
    pub volatile: bool,
    /// User-defined functions with the names of built-in ones.
    pub shadowing: bool,
    /// Subqueries with a limit.
    pub limits: bool,
    /// Columns of type Null.
    pub nulls: bool,
    /// Averages of decimals.
    pub averages: bool,
    /// Buffers as small as queries allow.
    pub small_buffers: bool,
    /// Occasional refusals of memory to operators.
    pub refusals: bool,
    /// Tables of foreign providers.
    pub providers: bool,
}

/// A shape's name and its field.
type Named = (&'static str, fn(&mut Shapes) -> &mut bool);

const NAMES: [Named; 8] = [
    ("volatile", |shapes| &mut shapes.volatile),
    ("shadowing", |shapes| &mut shapes.shadowing),
    ("limits", |shapes| &mut shapes.limits),
    ("nulls", |shapes| &mut shapes.nulls),
    ("averages", |shapes| &mut shapes.averages),
    ("small-buffers", |shapes| &mut shapes.small_buffers),
    ("refusals", |shapes| &mut shapes.refusals),
    ("providers", |shapes| &mut shapes.providers),
];

impl Default for Shapes {
    fn default() -> Self {
        Shapes {
            volatile: true,
            shadowing: true,
            limits: true,
            nulls: true,
            averages: true,
            small_buffers: true,
            refusals: true,
            providers: true,
        }
    }
}

/// The error of an unknown shape name.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "there is no shape '{0}' to leave out; there are volatile, shadowing, limits, nulls, averages, small-buffers, \
     refusals, providers"
)]
pub struct UnknownShape(String);

impl Shapes {
    /// Returns all shapes except the named ones, separated by commas.
    ///
    /// # Errors
    ///
    /// If no shape has one of the names.
    pub fn without(names: &str) -> Result<Self, UnknownShape> {
        let mut shapes = Shapes::default();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let known = NAMES.iter().find(|(known, _)| *known == name);
            let (_, place) = known.ok_or_else(|| UnknownShape(name.to_owned()))?;
            *place(&mut shapes) = false;
        }
        Ok(shapes)
    }
}

impl FromStr for Shapes {
    type Err = UnknownShape;

    fn from_str(names: &str) -> Result<Self, Self::Err> {
        Shapes::without(names)
    }
}
