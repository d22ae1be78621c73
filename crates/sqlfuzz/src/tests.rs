//! Tests of the fuzzer: seeds are reproducible, comparisons detect differences, simpler queries are simpler.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};

use crate::answer::{Answer, Kind, Rows, compare};
use crate::case::Case;
use crate::data::kind::Class;
use crate::query::{Expr, Form, Item, Key, Limit, Order, Query, Relation, Select, Test, reordered, simpler};
use crate::shapes::Shapes;

#[test]
fn a_seed_draws_the_same_case_every_time() {
    let drawn = |seed| format!("{:?}", Case::draw(seed, &Shapes::default()));
    for seed in 0..50 {
        assert_eq!(drawn(seed), drawn(seed));
        assert_ne!(drawn(seed), drawn(seed + 1));
    }
}

#[test]
fn simpler_queries_come_to_an_end() {
    for seed in 0..20 {
        for mut test in Case::draw(seed, &Shapes::default()).tests {
            let mut steps = 0;
            let first = test.query.to_sql().len();
            while let Some(next) =
                simpler(&test).into_iter().find(|next| next.query.to_sql().len() < test.query.to_sql().len())
            {
                test = next;
                steps += 1;
            }
            assert!(steps <= first && test.query.to_sql().len() <= first, "{}", test.query.to_sql());
        }
    }
}

#[test]
fn a_limit_keeps_the_order_that_determines_it() {
    let column = |name: &str, fixed| Item { fixed, ..Item::new(Expr::text(Class::Int, name), name) };
    let items = vec![column("id", true), column("a", false)];
    let table = Relation::Named("t".to_owned(), "t".to_owned());
    let mut query = Query::select(Select::of(items, table));
    query.order = Order::By(vec![Key { item: 0, direction: "" }]);
    query.limit = Some(Limit { rows: Some(3), offset: 0 });
    let test = Test { query, form: Form::Plain };
    for next in simpler(&test) {
        let sql = next.query.to_sql();
        assert!(!sql.contains("LIMIT") || sql.contains("id AS id") && sql.contains("ORDER BY 1"), "{sql}");
    }
}

/// Returns a test of `SELECT a FROM t` with this order.
fn test(order: Order) -> Test {
    let items = vec![Item::new(Expr::text(Class::Int, "a"), "a")];
    let table = Relation::Named("t".to_owned(), "t".to_owned());
    Test { query: Query { order, ..Query::select(Select::of(items, table)) }, form: Form::Plain }
}

