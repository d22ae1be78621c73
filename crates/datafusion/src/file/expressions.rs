//! Expressions over a file's columns.

use std::sync::Arc;

use coscan_upstream::digits;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::{CastExpr, TryCastExpr};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprSimplifier, conjunction, split_conjunction};
use datafusion::physical_expr_adapter::PhysicalExprAdapterFactory;

/// The expressions of a scan, while they are adapted to a file.
pub(crate) struct Expressions {
    pub(crate) projection: ProjectionExprs,
    /// The predicate that prunes row groups.
    pub(crate) predicate: Option<Arc<dyn PhysicalExpr>>,
    /// The conjuncts that test rows, in this order.
    pub(crate) conjuncts: Vec<Arc<dyn PhysicalExpr>>,
    /// Filters that joins fill, to drop rows without a match.
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

    /// Adapts all expressions to the file: missing columns become nulls, columns of other types are cast.
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
        let adapted = self.try_map(|expr| {
            let expr = without_idle_casts(rewriter.rewrite(expr)?, physical)?;
            if rounds(&expr, physical)? { Ok(expr) } else { simplifier.simplify(expr) }
        })?;
        let predicate = match adapted.predicate {
            Some(predicate) if rounds(&predicate, physical)? => for_statistics(&predicate, physical)?,
            predicate => predicate,
        };
        Ok(Expressions { predicate, ..adapted })
    }
}

/// Removes casts of values to the type that they have. DataFusion adapts columns by such casts if their
/// fields differ only in metadata, such as field numbers. They hide that a comparison is one of a column and
/// a constant.
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

/// Returns the conjuncts that do not round and so may be checked against statistics. DataFusion's pruning
/// simplifies its conjuncts.
fn for_statistics(
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let mut kept = Vec::new();
    for conjunct in split_conjunction(predicate) {
        if !rounds(conjunct, schema)? {
            kept.push(Arc::clone(conjunct));
        }
    }
    Ok((!kept.is_empty()).then(|| conjunction(kept)))
}

/// Returns whether a cast in `expr` drops digits. DataFusion's simplifier removes casts between a column and
/// a constant, and these too. But 100.24 is not greater than 100.2 if one digit is compared.
fn rounds(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    expr.exists(|expr| {
        let (of, to) = match (expr.downcast_ref::<CastExpr>(), expr.downcast_ref::<TryCastExpr>()) {
            (Some(cast), _) => (cast.expr(), cast.cast_type()),
            (_, Some(cast)) => (cast.expr(), cast.cast_type()),
            _ => return Ok(false),
        };
        Ok(digits(&of.data_type(schema)?).zip(digits(to)).is_some_and(|(of, to)| to < of))
    })
}
