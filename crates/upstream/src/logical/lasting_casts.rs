//! Casts that stay in comparisons.
//!
//! DataFusion 55 moves casts from a column to the constant that it is compared with. That is wrong
//!
//! - for TRY_CAST: `TRY_CAST(x AS INT) <> 5` is null where x does not fit, and `x <> 5` is true;
//! - for casts of decimals that drop digits: `CAST(x AS INT) = 1` holds for 1.2, and `x = 1` does not;
//! - for casts that keep no order, of timestamps to times of the day and of numbers to truth values, also where bounds of a column
//!   are cast: `CAST(at AS TIME) > '23:00'` skips row groups, and `min(CAST(at AS TIME))` is the cast of a bound;
//! - for times in a coarser unit than the constant, of which digits are dropped: x < 12.5 ms holds for 12 ms, and `x < 12` does not.
//!
//! The first three, and the fourth where equality is asked for, become functions, which stay where they are. A time that is less than
//! the constant, or greater, becomes a comparison with the next lower constant of its own unit.

use std::sync::Arc;

use datafusion::arrow::compute::CastOptions;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::format::DEFAULT_FORMAT_OPTIONS;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::{FunctionRewrite, NamePreserver};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TryCast, Volatility, lit,
};
use datafusion::optimizer::{Analyzer, AnalyzerRule};

use super::rounded::constant_value;

/// The analyzer with such casts as functions.
pub(crate) fn with_lasting_casts(mut analyzer: Analyzer) -> Analyzer {
    analyzer.add_function_rewrite(Arc::new(LastingTryCasts));
    analyzer.rules.push(Arc::new(LastingCasts));
    analyzer
}

#[derive(Debug)]
struct LastingTryCasts;

impl FunctionRewrite for LastingTryCasts {
    fn name(&self) -> &str {
        "lasting_try_casts"
    }

    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let Expr::TryCast(TryCast { expr, field }) = expr else { return Ok(Transformed::no(expr)) };
        Ok(Transformed::yes(LastingCast::new(field.data_type(), true).call(*expr)))
    }
}

/// After the rule that makes the types of operands equal.
#[derive(Debug)]
struct LastingCasts;

impl AnalyzerRule for LastingCasts {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let of_node = |plan: LogicalPlan| {
            let schema = merge_schema(&plan.inputs());
            let comparisons = Comparisons { schema: &schema, config };
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let expr = expr.transform_up(|expr| comparisons.mended(expr))?;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })
        };
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }

    fn name(&self) -> &str {
        "lasting_casts"
    }
}

struct Comparisons<'a> {
    schema: &'a DFSchema,
    config: &'a ConfigOptions,
}

