//! The statements of a text, for the query engine or for the protocol.
//!
//! Clients query PostgreSQL's catalogs with statements that the query engine cannot plan unchanged. `catalog`
//! rewrites them. Some of its rewrites change the meaning of a query, so they apply only to statements that read no
//! table of the user; see `touches_tables`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use coscan_upstream::walk::visit_relations;
use coscan_upstream::{parse_postgresql, parse_statements, with_options};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    self, AlterTableOperation, CloseCursor, CopyOption, CopySource, CopyTarget, DeclareType, FetchDirection,
    RenameTableNameKind, Reset, Set, SetSessionAuthorizationParamKind, Statement as Ast,
    TransactionAccessMode, TransactionMode, Value,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::block::{ISOLATION, Modes, READ_ONLY, Transact};
use super::catalog;
use super::copy::{self, CopyFormat};
use super::objects;
use super::regclass;
use crate::sql::ast::folded;
use crate::sql::{
    QueryError, Session, check_collations, check_nesting, given_names, is_move, keep_names, parsable,
    settings,
};

/// A statement, with a plan if the query engine runs it.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    /// The query engine runs it.
    Plan(Box<LogicalPlan>),
    /// BEGIN, COMMIT, ROLLBACK, SET TRANSACTION, or a statement about savepoints.
    Transact(Transact),
    /// An accepted statement without effect.
    Accepted(&'static str),
    /// ALTER TABLE of one name to another.
    Rename { from: String, to: String },
    /// SET of one variable, with its values as written. `local`: up to the end of the transaction.
    Set { variable: String, value: String, local: bool },
    /// RESET of one variable or of all.
    Reset(Option<String>),
    /// SHOW of one variable.
    Show(String),
    /// COPY ... TO STDOUT.
    CopyOut(Box<LogicalPlan>, CopyFormat),
    /// DECLARE ... CURSOR FOR. `holds`: WITH HOLD. `binary`: BINARY.
    Declare { cursor: String, holds: bool, binary: bool, plan: Box<LogicalPlan> },
    /// FETCH, or MOVE, which returns no rows.
    Fetch { cursor: String, steps: Steps, moves: bool },
    /// CLOSE of one cursor or of all.
    Close(Option<String>),
    /// PREPARE: the statement's name, the stated types of its parameters, and its text.
    Prepare { name: String, types: Vec<ast::DataType>, sql: String },
    /// EXECUTE of the statement with this name, with these arguments. `explains`: the plan of an EXPLAIN of it, about
    /// another plan.
    Execute { name: String, arguments: Vec<ast::Expr>, explains: Option<Box<LogicalPlan>> },
    /// DEALLOCATE of one statement or of all.
    Deallocate(Option<String>),
    /// DISCARD ALL.
    DiscardAll,
}

/// The rows of a FETCH or MOVE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steps {
    /// The next rows. `None`: all.
    Next(Option<usize>),
    /// The row so many rows further on.
    Further(usize),
    /// The row at this place, from 1.
    At(usize),
}

impl Steps {
    /// The rows to skip and the rows to take, behind so many rows.
    pub(crate) fn behind(self, passed: usize) -> Result<(usize, Option<usize>), QueryError> {
        Ok(match self {
            Steps::Next(rows) => (0, rows),
            Steps::Further(rows) => (rows.saturating_sub(1), Some(1)),
            Steps::At(row) => (row.checked_sub(passed + 1).ok_or_else(wrong_fetch)?, Some(1)),
        })
    }
}

/// Parses the statements of a text. Does not plan them.
pub(crate) async fn read(session: &Arc<Session>, sql: &str) -> Result<Vec<Parsed>, QueryError> {
    let (of, sql) = (session.clone(), with_options(sql).into_owned());
    let reading = async move { check_nesting(&sql).and_then(|()| parsed(&of, &sql)) };
    session.planning(reading).await?
}

