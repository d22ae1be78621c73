//! Tables that are declared to be clustered with another table, over both protocols.

use crate::support::{ROWS, World};
use arrow_flight::sql::client::FlightSqlServiceClient;
use coscan_datafusion::CoscanContext;
use coscan_server::{ServeConfig, Server};
use futures::TryStreamExt;
use tonic::transport::{Channel, Endpoint};

const JOIN: &str = "SELECT count(*) FROM l JOIN secret ON l.id = secret.id";

async fn over_flight(client: &mut FlightSqlServiceClient<Channel>, sql: &str) {
    let info = client.execute(sql.to_owned(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let _: Vec<_> = client.do_get(ticket).await.unwrap().try_collect().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_declared_to_match_one_of_the_configuration() {
    let world = World::with(|config, _| config.set("anonymous-role", "admin").unwrap()).await;
    let location = world.folder.path().join("t.parquet").display().to_string();
    let client = world.client().await;
    client.batch_execute("SET coscan.order_aware = 'always'").await.unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{}", world.address())).unwrap();
    let mut flight = FlightSqlServiceClient::new(endpoint.connect().await.unwrap());
    let key = "secret (id = id)";
    for (create, options) in [
        ("CREATE EXTERNAL TABLE", format!("WITH (coscan.clustered_with = '{key}')")),
        ("CREATE OR REPLACE EXTERNAL TABLE", format!("WITH ('coscan.clustered_with' = '{key}')")),
        ("CREATE OR REPLACE EXTERNAL TABLE", format!("OPTIONS ('coscan.clustered_with' '{key}')")),
    ] {
        for by_flight in [false, true] {
            let sql = format!("{create} l STORED AS PARQUET LOCATION '{location}' {options}");
            match by_flight {
                false => client.batch_execute(&sql).await.unwrap(),
                true => over_flight(&mut flight, &sql).await,
            }
            let plan = client.query(&format!("EXPLAIN {JOIN}"), &[]).await.unwrap();
            let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
            let shown = "OrderedJoinExec: if chunks are clustered by id and id, as is declared";
            assert!(plan.join("\n").contains(shown), "{sql}: {plan:?}");
            assert_eq!(client.query_one(JOIN, &[]).await.unwrap().get::<_, i64>(0), ROWS);
            client.batch_execute("DROP TABLE l").await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_declared_by_the_configuration() {
    let world = World::with(|config, _| {
        config.set("clustered-with", "t=secret (id = id)").unwrap();
        config.set("anonymous-role", "admin").unwrap();
    })
    .await;
    let client = world.client().await;
    client.batch_execute("SET coscan.order_aware = 'always'").await.unwrap();
    let join = JOIN.replace("FROM l", "FROM t").replace("l.id", "t.id");
    let plan = client.query(&format!("EXPLAIN {join}"), &[]).await.unwrap();
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    assert!(plan.join("\n").contains("clustered by id and id, as is declared"), "{plan:?}");
    assert_eq!(client.query_one(&join, &[]).await.unwrap().get::<_, i64>(0), ROWS);
}

#[tokio::test]
async fn what_is_declared_of_no_table_or_of_no_column_keeps_a_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let location = folder.path().join("t.parquet");
    crate::support::write_table(&location, 10);
    for (declared, said) in [
        ("u=t (id = id)", "there is no table u: give its place with table or watch"),
        ("t=u (x = id)", "there is no column x; there are id, name"),
    ] {
        let mut config = ServeConfig::default();
        config.set("listen", "127.0.0.1:0").unwrap();
        config.set("table", &format!("t={}", location.display())).unwrap();
        config.set("clustered-with", declared).unwrap();
        let coscan = CoscanContext::builder().buffer_bytes(16 << 20).build().unwrap();
        let error = Server::start(config, coscan).await.err().unwrap().to_string();
        assert!(error.contains(said), "{declared}: {error}");
    }
}