impl Comparisons<'_> {
    fn mended(&self, expr: Expr) -> Result<Transformed<Expr>> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
                self.comparison(*left, op, *right)
            }
            Expr::Between(between) if self.has_finer(&between.expr, [&*between.low, &between.high]) => {
                let Between { expr, negated, low, high } = between;
                let low = self.comparison(expr.as_ref().clone(), Operator::GtEq, *low)?.data;
                let between = low.and(self.comparison(*expr, Operator::LtEq, *high)?.data);
                Ok(Transformed::yes(if negated { Expr::Not(Box::new(between)) } else { between }))
            }
            Expr::InList(InList { expr, list, negated }) if self.has_finer(&expr, &list) => {
                let expr = Box::new(lasting(*expr));
                Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })))
            }
            Expr::Between(_) | Expr::InList(_) => {
                expr.map_children(|operand| Ok(self.with_digits_dropped(operand)))
            }
            Expr::Cast(Cast { expr: ref of, ref field }) if self.keeps_no_order(of, field.data_type()) => {
                Ok(Transformed::yes(lasting(expr)))
            }
            expr => Ok(Transformed::no(expr)),
        }
    }

    fn keeps_no_order(&self, of: &Expr, to: &DataType) -> bool {
        of.get_type(self.schema).is_ok_and(|of| match to {
            DataType::Time32(_) | DataType::Time64(_) => matches!(of, DataType::Timestamp(..)),
            DataType::Boolean => of.is_numeric(),
            _ => false,
        })
    }

    fn comparison(&self, left: Expr, op: Operator, right: Expr) -> Result<Transformed<Expr>> {
        let whole = |left: Expr, right: Expr| {
            Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
        };
        if let Some(constant) = self.finer(&left, &right) {
            return Ok(Transformed::yes(match less_or_greater(&left, op, constant) {
                Some(comparison) => comparison,
                None => whole(lasting(left), right),
            }));
        }
        if let Some(constant) = self.finer(&right, &left) {
            let swapped = op.swap().and_then(|op| less_or_greater(&right, op, constant));
            return Ok(Transformed::yes(swapped.unwrap_or_else(|| whole(left, lasting(right)))));
        }
        let (left, right) = (self.with_digits_dropped(left), self.with_digits_dropped(right));
        let changed = left.transformed || right.transformed;
        Ok(Transformed::new_transformed(whole(left.data, right.data), changed))
    }

    fn has_finer<'e>(&self, of: &Expr, constants: impl IntoIterator<Item = &'e Expr>) -> bool {
        constants.into_iter().any(|constant| self.finer(of, constant).is_some())
    }

    /// The expression with lasting casts of decimals to types with fewer digits behind the point, also below other casts.
    fn with_digits_dropped(&self, expr: Expr) -> Transformed<Expr> {
        let Expr::Cast(Cast { expr, field }) = expr else { return Transformed::no(expr) };
        let of = expr.get_type(self.schema).ok().filter(DataType::is_decimal);
        let drops =
            of.and_then(|of| digits(&of)).zip(digits(field.data_type())).is_some_and(|(of, to)| of > to);
        let inner = self.with_digits_dropped(*expr);
        let cast = Expr::Cast(Cast { expr: Box::new(inner.data), field });
        if drops {
            Transformed::yes(lasting(cast))
        } else {
            Transformed::new_transformed(cast, inner.transformed)
        }
    }

    /// The next lower time in the unit of what `cast` casts, if that is a coarser one and has not the time `constant`.
    fn finer(&self, cast: &Expr, constant: &Expr) -> Option<ScalarValue> {
        let Expr::Cast(Cast { expr, field }) = cast else { return None };
        let DataType::Timestamp(fine, _) = field.data_type() else { return None };
        let DataType::Timestamp(coarse, zone) = expr.get_type(self.schema).ok()? else { return None };
        let ratio = per_second(*fine) / per_second(coarse);
        if ratio <= 1 || constant.any_column_refs() {
            return None;
        }
        let value =
            match constant_value(constant, self.schema, self.config)?.cast_to(field.data_type()).ok()? {
                ScalarValue::TimestampNanosecond(value, _)
                | ScalarValue::TimestampMicrosecond(value, _)
                | ScalarValue::TimestampMillisecond(value, _) => value?,
                _ => return None,
            };
        let lower = Some(value.div_euclid(ratio));
        (value % ratio != 0).then(|| match coarse {
            TimeUnit::Second => ScalarValue::TimestampSecond(lower, zone),
            TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(lower, zone),
            TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(lower, zone),
            TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(lower, zone),
        })
    }
}

/// The comparison of what is cast with a constant that is between `lower` and the next time.
fn less_or_greater(cast: &Expr, op: Operator, lower: ScalarValue) -> Option<Expr> {
    let Expr::Cast(Cast { expr, .. }) = cast else { return None };
    let op = match op {
        Operator::Lt | Operator::LtEq => Operator::LtEq,
        Operator::Gt | Operator::GtEq => Operator::Gt,
        _ => return None,
    };
    Some(Expr::BinaryExpr(BinaryExpr { left: expr.clone(), op, right: Box::new(lit(lower)) }))
}

fn lasting(expr: Expr) -> Expr {
    match expr {
        Expr::Cast(Cast { expr, field }) => LastingCast::new(field.data_type(), false).call(*expr),
        expr => expr,
    }
}

/// Digits behind the point that values of a type may have; `None` if it is neither a decimal nor an integer.
pub fn digits(of: &DataType) -> Option<i8> {
    match of {
        DataType::Decimal32(_, digits)
        | DataType::Decimal64(_, digits)
        | DataType::Decimal128(_, digits)
        | DataType::Decimal256(_, digits) => Some(*digits),
        of => of.is_integer().then_some(0),
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Returns the function of this name with this type.
pub(crate) fn named(name: &str, to: &DataType) -> Option<ScalarUDF> {
    let mut casts = [true, false].into_iter().map(|is_try| LastingCast::new(to, is_try));
    casts.find(|cast| cast.name() == name).map(ScalarUDF::new_from_impl)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct LastingCast {
    to: DataType,
    /// Whether it is null where the cast fails.
    is_try: bool,
    signature: Signature,
}

impl LastingCast {
    fn new(to: &DataType, is_try: bool) -> Self {
        LastingCast { to: to.clone(), is_try, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn call(self, of: Expr) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(self)), vec![of]))
    }
}

impl ScalarUDFImpl for LastingCast {
    fn name(&self) -> &str {
        if self.is_try { "try_cast" } else { "cast" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = self.is_try || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.to.clone(), nullable)))
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("{}({} AS {})", self.name().to_uppercase(), args[0], self.to))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let options = CastOptions { safe: self.is_try, format_options: DEFAULT_FORMAT_OPTIONS };
        args.args[0].cast_to(&self.to, Some(&options))
    }
}
