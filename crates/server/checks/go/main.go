// The calls of a Go program: pgx in each of its modes, its pool, batches and COPY, and lib/pq by database/sql.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
)

type nation struct {
	Key     int64  `db:"n_nationkey"`
	Name    string `db:"n_name"`
	Region  int64  `db:"n_regionkey"`
	Comment string `db:"n_comment"`
}

var failed = false

func check(what string, found, wanted any, err error) {
	if err != nil {
		fmt.Printf("%s: %v\n", what, err)
		failed = true
	} else if !reflect.DeepEqual(found, wanted) {
		fmt.Printf("%s: %v, not %v\n", what, found, wanted)
		failed = true
	}
}

func one[T any](ctx context.Context, connection *pgx.Conn, what string, wanted T, statement string, arguments ...any) {
	var found T
	err := connection.QueryRow(ctx, statement, arguments...).Scan(&found)
	check(what+": "+statement, found, wanted, err)
}

// modes reads each type with parameters in each mode of pgx.
func modes(ctx context.Context, url string) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		what := mode.String()
		config, err := pgx.ParseConfig(url)
		check(what, nil, nil, err)
		config.DefaultQueryExecMode = mode
		connection, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			check(what, nil, nil, err)
			continue
		}
		day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
		moment := time.Date(2024, 2, 29, 12, 34, 56, 789000000, time.UTC)
		for range 2 { // the second time from the cache
			one(ctx, connection, what, "CANADA", "SELECT n_name FROM nation WHERE n_nationkey = $1", 3)
			one(ctx, connection, what, int64(2), "SELECT count(*) FROM nation WHERE n_nationkey = ANY($1)", []int64{1, 2})
			one(ctx, connection, what, int64(2), "SELECT count(*) FROM nation WHERE n_name = ANY($1::text[])", []string{"CANADA", "FRANCE"})
			one(ctx, connection, what, int32(42), "SELECT $1::int + 1", 41)
			one(ctx, connection, what, 2.5, "SELECT $1::float8", 2.5)
			one(ctx, connection, what, true, "SELECT $1::bool", true)
			one(ctx, connection, what, "CANADA", "SELECT n_name FROM nation ORDER BY n_nationkey LIMIT $1 OFFSET $2", 1, 3)
			one(ctx, connection, what, "CAN", "SELECT left(n_name, $1) FROM nation WHERE n_nationkey = coalesce($2, 7)", 3, 3)
			one(ctx, connection, what, "yes", "SELECT CASE WHEN $1 THEN 'yes' ELSE 'no' END", true)
			one(ctx, connection, what, "a'b\\", "SELECT $1::text", "a'b\\")
			one(ctx, connection, what, []byte{0, 1, 255}, "SELECT $1::bytea", []byte{0, 1, 255})
			one(ctx, connection, what, []int32{1, 2}, "SELECT $1::int[]", []int32{1, 2})
			one(ctx, connection, what, day, "SELECT $1::date", day)
			one(ctx, connection, what, moment, "SELECT $1::timestamp", moment)
			one(ctx, connection, what, "b3f0c1a2-0000-4000-8000-123456789abc", "SELECT ($1::uuid)::text", "b3f0c1a2-0000-4000-8000-123456789abc")
			one(ctx, connection, what, (*string)(nil), "SELECT $1::text", nil)
			var instant time.Time
			err = connection.QueryRow(ctx, "SELECT $1::timestamptz", moment).Scan(&instant)
			check(what+": instant", instant.UTC(), moment, err)
			var number pgtype.Numeric
			err = connection.QueryRow(ctx, "SELECT $1::numeric * 2", pgtype.Numeric{Int: big.NewInt(125), Exp: -2, Valid: true}).Scan(&number)
			float, _ := number.Float64Value()
			check(what+": numeric", float.Float64, 2.5, err)
			var span pgtype.Interval
			err = connection.QueryRow(ctx, "SELECT '1 mon 2 days 3 s'::interval").Scan(&span)
			check(what+": interval", span, pgtype.Interval{Months: 1, Days: 2, Microseconds: 3000000, Valid: true}, err)
		}
		rows, err := connection.Query(ctx, "SELECT * FROM nation WHERE n_nationkey < $1 ORDER BY 1", 5)
		check(what, nil, nil, err)
		nations, err := pgx.CollectRows(rows, pgx.RowToStructByName[nation])
		check(what+": structs", len(nations), 5, err)
		_, err = connection.Exec(ctx, "SELECT nope FROM nation")
		var said *pgconn.PgError
		check(what+": error", errors.As(err, &said) && said.Code == "42703", true, nil)
		connection.Close(ctx)
	}
}

