//! Translation of expressions over a table's columns to those of one of its files. DataFusion's adapter does
//! it, except for columns that [need care](super::widened).

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};

use super::widened::{Widened, exactly, needs_care};

/// Adapts expressions to files.
pub(crate) struct WideningAdapters {
    /// For each column with several types in files, the files of these types. `None` for tables with declared
    /// columns: the user requested their types, even if they round.
    pub(crate) promotions: Option<HashMap<String, Arc<str>>>,
}

/// The name with which the `Debug` text begins. Scans have the factory as a trait object, and only this text tells what
/// it is.
const NAME: &str = "WideningAdapters";

impl fmt::Debug for WideningAdapters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let promotions: Option<HashMap<&str, &str>> = self
            .promotions
            .as_ref()
            .map(|of| of.iter().map(|(name, types)| (name.as_str(), types.as_ref())).collect());
        write!(f, "{NAME}{}", serde_json::to_string(&promotions).map_err(|_| fmt::Error)?)
    }
}

/// Returns the promotions of a factory of this type, and `None` for a factory of another one.
pub(crate) fn promotions_of(
    factory: &dyn PhysicalExprAdapterFactory,
) -> Option<Option<HashMap<String, String>>> {
    serde_json::from_str(format!("{factory:?}").strip_prefix(NAME)?).ok()
}

/// Returns the factory for tables with declared columns. Values of a file's own type are converted to the declared one, and
/// constants of a comparison are never cut.
pub fn adapters_for_declared_columns() -> Arc<dyn PhysicalExprAdapterFactory> {
    Arc::new(WideningAdapters { promotions: None })
}

impl PhysicalExprAdapterFactory for WideningAdapters {
    fn create(&self, logical: SchemaRef, physical: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let mut widened: HashMap<String, (FieldRef, DataType)> = HashMap::new();
        let mut seen_by_default = Vec::with_capacity(logical.fields().len());
        let by_name: OnceCell<HashMap<&str, &FieldRef>> = OnceCell::new();
        let named = || physical.fields().iter().map(|own| (own.name().as_str(), own)).collect();
        for (at, column) in logical.fields().iter().enumerate() {
            let in_place = physical.fields().get(at).filter(|own| own.name() == column.name());
            let own = in_place.or_else(|| by_name.get_or_init(named).get(column.name().as_str()).copied());
            let needs_care =
                own.filter(|own| needs_care(own.data_type(), column.data_type(), self.promotions.is_some()));
            seen_by_default.push(Arc::clone(needs_care.unwrap_or(column)));
            if let Some(own) = needs_care {
                widened.insert(column.name().clone(), (Arc::clone(column), own.data_type().clone()));
            }
        }
        let metadata = logical.metadata().clone();
        let logical = if widened.is_empty() {
            logical
        } else {
            Arc::new(Schema::new_with_metadata(seen_by_default, metadata))
        };
        let inner = DefaultPhysicalExprAdapterFactory.create(logical, physical)?;
        if widened.is_empty() {
            return Ok(inner);
        }
        Ok(Arc::new(WideningAdapter { inner, widened, promotions: self.promotions.clone() }))
    }
}

#[derive(Debug)]
struct WideningAdapter {
    /// Leaves the columns that need care as they are in the file.
    inner: Arc<dyn PhysicalExprAdapter>,
    /// The column of the table and its type in the file, by name.
    widened: HashMap<String, (FieldRef, DataType)>,
    promotions: Option<HashMap<String, Arc<str>>>,
}

impl PhysicalExprAdapter for WideningAdapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        self.inner.rewrite(expr)?.transform_down(|expr| Ok(self.rewritten(expr))).data()
    }
}

impl WideningAdapter {
    fn rewritten(&self, expr: Arc<dyn PhysicalExpr>) -> Transformed<Arc<dyn PhysicalExpr>> {
        let done = |expr: Arc<dyn PhysicalExpr>| Transformed::new(expr, true, TreeNodeRecursion::Jump);
        if let Some(column) = expr.downcast_ref::<Column>() {
            let Some((target, _)) = self.widened.get(column.name()) else { return Transformed::no(expr) };
            let types = self.promotions.as_ref();
            let types = types.map(|types| {
                types
                    .get(column.name())
                    .cloned()
                    .unwrap_or_else(|| "the type of a newer file is another".into())
            });
            return done(Arc::new(Widened::new(expr, Arc::clone(target), types)));
        }
        match expr.downcast_ref::<BinaryExpr>().and_then(|comparison| self.in_the_files_type(comparison)) {
            Some(comparison) => done(Arc::new(comparison)),
            None => Transformed::no(expr),
        }
    }

    /// Returns the comparison in the file's own type, if it compares a column that needs care with a constant
    /// of that type.
    fn in_the_files_type(&self, comparison: &BinaryExpr) -> Option<BinaryExpr> {
        use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let (left, op, right) = (comparison.left(), *comparison.op(), comparison.right());
        if !matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            return None;
        }
        let own_type = |column: &Arc<dyn PhysicalExpr>| {
            let column = column.downcast_ref::<Column>()?;
            self.widened.get(column.name()).map(|(_, own)| own)
        };
        let constant = |of: &Arc<dyn PhysicalExpr>, to: &DataType| -> Option<Arc<dyn PhysicalExpr>> {
            Some(Arc::new(Literal::new(exactly(of.downcast_ref::<Literal>()?.value(), to)?)))
        };
        let (left, right) = match (own_type(left), own_type(right)) {
            (Some(own), None) => (Arc::clone(left), constant(right, own)?),
            (None, Some(own)) => (constant(left, own)?, Arc::clone(right)),
            _ => return None,
        };
        Some(BinaryExpr::new(left, op, right))
    }
}
