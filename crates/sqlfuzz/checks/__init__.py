"""Compares answers of coscan with DuckDB's: random SQL and TPC-DS. `make duckdb-test`."""
