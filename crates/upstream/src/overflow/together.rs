//! A tree of arithmetic as one function of its leaves.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, internal_err};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};

use super::arithmetic::is_checked;
use super::trees::is_tree;

/// Builds one function from the checked tree.
pub(crate) fn together(tree: Expr, schema: &DFSchema) -> Result<Expr> {
    let mut leaves = Vec::new();
    let tree = tree.transform_down(|expr| {
        if is_tree(&expr) || is_checked(&expr) || matches!(expr, Expr::Cast(_) | Expr::Literal(..)) {
            return Ok(Transformed::no(expr));
        }
        let known = leaves.iter().position(|leaf| *leaf == expr && !expr.is_volatile());
        let position = known.unwrap_or_else(|| {
            leaves.push(expr);
            leaves.len() - 1
        });
        let column = Expr::Column(Column::new_unqualified(position.to_string()));
        Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
    })?;
    let field = |(position, leaf): (usize, &Expr)| -> Result<FieldRef> {
        let field = leaf.to_field(schema)?.1;
        Ok(Arc::new(field.as_ref().clone().with_name(position.to_string())))
    };
    let fields = leaves.iter().enumerate().map(field).collect::<Result<Vec<_>>>()?;
    let function = ScalarUDF::new_from_impl(Together::new(tree.data, Schema::new(fields))?);
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), leaves)))
}

#[derive(Debug)]
struct Together {
    /// The tree, with the positions of arguments as columns.
    tree: Expr,
    arguments: Arc<Schema>,
    of: DataType,
    compiled: Arc<dyn PhysicalExpr>,
    signature: Signature,
}

impl PartialEq for Together {
    fn eq(&self, other: &Self) -> bool {
        self.arguments == other.arguments && self.tree == other.tree
    }
}

impl Eq for Together {}

impl Hash for Together {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tree.hash(state);
    }
}

impl Together {
    fn new(tree: Expr, arguments: Schema) -> Result<Self> {
        let arguments = Arc::new(arguments);
        let schema = DFSchema::try_from(Arc::clone(&arguments))?;
        let planning = PhysicalPlanningContext::default();
        let compiled = create_physical_expr(&tree, &schema, &ExecutionProps::new(), &planning)?;
        let of = compiled.data_type(&arguments)?;
        let signature = match arguments.fields().len() {
            0 => Signature::nullary(Volatility::Immutable),
            arguments => Signature::any(arguments, Volatility::Immutable),
        };
        Ok(Together { tree, arguments, of, compiled, signature })
    }
}

impl ScalarUDFImpl for Together {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    /// Returns the column name of DataFusion's operations.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let of_argument = |expr: Expr| {
            let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
            match column.name.parse::<usize>().ok().and_then(|position| args.get(position)) {
                Some(argument) => Ok(Transformed::new(argument.clone(), true, TreeNodeRecursion::Jump)),
                None => internal_err!("{} of {} arguments has {column}", self.name(), args.len()),
            }
        };
        Ok(self.tree.clone().transform_down(of_argument)?.data.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.of.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = self.compiled.nullable(&self.arguments)?
            || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.of.clone(), nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    /// Other functions request bounds of the right type.
    fn evaluate_bounds(&self, _inputs: &[&Interval]) -> Result<Interval> {
        Interval::make_unbounded(&self.of)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_one = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_one { 1 } else { args.number_rows };
        let columns = args.args.iter().zip(self.arguments.fields()).map(|(argument, field)| {
            // Optimizers put nulls without a type in place of columns.
            Ok(cast(&argument.to_array(rows)?, field.data_type())?)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let fields = self.arguments.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let results = self.compiled.evaluate(&batch)?;
        match results {
            ColumnarValue::Array(array) if is_one => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            results => Ok(results),
        }
    }
}
