"""Servers of the REST protocol and of objects that behave as real ones do on a bad day."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: Answers that a token is good for.
TOKEN_ANSWERS = 3
#: Seconds for which credentials of a store are given. They are renewed a minute before their end.
GIVEN_SECONDS = 61


class Listening:
    """A server on a thread. A context manager."""

    def __init__(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                outer.answer(self)

            do_GET = do_POST = do_HEAD = handle_any

            def log_message(self, *_: object) -> None:
                pass

        self.lock = threading.Lock()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        raise NotImplementedError

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()


def send(request: BaseHTTPRequestHandler, status: int, body: object, headers: Mapping[str, str] = {}) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(data)


def refuse(request: BaseHTTPRequestHandler, status: int, why: str, headers: Mapping[str, str] = {}) -> None:
    send(request, status, {"error": {"message": why, "type": "Refused", "code": status}}, headers)


class Faults(Listening):
    """A server in front of another one. It wants tokens that end early, sends pages, has a prefix, is busy and loses connections."""

    def __init__(self, behind: str) -> None:
        super().__init__()
        self.behind = behind
        self.count = 0
        self.tokens: dict[str, int] = {}
        #: The kinds of faults that a client has met.
        self.seen: set[str] = set()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers.get("Content-Length") or 0)
        body = request.rfile.read(length)
        url = urllib.parse.urlsplit(request.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        with self.lock:
            self.count += 1
            count = self.count
        if not url.path.startswith("/some/path/v1/"):
            return refuse(request, 404, "nothing here")
        path = url.path.removeprefix("/some/path/v1/")
        if count % 7 == 3:
            self.seen.add("busy")
            return refuse(request, 503, "busy", {"Retry-After": "0"})
        if count % 7 == 5:
            self.seen.add("lost")
            request.close_connection = True
            return request.connection.shutdown(2)
        if path == "oauth/tokens":
            form = dict(urllib.parse.parse_qsl(body.decode()))
            if (form.get("client_id"), form.get("client_secret"), form.get("grant_type")) != ("me", "secret", "client_credentials"):
                return refuse(request, 401, "unknown client")
            token = f"token-{count}"
            self.tokens[token] = TOKEN_ANSWERS
            return send(request, 200, {"access_token": token, "token_type": "bearer", "expires_in": 3600})
        token = (request.headers.get("Authorization") or "").removeprefix("Bearer ")
        with self.lock:
            left = self.tokens.get(token, 0)
            if left == 0:
                self.seen.add("tokens")
                return refuse(request, 401, "the token has ended")
            self.tokens[token] = left - 1
        if path == "config":
            if query.get("warehouse") != "w":
                return refuse(request, 400, "no such warehouse")
            return send(request, 200, {"defaults": {"prefix": "other"}, "overrides": {"prefix": "p/x"}})
        if not path.startswith("p/x/"):
            return refuse(request, 404, "not with this prefix")
        behind = f"{self.behind}/v1/{path.removeprefix('p/x/')}"
        rest = {name: value for name, value in query.items() if name != "pageToken"}
        try:
            with urllib.request.urlopen(f"{behind}?{urllib.parse.urlencode(rest)}") as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            return send(request, error.code, error.read())
        # A page has one entry.
        for entries in ("namespaces", "identifiers"):
            if len(found.get(entries, [])) > 1:
                self.seen.add("pages")
                at = int(query.get("pageToken") or 0)
                if at + 1 < len(found[entries]):
                    found["next-page-token"] = str(at + 1)
                found[entries] = found[entries][at : at + 1]
        send(request, 200, found)


class NeedsToken(Listening):
    """A store in front of another one, which reads only with the token of now."""

    def __init__(self, behind: str) -> None:
        super().__init__()
        self.behind = urllib.parse.urlsplit(behind)
        self.number = 0
        self.used: set[str] = set()
        self.refused = 0

    @property
    def token(self) -> str:
        return f"session-{self.number}"

    def renew(self) -> None:
        self.number += 1

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        token = request.headers.get("x-amz-security-token")
        if token != self.token:
            self.refused += 1
            return send(request, 403, b"<Error><Code>ExpiredToken</Code></Error>")
        self.used.add(token)
        connection = http.client.HTTPConnection(self.behind.hostname, self.behind.port)
        kept = {name: value for name, value in request.headers.items() if name.lower() in ("range", "if-match", "if-none-match")}
        connection.request(request.command, request.path, headers=kept)
        answer = connection.getresponse()
        body = answer.read()
        headers = {name: value for name, value in answer.getheaders() if name.lower() in ("etag", "last-modified", "content-range", "content-type")}
        if request.command == "HEAD":
            request.send_response(answer.status)
            for name, value in {**headers, "Content-Length": answer.getheader("Content-Length") or "0"}.items():
                request.send_header(name, value)
            request.end_headers()
        else:
            send(request, answer.status, body, headers)


class Vending(Listening):
    """A server of the REST protocol over a catalog of pyiceberg. It gives a store's token with each table."""

    def __init__(self, catalog, store: NeedsToken) -> None:
        super().__init__()
        self.catalog, self.store = catalog, store

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if request.headers.get("X-Iceberg-Access-Delegation") != "vended-credentials":
            return refuse(request, 400, "nobody asked for credentials")
        url = urllib.parse.urlsplit(request.path)
        parent = "parent" in dict(urllib.parse.parse_qsl(url.query))
        parts = [urllib.parse.unquote(part) for part in url.path.split("/")[2:]]
        with self.lock:
            match parts:
                case ["config"]:
                    return send(request, 200, {"defaults": {"s3.region": "us-east-1"}, "overrides": {}})
                case ["namespaces"]:
                    return send(request, 200, {"namespaces": [] if parent else [list(name) for name in self.catalog.list_namespaces()]})
                case ["namespaces", namespace, "tables"]:
                    found = [{"namespace": [namespace], "name": name[-1]} for name in self.catalog.list_tables(namespace)]
                    return send(request, 200, {"identifiers": found})
                case ["namespaces", namespace, "tables", name]:
                    table = self.catalog.load_table(f"{namespace}.{name}")
                    given = {
                        "s3.access-key-id": "reader",
                        "s3.secret-access-key": "reader",
                        "s3.session-token": self.store.token,
                        "s3.session-token-expires-at-ms": str(int((time.time() + GIVEN_SECONDS) * 1000)),
                        "s3.endpoint": f"http://127.0.0.1:{self.store.port}",
                    }
                    answer = {
                        "metadata-location": table.metadata_location,
                        "metadata": json.loads(table.metadata.model_dump_json(by_alias=True)),
                        "storage-credentials": [{"prefix": "s3://lake/", "config": given}, {"prefix": "s3://", "config": {}}],
                    }
                    return send(request, 200, answer)
        refuse(request, 404, "nothing here")
