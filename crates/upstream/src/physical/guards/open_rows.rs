//! AND and OR whose second operand is evaluated for the rows that the first one leaves open.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{and_kleene, filter, or_kleene};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_expr_common::utils::scatter;

use super::Expr;

/// `left AND right` or `left OR right`, by three values.
#[derive(Debug)]
pub(super) struct OpenRows {
    is_and: bool,
    left: Expr,
    right: Expr,
    /// The columns of `right`, and `right` over a batch of these.
    columns: Vec<usize>,
    over_columns: Expr,
}

impl OpenRows {
    pub(super) fn new(of: &BinaryExpr) -> Result<Self> {
        OpenRows::of(*of.op() == Operator::And, Arc::clone(of.left()), Arc::clone(of.right()))
    }

    pub(super) fn and(left: Expr, right: Expr) -> Result<Self> {
        OpenRows::of(true, left, right)
    }

    fn of(is_and: bool, left: Expr, right: Expr) -> Result<Self> {
        let columns: BTreeSet<usize> = collect_columns(&right).iter().map(Column::index).collect();
        let columns: Vec<usize> = columns.into_iter().collect();
        let over_columns = Arc::clone(&right).transform_up(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let Ok(at) = columns.binary_search(&column.index()) else {
                return internal_err!("{column} is no column of its expression");
            };
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as Expr))
        });
        let over_columns = over_columns.data()?;
        Ok(OpenRows { is_and, left, right, columns, over_columns })
    }

    /// Returns both operands.
    pub(super) fn operands(&self) -> (Expr, Expr) {
        (Arc::clone(&self.left), Arc::clone(&self.right))
    }

    pub(super) fn operator(&self) -> Operator {
        if self.is_and { Operator::And } else { Operator::Or }
    }

    /// Returns the rows whose result depends on `right`: those where `left` is not false for AND, or not true
    /// for OR.
    fn open(&self, left: &BooleanArray) -> BooleanBuffer {
        let decided = if self.is_and { !left.values() } else { left.values().clone() };
        match left.nulls() {
            Some(valid) => !&(&decided & valid.inner()),
            None => !&decided,
        }
    }

    /// Evaluates `right` for these rows. The others are null.
    fn right(&self, batch: &RecordBatch, open: BooleanBuffer) -> Result<BooleanArray> {
        let open = BooleanArray::new(open, None);
        let columns = self.columns.iter().map(|&column| Ok(filter(batch.column(column), &open)?));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let rows = open.true_count();
        let batch = RecordBatch::try_new_with_options(
            Arc::new(batch.schema().project(&self.columns)?),
            columns,
            &RecordBatchOptions::new().with_row_count(Some(rows)),
        )?;
        let right = self.over_columns.evaluate(&batch)?.into_array(rows)?;
        Ok(scatter(&open, &right)?.as_boolean().clone())
    }
}

impl PhysicalExpr for OpenRows {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        Ok(self.left.nullable(schema)? || self.right.nullable(schema)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let left = self.left.evaluate(batch)?.into_array(batch.num_rows())?;
        let left = left.as_boolean();
        let open = self.open(left);
        let right = if !open.has_true() {
            return Ok(ColumnarValue::Array(Arc::new(left.clone())));
        } else if open.has_false() {
            self.right(batch, open)?
        } else {
            self.right.evaluate(batch)?.into_array(batch.num_rows())?.as_boolean().clone()
        };
        let both = if self.is_and { and_kleene(left, &right) } else { or_kleene(left, &right) };
        Ok(ColumnarValue::Array(Arc::new(both?)))
    }

    fn children(&self) -> Vec<&Expr> {
        vec![&self.left, &self.right]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Expr>) -> Result<Expr> {
        match <[Expr; 2]>::try_from(children) {
            Ok([left, right]) => Ok(Arc::new(OpenRows::of(self.is_and, left, right)?)),
            Err(children) => internal_err!("AND and OR have two operands, not {}", children.len()),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} {} {})", fmt_sql(self.left.as_ref()), self.operator(), fmt_sql(self.right.as_ref()))
    }
}

impl fmt::Display for OpenRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} {} {})", self.left, self.operator(), self.right)
    }
}

impl PartialEq for OpenRows {
    fn eq(&self, other: &Self) -> bool {
        (self.is_and, &self.left, &self.right) == (other.is_and, &other.left, &other.right)
    }
}

impl Eq for OpenRows {}

impl Hash for OpenRows {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.is_and, &self.left, &self.right).hash(state);
    }
}
