//! Scalar subqueries that may have no row.
//!
//! `(SELECT id FROM t WHERE name = 'x')` is NULL if there is no such row. DataFusion 55 takes it for a value that is never NULL if
//! the column has none, and `IS NOT NULL` for true. This rule marks the value as one that may be NULL.
//!
//! The optimizer computes the mark of a constant, and then knows again that it is never NULL, as in
//! `(SELECT 1 FROM t WHERE name = 'x') IS NULL`. So a value that is no column of a table gets a volatile mark.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinType, Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Subquery, Volatility,
};
use datafusion::optimizer::{Analyzer, AnalyzerRule};

static OPTIONAL: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(function(Volatility::Immutable)));
static OPTIONAL_CONSTANT: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(function(Volatility::Volatile)));

/// Adds the rule.
pub(crate) fn with_missing_rows(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.push(Arc::new(MissingRows));
    analyzer
}

#[derive(Debug)]
struct MissingRows;

impl AnalyzerRule for MissingRows {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut any = false;
        let of_node = |node: LogicalPlan| {
            let node = node.map_expressions(|expr| expr.transform_up(marked))?;
            // Columns above may be NULL, too: also above the join that a correlated subquery has become.
            let joins = matches!(&node.data, LogicalPlan::Join(join) if join.join_type != JoinType::Inner);
            any |= node.transformed || joins;
            if any { Ok(Transformed::yes(node.data.recompute_schema()?)) } else { Ok(node) }
        };
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }

    fn name(&self) -> &str {
        "missing_rows"
    }
}

fn marked(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(of) = expr else { return Ok(Transformed::no(expr)) };
    let schema = of.subquery.schema();
    let is_uncorrelated = of.outer_ref_columns.is_empty();
    let mut fields = schema.fields().iter().enumerate();
    let keeps_null =
        fields.all(|(at, field)| field.is_nullable() && !(is_uncorrelated && is_constant(&of.subquery, at)));
    if keeps_null || has_a_row(&of.subquery) {
        return Ok(Transformed::no(Expr::ScalarSubquery(of)));
    }
    let values = schema.iter().enumerate().map(|(at, field)| {
        let column = Expr::Column(Column::from(field));
        let may_be_constant = is_uncorrelated && !is_stored(&of.subquery, at);
        let mark = if may_be_constant { &OPTIONAL_CONSTANT } else { &OPTIONAL };
        mark.call(vec![column]).alias_qualified(field.0.cloned(), field.1.name())
    });
    let values = values.collect::<Vec<_>>();
    let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(of.subquery)).project(values)?.build()?;
    Ok(Transformed::yes(Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), ..of })))
}

/// Whether the plan has a row in any case: it aggregates all rows into one, or reads no table.
fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(of) => has_a_row(&of.input),
        LogicalPlan::SubqueryAlias(of) => has_a_row(&of.input),
        LogicalPlan::Sort(of) => has_a_row(&of.input),
        LogicalPlan::Aggregate(of) => of.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(of) => of.produce_one_row,
        _ => false,
    }
}

/// Whether the column of the plan is an expression without columns. `pi()` may be NULL by its type, but not when it is
/// computed.
fn is_constant(plan: &LogicalPlan, at: usize) -> bool {
    match plan {
        LogicalPlan::Projection(of) => match of.expr[at].clone().unalias() {
            Expr::Column(column) => {
                let column = of.input.schema().maybe_index_of_column(&column);
                column.is_some_and(|at| is_constant(&of.input, at))
            }
            expr => !expr.any_column_refs(),
        },
        LogicalPlan::SubqueryAlias(of) => is_constant(&of.input, at),
        LogicalPlan::Filter(of) => is_constant(&of.input, at),
        LogicalPlan::Sort(of) => is_constant(&of.input, at),
        LogicalPlan::Limit(of) => is_constant(&of.input, at),
        _ => false,
    }
}

/// Whether the column of the plan is one of a table, or an aggregate.
fn is_stored(plan: &LogicalPlan, at: usize) -> bool {
    match plan {
        LogicalPlan::Projection(of) => match of.expr[at].clone().unalias() {
            Expr::Column(column) => {
                let column = of.input.schema().maybe_index_of_column(&column);
                column.is_some_and(|at| is_stored(&of.input, at))
            }
            _ => false,
        },
        LogicalPlan::SubqueryAlias(of) => is_stored(&of.input, at),
        LogicalPlan::Filter(of) => is_stored(&of.input, at),
        LogicalPlan::Sort(of) => is_stored(&of.input, at),
        LogicalPlan::Limit(of) => is_stored(&of.input, at),
        LogicalPlan::Aggregate(of) => at >= of.group_expr.len(),
        LogicalPlan::TableScan(_) => true,
        _ => false,
    }
}

/// Returns the expression, marked as one that may be NULL.
pub(crate) fn optional(expr: Expr) -> Expr {
    OPTIONAL.call(vec![expr])
}

/// The functions that mark values which may be NULL.
pub(crate) fn functions() -> [ScalarUDF; 2] {
    [Volatility::Immutable, Volatility::Volatile].map(function)
}

fn function(volatility: Volatility) -> ScalarUDF {
    ScalarUDF::new_from_impl(Optional { signature: Signature::any(1, volatility) })
}

/// Its argument, as a value that may be NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Optional {
    signature: Signature,
}

impl ScalarUDFImpl for Optional {
    fn name(&self) -> &str {
        match self.signature.volatility {
            Volatility::Volatile => "optional_constant",
            _ => "optional",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [of] => Ok(of.clone()),
            _ => internal_err!("optional has one argument, not {}", types.len()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields {
            [field] => {
                let metadata = field.metadata().clone();
                let field = Field::new(self.name(), field.data_type().clone(), true);
                Ok(Arc::new(field.with_metadata(metadata)))
            }
            fields => internal_err!("optional has one argument, not {}", fields.len()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(value) => Ok(value),
            None => internal_err!("optional has one argument, not 0"),
        }
    }
}
