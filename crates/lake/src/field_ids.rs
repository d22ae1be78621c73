//! Columns of files that are found by the ids of their fields, under whatever name a file has them.
//!
//! An adapter gives the columns of a file the names that the table has, at every depth, with the fields that have a default
//! and that the file lacks. It leaves the rest to the adapter of tables with declared columns: types that were widened, and
//! fields that are null.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use coscan_datafusion::adapters_for_declared_columns;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, MapArray, OffsetSizeTrait, RecordBatch, StructArray,
    new_null_array,
};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_adapter::{
    PhysicalExprAdapter, PhysicalExprAdapterFactory, replace_columns_with_literals,
};

/// The key under which Parquet readers and writers keep the id of a field.
pub(crate) const ID: &str = "PARQUET:field_id";

/// What the formats call the items of lists, and the keys and values of maps.
pub(crate) const ELEMENT: &str = "element";
pub(crate) const KEY: &str = "key";
pub(crate) const VALUE: &str = "value";

/// Adapts expressions over columns with ids to files whose columns have ids.
#[derive(Debug, Default)]
pub(crate) struct FieldIdAdapters {
    /// Whether ids in files mean nothing, so that all columns are found by name.
    pub(crate) by_name: bool,
    /// The ids of names, with the names of outer fields before them, for files without ids.
    pub(crate) names: HashMap<Vec<String>, i32>,
    /// The values of columns, and of fields inside of them, in files without them, by id. Those of others are null.
    pub(crate) defaults: Arc<Defaults>,
}

/// The values of fields in files without them, by id.
pub(crate) type Defaults = HashMap<i32, ScalarValue>;

impl PhysicalExprAdapterFactory for FieldIdAdapters {
    fn create(&self, logical: SchemaRef, physical: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let stored = if !self.by_name && physical.fields().iter().any(has_id) {
            Arc::clone(&physical)
        } else {
            Arc::new(Schema::new(self.with_ids(physical.fields(), &[], &[])))
        };
        let seen = Arc::new(Schema::new(renamed(stored.fields(), logical.fields(), &self.defaults)));
        let mut absent = HashMap::new();
        for column in logical.fields() {
            let default = id_of(column).and_then(|id| self.defaults.get(&id));
            if let Some(default) = default.filter(|_| seen.index_of(column.name()).is_err()) {
                absent.insert(column.name().clone(), default.cast_to(column.data_type())?);
            }
        }
        let inner = adapters_for_declared_columns().create(logical, Arc::clone(&seen))?;
        let defaults = Arc::clone(&self.defaults);
        Ok(Arc::new(FieldIdAdapter { inner, absent, defaults, seen, physical }))
    }
}

impl FieldIdAdapters {
    /// The fields of a file with the ids of their names. `words` are those of the format for fields in these places.
    fn with_ids(&self, fields: &Fields, outer: &[String], words: &[&str]) -> Fields {
        let of = |(at, field): (usize, &FieldRef)| {
            let path_of = |name: &str| [outer, &[name.to_owned()]].concat();
            let mut path = path_of(field.name());
            // Writers have other words.
            if let Some(&word) = words.get(at).filter(|_| !self.names.contains_key(&path)) {
                path = path_of(word);
            }
            let inside = |fields: &Fields, words: &[&str]| self.with_ids(fields, &path, words);
            let inner = with_children(field.data_type(), inside);
            let id = self.names.get(&path).map(|id| (ID.to_owned(), id.to_string()));
            Field::new(field.name(), inner, field.is_nullable()).with_metadata(id.into_iter().collect())
        };
        fields.iter().enumerate().map(of).collect()
    }
}

/// Returns the id of a field.
pub(crate) fn id_of(field: &FieldRef) -> Option<i32> {
    field.metadata().get(ID)?.parse().ok()
}

fn has_id(field: &FieldRef) -> bool {
    id_of(field).is_some()
}

/// The type with other fields inside of it. Those of lists and maps have words in all formats.
fn with_children(of: &DataType, children: impl Fn(&Fields, &[&str]) -> Fields) -> DataType {
    let only = |item: &FieldRef| Arc::clone(&children(&Fields::from(vec![Arc::clone(item)]), &[ELEMENT])[0]);
    match of {
        DataType::Struct(fields) => DataType::Struct(children(fields, &[])),
        DataType::List(item) => DataType::List(only(item)),
        DataType::LargeList(item) => DataType::LargeList(only(item)),
        DataType::Map(entries, sorted) => {
            let DataType::Struct(pair) = entries.data_type() else { return of.clone() };
            let pair = DataType::Struct(children(pair, &[KEY, VALUE]));
            let entries = Field::new(entries.name(), pair, entries.is_nullable());
            DataType::Map(Arc::new(entries), *sorted)
        }
        other => other.clone(),
    }
}

