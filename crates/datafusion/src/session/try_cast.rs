//! TRY_CAST that is null where the cast fails, in comparisons, too.
//!
//! DataFusion 55 moves casts from a column to the constant that it is compared with. That is wrong for TRY_CAST:
//! `TRY_CAST(x AS INT) <> 5` is null where x does not fit, and `x <> 5` is true. As a function it stays where it is.

use std::sync::Arc;

use datafusion::arrow::compute::CastOptions;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::format::DEFAULT_FORMAT_OPTIONS;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TryCast as Written, Volatility,
};
use datafusion::optimizer::Analyzer;

/// The analyzer with TRY_CAST as a function.
pub(super) fn with_lasting_try_cast(mut analyzer: Analyzer) -> Analyzer {
    analyzer.add_function_rewrite(Arc::new(LastingTryCast));
    analyzer
}

#[derive(Debug)]
struct LastingTryCast;

impl FunctionRewrite for LastingTryCast {
    fn name(&self) -> &str {
        "lasting_try_cast"
    }

    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let Expr::TryCast(Written { expr, field }) = expr else { return Ok(Transformed::no(expr)) };
        let function = ScalarUDF::new_from_impl(TryCast::to(field.data_type().clone()));
        let call = ScalarFunction::new_udf(Arc::new(function), vec![*expr]);
        Ok(Transformed::yes(Expr::ScalarFunction(call)))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TryCast {
    to: DataType,
    signature: Signature,
}

impl TryCast {
    fn to(to: DataType) -> Self {
        TryCast { to, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TryCast {
    fn name(&self) -> &str {
        "try_cast"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), self.to.clone(), true)))
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("TRY_CAST({} AS {})", args[0], self.to))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let options = CastOptions { safe: true, format_options: DEFAULT_FORMAT_OPTIONS };
        args.args[0].cast_to(&self.to, Some(&options))
    }
}
