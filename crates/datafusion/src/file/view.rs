//! Views: the columns of a scan in terms of a file. Scans of any tables with equal views of a file get equal
//! rows of it, and share a number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::projection::ProjectionExprs;

use crate::lock::lock;

/// The origin of a scan's column.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Origin {
    /// The root column of the file, decoded to this type.
    Column(usize, DataType),
    Constant(ScalarValue),
}

/// Limit of the views that have numbers at the same time.
const VIEWS_MAX: usize = 1024;

/// The numbers of the views of all scans on an engine.
#[derive(Debug, Default)]
pub(crate) struct Views(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    numbers: HashMap<Vec<Origin>, u64>,
    next: u64,
}

impl Views {
    /// Returns the number of a projection of a file that is decoded to this schema; `None` if the projection
    /// computes something.
    pub(crate) fn number(&self, projection: &ProjectionExprs, decoding_schema: &Schema) -> Option<u64> {
        let origin = |expr: &Arc<dyn PhysicalExpr>| {
            if let Some(column) = expr.downcast_ref::<Column>() {
                let field = decoding_schema.fields().get(column.index())?;
                return Some(Origin::Column(column.index(), field.data_type().clone()));
            }
            expr.downcast_ref::<Literal>().map(|literal| Origin::Constant(literal.value().clone()))
        };
        let view = projection.iter().map(|column| origin(&column.expr));
        let view = view.collect::<Option<Vec<_>>>()?;
        let mut known = lock(&self.0);
        if let Some(number) = known.numbers.get(&view) {
            return Some(*number);
        }
        if known.numbers.len() == VIEWS_MAX {
            // Numbers are never reused. After this, an equal view gets another number and shares with new
            // scans only.
            known.numbers.clear();
        }
        let number = known.next;
        known.next += 1;
        known.numbers.insert(view, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::{cast, lit};
    use datafusion::physical_expr::projection::ProjectionExpr;

    use super::*;

    fn schema(of_first: DataType) -> Schema {
        Schema::new(vec![Field::new("a", of_first, true), Field::new("b", DataType::Int64, true)])
    }

    fn column(at: usize) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new("any", at))
    }

    #[test]
    fn equal_views_have_one_number() {
        let views = Views::default();
        let number = |exprs: Vec<Arc<dyn PhysicalExpr>>, schema: &Schema| {
            let columns = exprs.into_iter().map(|expr| ProjectionExpr { expr, alias: "any".into() });
            views.number(&ProjectionExprs::new(columns.collect::<Vec<_>>()), schema)
        };
        let (narrow, wide) = (schema(DataType::Int32), schema(DataType::Int64));
        let first = number(vec![column(0), column(1)], &narrow);
        assert_eq!(number(vec![column(0), column(1)], &narrow), first);
        let others = [
            number(vec![column(1), column(0)], &narrow),
            number(vec![column(0)], &narrow),
            number(vec![column(0), column(1)], &wide),
            number(vec![column(0), lit(1i64)], &narrow),
            number(vec![column(0), lit(2i64)], &narrow),
        ];
        for (at, other) in others.iter().enumerate() {
            assert!(other.is_some() && *other != first && !others[..at].contains(other), "{others:?}");
        }
        let computed = cast(column(0), &narrow, DataType::Int64).unwrap();
        assert_eq!(number(vec![computed], &narrow), None);
    }
}