fn parsed(session: &Session, sql: &str) -> Result<Vec<Parsed>, QueryError> {
    let mut sql = parsable(objects::replaced(sql).unwrap_or(sql));
    let mut plain = parse_postgresql(&sql);
    if plain.is_err()
        && let Some(other) = without_collations(&sql)
    {
        plain = parse_postgresql(&other);
        sql = other.into();
    }
    let mut names = Vec::new();
    if let Ok(statements) = &mut plain {
        names.extend(statements.iter_mut().map(|statement| match statement {
            Ast::Query(query) => given_names(query),
            _ => Vec::new(),
        }));
        let numbers = statements.iter().any(|statement| touches_tables(session, statement));
        let named = regclass::named(statements, &|name| is_relation(session, name), numbers)?;
        if objects::resolved(statements)? || named {
            sql = statements.iter().map(ToString::to_string).collect::<Vec<_>>().join(";\n").into();
        }
    }
    // Rewrites keep the names of columns.
    let named = |mut statements: Vec<Ast>| {
        for (statement, names) in statements.iter_mut().zip(&names) {
            if let Ast::Query(query) = statement {
                keep_names(query, names);
            }
        }
        wrapped(statements)
    };
    let sql = sql.as_ref();
    let is_own = |ast: &Ast| {
        matches!(ast, Ast::CreateTable(table) if table.external)
            || matches!(
                ast,
                Ast::Copy { target: CopyTarget::File { .. } | CopyTarget::Program { .. }, to: true, .. }
            )
    };
    match plain {
        Ok(statements) if statements.iter().any(is_own) => match &statements[..] {
            [Ast::Copy { source, target: CopyTarget::File { filename }, options, legacy_options, .. }]
                if !options.is_empty() || !legacy_options.is_empty() =>
            {
                let mut options = options.clone();
                options.extend(copy::without_parentheses(legacy_options)?);
                Ok(vec![Parsed::CopyTo(copy::to_file(source, filename, &options)?)])
            }
            _ => own(sql),
        },
        Ok(statements) if statements.iter().any(|statement| touches_tables(session, statement)) => {
            Ok(named(statements))
        }
        Ok(statements) => {
            // The rewrites for catalogs leave out collations.
            check_collations(&statements)?;
            Ok(named(catalog::read(sql, Some(&statements)).unwrap_or(statements)))
        }
        Err(error) => match catalog::read(sql, None) {
            Ok(statements) if !statements.iter().any(|statement| touches_tables(session, statement)) => {
                Ok(wrapped(statements))
            }
            _ => own(sql).map_err(|_| QueryError::syntax(sql, &error)),
        },
    }
}

/// The text without `COLLATE "C"`. The parser does not take it after `x::type`. Texts are ordered by their bytes in any
/// case. `None` if there is nothing to leave out.
fn without_collations(sql: &str) -> Option<String> {
    let mut tokens = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).ok()?.into_tokens();
    let (mut kept, before): (Vec<Token>, _) = (Vec::new(), tokens.len());
    tokens.reverse();
    let next = |tokens: &mut Vec<TokenWithSpan>| tokens.pop().map(|token| token.token);
    while let Some(token) = next(&mut tokens) {
        let is_collation = |of: &TokenWithSpan| matches!(&of.token, Token::Word(word) if matches!(word.value.as_str(), "C" | "POSIX" | "default"));
        let name = tokens.iter().rposition(|of| !matches!(of.token, Token::Whitespace(_)));
        match (&token, name) {
            (Token::Word(word), Some(name))
                if word.keyword == Keyword::COLLATE && is_collation(&tokens[name]) =>
            {
                tokens.truncate(name);
            }
            _ => kept.push(token),
        }
    }
    (kept.len() < before).then(|| kept.iter().map(ToString::to_string).collect())
}

/// Returns true if the user sees a relation of this name.
fn is_relation(session: &Session, name: &str) -> bool {
    let database = session.context().copied_config().options().catalog.default_catalog.clone();
    let of_catalog = || session.context().catalog(&database)?.schema("pg_catalog");
    session.tables().iter().any(|table| table == name) || of_catalog().is_some_and(|of| of.table_exist(name))
}

fn wrapped(statements: Vec<Ast>) -> Vec<Parsed> {
    statements.into_iter().map(|statement| Parsed::Statement(Box::new(statement))).collect()
}

/// Statements of the query engine's own dialect, such as CREATE EXTERNAL TABLE.
fn own(sql: &str) -> Result<Vec<Parsed>, QueryError> {
    Ok(parse_statements(sql)?)
}

