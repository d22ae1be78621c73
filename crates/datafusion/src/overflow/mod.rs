//! Integer arithmetic and sums that fail where DataFusion 55 wraps around.
//!
//! DataFusion computes `+`, `-`, `*` and the unary minus of integers modulo the size of their type, also when it folds
//! constants, and adds up sums of integers, decimals and intervals in the same way. Here the analyzer replaces
//!
//! - each such operation whose operands may leave the type by a function that computes the same and fails on overflow
//!   ([`arithmetic`]). Operations that cannot overflow, such as a sum of two `INT` columns that is computed in 64 bits, stay as
//!   they are ([`ranges`]).
//! - `sum` by a function of the same name whose state has 128 bits for integers, so that only the final value may be out of range
//!   ([`sum`]).
//!
//! - casts of decimals to text by a function that shows all of their digits ([`digits`]).
//!
//! Comparisons, division, casts, `abs`, `avg` and arithmetic of decimals and times are left to DataFusion, which checks them or
//! computes them in a wider type.

mod accumulators;
mod arithmetic;
mod digits;
mod groups;
mod kernels;
mod ranges;
mod sum;

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result, exec_datafusion_err};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition};
use datafusion::optimizer::{Analyzer, AnalyzerRule};

use arithmetic::checked_operation;
use digits::checked_cast;
pub use digits::with_all_digits;
pub(crate) use sum::CheckedSum;

/// The analyzer with a rule that replaces operations where the types of operands are known.
pub(crate) fn with_checked_arithmetic(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.push(Arc::new(CheckedArithmetic));
    analyzer
}

/// Expressions of more operations than this are left as they are: DataFusion asks each function for its type again and again,
/// which takes time with the third power of the operations within each other.
const OPERATIONS_MAX: usize = 64;

#[derive(Debug)]
struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }

    fn name(&self) -> &str {
        "checked_arithmetic"
    }
}

fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    // Names of aggregate and window functions with conditions and orders show functions as such.
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let checked = operations(&expr) <= OPERATIONS_MAX;
        let changed = expr.transform_up(|expr| of_expr(expr, &schema, checked))?;
        Ok(changed.update_data(|expr| name.restore(expr)))
    })
}

/// The arithmetic operations in an expression.
fn operations(expr: &Expr) -> usize {
    let mut operations = 0;
    let _ = expr.apply(|part| {
        operations += usize::from(matches!(part, Expr::BinaryExpr(_) | Expr::Negative(_)));
        Ok(TreeNodeRecursion::Continue)
    });
    operations
}

/// With `checked`, operations are checked, too.
fn of_expr(mut expr: Expr, schema: &DFSchema, checked: bool) -> Result<Transformed<Expr>> {
    match &mut expr {
        Expr::AggregateFunction(AggregateFunction { func, .. }) => {
            if let Some(checked) = CheckedSum::instead_of(func) {
                *func = checked;
                return Ok(Transformed::yes(expr));
            }
            Ok(Transformed::no(expr))
        }
        Expr::WindowFunction(window) => {
            let WindowFunction { fun, .. } = window.as_mut();
            if let WindowFunctionDefinition::AggregateUDF(func) = fun
                && let Some(checked) = CheckedSum::instead_of(func)
            {
                *func = checked;
                return Ok(Transformed::yes(expr));
            }
            Ok(Transformed::no(expr))
        }
        _ if !checked => Ok(Transformed::no(expr)),
        Expr::Cast(_) => checked_cast(expr, schema),
        _ => checked_operation(expr, schema),
    }
}

/// The error of a value that its type does not hold. The first words are those of PostgreSQL.
fn out_of_range(of: &DataType, what: &str) -> DataFusionError {
    let advice = match of {
        DataType::Decimal32(..) | DataType::Decimal64(..) => "cast to a DECIMAL of more digits",
        DataType::Decimal128(..) | DataType::Decimal256(..) => "cast to DOUBLE",
        of if of.is_integer() => "cast an argument to DECIMAL(38, 0)",
        _ => "use smaller values",
    };
    exec_datafusion_err!("{} out of range: {what} overflows; {advice}", name_of(of))
}

/// The name of a type in SQL.
fn name_of(of: &DataType) -> &'static str {
    match of {
        DataType::Int8 => "tinyint",
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        DataType::UInt8 => "tinyint unsigned",
        DataType::UInt16 => "smallint unsigned",
        DataType::UInt32 => "integer unsigned",
        DataType::UInt64 => "bigint unsigned",
        of if of.is_decimal() => "numeric",
        DataType::Duration(_) | DataType::Interval(_) => "interval",
        _ => "value",
    }
}
