"""Values of all types, as text and in binary: psycopg reads both, and the values equal those written to a file."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

from .server import COSCAN, Server, client_packages

LONG = Decimal("12345678901234567890123456789012345678")


def columns():
    """A column of three values and a NULL for each type, by name."""
    import pyarrow as pa

    texts = pa.struct([("a", pa.string()), ("b", pa.string()), ("c", pa.string())])
    days = [date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)]
    times = [datetime(2024, 1, 1, 1, 2, 3, 500000), datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)]
    numbers = {
        "numeric38": ([LONG, Decimal(-1), Decimal(0)], pa.decimal128(38, 0)),
        "numeric38_38": ([LONG.scaleb(-38), Decimal("-1E-38"), Decimal(0)], pa.decimal128(38, 38)),
        "numeric76": ([Decimal("1234567890" * 7), Decimal("-" + "9" * 76), Decimal(0)], pa.decimal256(76, 0)),
        "numeric76_70": ([Decimal("1." + "12" * 35), Decimal("-0.5"), Decimal(0)], pa.decimal256(76, 70)),
        "float16": ([1.5, float("inf"), -2.0], pa.float16()), "float32": ([1.5, float("-inf"), 1e10], pa.float32()),
        "float64": ([0.1, float("inf"), -1e300], pa.float64()), "int8": ([-128, 0, 127], pa.int8()),
        "uint8": ([255, 0, 1], pa.uint8()), "uint16": ([65535, 0, 1], pa.uint16()), "uint32": ([2**32 - 1, 0, 1], pa.uint32()),
        "uint64": ([2**64 - 1, 0, 1], pa.uint64()), "bool": ([True, False, True], pa.bool_()),
    }
    others = {
        "text": (["a", "", "null"], pa.string()), "large_text": (["a", "", "ä"], pa.large_string()),
        "dictionary": (["x", "y", "x"], pa.dictionary(pa.int32(), pa.string())),
        "bytes": ([b"\x00\xff", b"", b"\\x"], pa.binary()), "fixed_bytes": ([b"\x00\xff", b"ab", b"\\x"], pa.binary(2)),
        "date": (days, pa.date32()), "time32": ([time(0, 0, 1, 500000), time(0), time(23, 59, 59)], pa.time32("ms")),
        "time64": ([time(0, 0, 1, 500000), time(0), time(23, 59, 59, 999999)], pa.time64("us")),
        "timestamp": (times, pa.timestamp("us")), "timestamp_s": ([datetime(2024, 1, 1, 1, 2, 3)] * 3, pa.timestamp("s")),
        "timestamptz": (times, pa.timestamp("us", "UTC")),
    }
    nested = {
        "integers": ([[1, None], [], [5]], pa.list_(pa.int64())), "fixed": ([[1, 2], [3, None], [5, 6]], pa.list_(pa.int32(), 2)),
        "texts": ([["a", "", "null", None], ["a,b", "{x}", 'q"\\', " "], []], pa.large_list(pa.string())),
        "numerics": ([[LONG, None], [], [Decimal(1)]], pa.list_(pa.decimal128(38, 0))), "blobs": ([[b"\x00", None], [], [b""]], pa.list_(pa.binary())),
        "many_times": ([times, [None], []], pa.list_(pa.timestamp("us"))),
        "struct": ([("a", None, "x y"), (None, "", 'q"\\'), ("(,)", "null", None)], texts), "structs": ([[("a", None, "b,")], [], [None]], pa.list_(texts)),
    }
    as_struct = lambda value: dict(zip("abc", value)) if isinstance(value, tuple) else value
    for name, (values, of) in (numbers | others | nested).items():
        written = [[as_struct(one) for one in value] if isinstance(value, list) else as_struct(value) for value in values]
        yield name, [*values, None], pa.array([*written, None], of)


class Values(unittest.TestCase):
    """Values in files and in expressions."""

    @classmethod
    def setUpClass(cls):
        client_packages()
        import pyarrow
        from pyarrow import parquet

        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.written = {}
        (cls.folder / "tables").mkdir()
        numbers = pyarrow.array(range(4))
        for name, values, array in columns():
            cls.written[name] = values
            parquet.write_table(pyarrow.table({"n": numbers, "v": array}), cls.folder / "tables" / f"{name}.parquet")
        users = cls.folder / "users.toml"
        add = [COSCAN, "user", "add", "ann", "--users", users]
        subprocess.run(add, check=True, env=os.environ | {"COSCAN_PASSWORD": "ann"})
        cls.server = Server("--users", str(users), data=cls.folder / "tables")
        cls.addClassCleanup(cls.server.stop)

    def connect(self, **options):
        import psycopg

        at = {"host": "127.0.0.1", "port": self.server.port, "user": "ann", "password": "ann", "dbname": "db"}
        return psycopg.connect(**at, autocommit=True, **options)

    def fails(self, code, ask, *args):
        import psycopg

        with self.assertRaises(psycopg.Error) as failed:
            ask(*args)
        self.assertEqual(failed.exception.sqlstate, code, failed.exception)

    def test_what_was_written_is_read_in_both_formats(self):
        with self.connect(options="-c timezone=UTC") as connection:
            for name, values in self.written.items():
                for binary in (False, True):
                    with self.subTest(name, binary=binary):
                        rows = connection.cursor(binary=binary).execute(f"SELECT v FROM {name} ORDER BY n").fetchall()
                        bare = lambda value: value.replace(tzinfo=None) if isinstance(value, datetime) else value
                        self.assertEqual([bare(value) for value, in rows], values)
                with self.subTest(name, copied=True):
                    copy = f"COPY (SELECT v FROM {name} ORDER BY n) TO STDOUT (FORMAT binary)"
                    of = connection.execute(f"SELECT v FROM {name}").description[0].type_code
                    with connection.cursor().copy(copy) as rows:
                        rows.set_types([of])
                        self.assertEqual([bare(value) for value, in rows.rows()], values)

    def test_texts_are_those_of_postgres(self):
        """The output of PostgreSQL 16, character by character."""
        asked = [
            ("timestamp '2024-01-01 01:02:03.500'", "2024-01-01 01:02:03.5"), ("timestamp '2024-01-01'", "2024-01-01 00:00:00"),
            ("time '10:00'", "10:00:00"), ("timestamptz '2024-07-01 12:00:00+00'", "2024-07-01 14:00:00+02"),
            ("interval '1 year 2 mons -3 days 04:05:06.5'", "1 year 2 mons -3 days +04:05:06.5"), ("NULL::interval", None),
            ("ARRAY[interval '1 day', NULL]", '{"1 day",NULL}'), ("ARRAY[timestamp '2024-01-01']", '{"2024-01-01 00:00:00"}'),
            ("ARRAY[1.5::float8, 'inf', 'nan']", "{1.5,Infinity,NaN}"), ("1e16::float8", "1e+16"), ("0.00001::float8", "1e-05"),
            ("1::float8", "1"), ("'-inf'::float4", "-Infinity"), ("1e6::float4", "1e+06"),
            ("struct(1, NULL, 'x')", "(1,,x)"), ("struct('', 'a b', 'q\"\\', '(,)', 'null')", r'("","a b","q""\\","(,)",null)'),
            ("struct(NULL, ARRAY[1, NULL], struct(NULL))", '(,"{1,NULL}","()")'), ("ARRAY[struct('a b', NULL)]", r'{"(\"a b\",)"}'),
            ("arrow_cast(1.5, 'Float16')", "1.5"), ("'99999999999999999999999999999999999999'::numeric(38, 0)", "9" * 38),
            ("NULL", None), ("ARRAY[NULL]", "{NULL}"), ("decode('5c00', 'hex')", r"\x5c00"),
        ]
        with self.connect(options="-c timezone=Europe/Berlin") as connection:
            sent = lambda sql: connection.execute(f"SELECT {sql}").pgresult.get_value(0, 0)
            for sql, expected in asked:
                with self.subTest(sql):
                    self.assertEqual(sent(sql), expected if expected is None else expected.encode())
            for setting, sql, expected in (
                ("bytea_output = escape", "decode('5c0041', 'hex')", r"\\\000A"), ("extra_float_digits = 0", "(0.1 + 0.2)::float8", "0.3"),
                ("intervalstyle = iso_8601", "interval '1 day 02:00'", "P1DT2H"), ("intervalstyle = sql_standard", "interval '1 day 02:00'", "1 2:00:00"),
                ("intervalstyle = postgres_verbose", "interval '-1 day'", "@ 1 day ago"), ("datestyle = 'SQL, DMY'", "date '2024-02-29'", "29/02/2024"),
                ("datestyle = German", "timestamp '2024-02-29 01:00'", "29.02.2024 01:00:00"),
            ):
                connection.execute(f"SET {setting}")
                with self.subTest(setting):
                    self.assertEqual(sent(sql), expected.encode())
                connection.execute(f"RESET {setting.split()[0]}")

    def test_bound_numerics_come_back(self):
        with self.connect() as connection:
            for scale in (0, -1, -3, -19, -38):
                for sign in (1, -1):
                    value = Decimal((int(sign < 0), (9,) * 38, scale))
                    for binary in (False, True):
                        place = "%b" if binary else "%t"
                        with self.subTest(value, binary=binary):
                            self.assertEqual(connection.cursor(binary=binary).execute(f"SELECT {place}", [value]).fetchone()[0], value)

    def test_bytes(self):
        blob = bytes(range(256))
        with self.connect() as connection:
            for binary in (False, True):
                ask = lambda sql, *args: connection.cursor(binary=binary).execute(f"SELECT {sql}", args or None).fetchone()[0]
                for sql, expected in (
                    (r"'\xfffe'::bytea", b"\xff\xfe"), (r"'\x DE ad'::bytea", b"\xde\xad"), (r"'a\\b\377\000'::bytea", b"a\\b\xff\0"),
                    ("'abc'::bytea", b"abc"), ("''::bytea", b""), (r"'\x6162' = 'ab'::bytea", True),
                    (r"v = '\x00ff' FROM bytes WHERE n = 0", True),
                ):
                    with self.subTest(sql, binary=binary):
                        self.assertEqual(ask(sql), expected)
                self.assertEqual(ask("%s", blob), blob)
                # As text, with the type stated by the statement.
                for text, expected in ((r"\xfffe", b"\xff\xfe"), (r"a\\b\377", b"a\\b\xff"), ("", b""), (None, None)):
                    self.assertEqual(ask("%s::bytea", text), expected)
                for code, text in (("22023", r"\xf"), ("22023", r"\xfg"), ("22P02", "a\\")):
                    self.fails(code, ask, f"'{text}'::bytea")
                    self.fails(code, ask, "%s::bytea", text)

    def test_what_postgres_does_not_have_is_an_error(self):
        with self.connect() as connection:
            for binary in (False, True):
                ask = lambda sql: connection.cursor(binary=binary).execute(f"SELECT {sql}").fetchall()
                for sql in ("arrow_cast(2147483647, 'Date32')",
                            "arrow_cast(9223372036854775807, 'Timestamp(Second, None)')", "arrow_cast(-2147483648, 'Date32')"):
                    with self.subTest(sql, binary=binary):
                        self.fails("22008", ask, sql)
                self.fails("0A000", ask, "ARRAY[ARRAY[1]]")
                self.assertEqual(ask("1"), [(1,)])
            self.assertEqual(timedelta(0), connection.execute("SELECT now() - now()").fetchone()[0])

    def test_settings(self):
        with self.connect(options="-c timezone=asia/tokyo") as connection:
            one = lambda sql: connection.execute(sql).fetchall()
            zone = lambda: one("SHOW TIME ZONE")[0][0]
            noon = lambda: connection.execute("SELECT timestamptz '2024-07-01 12:00:00+00'").pgresult.get_value(0, 0).decode()[11:]
            self.assertEqual((zone(), connection.info.parameter_status("TimeZone")), ("Asia/Tokyo", "Asia/Tokyo"))
            for value, shown, at_noon in (
                ("'Europe/Berlin'", "Europe/Berlin", "14:00:00+02"), ("'america/new_york'", "America/New_York", "08:00:00-04"),
                ("'utc'", "UTC", "12:00:00+00"), ("'+05:30'", "+05:30", "17:30:00+05:30"), ("-7", "-07:00", "05:00:00-07"),
                ("INTERVAL '-03:00' HOUR TO MINUTE", "-03:00", "09:00:00-03"), ("LOCAL", "Asia/Tokyo", "21:00:00+09"),
                ("'GMT-2'", "+02:00", "14:00:00+02"), ("DEFAULT", "Asia/Tokyo", "21:00:00+09"),
            ):
                with self.subTest(value):
                    connection.execute(f"SET TIME ZONE {value}")
                    self.assertEqual((zone(), noon(), connection.info.parameter_status("TimeZone")), (shown, at_noon, shown))
            for wrong in ("SET TIME ZONE 'nonsense'", "SET timezone = 'Europe/Nowhere'", "SET TIME ZONE 99"):
                self.fails("22023", connection.execute, wrong)
            self.assertEqual(zone(), "Asia/Tokyo")
            for name, value in (("coscan.enabled", "true"), ("datafusion.execution.batch_size", "8192")):
                for binary in (False, True):
                    cursor = connection.cursor(binary=binary).execute(f"SHOW {name}")
                    self.assertEqual(([column.name for column in cursor.description], cursor.fetchall()), ([name], [(value,)]))
