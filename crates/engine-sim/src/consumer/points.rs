//! One run of a query of point reads.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use coscan_engine::{Engine, PointRequest};

use super::{Clients, Opened, some};
use crate::executor::TaskId;
use crate::plan::ConsumerPlan;
impl Clients {
    /// Reads a few random ranges of rows and compares them.
    pub(super) fn points(
        self: &Arc<Self>,
        me: TaskId,
        engine: &Engine,
        plan: &ConsumerPlan,
        files: &[Opened],
        random: &mut fastrand::Rng,
    ) {
        for _ in 0..random.usize(1..12) {
            let opened = &files[random.usize(..files.len())];
            let content = &opened.content;
            let row_group = random.usize(..content.groups.len());
            let arrays = &content.groups[row_group];
            let roots = some(arrays.len(), random);
            let rows = ranges(arrays[0].len(), random);
            if roots.is_empty() || rows.is_empty() {
                continue;
            }
            let waits = random.bool();
            let request = PointRequest {
                file: opened.handle.clone(),
                wait_for_room: waits,
                row_group,
                rows: rows.clone().into(),
                roots: roots.clone(),
                schema: content.schema.clone(),
                metadata: content.metadata.clone(),
            };
            let executor = &self.world.executor;
            let outcome = executor.block_on(me, engine.point_read(&request), || self.cancels(plan));
            match outcome {
                Some(Ok(Some(batches))) => {
                    for (at, root) in roots.iter().enumerate() {
                        let got: Vec<&dyn Array> =
                            batches.batches.iter().map(|batch| batch[at].as_ref()).collect();
                        let slices: Vec<ArrayRef> =
                            rows.iter().map(|r| arrays[*root].slice(r.start, r.len())).collect();
                        let expected: Vec<&dyn Array> = slices.iter().map(AsRef::as_ref).collect();
                        let (Ok(got), Ok(expected)) = (concat(&got), concat(&expected)) else {
                            executor.violate(|| "batches of different types".into());
                            continue;
                        };
                        let what =
                            || format!("point read of f{}, {row_group}, c{root}, {rows:?}", opened.file);
                        self.compare(&got, &expected, opened.file, what);
                    }
                    self.ended[0].fetch_add(1, Ordering::Relaxed);
                }
                Some(Err(error)) => self.check_error(&error, files),
                Some(Ok(None)) | None => {}
            }
            if plan.think_ms > 0 {
                executor.sleep(me, Duration::from_millis(random.u64(..plan.think_ms)));
            }
            if executor.is_ending() {
                return;
            }
        }
    }
}

/// Random ranges of this many rows, ascending.
fn ranges(rows: usize, random: &mut fastrand::Rng) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    for _ in 0..random.usize(1..5) {
        let start = at + random.usize(..=rows / 2);
        let end = start + random.usize(1..=rows / 3 + 1);
        if end > rows {
            break;
        }
        ranges.push(start..end);
        at = end;
    }
    ranges
}
