-- seed 130: wrong rows: 1 rows instead of 1; missing (false); too many (true)
-- run here: COSCAN_POLICY=pbm-sampling COSCAN_BUFFER=1 COSCAN_STALL_MS=5 COSCAN_BUFFER_START=1 COSCAN_SLICE_ROWS=1 COSCAN_PAGE_CACHE=1 coscan sql --file reproduction.sql
-- and without: COSCAN_ENABLED=false coscan sql --file reproduction.sql
-- tables are planned as src/odd of coscan-sqlfuzz says: Odd { version: Listed, statistics: Exactly, chosen: false, halves: false, adapter: false, reader: false, row_numbers: false, node: Some((2, false)) }
-- files in an object store in memory
-- t1: Writer { compression: UNCOMPRESSED, dictionary: true, dictionary_bytes: 1048576, page_rows: 20000, page_bytes: 1048576, second_version: false, statistics: Page, statistics_bytes: Some(64), bloom_filters: false, offset_index: true, other_encodings: false, types_forgotten: false }
--   c2 Arrow(Utf8): Few(2), nulls OneIn(5), seed 0x52ca45075630775a
--   t1/0.parquet: rows from 0 in groups of [502, 899] 
SET coscan.small_table_bytes = '0';
CREATE EXTERNAL TABLE t1 STORED AS PARQUET LOCATION 't1/';
SELECT count(*) BETWEEN 188 AND 512 AS x0 FROM t1 AS a WHERE random() < 0.5 AND random() < 0.5;
