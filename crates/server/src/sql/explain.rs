//! EXPLAIN as PostgreSQL has it: options in parentheses, one column `QUERY PLAN`, a row for each line, or JSON.

use std::collections::HashMap;
use std::sync::Arc;

use coscan_upstream::parse_postgresql;
use datafusion::arrow::array::{AsArray, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::format::{ExplainFormat, ExplainStatementOptions};
use datafusion::logical_expr::{Analyze, Explain, LogicalPlan, PlanType, ToStringifiedPlan};
use datafusion::sql::parser::{ExplainStatement, Statement};
use datafusion::sql::sqlparser::ast::{AnalyzeFormatKind, DescribeAlias, Statement as Ast, UtilityOption};
use serde_json::Value;

use super::QueryError;
use super::ast::text;
use crate::values::TYPE;

/// The only column.
const QUERY_PLAN: &str = "QUERY PLAN";
/// The row of the engine's plan that runs.
const PHYSICAL: &str = "physical_plan";
/// Options of PostgreSQL that are refused.
const REFUSED: [&str; 3] = ["generic_plan", "memory", "serialize"];

/// The form of a plan's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Explained {
    /// The plans after each step.
    verbose: bool,
    json: bool,
}

/// The form of the text, if the plan is one about a plan.
pub(crate) fn explained(plan: &LogicalPlan) -> Option<Explained> {
    let of = |verbose: bool, format: &ExplainFormat| Explained {
        verbose,
        json: *format == ExplainFormat::PostgresJSON,
    };
    match plan {
        LogicalPlan::Explain(explain) => Some(of(explain.verbose, &explain.explain_format)),
        LogicalPlan::Analyze(analyze) => Some(of(analyze.verbose, &analyze.format)),
        _ => None,
    }
}

/// The columns of a plan's result.
pub(crate) fn columns(plan: &LogicalPlan) -> SchemaRef {
    explained(plan).map_or_else(|| Arc::clone(plan.schema().inner()), Explained::columns)
}

/// An EXPLAIN with the same options about another plan.
pub(crate) fn about(explain: &LogicalPlan, plan: LogicalPlan) -> LogicalPlan {
    match explain {
        LogicalPlan::Explain(of) => LogicalPlan::Explain(Explain {
            stringified_plans: vec![plan.to_stringified(PlanType::InitialLogicalPlan)],
            plan: Arc::new(plan),
            ..of.clone()
        }),
        LogicalPlan::Analyze(of) => LogicalPlan::Analyze(Analyze { input: Arc::new(plan), ..of.clone() }),
        _ => plan,
    }
}

impl Explained {
    /// The column.
    pub(super) fn columns(self) -> SchemaRef {
        let field = Field::new(QUERY_PLAN, DataType::Utf8, true);
        let metadata =
            if self.json { HashMap::from([(TYPE.to_owned(), "json".to_owned())]) } else { HashMap::new() };
        Arc::new(Schema::new(vec![field.with_metadata(metadata)]))
    }

