//! Parameters of a plan: their types and their bound values.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_pg::datatypes::df::deserialize_parameters_with_server_types;
use arrow_pg::datatypes::{PG_OID_ALIAS_KEY, into_pg_type};
use bytes::Bytes;
use datafusion::arrow::array::StringArray;
use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan, cast, lit};
use pgwire::api::Type;
use pgwire::api::portal::Portal;
use pgwire::api::stmt::StoredStatement;
use pgwire::error::PgWireResult;
use pgwire::messages::extendedquery::Bind;

use super::error::{error, violation};
use crate::sql::{OID_ARRAY, QueryError, array_elements, bytea, parameter_position, parameters_of};
use crate::values::numeric;

/// Maximum number of parameters of a statement, as in PostgreSQL.
const PARAMETERS_MAX: usize = 65_535;

/// A parameter: its type in the query engine, and its type for the client.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) arrow: Option<DataType>,
    /// The type that the client gets.
    pub(crate) told: Type,
}

/// The parameters of a plan, `$1` first. Types stated by the client take precedence over those that follow from the
/// plan.
pub(crate) fn of(plan: &LogicalPlan, given: &[Option<Type>]) -> Result<Vec<Parameter>, QueryError> {
    let mut known: HashMap<usize, (Option<DataType>, Option<Type>)> = HashMap::new();
    for (at, arrow) in parameters_of(plan)? {
        known.insert(at, (arrow, None));
    }
    plan.apply_with_subqueries(|node| {
        for expr in node.expressions() {
            expr.apply(|part| {
                note(part, &mut known);
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let count = known.keys().max().map_or(0, |last| last + 1).max(given.len());
    if count > PARAMETERS_MAX {
        return Err(QueryError::other(
            "54023",
            format!("the statement has {count} parameters; {PARAMETERS_MAX} are allowed"),
        ));
    }
    let parameter = |at: usize| {
        let (arrow, alias) = known.remove(&at).unwrap_or_default();
        let inferred = arrow.as_ref().and_then(|arrow| into_pg_type(arrow).ok());
        let given = given.get(at).cloned().flatten().filter(|told| *told != Type::UNKNOWN);
        let own = given.as_ref().and_then(own_type);
        let told = given.or(alias).or(inferred).unwrap_or(Type::TEXT);
        Parameter { arrow: own.or(arrow), told }
    };
    Ok((0..count).map(parameter).collect())
}

/// The parameter types that a plan is made with: those that the client has stated. Drivers send values of any type
/// as text. For text and for unstated types, the type follows from the plan.
pub(crate) fn stated(given: &[Option<Type>]) -> Vec<Option<DataType>> {
    given.iter().map(|given| given.as_ref().and_then(own_type)).collect()
}

/// The type of a value without a plan.
fn own_type(given: &Type) -> Option<DataType> {
    Some(match *given {
        Type::BOOL => DataType::Boolean,
        // The same as for literals: functions do not take smaller types.
        Type::INT2 | Type::INT4 | Type::INT8 => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        // The type of a cast to numeric. Values have their own number of digits.
        Type::NUMERIC => DataType::Decimal128(38, 10),
        Type::BYTEA => DataType::Binary,
        Type::DATE => DataType::Date32,
        Type::TIME => DataType::Time64(TimeUnit::Microsecond),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        Type::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        _ => return None,
    })
}

/// Adds the type information in an expression: a cast around a parameter, and columns that hold object numbers.
fn note(expr: &Expr, known: &mut HashMap<usize, (Option<DataType>, Option<Type>)>) {
    let (cast, placeholder) = match expr {
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Placeholder(placeholder) => (Some(cast.field.data_type().clone()), placeholder),
            _ => return,
        },
        Expr::Placeholder(placeholder) => (None, placeholder),
        Expr::ScalarFunction(function) if function.name() == OID_ARRAY => {
            if let [Expr::Cast(cast)] = &function.args[..]
                && let Expr::Placeholder(placeholder) = cast.expr.as_ref()
                && let Ok(at) = parameter_position(&placeholder.id)
            {
                *known.entry(at).or_default() = (Some(cast.field.data_type().clone()), Some(Type::OID_ARRAY));
            }
            return;
        }
        Expr::ScalarFunction(function) => {
            let of = match function.name() {
                "json" => Type::JSON,
                "jsonb" | "jsonb_concat" => Type::JSONB,
                "uuid_text" => Type::UUID,
                _ => return,
            };
            for arg in &function.args {
                if let Expr::Placeholder(placeholder) = arg
                    && let Ok(at) = parameter_position(&placeholder.id)
                {
                    known.entry(at).or_default().1.get_or_insert_with(|| of.clone());
                }
            }
            return;
        }
        _ => return,
    };
    let Ok(at) = parameter_position(&placeholder.id) else { return };
    let (arrow, alias) = known.entry(at).or_default();
    if arrow.is_none() {
        *arrow = cast;
    }
    if let Some(field) = &placeholder.field
        && *field.data_type() == DataType::Int32
        && field.metadata().contains_key(PG_OID_ALIAS_KEY)
    {
        // Clients know numbers of objects, not names.
        *alias = Some(Type::OID);
    }
}

/// The values that are bound as texts and read like constants of SQL, as casts.
pub(crate) fn texts(bind: &Bind, parameters: &[Parameter]) -> PgWireResult<Vec<(usize, Expr)>> {
    let mut texts = Vec::new();
    for (at, (value, parameter)) in bind.parameters.iter().zip(parameters).enumerate() {
        let Some(bytes) = value.as_ref().filter(|_| !is_binary(bind, at)) else { continue };
        let text = std::str::from_utf8(bytes).map_err(|_| error("22021", "a bound text is not in UTF-8"))?;
        // Drivers write numbers in their usual form.
        let is_usual = match parameter.told {
            Type::INT2 | Type::INT4 | Type::INT8 => text.parse::<i32>().is_ok(),
            Type::FLOAT4 | Type::FLOAT8 => text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'),
            Type::BOOL => matches!(text, "t" | "f" | "true" | "false"),
            Type::DATE | Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::INTERVAL => false,
            Type::DATE_ARRAY | Type::TIME_ARRAY | Type::INTERVAL_ARRAY | Type::NUMERIC_ARRAY => false,
            Type::TIMESTAMP_ARRAY | Type::TIMESTAMPTZ_ARRAY => false,
            _ => true,
        };
        if !is_usual && let Some(of) = parameter.arrow.clone().or_else(|| own_type(&parameter.told)) {
            texts.push((at, cast(lit(text), of)));
        }
    }
    Ok(texts)
}

/// The bound values as values of the query engine. `read_before` has those that are read already.
pub(crate) fn values(
    bind: &Bind,
    parameters: &[Parameter],
    mut read_before: BTreeMap<usize, ScalarValue>,
) -> PgWireResult<ParamValues> {
    let (given, wanted) = (bind.parameters.len(), parameters.len());
    if given != wanted {
        return Err(violation(format!(
            "the client bound {given} parameters, but the statement has {wanted}"
        )));
    }
    let formats = bind.parameter_format_codes.len();
    if formats > 1 && formats != given {
        return Err(violation(format!("the client sent {formats} formats for {given} parameters")));
    }
    let told: Vec<Type> = parameters.iter().map(|parameter| parameter.told.clone()).collect();
    for (at, (bound, parameter)) in bind.parameters.iter().zip(parameters).enumerate() {
        if let Some(bytes) = bound.as_ref().filter(|_| is_binary(bind, at))
            && let Type::DATE_ARRAY | Type::TIMESTAMP_ARRAY | Type::TIMESTAMPTZ_ARRAY = parameter.told
        {
            let times = times_of_array(bytes, &parameter.told)?;
            let of = parameter.arrow.as_ref().filter(|of| matches!(of, DataType::List(_)));
            let times = of.map_or(Ok(times.clone()), |of| times.cast_to(of)).map_err(QueryError::from)?;
            read_before.insert(at, times);
        }
    }
    let read_as = |told: &Type| match *told {
        // Both have the same bytes.
        Type::OID_ARRAY => Type::INT4_ARRAY,
        // Their values are read here.
        Type::JSON | Type::JSONB | Type::UUID | Type::CHAR => Type::TEXT,
        _ => told.clone(),
    };
    let is_read = |at: usize| read_before.contains_key(&at);
    let read_as =
        told.iter().enumerate().map(|(at, told)| if is_read(at) { Type::TEXT } else { read_as(told) });
    let read_as: Vec<Type> = read_as.collect();
    let stored = StoredStatement::new(String::new(), (), read_as.iter().cloned().map(Some).collect());
    // The reader of the other types supports only 28 digits of numerics, one text form of bytes, and no binary JSON. It
    // takes the texts "" and "NULL" of an array for NULL.
    let others = bind.parameters.iter().zip(&told).enumerate().map(|(at, (value, told))| match *told {
        Type::NUMERIC | Type::BYTEA | Type::JSON | Type::JSONB | Type::UUID => None,
        Type::TEXT_ARRAY | Type::VARCHAR_ARRAY if !is_binary(bind, at) => None,
        _ if is_read(at) => None,
        _ if told.name().starts_with('_') && !is_binary(bind, at) => value.as_deref().map(without_spaces),
        _ => value.clone(),
    });
    let (portal, statement) = (bind.portal_name.clone(), bind.statement_name.clone());
    let (formats, columns) = (bind.parameter_format_codes.clone(), bind.result_column_format_codes.clone());
    let others = Bind::new(portal, statement, formats, others.collect(), columns);
    let portal = Portal::try_new(&others, Arc::new(stored))?;
    let arrow: Vec<Option<&DataType>> = parameters.iter().map(|parameter| parameter.arrow.as_ref()).collect();
    let wanted = arrow.iter().enumerate().map(|(at, arrow)| arrow.filter(|_| !is_read(at)));
    let wanted: Vec<Option<&DataType>> = wanted.collect();
    let types: Vec<Option<&Type>> = read_as.iter().map(Some).collect();
    let read = || deserialize_parameters_with_server_types(&portal, &wanted, &types);
    let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
    let mut read = read.unwrap_or_else(|_| Err(error("22P03", "a bound value does not fit its type")))?;
    if let ParamValues::List(values) = &mut read {
        for (at, (value, bound)) in values.iter_mut().zip(&bind.parameters).enumerate() {
            let Some(bytes) = bound else { continue };
            if let Some(read) = read_before.remove(&at) {
                *value = read.into();
                continue;
            }
            *value = match (&told[at], is_binary(bind, at)) {
                (&Type::NUMERIC, true) => numeric::from_binary(bytes)?.into(),
                (&Type::NUMERIC, false) => numeric::from_text(bytes)?.into(),
                (&Type::BYTEA, true) => ScalarValue::Binary(Some(bytes.to_vec())).into(),
                (&Type::BYTEA, false) => ScalarValue::Binary(Some(bytea(text_of(bytes)?)?)).into(),
                (&Type::TEXT_ARRAY | &Type::VARCHAR_ARRAY, false) => text_array(text_of(bytes)?)?.into(),
                (of @ (&Type::JSON | &Type::JSONB | &Type::UUID), binary) => {
                    let text = ScalarValue::from(typed_text(of, bytes, binary)?);
                    let to = arrow[at].filter(|to| to.is_string()).unwrap_or(&DataType::Utf8);
                    text.cast_to(to).map_err(QueryError::from)?.into()
                }
                _ => continue,
            };
        }
    }
    Ok(read)
}

fn text_of(bytes: &[u8]) -> PgWireResult<&str> {
    std::str::from_utf8(bytes).map_err(|_| error("22021", "a bound text is not in UTF-8"))
}

/// An array of texts.
fn text_array(text: &str) -> PgWireResult<ScalarValue> {
    let elements = StringArray::from(array_elements(text).map_err(QueryError::from)?);
    Ok(SingleRowListArrayBuilder::new(Arc::new(elements)).with_nullable(true).build_list_scalar())
}

/// The text of JSON or of a uuid.
fn typed_text(of: &Type, bytes: &[u8], binary: bool) -> PgWireResult<String> {
    Ok(match (of, binary) {
        (&Type::UUID, true) => {
            let wrong = |_| error("22P03", "a bound uuid has another length than 16 bytes");
            let digits = format!("{:032x}", u128::from_be_bytes(bytes.try_into().map_err(wrong)?));
            [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
        }
        // The version of the format comes first.
        (&Type::JSONB, true) => match bytes.split_first() {
            Some((1, rest)) => text_of(rest)?.to_owned(),
            _ => return Err(error("22P03", "a bound jsonb has an unknown version")),
        },
        _ => text_of(bytes)?.to_owned(),
    })
}

/// The times of an array of one dimension in binary form. They count from the year 2000.
fn times_of_array(bytes: &[u8], of: &Type) -> PgWireResult<ScalarValue> {
    const DAYS: i32 = 10_957;
    const MICROSECONDS: i64 = 86_400_000_000 * DAYS as i64;
    let wrong = || error("22P03", "a bound array does not have the form of its type");
    let number = |rest: &mut &[u8]| -> PgWireResult<i32> {
        let (number, behind) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
        *rest = behind;
        Ok(i32::from_be_bytes(*number))
    };
    let mut rest = bytes;
    let (dimensions, _nulls, _element) = (number(&mut rest)?, number(&mut rest)?, number(&mut rest)?);
    let count = match dimensions {
        0 => 0,
        1 => {
            let (count, _first) = (number(&mut rest)?, number(&mut rest)?);
            count
        }
        _ => return Err(error("0A000", "arrays of several dimensions are not supported as parameters")),
    };
    let mut times = Vec::new();
    for _ in 0..count {
        let Ok(length) = usize::try_from(number(&mut rest)?) else {
            times.push(None);
            continue;
        };
        let (value, behind) = rest.split_at_checked(length).ok_or_else(wrong)?;
        rest = behind;
        times.push(Some(value));
    }
    let day = |value: &[u8]| i32::from_be_bytes(value.try_into().ok()?).checked_add(DAYS);
    let time = |value: &[u8]| i64::from_be_bytes(value.try_into().ok()?).checked_add(MICROSECONDS);
    let zone: Option<Arc<str>> = (*of == Type::TIMESTAMPTZ_ARRAY).then(|| "+00:00".into());
    let element = match *of {
        Type::DATE_ARRAY => DataType::Date32,
        _ => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
    };
    let mut values = Vec::with_capacity(times.len());
    for bytes in times {
        values.push(match (bytes, *of == Type::DATE_ARRAY) {
            (None, true) => ScalarValue::Date32(None),
            (None, false) => ScalarValue::TimestampMicrosecond(None, zone.clone()),
            (Some(bytes), true) => ScalarValue::Date32(Some(day(bytes).ok_or_else(wrong)?)),
            (Some(bytes), false) => {
                ScalarValue::TimestampMicrosecond(Some(time(bytes).ok_or_else(wrong)?), zone.clone())
            }
        });
    }
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &element)))
}

/// The text of an array without spaces around its elements, which PostgreSQL ignores.
fn without_spaces(array: &[u8]) -> Bytes {
    let (mut kept, mut spaces) = (Vec::with_capacity(array.len()), 0);
    let (mut quoted, mut escaped) = (false, false);
    for &byte in array {
        let is_end = !quoted && !escaped && matches!(byte, b'{' | b'}' | b',');
        match byte {
            byte if byte.is_ascii_whitespace() && !quoted && !escaped => {
                spaces += 1;
                if matches!(kept.last(), Some(b'{' | b',')) {
                    spaces = 0;
                    continue;
                }
            }
            _ if is_end => kept.truncate(kept.len() - std::mem::take(&mut spaces)),
            _ => spaces = 0,
        }
        kept.push(byte);
        quoted ^= byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
    }
    kept.into()
}

fn is_binary(bind: &Bind, at: usize) -> bool {
    let formats = &bind.parameter_format_codes;
    formats.get(if formats.len() == 1 { 0 } else { at }).is_some_and(|&format| format == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_in_quotes_are_texts() {
        let list = text_array(r#"{"", "NULL" ,NULL,a b}"#).unwrap();
        let elements = StringArray::from(vec![Some(""), Some("NULL"), None, Some("a b")]);
        let expected = SingleRowListArrayBuilder::new(Arc::new(elements)).with_nullable(true);
        assert_eq!(list, expected.build_list_scalar());
    }

    #[test]
    fn spaces_around_elements_are_ignored() {
        for (array, kept) in [
            ("{ 1, 2 ,3 }", "{1,2,3}"),
            ("{\"p\", \"a , b\" , c d }", "{\"p\",\"a , b\",c d}"),
            ("{a\\ , \"\\\" , \"}", "{a\\ ,\"\\\" , \"}"),
            ("{}", "{}"),
        ] {
            assert_eq!(&without_spaces(array.as_bytes())[..], kept.as_bytes(), "{array}");
        }
    }
}
