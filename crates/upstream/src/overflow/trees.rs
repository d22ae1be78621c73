//! Trees of arithmetic, with checks of operations that may overflow.
//!
//! The inner nodes of a tree are operations and casts. Its leaves are columns, literals and any other
//! expression. One walk from the leaves up finds the type and the range of each part.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeRewriter};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use super::arithmetic::{Operation, checked};
use super::ranges::{self, Range};
use super::together::together;

/// A tree with more checks than this becomes one function. DataFusion asks functions for their types
/// repeatedly, which takes time cubic in the depth of nesting.
const APART_MAX: usize = 16;

/// Returns whether an expression is the top of a tree.
pub(crate) fn is_tree(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_arithmetic(*op),
        Expr::Negative(_) => true,
        _ => false,
    }
}

fn is_arithmetic(op: Operator) -> bool {
    use Operator::{
        BitwiseAnd, BitwiseOr, BitwiseShiftLeft, BitwiseShiftRight, BitwiseXor, Divide, Minus, Modulo,
        Multiply, Plus,
    };
    matches!(
        op,
        Plus | Minus
            | Multiply
            | Divide
            | Modulo
            | BitwiseAnd
            | BitwiseOr
            | BitwiseXor
            | BitwiseShiftLeft
            | BitwiseShiftRight
    )
}

/// Adds checks to the tree. `of_leaf` transforms leaves.
pub(crate) fn with_checks(
    tree: Expr,
    schema: &DFSchema,
    of_leaf: &dyn Fn(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    let mut walk = Walk { schema, of_leaf, entered: Vec::new(), left: Vec::new(), checks: 0 };
    let tree = tree.rewrite(&mut walk)?;
    match walk.checks > APART_MAX {
        true => tree.map_data(|tree| together(tree, schema)),
        false => Ok(tree),
    }
}

/// The known properties of a part's values.
struct Values {
    of: Option<DataType>,
    /// The values of an integer type if nothing overflows.
    range: Option<Range>,
}

impl Values {
    fn new(of: Option<DataType>, range: Option<Range>) -> Self {
        let range = of.as_ref().and_then(|of| ranges::within(range, of));
        Values { of, range }
    }
}

struct Walk<'a> {
    schema: &'a DFSchema,
    of_leaf: &'a dyn Fn(Expr) -> Result<Transformed<Expr>>,
    /// For each part that is entered and not yet left, whether it is a leaf.
    entered: Vec<bool>,
    /// The values of parts that are left and whose parents are not.
    left: Vec<Values>,
    checks: usize,
}

impl TreeNodeRewriter for Walk<'_> {
    type Node = Expr;

    fn f_down(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let is_leaf = match &expr {
            Expr::Cast(cast) => !cast.field.data_type().is_numeric(),
            expr => !is_tree(expr),
        };
        self.entered.push(is_leaf);
        if !is_leaf {
            return Ok(Transformed::no(expr));
        }
        let range = match &expr {
            Expr::Literal(value, _) => ranges::of_literal(value),
            _ => None,
        };
        self.left.push(Values::new(expr.get_type(self.schema).ok(), range));
        let leaf = (self.of_leaf)(expr)?;
        Ok(Transformed::new(leaf.data, leaf.transformed, TreeNodeRecursion::Jump))
    }

    fn f_up(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        if self.entered.pop() != Some(false) {
            return Ok(Transformed::no(expr));
        }
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (Some(b), Some(a)) = (self.left.pop(), self.left.pop()) else {
                    return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
                };
                let range = match (&a.range, &b.range) {
                    (Some(a), Some(b)) => ranges::of_operation(a, op, b),
                    _ => None,
                };
                let of = match (&a.of, &b.of) {
                    (Some(a), Some(b)) => BinaryTypeCoercer::new(a, &op, b).get_result_type().ok(),
                    _ => None,
                };
                // The difference of dates is an integer.
                let operation = Operation::of(op).filter(|_| a.of == of && b.of == of);
                match (operation, self.leaving(of, range)) {
                    (Some(operation), Some(of)) => {
                        self.checks += 1;
                        Ok(Transformed::yes(checked(operation, vec![*left, *right], of)))
                    }
                    _ => Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
                }
            }
            Expr::Negative(operand) => {
                let Some(of_operand) = self.left.pop() else {
                    return Ok(Transformed::no(Expr::Negative(operand)));
                };
                let range = of_operand.range.map(|range| -range.end()..=-range.start());
                match self.leaving(of_operand.of, range) {
                    Some(of) => {
                        self.checks += 1;
                        Ok(Transformed::yes(checked(Operation::Negate, vec![*operand], of)))
                    }
                    None => Ok(Transformed::no(Expr::Negative(operand))),
                }
            }
            expr => {
                let range = self.left.pop().and_then(|values| values.range);
                self.left.push(Values::new(expr.get_type(self.schema).ok(), range));
                Ok(Transformed::no(expr))
            }
        }
    }
}

impl Walk<'_> {
    /// Records the results of an operation. Returns their type if it is an integer type that they may leave.
    fn leaving(&mut self, of: Option<DataType>, range: Option<Range>) -> Option<DataType> {
        let whole = of.as_ref().and_then(ranges::of_type);
        let leaves = whole.is_some_and(|whole| {
            range.as_ref().is_none_or(|range| range.start() < whole.start() || range.end() > whole.end())
        });
        self.left.push(Values::new(of.clone(), range));
        of.filter(|_| leaves)
    }
}
