"""Answers of coscan against DuckDB's: random SQL and TPC-DS. `make duckdb-test`."""
