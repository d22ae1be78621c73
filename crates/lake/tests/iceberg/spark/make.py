"""Writes the tables of this folder again, by Spark and its Iceberg library, and prints what they read of them.

    pip install pyspark==4.0.1
    python make.py FOLDER

The expected rows of `../written.rs` are what this program printed.
"""

import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession

ROOT = Path(sys.argv[1]).resolve()
MERGED = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
TABLES = {
    # Files with positions of several generations.
    "deleted": [
        f"CREATE TABLE {{t}} (id BIGINT, name STRING) USING iceberg TBLPROPERTIES ('format-version'='2', {MERGED})",
        "INSERT INTO {t} SELECT id, concat('n', id) FROM range(0, 2000, 1, 1)",
        "INSERT INTO {t} SELECT id, concat('n', id) FROM range(2000, 2100, 1, 1)",
        "DELETE FROM {t} WHERE id % 5 = 3",
        "DELETE FROM {t} WHERE id BETWEEN 100 AND 120 OR id = 2050",
        "UPDATE {t} SET name = 'changed' WHERE id IN (7, 1999)",
    ],
    # Vectors, in partitions, after files with positions.
    "vectors": [
        f"CREATE TABLE {{t}} (id BIGINT, k INT) USING iceberg PARTITIONED BY (k) TBLPROPERTIES ('format-version'='2', {MERGED})",
        "INSERT INTO {t} SELECT id, CAST(id % 3 AS INT) FROM range(0, 3000, 1, 1)",
        "DELETE FROM {t} WHERE id % 10 = 0",
        "ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')",
        "DELETE FROM {t} WHERE id % 10 = 1",
        "DELETE FROM {t} WHERE k = 2 AND id < 1000",
        "INSERT INTO {t} VALUES (NULL, NULL), (-1, NULL)",
    ],
    # Renamed, dropped, added and wider columns, with one name used twice, at the top and inside.
    "evolved": [
        "CREATE TABLE {t} (a INT, b STRING, c DOUBLE, p STRUCT<u: INT, v: STRING>, l ARRAY<STRUCT<x: INT>>, "
        "m MAP<STRING, STRUCT<y: FLOAT>>) USING iceberg PARTITIONED BY (bucket(4, a))",
        "INSERT INTO {t} VALUES (1, 'x', 1.5, named_struct('u', 1, 'v', 'one'), array(named_struct('x', 7), NULL), "
        "map('k', named_struct('y', 0.5))), (2, NULL, double('nan'), NULL, NULL, NULL)",
        "ALTER TABLE {t} RENAME COLUMN b TO text",
        "ALTER TABLE {t} DROP COLUMN c",
        "ALTER TABLE {t} ADD COLUMN c STRING FIRST",
        "ALTER TABLE {t} ALTER COLUMN a TYPE BIGINT",
        "ALTER TABLE {t} RENAME COLUMN p.u TO number",
        "ALTER TABLE {t} ADD COLUMN p.u STRING",
        "ALTER TABLE {t} RENAME COLUMN l.element.x TO first",
        "ALTER TABLE {t} ALTER COLUMN m.value.y TYPE DOUBLE",
        "ALTER TABLE {t} ADD PARTITION FIELD text",
        "INSERT INTO {t} (c, a, text, p, l, m) VALUES ('new', 1099511627776, 'y', named_struct('number', 2, 'v', 'two', 'u', 'w'), "
        "array(named_struct('first', 8)), map('q', named_struct('y', 2.5D)))",
    ],
    "types": [
        "CREATE TABLE {t} (i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(38,10), m DECIMAL(9,2), "
        "b BOOLEAN, x STRING, y BINARY, dt DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, ls ARRAY<INT>, st STRUCT<u: INT, v: STRING>, "
        "mp MAP<STRING, INT>) USING iceberg",
        "INSERT INTO {t} VALUES (3, 4, 1.5, 2.5, 12345678901234567890.0123456789, -7.25, true, 'é', X'00ff', "
        "DATE'1969-12-31', TIMESTAMP'2024-03-30 12:00:00.123456', TIMESTAMP_NTZ'2024-03-30 12:00:00.999999', array(1, NULL, 3), "
        "named_struct('u', 5, 'v', 'w'), map('k', 9)), "
        "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), "
        "(-2147483648, -9223372036854775808, float('-inf'), double('nan'), -1, 0, false, '', X'', "
        "DATE'9999-12-31', TIMESTAMP'1960-01-01 00:00:00', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', array(), "
        "named_struct('u', NULL, 'v', ''), map())",
    ],
    # Values of deleted rows, written by Iceberg's Java library below.
    "values": [
        "CREATE TABLE {t} (id BIGINT, k STRING, v DOUBLE) USING iceberg TBLPROPERTIES ('format-version'='2')",
        "INSERT INTO {t} VALUES (1, 'a', 0.5), (2, 'b', NULL), (3, NULL, 1.5), (4, NULL, NULL), (5, 'b', double('nan'))",
    ],
}

shutil.rmtree(ROOT, ignore_errors=True)
settings = {
    "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
    "spark.sql.catalog.ice.warehouse": str(ROOT),
    "spark.sql.catalog.ice.cache-enabled": "false",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
}
builder = SparkSession.builder.master("local[1]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()


def delete_values(name: str, columns: list[str], rows: list[list[object]]) -> None:
    """Deletes the rows that have these values, as streaming writers do."""
    java = spark._jvm
    iceberg = java.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"ice.d.{name}")
    schema = table.schema().select(columns)
    ids = spark.sparkContext._gateway.new_array(java.int, len(columns))
    for at, column in enumerate(columns):
        ids[at] = table.schema().findField(column).fieldId()
    factory = iceberg.data.GenericAppenderFactory(table.schema(), table.spec(), ids, schema, None)
    files = iceberg.io.OutputFileFactory.builderFor(table, 1, 1).format(iceberg.FileFormat.PARQUET).build()
    writer = factory.newEqDeleteWriter(files.newOutputFile(), iceberg.FileFormat.PARQUET, None)
    for row in rows:
        record = iceberg.data.GenericRecord.create(schema)
        for column, value in zip(columns, row):
            record.setField(column, value)
        writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


for name, statements in TABLES.items():
    for statement in statements:
        spark.sql(statement.format(t=f"ice.d.{name}"))
delete_values("values", ["k"], [["b"], [None]])
spark.sql("INSERT INTO ice.d.values VALUES (6, 'b', 2.5), (7, 'c', NULL)")
delete_values("values", ["v", "k"], [[None, "c"], [2.5, "z"], [0.5, None]])
for name in TABLES:
    print(name)
    for row in spark.table(f"ice.d.{name}").collect()[:20]:
        print("   ", row)
    for row in spark.sql(f"SELECT snapshot_id, operation FROM ice.d.{name}.snapshots").collect():
        at = spark.sql(f"SELECT count(*) FROM ice.d.{name} VERSION AS OF {row.snapshot_id}").collect()[0][0]
        print("   ", row.snapshot_id, row.operation, at)
print(spark.sql("SELECT count(*), sum(id), count(DISTINCT name), sum(CASE WHEN name = 'changed' THEN id END) FROM ice.d.deleted").collect())
print(spark.sql("SELECT k, count(*), sum(id) FROM ice.d.vectors GROUP BY k ORDER BY k").collect())
for checksum in ROOT.rglob(".*.crc"):
    checksum.unlink()
