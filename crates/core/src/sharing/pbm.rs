//! PBM: independent scans from the first chunk, as under `normal`, with predictive replacement. Its source, choices and
//! cost are those of [`replacement::pbm`](crate::replacement::pbm).

use super::sequential::{FromBeginning, Sequential};
use crate::replacement::pbm::LastConsumed;

/// Independent scans with predictive replacement; `P` finds the latest part.
pub type Pbm<P> = Sequential<FromBeginning, LastConsumed<P>>;
