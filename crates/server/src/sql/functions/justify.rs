//! `justify_hours`, `justify_days`, `justify_interval`: 24 hours become a day, thirty days become a month, and all
//! parts get one sign.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{Result, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, Volatility, create_udf};
use datafusion::prelude::SessionContext;

use super::declared::Function;

const DAY: i64 = 86_400_000_000_000;
const DAYS_OF_MONTH: i32 = 30;

/// `None` if a part of the interval becomes too large.
type Justify = fn(IntervalMonthDayNano) -> Option<IntervalMonthDayNano>;

pub(super) fn register(context: &SessionContext) {
    let of = DataType::Interval(IntervalUnit::MonthDayNano);
    let functions: [(&str, Justify); 3] =
        [("justify_hours", hours), ("justify_days", days), ("justify_interval", both)];
    context.register_udf(whole_days().as_ref().clone());
    for (name, justify) in functions {
        let justified = Arc::new(move |arguments: &[ColumnarValue]| {
            let intervals = ColumnarValue::values_to_arrays(arguments)?.swap_remove(0);
            let row = |interval: IntervalMonthDayNano| {
                justify(interval)
                    .ok_or_else(|| exec_datafusion_err!("interval out of range: overflow in {name}"))
            };
            let rows =
                intervals.as_primitive::<IntervalMonthDayNanoType>().iter().map(|of| of.map(row).transpose());
            Ok(ColumnarValue::Array(Arc::new(rows.collect::<Result<IntervalMonthDayNanoArray>>()?)))
        });
        context.register_udf(create_udf(
            name,
            vec![of.clone()],
            of.clone(),
            Volatility::Immutable,
            justified,
        ));
    }
}

static WHOLE_DAYS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let takes = |types: &[DataType]| match types {
        [DataType::Duration(_)] => Ok(types.to_vec()),
        _ => plan_err!("this function takes the difference of two times"),
    };
    let gives = |_: &[DataType]| DataType::Interval(IntervalUnit::MonthDayNano);
    let compute = |args: &ScalarFunctionArgs| {
        Ok(ColumnarValue::Array(days_of_duration(&args.args[0].to_array(args.number_rows)?)?))
    };
    Arc::new(Function { name: "whole_days", takes, gives, compute }.immutable())
});

/// The difference of two times as an interval with whole days.
pub(crate) fn whole_days() -> Arc<ScalarUDF> {
    WHOLE_DAYS.clone()
}

/// Differences of times as intervals with whole days.
pub(super) fn days_of_duration(differences: &ArrayRef) -> Result<ArrayRef> {
    fn intervals<T: ArrowPrimitiveType<Native = i64>>(of: &ArrayRef, second: i64) -> Result<ArrayRef> {
        let day = 86_400 * second;
        let interval = |of: i64| {
            let days = i32::try_from(of / day).map_err(|_| exec_datafusion_err!("interval out of range"))?;
            Ok(IntervalMonthDayNano::new(0, days, of % day * (1_000_000_000 / second)))
        };
        let intervals = of.as_primitive::<T>().iter().map(|of| of.map(interval).transpose());
        Ok(Arc::new(intervals.collect::<Result<IntervalMonthDayNanoArray>>()?))
    }
    match differences.data_type() {
        DataType::Duration(TimeUnit::Second) => intervals::<DurationSecondType>(differences, 1),
        DataType::Duration(TimeUnit::Millisecond) => intervals::<DurationMillisecondType>(differences, 1_000),
        DataType::Duration(TimeUnit::Microsecond) => {
            intervals::<DurationMicrosecondType>(differences, 1_000_000)
        }
        _ => intervals::<DurationNanosecondType>(differences, 1_000_000_000),
    }
}

/// Whole days of the time become days.
fn with_days(mut of: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    of.days = of.days.checked_add(i32::try_from(of.nanoseconds / DAY).ok()?)?;
    of.nanoseconds %= DAY;
    Some(of)
}

/// Thirty days become a month.
fn with_months(mut of: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    of.months = of.months.checked_add(of.days / DAYS_OF_MONTH)?;
    of.days %= DAYS_OF_MONTH;
    Some(of)
}

/// Days and time with one sign.
fn one_sign(mut of: IntervalMonthDayNano) -> IntervalMonthDayNano {
    if of.days > 0 && of.nanoseconds < 0 {
        (of.days, of.nanoseconds) = (of.days - 1, of.nanoseconds + DAY);
    } else if of.days < 0 && of.nanoseconds > 0 {
        (of.days, of.nanoseconds) = (of.days + 1, of.nanoseconds - DAY);
    }
    of
}

fn hours(of: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    with_days(of).map(one_sign)
}

fn days(of: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let mut of = with_months(of)?;
    if of.months > 0 && of.days < 0 {
        (of.months, of.days) = (of.months - 1, of.days + DAYS_OF_MONTH);
    } else if of.months < 0 && of.days > 0 {
        (of.months, of.days) = (of.months + 1, of.days - DAYS_OF_MONTH);
    }
    Some(of)
}

fn both(of: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let mut of = with_months(with_days(with_months(of)?)?)?;
    let below = of.days < 0 || (of.days == 0 && of.nanoseconds < 0);
    let above = of.days > 0 || (of.days == 0 && of.nanoseconds > 0);
    if of.months > 0 && below {
        (of.months, of.days) = (of.months - 1, of.days + DAYS_OF_MONTH);
    } else if of.months < 0 && above {
        (of.months, of.days) = (of.months + 1, of.days - DAYS_OF_MONTH);
    }
    Some(one_sign(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are output of PostgreSQL 15.
    #[test]
    fn intervals_are_justified_as_postgres_does() {
        const HOUR: i64 = DAY / 24;
        let of =
            |(months, days, hours): (i32, i32, i64)| IntervalMonthDayNano::new(months, days, hours * HOUR);
        for (interval, by_hours, by_days, by_both) in [
            ((0, 0, 27), (0, 1, 3), (0, 0, 27), (0, 1, 3)),
            ((0, 35, 0), (0, 35, 0), (1, 5, 0), (1, 5, 0)),
            ((1, 0, -1), (1, 0, -1), (1, 0, -1), (0, 29, 23)),
            ((0, -45, 30), (0, -43, -18), (-1, -15, 30), (-1, -13, -18)),
            ((0, 2, -27), (0, 0, 21), (0, 2, -27), (0, 0, 21)),
            ((1, -35, 0), (1, -35, 0), (0, -5, 0), (0, -5, 0)),
        ] {
            assert_eq!(hours(of(interval)), Some(of(by_hours)), "{interval:?}");
            assert_eq!(days(of(interval)), Some(of(by_days)), "{interval:?}");
            assert_eq!(both(of(interval)), Some(of(by_both)), "{interval:?}");
        }
        assert_eq!(hours(of((0, i32::MAX, 25))), None);
    }
}
