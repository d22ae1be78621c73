//! Operators and functions of arrays with PostgreSQL's rules for NULL, and arrays that are read from texts.
//!
//! An element that is NULL is found in no other array by `@>`, `<@` and `&&`, is removed by `array_remove(x, NULL)`, and
//! is the greatest element where arrays are compared. For the query engine it is an element as any other, and the least.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, ListBuilder, StringBuilder, UInt64Array,
    make_comparator,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{SortOptions, cast, take};
use datafusion::arrow::datatypes::{ArrowNativeType, DataType, FieldRef};
use datafusion::arrow::row::{Row, RowConverter, SortField};
use datafusion::common::{DataFusionError, Result, exec_err, plan_err};
use datafusion::functions::core::coalesce;
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::declared::Function;
use crate::sql::QueryError;
use crate::sql::arguments::Texts;
use crate::sql::dialect::array_elements;

type Compute = fn(&ScalarFunctionArgs) -> Result<ColumnarValue>;

const fn of_two_arrays(name: &'static str, compute: Compute) -> Function {
    Function { name, takes: two_arrays, gives: |_| DataType::Boolean, compute }
}

const CONTAINS: Function = of_two_arrays("@>", |args| found(args, true));
const OVERLAPS: Function = of_two_arrays("&&", |args| found(args, false));
const LESS: Function = of_two_arrays("array <", |args| ordered(args, Ordering::is_lt));
const AT_MOST: Function = of_two_arrays("array <=", |args| ordered(args, Ordering::is_le));
const REMOVE: Function = Function {
    name: "array_remove",
    takes: array_and_element,
    gives: |types| types[0].clone(),
    compute: without,
};
const OF_TEXT: Function = Function {
    name: "text_array",
    takes: one_text,
    gives: |_| DataType::new_list(DataType::Utf8, true),
    compute: read,
};

pub(super) fn register(context: &SessionContext) {
    let functions = [CONTAINS, OVERLAPS, LESS, AT_MOST, OF_TEXT];
    functions.into_iter().for_each(|function| context.register_udf(function.immutable()));
    context.register_udf(REMOVE.immutable().with_aliases(["list_remove"]));
    context.register_udf(ScalarUDF::from(Coalesce(coalesce())));
}

/// The function that reads arrays of texts from texts in braces.
pub(crate) fn text_array() -> ScalarUDF {
    OF_TEXT.immutable()
}

/// The expression for an operator between two arrays. `None` for other operators.
///
/// # Errors
///
/// If another value is an operand of `&&`.
pub(super) fn planned(expr: &RawBinaryExpr, left: &DataType, right: &DataType) -> Result<Option<Expr>> {
    use BinaryOperator::{ArrowAt, AtArrow, Gt, GtEq, Lt, LtEq, PGOverlap};
    let are_arrays = element_of(left).is_some() && element_of(right).is_some();
    let (function, swapped) = match expr.op {
        AtArrow if are_arrays => (CONTAINS, false),
        ArrowAt if are_arrays => (CONTAINS, true),
        PGOverlap if are_arrays => (OVERLAPS, false),
        Lt if are_arrays => (LESS, false),
        Gt if are_arrays => (LESS, true),
        LtEq if are_arrays => (AT_MOST, false),
        GtEq if are_arrays => (AT_MOST, true),
        PGOverlap => {
            let error = QueryError::other("42883", "operator does not exist: && takes two arrays");
            return Err(DataFusionError::External(Box::new(error)));
        }
        _ => return Ok(None),
    };
    let (left, right) = (expr.left.clone(), expr.right.clone());
    Ok(Some(function.immutable().call(if swapped { vec![right, left] } else { vec![left, right] })))
}

fn element_of(array: &DataType) -> Option<&DataType> {
    match array {
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => Some(of.data_type()),
        _ => None,
    }
}

/// The type of two elements that are compared.
fn common(one: &DataType, other: &DataType) -> Option<DataType> {
    comparison_coercion(one, other).map(|of| if of.is_null() { DataType::Utf8 } else { of })
}

