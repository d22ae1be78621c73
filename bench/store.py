"""An S3 store for benchmarks: a folder with the latency, bandwidth, slow answers and refusals of a remote store.

    python3 -m bench.store --root DIR --port 9000 --latency-ms 30 --each 50MB --all 100MB

Buckets are folders of DIR. The store answers GET with a range, HEAD and listings. Nothing is signed, and nothing
can be written. `GET /-/counts` returns the number of requests and bytes since the last such request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import time
from email.utils import formatdate
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PIECE = 256 << 10


def bytes_of(text: str) -> float:
    """Parses `50MB` to bytes."""
    for suffix, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("", 1.0)):
        if text.endswith(suffix):
            return float(text.removesuffix(suffix)) * factor
    raise ValueError(text)


class Bandwidth:
    """The bandwidth that all answers share."""

    def __init__(self, bytes_per_s: float):
        self.bytes_per_s = bytes_per_s
        self.free_at = 0.0

    def wait(self, count: int) -> float:
        """Returns the seconds to wait before `count` bytes may be sent."""
        if not self.bytes_per_s:
            return 0.0
        now = time.monotonic()
        begin = max(self.free_at, now)
        self.free_at = begin + count / self.bytes_per_s
        return begin - now


class Store:
    """The folder, and the options of its answers."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.root = Path(options.root)
        self.all = Bandwidth(options.all)
        self.random = random.Random(options.seed)
        self.tokens, self.filled = 10.0, time.monotonic()
        self.started = time.monotonic()
        self.counts = {"gets": 0, "heads": 0, "lists": 0, "refused": 0, "bytes": 0, "most": 0}
        self.busy = 0

    def is_refused(self) -> bool:
        """Returns true if this request exceeds the allowed rate."""
        rate = self.options.refuse_above
        if not rate:
            return False
        now = time.monotonic()
        self.tokens = min(self.tokens + (now - self.filled) * rate, max(10.0, rate / 10))
        self.filled = now
        if self.tokens < 1:
            return True
        self.tokens -= 1
        return False

    def latency(self) -> float:
        options = self.options
        seconds = options.latency_ms / 1000 * self.random.uniform(0.8, 1.2)
        if options.slow_percent and self.random.uniform(0, 100) < options.slow_percent:
            seconds *= 10
        if options.slower_after and time.monotonic() - self.started > options.slower_after:
            seconds *= 4
        return seconds

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *fields = head.decode("latin-1").split("\r\n")
                method, target, _ = line.split(" ")
                headers = dict(field.lower().split(": ", 1) for field in fields if ": " in field)
                self.busy += 1
                self.counts["most"] = max(self.counts["most"], self.busy)
                try:
                    await self.answer(method, target, headers, writer)
                finally:
                    self.busy -= 1
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            pass
        finally:
            writer.close()

    async def answer(self, method: str, target: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        url = urlsplit(target)
        path = unquote(url.path).lstrip("/")
        if path == "-/counts":
            body = json.dumps(self.counts).encode()
            self.counts = dict.fromkeys(self.counts, 0)
            return self.plain(writer, "200 OK", body, "application/json")
        if self.is_refused():
            self.counts["refused"] += 1
            return self.plain(writer, "503 Slow Down", b"<Error><Code>SlowDown</Code></Error>")
        await asyncio.sleep(self.latency())
        query = parse_qs(url.query, keep_blank_values=True)
        if method == "GET" and "list-type" in query:
            self.counts["lists"] += 1
            return self.plain(writer, "200 OK", self.listing(path.strip("/"), query))
        file = self.root / path
        if not file.resolve().is_relative_to(self.root.resolve()) or not file.is_file():
            return self.plain(writer, "404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>")
        await self.send(method, file, headers, writer)

    def plain(self, writer: asyncio.StreamWriter, status: str, body: bytes, kind: str = "application/xml") -> None:
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    def listing(self, bucket: str, query: dict[str, list[str]]) -> bytes:
        prefix = query.get("prefix", [""])[0]
        delimiter = query.get("delimiter", [""])[0]
        base = self.root / bucket
        keys, folders = [], set()
        for file in sorted(base.rglob("*")):
            key = file.relative_to(base).as_posix()
            if not file.is_file() or not key.startswith(prefix):
                continue
            rest = key[len(prefix):]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.split(delimiter)[0] + delimiter)
                continue
            stat = file.stat()
            when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(stat.st_mtime))
            keys.append(f"<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified>"
                        f"<ETag>&quot;{tag(stat)}&quot;</ETag><Size>{stat.st_size}</Size></Contents>")
        common = "".join(f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in sorted(folders))
        return (f"<ListBucketResult><Name>{escape(bucket)}</Name><Prefix>{escape(prefix)}</Prefix>"
                f"<KeyCount>{len(keys)}</KeyCount><IsTruncated>false</IsTruncated>{''.join(keys)}{common}"
                "</ListBucketResult>").encode()

    async def send(self, method: str, file: Path, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        stat = file.stat()
        first, last, status = 0, stat.st_size - 1, "200 OK"
        asked = headers.get("range", "").removeprefix("bytes=")
        if asked:
            start, _, end = asked.partition("-")
            first = int(start) if start else max(stat.st_size - int(end), 0)
            last = min(int(end), last) if start and end else last
            status = "206 Partial Content"
        head = [f"HTTP/1.1 {status}", f"Content-Length: {last - first + 1}", f'ETag: "{tag(stat)}"', "Accept-Ranges: bytes",
                f"Last-Modified: {formatdate(stat.st_mtime, usegmt=True)}"]
        if asked:
            head.append(f"Content-Range: bytes {first}-{last}/{stat.st_size}")
        writer.write(("\r\n".join(head) + "\r\n\r\n").encode())
        if method == "HEAD":
            self.counts["heads"] += 1
            return
        self.counts["gets"] += 1
        begun, sent = time.monotonic(), 0
        with file.open("rb") as content:
            while first <= last:
                count = min(PIECE, last - first + 1)
                wait = self.all.wait(count)
                if self.options.each:
                    wait = max(wait, begun + (sent + count) / self.options.each - time.monotonic())
                if wait > 0:
                    await asyncio.sleep(wait)
                writer.write(os.pread(content.fileno(), count, first))
                await writer.drain()
                first, sent = first + count, sent + count
                self.counts["bytes"] += count


def tag(stat: os.stat_result) -> str:
    return f"{stat.st_mtime_ns:x}-{stat.st_size:x}"


async def run(options: argparse.Namespace) -> None:
    server = await asyncio.start_server(Store(options).serve, "127.0.0.1", options.port, limit=1 << 20)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", required=True, help="the folder with buckets")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-ms", type=float, default=30)
    parser.add_argument("--each", type=bytes_of, default=50e6, help="bytes per second of one answer; 0 for no limit")
    parser.add_argument("--all", type=bytes_of, default=0.0, help="bytes per second of all answers; 0 for no limit")
    parser.add_argument("--slow-percent", type=float, default=0.0, help="of so many answers the latency is ten times as long")
    parser.add_argument("--refuse-above", type=float, default=0.0, help="503 beyond so many requests a second")
    parser.add_argument("--slower-after", type=float, default=0.0, help="after so many seconds latencies are four times as long")
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
