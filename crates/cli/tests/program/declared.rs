//! Tables that are declared to be clustered with another table.

use crate::support::{COOPERATIVE, LINEITEM_ROWS, data, stdout};

const JOIN: &str = "SELECT count(*) AS n FROM l JOIN orders ON l_orderkey = o_orderkey";

#[test]
fn a_table_is_declared_to_match_one_of_the_command_line() {
    let location = |table: &str| data().join(table).display().to_string();
    let lineitem = location("lineitem");
    for options in ["WITH (coscan.clustered_with = '..')", "OPTIONS ('coscan.clustered_with' '..')"] {
        let options = options.replace("..", "orders (l_orderkey = o_orderkey)");
        // The case of a table's name does not matter, as in queries.
        for name in ["orders", "Orders"] {
            let table = format!("{name}={}", location("orders"));
            let script = format!(
                "CREATE EXTERNAL TABLE l STORED AS PARQUET LOCATION '{lineitem}/' {options}; \
                 SET coscan.order_aware = 'always'; EXPLAIN {JOIN}; {JOIN}"
            );
            let mut args = vec!["sql", "-t", &table, "--format", "ndjson", "-c", &script];
            args.extend(COOPERATIVE);
            let shown = stdout(&args);
            let condition =
                "OrderedJoinExec: if chunks are clustered by o_orderkey and l_orderkey, as is declared";
            assert!(shown.contains(condition), "{script}: {shown}");
            assert!(shown.ends_with(&format!("{{\"n\":{LINEITEM_ROWS}}}\n")), "{shown}");
        }
    }
}
