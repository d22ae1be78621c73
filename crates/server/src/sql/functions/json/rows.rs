//! The elements of a JSON array, and the names and values of an object, as lists. In FROM and in a list of columns they
//! become rows.

use std::sync::Arc;

use datafusion::arrow::array::{ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use super::tokens::{Kind, members, unescaped};
use super::{Compute, Form, normal, one_text};
use crate::sql::QueryError;
use crate::sql::arguments::Texts;
use crate::sql::functions::declared::Function;

const fn list(name: &'static str, compute: Compute) -> Function {
    let gives: fn(&[DataType]) -> DataType = |_| DataType::new_list(DataType::Utf8, true);
    Function { name, takes: one_text, gives, compute }
}

/// The functions. Those of jsonb sort names, and return values in the form of jsonb.
pub(super) const FUNCTIONS: [Function; 10] = [
    list("json_elements", |args| lists(args, Of::Elements, Form::Written)),
    list("jsonb_elements", |args| lists(args, Of::Elements, Form::Jsonb)),
    list("json_element_texts", |args| lists(args, Of::Elements, Form::Meant)),
    list("jsonb_element_texts", |args| lists(args, Of::Elements, Form::MeantJsonb)),
    list("json_keys", |args| lists(args, Of::Names, Form::Meant)),
    list("jsonb_keys", |args| lists(args, Of::Names, Form::MeantJsonb)),
    list("json_values", |args| lists(args, Of::Values, Form::Written)),
    list("jsonb_values", |args| lists(args, Of::Values, Form::Jsonb)),
    list("json_value_texts", |args| lists(args, Of::Values, Form::Meant)),
    list("jsonb_value_texts", |args| lists(args, Of::Values, Form::MeantJsonb)),
];

/// The parts that are listed.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Elements,
    Names,
    Values,
}

fn lists(args: &ScalarFunctionArgs, of: Of, form: Form) -> Result<ColumnarValue> {
    let texts = Texts::of(&args.args[0])?;
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..args.number_rows {
        let Some(text) = texts.get(row) else {
            lists.append_null();
            continue;
        };
        let sorted;
        let text = match form {
            Form::Jsonb | Form::MeantJsonb => {
                sorted = normal(text)?;
                sorted.as_str()
            }
            Form::Written | Form::Meant => text,
        };
        let kind = members(text, |name, value| {
            let part = if of == Of::Names { name.unwrap_or_default() } else { value };
            match form {
                Form::Meant | Form::MeantJsonb if part == "null" => lists.values().append_null(),
                Form::Meant | Form::MeantJsonb if part.starts_with('"') => {
                    lists.values().append_value(unescaped(part)?);
                }
                _ => lists.values().append_value(part),
            }
            Ok(())
        })?;
        let wanted = if of == Of::Elements { Kind::Array } else { Kind::Object };
        if kind != wanted {
            let wanted = if of == Of::Elements { "an array" } else { "an object" };
            let error =
                QueryError::other("22023", format!("a JSON value is not {wanted}, whose parts are listed"));
            return Err(DataFusionError::External(Box::new(error)));
        }
        lists.append(true);
    }
    Ok(ColumnarValue::Array(Arc::new(lists.finish())))
}
