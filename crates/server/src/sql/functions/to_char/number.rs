//! Numbers formatted by PostgreSQL's templates, such as `FM999,999.00`.
//!
//! The steps follow `NUM_processor` in PostgreSQL's `formatting.c`, so that undocumented cases have equal results,
//! too. Words of language and country are those of the locale C.

use datafusion::common::{Result, exec_err};

use super::digits::{ordinal, roman, rounded};
use super::quoted;

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// `9` and `0`.
    Digit {
        zero: bool,
    },
    /// `.` and `D`.
    Point,
    /// `,` and `G`.
    Group,
    /// `S`.
    Sign,
    /// `MI`.
    Minus,
    /// `PL`.
    Plus,
    /// `SG`.
    Either,
    /// `L`.
    Currency,
    /// `TH`.
    Ordinal {
        upper: bool,
    },
    /// `RN`.
    Roman {
        upper: bool,
    },
    Text(String),
}

/// The position of the sign of `S`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SignAt {
    Nowhere,
    Before,
    After,
}

/// A parsed template.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) parts: Vec<Part>,
    /// Digits before and after the point, and the places by which V shifts the point.
    pub(super) before: usize,
    pub(super) behind: usize,
    pub(super) shift: usize,
    /// Positions, from one, of the first digit that is written even as a leading zero, and of the last such digit.
    zeros: Option<usize>,
    zeros_end: usize,
    pub(super) has_point: bool,
    pub(super) fills: bool,
    pub(super) sign: SignAt,
    digits_before_sign: usize,
    pub(super) minus: bool,
    pub(super) plus: bool,
    pub(super) brackets: bool,
    pub(super) roman: bool,
    pub(super) exponent: bool,
}

/// Words of a template. Longer ones come first.
const WORDS: [&str; 17] =
    ["EEEE", "FM", "MI", "PL", "PR", "RN", "SG", "TH", "SP", "B", "C", "D", "G", "L", "S", "V", ","];

impl Template {
    pub(super) fn read(template: &str) -> Result<Self> {
        let mut read = Template {
            parts: Vec::new(),
            before: 0,
            behind: 0,
            shift: 0,
            zeros: None,
            zeros_end: 0,
            has_point: false,
            fills: false,
            sign: SignAt::Nowhere,
            digits_before_sign: 0,
            minus: false,
            plus: false,
            brackets: false,
            roman: false,
            exponent: false,
        };
        let (mut rest, mut shifts) = (template, false);
        while let Some(c) = rest.chars().next() {
            let word = WORDS.iter().find(|word| {
                let head = rest.get(..word.len()).unwrap_or_default();
                head == **word || head == word.to_ascii_lowercase()
            });
            if let Some(word) = word {
                let upper = rest.starts_with(word);
                rest = &rest[word.len()..];
                read.word(word, upper, &mut shifts)?;
                continue;
            }
            rest = &rest[c.len_utf8()..];
            match c {
                '9' | '0' if read.brackets => return exec_err!("\"{c}\" must be ahead of \"PR\""),
                '9' | '0' => read.digit(c == '0', shifts),
                '.' => read.point(shifts)?,
                '"' => {
                    let (text, after) = quoted(rest);
                    read.parts.push(Part::Text(text));
                    rest = after;
                }
                '\\' if rest.starts_with('"') => {
                    read.parts.push(Part::Text("\"".to_owned()));
                    rest = &rest[1..];
                }
                c => read.parts.push(Part::Text(c.to_string())),
            }
        }
        Ok(read)
    }

    fn digit(&mut self, zero: bool, shifts: bool) {
        if zero {
            if self.zeros.is_none() && !self.has_point {
                self.zeros = Some(self.before + 1);
            }
        } else if shifts {
            self.shift += 1;
            self.parts.push(Part::Digit { zero });
            return;
        }
        match self.has_point {
            true => self.behind += 1,
            false => self.before += 1,
        }
        if zero {
            self.zeros_end = self.before + self.behind;
        }
        self.parts.push(Part::Digit { zero });
    }

    fn point(&mut self, shifts: bool) -> Result<()> {
        if self.has_point || shifts {
            return exec_err!("a template of a number has at most one decimal point, and none with \"V\"");
        }
        self.has_point = true;
        self.parts.push(Part::Point);
        Ok(())
    }

