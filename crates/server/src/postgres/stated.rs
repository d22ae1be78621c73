//! Parameters of types that the query engine does not have on its own: JSON, identifiers, arrays.
//!
//! Such a parameter is cast to the type that the client has stated. So it has this type in operators and in the result,
//! and its value has the form of the type.

use std::ops::ControlFlow;

use coscan_upstream::walk::visit_mut;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, Ident, Query, SelectItem, SetExpr, Value, ValueWithSpan, VisitorMut,
};
use pgwire::api::Type;

use crate::sql::ast::{cast, is_parameter};
use crate::sql::parameter_position;

/// PostgreSQL's name of a column without a name.
const NO_NAME: &str = "?column?";

/// Casts parameters of such types.
pub(super) fn cast_parameters(statement: &mut Parsed, given: &[Option<Type>]) {
    let types: Vec<Option<DataType>> = given.iter().map(|of| of.as_ref().and_then(written)).collect();
    if let Parsed::Statement(statement) = statement
        && types.iter().any(Option::is_some)
    {
        let _ = visit_mut(statement.as_mut(), &mut Casts(types));
    }
}

/// The type as it is written in a cast.
fn written(of: &Type) -> Option<DataType> {
    let element = match *of {
        Type::UUID => return Some(DataType::Uuid),
        Type::JSON => return Some(DataType::JSON),
        Type::JSONB => return Some(DataType::JSONB),
        Type::BOOL_ARRAY => DataType::Boolean,
        Type::INT2_ARRAY => DataType::SmallInt(None),
        Type::INT4_ARRAY => DataType::Integer(None),
        Type::INT8_ARRAY => DataType::BigInt(None),
        Type::FLOAT4_ARRAY => DataType::Real,
        Type::FLOAT8_ARRAY => DataType::DoublePrecision,
        Type::TEXT_ARRAY | Type::VARCHAR_ARRAY => DataType::Text,
        _ => return None,
    };
    Some(DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(element), None)))
}

/// The types of the parameters.
struct Casts(Vec<Option<DataType>>);

impl VisitorMut for Casts {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = first_branch(query.body.as_mut()) {
            for item in &mut select.projection {
                // A cast would give its name to the column.
                if let SelectItem::UnnamedExpr(expr) = item
                    && is_parameter(expr)
                {
                    let alias = Ident::with_quote('"', NO_NAME);
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Value(ValueWithSpan { value: Value::Placeholder(id), .. }) => {
                let of = parameter_position(id).ok().and_then(|at| self.0.get(at).cloned().flatten());
                if let Some(of) = of {
                    *expr = cast(expr.clone(), of);
                }
            }
            // The elements have the type of the operand.
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
                if let Expr::Cast { expr: parameter, data_type: DataType::Array(_), .. } = right.as_ref()
                    && is_parameter(parameter)
                {
                    *right = parameter.clone();
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The branch of UNION that names the columns.
fn first_branch(mut body: &mut SetExpr) -> &mut SetExpr {
    while let SetExpr::SetOperation { left, .. } = body {
        body = left.as_mut();
    }
    body
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[test]
    fn parameters_have_the_stated_types() {
        for (sql, other) in [
            ("SELECT $1", r#"SELECT CAST($1 AS UUID) AS "?column?""#),
            ("SELECT $1 || $3, $2", "SELECT CAST($1 AS UUID) || $3, $2"),
            ("SELECT 1 WHERE a = ANY($4)", "SELECT 1 WHERE a = ANY($4)"),
            ("SELECT * FROM unnest($4)", "SELECT * FROM UNNEST(CAST($4 AS INTEGER[]))"),
        ] {
            let given = [Some(Type::UUID), Some(Type::INT4), None, Some(Type::INT4_ARRAY)];
            let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
            let mut parsed = Parsed::Statement(Box::new(parsed));
            cast_parameters(&mut parsed, &given);
            assert_eq!(parsed.to_string().replace(r#", $2 AS "?column?""#, ", $2"), other);
        }
    }
}