fn two_arrays(types: &[DataType]) -> Result<Vec<DataType>> {
    let elements = match types {
        [left, right] => element_of(left).zip(element_of(right)),
        _ => None,
    };
    match elements.and_then(|(left, right)| common(left, right)) {
        Some(of) => Ok(vec![DataType::new_list(of, true); 2]),
        None => plan_err!("Cannot infer common type of the elements of {types:?}"),
    }
}

fn array_and_element(types: &[DataType]) -> Result<Vec<DataType>> {
    let of = match types {
        [array, element] => element_of(array).and_then(|of| common(of, element)),
        _ => None,
    };
    match of {
        Some(of) => Ok(vec![DataType::new_list(of.clone(), true), of]),
        None => plan_err!("Cannot infer common type of an array's elements and a value: {types:?}"),
    }
}

fn one_text(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of] if of.is_string() => Ok(types.to_vec()),
        _ => plan_err!("Cannot infer common type: an array is read from one text"),
    }
}

fn both(args: &ScalarFunctionArgs) -> Result<[ArrayRef; 2]> {
    match &args.args[..] {
        [one, other] => Ok([one.to_array(args.number_rows)?, other.to_array(args.number_rows)?]),
        args => exec_err!("two arguments are expected, not {}", args.len()),
    }
}

/// The places of an array's elements among those of all rows.
fn places(arrays: &ListArray, at: usize) -> Range<usize> {
    let offsets = arrays.value_offsets();
    offsets[at].as_usize()..offsets[at + 1].as_usize()
}

/// Whether all elements of the second array, or any of them, are elements of the first.
fn found(args: &ScalarFunctionArgs, all: bool) -> Result<ColumnarValue> {
    let [whole, part] = both(args)?;
    let (whole, part) = (whole.as_list::<i32>(), part.as_list::<i32>());
    let converter = RowConverter::new(vec![SortField::new(whole.value_type())])?;
    let of_whole = converter.convert_columns(&[Arc::clone(whole.values())])?;
    let of_part = converter.convert_columns(&[Arc::clone(part.values())])?;
    let row = |at: usize| {
        if whole.is_null(at) || part.is_null(at) {
            return None;
        }
        let there: HashSet<Row<'_>> = places(whole, at).map(|place| of_whole.row(place)).collect();
        let is_there = |place: usize| part.values().is_valid(place) && there.contains(&of_part.row(place));
        let mut wanted = places(part, at);
        Some(if all { wanted.all(is_there) } else { wanted.any(is_there) })
    };
    let rows: BooleanArray = (0..whole.len()).map(row).collect();
    Ok(ColumnarValue::Array(Arc::new(rows)))
}

/// Whether the order of two arrays is one of those that are wanted.
fn ordered(args: &ScalarFunctionArgs, wanted: fn(Ordering) -> bool) -> Result<ColumnarValue> {
    let [left, right] = both(args)?;
    let nulls_last = SortOptions { descending: false, nulls_first: false };
    let compare = make_comparator(&left, &right, nulls_last)?;
    let row = |at: usize| (left.is_valid(at) && right.is_valid(at)).then(|| wanted(compare(at, at)));
    let rows: BooleanArray = (0..left.len()).map(row).collect();
    Ok(ColumnarValue::Array(Arc::new(rows)))
}

