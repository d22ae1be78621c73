"""Writes the tables of this folder again, by Spark and its Delta library, and prints what they read of them.

    pip install pyspark==4.0.1 delta-spark==4.0.0
    python make.py FOLDER

The expected rows of `../written.rs` are what this program printed.
"""

import sys

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

ROOT = sys.argv[1]
MAPPED = "'delta.columnMapping.mode'='name', 'delta.minReaderVersion'='2', 'delta.minWriterVersion'='5'"
TABLES = {
    # Several vectors for one file, in the log and in files, and an update.
    "deleted": [
        "CREATE TABLE {t} (id BIGINT, name STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
        "INSERT INTO {t} SELECT id, concat('n', id) FROM range(0, 2000, 1, 1)",
        "INSERT INTO {t} SELECT id, concat('n', id) FROM range(2000, 2100, 1, 1)",
        "DELETE FROM {t} WHERE id % 5 = 3",
        "DELETE FROM {t} WHERE id BETWEEN 100 AND 120 OR id = 2050",
        "UPDATE {t} SET name = 'changed' WHERE id IN (7, 1999)",
    ],
    # Renamed, dropped and added columns, with one name used twice.
    "renamed": [
        f"CREATE TABLE {{t}} (a INT, b STRING, c DOUBLE, p DATE) USING delta PARTITIONED BY (p) TBLPROPERTIES ({MAPPED})",
        "INSERT INTO {t} VALUES (1, 'x', 1.5, DATE'2024-02-29'), (2, NULL, double('nan'), NULL)",
        "ALTER TABLE {t} RENAME COLUMN b TO text",
        "ALTER TABLE {t} RENAME COLUMN p TO day",
        "ALTER TABLE {t} DROP COLUMN c",
        "ALTER TABLE {t} ADD COLUMN c STRING",
        "INSERT INTO {t} (a, text, c, day) VALUES (3, 'y', 'new', DATE'2024-03-01')",
    ],
    "types": [
        "CREATE TABLE {t} (t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(38,10), m DECIMAL(9,2), "
        "b BOOLEAN, x STRING, y BINARY, dt DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, ls ARRAY<INT>, st STRUCT<u: INT, v: STRING>, "
        "mp MAP<STRING, INT>) USING delta",
        "INSERT INTO {t} VALUES (1, 2, 3, 4, 1.5, 2.5, 12345678901234567890.0123456789, -7.25, true, 'é', X'00ff', "
        "DATE'1969-12-31', TIMESTAMP'2024-03-30 12:00:00.123456', TIMESTAMP_NTZ'2024-03-30 12:00:00.999999', array(1, NULL, 3), "
        "named_struct('u', 5, 'v', 'w'), map('k', 9)), "
        "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), "
        "(-128, -32768, -2147483648, -9223372036854775808, float('-inf'), double('nan'), -1, 0, false, '', X'', "
        "DATE'9999-12-31', TIMESTAMP'1960-01-01 00:00:00', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', array(), "
        "named_struct('u', NULL, 'v', ''), map())",
    ],
    # A wider type, and checkpoints of one file.
    "widened": [
        "CREATE TABLE {t} (a INT, k INT) USING delta PARTITIONED BY (k) "
        "TBLPROPERTIES ('delta.enableTypeWidening'='true', 'delta.checkpointInterval'='3')",
        "INSERT INTO {t} VALUES (1, 1), (2, 2)",
        "ALTER TABLE {t} ALTER COLUMN a TYPE BIGINT",
        *(f"INSERT INTO {{t}} VALUES ({2**40 + i}, {i})" for i in range(4)),
        "DELETE FROM {t} WHERE k = 2",
    ],
    # Checkpoints of version 2.
    "checkpointed": [
        "CREATE TABLE {t} (a INT) USING delta TBLPROPERTIES ('delta.checkpointPolicy'='v2', 'delta.checkpointInterval'='2', "
        "'delta.enableDeletionVectors'='true')",
        *(f"INSERT INTO {{t}} VALUES ({i}), ({i + 10})" for i in range(4)),
        "DELETE FROM {t} WHERE a = 12",
    ],
}

builder = (
    SparkSession.builder.master("local[1]")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.ui.enabled", "false")
)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
for name, statements in TABLES.items():
    table = f"delta.`{ROOT}/{name}`"
    for statement in statements:
        spark.sql(statement.format(t=table))
    if name == "deleted":
        for version in ("", "VERSION AS OF 3"):
            print(name, version, spark.sql(f"SELECT count(*), sum(id), count(DISTINCT name) FROM {table} {version}").collect())
    else:
        for row in spark.sql(f"SELECT * FROM {table}").collect():
            print(name, row)
