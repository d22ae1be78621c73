//! A server inside a program: serves the given folder or file until Ctrl-C.

use coscan_datafusion::CoscanContext;
use coscan_server::{ServeConfig, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let location = std::env::args().nth(1).ok_or("name a Parquet file or a folder of them")?;
    let mut config = ServeConfig::default();
    config.set("table", &format!("t={location}"))?;
    let server = Server::start(config, CoscanContext::builder().from_env().build()?).await?;
    println!("psql -h 127.0.0.1 -p {} -c 'SELECT count(*) FROM t'", server.addresses()[0].port());
    tokio::signal::ctrl_c().await?;
    server.shut_down().await;
    Ok(())
}
