//! Rows that a table provider has chosen of its files: access plans and selections of rows.
//!
//! The expected rows are those of a scan of the whole table whose number the test has chosen itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use coscan_datafusion::rewrite_plan;
use coscan_upstream::PlainSql;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    ParquetAccessPlan, ParquetRowSelection, RowGroupAccess,
};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use datafusion::physical_plan::{ExecutionPlan, collect, displayable, replace_children_if_necessary};
use datafusion::prelude::SessionContext;
use fastrand::Rng;

use crate::data::{EVENTS, EVENTS_PER_ROW_GROUP};
use crate::support;

const QUERIES: [&str; 5] = [
    "SELECT id FROM events",
    "SELECT id FROM events WHERE id % 3 = 0",
    "SELECT id FROM events WHERE id BETWEEN 1000 AND 7300",
    "SELECT id FROM events WHERE id < 40 OR id > 11950",
    "SELECT id FROM events WHERE id = 4242",
];

/// The scan of a plan of plain DataFusion.
fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<FileScanConfig> {
    if let Some(exec) = plan.downcast_ref::<DataSourceExec>() {
        return exec.downcast_to_file_source::<ParquetSource>().map(|(config, _)| config.clone());
    }
    plan.children().into_iter().find_map(scan_of)
}

/// The plan with other files.
fn with_files(plan: &Arc<dyn ExecutionPlan>, files: &[PartitionedFile]) -> Arc<dyn ExecutionPlan> {
    if plan.is::<DataSourceExec>() {
        let mut config = scan_of(plan).expect("a scan");
        config.file_groups = files.iter().map(|file| FileGroup::new(vec![file.clone()])).collect();
        return DataSourceExec::from_data_source(config);
    }
    let children = plan.children().into_iter().map(|child| with_files(child, files)).collect();
    replace_children_if_necessary(Arc::clone(plan), children).expect("the same plan")
}

async fn planned(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    ctx.plain_sql(sql).await.expect(sql).create_physical_plan().await.expect(sql)
}

async fn ids(plan: Arc<dyn ExecutionPlan>, ctx: &SessionContext) -> Result<Vec<i64>> {
    let batches = collect(plan, ctx.task_ctx()).await?;
    let mut ids: Vec<i64> = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Chooses some of the rows: long runs, or single rows.
fn chosen(rng: &mut Rng, rows: usize) -> Vec<RowSelector> {
    let longest = *rng.choice([2, 5, 300, 4000].as_slice()).expect("a length");
    let (mut selectors, mut left, mut skip) = (Vec::new(), rows, rng.bool());
    while left > 0 {
        let row_count = rng.usize(1..=longest).min(left);
        selectors.push(RowSelector { row_count, skip });
        (left, skip) = (left - row_count, !skip);
    }
    selectors
}

/// The numbers of the rows that a selection keeps.
fn kept(selectors: &[RowSelector]) -> BTreeSet<i64> {
    let (mut kept, mut row) = (BTreeSet::new(), 0);
    for selector in selectors {
        let next = row + selector.row_count as i64;
        if !selector.skip {
            kept.extend(row..next);
        }
        row = next;
    }
    kept
}

/// The selection as one of each row group.
fn by_row_group(selectors: &[RowSelector]) -> ParquetAccessPlan {
    let mut rest = RowSelection::from(selectors.to_vec());
    let groups = (0..EVENTS as usize / EVENTS_PER_ROW_GROUP).map(|_| {
        let group = rest.split_off(EVENTS_PER_ROW_GROUP);
        match group.row_count() {
            0 => RowGroupAccess::Skip,
            EVENTS_PER_ROW_GROUP => RowGroupAccess::Scan,
            _ => RowGroupAccess::Selection(group),
        }
    });
    ParquetAccessPlan::new(groups.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_share_files_and_get_the_rows_that_were_chosen_for_each() {
    let plain = support::plain(support::Variant::Single);
    support::declare(&plain).await;
    let coscan = support::context(&[]).await;
    let mut running = Vec::new();
    for seed in 0..40 {
        let rng = &mut Rng::with_seed(seed);
        for sql in QUERIES {
            let plan = planned(&plain, sql).await;
            let all: BTreeSet<i64> = ids(Arc::clone(&plan), &plain).await.expect(sql).into_iter().collect();
            let file = scan_of(&plan).expect("a scan").file_groups[0].files()[0].clone();
            let selectors = chosen(rng, EVENTS as usize);
            let expected: Vec<i64> = all.intersection(&kept(&selectors)).copied().collect();
            let file = PartitionedFile { range: None, statistics: None, ..file };
            let file = match rng.bool() {
                true => file.with_extension(by_row_group(&selectors)),
                false => file.with_extension(ParquetRowSelection::new(selectors.into())),
            };
            let part = file.object_meta.size as i64 / 3;
            let files: Vec<PartitionedFile> = match rng.bool() {
                true => vec![file],
                false => (0..4).map(|at| file.clone().with_range(at * part, (at + 1) * part)).collect(),
            };
            let plan = with_files(&plan, &files);
            let options = coscan.ctx.state();
            let rewritten = rewrite_plan(plan, &coscan.engine, options.config_options()).expect(sql);
            let shown = displayable(rewritten.as_ref()).indent(false).to_string();
            assert!(shown.contains("CScan"), "{shown}");
            let ctx = coscan.ctx.clone();
            running.push(tokio::spawn(async move {
                let found = ids(rewritten, &ctx).await.expect(sql);
                assert_eq!(found, expected, "seed {seed}: {sql}");
            }));
        }
    }
    for query in running {
        query.await.expect("the chosen rows");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_choice_of_another_file_is_an_error() {
    let plain = support::plain(support::Variant::Single);
    support::declare(&plain).await;
    let coscan = support::context(&[]).await;
    let plan = planned(&plain, "SELECT id FROM events").await;
    let file = scan_of(&plan).expect("a scan").file_groups[0].files()[0].clone();
    let groups = EVENTS as usize / EVENTS_PER_ROW_GROUP;
    let rows = |rows| ParquetRowSelection::new(vec![RowSelector::select(rows)].into());
    let wrong = [
        file.clone().with_extension(ParquetAccessPlan::new_all(groups + 1)),
        file.clone().with_extension(rows(EVENTS as usize + 1)),
        file.clone().with_extension(rows(EVENTS as usize - 1)),
        file.with_extension(ParquetAccessPlan::new_all(groups)).with_extension(rows(EVENTS as usize)),
    ];
    for file in wrong {
        let plan = with_files(&plan, &[file]);
        let rewritten = rewrite_plan(plan, &coscan.engine, coscan.ctx.state().config_options());
        let error = ids(rewritten.expect("a plan"), &coscan.ctx).await.expect_err("another file");
        assert!(error.to_string().contains("events.parquet"), "{error}");
    }
}
