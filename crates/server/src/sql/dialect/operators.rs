//! Operators that the query engine plans as functions or as other operators, and slices of arrays.

use datafusion::sql::sqlparser::ast::{AccessExpr, BinaryOperator, DataType, Expr, Subscript, UnaryOperator};

use super::calls::either;
use crate::sql::ast::{binary, call, is_parameter, literal, nested, number, text};

/// An index beyond every array.
const BEYOND: &str = "2147483647";

/// The expression in place of such an operator. Fills in the bounds of a slice.
pub(super) fn replaced(expr: &mut Expr) -> Option<Expr> {
    match expr {
        Expr::UnaryOp { op, expr } => {
            let of = expr.as_ref().clone();
            Some(match op {
                // All bits of -1 are set.
                UnaryOperator::BitwiseNot => {
                    nested(binary(nested(of), BinaryOperator::PGBitwiseXor, minus_one()))
                }
                UnaryOperator::PGAbs => call("abs", vec![of]),
                UnaryOperator::PGSquareRoot => call("sqrt", vec![of]),
                UnaryOperator::PGCubeRoot => call("cbrt", vec![of]),
                _ => return None,
            })
        }
        Expr::BinaryOp { left, op, right } => match op {
            BinaryOperator::PGStartsWith => {
                Some(call("starts_with", vec![left.as_ref().clone(), right.as_ref().clone()]))
            }
            BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch => {
                change_pattern(right);
                None
            }
            BinaryOperator::Overlaps => match (left.as_ref(), right.as_ref()) {
                (Expr::Tuple(one), Expr::Tuple(other)) => overlap(one, other),
                _ => None,
            },
            _ => None,
        },
        Expr::CompoundFieldAccess { root, access_chain } => {
            // `(t).a` is a column of the table t, or a field of the column t.
            if let (Expr::Nested(of), [AccessExpr::Dot(Expr::Identifier(field))]) =
                (root.as_ref(), &access_chain[..])
                && let Expr::Identifier(row) = of.as_ref()
            {
                return Some(Expr::CompoundIdentifier(vec![row.clone(), field.clone()]));
            }
            for access in access_chain {
                match access {
                    // The query engine counts negative places from the end.
                    AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) => {
                        at_least("1", lower_bound.get_or_insert_with(|| number("1")));
                        at_least("0", upper_bound.get_or_insert_with(|| number(BEYOND)));
                    }
                    AccessExpr::Subscript(Subscript::Index { index }) if !is_place(index) => {
                        *index = call("greatest", vec![index.clone(), number("0")]);
                    }
                    _ => {}
                }
            }
            None
        }
        _ => None,
    }
}

/// Groups signs and other operators before an operand as PostgreSQL does: `-2 ^ 2` is `(-2) ^ 2`, and `@ -5 + 3` is
/// `@ (-5 + 3)`. The parser has it the other way.
pub(super) fn precedence(expr: &mut Expr) {
    match expr {
        Expr::UnaryOp { op: op @ (UnaryOperator::Minus | UnaryOperator::Plus), expr: power }
            if matches!(**power, Expr::BinaryOp { op: BinaryOperator::PGExp, .. }) =>
        {
            let (op, mut power) = (*op, std::mem::replace(&mut **power, minus_one()));
            let first = first_operand(&mut power, |op| *op == BinaryOperator::PGExp);
            let of = std::mem::replace(first, minus_one());
            *first = nested(Expr::UnaryOp { op, expr: Box::new(of) });
            *expr = power;
        }
        Expr::BinaryOp { op, .. } if is_arithmetic(op) => {
            let first = first_operand(expr, is_arithmetic);
            let Expr::UnaryOp { op, expr: of } = first else { return };
            if !is_named_operator(op) {
                return;
            }
            let (op, of) = (*op, std::mem::replace(&mut **of, minus_one()));
            *first = of;
            let all = nested(std::mem::replace(expr, minus_one()));
            *expr = Expr::UnaryOp { op, expr: Box::new(all) };
        }
        _ => {}
    }
}

/// The first operand of a chain of such operators.
fn first_operand(expr: &mut Expr, of: impl Fn(&BinaryOperator) -> bool) -> &mut Expr {
    let mut first = expr;
    while matches!(first, Expr::BinaryOp { op, .. } if of(op)) {
        let Expr::BinaryOp { left, .. } = first else { unreachable!("it was just matched") };
        first = left;
    }
    first
}

fn is_arithmetic(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, PGExp, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo | PGExp)
}