/// Returns true if a statement reads a relation outside PostgreSQL's catalogs: a table of the session, or a missing
/// one.
fn touches_tables(session: &Session, statement: &Ast) -> bool {
    let tables: BTreeSet<String> = session.tables().into_iter().collect();
    let touched = visit_relations(statement, |relation| {
        let parts: Vec<String> = relation.0.iter().map(|part| part.to_string().replace('"', "")).collect();
        let schema = parts.len().checked_sub(2).map(|at| parts[at].to_ascii_lowercase());
        let of_catalog = matches!(schema.as_deref(), Some("pg_catalog" | "information_schema"));
        let name = parts.last().cloned().unwrap_or_default();
        if !of_catalog && (tables.contains(&name) || tables.contains(&name.to_ascii_lowercase())) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    touched.is_break()
}

/// Plans a statement and checks that the user may run it. `stated` has the parameter types that the client has
/// stated.
pub(crate) async fn plan(
    session: &Arc<Session>,
    parsed: Parsed,
    stated: &[Option<DataType>],
) -> Result<Statement, QueryError> {
    let Parsed::Statement(ast) = &parsed else { return planned(session, parsed, stated).await };
    if let Some((name, arguments)) = execution(ast) {
        return Ok(Statement::Execute { name, arguments, explains: None });
    }
    if let Ast::Explain { statement: of, .. } = ast.as_ref()
        && let Some((name, arguments)) = execution(of)
    {
        let plan = session.plan_statement(explained_otherwise(ast)?, &[]).await?;
        return Ok(Statement::Execute { name, arguments, explains: Some(Box::new(plan)) });
    }
    let name = folded;
    Ok(match ast.as_ref() {
        Ast::StartTransaction { begin, modes, .. } => {
            let tag = if *begin { "BEGIN" } else { "START TRANSACTION" };
            Statement::Transact(Transact::Begin { tag, modes: self::modes(modes) })
        }
        Ast::Commit { chain, .. } => Statement::Transact(Transact::Commit { chain: *chain }),
        Ast::Rollback { savepoint: None, chain } => Statement::Transact(Transact::Rollback { chain: *chain }),
        Ast::Rollback { savepoint: Some(to), .. } => Statement::Transact(Transact::RollbackTo(name(to))),
        Ast::Savepoint { name: of } => Statement::Transact(Transact::Savepoint(name(of))),
        Ast::ReleaseSavepoint { name: of } => Statement::Transact(Transact::Release(name(of))),
        Ast::LISTEN { .. } | Ast::NOTIFY { .. } => {
            let text = "coscan has no notifications: LISTEN and NOTIFY are not supported";
            return Err(QueryError::unsupported(text));
        }
        Ast::UNLISTEN { .. } => Statement::Accepted("UNLISTEN"),
        Ast::Reset(reset) => match &reset.reset {
            Reset::ALL => Statement::Reset(None),
            Reset::ConfigurationParameter(name) => match variable(name) {
                of_engine if settings::is_of_engine(&of_engine) => {
                    return planned(session, parsed, stated).await;
                }
                // A session keeps its user.
                user if user == "session_authorization" => Statement::Accepted("RESET"),
                variable => Statement::Reset(Some(variable)),
            },
        },
        Ast::AlterTable(ast::AlterTable { name: from, operations, .. }) => match operations.as_slice() {
            [AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(to) }] => {
                Statement::Rename { from: last_of(from), to: last_of(to) }
            }
            _ => {
                let text =
                    "tables are files and read-only: of ALTER TABLE, only RENAME TO of a view is supported";
                return Err(QueryError::other("0A000", text));
            }
        },
        Ast::Discard { object_type: ast::DiscardObject::ALL } => Statement::DiscardAll,
        Ast::Discard { object_type } => Statement::Accepted(match object_type {
            ast::DiscardObject::PLANS => "DISCARD PLANS",
            ast::DiscardObject::SEQUENCES => "DISCARD SEQUENCES",
            _ => "DISCARD TEMP",
        }),
        Ast::Deallocate { name, .. } => {
            let all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
            Statement::Deallocate((!all).then(|| folded(name)))
        }
        Ast::Prepare { name: of, data_types, statement } => {
            Statement::Prepare { name: folded(of), types: data_types.clone(), sql: statement.to_string() }
        }
        Ast::Close { cursor: CloseCursor::All } => Statement::Close(None),
        Ast::Close { cursor: CloseCursor::Specific { name: cursor } } => Statement::Close(Some(name(cursor))),
        Ast::Fetch { name: cursor, direction, into, .. } => {
            let moves = is_move(into.as_ref());
            if into.is_some() && !moves {
                return Err(QueryError::other("42601", "syntax error at or near \"INTO\""));
            }
            Statement::Fetch { cursor: name(cursor), steps: steps(direction)?, moves }
        }
        Ast::Declare { stmts } => return declare(session, stmts, stated).await,
        Ast::Set(set) => return assignment(session, set, &parsed).await,
        Ast::ShowVariable { variable } => {
            let words: Vec<String> = variable.iter().map(|word| word.value.to_ascii_lowercase()).collect();
            match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["time", "zone"] => Statement::Show("timezone".to_owned()),
                ["transaction", "isolation", "level"] => Statement::Show("transaction_isolation".to_owned()),
                [one] if !matches!(one, "all") => Statement::Show(one.to_owned()),
                ["coscan" | "datafusion", ..] => {
                    let name = words.join(".");
                    let plan = session.plan_statement(parsed, stated).await?;
                    return Ok(Statement::Plan(Box::new(only_value(plan, name)?)));
                }
                [_, _, ..] => Statement::Show(words.join(".")),
                _ => return planned(session, parsed, stated).await,
            }
        }
        Ast::Copy { source, to: true, target: CopyTarget::Stdout, options, legacy_options, .. } => {
            let mut options = options.clone();
            options.extend(copy::without_parentheses(legacy_options)?);
            return copy_out(session, source, &options, stated).await;
        }
        Ast::Copy { to: false, .. } => {
            return Err(QueryError::other(
                "0A000",
                "COPY FROM is not supported: tables are Parquet files and read-only",
            ));
        }
        _ => return planned(session, parsed, stated).await,
    })
}

