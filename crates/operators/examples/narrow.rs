//! Computes `price * (1 - discount)` in 64 bits and as DataFusion does. The values are the same.
//!
//! `cargo run --release -p coscan-operators --example narrow`

use std::sync::Arc;
use std::time::Instant;

use coscan_operators::narrowed;
use datafusion::arrow::array::{ArrayRef, Decimal128Array, RecordBatch};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Literal, col};

const ROWS: i128 = 1_000_000;

fn decimals(values: impl Iterator<Item = i128>) -> Result<ArrayRef> {
    Ok(Arc::new(Decimal128Array::from_iter_values(values).with_precision_and_scale(15, 2)?))
}

fn timed(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<ArrayRef> {
    let start = Instant::now();
    let array = expr.evaluate(batch)?.into_array(batch.num_rows())?;
    println!("{} rows in {:?}", array.len(), start.elapsed());
    Ok(array)
}

fn main() -> Result<()> {
    let price = decimals((0..ROWS).map(|row| 100_000 + row))?;
    let discount = decimals((0..ROWS).map(|row| row % 11))?;
    let batch = RecordBatch::try_from_iter([("price", price), ("discount", discount)])?;
    let one = Arc::new(Literal::new(ScalarValue::Decimal128(Some(1), 20, 0)));
    let less = Arc::new(BinaryExpr::new(one, Operator::Minus, col("discount", &batch.schema())?));
    let wide = BinaryExpr::new(col("price", &batch.schema())?, Operator::Multiply, less);
    let wide: Arc<dyn PhysicalExpr> = Arc::new(wide.with_fail_on_overflow(true));
    let narrow = narrowed(Arc::clone(&wide), &batch.schema())?.data;
    assert_eq!(&timed(&wide, &batch)?, &timed(&narrow, &batch)?);
    Ok(())
}
