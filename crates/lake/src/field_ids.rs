//! Columns of files that are found by the ids of their fields, under whatever name a file has them.
//!
//! An adapter gives the columns of a file the names that the table has, at every depth, and leaves the rest to
//! DataFusion: types that were widened, and fields that were added.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayData, ArrayRef, RecordBatch, make_array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory,
    replace_columns_with_literals,
};

/// The key under which Parquet readers and writers keep the id of a field.
pub(crate) const ID: &str = "PARQUET:field_id";

/// Adapts expressions over columns with ids to files whose columns have ids.
#[derive(Debug, Default)]
pub(crate) struct FieldIdAdapters {
    /// The ids of names in files without ids, with the names of outer fields before them.
    pub(crate) names: HashMap<Vec<String>, i32>,
    /// The values of columns in files without them, by id. Those of others are null.
    pub(crate) defaults: HashMap<i32, ScalarValue>,
}

impl PhysicalExprAdapterFactory for FieldIdAdapters {
    fn create(&self, logical: SchemaRef, physical: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let stored = if physical.fields().iter().any(has_id) {
            Arc::clone(&physical)
        } else {
            Arc::new(Schema::new(self.with_ids(physical.fields(), &[])))
        };
        let seen = Arc::new(Schema::new(renamed(stored.fields(), logical.fields())));
        let mut absent = HashMap::new();
        for column in logical.fields() {
            let default = id_of(column).and_then(|id| self.defaults.get(&id));
            if let Some(default) = default.filter(|_| seen.index_of(column.name()).is_err()) {
                absent.insert(column.name().clone(), default.cast_to(column.data_type())?);
            }
        }
        let inner = DefaultPhysicalExprAdapterFactory.create(logical, Arc::clone(&seen))?;
        Ok(Arc::new(FieldIdAdapter { inner, absent, seen, physical }))
    }
}

impl FieldIdAdapters {
    /// The fields of a file without ids, with those of their names.
    fn with_ids(&self, fields: &Fields, outer: &[String]) -> Fields {
        let of = |field: &FieldRef| {
            let mut path = outer.to_vec();
            path.push(field.name().clone());
            let inner = with_children(field.data_type(), |children| self.with_ids(children, &path));
            let id = self.names.get(&path).map(|id| (ID.to_owned(), id.to_string()));
            Field::new(field.name(), inner, field.is_nullable()).with_metadata(id.into_iter().collect())
        };
        fields.iter().map(of).collect()
    }
}

/// Returns the id of a field.
pub(crate) fn id_of(field: &FieldRef) -> Option<i32> {
    field.metadata().get(ID)?.parse().ok()
}

fn has_id(field: &FieldRef) -> bool {
    id_of(field).is_some()
}

/// The type with other fields inside of it.
fn with_children(of: &DataType, children: impl Fn(&Fields) -> Fields) -> DataType {
    let only = |item: &FieldRef| Arc::clone(&children(&Fields::from(vec![Arc::clone(item)]))[0]);
    match of {
        DataType::Struct(fields) => DataType::Struct(children(fields)),
        DataType::List(item) => DataType::List(only(item)),
        DataType::LargeList(item) => DataType::LargeList(only(item)),
        DataType::Map(entries, sorted) => {
            let DataType::Struct(pair) = entries.data_type() else { return of.clone() };
            let pair = DataType::Struct(children(pair));
            let entries = Field::new(entries.name(), pair, entries.is_nullable());
            DataType::Map(Arc::new(entries), *sorted)
        }
        other => other.clone(),
    }
}

/// Fields of a file with the names that the table has for their ids. Those that the table has not get names
/// that no column has.
fn renamed(stored: &Fields, logical: &Fields) -> Fields {
    let by_id: HashMap<i32, &FieldRef> =
        logical.iter().filter_map(|field| Some((id_of(field)?, field))).collect();
    let of = |(at, field): (usize, &FieldRef)| {
        let Some(column) = id_of(field).and_then(|id| by_id.get(&id)) else {
            return Arc::new(Field::new(format!("\0{at}"), field.data_type().clone(), true));
        };
        let inner = match (field.data_type(), column.data_type()) {
            (DataType::Struct(own), DataType::Struct(wanted)) => DataType::Struct(renamed(own, wanted)),
            (DataType::List(own), DataType::List(wanted)) => DataType::List(item(own, wanted)),
            (DataType::LargeList(own), DataType::LargeList(wanted)) => DataType::LargeList(item(own, wanted)),
            (DataType::Map(own, sorted), DataType::Map(wanted, _)) => {
                DataType::Map(entries(own, wanted), *sorted)
            }
            (own, _) => own.clone(),
        };
        // A field that differs in nothing but notes needs no cast.
        if inner == *column.data_type() {
            return Arc::clone(column);
        }
        let field = Field::new(column.name(), inner, field.is_nullable());
        Arc::new(field.with_metadata(column.metadata().clone()))
    };
    stored.iter().enumerate().map(of).collect()
}

