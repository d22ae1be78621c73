//! `to_number`: reads numbers by PostgreSQL's templates.
//!
//! The steps follow `NUM_processor` in PostgreSQL's `formatting.c`, for reading. The number is exact. It has as many
//! decimal places as its template, which has to be a constant. PostgreSQL instead omits zeros that are not in the
//! text.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Decimal128Array};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion::common::{Result, exec_datafusion_err, not_impl_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;

use super::number::{Part, SignAt, Template};

pub(super) fn register(context: &SessionContext) {
    context.register_udf(ScalarUDF::from(ToNumber(Signature::user_defined(Volatility::Immutable))));
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToNumber(Signature);

impl ScalarUDFImpl for ToNumber {
    fn name(&self) -> &str {
        "to_number"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    /// Texts keep their types, because a template with a cast would not be a constant.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let fits = |of: &DataType| of.is_string() || of.is_null();
        match types {
            [text, template] if fits(text) && fits(template) => Ok(types.to_vec()),
            _ => plan_err!("to_number() takes a text and a template"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type of to_number() follows from its template")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let template = args.scalar_arguments.get(1).copied().flatten();
        let Some(template) = template.and_then(|template| template.try_as_str()) else {
            return not_impl_err!("the template of to_number() has to be a constant, as '999.99'");
        };
        let (digits, behind) = match template {
            Some(template) => digits(&readable(template)?)?,
            None => (1, 0),
        };
        Ok(Arc::new(Field::new(self.name(), DataType::Decimal128(digits, behind), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Decimal128(precision, scale) = *args.return_field.data_type() else {
            return plan_err!("to_number() makes numbers");
        };
        let template = match &args.args[1] {
            ColumnarValue::Scalar(template) => template.try_as_str().flatten().map(readable).transpose()?,
            ColumnarValue::Array(_) => None,
        };
        let texts =
            datafusion::arrow::compute::cast(&args.args[0].to_array(args.number_rows)?, &DataType::Utf8)?;
        let read = |text: Option<&str>| match (text, &template) {
            (Some(text), Some(template)) => read(text, template, scale).map(Some),
            _ => Ok(None),
        };
        let numbers = texts.as_string::<i32>().iter().map(read).collect::<Result<Decimal128Array>>()?;
        Ok(ColumnarValue::Array(Arc::new(numbers.with_precision_and_scale(precision, scale)?)))
    }
}

fn readable(template: &str) -> Result<Template> {
    let template = Template::read(template)?;
    match (template.roman, template.exponent, template.shift) {
        (true, _, _) => not_impl_err!("\"RN\" not supported for input"),
        (_, true, _) => not_impl_err!("\"EEEE\" not supported for input"),
        (_, _, 1..) => {
            not_impl_err!("\"V\" of to_number() is not supported: divide by a power of ten instead")
        }
        _ => Ok(template),
    }
}

/// Precision and scale of the result.
fn digits(template: &Template) -> Result<(u8, i8)> {
    let all = template.before + template.behind;
    match (u8::try_from(all), i8::try_from(template.behind)) {
        (Ok(all), Ok(behind)) if all <= DECIMAL128_MAX_PRECISION => Ok((all.max(1), behind)),
        _ => not_impl_err!(
            "a template of {all} digits is not supported: {DECIMAL128_MAX_PRECISION} are the most"
        ),
    }
}

/// The number, in units of its last digit.
fn read(text: &str, template: &Template, scale: i8) -> Result<i128> {
    let mut reader = Reader { of: template, rest: text, number: String::new(), point: None, negative: None };
    for part in &template.parts {
        if reader.rest.is_empty() {
            break;
        }
        reader.part(part);
    }
    let behind = reader.point.map_or(0, |point| reader.number.len() - point);
    let zeros = usize::try_from(scale).unwrap_or_default().saturating_sub(behind);
    let digits = format!("{}{}", reader.number, "0".repeat(zeros));
    let number = digits.parse::<i128>().ok().filter(|_| !reader.number.is_empty());
    let number =
        number.ok_or_else(|| exec_datafusion_err!("invalid input syntax for type numeric: {text:?}"))?;
    Ok(if reader.negative == Some(true) { -number } else { number })
}

struct Reader<'a> {
    of: &'a Template,
    rest: &'a str,
    /// The digits read so far.
    number: String,
    /// The number of digits before the point, once the point was read.
    point: Option<usize>,
    /// `None` until a sign was read.
    negative: Option<bool>,
}

impl Reader<'_> {
    fn next(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self) {
        let mut rest = self.rest.chars();
        rest.next();
        self.rest = rest.as_str();
    }

    /// Skips up to `count` characters that are not part of a number.
    fn skip_others(&mut self, count: usize) {
        for _ in 0..count {
            match self.next() {
                Some(c) if !c.is_ascii_digit() && !matches!(c, '.' | ',' | '+' | '-') => self.skip(),
                _ => break,
            }
        }
    }

    fn sign(&mut self, minus: bool, plus: bool) -> bool {
        match self.next() {
            Some('-') if minus => self.negative = Some(true),
            Some('+') if plus => self.negative = Some(false),
            _ => return false,
        }
        self.skip();
        true
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Digit { .. } => self.digit(true),
            Part::Point => self.digit(false),
            Part::Group => {
                if !self.of.fills && self.next() == Some(',') {
                    self.skip();
                }
            }
            Part::Currency => self.skip_others(1),
            Part::Ordinal { .. } => self.skip_others(2),
            Part::Minus | Part::Plus | Part::Either => {
                if !self.sign(*part != Part::Plus, *part != Part::Minus) {
                    self.skip_others(1);
                }
            }
            Part::Text(text) => text.chars().for_each(|_| self.skip()),
            Part::Sign | Part::Roman { .. } => {}
        }
    }

    /// Reads a digit or the point, with a sign before or after it.
    fn digit(&mut self, is_digit: bool) {
        if self.next() == Some(' ') {
            self.skip();
        }
        if self.negative.is_none() && is_digit && self.number.is_empty() {
            let by_word = self.of.sign == SignAt::Before;
            if !by_word && self.of.brackets && self.next() == Some('<') {
                self.negative = Some(true);
                self.skip();
            } else {
                self.sign(true, true);
            }
        }
        let Some(c) = self.next() else { return };
        let mut is_read = false;
        if c.is_ascii_digit() {
            if self.point.is_some_and(|point| self.number.len() - point == self.of.behind) {
                self.skip();
                return;
            }
            self.number.push(c);
            is_read = true;
        } else if c == '.' && self.of.has_point && self.point.is_none() {
            self.point = Some(self.number.len());
            is_read = true;
        }
        let signed_word = self.of.sign != SignAt::Nowhere;
        if self.negative.is_none() && !self.number.is_empty() {
            if signed_word && is_read {
                // The sign of S may come after the last digit of the text.
                let behind = self.rest.get(c.len_utf8()..).and_then(|rest| rest.chars().next());
                if let Some(sign @ ('-' | '+')) = behind {
                    self.negative = Some(sign == '-');
                    self.skip();
                }
            } else if !is_read && !signed_word && (self.of.plus || self.of.minus) && matches!(c, '-' | '+') {
                // The sign of MI, PL and SG may come before further digits of the template.
                self.negative = Some(c == '-');
            }
        }
        self.skip();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str, template: &str) -> Result<(i128, i8)> {
        let template = readable(template)?;
        let (_, scale) = digits(&template)?;
        Ok((read(text, &template, scale)?, scale))
    }

    /// The values are output of PostgreSQL 15.
    #[test]
    fn numbers_are_those_of_postgres() {
        for (text, template, value, scale) in [
            ("12,454.8-", "99G999D9S", -124_548, 1),
            ("1,234.56", "9,999.99", 123_456, 2),
            ("-12.5", "S99.9", -125, 1),
            ("$1,234", "L9,999", 1234, 0),
            ("  12 ", "9999", 12, 0),
            ("<7>", "9PR", -7, 0),
            ("17%", "99%", 17, 0),
            ("12-", "99MI", -12, 0),
            ("5.01-", "FM9.999999MI", -5_010_000, 6),
            ("5-", "SG99", -5, 0),
            ("5-", "99", 5, 0),
            ("5-1", "999", 51, 0),
            ("5-1", "99MI", -5, 0),
            ("+5-", "999MI", 5, 0),
            ("5-+", "99SG", 5, 0),
            ("<1,234.5>", "9G999D9PR", -12_345, 1),
            ("12 34", "99 99", 1234, 0),
            (".5", "9.9", 5, 1),
            ("5th", "9th", 5, 0),
            ("-7", "SG9", -7, 0),
            ("+7", "PL9", 7, 0),
            ("ab12", "\"ab\"99", 12, 0),
            ("- 12", "99", -1, 0),
            ("1,2,3", "999", 12, 0),
            ("1.5", "9D99", 150, 2),
        ] {
            assert_eq!(number(text, template).unwrap(), (value, scale), "{text} by {template}");
        }
        for (text, template) in
            [("x", "9"), ("", "9"), ("5", "RN"), ("12", "9V9"), ("1", "9".repeat(39).as_str())]
        {
            assert!(number(text, template).is_err(), "{text} by {template}");
        }
    }
}
