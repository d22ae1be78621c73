"""coscan over a real S3 server, the Versity gateway: signed requests, TLS by a private authority, replaced objects, and a
server that stands still, dies and returns.

    python3 -m checks.s3

Go builds the server; this takes minutes the first time.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .packages import COSCAN, PACKAGES, TARGET, Missing, install_packages
from .server import Server, free_port, starts

GATEWAY = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
KEY, SECRET = "reader", "the secret of the reader"
ROWS, FILES = 300_000, 4


def gateway() -> Path:
    """Returns the server, which is built at first."""
    folder = TARGET / "s3-gateway"
    program = folder / "versitygw"
    if not program.exists():
        if not shutil.which("go"):
            raise Missing("Go, which builds the S3 server, is missing")
        environment = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-mod=mod"}
        built = subprocess.run(["go", "install", GATEWAY], env=environment, capture_output=True, text=True, check=False)
        if built.returncode:
            raise Missing(f"the S3 server cannot be built: {built.stderr[-500:]}")
    return program


def make_certificates(folder: Path) -> None:
    """Makes an authority, `ca.pem`, and its certificate for this machine."""

    def openssl(*arguments: object) -> None:
        subprocess.run(["openssl", *map(str, arguments)], cwd=folder, check=True, capture_output=True)

    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    key = ["-newkey", "rsa:2048", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", 2, "-subj", "/CN=authority")
    openssl("req", *key, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=localhost")
    signed = ["-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", 2]
    openssl("x509", *signed, "-out", "cert.pem", "-extfile", "names")


class Gateway:
    """The server over a folder of buckets. A context manager."""

    def __init__(self, program: Path, folder: Path):
        self.folder, self.port = folder, free_port()
        self.buckets = folder / "buckets"
        self.buckets.mkdir()
        make_certificates(folder)
        tls = ["--cert", folder / "cert.pem", "--key", folder / "key.pem"]
        listen = ["--port", f"127.0.0.1:{self.port}", "--access", KEY, "--secret", SECRET]
        self.command = list(map(str, [program, *listen, *tls, "--quiet", "--keep-alive", "posix", self.buckets]))
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if not starts(self.process, self.port):
            raise RuntimeError("the S3 server does not start")

    def client(self):
        import boto3

        return boto3.client(
            "s3", endpoint_url=f"https://localhost:{self.port}", aws_access_key_id=KEY, aws_secret_access_key=SECRET,
            region_name="us-east-1", verify=str(self.folder / "ca.pem"),
        )

    def access(self, **other: str) -> dict[str, str]:
        """Returns the environment of a client."""
        return {
            **os.environ, "AWS_ENDPOINT": f"https://localhost:{self.port}", "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1", "SSL_CERT_FILE": str(self.folder / "ca.pem"), **other,
        }

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def rows_of(file: int, version: int = 0):
    import pyarrow

    first = file * ROWS
    numbers = list(range(first, first + ROWS))
    return pyarrow.table({"n": numbers, "g": [n % 11 + version for n in numbers], "t": [f"text {n % 977}" for n in numbers]})


class S3(unittest.TestCase):
    gateway: Gateway

    @classmethod
    def setUpClass(cls) -> None:
        folder = Path(tempfile.mkdtemp(prefix="coscan-s3-"))
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.gateway = cls.enterClassContext(Gateway(gateway(), folder))
        cls.gateway.client().create_bucket(Bucket="bucket")
        for file in range(FILES):
            cls.write(file)

    @classmethod
    def write(cls, file: int, version: int = 0) -> None:
        from pyarrow import parquet

        path = cls.gateway.folder / "file.parquet"
        parquet.write_table(rows_of(file, version), path, row_group_size=20_000)
        cls.gateway.client().upload_file(str(path), "bucket", f"data/{file}.parquet")

    def asked(self, query: str, *options: str, **other: str) -> subprocess.CompletedProcess[str]:
        command = [str(COSCAN), "sql", "--format", "csv", "-t", "t=s3://bucket/data/", *options, "-c", query]
        environment = self.gateway.access(**other)
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    def wanted(self) -> list[str]:
        whole = FILES * ROWS
        return [f"{g},{len(range(g, whole, 11))},{sum(range(g, whole, 11))}" for g in range(11)]

    QUERY = "SELECT g, count(*), sum(n) FROM t WHERE t LIKE 'text %' GROUP BY g ORDER BY g"

    def test_signed_requests_over_tls(self) -> None:
        for other in [{}, {"COSCAN_SMALL_TABLE_BYTES": "0"}, {"COSCAN_ENABLED": "false"}]:
            done = self.asked(self.QUERY, **other)
            self.assertEqual(done.stdout.splitlines()[1:], self.wanted(), done.stderr)

    def test_a_wrong_secret_is_named(self) -> None:
        done = self.asked(self.QUERY, AWS_SECRET_ACCESS_KEY="another")
        self.assertIn("SignatureDoesNotMatch", done.stderr)
        self.assertNotIn("CanonicalRequest", done.stderr)

    def test_a_missing_bucket_is_named(self) -> None:
        done = self.asked("SELECT 1", "-t", "u=s3://nowhere/data/")
        self.assertIn("NoSuchBucket", done.stderr)

    def test_an_unknown_authority_is_named_at_once(self) -> None:
        begun = time.monotonic()
        done = self.asked(self.QUERY, SSL_CERT_FILE=os.devnull)
        self.assertIn("UnknownIssuer", done.stderr)
        self.assertLess(time.monotonic() - begun, 3)

    def test_replaced_objects_and_a_server_that_fails(self) -> None:
        """Queries run on a server of coscan's while the store stands still, dies, and gets other objects."""
        with tempfile.NamedTemporaryFile() as log:
            options = ["--table=t=s3://bucket/data/", "--small-table-bytes", "0", "--buffer", "8MB", "--share-results", "false"]
            with Server(COSCAN, {}, options, Path(log.name), self.gateway.access()) as server:

                def ask(_: int) -> list[str]:
                    with server.connect() as connection:
                        return [",".join(map(str, row)) for row in connection.execute(self.QUERY).fetchall()]

                self.assertEqual(ask(0), self.wanted())
                with ThreadPoolExecutor(6) as pool:
                    answers = pool.map(ask, range(24))
                    time.sleep(0.3)
                    self.gateway.process.send_signal(signal.SIGSTOP)
                    time.sleep(2)
                    self.gateway.process.send_signal(signal.SIGCONT)
                    time.sleep(0.3)
                    self.gateway.process.kill()
                    self.gateway.process.wait()
                    time.sleep(1)
                    self.gateway.start()
                    self.assertEqual({tuple(answer) for answer in answers}, {tuple(self.wanted())})
                self.write(FILES - 1, version=100)
                self.addCleanup(self.write, FILES - 1)
                deadline = time.monotonic() + 30
                while len(ask(0)) != 22 and time.monotonic() < deadline:
                    time.sleep(0.5)
                last = sum(int(row.split(",")[1]) for row in ask(0) if int(row.split(",")[0]) >= 100)
                self.assertEqual(last, ROWS)


if __name__ == "__main__":
    try:
        install_packages([*PACKAGES, "boto3"], TARGET / "s3-venv")
        gateway()
    except Missing as missing:
        sys.exit(str(missing))
    unittest.main()
