//! Pool sizes: in pages, or as a share of the distinct pages of a trace.

use std::fmt;
use std::str::FromStr;

use crate::CacheError;

/// The size of a pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// A number of pages; at least one.
    Pages(usize),
    /// A percentage of the distinct pages of the trace; above zero, at most 100.
    Percent(f64),
}

impl Size {
    /// The size in pages for a trace of `distinct` pages. Shares are rounded down, but to at least one page.
    pub fn pages(self, distinct: usize) -> usize {
        match self {
            Size::Pages(pages) => pages,
            // Rounding errors must not make a whole number smaller.
            Size::Percent(percent) => ((distinct as f64 * percent / 100.0 + 1e-9) as usize).max(1),
        }
    }

    /// Sizes separated by commas, as in `1%,5%,10%,1000`.
    ///
    /// # Errors
    /// [`CacheError::BadSize`].
    pub fn list(text: &str) -> Result<Vec<Size>, CacheError> {
        text.split(',').map(|size| size.trim().parse()).collect()
    }
}

impl FromStr for Size {
    type Err = CacheError;

    fn from_str(text: &str) -> Result<Self, CacheError> {
        let bad = |reason: &str| CacheError::BadSize { text: text.to_owned(), reason: reason.to_owned() };
        if let Some(number) = text.strip_suffix('%') {
            return match number.parse::<f64>() {
                Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Size::Percent(percent)),
                Ok(_) => Err(bad("a share is above 0% and at most 100%")),
                Err(_) => Err(bad("not a number")),
            };
        }
        match text.parse() {
            Ok(0) => Err(bad("a pool has at least one page")),
            Ok(pages) => Ok(Size::Pages(pages)),
            Err(_) => Err(bad("not a number")),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Pages(pages) => write!(f, "{pages}"),
            Size::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_pages_or_shares() {
        let sizes = Size::list("1%, 0.5%,100%,1000").unwrap();
        let pages: Vec<usize> = sizes.iter().map(|size| size.pages(48_974)).collect();
        assert_eq!(pages, [489, 244, 48_974, 1000]);
        assert_eq!(Size::Percent(1.0).pages(3), 1);
        for percent in 1..=100 {
            assert_eq!(Size::Percent(f64::from(percent)).pages(700), 7 * percent as usize);
        }
        for bad in ["", "0", "-1", "1.5", "0%", "101%", "NaN%", "x%", "5 %x"] {
            let error = bad.parse::<Size>().unwrap_err().to_string();
            assert!(error.contains(&format!("'{bad}'")) && error.contains("5%"), "{error}");
        }
        assert!(Size::list("1%,,2%").is_err());
    }
}
