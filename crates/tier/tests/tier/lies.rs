//! Recalls that end with success before the file is there, or that leave other bytes in its place. Wrong bytes never
//! stay in the cache, and a file that comes later is awaited.

use std::fs;
use std::time::{Duration, Instant};

use coscan_tier::{Asked, Fragment, TierConfig, Tiers, drop_copies, forget_footers, keep_footers};
use coscan_upstream::PlainSql;

use crate::faults::{SUM_R, SUM_S, declared, hsm};
use crate::folder::Hsm;
use crate::tables::{over, plain, reopened, rows};

/// The right answer of [`SUM_R`].
const RIGHT: &str = "44850";

/// Does the work of a recall later, when `hold` is gone.
const LATER: &str = "echo \"lied $file\" >> $dir/log\n\
    (while [ -e $dir/hold ]; do sleep 0.02; done; cp $contents $1.new && touch -r $1 $1.new && mv -f $1.new $1) 9>&- &\n\
    exit 0";

const NEVER: &str = "echo \"lied $file\" >> $dir/log; exit 0";

/// The same length and time, but another end.
const WRONG_END: &str = "head -c -8 $contents > $1.new; printf 'XXXXPAR1' >> $1.new; touch -r $1 $1.new; mv -f $1.new $1; \
    echo \"lied $file\" >> $dir/log; exit 0";

/// The right end, after a quarter of zeros.
const HOLE: &str = "length=$(stat -c %s $contents); hole=$((length / 4)); \
    (head -c 4 $contents; head -c $hole /dev/zero; tail -c +$((hole + 5)) $contents) > $1.new; \
    touch -r $1 $1.new; mv -f $1.new $1; echo \"lied $file\" >> $dir/log; exit 0";

async fn footers_kept(hsm: &Hsm, config: &TierConfig) {
    let tiers = Tiers::open([config.clone()]).unwrap();
    let coscan = over(&tiers);
    for table in ["r", "s"] {
        let location = hsm.root().join(table).display().to_string();
        keep_footers(&coscan.ctx, &tiers, &location, |_, _| ()).await.unwrap();
    }
}

