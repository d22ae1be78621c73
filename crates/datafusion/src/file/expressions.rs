//! What is computed of a file's columns, in terms of the file.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprSimplifier};
use datafusion::physical_expr_adapter::PhysicalExprAdapterFactory;

/// The expressions of a scan, while they are adapted to a file.
pub(crate) struct Expressions {
    pub(crate) projection: ProjectionExprs,
    /// What row groups are pruned by.
    pub(crate) predicate: Option<Arc<dyn PhysicalExpr>>,
    /// What rows are tested with, in this order.
    pub(crate) conjuncts: Vec<Arc<dyn PhysicalExpr>>,
    /// What joins fill, to leave rows behind that match nothing.
    pub(crate) join_filters: Vec<Arc<dyn PhysicalExpr>>,
}

impl Expressions {
    pub(crate) fn try_map(
        self,
        f: impl Fn(Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        Ok(Expressions {
            projection: self.projection.try_map_exprs(&f)?,
            predicate: self.predicate.map(&f).transpose()?,
            conjuncts: self.conjuncts.into_iter().map(&f).collect::<Result<_>>()?,
            join_filters: self.join_filters.into_iter().map(&f).collect::<Result<_>>()?,
        })
    }

    /// All of them in terms of the file: missing columns become nulls, columns of other types are cast.
    pub(crate) fn adapted(
        self,
        adapters: &dyn PhysicalExprAdapterFactory,
        logical: &SchemaRef,
        physical: &SchemaRef,
    ) -> Result<Self> {
        if self.predicate.is_none() && self.conjuncts.is_empty() && logical == physical {
            return Ok(self);
        }
        let rewriter = adapters.create(Arc::clone(logical), Arc::clone(physical))?;
        let simplifier = PhysicalExprSimplifier::new(physical);
        self.try_map(|expr| simplifier.simplify(without_idle_casts(rewriter.rewrite(expr)?, physical)?))
    }
}

/// `expr` without casts of values to the type they have. Columns whose fields differ in nothing but notes, such as field
/// numbers, are adapted by such casts; they hide that a comparison is one of a column and a constant.
fn without_idle_casts(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let without = |expr: Arc<dyn PhysicalExpr>| {
        Ok(match expr.downcast_ref::<CastExpr>() {
            Some(cast) if cast.expr().data_type(schema)? == *cast.cast_type() => {
                Transformed::yes(Arc::clone(cast.expr()))
            }
            _ => Transformed::no(expr),
        })
    };
    expr.transform_up(without).data()
}
