//! `date_bin`, whose bins have a positive length without months.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{DataFusionError, Result};
use datafusion::functions::datetime::date_bin;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;

use crate::sql::QueryError;

/// The query engine's function with errors.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bins(Arc<ScalarUDF>);

pub(super) fn register(context: &SessionContext) {
    context.register_udf(ScalarUDF::from(Bins(date_bin())));
}

impl ScalarUDFImpl for Bins {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.0.output_ordering(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(ColumnarValue::Scalar(stride)) = args.args.first() {
            let stride = cast(&stride.to_array()?, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            stride.as_primitive::<IntervalMonthDayNanoType>().iter().flatten().try_for_each(check)?;
        }
        self.0.invoke_with_args(args)
    }
}

fn check(stride: IntervalMonthDayNano) -> Result<()> {
    let IntervalMonthDayNano { months, days, nanoseconds } = stride;
    let (sqlstate, text) = match i128::from(days) * 86_400_000_000_000 + i128::from(nanoseconds) {
        _ if months != 0 => {
            ("0A000", "timestamps cannot be binned into intervals containing months or years")
        }
        ..=0 => ("22008", "stride must be greater than zero"),
        _ => return Ok(()),
    };
    Err(DataFusionError::External(Box::new(QueryError::other(sqlstate, text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_positive_and_without_months() {
        let day = 86_400_000_000_000;
        for (months, days, nanoseconds, is_right) in [
            (0, 1, 0, true),
            (0, 0, 1, true),
            (0, -1, day + 1, true),
            (0, 0, 0, false),
            (0, -2, 0, false),
            (5, 0, 0, false),
        ] {
            let of = IntervalMonthDayNano::new(months, days, nanoseconds);
            assert_eq!(check(of).is_ok(), is_right, "{of:?}");
        }
    }
}
