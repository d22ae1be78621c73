//! 2004, §3.2 and §4.2: why reads come in chunks, measured on models of the paper's disks in virtual time.
//!
//! Three questions, a file each: how large a chunk must be for good bandwidth (`bandwidth`), how many
//! requests an array serves at once (`concurrency`), and from which selectivity on an index that fetches
//! single pages loses to reading the whole chunk (`index`). `devices` has the disks and where their numbers
//! come from, `measure` drives them. No buffer manager and no policy is involved.

mod bandwidth;
mod common;
mod concurrency;
mod devices;
mod index;
mod measure;

pub(crate) use common::NAME;

use crate::error::ReproError;
use crate::report::{Block, Finding, Section};

pub(crate) fn find() -> Result<Finding, ReproError> {
    let (mut rows, mut blocks) = (Vec::new(), vec![Block::Text(devices::described())]);
    for part in [bandwidth::find()?, concurrency::find()?, index::find()?] {
        rows.extend(part.rows);
        blocks.extend(part.blocks);
    }
    let title = "Chunked I/O (2004, Fig. 5, Table 3, Fig. 7)".to_owned();
    Ok(Finding { rows, section: Section { experiment: NAME.to_owned(), title, blocks } })
}
