"""The store of the benchmarks: ranges, listings, latency, refusals, counts."""

import json
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path


class Store(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name in ("a.parquet", "b=1/c.parquet"):
            (self.root / "bucket" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / "bucket" / name).write_bytes(bytes(range(256)) * 4000)

    def start(self, *options: str) -> str:
        command = [sys.executable, "-m", "bench.store", "--root", str(self.root), *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process.stdout.readline().strip()

    def get(self, url: str, **headers: str) -> tuple[bytes, object]:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.read(), answer.headers

    def test_ranges_are_those_of_the_file(self) -> None:
        url = self.start("--latency-ms", "0")
        data = (self.root / "bucket/a.parquet").read_bytes()
        for asked, wanted in (("bytes=3-9", data[3:10]), ("bytes=-8", data[-8:]), ("bytes=1000000-", data[1000000:])):
            body, headers = self.get(f"{url}/bucket/a.parquet", Range=asked)
            self.assertEqual(body, wanted)
            self.assertTrue(headers["Content-Range"].endswith(f"/{len(data)}"))
        self.assertEqual(self.get(f"{url}/bucket/b%3D1/c.parquet")[0], data)
        counts = json.loads(self.get(f"{url}/-/counts")[0])
        self.assertEqual((counts["gets"], counts["bytes"]), (4, 7 + 8 + len(data) - 1000000 + len(data)))

    def test_listings_have_keys_and_folders(self) -> None:
        url = self.start("--latency-ms", "0")
        listing = self.get(f"{url}/bucket?list-type=2&prefix=")[0].decode()
        self.assertIn("<Key>a.parquet</Key>", listing)
        self.assertIn("<Key>b=1/c.parquet</Key>", listing)
        listing = self.get(f"{url}/bucket?list-type=2&prefix=&delimiter=/")[0].decode()
        self.assertIn("<Prefix>b=1/</Prefix>", listing)
        self.assertNotIn("c.parquet", listing)

    def test_what_lies_outside_is_not_there(self) -> None:
        url = self.start("--latency-ms", "0")
        (self.root.parent / "outside").write_text("x")
        self.addCleanup((self.root.parent / "outside").unlink)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.get(f"{url}/..%2Foutside")
        self.assertEqual(refused.exception.code, 404)
        refused.exception.close()

    def test_latency_and_bandwidth_take_their_time(self) -> None:
        url = self.start("--latency-ms", "100", "--each", "10MB")
        begun = time.monotonic()
        self.get(f"{url}/bucket/a.parquet")
        self.assertGreater(time.monotonic() - begun, 0.08 + 1.024 / 10)

    def test_more_requests_than_allowed_are_refused(self) -> None:
        url = self.start("--latency-ms", "0", "--refuse-above", "1")
        refused = 0
        for _ in range(40):
            try:
                self.get(f"{url}/bucket/a.parquet", Range="bytes=0-1")
            except urllib.error.HTTPError as error:
                refused += error.code == 503
                error.close()
        self.assertGreater(refused, 10)


if __name__ == "__main__":
    unittest.main()
