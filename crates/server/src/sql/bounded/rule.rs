//! Rules that make operators and long constants in plans reserve memory, too.
//!
//! `a || b` is an operator, functions that join lists are not known to sessions by name, and a constant that is a
//! column is copied once per row.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr as PhysicalBinary, Column, Literal};

use super::function::bounded;
use super::growth::{Growth, made, scalar_size, size};
use super::{Room, are_constants};

/// Smaller constants are not reserved: their copies for a batch of rows are a few megabytes.
const SHORT: usize = 4 << 10;

/// Replaces operators, and functions that do not come from the session.
#[derive(Debug)]
pub(crate) struct BoundOperators(pub(crate) Arc<Room>);

impl AnalyzerRule for BoundOperators {
    fn name(&self) -> &str {
        "bound_operators"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let in_expr = |expr: Expr| {
            Ok(match expr {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => {
                    let joined = ScalarUDF::from(Own::new("||", Volatility::Immutable, &self.0));
                    Transformed::yes(call(joined, vec![*left, *right]))
                }
                Expr::ScalarFunction(ScalarFunction { func, args }) => match bounded(&func, &self.0) {
                    Some(func) => Transformed::yes(call(func, args)),
                    None => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
                },
                expr => Transformed::no(expr),
            })
        };
        // The condition of an aggregate's FILTER is a part of its name, in other words than those of `schema_name`.
        let in_node = |node: LogicalPlan| {
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(expr.transform_up(in_expr)?.update_data(|expr| name.restore(expr)))
            })
        };
        Ok(plan.transform_up_with_subqueries(in_node)?.data)
    }
}

/// Wraps long constants that are columns in a function that reserves their copies. It is the last rule, because
/// results of other rules are constants by then.
#[derive(Debug)]
pub(crate) struct BoundConstants(pub(crate) Arc<Room>);

impl OptimizerRule for BoundConstants {
    fn name(&self) -> &str {
        "bound_constants"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Window(_) | LogicalPlan::Aggregate(_)) {
            return Ok(Transformed::no(plan));
        }
        let in_expr = |expr: Expr| {
            Ok(match expr {
                Expr::Literal(ref value, _) if scalar_size(value) > SHORT => {
                    let copied = ScalarUDF::from(Own::new("copied", Volatility::Volatile, &self.0));
                    Transformed::new(call(copied, vec![expr]), true, TreeNodeRecursion::Jump)
                }
                // These copy nothing, or reserve their copies themselves.
                Expr::Alias(_) | Expr::Cast(_) | Expr::Case(_) => Transformed::no(expr),
                Expr::AggregateFunction(ref of) if of.params.args.len() == 1 => Transformed::no(expr),
                expr => Transformed::new(expr, false, TreeNodeRecursion::Jump),
            })
        };
        plan.map_expressions(|expr| expr.transform_down(in_expr))
    }
}

fn call(func: ScalarUDF, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction { func: Arc::new(func), args })
}

/// `||` of texts, or a constant.
#[derive(Debug)]
struct Own {
    name: &'static str,
    signature: Signature,
    room: Arc<Room>,
}

impl Own {
    fn new(name: &'static str, volatility: Volatility, room: &Arc<Room>) -> Self {
        Own { name, signature: Signature::variadic_any(volatility), room: room.clone() }
    }
}

impl PartialEq for Own {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Own {}

impl Hash for Own {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Own {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The name of the original operator or constant.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [left, right] => {
                let (left, right) = (Box::new(left.clone()), Box::new(right.clone()));
                Expr::BinaryExpr(BinaryExpr::new(left, Operator::StringConcat, right))
                    .schema_name()
                    .to_string()
            }
            args => args.iter().map(|arg| arg.schema_name().to_string()).collect(),
        })
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [left, right] => joined_type(left, right),
            [one] => Ok(one.clone()),
            _ => exec_err!("{} takes one argument or two", self.name),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ScalarFunctionArgs { args, number_rows, .. } = args;
        match &args[..] {
            [one] => {
                let copies = || Ok(ColumnarValue::Array(one.to_array(number_rows)?));
                self.room.hold("a constant", size(one, number_rows), false, copies)
            }
            [_, _] => {
                let constant = are_constants(&args);
                let makes = made(Growth::Sum, &args, number_rows)?;
                self.room.hold(self.name, makes, constant, || joined(&args, number_rows))
            }
            _ => exec_err!("{} takes one argument or two", self.name),
        }
    }
}

fn joined_type(left: &DataType, right: &DataType) -> Result<DataType> {
    let schema = Schema::new(vec![Field::new("l", left.clone(), true), Field::new("r", right.clone(), true)]);
    let column = |name: &str, at| Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>;
    PhysicalBinary::new(column("l", 0), Operator::StringConcat, column("r", 1)).data_type(&schema)
}

/// The operator's result for these arguments.
fn joined(args: &[ColumnarValue], rows: usize) -> Result<ColumnarValue> {
    let (mut fields, mut columns) = (Vec::new(), Vec::<ArrayRef>::new());
    let mut side = |arg: &ColumnarValue| -> Arc<dyn PhysicalExpr> {
        match arg {
            ColumnarValue::Scalar(value) => Arc::new(Literal::new(value.clone())),
            ColumnarValue::Array(array) => {
                fields.push(Field::new(fields.len().to_string(), array.data_type().clone(), true));
                columns.push(array.clone());
                Arc::new(Column::new(&(fields.len() - 1).to_string(), fields.len() - 1))
            }
        }
    };
    let operator = PhysicalBinary::new(side(&args[0]), Operator::StringConcat, side(&args[1]));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
    operator.evaluate(&batch)
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::UnboundedMemoryPool;
    use datafusion::functions_aggregate::expr_fn::min;
    use datafusion::logical_expr::{ExprFunctionExt, binary_expr, col, lit, table_scan};

    use super::*;

    #[test]
    fn aggregates_keep_their_names() {
        let fields = vec![Field::new("a", DataType::Utf8, true), Field::new("b", DataType::Int64, true)];
        let longer = binary_expr(col("a"), Operator::StringConcat, lit("x"));
        let least = min(col("b")).filter(longer.lt(lit("y"))).build().unwrap();
        let table = table_scan(Some("t"), &Schema::new(fields), None).unwrap();
        let plan = table.aggregate(Vec::<Expr>::new(), vec![least]).unwrap().build().unwrap();
        let room = Room::in_pool(Arc::new(UnboundedMemoryPool::default()));
        let bound = BoundOperators(room).analyze(plan.clone(), &ConfigOptions::default()).unwrap();
        let LogicalPlan::Aggregate(aggregate) = &bound else { panic!("{bound}") };
        assert_ne!(bound, plan);
        assert_eq!(aggregate.aggr_expr[0].schema_name().to_string(), *plan.schema().field(0).name());
    }
}
