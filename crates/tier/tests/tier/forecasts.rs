//! A dry run predicts the changes of tape and the files of the run, also for plans that submit several lists one
//! after the other.

use std::time::Duration;

use coscan_datafusion::CoscanContext;
use coscan_tier::{Forecast, Tiers, forecast, keep_footers};
use coscan_upstream::PlainSql;

use crate::folder::Hsm;
use crate::plans::write_table;
use crate::tables::{declare, over, plain, reopened, rows};

const TABLES: [&str; 3] = ["r", "s", "t"];

/// Three tables of three files, the files of each on three tapes.
fn hsm(dir: &tempfile::TempDir) -> Hsm {
    let files = dir.path().join("files");
    TABLES.iter().for_each(|table| write_table(&files, table, 3));
    Hsm::archive(dir.path(), &files, 3, Duration::ZERO, Duration::ZERO)
}

/// One partition: partitions that are opened late have lists of their own.
async fn session(tiers: &Tiers, hsm: &Hsm) -> CoscanContext {
    let coscan = over(tiers);
    let set = coscan.ctx.plain_sql("SET datafusion.execution.target_partitions = 1").await.unwrap();
    set.collect().await.unwrap();
    declare(&coscan.ctx, &hsm.root().display().to_string(), &TABLES).await;
    coscan
}

async fn foretold(tiers: &Tiers, hsm: &Hsm, sql: &str) -> Forecast {
    let coscan = session(tiers, hsm).await;
    let plan = coscan.ctx.plain_sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let mut forecasts = forecast(&plan).await.unwrap();
    assert_eq!(forecasts.len(), 1, "{sql}");
    forecasts.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_changes_tapes_as_often_as_its_dry_run_says() {
    for (sql, switches) in [
        ("SELECT count(*), sum(id) FROM r", 3),
        ("SELECT count(*) FROM r WHERE id >= 100 AND id < 150", 1),
        // Build sides come first, and each table is a list. The tape that is mounted last is the first of the next
        // list.
        ("SELECT count(*), sum(r.id) FROM r JOIN s ON r.k = s.k", 5),
        ("SELECT count(*) FROM r JOIN s ON r.k = s.k JOIN t ON s.k = t.k", 7),
        ("SELECT count(*) FROM r LEFT JOIN s ON r.k = s.k", 5),
        ("SELECT count(*) FROM r WHERE k IN (SELECT k FROM s WHERE id > 40)", 5),
        ("SELECT count(*) FROM r WHERE id > (SELECT avg(id) - 300 FROM s)", 5),
        // Pairs of fragments: one list.
        ("SELECT count(*) FROM r JOIN s ON r.id < s.id + r.k", 3),
        // The same table twice: its files are cached by then.
        ("SELECT count(*) FROM r a JOIN r b ON a.k = b.k", 3),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let hsm = hsm(&dir);
        let config = hsm.config("cache", "cache_bytes = '10MB'");
        {
            let tiers = Tiers::open([config.clone()]).unwrap();
            let coscan = over(&tiers);
            for table in TABLES {
                let location = hsm.root().join(table).display().to_string();
                keep_footers(&coscan.ctx, &tiers, &location, |_, _| ()).await.unwrap();
            }
        }
        for left in ["cache/fragments", "log", "mounted"] {
            let path = dir.path().join(left);
            let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
        }
        let looked = reopened(&|| Tiers::look([config.clone()])).await;
        let said = foretold(&looked, &hsm, sql).await;
        assert_eq!(hsm.log(), Vec::<String>::new(), "{sql}: nothing is restored");
        let tiers = reopened(&|| Tiers::open([config.clone()])).await;
        let open = foretold(&tiers, &hsm, sql).await;
        assert_eq!((said.switches, &said.files, said.time), (open.switches, &open.files, open.time), "{sql}");
        assert!(said.files.is_sorted(), "in the order of names: {:?}", said.files);
        let coscan = session(&tiers, &hsm).await;
        let plain = plain();
        declare(&plain, &hsm.tape().display().to_string(), &TABLES).await;
        assert_eq!(rows(&coscan.ctx, sql).await.unwrap(), rows(&plain, sql).await.unwrap(), "{sql}");
        let log = hsm.log();
        let mut recalled: Vec<String> = log
            .iter()
            .filter_map(|line| line.strip_prefix("recall "))
            .map(|file| hsm.root().canonicalize().unwrap().join(file).display().to_string())
            .collect();
        recalled.sort();
        assert_eq!(recalled, said.files, "{sql}");
        assert_eq!((said.switches, hsm.count("mount ") as u64), (switches, switches), "{sql}: {log:?}");
    }
}

/// A cache that holds two files: files that are joined pair by pair are fetched again, and the forecast includes
/// this.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_cache_is_part_of_the_forecast() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    let config = hsm.config("cache", "cache_bytes = '10MB'\nbuild_bytes = '1B'");
    {
        let tiers = Tiers::open([config.clone()]).unwrap();
        let coscan = over(&tiers);
        for table in TABLES {
            let location = hsm.root().join(table).display().to_string();
            keep_footers(&coscan.ctx, &tiers, &location, |_, _| ()).await.unwrap();
        }
    }
    std::fs::remove_dir_all(dir.path().join("cache/fragments")).unwrap();
    let sql = "SELECT count(*) FROM r JOIN s ON r.k = s.k";
    let large = foretold(&Tiers::look([config.clone()]).unwrap(), &hsm, sql).await;
    let small = coscan_tier::TierConfig { cache_bytes: 2 * large.bytes.div_ceil(6) + 1_500, ..config };
    let small = foretold(&Tiers::look([small]).unwrap(), &hsm, sql).await;
    assert_eq!((large.restores.len(), small.restores.len()), (6, 6));
    assert!(small.switches > large.switches && small.time > large.time, "{small:?} {large:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_for_each_tape_waits_as_long_as_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    let more = "cache_bytes = '10MB'\npolicy = 'tape-queue'";
    let by_age = hsm.config("cache", &format!("{more}\ndue_age = '20min'"));
    assert_eq!(by_age.due.due_age.as_nanos(), 1_200_000_000_000);
    // Enough files are there at once.
    let config = hsm.config("cache", &format!("{more}\ndue_age = '2h'\ndue_files = 1"));
    let tiers = Tiers::open([config]).unwrap();
    let coscan = over(&tiers);
    crate::faults::declared(&coscan.ctx, &hsm).await;
    assert_eq!(rows(&coscan.ctx, crate::faults::SUM_R).await.unwrap(), ["44850"]);
}
