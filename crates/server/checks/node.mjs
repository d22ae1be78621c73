// The calls of a program on node-postgres: query, prepare, many queries at once, errors, continue.

import pg from "pg";

pg.types.setTypeParser(20, Number);
const client = new pg.Client({ host: "127.0.0.1", port: Number(process.argv[2]), user: "coscan", database: "db" });
await client.connect();
const said = {};
said.count = (await client.query("SELECT count(*) AS n FROM nation")).rows[0].n;
said.name = (await client.query("SELECT n_name FROM nation WHERE n_nationkey = $1", [7])).rows[0].n_name;
for (let run = 0; run < 3; run += 1) {
  const found = await client.query({ name: "below", text: "SELECT count(*) AS n FROM nation WHERE n_nationkey < $1", values: [run * 5] });
  said.prepared = found.rows[0].n;
}
const many = await Promise.all([1, 2, 3].map((n) => client.query("SELECT $1::bigint + 1 AS n", [n])));
said.many = many.map((answer) => answer.rows[0].n).join();
said.failed = await client.query("SELECT * FROM nowhere").catch((error) => error.code);
said.after = (await client.query({ text: "SELECT date '2024-02-29', NULL, true", rowMode: "array" })).rows[0].slice(1).join();
await client.end();
console.log(JSON.stringify(said));
