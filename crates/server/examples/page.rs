//! A server with the live page, with tables and settings from the command line:
//!
//! ```text
//! cargo run --release -p coscan-server --example page -- table=lineitem=data/lineitem.parquet listen=127.0.0.1:5433
//! ```
//!
//! Settings that begin with `coscan.` go to the engine: `coscan.buffer=64MB`.

use coscan_datafusion::CoscanContext;
use coscan_server::{ServeConfig, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut config, mut coscan) = (ServeConfig::default(), CoscanContext::builder());
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=').ok_or("NAME=VALUE")?;
        match name.strip_prefix("coscan.") {
            Some(name) => coscan = coscan.set(name, value),
            None => config.set(name, value)?,
        }
    }
    let server = Server::start(config, coscan.build()?).await?;
    for address in server.addresses() {
        println!("http://{address}/");
    }
    tokio::signal::ctrl_c().await?;
    server.shut_down().await;
    Ok(())
}