fn is_named_operator(op: &UnaryOperator) -> bool {
    use UnaryOperator::{BitwiseNot, PGAbs, PGCubeRoot, PGSquareRoot};
    matches!(op, BitwiseNot | PGAbs | PGSquareRoot | PGCubeRoot)
}

/// Replaces `BETWEEN SYMMETRIC`, which `sql::parsable` has marked at the beginning of the first bound.
pub(super) fn symmetric(expr: &mut Expr) {
    let Expr::Between { expr: of, negated, low, high } = expr else { return };
    if !take_mark(low) {
        return;
    }
    let within = |low: &Expr, high: &Expr| {
        let above = binary(nested((**of).clone()), BinaryOperator::GtEq, nested(low.clone()));
        let below = binary(nested((**of).clone()), BinaryOperator::LtEq, nested(high.clone()));
        nested(binary(above, BinaryOperator::And, below))
    };
    let either = nested(binary(within(low, high), BinaryOperator::Or, within(high, low)));
    *expr = match *negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(either) },
        false => either,
    };
}

/// Removes the operator from the beginning of an expression. Returns whether it was there.
fn take_mark(expr: &mut Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::PGPrefixFactorial, expr: of } => {
            *expr = of.as_ref().clone();
            true
        }
        Expr::BinaryOp { left: of, .. }
        | Expr::Cast { expr: of, .. }
        | Expr::Collate { expr: of, .. }
        | Expr::AtTimeZone { timestamp: of, .. }
        | Expr::CompoundFieldAccess { root: of, .. } => take_mark(of),
        _ => false,
    }
}

/// Brings a constant pattern into the query engine's syntax: a point matches a line's end, too, and words begin at `\m`
/// and end at `\M`.
pub(super) fn change_pattern(pattern: &mut Expr) {
    let Some(written) = text(pattern) else { return };
    let (mut changed, mut rest, mut has_point) = (String::new(), written.chars(), false);
    while let Some(c) = rest.next() {
        has_point |= c == '.';
        if c != '\\' {
            changed.push(c);
            continue;
        }
        match rest.next() {
            Some('m') => changed.push_str(r"\b{start}"),
            Some('M') => changed.push_str(r"\b{end}"),
            Some('y') => changed.push_str(r"\b"),
            Some('Y') => changed.push_str(r"\B"),
            Some('Z') => changed.push_str(r"\z"),
            Some(escaped) => changed.extend(['\\', escaped]),
            None => changed.push('\\'),
        }
    }
    if has_point {
        changed.insert_str(0, "(?s)");
    }
    if changed != written {
        *pattern = literal(changed);
    }
}

/// Replaces a bound of a slice that is below the least one. NULL stays.
fn at_least(least: &str, bound: &mut Expr) {
    if !is_place(bound) {
        let is_below = binary(nested(bound.clone()), BinaryOperator::Lt, number(least));
        *bound = either(is_below, number(least), bound.clone());
    }
}

/// Returns whether an index is a constant that is not negative, or the name of a field.
fn is_place(index: &Expr) -> bool {
    matches!(index, Expr::Value(_)) && !is_parameter(index)
}

fn minus_one() -> Expr {
    nested(Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number("1")) })
}

/// `(begin, end) OVERLAPS (begin, end)`. Ends may come first, and an end may be an interval. A period does not have
/// its end, unless it has no length.
fn overlap(one: &[Expr], other: &[Expr]) -> Option<Expr> {
    let period = |of: &[Expr]| {
        let [begin, end] = of else { return None };
        let end = match end {
            span if is_interval(span) => nested(binary(begin.clone(), BinaryOperator::Plus, span.clone())),
            end => end.clone(),
        };
        let ends = || vec![begin.clone(), end.clone()];
        Some((call("least", ends()), call("greatest", ends())))
    };
    let ((begin, end), (other_begin, other_end)) = (period(one)?, period(other)?);
    let together = binary(begin.clone(), BinaryOperator::Eq, other_begin.clone());
    let before = binary(begin, BinaryOperator::Lt, other_end);
    let behind = binary(other_begin, BinaryOperator::Lt, end);
    let shared = nested(binary(before, BinaryOperator::And, behind));
    Some(nested(binary(together, BinaryOperator::Or, shared)))
}

fn is_interval(of: &Expr) -> bool {
    match of {
        Expr::Interval(_) => true,
        Expr::Nested(of) => is_interval(of),
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::Interval { .. }),
        _ => false,
    }
}
