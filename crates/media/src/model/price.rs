//! Price of fetching, in millionths of the currency of the host's prices.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

/// An amount in millionths of the currency of the inputs. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(u64);

impl Price {
    /// The price zero.
    pub const ZERO: Price = Price(0);

    /// A price of `millionths` millionths.
    pub const fn from_millionths(millionths: u64) -> Self {
        Price(millionths)
    }

    /// The amount in millionths.
    pub const fn as_millionths(self) -> u64 {
        self.0
    }
}

impl Add for Price {
    type Output = Price;
    fn add(self, other: Price) -> Price {
        Price(self.0.saturating_add(other.0))
    }
}

impl Sum for Price {
    fn sum<I: Iterator<Item = Price>>(prices: I) -> Price {
        prices.fold(Price::ZERO, Add::add)
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4}", self.0 as f64 / 1e6)
    }
}