/// Resets the files to the state before any recall.
fn offline(hsm: &Hsm, dir: &tempfile::TempDir) {
    hsm.release_all();
    let _ = fs::remove_dir_all(dir.path().join("cache/fragments"));
    let _ = fs::remove_file(dir.path().join("log"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_comes_after_its_recall_is_waited_for() {
    for (online, footers) in [(false, false), (false, true), (true, false), (true, true)] {
        let dir = tempfile::tempdir().unwrap();
        let hsm = hsm(&dir);
        let more = "cache_bytes = '1MB'";
        let config = if online { hsm.config_online(more) } else { hsm.config("cache", more) };
        if footers {
            footers_kept(&hsm, &config).await;
            offline(&hsm, &dir);
        }
        let hold = dir.path().join("hold");
        fs::write(&hold, "").unwrap();
        hsm.lie(Some(LATER));
        let tiers = reopened(&|| Tiers::open([config.clone()])).await;
        let coscan = over(&tiers);
        declared(&coscan.ctx, &hsm).await;
        let query = rows(&coscan.ctx, SUM_R);
        let comes = async {
            while hsm.count("lied ") == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // Time for some checks of the missing files.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let status = tiers.all().next().unwrap().status();
            assert_eq!(status.cached.len(), 0, "{status:?}");
            let waiting = status.waiting().expect("something to wait for");
            assert!(waiting.contains("tier tape: /") && waiting.contains(".parquet on T"), "{waiting}");
            fs::remove_file(&hold).unwrap();
        };
        let (found, ()) = tokio::join!(query, comes);
        assert_eq!(found.unwrap(), [RIGHT], "online {online}, footers {footers}");
        assert_eq!(hsm.count("lied "), 3, "each is recalled once: {:?}", hsm.log());
        assert_eq!(hsm.count("release "), 3, "{:?}", hsm.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_never_comes_ends_after_the_timeout_and_stays_out_of_the_cache() {
    for online in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let hsm = hsm(&dir);
        let more = "cache_bytes = '1MB'\nattempts = 3";
        let config = if online { hsm.config_online(more) } else { hsm.config("cache", more) };
        hsm.lie(Some(NEVER));
        {
            let short = TierConfig { timeout: Duration::from_secs(1), ..config.clone() };
            let tiers = Tiers::open([short]).unwrap();
            let coscan = over(&tiers);
            declared(&coscan.ctx, &hsm).await;
            let error = rows(&coscan.ctx, SUM_R).await.unwrap_err().to_string();
            assert!(
                error.contains("its recall ended, but after 1 s") && error.contains("'timeout'"),
                "{error}"
            );
            assert!(error.contains(&format!("{}/r/00", hsm.root().display())), "{error}");
            assert_eq!(error.contains("'online' says"), online, "{error}");
            assert!(tiers.all().next().unwrap().status().cached.is_empty());
        }
        hsm.lie(None);
        let tiers = reopened(&|| Tiers::open([config.clone()])).await;
        let coscan = over(&tiers);
        declared(&coscan.ctx, &hsm).await;
        assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), [RIGHT]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_another_end_is_not_cached() {
    for footers in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let hsm = hsm(&dir);
        let config = hsm.config("cache", "cache_bytes = '1MB'\nattempts = 2");
        if footers {
            footers_kept(&hsm, &config).await;
            offline(&hsm, &dir);
        }
        hsm.lie(Some(WRONG_END));
        let tiers = reopened(&|| Tiers::open([config.clone()])).await;
        let coscan = over(&tiers);
        declared(&coscan.ctx, &hsm).await;
        let error = rows(&coscan.ctx, SUM_R).await.unwrap_err().to_string();
        let says = if footers { "not the footer that was kept" } else { "not that of a Parquet file" };
        assert!(error.contains("what was restored is not this file") && error.contains(says), "{error}");
        assert!(tiers.all().next().unwrap().status().cached.is_empty());
        hsm.lie(None);
        assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), [RIGHT], "footers {footers}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_decoded_leaves_the_cache() {
    for sql in [
        SUM_R,
        "SELECT sum(r.id) FROM r JOIN s ON r.id < s.id + 1000 AND r.id > s.id - 1000",
        "SELECT id, k FROM ordered ORDER BY id",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let hsm = hsm(&dir);
        let config = hsm.config("cache", "cache_bytes = '1MB'");
        footers_kept(&hsm, &config).await;
        offline(&hsm, &dir);
        hsm.lie(Some(HOLE));
        let tiers = reopened(&|| Tiers::open([config.clone()])).await;
        let coscan = over(&tiers);
        declared(&coscan.ctx, &hsm).await;
        let ordered = format!(
            "CREATE EXTERNAL TABLE ordered (id BIGINT NOT NULL, k BIGINT, s VARCHAR) STORED AS PARQUET \
             LOCATION '{}/r/' WITH ORDER (id)",
            hsm.root().display()
        );
        coscan.ctx.plain_sql(&ordered).await.unwrap().collect().await.unwrap();
        let error = rows(&coscan.ctx, sql).await.unwrap_err().to_string();
        assert!(error.contains("cannot be decoded and was dropped from the cache"), "{sql}: {error}");
        hsm.lie(None);
        // Each query drops at least one of the remaining wrong copies.
        let mut found = rows(&coscan.ctx, sql).await;
        for _ in 0..5 {
            if found.is_ok() {
                break;
            }
            found = rows(&coscan.ctx, sql).await;
        }
        assert!(!found.unwrap().is_empty(), "{sql}");
        assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), [RIGHT]);
    }
}

/// The same when DataFusion itself reads the copies.
#[tokio::test(flavor = "multi_thread")]
async fn what_datafusion_cannot_decode_leaves_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    let config = hsm.config("cache", "cache_bytes = '1MB'");
    hsm.lie(Some(HOLE));
    let tiers = Tiers::open([config]).unwrap();
    let ctx = plain();
    tiers.attach(&ctx, None).unwrap();
    declared(&ctx, &hsm).await;
    let error = rows(&ctx, SUM_R).await.unwrap_err().to_string();
    assert!(error.contains("cannot be decoded and was dropped from the cache"), "{error}");
    hsm.lie(None);
    let mut found = rows(&ctx, SUM_R).await;
    for _ in 0..3 {
        if found.is_ok() {
            break;
        }
        found = rows(&ctx, SUM_R).await;
    }
    assert_eq!(found.unwrap(), [RIGHT]);
}

/// Restores these bytes instead of those of `000.parquet`, with their time.
fn restored_as(hsm: &Hsm, dir: &tempfile::TempDir, bytes: &[u8]) {
    fs::create_dir(dir.path().join("wrong")).unwrap();
    fs::write(dir.path().join("wrong/000.parquet"), bytes).unwrap();
    hsm.lie(Some(
        "[ -e $dir/wrong/${file##*/} ] && contents=$dir/wrong/${file##*/}; \
        cp $contents $1.new; touch -r $1 $1.new; mv -f $1.new $1; exit 0",
    ));
}

/// Wrong bytes that can be decoded: a person drops the copy, and no part of it stays in memory either.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_dropped_copy_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    let config = hsm.config("cache", "cache_bytes = '1MB'");
    let mut bytes = fs::read(hsm.tape().join("r/000.parquet")).unwrap();
    let ids = [7_i64, 8, 9].map(i64::to_le_bytes).concat();
    let at = bytes.windows(ids.len()).position(|window| window == ids).expect("plain numbers");
    bytes[at] += 100;
    restored_as(&hsm, &dir, &bytes);
    let tiers = Tiers::open([config.clone()]).unwrap();
    let coscan = over(&tiers);
    declared(&coscan.ctx, &hsm).await;
    let wrong = (RIGHT.parse::<i64>().unwrap() + 100).to_string();
    assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), [wrong]);
    hsm.lie(None);
    let file = hsm.root().canonicalize().unwrap().join("r/000.parquet").display().to_string();
    let dropped = tokio::task::spawn_blocking(move || drop_copies(&config, &[file])).await.unwrap();
    assert_eq!(dropped.unwrap().files.len(), 1);
    assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), [RIGHT]);
}

