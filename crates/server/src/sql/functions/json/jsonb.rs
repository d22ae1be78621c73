//! The text form of PostgreSQL's jsonb. Of equal names the last value remains. Names are sorted, short ones first.
//! Commas and colons have one space after them. Numbers have no exponents.

use datafusion::common::{Result, exec_datafusion_err};

use super::tokens::{Kind, Token, Tokens, unescaped};

/// Maximum number of digits that an exponent adds to a number. PostgreSQL allows 131072, so a few letters would
/// become a long text.
pub(crate) const EXPONENT_MAX: usize = 400;

/// An open object or array.
struct Open {
    kind: Kind,
    /// The position of its members in the output.
    members: usize,
    /// The names of its members, and the end of each member.
    named: Vec<(String, usize)>,
}

/// Converts a value to this form.
///
/// # Errors
///
/// If the text is not JSON, or has a number or letter that jsonb does not allow.
pub(super) fn normal(text: &str) -> Result<String> {
    let (mut tokens, mut out) = (Tokens::of(text), String::with_capacity(text.len()));
    let mut open: Vec<Open> = Vec::new();
    while let Some(token) = tokens.next()? {
        // The separator before a value in an array. In an object, the name comes before the value.
        if let (Token::Begin(_) | Token::Scalar(..), Some(of)) = (token, open.last())
            && of.kind == Kind::Array
            && out.len() > of.members
        {
            out.push_str(", ");
        }
        match token {
            Token::Begin(kind) => {
                out.push(if kind == Kind::Object { '{' } else { '[' });
                open.push(Open { kind, members: out.len(), named: Vec::new() });
            }
            Token::Name(written) => {
                if let Some(of) = open.last_mut() {
                    let name = unescaped(written)?.into_owned();
                    push_string(&mut out, &name);
                    out.push_str(": ");
                    of.named.push((name, 0));
                }
            }
            Token::Scalar(Kind::String, written) => push_string(&mut out, &unescaped(written)?),
            Token::Scalar(Kind::Number, written) => out.push_str(&number(written)?),
            Token::Scalar(_, written) => out.push_str(written),
            Token::End => match open.pop() {
                Some(of) if of.kind == Kind::Object => {
                    put_in_order(&mut out, of);
                    out.push('}');
                }
                _ => out.push(']'),
            },
        }
        // A value ended. It belongs to the newest name of the object around it.
        if let (Token::End | Token::Scalar(..), Some(of)) = (token, open.last_mut())
            && let Some((_, end)) = of.named.last_mut()
        {
            *end = out.len();
        }
    }
    Ok(out)
}

/// Sorts the members of an object by name, and adds commas. In the output they follow each other without separators.
fn put_in_order(out: &mut String, of: Open) {
    let mut begin = of.members;
    let mut members: Vec<(&str, std::ops::Range<usize>)> = Vec::with_capacity(of.named.len());
    for (name, end) in &of.named {
        members.push((name, begin..*end));
        begin = *end;
    }
    // The sort is stable, and of equal names the last counts.
    members.sort_by(|(one, _), (other, _)| (one.len(), *one).cmp(&(other.len(), *other)));
    let mut ordered = String::with_capacity(begin - of.members + 2 * members.len());
    for (at, (name, place)) in members.iter().enumerate() {
        if members.get(at + 1).is_some_and(|(next, _)| next == name) {
            continue;
        }
        if !ordered.is_empty() {
            ordered.push_str(", ");
        }
        ordered.push_str(&out[place.clone()]);
    }
    out.truncate(of.members);
    out.push_str(&ordered);
}

fn push_string(out: &mut String, meant: &str) {
    out.push('"');
    for c in meant.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A number without an exponent, with its digits after the point.
fn number(written: &str) -> Result<String> {
    let (mantissa, exponent) = written.split_once(['e', 'E']).unwrap_or((written, "0"));
    let (minus, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", mantissa),
    };
    let (whole, behind) = digits.split_once('.').unwrap_or((digits, ""));
    let exponent = exponent.parse::<isize>().ok().filter(|exponent| exponent.unsigned_abs() <= EXPONENT_MAX);
    let Some(exponent) = exponent else {
        return Err(exec_datafusion_err!(
            "overflow: the exponent of {written} in a value of jsonb is beyond {EXPONENT_MAX}"
        ));
    };
    let mut digits = format!("{whole}{behind}");
    // The position of the point among the digits.
    let mut point = whole.len().saturating_add_signed(exponent);
    if exponent < 0 {
        let missing = exponent.unsigned_abs().saturating_sub(whole.len());
        digits.insert_str(0, &"0".repeat(missing));
    }
    while digits.len() < point {
        digits.push('0');
    }
    let zeros = digits[..point].bytes().take_while(|&digit| digit == b'0').count();
    digits.drain(..zeros);
    point -= zeros;
    let minus = if digits.bytes().all(|digit| digit == b'0') { "" } else { minus };
    let (whole, behind) = digits.split_at(point);
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(match behind {
        "" => format!("{minus}{whole}"),
        behind => format!("{minus}{whole}.{behind}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are output of PostgreSQL 15.
    #[test]
    fn values_have_the_form_of_jsonb() {
        for (text, form) in [
            (" {\"b\":1,\"a\":2} ", "{\"a\": 2, \"b\": 1}"),
            ("{\"c\": 1, \"bb\":1e2, \"b\" : 2}", "{\"b\": 2, \"c\": 1, \"bb\": 100}"),
            (
                "{\"b\":1,\"a\":1,\"b\":{\"z\":1,\"y\":[true,false]}}",
                "{\"a\": 1, \"b\": {\"y\": [true, false], \"z\": 1}}",
            ),
            ("[ ]", "[]"),
            ("[{},[],[[1],2]]", "[{}, [], [[1], 2]]"),
            ("\"\\u00e9\\n\\/\\u001f\"", "\"é\\n/\\u001f\""),
            ("null", "null"),
            ("{\"\\u0061\":1,\"a\":2}", "{\"a\": 2}"),
        ] {
            assert_eq!(normal(text).unwrap(), form, "{text}");
            assert_eq!(normal(form).unwrap(), form, "it is in that form");
        }
        for wrong in ["\"\\u0000\"", "\"\\ud800\"", "[1", "{\"a\":\"\\udc00\"}"] {
            assert!(normal(wrong).is_err(), "{wrong}");
        }
    }

    /// The values are output of PostgreSQL 15.
    #[test]
    fn numbers_have_no_exponents() {
        for (written, form) in [
            ("1.0", "1.0"),
            ("1e2", "100"),
            ("1E-3", "0.001"),
            ("-0", "0"),
            ("-0.00", "0.00"),
            ("1.50e1", "15.0"),
            ("0.1e-3", "0.0001"),
            ("12e0", "12"),
            ("1.5E+2", "150"),
            ("-12.5e-1", "-1.25"),
            ("0.00012e4", "1.2"),
            ("0e5", "0"),
            ("-123e-2", "-1.23"),
            ("123456789012345678901234567890.5", "123456789012345678901234567890.5"),
        ] {
            assert_eq!(number(written).unwrap(), form, "{written}");
        }
        assert_eq!(number("1e400").unwrap().len(), 401);
        assert_eq!(number("1e-400").unwrap().len(), 402);
        assert!(number("1e401").is_err() && number("1e99999999999999999999").is_err());
    }
}
