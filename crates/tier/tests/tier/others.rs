//! Other processes beside the one that has the tier: they show its status, have footers kept, and drop copies.

use std::time::Duration;

use coscan_tier::{TierError, Tiers, drop_copies, forecast, keep_footers};
use coscan_upstream::PlainSql;

use crate::faults::{SUM_R, declared, hsm};
use crate::tables::{over, rows};

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_and_footers_do_not_wait_for_a_query() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    let config = hsm.config("cache", "cache_bytes = '1MB'");
    hsm.set_fault(Some("hang"));
    let tiers = Tiers::open([config.clone()]).unwrap();
    let coscan = over(&tiers);
    declared(&coscan.ctx, &hsm).await;
    let query = rows(&coscan.ctx, SUM_R);
    let beside = async {
        while tiers.all().next().unwrap().status().asked.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(matches!(Tiers::open([config.clone()]), Err(TierError::CacheInUse { .. })));
        let looked = Tiers::open_or_look([config.clone()]).unwrap();
        let other = over(&looked);
        declared(&other.ctx, &hsm).await;
        let plan = other.ctx.plain_sql("SELECT sum(id) FROM s").await.unwrap();
        let plan = plan.create_physical_plan().await.unwrap();
        let said = forecast(&plan).await.unwrap();
        assert_eq!((said[0].restores.len(), said[0].cached), (2, 0));
        let refused = rows(&other.ctx, "SELECT sum(id) FROM s").await.unwrap_err().to_string();
        assert!(refused.contains("another process uses this fragment cache"), "{refused}");
        // The other process sees what queries wait for.
        let waiting = loop {
            match looked.all().next().unwrap().status().waiting() {
                Some(waiting) => break waiting,
                None => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        assert!(waiting.contains("3 files of tier tape"), "{waiting}");
        let location = hsm.root().join("s").display().to_string();
        let mut left = Vec::new();
        let kept = keep_footers(&other.ctx, &looked, &location, |files, _| left.push(files));
        let comes = async {
            while tiers.all().next().unwrap().status().queries.len() < 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            hsm.set_fault(None);
        };
        let (kept, ()) = tokio::join!(kept, comes);
        kept.unwrap();
        assert_eq!((left.first(), left.last()), (Some(&2), Some(&0)), "{left:?}");
    };
    let (found, ()) = tokio::join!(query, beside);
    assert_eq!(found.unwrap(), ["44850"]);
    assert_eq!(hsm.count("recall "), 5, "{:?}", hsm.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_dropped_by_whoever_has_the_tier() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    let config = hsm.config("cache", "cache_bytes = '1MB'");
    let file = |name: &str| hsm.root().canonicalize().unwrap().join(name).display().to_string();
    let (one, folder) = (file("r/001.parquet"), file("r"));
    {
        let tiers = Tiers::open([config.clone()]).unwrap();
        let coscan = over(&tiers);
        declared(&coscan.ctx, &hsm).await;
        assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), ["44850"]);
        let (of, what) = (config.clone(), vec![one.clone()]);
        let dropped = tokio::task::spawn_blocking(move || drop_copies(&of, &what)).await.unwrap().unwrap();
        assert_eq!((dropped.files, dropped.wanted), (vec![one.clone()], vec![]));
        assert_eq!(tiers.all().next().unwrap().status().cached.len(), 2);
        assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), ["44850"]);
        assert_eq!(hsm.count("recall "), 4, "{:?}", hsm.log());
    }
    let dropped = loop {
        // The last owner may still hold the lock.
        match drop_copies(&config, &[folder.clone() + "/", file("nothing")]) {
            Err(TierError::OwnerEnded { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            dropped => break dropped.unwrap(),
        }
    };
    let all = ["r/000.parquet", "r/001.parquet", "r/002.parquet"].map(file);
    assert_eq!(dropped.files, all);
    assert_eq!(std::fs::read_dir(dir.path().join("cache/fragments")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(dir.path().join("cache/footers")).unwrap().count(), 3, "footers stay");
    assert_eq!(drop_copies(&config, &[folder]).unwrap().files, Vec::<String>::new());
}