    /// The rows for the client, from pairs of a plan's kind and its text.
    pub(crate) fn rows(self, batch: &RecordBatch) -> Result<RecordBatch> {
        let (kinds, plans) = (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
        let plans: Vec<(&str, &str)> = kinds.iter().flatten().zip(plans.iter().flatten()).collect();
        let lines = if self.json { vec![as_json(&plans)] } else { self.lines(&plans) };
        Ok(RecordBatch::try_new(self.columns(), vec![Arc::new(StringArray::from(lines))])?)
    }

    fn lines(self, plans: &[(&str, &str)]) -> Vec<String> {
        let physical = plans.iter().find(|(kind, _)| *kind == PHYSICAL);
        let only = physical.or(plans.first().filter(|_| plans.len() == 1)).filter(|_| !self.verbose);
        if let Some((_, plan)) = only {
            return plan.lines().map(str::to_owned).collect();
        }
        let mut lines = Vec::new();
        for (kind, plan) in plans {
            let mut of_plan = plan.lines();
            match (of_plan.next(), plan.trim_end().contains('\n')) {
                (Some(line), false) => lines.push(format!("{kind}: {line}")),
                _ => {
                    lines.push(format!("{kind}:"));
                    lines.extend(plan.lines().map(|line| format!("  {line}")));
                }
            }
        }
        lines
    }
}

/// A list with one object, which has the plan.
fn as_json(plans: &[(&str, &str)]) -> String {
    let plan = plans.iter().find_map(|(_, plan)| serde_json::from_str::<Value>(plan).ok());
    let plan = match plan {
        Some(Value::Array(plans)) => Value::Array(plans),
        Some(plan) => Value::Array(vec![plan]),
        None => serde_json::json!([{ "Plan": { "Node Type": plans.first().map_or("", |(_, plan)| *plan) } }]),
    };
    serde_json::to_string_pretty(&plan).unwrap_or_default()
}

/// An EXPLAIN as PostgreSQL's parser reads it. The query engine's own parser has other options.
pub(super) fn written(sql: &str) -> Option<Statement> {
    let is_explain = sql.trim_start().get(..7).is_some_and(|word| word.eq_ignore_ascii_case("EXPLAIN"));
    if !is_explain {
        return None;
    }
    let mut statements = parse_postgresql(sql).ok()?;
    let only = statements.pop().filter(|_| statements.is_empty())?;
    Some(Statement::Statement(Box::new(only)))
}

/// Reads the options of EXPLAIN. The statement then has the form of the query engine.
///
/// # Errors
///
/// If an option is unknown or not supported.
pub(super) fn read(statement: &mut Statement) -> std::result::Result<(), QueryError> {
    let Statement::Statement(ast) = statement else { return Ok(()) };
    let Ast::Explain { analyze, verbose, format, options, statement: of, describe_alias, .. } = ast.as_ref()
    else {
        return Ok(());
    };
    if *describe_alias != DescribeAlias::Explain {
        return Ok(());
    }
    let mut read = ExplainStatementOptions { analyze: *analyze, verbose: *verbose, ..Default::default() };
    if let Some(AnalyzeFormatKind::Keyword(format) | AnalyzeFormatKind::Assignment(format)) = format {
        let name = format.to_string();
        read.format = match name.to_ascii_lowercase().as_str() {
            "json" | "text" => format_of(&name)?,
            // The query engine's own formats.
            _ => Some(name.parse()?),
        };
    }
    let (mut timing, mut wal) = (false, false);
    for option in options.iter().flatten() {
        let name = option.name.value.to_ascii_lowercase();
        match name.as_str() {
            "analyze" => read.analyze = is_on(option)?,
            "verbose" => read.verbose = is_on(option)?,
            "timing" => timing = is_on(option)?,
            // Nothing is written.
            "wal" => wal = is_on(option)?,
            // The plan shows costs if the engine knows them, and ANALYZE the bytes read and the times. No setting changes
            // PostgreSQL's plan.
            "costs" | "buffers" | "summary" | "settings" => drop(is_on(option)?),
            "format" => read.format = format_of(&argument(option))?,
            _ if REFUSED.contains(&name.as_str()) => {
                let name = name.to_ascii_uppercase();
                return Err(QueryError::unsupported(format!("EXPLAIN option {name} is not supported")));
            }
            _ => return Err(QueryError::other("42601", format!("unrecognized EXPLAIN option \"{name}\""))),
        }
    }
    for (name, is_on) in [("TIMING", timing), ("WAL", wal)] {
        if is_on && !read.analyze {
            return Err(QueryError::other("22023", format!("EXPLAIN option {name} requires ANALYZE")));
        }
    }
    // Other formats than lines have no steps.
    read.verbose &= read.format.is_none();
    let statement_of = Box::new(Statement::Statement(of.clone()));
    *statement = Statement::Explain(ExplainStatement { options: read, statement: statement_of });
    Ok(())
}

fn argument(option: &UtilityOption) -> String {
    let argument = option.arg.as_ref();
    argument.map(|arg| text(arg).map_or_else(|| arg.to_string(), str::to_owned)).unwrap_or_default()
}

fn is_on(option: &UtilityOption) -> std::result::Result<bool, QueryError> {
    match argument(option).to_ascii_lowercase().as_str() {
        "" | "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => {
            let name = option.name.value.to_ascii_lowercase();
            Err(QueryError::other("42601", format!("{name} requires a Boolean value")))
        }
    }
}

/// The query engine's format of this name. `None` for lines.
fn format_of(name: &str) -> std::result::Result<Option<ExplainFormat>, QueryError> {
    match name.to_ascii_lowercase().as_str() {
        "text" => Ok(None),
        "json" => Ok(Some(ExplainFormat::PostgresJSON)),
        "xml" | "yaml" => {
            Err(QueryError::unsupported(format!("EXPLAIN format {name} is not supported: use text or json")))
        }
        _ => Err(QueryError::other(
            "22023",
            format!("unrecognized value for EXPLAIN option \"format\": \"{name}\""),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> std::result::Result<ExplainStatementOptions, QueryError> {
        let ast = parse_postgresql(sql).unwrap().remove(0);
        let mut statement = Statement::Statement(Box::new(ast));
        read(&mut statement)?;
        let Statement::Explain(explain) = statement else { panic!("{sql}") };
        Ok(explain.options)
    }

    #[test]
    fn options_are_taken_or_refused() {
        for (sql, analyze, verbose, json) in [
            ("EXPLAIN SELECT 1", false, false, false),
            ("EXPLAIN ANALYZE VERBOSE SELECT 1", true, true, false),
            ("EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING 0, SUMMARY) SELECT 1", true, false, false),
            ("EXPLAIN (ANALYZE, SETTINGS, WAL) SELECT 1", true, false, false),
            ("EXPLAIN (ANALYZE false, VERBOSE on) SELECT 1", false, true, false),
            ("EXPLAIN (FORMAT JSON, VERBOSE) SELECT 1", false, false, true),
            ("EXPLAIN (FORMAT 'json', ANALYZE 'on') SELECT 1", true, false, true),
        ] {
            let options = of(sql).unwrap();
            let is_json = options.format == Some(ExplainFormat::PostgresJSON);
            assert_eq!((options.analyze, options.verbose, is_json), (analyze, verbose, json), "{sql}");
        }
        for (sql, code) in [
            ("EXPLAIN (FOO) SELECT 1", "42601"),
            ("EXPLAIN (ANALYZE maybe) SELECT 1", "42601"),
            ("EXPLAIN (MEMORY) SELECT 1", "0A000"),
            ("EXPLAIN (WAL) SELECT 1", "22023"),
            ("EXPLAIN (FORMAT xml) SELECT 1", "0A000"),
            ("EXPLAIN (FORMAT foo) SELECT 1", "22023"),
            ("EXPLAIN (TIMING) SELECT 1", "22023"),
        ] {
            assert_eq!(of(sql).unwrap_err().sqlstate(), code, "{sql}");
        }
    }
}
