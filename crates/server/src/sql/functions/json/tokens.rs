//! A JSON tokenizer with PostgreSQL's syntax. Its only state is the stack of open objects and arrays, so reading a
//! large value takes little memory.

use std::borrow::Cow;

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

/// Number of characters of an invalid text in an error.
const SHOWN: usize = 60;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Number,
    Boolean,
    Null,
}

/// A token of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// The beginning of an object or array.
    Begin(Kind),
    /// The end of the innermost one.
    End,
    /// The name of a member of an object, as it is written.
    Name(&'a str),
    /// Any other value, as it is written.
    Scalar(Kind, &'a str),
}

/// The tokens that may come next.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Value,
    ValueOrEnd,
    Name,
    NameOrEnd,
    CommaOrEnd,
    Nothing,
}

/// Reads a text.
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
    open: Vec<Kind>,
    next: Next,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Tokens { text, at: 0, open: Vec::new(), next: Next::Value }
    }

    /// Number of open objects and arrays.
    fn depth(&self) -> usize {
        self.open.len()
    }

    /// The next token. `None` after the only value of a text.
    ///
    /// # Errors
    ///
    /// If the text is not JSON.
    pub(super) fn next(&mut self) -> Result<Option<Token<'a>>> {
        loop {
            self.pass_space();
            let Some(byte) = self.peek() else {
                return if self.next == Next::Nothing { Ok(None) } else { Err(self.wrong()) };
            };
            match (self.next, byte, self.open.last().copied()) {
                (Next::CommaOrEnd, b',', of) => {
                    self.next = if of == Some(Kind::Object) { Next::Name } else { Next::Value };
                    self.at += 1;
                }
                (Next::CommaOrEnd | Next::ValueOrEnd, b']', Some(Kind::Array))
                | (Next::CommaOrEnd | Next::NameOrEnd, b'}', Some(Kind::Object)) => {
                    self.at += 1;
                    self.open.pop();
                    self.value_ended();
                    return Ok(Some(Token::End));
                }
                (Next::Name | Next::NameOrEnd, b'"', _) => {
                    let name = self.string()?;
                    self.pass_space();
                    if self.take() != Some(b':') {
                        return Err(self.wrong());
                    }
                    self.next = Next::Value;
                    return Ok(Some(Token::Name(name)));
                }
                (Next::Value | Next::ValueOrEnd, byte, _) => return self.value(byte).map(Some),
                _ => return Err(self.wrong()),
            }
        }
    }

    fn value(&mut self, first: u8) -> Result<Token<'a>> {
        let begin = self.at;
        let kind = match first {
            b'{' | b'[' => {
                let (kind, next) = match first {
                    b'{' => (Kind::Object, Next::NameOrEnd),
                    _ => (Kind::Array, Next::ValueOrEnd),
                };
                self.at += 1;
                self.open.push(kind);
                self.next = next;
                return Ok(Token::Begin(kind));
            }
            b'"' => {
                self.string()?;
                Kind::String
            }
            b'-' | b'0'..=b'9' => {
                self.number()?;
                Kind::Number
            }
            _ => self.word()?,
        };
        self.value_ended();
        Ok(Token::Scalar(kind, self.since(begin)))
    }

    fn value_ended(&mut self) {
        self.next = if self.open.is_empty() { Next::Nothing } else { Next::CommaOrEnd };
    }

    fn string(&mut self) -> Result<&'a str> {
        let begin = self.at;
        self.at += 1;
        loop {
            match self.take() {
                Some(b'"') => return Ok(self.since(begin)),
                Some(b'\\') => match self.take() {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {}
                    Some(b'u') if (0..4).all(|_| self.take().is_some_and(|c| c.is_ascii_hexdigit())) => {}
                    _ => return Err(self.wrong()),
                },
                Some(0..=31) | None => return Err(self.wrong()),
                Some(_) => {}
            }
        }
    }

    fn number(&mut self) -> Result<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        // A number of several digits does not begin with zero.
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<()> {
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == begin { Err(self.wrong()) } else { Ok(()) }
    }

    fn word(&mut self) -> Result<Kind> {
        for (word, kind) in [("true", Kind::Boolean), ("false", Kind::Boolean), ("null", Kind::Null)] {
            if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(kind);
            }
        }
        Err(self.wrong())
    }

    fn pass_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += 1;
        byte
    }

    /// The text from `begin` to the current position. Tokens begin and end with ASCII, so both positions are
    /// character boundaries.
    fn since(&self, begin: usize) -> &'a str {
        self.text.get(begin..self.at).unwrap_or_default()
    }

    fn wrong(&self) -> DataFusionError {
        invalid(self.text)
    }
}

/// The error for a text that is not JSON.
fn invalid(text: &str) -> DataFusionError {
    let shown: String = text.chars().take(SHOWN).collect();
    let more = if shown.len() < text.len() { "..." } else { "" };
    exec_datafusion_err!("invalid input syntax for type json: {shown}{more}")
}

/// Reads a text to its end. Calls `each` for every member of an object or element of an array, with the name, if
/// there is one, and the value as they are written.
pub(super) fn members<'a>(
    text: &'a str,
    mut each: impl FnMut(Option<&'a str>, &'a str) -> Result<()>,
) -> Result<Kind> {
    let mut tokens = Tokens::of(text);
    let (mut whole, mut name, mut begin) = (None, None, 0);
    while let Some(token) = tokens.next()? {
        if let Token::Begin(kind) | Token::Scalar(kind, _) = token {
            whole.get_or_insert(kind);
        }
        match (token, tokens.depth()) {
            (Token::Name(written), 1) => name = Some(written),
            (Token::Begin(_), 2) => begin = tokens.at - 1,
            (Token::End, 1) => each(name.take(), tokens.since(begin))?,
            (Token::Scalar(_, value), 1) => each(name.take(), value)?,
            _ => {}
        }
    }
    whole.ok_or_else(|| invalid(text))
}