/// The item of a list: it has an id, but there is only one.
fn item(own: &FieldRef, wanted: &FieldRef) -> FieldRef {
    let own = own.as_ref().clone().with_metadata(wanted.metadata().clone());
    let wanted = wanted.as_ref().clone().with_metadata(wanted.metadata().clone());
    let id = HashMap::from([(ID.to_owned(), "0".to_owned())]);
    let of = |field: Field| Fields::from(vec![field.with_metadata(id.clone())]);
    let renamed = renamed(&of(own), &of(wanted.clone()));
    Arc::new(renamed[0].as_ref().clone().with_metadata(wanted.metadata().clone()))
}

/// The entries of a map: keys, then values.
fn entries(own: &FieldRef, wanted: &FieldRef) -> FieldRef {
    let (DataType::Struct(pair), DataType::Struct(names)) = (own.data_type(), wanted.data_type()) else {
        return Arc::clone(own);
    };
    let pair = pair.iter().zip(names).map(|(own, wanted)| item(own, wanted)).collect::<Fields>();
    Arc::new(Field::new(wanted.name(), DataType::Struct(pair), own.is_nullable()))
}

#[derive(Debug)]
struct FieldIdAdapter {
    /// Adapts to the file with the names of the table.
    inner: Arc<dyn PhysicalExprAdapter>,
    /// The values of columns that the file has not.
    absent: HashMap<String, ScalarValue>,
    /// The file with the names of the table.
    seen: SchemaRef,
    physical: SchemaRef,
}

impl PhysicalExprAdapter for FieldIdAdapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let expr = replace_columns_with_literals(expr, &self.absent)?;
        let expr = self.inner.rewrite(expr)?;
        let to_file = |expr: Arc<dyn PhysicalExpr>| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let (seen, own) = (self.seen.field(column.index()), self.physical.field(column.index()));
            let stored: Arc<dyn PhysicalExpr> = Arc::new(Column::new(own.name(), column.index()));
            if seen.data_type() == own.data_type() {
                return Ok(Transformed::yes(stored));
            }
            let named = Named { inner: stored, data_type: seen.data_type().clone() };
            Ok(Transformed::yes(Arc::new(named) as Arc<dyn PhysicalExpr>))
        };
        expr.transform_up(to_file).data()
    }
}

/// A nested value with other names of its fields.
#[derive(Debug, Eq)]
struct Named {
    inner: Arc<dyn PhysicalExpr>,
    /// The type of the value, with the wanted names.
    data_type: DataType,
}

// A derived comparison would move the expression.
impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner) && self.data_type == other.data_type
    }
}

impl Hash for Named {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
        self.data_type.hash(state);
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "named({}, {})", self.inner, self.data_type)
    }
}

impl PhysicalExpr for Named {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.inner.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let array = self.inner.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(with_names(&array, &self.data_type)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let inner = children.swap_remove(0);
        Ok(Arc::new(Named { inner, data_type: self.data_type.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The same values in a type that differs in the names of fields.
fn with_names(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    fn named(data: ArrayData, data_type: &DataType) -> Result<ArrayData> {
        let inside: Vec<&DataType> = match data_type {
            DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
            DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => {
                vec![item.data_type()]
            }
            _ => return Ok(data),
        };
        let children = data.child_data().iter().cloned().zip(inside);
        let children = children.map(|(child, inside)| named(child, inside)).collect::<Result<Vec<_>>>()?;
        Ok(data.into_builder().data_type(data_type.clone()).child_data(children).build()?)
    }
    Ok(make_array(named(array.to_data(), data_type)?))
}