/// The first copy is wrong as a whole, so its footer is, too: a person has the file and its footer fetched again.
#[tokio::test(flavor = "multi_thread")]
async fn the_footer_of_a_wrong_copy_is_kept_again() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    let config = hsm.config("cache", "cache_bytes = '1MB'");
    // Of the same length, with another number in the footer.
    let mut bytes = fs::read(hsm.tape().join("r/000.parquet")).unwrap();
    let created_by = b"parquet-rs version";
    let at = bytes.windows(created_by.len()).rposition(|window| window == created_by).expect("a footer");
    bytes[at] = b'P';
    restored_as(&hsm, &dir, &bytes);
    let tiers = Tiers::open([config.clone()]).unwrap();
    let coscan = over(&tiers);
    declared(&coscan.ctx, &hsm).await;
    assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), [RIGHT]);
    hsm.lie(None);
    let file = hsm.root().canonicalize().unwrap().join("r/000.parquet").display().to_string();
    // Another process asks the one that has the tier.
    let other = Tiers::open_or_look([config]).unwrap();
    let asks = over(&other);
    forget_footers(&asks.ctx, &other, &file).await.unwrap();
    keep_footers(&asks.ctx, &other, &file, |_, _| ()).await.unwrap();
    assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), [RIGHT]);
}

/// A cached stub: zeros with the checksum of zeros. Caches may hold such files if their bytes were not compared with
/// the kept footer.
#[tokio::test(flavor = "multi_thread")]
async fn a_cached_stub_of_an_earlier_process_is_fetched_again() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    let config = hsm.config("cache", "cache_bytes = '1MB'");
    {
        let tiers = Tiers::open([config.clone()]).unwrap();
        let coscan = over(&tiers);
        declared(&coscan.ctx, &hsm).await;
        assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), [RIGHT]);
    }
    for entry in fs::read_dir(dir.path().join("cache/fragments")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "fragment") {
            let zeros = vec![0; fs::metadata(&path).unwrap().len() as usize];
            let mut crc = flate2::Crc::new();
            crc.update(&zeros);
            let record = path.with_extension("json");
            let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
            json["crc32"] = crc.sum().into();
            fs::write(&record, json.to_string()).unwrap();
            fs::write(&path, zeros).unwrap();
        }
    }
    let tiers = reopened(&|| Tiers::open([config.clone()])).await;
    let coscan = over(&tiers);
    declared(&coscan.ctx, &hsm).await;
    assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), [RIGHT]);
    assert_eq!(hsm.count("recall "), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_attempts_together_have_the_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    hsm.lie(Some("echo \"lied $file\" >> $dir/log; sleep 0.4; echo no drive >&2; exit 3"));
    let config = hsm.config("cache", "cache_bytes = '1MB'\nattempts = 100");
    let config = TierConfig { timeout: Duration::from_secs(2), ..config };
    let tiers = Tiers::open([config]).unwrap();
    let coscan = over(&tiers);
    declared(&coscan.ctx, &hsm).await;
    let began = Instant::now();
    let error = rows(&coscan.ctx, "SELECT sum(id) FROM r WHERE id < 100").await.unwrap_err().to_string();
    assert!(error.contains("no drive") || error.contains("killed after"), "{error}");
    assert!(began.elapsed() > Duration::from_millis(400), "{error}");
    // An attempt takes at least 0.4 s, and each pause is longer than the one before.
    for file in ["000", "001", "002"] {
        assert!(hsm.count(&format!("lied r/{file}")) <= 5, "{:?}", hsm.log());
    }
}

