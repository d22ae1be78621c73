-- seed 266: wrong rows: row 0 is (-9999999.98, NULL, 9) and not (1.00, false, 1)
-- run here: COSCAN_POLICY=normal COSCAN_BUFFER=34404 coscan sql --file reproduction.sql
-- and without: COSCAN_ENABLED=false coscan sql --file reproduction.sql
-- the queries ran at the same time, on two sessions of one engine
-- files in an object store in memory
-- t0: Writer { compression: BROTLI(BrotliLevel(1)), dictionary: true, dictionary_bytes: 1048576, page_rows: 20000, second_version: false, statistics: Page, statistics_bytes: Some(1), bloom_filters: false, offset_index: true, other_encodings: false, types_forgotten: false }
--   id Arrow(Int64): RowNumber, nulls None, seed 0xa4fef528c22665a0, required
--   c3 Arrow(Int32): Constant, nulls OneIn(20), seed 0x80ba86adef2a309b
--   t0/0.parquet: rows from 0 in groups of [] 
--   t0/1.parquet: rows from 1000 in groups of [899] 
-- t1: Writer { compression: UNCOMPRESSED, dictionary: true, dictionary_bytes: 1048576, page_rows: 20000, second_version: false, statistics: Page, statistics_bytes: Some(64), bloom_filters: false, offset_index: true, other_encodings: false, types_forgotten: false }
--   id Arrow(Int64): RowNumber, nulls None, seed 0x21f8fb9bcba4a1f3
--   t1/0.parquet: rows from 0 in groups of [7] 
SET datafusion.execution.target_partitions = '3';
SET coscan.small_table_bytes = '0';
CREATE EXTERNAL TABLE t0 STORED AS PARQUET LOCATION 't0/';
CREATE EXTERNAL TABLE t1 STORED AS PARQUET LOCATION 't1/';
(SELECT CAST('-9999999.98' AS DECIMAL(9, 2)) AS x0, (a1.c3 > a1.id) AS x1, date_part('month', arrow_cast(1600060036000000000, 'Timestamp(ns)')) AS x2 FROM t0 AS a1) UNION ALL (SELECT 1 AS x0, false AS x1, 1 AS x2 FROM t1 AS a3) ORDER BY 1 DESC, 2 DESC, 3 DESC LIMIT 10;