/// The decoded string between two quotes.
pub(super) fn unescaped(written: &str) -> Result<Cow<'_, str>> {
    let inside = written.get(1..written.len().saturating_sub(1)).unwrap_or_default();
    if !inside.contains('\\') {
        return Ok(Cow::Borrowed(inside));
    }
    let (mut meant, mut rest) = (String::with_capacity(inside.len()), inside);
    while let Some((plain, escaped)) = rest.split_once('\\') {
        meant.push_str(plain);
        let (letter, behind) = escaped.split_at_checked(1).ok_or_else(|| invalid(written))?;
        rest = behind;
        meant.push(match letter {
            "b" => '\u{8}',
            "f" => '\u{c}',
            "n" => '\n',
            "r" => '\r',
            "t" => '\t',
            "u" => {
                let (letter, behind) = code_point(behind).ok_or_else(|| invalid(written))?;
                if letter == '\0' {
                    return Err(exec_datafusion_err!(
                        "unsupported Unicode escape sequence: \\u0000 is no letter of a text"
                    ));
                }
                rest = behind;
                letter
            }
            itself => itself.chars().next().unwrap_or_default(),
        });
    }
    meant.push_str(rest);
    Ok(Cow::Owned(meant))
}

/// The character of four hexadecimal digits, or of eight with `\u` between them, and the rest of the text.
fn code_point(rest: &str) -> Option<(char, &str)> {
    let unit = |rest: &str| u32::from_str_radix(rest.get(..4)?, 16).ok();
    let (first, behind) = (unit(rest)?, rest.get(4..)?);
    if !(0xD800..0xDC00).contains(&first) {
        return Some((char::from_u32(first)?, behind));
    }
    let behind = behind.strip_prefix("\\u")?;
    let second = unit(behind).filter(|second| (0xDC00..0xE000).contains(second))?;
    let letter = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    Some((char::from_u32(letter)?, behind.get(4..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases are those of PostgreSQL 15.
    #[test]
    fn what_is_json_is_what_postgres_takes() {
        for (text, kind) in [
            (" {\"a\" : [1, {\"b\":null}], \"\":\"\\u00e9\\/\"}\n", Kind::Object),
            ("[]", Kind::Array),
            ("[[], {}]", Kind::Array),
            ("\"a\"", Kind::String),
            ("-0.5e+10", Kind::Number),
            ("0", Kind::Number),
            ("true", Kind::Boolean),
            ("\tnull\r", Kind::Null),
            ("\"\\ud800\"", Kind::String),
        ] {
            assert_eq!(members(text, |_, _| Ok(())).unwrap(), kind, "{text}");
        }
        for wrong in [
            "",
            " ",
            "{a}",
            "{'a':1}",
            "{\"a\"}",
            "{\"a\":1,}",
            "{\"a\":1]",
            "{1:2}",
            "[1,]",
            "[1 2]",
            "[1}",
            "[",
            "]",
            "[1]]",
            "1 x",
            "01",
            "1.",
            ".5",
            "+1",
            "1e",
            "-",
            "nan",
            "tru",
            "truex",
            "\"a",
            "\"\\x\"",
            "\"\\u00g0\"",
            "\"a\tb\"",
            "\"é",
            "é",
        ] {
            let error = members(wrong, |_, _| Ok(())).unwrap_err();
            assert!(error.to_string().contains("invalid input syntax for type json"), "{wrong}: {error}");
        }
    }

    #[test]
    fn members_are_those_of_the_outermost() {
        let text = r#"{"a": [1, {"b": 2}], "c": {}, "a" :"x"}"#;
        let mut found = Vec::new();
        members(text, |name, value| {
            found.push((name.unwrap_or("-"), value));
            Ok(())
        })
        .unwrap();
        assert_eq!(found, [("\"a\"", "[1, {\"b\": 2}]"), ("\"c\"", "{}"), ("\"a\"", "\"x\"")]);
        let mut found = Vec::new();
        members("[1, [2], \"é\"]", |name, value| {
            found.push((name.is_some(), value));
            Ok(())
        })
        .unwrap();
        assert_eq!(found, [(false, "1"), (false, "[2]"), (false, "\"é\"")]);
    }

    #[test]
    fn depth_needs_no_stack() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert_eq!(members(&deep, |_, _| Ok(())).unwrap(), Kind::Array);
    }

    #[test]
    fn escapes_are_read() {
        for (written, meant) in [
            (r#""a\"\\\/\b\f\n\r\t\u00e9z""#, "a\"\\/\u{8}\u{c}\n\r\téz"),
            (r#""\ud83d\ude00""#, "😀"),
            (r#""""#, ""),
            (r#""é""#, "é"),
        ] {
            assert_eq!(unescaped(written).unwrap(), meant, "{written}");
        }
        for wrong in [r#""\ud800""#, r#""\ud800\u0041""#, r#""\udc00""#, r#""\u0000""#] {
            assert!(unescaped(wrong).is_err(), "{wrong}");
        }
    }
}
