//! A predicate for values among the keys of a join's build side.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;

use super::keys::KeySet;

/// True for the keys of a set, and perhaps for others; false for null.
#[derive(Debug)]
pub(crate) struct InKeys {
    value: Arc<dyn PhysicalExpr>,
    keys: Arc<KeySet>,
}

impl InKeys {
    pub(super) fn new(value: Arc<dyn PhysicalExpr>, keys: Arc<KeySet>) -> Self {
        InKeys { value, keys }
    }
}

impl PhysicalExpr for InKeys {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let values = self.value.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(self.keys.of(&values)?, None))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.value]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match <[Arc<dyn PhysicalExpr>; 1]>::try_from(children) {
            Ok([value]) => Ok(Arc::new(InKeys::new(value, Arc::clone(&self.keys)))),
            Err(children) => internal_err!("one value is looked up among keys, not {}", children.len()),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for InKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} IN ({} keys)", self.value, self.keys.values())
    }
}

impl PartialEq for InKeys {
    fn eq(&self, other: &Self) -> bool {
        self.value.eq(&other.value) && Arc::ptr_eq(&self.keys, &other.keys)
    }
}

impl Eq for InKeys {}

impl Hash for InKeys {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}
