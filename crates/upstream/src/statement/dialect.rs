//! The parser for PostgreSQL's syntax.
//!
//! sqlparser 0.62 reads each argument of a function twice, in case its name is an expression, so it reads a call within n calls 2^n
//! times. Names of arguments are words in PostgreSQL. The dialect here is that of sqlparser in all else.

use std::any::TypeId;

use datafusion::common::Result;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::Statement as Ast;
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// Maximum depth of parentheses, subqueries and other nested forms.
const DEPTH_MAX: usize = 200;

/// Parses the statements of a text in PostgreSQL's syntax.
///
/// # Errors
///
/// If one is invalid, or nested too deeply.
pub fn parse_postgresql(sql: &str) -> Result<Vec<Ast>, ParserError> {
    let dialect = PostgreSql(PostgreSqlDialect {});
    Parser::new(&dialect).with_recursion_limit(DEPTH_MAX).try_with_sql(sql)?.parse_statements()
}

/// Parses the statements of a text, also those that only DataFusion has, such as CREATE EXTERNAL TABLE.
///
/// # Errors
///
/// As [`parse_postgresql`].
pub fn parse_statements(sql: &str) -> Result<Vec<Statement>> {
    let dialect = PostgreSql(PostgreSqlDialect {});
    let parser = DFParserBuilder::new(sql).with_dialect(&dialect).with_recursion_limit(DEPTH_MAX).build();
    Ok(parser?.parse_statements()?.into())
}

#[derive(Debug)]
struct PostgreSql(PostgreSqlDialect);

/// Methods whose answer is that of sqlparser's dialect: all that it defines.
macro_rules! same {
    ($($method:ident,)*) => {
        $(fn $method(&self) -> bool {
            self.0.$method()
        })*
    };
}

impl Dialect for PostgreSql {
    /// The parser asks which dialect it has.
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    same! {
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        self.0.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        self.0.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        self.0.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        self.0.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, word: Keyword) -> bool {
        self.0.is_reserved_for_identifier(word)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        self.0.is_custom_operator_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        self.0.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        self.0.prec_value(precedence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_calls_are_read_once() {
        let sql = format!("SELECT {}1{}, make_interval(days => 3)", "abs(".repeat(100), ")".repeat(100));
        assert_eq!(parse_postgresql(&sql).unwrap().len(), 1);
        let deep = format!("SELECT {}1{}", "(".repeat(1000), ")".repeat(1000));
        assert_eq!(parse_postgresql(&deep), Err(ParserError::RecursionLimitExceeded));
    }

    #[test]
    fn statements_are_those_of_the_dialect_of_sqlparser() {
        for sql in [
            "SELECT a->>'b', c::int[], E'\\n', U&'\\0061', x'ff', 1_000, \"A b\", $1, !! 5 FROM t /* a /* b */ */",
            "SELECT sum(a) FILTER (WHERE b), trim(x, 'y'), array_agg(a ORDER BY b), position('a' IN b) FROM t",
            "EXPLAIN (ANALYZE, FORMAT JSON) SELECT 1; LISTEN a; SET NAMES 'utf8'; COMMENT ON TABLE t IS 'x'",
            "SELECT a << 2, a # b, a ~* b, a @> b, a ISNULL, date '2024-01-01' + interval '1' day FROM t",
        ] {
            let of_library = Parser::parse_sql(&PostgreSqlDialect {}, sql);
            assert_eq!(parse_postgresql(sql), of_library, "{sql}");
        }
    }
}