    fn word(&mut self, word: &str, upper: bool, shifts: &mut bool) -> Result<()> {
        match word {
            "FM" => self.fills = true,
            "D" => self.point(*shifts)?,
            "," | "G" => self.parts.push(Part::Group),
            "L" => self.parts.push(Part::Currency),
            "S" if self.sign != SignAt::Nowhere || self.plus || self.minus || self.brackets => {
                return exec_err!("\"S\" cannot be used with \"PL\", \"MI\", \"SG\", \"PR\" or twice");
            }
            "S" => {
                self.sign = if self.has_point { SignAt::After } else { SignAt::Before };
                self.digits_before_sign = self.before;
                self.parts.push(Part::Sign);
            }
            "MI" | "PL" | "SG" if self.sign != SignAt::Nowhere => {
                return exec_err!("\"S\" and \"{word}\" cannot be used together");
            }
            "MI" => {
                self.minus = true;
                self.parts.push(Part::Minus);
            }
            "PL" => {
                self.plus = true;
                self.parts.push(Part::Plus);
            }
            "SG" => {
                (self.minus, self.plus) = (true, true);
                self.parts.push(Part::Either);
            }
            "PR" if self.sign != SignAt::Nowhere || self.plus || self.minus => {
                return exec_err!("\"PR\" cannot be used with \"S\", \"PL\", \"MI\" or \"SG\"");
            }
            "PR" => self.brackets = true,
            "V" => *shifts = true,
            "RN" => {
                self.roman = true;
                self.parts.push(Part::Roman { upper });
            }
            "TH" => self.parts.push(Part::Ordinal { upper }),
            "EEEE" => self.exponent = true,
            _ => {}
        }
        Ok(())
    }

    /// Formats a number, given with all its digits, by this template.
    pub(super) fn write(&self, number: &str) -> String {
        if self.exponent {
            return self.scientific(number);
        }
        if self.roman {
            return self.roman_parts(number);
        }
        let (negative, digits) = match number.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, number),
        };
        let finite = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let before = self.before + self.shift;
        let mut text = if finite { rounded(digits, self.shift, self.behind) } else { String::new() };
        let whole = text.find('.').unwrap_or(text.len());
        let negative = negative && text.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
        let blanks = if finite { before.saturating_sub(whole) } else { 0 };
        if !finite || whole > before {
            text = format!("{}.{}", "#".repeat(before), "#".repeat(self.behind));
        }
        Writer::of(self, text, negative, before, blanks).write()
    }

    fn scientific(&self, number: &str) -> String {
        let (sign, digits) = match number.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => (if self.fills { "" } else { " " }, number),
        };
        if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return "#".repeat(self.before + self.behind + 6);
        }
        let point = digits.find('.').unwrap_or(digits.len());
        let all: String = digits.chars().filter(|&c| c != '.').collect();
        let zeros = all.len() - all.trim_start_matches('0').len();
        let (first, exponent) = match zeros < all.len() {
            true => (zeros, point as i64 - 1 - zeros as i64),
            false => (0, 0),
        };
        let (one, rest) = all[first..].split_at(1.min(all.len() - first));
        let mantissa = rounded(&format!("{one}.{rest}"), 0, self.behind);
        let below = if exponent < 0 { '-' } else { '+' };
        format!("{sign}{mantissa}e{below}{:02}", exponent.abs())
    }

    fn roman_parts(&self, number: &str) -> String {
        let text = rounded(number.trim_start_matches('-'), 0, 0);
        let value =
            text.parse::<u32>().ok().filter(|value| !number.starts_with('-') && (1..4000).contains(value));
        let roman = value.map_or("#".repeat(15), roman);
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Roman { upper } => {
                    let roman = if *upper { roman.clone() } else { roman.to_ascii_lowercase() };
                    out.push_str(&if self.fills { roman } else { format!("{roman:>15}") });
                }
                Part::Text(text) => out.push_str(text),
                _ => {}
            }
        }
        out
    }
}

/// The state of `NUM_processor`.
struct Writer<'a> {
    of: &'a Template,
    number: Vec<u8>,
    /// The next character of the number, and the current digit of the template.
    at: usize,
    current: usize,
    negative: bool,
    sign: SignAt,
    brackets: bool,
    signed: bool,
    /// Leading blanks.
    blanks: usize,
    zeros: Option<usize>,
    count: usize,
    last_relevant: Option<usize>,
    in_number: bool,
    out: String,
}

