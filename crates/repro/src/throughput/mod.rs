//! Chou & DeWitt 1985, section 4: the effect of frame ownership in the pool on the throughput of many
//! queries.
//!
//! The trace strings are real: access methods run the six queries on generated relations (`coscan-access`).
//! They are played in the hybrid simulation ([`crate::dbmin`]) under every policy, mix, degree of sharing and
//! number of queries. `rows` compares with the paper, `shown` draws.

mod measured;
mod rows;
mod shown;

pub(crate) use measured::NAME;

use crate::error::ReproError;
use crate::report::{Finding, Section};
use measured::{Measured, Traces};

pub(crate) fn find(threads: usize) -> Result<Finding, ReproError> {
    let traces = Traces::record()?;
    let measured = Measured::by(&traces, threads)?;
    let section = Section {
        experiment: NAME.to_owned(),
        title: "Buffer management of many queries (Chou & DeWitt 1985, section 4)".to_owned(),
        blocks: shown::blocks(&measured)?,
    };
    Ok(Finding { rows: rows::rows(&measured, &traces), section })
}
