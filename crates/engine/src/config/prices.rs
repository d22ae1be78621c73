//! Prices of requests to stores, and of the bytes of their answers.

use std::fmt;
use std::str::FromStr;

/// Prices by the beginning of stores' addresses, as text: `ADDRESS=READS/LISTS/BYTES`, separated by commas, in dollars for
/// a million reads, for a million lists and writes, and for a gigabyte. The longest matching address decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StorePrices(Vec<Price>);

#[derive(Clone, Debug, PartialEq)]
struct Price {
    address: String,
    million_reads: f64,
    million_lists: f64,
    gigabyte: f64,
}

impl StorePrices {
    /// Returns the price in dollars, or `None` if there are no prices for the store.
    pub fn of(&self, store: &str, reads: u64, lists: u64, bytes: u64) -> Option<f64> {
        let known = self.0.iter().filter(|price| store.starts_with(&price.address));
        let price = known.max_by_key(|price| price.address.len())?;
        let requests = reads as f64 * price.million_reads + lists as f64 * price.million_lists;
        Some(requests / 1e6 + bytes as f64 / 1e9 * price.gigabyte)
    }
}

impl FromStr for StorePrices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("none") {
            return Ok(StorePrices::default());
        }
        let stores = text.split(',').map(str::trim).filter(|store| !store.is_empty());
        stores.map(str::parse).collect::<Result<_, _>>().map(StorePrices)
    }
}

impl FromStr for Price {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted =
            || "addresses with dollars for a million reads, a million lists and a gigabyte: s3://=0.4/5/0.09";
        let (address, prices) = text.split_once('=').ok_or_else(wanted)?;
        let prices: Vec<f64> = prices.split('/').map_while(|price| price.trim().parse().ok()).collect();
        match prices[..] {
            [million_reads, million_lists, gigabyte]
                if prices.iter().all(|price| (0.0..1e9).contains(price)) =>
            {
                Ok(Price { address: address.trim().to_owned(), million_reads, million_lists, gigabyte })
            }
            _ => Err(wanted().to_owned()),
        }
    }
}

impl fmt::Display for StorePrices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (at, Price { address, million_reads, million_lists, gigabyte }) in self.0.iter().enumerate() {
            let separator = if at > 0 { "," } else { "" };
            write!(f, "{separator}{address}={million_reads}/{million_lists}/{gigabyte}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_address_decides() {
        let prices: StorePrices = "s3://=0.4/5/0, s3://far=0.4/5/0.09".parse().unwrap();
        assert_eq!(prices.of("s3://near", 1_000_000, 200_000, 7), Some(1.4));
        assert_eq!(prices.of("s3://far", 0, 0, 2_000_000_000), Some(0.18));
        assert_eq!(prices.of("gs://near", 1, 1, 1), None);
        assert_eq!(prices.to_string(), "s3://=0.4/5/0,s3://far=0.4/5/0.09");
        assert_eq!(prices.to_string().parse(), Ok(prices));
        assert_eq!("none".parse(), Ok(StorePrices::default()));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "0.4",
            "s3://",
            "s3://=0.4",
            "s3://=0.4/5",
            "s3://=a/b/c",
            "s3://=-1/5/0",
            "s3://=inf/5/0",
            "s3://=1/2/3/4",
        ] {
            let error = text.parse::<StorePrices>().unwrap_err();
            assert!(error.contains("s3://=0.4/5/0.09"), "{text}");
        }
    }
}