/// Fields of a file with the names that the table has for their ids. Those that the table has not get names
/// that no column has.
fn renamed(stored: &Fields, logical: &Fields, defaults: &Defaults) -> Fields {
    let by_id: HashMap<i32, &FieldRef> =
        logical.iter().filter_map(|field| Some((id_of(field)?, field))).collect();
    let of = |(at, field): (usize, &FieldRef)| {
        let Some(column) = id_of(field).and_then(|id| by_id.get(&id)) else {
            return Arc::new(Field::new(format!("\0{at}"), field.data_type().clone(), true));
        };
        let inner = match (field.data_type(), column.data_type()) {
            (DataType::Struct(own), DataType::Struct(wanted)) => {
                DataType::Struct(completed(&renamed(own, wanted, defaults), wanted, defaults))
            }
            (DataType::List(own), DataType::List(wanted)) => DataType::List(item(own, wanted, defaults)),
            (DataType::LargeList(own), DataType::LargeList(wanted)) => {
                DataType::LargeList(item(own, wanted, defaults))
            }
            (DataType::Map(own, sorted), DataType::Map(wanted, _)) => {
                DataType::Map(entries(own, wanted, defaults), *sorted)
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

/// The fields of a struct, and those that have a default and are not among them.
fn completed(own: &Fields, wanted: &Fields, defaults: &Defaults) -> Fields {
    let is_absent = |field: &&FieldRef| {
        id_of(field).is_some_and(|id| defaults.contains_key(&id)) && own.find(field.name()).is_none()
    };
    own.iter().chain(wanted.iter().filter(is_absent)).cloned().collect()
}

/// The item of a list: it has an id, but there is only one.
fn item(own: &FieldRef, wanted: &FieldRef, defaults: &Defaults) -> FieldRef {
    let own = own.as_ref().clone().with_metadata(wanted.metadata().clone());
    let wanted = wanted.as_ref().clone().with_metadata(wanted.metadata().clone());
    let id = HashMap::from([(ID.to_owned(), "0".to_owned())]);
    let of = |field: Field| Fields::from(vec![field.with_metadata(id.clone())]);
    let renamed = renamed(&of(own), &of(wanted.clone()), defaults);
    Arc::new(renamed[0].as_ref().clone().with_metadata(wanted.metadata().clone()))
}

/// The entries of a map: keys, then values.
fn entries(own: &FieldRef, wanted: &FieldRef, defaults: &Defaults) -> FieldRef {
    let (DataType::Struct(pair), DataType::Struct(names)) = (own.data_type(), wanted.data_type()) else {
        return Arc::clone(own);
    };
    let pair = pair.iter().zip(names).map(|(own, wanted)| item(own, wanted, defaults)).collect::<Fields>();
    Arc::new(Field::new(wanted.name(), DataType::Struct(pair), own.is_nullable()))
}

#[derive(Debug)]
struct FieldIdAdapter {
    /// Adapts to the file with the names of the table.
    inner: Arc<dyn PhysicalExprAdapter>,
    /// The values of columns that the file has not.
    absent: HashMap<String, ScalarValue>,
    /// The values of fields that the file has not.
    defaults: Arc<Defaults>,
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
            let (data_type, defaults) = (seen.data_type().clone(), Arc::clone(&self.defaults));
            let named = Named { inner: stored, data_type, defaults };
            Ok(Transformed::yes(Arc::new(named) as Arc<dyn PhysicalExpr>))
        };
        expr.transform_up(to_file).data()
    }
}

/// A nested value with other names of its fields, and with those that have a default.
#[derive(Debug, Eq)]
struct Named {
    inner: Arc<dyn PhysicalExpr>,
    /// The type of the value, with the wanted names. Fields that the value has not are at the end of structs.
    data_type: DataType,
    defaults: Arc<Defaults>,
}

// A derived comparison would move the expression.
impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner) && self.data_type == other.data_type && self.defaults == other.defaults
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
        Ok(ColumnarValue::Array(with_names(&array, &self.data_type, &self.defaults)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let inner = children.swap_remove(0);
        let (data_type, defaults) = (self.data_type.clone(), Arc::clone(&self.defaults));
        Ok(Arc::new(Named { inner, data_type, defaults }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The same values in a type that differs in the names of fields, and has more of them.
fn with_names(array: &ArrayRef, data_type: &DataType, defaults: &Defaults) -> Result<ArrayRef> {
    Ok(match data_type {
        same if array.data_type() == same => Arc::clone(array),
        DataType::Struct(fields) => Arc::new(struct_with_names(array.as_struct(), fields, defaults)?),
        DataType::List(item) => Arc::new(list_with_names::<i32>(array, item, defaults)?),
        DataType::LargeList(item) => Arc::new(list_with_names::<i64>(array, item, defaults)?),
        DataType::Map(entry, sorted) => {
            let DataType::Struct(fields) = entry.data_type() else { return Ok(Arc::clone(array)) };
            let array = array.as_map();
            let entries = struct_with_names(array.entries(), fields, defaults)?;
            let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
            Arc::new(MapArray::try_new(Arc::clone(entry), offsets, entries, nulls, *sorted)?)
        }
        _ => Arc::clone(array),
    })
}

fn struct_with_names(array: &StructArray, fields: &Fields, defaults: &Defaults) -> Result<StructArray> {
    let rows = array.len();
    let column = |(at, field): (usize, &FieldRef)| match array.columns().get(at) {
        Some(own) => with_names(own, field.data_type(), defaults),
        None => match id_of(field).and_then(|id| defaults.get(&id)) {
            Some(default) => default.cast_to(field.data_type())?.to_array_of_size(rows),
            None => Ok(new_null_array(field.data_type(), rows)),
        },
    };
    let columns = fields.iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
    Ok(StructArray::try_new_with_length(fields.clone(), columns, array.nulls().cloned(), rows)?)
}

fn list_with_names<O: OffsetSizeTrait>(
    array: &ArrayRef,
    item: &FieldRef,
    defaults: &Defaults,
) -> Result<GenericListArray<O>> {
    let array = array.as_list::<O>();
    let values = with_names(array.values(), item.data_type(), defaults)?;
    let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
    Ok(GenericListArray::try_new(Arc::clone(item), offsets, values, nulls)?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int32Array, StringArray, TimestampMillisecondArray};
    use datafusion::arrow::buffer::OffsetBuffer;
    use datafusion::arrow::datatypes::TimeUnit;
    use datafusion::arrow::util::display::array_value_to_string;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, Literal};

    use super::*;

    fn with_id(name: &str, id: i32, data_type: DataType) -> FieldRef {
        let id = HashMap::from([(ID.to_owned(), id.to_string())]);
        Arc::new(Field::new(name, data_type, true).with_metadata(id))
    }

    fn column(name: &str, at: usize) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(name, at))
    }

    #[test]
    fn constants_between_two_values_of_a_file_are_not_cut() {
        let times = TimestampMillisecondArray::from(vec![999, -1001]);
        let file = Schema::new(vec![with_id("old", 1, times.data_type().clone())]);
        let table = Schema::new(vec![with_id("t", 1, DataType::Timestamp(TimeUnit::Microsecond, None))]);
        let batch = RecordBatch::try_new(Arc::new(file.clone()), vec![Arc::new(times)]).expect("a batch");
        let adapter = FieldIdAdapters::default().create(Arc::new(table), Arc::new(file)).expect("an adapter");
        let rows = |op, constant| {
            let constant = ScalarValue::TimestampMicrosecond(Some(constant), None);
            let filter = BinaryExpr::new(column("t", 0), op, Arc::new(Literal::new(constant)));
            let filter = adapter.rewrite(Arc::new(filter)).expect("an expression");
            let found = filter.evaluate(&batch).and_then(|found| found.into_array(2)).expect("rows");
            found.as_boolean().iter().flatten().collect::<Vec<_>>()
        };
        assert_eq!(rows(Operator::Lt, 999_001), [true, true]);
        assert_eq!(rows(Operator::Eq, 999_001), [false, false]);
        assert_eq!(rows(Operator::Eq, 999_000), [true, false]);
        assert_eq!(rows(Operator::Gt, -1_001_001), [true, true]);
    }

    #[test]
    fn fields_that_were_added_inside_of_maps() {
        let of = |fields: Vec<FieldRef>| {
            let pair =
                vec![with_id("key", 2, DataType::Utf8), with_id("value", 3, DataType::Struct(fields.into()))];
            let pair = Fields::from_iter(pair.into_iter().map(|field| match field.name().as_str() {
                "key" => field.as_ref().clone().with_nullable(false),
                _ => field.as_ref().clone(),
            }));
            DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(pair), false)), false)
        };
        let stored = vec![with_id("old", 4, DataType::Int32)];
        let wanted = vec![
            with_id("number", 4, DataType::Int32),
            with_id("added", 5, DataType::Utf8),
            with_id("seven", 6, DataType::Int64),
        ];
        let file = Schema::new(vec![with_id("m", 1, of(stored.clone()))]);
        let table = Schema::new(vec![with_id("m", 1, of(wanted))]);
        let values = StructArray::new(stored.into(), vec![Arc::new(Int32Array::from(vec![1, 2]))], None);
        let DataType::Map(entry, _) = file.field(0).data_type() else { panic!("a map") };
        let DataType::Struct(pair) = entry.data_type() else { panic!("a pair") };
        let keys = StringArray::from(vec!["a", "b"]);
        let entries = StructArray::new(pair.clone(), vec![Arc::new(keys), Arc::new(values)], None);
        let offsets = OffsetBuffer::from_lengths([2]);
        let map = MapArray::new(Arc::clone(entry), offsets, entries, None, false);
        let batch = RecordBatch::try_new(Arc::new(file.clone()), vec![Arc::new(map)]).expect("a batch");
        let defaults = Arc::new(HashMap::from([(6, ScalarValue::Int64(Some(7)))]));
        let adapters = FieldIdAdapters { defaults, ..FieldIdAdapters::default() };
        let adapter = adapters.create(Arc::new(table.clone()), Arc::new(file)).expect("an adapter");
        let found = adapter.rewrite(column("m", 0)).and_then(|expr| expr.evaluate(&batch)?.into_array(1));
        let found = found.expect("a map");
        assert_eq!(found.data_type(), table.field(0).data_type());
        let text = array_value_to_string(&found, 0).expect("a text");
        assert!(text.contains("number: 1") && text.contains("seven: 7"), "{text}");
    }
}
