//! Tables of a server whose files lie in a slow tier: restored once for all users that want them, under the users'
//! names.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{ROWS, World};
use coscan_datafusion::CoscanContext;
use coscan_server::{ServeConfig, ServeError, Server};
use coscan_tier::{TierConfig, TierError, Tiers, keep_footers};

/// A tier below `folder`. The files of the tables are on the "tape", and stubs of the same length and time are in
/// the root.
fn tier(folder: &Path, tables: &[&str]) -> PathBuf {
    let (tape, root) = (folder.join("tape"), folder.join("root"));
    fs::create_dir_all(&tape).unwrap();
    for table in tables {
        let (whole, stub) = (tape.join(format!("{table}.parquet")), root.join(table).join("0.parquet"));
        fs::create_dir_all(stub.parent().unwrap()).unwrap();
        fs::copy(folder.join("t.parquet"), &whole).unwrap();
        let meta = fs::metadata(&whole).unwrap();
        let file = File::create(&stub).unwrap();
        file.set_len(meta.len()).unwrap();
        file.set_times(FileTimes::new().set_modified(meta.modified().unwrap())).unwrap();
    }
    let recall = format!(
        "whole={}/$(basename $(dirname $0)).parquet; sleep 0.2; cat $whole > $0 && touch -r $whole $0 && echo recall $0 >> {}/log",
        tape.display(),
        folder.display()
    );
    let definition = folder.join("tape.toml");
    let text = format!(
        "name = 'tape'\nroot = '{}'\ncache = 'cache'\ncache_bytes = '1GB'\ntimeout = '60s'\n\
         [folder]\nrecall = ['sh', '-c', '''{recall}''', '{{path}}']\n",
        root.display()
    );
    fs::write(&definition, text).unwrap();
    definition
}

/// Keeps only the footers of a table, as `coscan tier footers` does while files are online.
fn keep(folder: &Path, definition: &Path, table: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let tiers = Tiers::open([TierConfig::read(definition).unwrap()]).unwrap();
        let coscan = CoscanContext::builder().build().unwrap();
        tiers.attach(&coscan.ctx, None).unwrap();
        let location = folder.join("root").join(table).display().to_string();
        keep_footers(&coscan.ctx, &tiers, &location, |_, _| ()).await.unwrap();
    });
    drop(runtime);
    fs::remove_dir_all(folder.join("cache/fragments")).unwrap();
    fs::remove_file(folder.join("log")).unwrap();
}

fn recalls(folder: &Path) -> usize {
    fs::read_to_string(folder.join("log")).unwrap_or_default().lines().count()
}

async fn world(anonymous: &str) -> World {
    let set = |config: &mut ServeConfig, folder: &Path| {
        let definition = tier(folder, &["old", "named"]);
        std::thread::scope(|scope| scope.spawn(|| keep(folder, &definition, "old")).join().unwrap());
        config.set("tier", definition.to_str().unwrap()).unwrap();
        config.set("table", &format!("old={}", folder.join("root/old").display())).unwrap();
        config.set("anonymous-role", anonymous).unwrap();
    };
    World::with(set).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_in_a_tier_is_restored_once_for_all_who_ask() {
    let world = world("read").await;
    let folder = world.folder.path();
    assert_eq!(recalls(folder), 0, "a table is opened by its kept footers");
    let (ann, bob) = (world.connect("ann", "").await.unwrap(), world.connect("bob", "").await.unwrap());
    let sql = "SELECT count(*), sum(id)::bigint FROM old";
    let (a, b) = tokio::join!(ann.query_one(sql, &[]), bob.query_one(sql, &[]));
    for row in [a.unwrap(), b.unwrap()] {
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (ROWS, ROWS * (ROWS - 1) / 2));
    }
    assert_eq!(recalls(folder), 1);
    let journal = fs::read_to_string(folder.join("cache/journal")).unwrap();
    assert!(journal.contains("\"ann\"") || journal.contains("\"bob\""), "restored for a user: {journal}");
    // A table outside the tiers works as without tiers.
    let join = "SELECT count(*) FROM t JOIN old ON t.id = old.id WHERE t.name = 'name 7'";
    assert_eq!(ann.query_one(join, &[]).await.unwrap().get::<_, i64>(0), ROWS / 1000);
    let plan = ann.query("EXPLAIN SELECT count(*) FROM t", &[]).await.unwrap();
    let text: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    assert!(!text.join("\n").contains("CombineExec"), "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_declares_a_table_in_a_tier() {
    let world = world("admin").await;
    let folder = world.folder.path();
    let client = world.client().await;
    let location = folder.join("root/named").display().to_string();
    let unknown = format!("CREATE EXTERNAL TABLE named STORED AS PARQUET LOCATION '{location}'");
    let error = client.batch_execute(&unknown).await.unwrap_err();
    let text = error.as_db_error().map(|error| error.message().to_owned()).unwrap_or_default();
    assert!(text.contains("coscan tier footers"), "{error:?}");
    let columns =
        "CREATE EXTERNAL TABLE named (id BIGINT, name VARCHAR, amount DECIMAL(15, 2)) STORED AS PARQUET";
    let sql = format!("{columns} LOCATION '{location}' WITH (coscan.tier = 'tape')");
    client.batch_execute(&sql).await.unwrap();
    assert_eq!(recalls(folder), 0, "a declaration restores nothing");
    let found = client.query_one("SELECT count(*) FROM named WHERE id < 10", &[]).await.unwrap();
    assert_eq!((found.get::<_, i64>(0), recalls(folder)), (10, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_does_not_hold_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let definition = folder.path().join("tape.toml");
    let start = async |text: &str| {
        fs::write(&definition, text).unwrap();
        let mut config = ServeConfig::default();
        config.set("listen", "127.0.0.1:0").unwrap();
        config.set("tier", definition.to_str().unwrap()).unwrap();
        Server::start(config, CoscanContext::builder().build().unwrap()).await.err().expect("no tier")
    };
    let error = start(
        "name = 'tape'\nroot = '/'\ncache = 'c'\ncache_bytes = 'much'\n[folder]\nrecall = ['x', '{path}']\n",
    );
    let error = error.await;
    assert!(error.is_usage() && error.to_string().contains("'cache_bytes'"), "{error}");
    let one = format!(
        "name = 'tape'\nroot = '{0}'\ncache = '{0}/c'\ncache_bytes = '1GB'\n[folder]\nrecall = ['x', '{{path}}']\n",
        folder.path().display()
    );
    let first = Tiers::open([TierConfig::parse(&one, folder.path()).unwrap()]).unwrap();
    // The lock is tried again for a moment. Then it counts as that of another process.
    let error = start(&one).await;
    assert!(!error.is_usage() && matches!(error, ServeError::Tier(TierError::CacheInUse { .. })), "{error}");
    drop(first);
    tokio::time::sleep(Duration::ZERO).await;
}