impl<'a> Writer<'a> {
    fn of(of: &'a Template, number: String, negative: bool, before: usize, blanks: usize) -> Self {
        let number = number.into_bytes();
        let (mut brackets, mut sign) = (of.brackets, of.sign);
        let signed = if of.plus || of.minus {
            of.minus
        } else {
            if !negative && of.fills {
                brackets = false;
            }
            if sign == SignAt::Before && before == of.digits_before_sign {
                sign = SignAt::After;
            }
            !negative && of.fills && of.sign == SignAt::Nowhere
        };
        let mut last_relevant = None;
        if of.fills && of.has_point {
            last_relevant = relevant(&number);
            if let Some(last) = &mut last_relevant
                && of.zeros_end > blanks
            {
                *last = (*last).max((number.len() - 1).min(of.zeros_end - blanks));
            }
        }
        let count = (of.behind + before + usize::from(!signed && blanks == 0)).saturating_sub(1);
        Writer {
            of,
            number,
            at: 0,
            current: 0,
            negative,
            sign,
            brackets,
            signed,
            blanks,
            zeros: of.zeros.map(|zeros| zeros - 1),
            count,
            last_relevant,
            in_number: false,
            out: String::new(),
        }
    }

    fn write(mut self) -> String {
        let of = self.of;
        for part in &of.parts {
            match part {
                Part::Digit { zero } => self.digit(*zero),
                Part::Point => self.digit(false),
                Part::Group if self.in_number => self.out.push(','),
                Part::Group | Part::Minus | Part::Plus if of.fills && !self.shows(part) => {}
                Part::Group => self.out.push(' '),
                Part::Minus => self.out.push(if self.negative { '-' } else { ' ' }),
                Part::Plus => self.out.push(if self.negative { ' ' } else { '+' }),
                Part::Either => self.out.push(self.sign_letter()),
                Part::Currency => self.out.push(' '),
                Part::Ordinal { upper } => {
                    if !self.negative && !of.has_point && self.number.first() != Some(&b'#') {
                        let number = String::from_utf8_lossy(&self.number).into_owned();
                        self.out.push_str(ordinal(&number, *upper));
                    }
                }
                Part::Text(text) => self.out.push_str(text),
                Part::Sign | Part::Roman { .. } => {}
            }
        }
        self.out
    }

    fn shows(&self, part: &Part) -> bool {
        match part {
            Part::Minus => self.negative,
            Part::Plus => !self.negative,
            _ => false,
        }
    }

    fn sign_letter(&self) -> char {
        if self.negative { '-' } else { '+' }
    }

    /// Returns true if a zero before the point is omitted: 0.1 formatted by 9.9 is .1.
    fn no_zero(&self) -> bool {
        self.zeros.is_none() && self.at == 0 && self.number.first() == Some(&b'0') && self.of.behind > 0
    }

    fn point_is_last(&self) -> bool {
        self.last_relevant.is_some_and(|last| self.number.get(last) == Some(&b'.'))
    }

    fn digit(&mut self, zero: bool) {
        self.in_number = false;
        let begins = self.current >= self.blanks || self.zeros == Some(self.current);
        if !self.signed && begins && (!self.no_zero() || self.point_is_last()) {
            self.write_sign();
        }
        if self.current < self.blanks {
            match self.zeros {
                Some(zeros) if zeros <= self.current => {
                    self.out.push('0');
                    self.in_number = true;
                }
                _ if !self.of.fills => self.out.push(' '),
                _ => {}
            }
        } else {
            match self.number.get(self.at) {
                Some(b'.') => self.out.push('.'),
                Some(_) if self.last_relevant.is_some_and(|last| self.at > last) && !zero => {}
                Some(_) if self.no_zero() => match (self.of.fills, self.point_is_last()) {
                    (false, _) => self.out.push(' '),
                    (true, true) => self.out.push('0'),
                    (true, false) => {}
                },
                Some(&digit) => {
                    self.out.push(char::from(digit));
                    self.in_number = true;
                }
                None => {}
            }
            self.at = (self.at + 1).min(self.number.len());
        }
        let mut end = self.count + usize::from(self.blanks > 0) + usize::from(self.of.has_point);
        if self.last_relevant == Some(self.at) {
            end = self.current;
        }
        if self.current + 1 == end {
            if self.signed && self.brackets {
                self.out.push(if self.negative { '>' } else { ' ' });
            } else if self.sign == SignAt::After {
                self.out.push(self.sign_letter());
            }
        }
        self.current += 1;
    }

    fn write_sign(&mut self) {
        match self.sign {
            SignAt::Before => self.out.push(self.sign_letter()),
            SignAt::After => return,
            SignAt::Nowhere if self.brackets => self.out.push(if self.negative { '<' } else { ' ' }),
            SignAt::Nowhere if self.negative => self.out.push('-'),
            SignAt::Nowhere if !self.of.fills => self.out.push(' '),
            SignAt::Nowhere => {}
        }
        self.signed = true;
    }
}

/// The last nonzero digit after the point, or the point.
fn relevant(number: &[u8]) -> Option<usize> {
    let point = number.iter().position(|&byte| byte == b'.')?;
    (point + 1..number.len()).rev().find(|&at| number[at] != b'0').or(Some(point))
}
