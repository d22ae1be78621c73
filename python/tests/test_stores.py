"""Tables in object stores, which a server of another project plays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

import coscan
from conftest import ROWS

OPTIONS = {"aws_access_key_id": "user", "aws_secret_access_key": "secret", "aws_region": "us-east-1", "allow_http": True}


@pytest.fixture(scope="module")
def endpoint(numbers: Path) -> Iterator[str]:
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    keys = {"aws_access_key_id": "user", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=address, **keys)
    client.create_bucket(Bucket="bucket")
    client.upload_file(str(numbers), "bucket", "data/numbers.parquet")
    yield address
    server.stop()


@pytest.mark.parametrize("location", ["s3://bucket/data/numbers.parquet", "s3://bucket/data/", "s3://bucket/data/*.parquet"])
def test_storage_options(endpoint: str, location: str) -> None:
    with coscan.connect(small_table_bytes=0) as con:
        con.register("numbers", location, storage_options={**OPTIONS, "endpoint": endpoint})
        assert con.sql("SELECT count(*), sum(n) FROM numbers").fetchall() == [(ROWS, ROWS * (ROWS - 1) // 2)]


def test_wrong_storage_options(endpoint: str, tmp_path: Path) -> None:
    with coscan.connect() as con:
        with pytest.raises(coscan.SettingError, match="colour"):
            con.register("t", "s3://bucket/data/", storage_options={"colour": "red"})
        with pytest.raises(coscan.ProgrammingError, match="path"):
            con.register("t", tmp_path, storage_options=OPTIONS)
        with pytest.raises(coscan.Error, match="nowhere"):
            con.register("t", "s3://bucket/nowhere/", storage_options={**OPTIONS, "endpoint": endpoint})