fn rows(array: ArrayRef, nullable: bool) -> Answer {
    let schema = Arc::new(Schema::new(vec![Field::new("a", array.data_type().clone(), nullable)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![array]).expect("a batch");
    Answer::Rows(Rows { schema, batches: vec![batch] })
}

fn numbers(values: &[i64]) -> Answer {
    rows(Arc::new(Int64Array::from(values.to_vec())), false)
}

fn kind(test: &Test, expected: &Answer, found: &Answer) -> Option<Kind> {
    compare(test, expected, found).err().map(|difference| difference.kind)
}

#[test]
fn rows_are_a_multiset_unless_an_order_is_asked_for() {
    let (any, ordered) = (test(Order::None), test(Order::All("")));
    let expected = numbers(&[1, 2, 2]);
    assert_eq!(kind(&any, &expected, &numbers(&[2, 1, 2])), None);
    assert_eq!(kind(&any, &expected, &numbers(&[1, 1, 2])), Some(Kind::Rows));
    assert_eq!(kind(&any, &expected, &numbers(&[1, 2])), Some(Kind::Rows));
    assert_eq!(kind(&ordered, &expected, &numbers(&[1, 2, 2])), None);
    assert_eq!(kind(&ordered, &expected, &numbers(&[2, 1, 2])), Some(Kind::Order));
    assert_eq!(kind(&ordered, &expected, &numbers(&[1, 2, 3])), Some(Kind::Rows));
}

#[test]
fn types_and_nullability_count() {
    let any = test(Order::None);
    let nullable = rows(Arc::new(Int64Array::from(vec![1])), true);
    let float = rows(Arc::new(Float64Array::from(vec![1.0])), false);
    assert_eq!(kind(&any, &numbers(&[1]), &nullable), Some(Kind::Schema));
    assert_eq!(kind(&any, &numbers(&[1]), &float), Some(Kind::Schema));
    let Answer::Rows(found) = numbers(&[1]) else { unreachable!("numbers are rows") };
    assert_eq!(found.schema.field(0).data_type(), &DataType::Int64);
}

#[test]
fn floating_point_values_are_compared_bit_by_bit_but_for_sums() {
    let floats = |values: &[f64]| rows(Arc::new(Float64Array::from(values.to_vec())), false);
    let any = test(Order::None);
    assert_eq!(kind(&any, &floats(&[f64::NAN, 0.1]), &floats(&[0.1, f64::NAN])), None);
    assert_eq!(kind(&any, &floats(&[0.1]), &floats(&[0.1 + 1e-15])), Some(Kind::Rows));
    assert_eq!(kind(&any, &floats(&[0.0]), &floats(&[-0.0])), Some(Kind::Rows));
    let mut sum = any.clone();
    if let crate::query::Body::Select(select) = &mut sum.query.body {
        select.items[0].approximate = true;
    }
    assert_eq!(kind(&sum, &floats(&[0.1]), &floats(&[0.1 + 1e-15])), None);
    assert_eq!(kind(&sum, &floats(&[0.1]), &floats(&[0.2])), Some(Kind::Rows));
}

#[test]
fn an_error_has_to_be_one_on_both_sides() {
    let any = test(Order::None);
    let error = || Answer::Error("no".to_owned());
    assert_eq!(kind(&any, &error(), &error()), None);
    assert_eq!(kind(&any, &numbers(&[1]), &error()), Some(Kind::Error));
    assert_eq!(kind(&any, &error(), &numbers(&[1])), Some(Kind::NoError));
    assert_eq!(kind(&any, &error(), &Answer::Hang), Some(Kind::Hang));
    assert_eq!(kind(&any, &error(), &Answer::Panic("oh".to_owned())), Some(Kind::Panic));
}

#[test]
fn a_sample_is_as_many_rows_of_all() {
    let mut sample = Test { form: Form::Sample, ..test(Order::None) };
    sample.query.limit = Some(Limit { rows: Some(2), offset: 0 });
    let all = numbers(&[1, 2, 2]);
    assert_eq!(kind(&sample, &all, &numbers(&[2, 2])), None);
    assert_eq!(kind(&sample, &all, &numbers(&[1, 1])), Some(Kind::Rows));
    assert_eq!(kind(&sample, &all, &numbers(&[1])), Some(Kind::Rows));
}

#[test]
fn of_an_explained_query_only_whether_it_has_a_plan_is_compared() {
    let explained = Test { form: Form::Explained("EXPLAIN"), ..test(Order::All("")) };
    assert_eq!(explained.statement("p").sql, "EXPLAIN SELECT a AS a FROM t AS t ORDER BY 1");
    assert_eq!(kind(&explained, &numbers(&[1, 2]), &numbers(&[3])), None);
    let error = Answer::Error("no".to_owned());
    assert_eq!(kind(&explained, &numbers(&[1]), &error), Some(Kind::Error));
    assert_eq!(kind(&explained, &error, &numbers(&[1])), Some(Kind::NoError));
}

#[test]
fn every_conjunct_comes_last_in_some_order_and_guards_stay() {
    let text = |text: &str| Expr::text(Class::Bool, text);
    let both = Expr::of(Class::Bool, "({} AND {})", [text("b"), text("c")]);
    let guarded = Expr::of(Class::Bool, "({} <> 0 AND 1 / {} > 1)", [text("d"), text("d")]);
    let either = Expr::of(Class::Bool, "({} OR {})", [both.clone(), guarded]);
    let table = Relation::Named("t".to_owned(), "t".to_owned());
    let filter = vec![text("a"), both, either];
    let query = Query::select(Select { filter, ..Select::of(vec![Item::new(text("a"), "a")], table) });
    let orders: Vec<String> = reordered(&query).iter().map(Query::to_sql).collect();
    let wheres: Vec<&str> = orders.iter().filter_map(|sql| sql.split_once("WHERE ")).map(|it| it.1).collect();
    let [either, swapped] =
        ["((b AND c) OR (d <> 0 AND 1 / d > 1))", "((c AND b) OR (d <> 0 AND 1 / d > 1))"];
    let expected = [
        format!("b AND c AND {swapped} AND a"),
        format!("c AND {either} AND a AND b"),
        format!("{swapped} AND a AND b AND c"),
    ];
    assert_eq!(wheres, expected);
    assert!(reordered(&test(Order::None).query).is_empty());
}
