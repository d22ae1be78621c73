//! The functions of corrected plans, for processes that get such plans from others.
//!
//! DataFusion sends a function as its name. A function with parameters beside its arguments is sent as a [`Described`].

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

use crate::canonical_floats;
use crate::logical::{float_extrema, lasting_casts, missing_rows, moving_frames, rounded, subqueries};
use crate::overflow::{self, CheckedSum};

/// Returns the scalar functions that their name describes.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let functions = missing_rows::functions().into_iter().chain([subqueries::single_row::function()]);
    functions.map(Arc::new).chain([canonical_floats::function()]).collect()
}

/// Returns the aggregate functions that their name describes. `sum` takes the place of DataFusion's.
pub fn aggregate_functions() -> Vec<Arc<AggregateUDF>> {
    float_extrema::functions().into_iter().map(Arc::new).chain([CheckedSum::function()]).collect()
}

/// A function with parameters, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Described {
    /// A scalar function with a result of this type.
    Scalar(String, DataType),
    /// `round` of decimals to places that are not known.
    Round,
    /// An aggregate function over moving frames, and whether it subtracts.
    InFrame(String, bool),
}

impl Described {
    /// Describes a scalar function whose result has this type. `None` if it is not one of this crate.
    pub fn scalar(function: &ScalarUDF, of: &DataType) -> Option<Self> {
        if *function == rounded::function() {
            return Some(Described::Round);
        }
        let named = named(function.name(), of)?;
        (named == *function).then(|| Described::Scalar(function.name().to_owned(), of.clone()))
    }

    /// Describes an aggregate function over moving frames of one of `usual`.
    pub fn aggregate(
        function: &AggregateUDF,
        usual: impl Fn(&str) -> Option<Arc<AggregateUDF>>,
    ) -> Option<Self> {
        let usual = usual(function.name())?;
        let subtracts = [false, true];
        let subtracts = subtracts
            .into_iter()
            .find(|&subtracts| moving_frames::in_frame(Arc::clone(&usual), subtracts) == *function)?;
        Some(Described::InFrame(function.name().to_owned(), subtracts))
    }

    /// Returns the scalar function.
    pub fn to_scalar(&self) -> Option<ScalarUDF> {
        match self {
            Described::Scalar(name, of) => named(name, of),
            Described::Round => Some(rounded::function()),
            Described::InFrame(..) => None,
        }
    }

    /// Returns the aggregate function over frames of one of `usual`.
    pub fn to_aggregate(&self, usual: impl Fn(&str) -> Option<Arc<AggregateUDF>>) -> Option<AggregateUDF> {
        match self {
            Described::InFrame(name, subtracts) => Some(moving_frames::in_frame(usual(name)?, *subtracts)),
            _ => None,
        }
    }

    /// Reads the text that `Display` writes.
    ///
    /// # Errors
    /// If the text is no description.
    pub fn parse(text: &str) -> Result<Self> {
        let parts: Vec<_> = text.splitn(3, ' ').collect();
        match parts[..] {
            ["round"] => Ok(Described::Round),
            ["scalar", name, of] => Ok(Described::Scalar(name.to_owned(), of.parse()?)),
            ["frame", name, "subtracts"] => Ok(Described::InFrame(name.to_owned(), true)),
            ["frame", name, "adds"] => Ok(Described::InFrame(name.to_owned(), false)),
            _ => plan_err!("'{text}' describes no function"),
        }
    }
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Described::Scalar(name, of) => write!(f, "scalar {name} {of}"),
            Described::Round => f.write_str("round"),
            Described::InFrame(name, true) => write!(f, "frame {name} subtracts"),
            Described::InFrame(name, false) => write!(f, "frame {name} adds"),
        }
    }
}

fn named(name: &str, of: &DataType) -> Option<ScalarUDF> {
    let functions = [overflow::checked, overflow::text, lasting_casts::named];
    functions.into_iter().find_map(|named| named(name, of))
}

#[cfg(test)]
mod tests {
    use datafusion::functions_aggregate::sum::sum_udaf;

    use super::*;

    #[test]
    fn a_description_returns_its_function() {
        let decimal = DataType::Decimal128(10, 2);
        for (name, of) in
            [("checked_add", DataType::Int32), ("cast", decimal), ("decimal_text", DataType::Utf8View)]
        {
            let function = named(name, &of).expect(name);
            let described = Described::scalar(&function, &of).expect(name);
            let read = Described::parse(&described.to_string()).expect(name);
            assert_eq!(read.to_scalar(), Some(function), "{described}");
        }
        let usual = |name: &str| (name == "sum").then(sum_udaf);
        let function = moving_frames::in_frame(sum_udaf(), true);
        let described = Described::aggregate(&function, usual).expect("sum over a frame");
        let read = Described::parse(&described.to_string()).expect("sum over a frame");
        assert_eq!(read.to_aggregate(usual), Some(function));
        assert!(Described::parse("scalar checked_add").is_err());
        assert!(Described::scalar(&rounded::function(), &DataType::Int8) == Some(Described::Round));
    }
}