/// The name and the arguments of an EXECUTE.
fn execution(statement: &Ast) -> Option<(String, Vec<ast::Expr>)> {
    match statement {
        Ast::Execute { name: Some(of), parameters, using, immediate: false, .. } if using.is_empty() => {
            let name = of.0.iter().filter_map(|part| part.as_ident()).map(folded);
            Some((name.collect::<Vec<_>>().join("."), parameters.clone()))
        }
        _ => None,
    }
}

/// The EXPLAIN, with its options, of a statement that needs nothing.
fn explained_otherwise(explain: &Ast) -> Result<Parsed, QueryError> {
    let mut other = explain.clone();
    let row = parse_postgresql("SELECT 1").map_err(|error| QueryError::syntax("SELECT 1", &error))?.pop();
    if let (Ast::Explain { statement, .. }, Some(row)) = (&mut other, row) {
        **statement = row;
    }
    Ok(Parsed::Statement(Box::new(other)))
}

/// Returns whether a statement is accepted after a failure in a transaction.
pub(crate) fn ends_failure(parsed: &Parsed) -> bool {
    let Parsed::Statement(ast) = parsed else { return false };
    matches!(ast.as_ref(), Ast::Commit { .. } | Ast::Rollback { .. })
}

/// The name of a variable.
fn variable(name: &ast::ObjectName) -> String {
    name.to_string().replace('"', "").to_ascii_lowercase()
}

/// The name of a table without its schema.
fn last_of(name: &ast::ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default()
}

async fn planned(
    session: &Session,
    parsed: Parsed,
    stated: &[Option<DataType>],
) -> Result<Statement, QueryError> {
    Ok(Statement::Plan(Box::new(session.plan_statement(parsed, stated).await?)))
}

/// The value of a setting of the query engine, as a column with its name.
fn only_value(plan: LogicalPlan, name: String) -> Result<LogicalPlan, QueryError> {
    let value = Expr::Column(Column::from_name("value")).alias(name);
    Ok(LogicalPlanBuilder::from(plan).project([value])?.build()?)
}

async fn query(
    session: &Arc<Session>,
    sql: String,
    stated: &[Option<DataType>],
) -> Result<Box<LogicalPlan>, QueryError> {
    let mut parsed = read(session, &sql).await?;
    match (parsed.pop(), parsed.is_empty()) {
        (Some(parsed), true) => Ok(Box::new(session.plan_statement(parsed, stated).await?)),
        _ => Err(QueryError::other("42601", "exactly one query is expected here")),
    }
}

async fn declare(
    session: &Arc<Session>,
    declared: &[ast::Declare],
    stated: &[Option<DataType>],
) -> Result<Statement, QueryError> {
    match declared {
        [
            ast::Declare {
                names,
                declare_type: Some(DeclareType::Cursor),
                for_query: Some(of),
                hold,
                binary,
                ..
            },
        ] if names.len() == 1 => {
            let plan = query(session, of.to_string(), stated).await?;
            let (holds, binary) = (*hold == Some(true), *binary == Some(true));
            Ok(Statement::Declare { cursor: folded(&names[0]), holds, binary, plan })
        }
        _ => Err(QueryError::other("42601", "only DECLARE name CURSOR FOR query is supported")),
    }
}

