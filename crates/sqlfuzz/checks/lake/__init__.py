"""Compares answers over lake tables that other writers have drawn step by step with what their own readers and DuckDB say."""

#: Versions decide what a seed draws.
PACKAGES = [
    "deltalake==1.6.6",
    "pyarrow==26.0.1",
    "duckdb==1.5.5",
    "duckdb-extension-ducklake==1.5.5",
    "duckdb-extension-sqlite-scanner==1.5.5",
    "duckdb-extension-postgres-scanner==1.5.5",
    "pyiceberg[sql-sqlite,pyiceberg-core]==0.12.0",
    "psycopg[binary]>=3.2",
    "boto3",
    "moto[s3,server]>=5",
]