// together sends batches, copies, stops statements and uses a pool.
func together(ctx context.Context, url string) {
	connection, err := pgx.Connect(ctx, url)
	check("connect", nil, nil, err)
	defer connection.Close(ctx)
	batch := &pgx.Batch{}
	for n := range 20 {
		batch.Queue("SELECT count(*) + $1 FROM nation", n)
	}
	results := connection.SendBatch(ctx, batch)
	for n := range int64(20) {
		var found int64
		err := results.QueryRow().Scan(&found)
		check("batch", found, 25+n, err)
	}
	check("batch", nil, nil, results.Close())

	var copied bytes.Buffer
	tag, err := connection.PgConn().CopyTo(ctx, &copied, "COPY (SELECT n_nationkey, n_name FROM nation ORDER BY 1) TO STDOUT (FORMAT csv)")
	check("copy", tag.RowsAffected(), int64(25), err)
	check("copy", bytes.HasPrefix(copied.Bytes(), []byte("0,ALGERIA\n1,ARGENTINA\n")), true, nil)

	transaction, err := connection.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.RepeatableRead})
	check("begin", nil, nil, err)
	rows, err := transaction.Query(ctx, "SELECT n_name FROM nation")
	check("transaction", nil, nil, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check("transaction", len(names), 25, err)
	check("commit", nil, nil, transaction.Commit(ctx))

	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	begun := time.Now()
	_, err = connection.Exec(short, "SELECT count(*) FROM generate_series(1, 1000000000000)")
	cancel()
	check("stopped", err != nil && time.Since(begun) < 10*time.Second, true, nil)

	pool, err := pgxpool.New(ctx, url+"&pool_max_conns=4")
	check("pool", nil, nil, err)
	defer pool.Close()
	var all sync.WaitGroup
	for n := range int64(40) {
		all.Go(func() {
			var found int64
			err := pool.QueryRow(ctx, "SELECT count(*) + $1::bigint FROM nation", n).Scan(&found)
			check("pool", found, 25+n, err)
		})
	}
	all.Wait()
}

// standard uses both drivers by database/sql.
func standard(url string) {
	for _, driver := range []string{"pgx", "postgres"} {
		database, err := sql.Open(driver, url)
		check(driver, nil, nil, err)
		defer database.Close()
		check(driver+": ping", nil, nil, database.Ping())
		prepared, err := database.Prepare("SELECT n_name FROM nation WHERE n_nationkey = $1")
		check(driver, nil, nil, err)
		for range 3 {
			var name string
			err := prepared.QueryRow(3).Scan(&name)
			check(driver+": prepared", name, "CANADA", err)
		}
		rows, err := database.Query("SELECT n_nationkey, n_name, o_orderdate, o_totalprice FROM nation, orders WHERE n_nationkey = o_orderkey ORDER BY 1 LIMIT 2")
		check(driver, nil, nil, err)
		types, err := rows.ColumnTypes()
		check(driver+": types", len(types), 4, err)
		count := 0
		for rows.Next() {
			var key int64
			var name, price string
			var date time.Time
			check(driver+": row", nil, nil, rows.Scan(&key, &name, &date, &price))
			count++
		}
		check(driver+": rows", count, 2, rows.Err())
		begun, err := database.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
		check(driver+": begin", nil, nil, err)
		var several int
		check(driver+": in a transaction", nil, nil, begun.QueryRow("SELECT count(*) FROM nation").Scan(&several))
		check(driver+": rollback", several, 25, begun.Rollback())
	}
}

func main() {
	url := os.Args[1]
	ctx := context.Background()
	modes(ctx, url)
	together(ctx, url)
	standard(url)
	if failed {
		os.Exit(1)
	}
	fmt.Println("all")
}
