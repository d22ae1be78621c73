use crate::support;
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn debug() {
    let sql = "SELECT at, value FROM readings WHERE sensor = 3 ORDER BY at LIMIT 30";
    let others = [ "SELECT at, sensor, value FROM readings ORDER BY at", "SELECT at FROM readings ORDER BY at DESC LIMIT 12", "SELECT at, count(*) FROM readings GROUP BY at ORDER BY at LIMIT 20", "SELECT a.at, a.value, b.value FROM readings a JOIN readings b ON a.at = b.at WHERE a.sensor = 1"];
    let plain = std::env::var("PLAIN").is_ok();
    let engine = support::engine(support::policy("normal"), support::LARGE_BUFFER);
    let ctx = if plain { let c = support::plain(support::Variant::Default); support::declare(&c).await; c } else { support::session(&engine, support::Variant::Default).await };
    let mut bad = 0;
    for n in 0..std::env::var("N").unwrap().parse::<usize>().unwrap() {
        let o = others[n % 4];
        let c = ctx.clone();
        tokio::spawn(async move { support::rows(&c, o).await.unwrap() }).await.unwrap();
        let frame = ctx.sql(sql).await.unwrap();
        let p = frame.clone().create_physical_plan().await.unwrap();
        let b = datafusion::physical_plan::collect(p.clone(), std::sync::Arc::new(frame.task_ctx())).await.unwrap();
        let rows = datafusion::arrow::util::pretty::pretty_format_batches(&b).unwrap().to_string();
        if n == 0 || !rows.contains("| 70 ") { bad += 1; println!("{n} {o} {}", &rows[..400]);  if bad < 3 { println!("{}", datafusion::physical_plan::display::DisplayableExecutionPlan::with_metrics(p.as_ref()).indent(false)); } }
    }
}