/// The rows of a direction.
fn steps(direction: &FetchDirection) -> Result<Steps, QueryError> {
    let count = |value: &Value| match value {
        // Without steps, PostgreSQL returns the last row again.
        Value::Number(number, _) => {
            number.to_string().parse::<usize>().ok().filter(|rows| *rows > 0).ok_or_else(wrong_fetch)
        }
        _ => Err(wrong_fetch()),
    };
    Ok(match direction {
        FetchDirection::Next | FetchDirection::Forward { limit: None } => Steps::Next(Some(1)),
        FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) } => {
            Steps::Next(Some(count(limit)?))
        }
        FetchDirection::All | FetchDirection::ForwardAll => Steps::Next(None),
        FetchDirection::First => Steps::At(1),
        FetchDirection::Absolute { limit } => Steps::At(count(limit)?),
        FetchDirection::Relative { limit } => Steps::Further(count(limit)?),
        _ => return Err(wrong_fetch()),
    })
}

pub(crate) fn wrong_fetch() -> QueryError {
    QueryError::other(
        "0A000",
        "cursors only move forward: FETCH and MOVE with NEXT, FORWARD n, ALL, RELATIVE n and ABSOLUTE n of a later row are supported",
    )
}

async fn assignment(session: &Arc<Session>, set: &Set, parsed: &Parsed) -> Result<Statement, QueryError> {
    match set {
        Set::SingleAssignment { scope, variable, values, .. } => {
            let variable = self::variable(variable);
            if settings::is_of_engine(&variable) {
                return planned(session, parsed.clone(), &[]).await;
            }
            let values: Vec<String> = values.iter().map(literal).collect();
            let local = matches!(scope, Some(ast::ContextModifier::Local));
            Ok(Statement::Set { variable, value: values.join(", "), local })
        }
        Set::SetTimeZone { local, value } => {
            let value = match value {
                ast::Expr::Interval(offset) => literal(&offset.value),
                value => literal(value),
            };
            // The zone at the beginning of the connection.
            let value = if value.eq_ignore_ascii_case("local") { "default".to_owned() } else { value };
            Ok(Statement::Set { variable: "timezone".to_owned(), value, local: *local })
        }
        Set::SetNames { charset_name, .. } => {
            let value = charset_name.value.clone();
            Ok(Statement::Set { variable: "client_encoding".to_owned(), value, local: false })
        }
        Set::SetTransaction { modes, session, .. } => {
            Ok(Statement::Transact(Transact::Set { modes: self::modes(modes), session: *session }))
        }
        // The user itself.
        Set::SetRole { role_name: None, .. } => Ok(Statement::Accepted("SET")),
        Set::SetRole { role_name: Some(name), .. } if folded(name) == session.user().name => {
            Ok(Statement::Accepted("SET"))
        }
        Set::SetSessionAuthorization(to)
            if match &to.kind {
                SetSessionAuthorizationParamKind::Default => true,
                SetSessionAuthorizationParamKind::User(name) => folded(name) == session.user().name,
            } =>
        {
            Ok(Statement::Accepted("SET"))
        }
        Set::SetRole { .. } | Set::SetSessionAuthorization(_) => Err(QueryError::Denied(
            "permission denied: a session keeps the user it logged in as; connect as the other user"
                .to_owned(),
        )),
        _ => planned(session, parsed.clone(), &[]).await,
    }
}

/// The modes of a transaction, as SHOW displays them.
fn modes(modes: &[TransactionMode]) -> Modes {
    let shown = |mode: &TransactionMode| match mode {
        TransactionMode::IsolationLevel(level) => (ISOLATION, level.to_string().to_ascii_lowercase()),
        TransactionMode::AccessMode(mode) => {
            let reads = *mode == TransactionAccessMode::ReadOnly;
            (READ_ONLY, if reads { "on" } else { "off" }.to_owned())
        }
    };
    modes.iter().map(shown).collect()
}

fn literal(value: &ast::Expr) -> String {
    match value {
        ast::Expr::Value(value) => value.value.clone().into_string().unwrap_or_else(|| value.to_string()),
        other => other.to_string(),
    }
}

async fn copy_out(
    session: &Arc<Session>,
    source: &CopySource,
    options: &[CopyOption],
    stated: &[Option<DataType>],
) -> Result<Statement, QueryError> {
    let sql = match source {
        CopySource::Query(query) => query.to_string(),
        CopySource::Table { table_name, columns } if columns.is_empty() => {
            format!("SELECT * FROM {table_name}")
        }
        CopySource::Table { table_name, columns } => {
            let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
            format!("SELECT {} FROM {table_name}", columns.join(", "))
        }
    };
    let format = CopyFormat::of(options)?;
    Ok(Statement::CopyOut(query(session, sql, stated).await?, format))
}
