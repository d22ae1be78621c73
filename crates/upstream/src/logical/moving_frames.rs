//! Aggregate functions over moving window frames.
//!
//! DataFusion 55 declares that the results of `max`, `min`, `count` and others are in order where frames only grow, only
//! shrink, or move with the argument. It puts NULL at the wrong end, and takes some of these orders for their reverse. Then
//! `ORDER BY max(x) OVER (..)` is not sorted. Here only `count` over growing frames is in order.
//!
//! For sums and other moments of floating-point numbers, DataFusion subtracts the rows that leave a frame. A NaN or an infinity then stays in the result, and small numbers
//! are lost beside large ones that have left. Here nothing is subtracted: a frame is two stacks of rows. Each row of the
//! first has the state of all rows from it to the end of the first stack, so a row that leaves is popped. New rows go to
//! the second stack. When the first is empty, the second takes its place. The cost is constant per row on average.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, merge_schema};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, ExprSchemable, LogicalPlan,
    ReversedUDAF, SetMonotonicity, Signature, WindowFunctionDefinition,
};
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

use super::usual::as_usual;

/// The functions of which DataFusion subtracts rows, except those that compare values or count them.
const FUNCTIONS: [&str; 17] = [
    "sum",
    "avg",
    "var",
    "var_pop",
    "stddev",
    "stddev_pop",
    "covar_samp",
    "covar_pop",
    "corr",
    "regr_avgx",
    "regr_avgy",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
];

/// Returns the analyzer with a rule that takes other functions over windows.
pub(crate) fn with_moving_frames(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.push(Arc::new(MovingFrames));
    analyzer
}

#[derive(Debug)]
struct MovingFrames;

impl AnalyzerRule for MovingFrames {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let of_node = |plan: LogicalPlan| {
            let LogicalPlan::Window(_) = &plan else { return Ok(Transformed::no(plan)) };
            let schema = merge_schema(&plan.inputs());
            plan.map_expressions(|expr| expr.transform_up(|expr| Ok(over_frame(expr, &schema))))
        };
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }

    fn name(&self) -> &str {
        "moving_frames"
    }
}

fn over_frame(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Ok(of) = expr.get_type(schema) else { return Transformed::no(expr) };
    let Expr::WindowFunction(window) = &mut expr else { return Transformed::no(expr) };
    let WindowFunctionDefinition::AggregateUDF(function) = &mut window.fun else {
        return Transformed::no(expr);
    };
    let is_floating = |arg: &Expr| arg.get_type(schema).is_ok_and(|of| of.is_floating());
    let subtracts = FUNCTIONS.contains(&function.name())
        && !window.params.distinct
        && window.params.args.iter().any(is_floating);
    let grows = window.params.window_frame.start_bound.is_unbounded() && function.name() == "count";
    let is_in_order = function.inner().set_monotonicity(&of) != SetMonotonicity::NotMonotonic;
    if function.inner().is::<InFrame>() || !subtracts && (grows || !is_in_order) {
        return Transformed::no(expr);
    }
    *function = Arc::new(AggregateUDF::new_from_impl(InFrame { usual: Arc::clone(function), subtracts }));
    Transformed::yes(expr)
}

/// Returns the function over moving frames.
pub(crate) fn in_frame(usual: Arc<AggregateUDF>, subtracts: bool) -> AggregateUDF {
    AggregateUDF::new_from_impl(InFrame { usual, subtracts })
}

/// A function whose results are in no order, with another accumulator for moving frames if its own subtracts.
#[derive(Debug, PartialEq, Eq, Hash)]
struct InFrame {
    usual: Arc<AggregateUDF>,
    subtracts: bool,
}

impl AggregateUDFImpl for InFrame {
    fn name(&self) -> &str {
        self.usual.name()
    }

    as_usual!();

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.usual.window_function_schema_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.usual.window_function_display_name(params)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.subtracts {
            true => Ok(Box::new(Frame::new(Maker::new(&self.usual, &args))?)),
            false => self.usual.create_sliding_accumulator(args),
        }
    }

    fn is_nullable(&self) -> bool {
        self.usual.is_nullable()
    }

    fn default_value(&self, of: &DataType) -> Result<ScalarValue> {
        self.usual.default_value(of)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.usual.supports_null_handling_clause()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.usual.inner().reverse_expr() {
            ReversedUDAF::Identical if !self.subtracts => ReversedUDAF::Identical,
            _ => ReversedUDAF::NotSupported,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.usual.documentation()
    }
}

/// Makes accumulators of a function with the same arguments.
struct Maker {
    function: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Maker {
    fn new(function: &Arc<AggregateUDF>, args: &AccumulatorArgs) -> Self {
        Maker {
            function: Arc::clone(function),
            return_field: Arc::clone(&args.return_field),
            schema: args.schema.clone(),
            ignore_nulls: args.ignore_nulls,
            order_bys: args.order_bys.to_vec(),
            is_reversed: args.is_reversed,
            name: args.name.to_owned(),
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
        }
    }

    fn make(&self) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: false,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}

/// The rows of a frame in two stacks.
struct Frame {
    maker: Maker,
    /// For each row of the first stack, the last row first, the state of the rows from it to the last one.
    first: Vec<Vec<ScalarValue>>,
    /// The rows of the second stack, in batches, and their state.
    second: Vec<Vec<ArrayRef>>,
    total: Box<dyn Accumulator>,
}

impl Frame {
    fn new(maker: Maker) -> Result<Self> {
        let total = maker.make()?;
        Ok(Frame { maker, first: Vec::new(), second: Vec::new(), total })
    }

    /// Moves the rows of the second stack to the first, which is empty.
    fn turn(&mut self) -> Result<()> {
        let mut rows = self.maker.make()?;
        for batch in self.second.drain(..).rev() {
            for at in (0..batch[0].len()).rev() {
                let row: Vec<ArrayRef> = batch.iter().map(|values| values.slice(at, 1)).collect();
                rows.update_batch(&row)?;
                self.first.push(rows.state()?);
            }
        }
        self.total = self.maker.make()?;
        Ok(())
    }

    /// The state of both stacks together.
    fn whole(&mut self) -> Result<Box<dyn Accumulator>> {
        let mut whole = self.maker.make()?;
        let states = self.first.last().cloned().into_iter().chain([self.total.state()?]);
        for state in states {
            let arrays = state.iter().map(|value| value.to_array()).collect::<Result<Vec<_>>>()?;
            whole.merge_batch(&arrays)?;
        }
        Ok(whole)
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("function", &self.maker.function.name()).finish_non_exhaustive()
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.second.push(values.to_vec());
        self.total.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut rows = values[0].len();
        while rows > 0 {
            if self.first.is_empty() {
                self.turn()?;
            }
            let popped = rows.min(self.first.len());
            if popped == 0 {
                return internal_err!("more rows leave a frame than have entered it");
            }
            self.first.truncate(self.first.len() - popped);
            rows -= popped;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.first.is_empty() { self.total.evaluate() } else { self.whole()?.evaluate() }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.whole()?.state()
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("frames of windows are not merged")
    }

    fn size(&self) -> usize {
        let states = self.first.iter().flatten().map(ScalarValue::size).sum::<usize>();
        let rows = self.second.iter().flatten().map(|values| values.get_array_memory_size()).sum::<usize>();
        size_of_val(self) + states + rows + self.total.size()
    }
}
