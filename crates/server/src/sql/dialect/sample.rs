//! TABLESAMPLE: each row is in the sample with a probability. So are the rows of SYSTEM, which may take whole blocks in
//! PostgreSQL.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, TableAlias, TableFactor, TableSampleKind, TableSampleMethod, Value,
    ValueWithSpan,
};

use super::rows::derived;
use crate::sql::QueryError;
use crate::sql::ast::{binary, call, nested, number};

/// Replaces a sampled table by a query of its rows.
///
/// # Errors
///
/// If the method is unknown, or the share of rows is no percentage, or the sample is to be repeatable.
pub(super) fn replace(factor: &mut TableFactor) -> Result<(), QueryError> {
    let TableFactor::Table { name, alias, sample: kind, .. } = factor else { return Ok(()) };
    let Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
        kind.take()
    else {
        return Ok(());
    };
    let Some(share) = sample.quantity.map(|quantity| quantity.value) else {
        return Err(QueryError::unsupported("TABLESAMPLE takes BERNOULLI or SYSTEM and a percentage"));
    };
    if !matches!(sample.name, Some(TableSampleMethod::Bernoulli | TableSampleMethod::System)) {
        let method = match &share {
            Expr::Function(call) => call.name.to_string(),
            _ => sample.name.map_or_else(|| share.to_string(), |name| name.to_string().to_ascii_lowercase()),
        };
        let error = format!("tablesample method {method} does not exist: write BERNOULLI or SYSTEM");
        return Err(QueryError::other("42704", error));
    }
    if sample.seed.is_some() {
        return Err(QueryError::unsupported("REPEATABLE is not supported: rows come in any order"));
    }
    if let Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) = &share
        && !number.parse::<f64>().is_ok_and(|share| (0.0..=100.0).contains(&share))
    {
        return Err(QueryError::other("2202H", "sample percentage must be between 0 and 100"));
    }
    let own = name.0.last().and_then(|part| part.as_ident()).cloned().unwrap_or_else(|| Ident::new("sample"));
    let alias = alias.take();
    let alias = alias.unwrap_or(TableAlias { explicit: true, name: own, columns: Vec::new(), at: None });
    let chosen = binary(
        binary(call("random", Vec::new()), BinaryOperator::Multiply, number("100")),
        BinaryOperator::Lt,
        nested(share),
    );
    *factor = derived(&format!("SELECT * FROM {name} WHERE {chosen}"), alias)?;
    Ok(())
}
