//! 2004, §3.2 and §4.2: the reasons for reads in chunks, measured on models of the paper's disks in virtual
//! time.
//!
//! There are three questions, one per file. `bandwidth` finds the chunk size for good bandwidth,
//! `concurrency` the number of requests that an array serves at once. `index` finds the selectivity from
//! which reading the whole chunk beats an index that fetches single pages. `devices` has the disks and the
//! sources of their figures, and `measure` drives them. No buffer manager and no policy is involved.

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
