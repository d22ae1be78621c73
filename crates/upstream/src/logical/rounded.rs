//! `round` of decimals with a type that lasts.
//!
//! In DataFusion 55 its type has as many decimal places as it is asked for, if these are a literal. Types are asked for
//! before constants are computed, when a literal is still below a cast, and again after. What was fitted to the first
//! answer then fails or, in joins and set operations, compares digits that count other places.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::functions::math;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, lit,
};
use datafusion::optimizer::Analyzer;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

/// The analyzer with a `round` whose type is the same before and after constants are computed.
pub(crate) fn with_lasting_round(mut analyzer: Analyzer) -> Analyzer {
    let by_row = Arc::new(ScalarUDF::new_from_impl(RoundByRow(math::round())));
    analyzer.add_function_rewrite(Arc::new(LastingRound { by_row }));
    analyzer
}

#[derive(Debug)]
struct LastingRound {
    by_row: Arc<ScalarUDF>,
}

impl FunctionRewrite for LastingRound {
    fn name(&self) -> &str {
        "lasting_round"
    }

    /// Decimal places that are constant become the literal that they will be, and the type of others is that of any places.
    fn rewrite(&self, expr: Expr, schema: &DFSchema, config: &ConfigOptions) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        let is_decimal = |value: &Expr| value.get_type(schema).is_ok_and(|of| of.is_decimal());
        match call.args.as_mut_slice() {
            [value, places] if call.func == math::round() && is_decimal(value) => {
                match constant(places, schema, config) {
                    Some(constant) => *places = lit(constant),
                    None => call.func = Arc::clone(&self.by_row),
                }
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
        }
    }
}

/// The decimal places, as the function takes them, if they are constant and a number that it takes.
fn constant(places: &Expr, schema: &DFSchema, config: &ConfigOptions) -> Option<ScalarValue> {
    let value = constant_value(places, schema, config)?;
    let of = value.data_type();
    if of.is_integer() || of.is_null() { value.cast_to(&DataType::Int32).ok() } else { None }
}

/// The value of an expression if it is constant.
pub(crate) fn constant_value(expr: &Expr, schema: &DFSchema, config: &ConfigOptions) -> Option<ScalarValue> {
    if let Expr::Literal(value, _) = expr {
        return Some(value.clone());
    }
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::new(config.clone()));
    let simplifier = ExprSimplifier::new(context.build());
    match simplifier.simplify(simplifier.coerce(expr.clone(), schema).ok()?).ok()? {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    }
}

/// The function for decimal places that are not known.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(RoundByRow(math::round()))
}

/// The function with the type that it has if decimal places are not known.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RoundByRow(Arc<ScalarUDF>);

impl ScalarUDFImpl for RoundByRow {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of round is asked for with its arguments")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let unknown = vec![None; args.scalar_arguments.len()];
        self.0.return_field_from_args(ReturnFieldArgs { scalar_arguments: &unknown, ..args })
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // With places by row it looks whether digits fit the type.
        if let Some(places) = args.args.get_mut(1) {
            *places = ColumnarValue::Array(places.to_array(args.number_rows)?);
        }
        self.0.invoke_with_args(args)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.0.output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}
