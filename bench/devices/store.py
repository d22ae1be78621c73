"""An HTTP store on loopback with the answer times of a device, whose properties are known.

Each request waits `latency` and then has `bandwidth` of its own. With `disks`, units of the object lie on that
many disks in turns. Each disk serves one request at a time, and a range of several units sends a request to each
of them. Without `disks`, a range of several units is one request per unit, one after the other.
"""

import http.server
import os
import threading
import time
from dataclasses import dataclass, field


@dataclass
class Model:
    """The true properties of the store."""

    latency_s: float
    bytes_per_s: float
    disks: int = 0
    unit_bytes: int = 0
    locks: list = field(default_factory=list)

    def __post_init__(self):
        self.locks = [threading.Lock() for _ in range(self.disks)]

    def wait(self, start: int, end: int) -> None:
        """Sleeps as long as a read of these bytes takes."""
        if not self.disks:
            units = (end - 1) // self.unit_bytes - start // self.unit_bytes + 1 if self.unit_bytes and end > start else 1
            time.sleep(units * self.latency_s + (end - start) / self.bytes_per_s)
            return
        parts: dict[int, int] = {}
        while start < end:
            stop = min(end, (start // self.unit_bytes + 1) * self.unit_bytes)
            disk = start // self.unit_bytes % self.disks
            parts[disk] = parts.get(disk, 0) + stop - start
            start = stop
        threads = [threading.Thread(target=self._one, args=part) for part in parts.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _one(self, disk: int, size: int) -> None:
        with self.locks[disk]:
            time.sleep(self.latency_s + size / self.bytes_per_s)


class Store:
    """Serves the files of a folder, by ranges, with the times of `model`. Counts requests and bytes."""

    def __init__(self, folder: str, model: Model):
        self.requests = self.bytes = 0
        store, lock = self, threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.answer(body=False)

            def do_GET(self):
                self.answer(body=True)

            def answer(self, body: bool) -> None:
                path = os.path.join(folder, os.path.basename(self.path))
                if not os.path.isfile(path):
                    self.send_error(404)
                    return
                found = os.stat(path)
                start, end = 0, found.st_size
                asked = self.headers.get("Range")
                if asked:
                    first, last = asked.removeprefix("bytes=").split("-")
                    if first:
                        start, end = int(first), min(int(last) + 1 if last else end, end)
                    else:
                        start = max(0, end - int(last))
                self.send_response(206 if asked else 200)
                self.send_header("Content-Length", str(end - start))
                self.send_header("ETag", f'"{found.st_mtime_ns:x}"')
                self.send_header("Last-Modified", self.date_time_string(int(found.st_mtime)))
                self.send_header("Accept-Ranges", "bytes")
                if asked:
                    self.send_header("Content-Range", f"bytes {start}-{end - 1}/{found.st_size}")
                self.end_headers()
                if body:
                    model.wait(start, end)
                    with lock:
                        store.requests += 1
                        store.bytes += end - start
                    with open(path, "rb") as file:
                        os.sendfile(self.connection.fileno(), file.fileno(), start, end - start)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_):
                pass  # Clients may leave in the middle of an answer.

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