/// A process was killed after its request. The file came in the meantime, and the tier gets it back.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_asked_for_that_ended_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    let config = hsm.config_online("cache_bytes = '1MB'");
    let restored = hsm.root().canonicalize().unwrap().join("r/000.parquet");
    fs::copy(hsm.tape().join("r/000.parquet"), &restored).unwrap();
    let modified = fs::metadata(hsm.tape().join("r/000.parquet")).unwrap().modified().unwrap();
    fs::File::options().write(true).open(&restored).unwrap().set_modified(modified).unwrap();
    let asked = Asked {
        fragment: Fragment {
            location: restored.display().to_string().trim_start_matches('/').to_owned(),
            bytes: fs::metadata(&restored).unwrap().len(),
            modified: modified.into(),
            tag: None,
        },
        at: chrono::Utc::now(),
        price: 0.0,
        whom: "killed".to_owned(),
    };
    let line = serde_json::json!({ "asked": asked }).to_string() + "\n";
    fs::create_dir_all(dir.path().join("cache")).unwrap();
    for (round, is_cached) in [(1, false), (2, true)] {
        // The second time the copy is in the cache, and the process was killed before it recorded this.
        fs::write(dir.path().join("cache/journal"), &line).unwrap();
        let tiers = reopened(&|| Tiers::open([config.clone()])).await;
        assert_eq!(tiers.all().next().unwrap().status().cached.len(), usize::from(is_cached));
        while hsm.count("release 000.parquet") < round
            || !tiers.all().next().unwrap().status().asked.is_empty()
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(hsm.count("recall "), 0, "{:?}", hsm.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stub_without_length_is_an_error_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    fs::write(hsm.root().join("r/001.parquet"), "").unwrap();
    let tiers = Tiers::open([hsm.config("cache", "cache_bytes = '1MB'")]).unwrap();
    let coscan = over(&tiers);
    let root = hsm.root().display().to_string();
    let says_so = |error: String| {
        assert!(error.contains("001.parquet has no bytes") && error.contains("keep its length"), "{error}");
    };
    for location in ["r/", "r/001.parquet"] {
        let declare = format!("CREATE EXTERNAL TABLE r STORED AS PARQUET LOCATION '{root}/{location}'");
        says_so(coscan.ctx.plain_sql(&declare).await.unwrap_err().to_string());
    }
    let kept = keep_footers(&coscan.ctx, &tiers, &format!("{root}/r"), |_, _| ()).await;
    says_so(kept.unwrap_err().to_string());
    // The statement names the columns, and the file loses its length later: its rows are not left out silently.
    crate::folder::stub(&hsm.tape().join("r/001.parquet"), &hsm.root().join("r/001.parquet"));
    declared(&coscan.ctx, &hsm).await;
    fs::write(hsm.root().join("r/001.parquet"), "").unwrap();
    says_so(rows(&coscan.ctx, SUM_R).await.unwrap_err().to_string());
    assert_eq!(hsm.log(), Vec::<String>::new());
    // Queries over other tables are not affected.
    assert_eq!(rows(&coscan.ctx, SUM_S).await.unwrap(), ["19900"]);
}

/// A command says that the file can be read. It has no bytes, so it is no file of the table.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_bytes_that_is_online_has_no_rows() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    for folder in [hsm.root(), hsm.tape()] {
        fs::write(folder.join("r/001.parquet"), "").unwrap();
    }
    let tiers = Tiers::open([hsm.config_online("cache_bytes = '1MB'")]).unwrap();
    let coscan = over(&tiers);
    declared(&coscan.ctx, &hsm).await;
    let others: i64 = (0..300).filter(|id| !(100..200).contains(id)).sum();
    assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), [others.to_string()]);
}