/// Arrays without the elements that are equal to a value, which may be NULL.
fn without(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let [arrays, values] = both(args)?;
    let arrays = arrays.as_list::<i32>();
    let DataType::List(field) = arrays.data_type() else { return exec_err!("array_remove takes an array") };
    let converter = RowConverter::new(vec![SortField::new(arrays.value_type())])?;
    let elements = converter.convert_columns(&[Arc::clone(arrays.values())])?;
    let values = converter.convert_columns(&[cast(&values, field.data_type())?])?;
    let (mut kept, mut lengths) = (Vec::new(), Vec::new());
    for at in 0..arrays.len() {
        let before = kept.len();
        if arrays.is_valid(at) {
            let others = places(arrays, at).filter(|&place| elements.row(place) != values.row(at));
            kept.extend(others.filter_map(|place| u64::try_from(place).ok()));
        }
        lengths.push(kept.len() - before);
    }
    let kept = take(arrays.values(), &UInt64Array::from(kept), None)?;
    let lengths = OffsetBuffer::from_lengths(lengths);
    let arrays = ListArray::try_new(Arc::clone(field), lengths, kept, arrays.nulls().cloned())?;
    Ok(ColumnarValue::Array(Arc::new(arrays)))
}

fn read(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let texts = Texts::of(&args.args[0])?;
    let mut arrays = ListBuilder::new(StringBuilder::new());
    for row in 0..args.number_rows {
        match texts.get(row) {
            Some(text) => arrays.append_value(array_elements(text)?),
            None => arrays.append_null(),
        }
    }
    Ok(ColumnarValue::Array(Arc::new(arrays.finish())))
}

/// The query engine's function of this name. A text beside an array is an array: `coalesce(array_agg(x), '{}')`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Coalesce(Arc<ScalarUDF>);

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let Some(array) = types.iter().find(|of| element_of(of).is_some()) else {
            return self.0.coerce_types(types);
        };
        let typed = |of: &DataType| if of.is_string() { array.clone() } else { of.clone() };
        self.0.coerce_types(&types.iter().map(typed).collect::<Vec<_>>())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.0.simplify(args, info)
    }

    fn short_circuits(&self) -> bool {
        self.0.short_circuits()
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.0.conditional_arguments(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.0.invoke_with_args(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{Field, Int64Type};
    use datafusion::common::config::ConfigOptions;

    fn computed(function: Function, args: [ListArray; 2]) -> ArrayRef {
        let fields = args.iter().map(|arg| Arc::new(Field::new("", arg.data_type().clone(), true))).collect();
        let (types, number_rows) = (args.each_ref().map(|arg| arg.data_type().clone()), args[0].len());
        let args = ScalarFunctionArgs {
            args: args.into_iter().map(|arg| ColumnarValue::Array(Arc::new(arg))).collect(),
            arg_fields: fields,
            number_rows,
            return_field: Arc::new(Field::new("", (function.gives)(&types), true)),
            config_options: Arc::new(ConfigOptions::default()),
        };
        (function.compute)(&args).unwrap().into_array(number_rows).unwrap()
    }

    #[test]
    fn nulls_are_those_of_postgres() {
        type Given = Option<Vec<Option<i64>>>;
        let array = |of: &Given| ListArray::from_iter_primitive::<Int64Type, _, _>([of.clone()]);
        let (one_null, null_only) = (Some(vec![Some(1), None]), Some(vec![None]));
        let (two, none, empty) = (Some(vec![Some(1), Some(2)]), None, Some(vec![]));
        for (function, left, right, expected) in [
            (CONTAINS, &two, &one_null, Some(false)),
            (CONTAINS, &one_null, &one_null, Some(false)),
            (CONTAINS, &one_null, &empty, Some(true)),
            (CONTAINS, &none, &empty, None),
            (OVERLAPS, &one_null, &null_only, Some(false)),
            (OVERLAPS, &two, &one_null, Some(true)),
            (OVERLAPS, &two, &none, None),
            (LESS, &one_null, &two, Some(false)),
            (LESS, &two, &one_null, Some(true)),
            (LESS, &empty, &two, Some(true)),
            (AT_MOST, &one_null, &one_null, Some(true)),
            (AT_MOST, &two, &none, None),
        ] {
            let found = computed(function, [array(left), array(right)]);
            let found = found.as_boolean();
            let found = found.is_valid(0).then(|| found.value(0));
            assert_eq!(found, expected, "{left:?} {} {right:?}", function.name);
        }
    }
}
