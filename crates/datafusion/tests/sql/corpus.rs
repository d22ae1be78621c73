//! The queries that must give the same result with and without cooperative scans.

/// The comparison of two results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// The same rows in any order.
    Same,
    /// The same rows in the same order, which the query determines.
    InOrder,
    /// The same number of rows, because the query does not determine which.
    AsMany,
}

use Rows::{AsMany, InOrder, Same};

/// The queries.
pub const QUERIES: &[(Rows, &str)] = &[
    // Scans, projections, expressions, filters.
    (Same, "SELECT * FROM events"),
    (Same, "SELECT count(*) FROM events"),
    (Same, "SELECT id + 1, upper(kind), amount * 2 FROM events WHERE id % 7 = 3"),
    (Same, "SELECT id FROM events WHERE id BETWEEN 1234 AND 1250"),
    (Same, "SELECT count(*), sum(amount) FROM events WHERE day >= '2022-03-01' AND day < '2022-03-20'"),
    (Same, "SELECT id, code FROM events WHERE code = 'code-00042' OR code LIKE 'code-0010%'"),
    (Same, "SELECT id FROM events WHERE code IN ('code-31337', 'code-12345', 'code-00007')"),
    (Same, "SELECT id, score FROM events WHERE score IS NULL AND id < 700"),
    (Same, "SELECT count(*) FROM events WHERE score > 600 OR score < 1"),
    (Same, "SELECT id FROM events WHERE score = 'NaN'::double"),
    (Same, "SELECT id, flag FROM events WHERE flag AND id > 11500"),
    (Same, "SELECT id FROM events WHERE NOT flag AND kind = 'blue' AND tiny < 20"),
    (Same, "SELECT count(*) FROM events WHERE id < 0"),
    (Same, "SELECT kind, colour, large FROM events WHERE id IN (1, 600, 601, 11999)"),
    (Same, "SELECT 1, 'x' FROM dims"),
    (Same, "SELECT id, CASE WHEN dim <> 0 THEN 100 / dim END FROM events WHERE dim < 4"),
    // Types.
    (Same, "SELECT raw, fixed, noon, big FROM events WHERE id % 500 = 0"),
    (Same, "SELECT id FROM events WHERE at >= '2023-11-20T00:00:00' AND at < '2023-11-20T03:00:00'"),
    (Same, "SELECT date_trunc('day', at) AS d, count(*) FROM events GROUP BY d"),
    (Same, "SELECT colour, count(*), min(amount), max(amount), avg(amount) FROM events GROUP BY colour"),
    (Same, "SELECT id FROM events WHERE amount = 1234.56 OR amount > 9999.00"),
    (Same, "SELECT id FROM events WHERE raw = X'0700000000000000'"),
    (Same, "SELECT n, t FROM old_times WHERE n % 9 = 1"),
    (Same, "SELECT min(t), max(t), count(t) FROM old_times"),
    (Same, "SELECT count(*) FROM events WHERE big > 4611686018427387904"),
    // Nested types.
    (Same, "SELECT id, tags FROM events WHERE id < 300"),
    (Same, "SELECT id, attrs['a'], attrs['inner']['x'] FROM events WHERE id % 100 = 1"),
    (Same, "SELECT id, attrs FROM events WHERE attrs['b'] = 'b3' AND id < 2000"),
    (Same, "SELECT tag, count(*) FROM (SELECT unnest(tags) AS tag FROM events) GROUP BY tag"),
    (Same, "SELECT id, array_length(tags) FROM events WHERE array_has(tags, 'tag2') AND id < 1500"),
    (Same, "SELECT id, props FROM events WHERE id < 100"),
    (Same, "SELECT sum(map_extract(props, 'k0')[1]) FROM events"),
    (Same, "SELECT id, points[1]['px'] FROM events WHERE cardinality(points) > 0 AND id < 500"),
    (Same, "SELECT count(*) FROM events WHERE attrs IS NULL"),
    // Aggregates.
    (
        Same,
        "SELECT kind, count(*), count(score), round(sum(price), 3) FROM events JOIN orders ON id = event_id GROUP BY kind",
    ),
    (Same, "SELECT dim, count(DISTINCT code), min(at), max(at) FROM events GROUP BY dim"),
    (
        Same,
        "SELECT kind, flag, count(*) FROM events GROUP BY GROUPING SETS ((kind), (flag), (kind, flag), ())",
    ),
    (Same, "SELECT dim FROM events GROUP BY dim HAVING sum(amount) > 600000"),
    (Same, "SELECT approx_distinct(dim), bool_or(flag), median(tiny) FROM events"),
    (Same, "SELECT max(id), min(id) FROM events WHERE kind = 'green'"),
    (Same, "SELECT DISTINCT kind, colour FROM events"),
    (Same, "SELECT string_agg(label, ',' ORDER BY dim_id) FROM dims WHERE grp = 2"),
    // Joins, with dynamic filters if the planner adds them.
    (Same, "SELECT id, label FROM events JOIN dims ON dim = dim_id WHERE grp = 3 AND tiny < 50"),
    (Same, "SELECT e.id, o.order_id FROM orders o JOIN events e ON o.event_id = e.id WHERE o.order_id < 40"),
    (Same, "SELECT e.id, d.label FROM dims d JOIN events e ON e.id = d.first_event WHERE d.grp = 0"),
    (
        Same,
        "SELECT d.label, o.price FROM dims d LEFT JOIN orders o ON d.first_event = o.order_id AND o.status = 'open'",
    ),
    (
        Same,
        "SELECT o.order_id, e.kind FROM orders o FULL JOIN events e ON o.event_id = e.id WHERE o.order_id IS NULL AND e.id < 900",
    ),
    (Same, "SELECT count(*) FROM events a JOIN events b ON a.id = b.id + 1 WHERE a.kind <> b.kind"),
    (Same, "SELECT count(*) FROM orders o, dims d WHERE o.price < d.dim_id AND o.order_id % 50 = 0"),
    (
        Same,
        "SELECT d.grp, count(*) FROM events e JOIN dims d ON e.dim = d.dim_id JOIN orders o ON o.event_id = e.id WHERE o.status = 'returned' AND d.grp IN (1, 2) GROUP BY d.grp",
    ),
    (
        Same,
        "SELECT order_id FROM orders WHERE event_id IN (SELECT id FROM events WHERE kind = 'red' AND tiny = 7)",
    ),
    (
        Same,
        "SELECT dim_id FROM dims WHERE EXISTS (SELECT 1 FROM events WHERE dim = dim_id AND tiny = 33 AND flag)",
    ),
    (Same, "SELECT dim_id FROM dims WHERE NOT EXISTS (SELECT 1 FROM events WHERE dim = dim_id AND id < 300)"),
    (Same, "SELECT id, (SELECT max(price) FROM orders WHERE event_id = id) FROM events WHERE id < 60"),
    (Same, "SELECT id FROM events WHERE amount > (SELECT avg(amount) * 1.95 FROM events)"),
    // Order, limit, top-k.
    (InOrder, "SELECT id, kind FROM events ORDER BY id LIMIT 10"),
    (InOrder, "SELECT id FROM events ORDER BY id DESC LIMIT 7 OFFSET 3"),
    (InOrder, "SELECT id, big FROM events ORDER BY big DESC, id LIMIT 25"),
    (InOrder, "SELECT id, amount FROM events WHERE kind = 'blue' ORDER BY amount NULLS FIRST, id LIMIT 40"),
    (AsMany, "SELECT id FROM events LIMIT 25"),
    (AsMany, "SELECT id, tags FROM events WHERE tiny > 490 LIMIT 33"),
    (AsMany, "SELECT order_id FROM orders LIMIT 1500 OFFSET 900"),
    (Same, "SELECT count(*) FROM (SELECT id FROM events LIMIT 5000)"),
    (Same, "SELECT * FROM events LIMIT 0"),
    (InOrder, "SELECT at, sensor, value FROM readings ORDER BY at"),
    (InOrder, "SELECT at, value FROM readings WHERE sensor = 3 ORDER BY at LIMIT 30"),
    (InOrder, "SELECT at FROM readings ORDER BY at DESC LIMIT 12"),
    (InOrder, "SELECT at, count(*) FROM readings GROUP BY at ORDER BY at LIMIT 20"),
    (Same, "SELECT a.at, a.value, b.value FROM readings a JOIN readings b ON a.at = b.at WHERE a.sensor = 1"),
    // Window functions.
    (
        Same,
        "SELECT at, sensor, sum(value) OVER (PARTITION BY sensor ORDER BY at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM readings",
    ),
    (Same, "SELECT at, lag(value) OVER (ORDER BY at), row_number() OVER (ORDER BY at) FROM readings"),
    (Same, "SELECT id, rank() OVER (PARTITION BY dim ORDER BY id) AS r FROM events WHERE id < 2500"),
    (
        InOrder,
        "SELECT * FROM (SELECT id, dim, row_number() OVER (PARTITION BY dim ORDER BY id DESC) AS r FROM events) WHERE r <= 2 ORDER BY dim, r",
    ),
    // Set operations, common table expressions.
    (Same, "SELECT id FROM events WHERE id < 50 UNION ALL SELECT order_id FROM orders WHERE order_id < 60"),
    (Same, "SELECT dim FROM events UNION SELECT dim_id FROM dims"),
    (Same, "SELECT dim FROM events WHERE id < 40 EXCEPT SELECT dim_id FROM dims WHERE grp < 3"),
    (Same, "SELECT dim FROM events WHERE id < 40 INTERSECT SELECT dim_id FROM dims WHERE grp < 3"),
    (
        Same,
        "WITH w AS (SELECT dim, count(*) AS c FROM events GROUP BY dim) SELECT a.dim, b.c FROM w a JOIN w b ON a.dim = b.dim WHERE a.c > 100",
    ),
    (
        Same,
        "WITH RECURSIVE walk(n) AS (SELECT first_event FROM dims WHERE dim_id = 7 UNION ALL SELECT e.id * 2 FROM walk JOIN events e ON e.id = walk.n WHERE e.id < 2000) SELECT n FROM walk",
    ),
    (
        Same,
        "WITH RECURSIVE up(i) AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM up WHERE i < (SELECT max(grp) FROM dims)) SELECT i FROM up",
    ),
    // Partitioned folders, evolving schemas, empty files.
    (Same, "SELECT year, month, count(*), min(n) FROM parts GROUP BY year, month"),
    (Same, "SELECT n FROM parts WHERE year = '2024' AND month = '2' AND v > 60"),
    (Same, "SELECT n, month FROM parts WHERE constant = 202401 AND n % 10 = 0"),
    (
        Same,
        "SELECT p.year, count(*) FROM parts p JOIN (SELECT '2023' AS y) q ON p.year = q.y GROUP BY p.year",
    ),
    (InOrder, "SELECT year, n FROM parts ORDER BY year DESC, n LIMIT 5"),
    (Same, "SELECT a, b, c, d FROM evolving"),
    (Same, "SELECT a, c FROM evolving WHERE c IS NULL OR c > 190"),
    (Same, "SELECT count(*), sum(a), round(sum(c), 2), count(d) FROM evolving WHERE a % 3 = 1"),
    (Same, "SELECT d, count(*) FROM evolving GROUP BY d"),
    (Same, "SELECT a FROM evolving WHERE d = 'd3' AND b IS NOT NULL"),
    (Same, "SELECT count(c), count(*) FROM evolving WHERE a < 900"),
    (Same, "SELECT status, count(*) FROM orders WHERE input_file_name() LIKE '%2.parquet' GROUP BY status"),
    (Same, "SELECT input_file_name(), count(*), min(order_id) FROM orders GROUP BY 1"),
    (Same, "SELECT file_row_index(), order_id FROM orders WHERE order_id < 2010"),
    // Decimals, and aggregations at scans.
    (Same, "SELECT * FROM sales WHERE sale % 50 = 7"),
    (Same, "SELECT price, rate FROM sales WHERE rate < 0.05 AND price >= 1000.00 AND quantity IN (1, 5, 7)"),
    (Same, "SELECT sale FROM sales WHERE price = quantity OR rate <> 0.10 AND long > 5"),
    (Same, "SELECT sale, price * (1 - rate), long + rate FROM sales WHERE rate IS NOT NULL AND sale < 900"),
    (Same, "SELECT sum(price), count(*), count(rate), avg(price) FROM sales"),
    (
        Same,
        "SELECT sum(price * rate), avg(rate), sum(quantity) FROM sales WHERE price < 2500 AND day < '1970-01-04'",
    ),
    (
        Same,
        "SELECT region, day, open, sum(price), sum(price * (1 - rate)), sum(price * (1 - rate) * (1 + rate)), \
         avg(quantity), count(*), count(quantity), sum(count) FROM sales WHERE price > 20000 GROUP BY region, day, open",
    ),
    (Same, "SELECT region, sum(price - quantity), sum(quantity + rate) FROM sales GROUP BY region"),
    (Same, "SELECT day, sum(wild * price), sum(wild * wild) FROM sales GROUP BY day"),
    (Same, "SELECT sum(wild), avg(wild), sum(long) FROM sales WHERE open"),
    (Same, "SELECT many, sum(price), count(*) FROM sales GROUP BY many"),
    (Same, "SELECT rate, sum(rate), count(*) FROM sales GROUP BY rate"),
    (Same, "SELECT sum(count), count(count) FROM sales WHERE sale < 0"),
    (
        Same,
        "SELECT region, sum(price) FROM sales WHERE price > 90000 GROUP BY region HAVING sum(price) > 100",
    ),
    (Same, "SELECT count(*) FROM sales WHERE rate = 0.03 AND region = 'N'"),
    (
        Same,
        "SELECT region, sum(DISTINCT quantity), count(DISTINCT day), max(price) FROM sales GROUP BY region",
    ),
    (Same, "SELECT region, sum(price) FILTER (WHERE open), sum(price) FROM sales GROUP BY region"),
    (Same, "SELECT * FROM nothing"),
    (Same, "SELECT count(*), sum(price) FROM nothing"),
    (Same, "SELECT status, count(*) FROM holes GROUP BY status"),
    (Same, "SELECT h.order_id FROM holes h JOIN nothing n ON h.order_id = n.order_id"),
];
