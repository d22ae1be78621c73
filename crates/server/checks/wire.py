"""The PostgreSQL protocol, byte by byte, for clients that behave unlike drivers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import ssl
import struct

SSL_REQUEST = struct.pack("!ii", 8, 80877103)


class Closed(Exception):
    """The server has closed the connection."""


def startup(user: str, database: str = "db") -> bytes:
    """The first message of a client."""
    body = struct.pack("!i", 196608) + b"".join(
        part.encode() + b"\0" for part in ("user", user, "database", database)) + b"\0"
    return struct.pack("!i", len(body) + 4) + body


class Wire:
    """A connection. It may have its own source address, because failed logins are counted by address."""

    def __init__(self, port: int, source: str = "127.0.0.1", timeout: float = 300):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout, source_address=(source, 0))

    def encrypt(self, context: ssl.SSLContext | None = None, before: bytes = b"") -> None:
        """Asks for TLS. `before` is sent in plain text after the request."""
        self.socket.sendall(SSL_REQUEST + before)
        assert self.exactly(1) == b"S"
        if context is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.socket = context.wrap_socket(self.socket)

    def exactly(self, size: int) -> bytes:
        """Reads `size` bytes."""
        got = b""
        while len(got) < size:
            try:
                piece = self.socket.recv(size - len(got))
            except (ConnectionError, ssl.SSLError) as error:
                raise Closed from error
            if not piece:
                raise Closed
            got += piece
        return got

    def send(self, kind: bytes, body: bytes) -> None:
        """Sends a message."""
        self.socket.sendall(kind + struct.pack("!i", len(body) + 4) + body)

    def read(self) -> tuple[bytes, bytes]:
        """Reads the next message."""
        kind = self.exactly(1)
        (size,) = struct.unpack("!i", self.exactly(4))
        return kind, self.exactly(size - 4)

    def until(self, kinds: bytes) -> tuple[bytes, bytes]:
        """Reads up to the next message of one of these kinds."""
        while True:
            kind, body = self.read()
            if kind in kinds:
                return kind, body

    def error(self) -> str:
        """Returns the code of the next error."""
        _, body = self.until(b"E")
        return next(part[1:].decode() for part in body.split(b"\0") if part.startswith(b"C"))

    def query(self, sql: str) -> list[tuple[bytes, bytes]]:
        """Returns all messages up to ReadyForQuery."""
        self.send(b"Q", sql.encode() + b"\0")
        messages = []
        while not messages or messages[-1][0] != b"Z":
            messages.append(self.read())
        return messages

    def open(self, user: str = "coscan") -> Wire:
        """Logs in without a password."""
        self.socket.sendall(startup(user))
        self.until(b"Z")
        return self

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_) -> None:
        self.close()


class Scram:
    """A client's side of SCRAM-SHA-256. Its messages can be sent again."""

    def __init__(self, password: str, nonce: str | None = None):
        self.password = password
        self.nonce = nonce or base64.b64encode(os.urandom(18)).decode()
        self.bare = f"n=,r={self.nonce}"
        self.last = b""

    def first(self) -> bytes:
        """Returns the body of SASLInitialResponse."""
        text = f"n,,{self.bare}".encode()
        return b"SCRAM-SHA-256\0" + struct.pack("!i", len(text)) + text

    def final(self, challenge: bytes) -> bytes:
        """Returns the proof for a challenge."""
        said = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), base64.b64decode(said["s"]), int(said["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        without = f"c=biws,r={said['r']}"
        all_said = f"{self.bare},{challenge.decode()},{without}".encode()
        proof = bytes(a ^ b for a, b in zip(key, hmac.digest(hashlib.sha256(key).digest(), all_said, "sha256")))
        self.last = f"{without},p={base64.b64encode(proof).decode()}".encode()
        return self.last


def log_in(wire: Wire, user: str, scram: Scram, replay: bytes | None = None) -> tuple[bytes, bytes]:
    """Logs in. Returns the server's answer to the proof, or to a replayed proof."""
    wire.socket.sendall(startup(user))
    said = wire.until(b"RE")
    if said[0] == b"E":
        return said
    wire.send(b"p", scram.first())
    kind, challenge = wire.until(b"RE")
    assert kind == b"R", challenge
    proof = scram.final(challenge[4:])
    wire.send(b"p", replay or proof)
    return wire.until(b"RE")


def varint(number: int) -> bytes:
    """Encodes a number for protobuf."""
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def field(number: int, data: bytes) -> bytes:
    """Encodes a field of bytes for protobuf."""
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def statement(sql: str) -> bytes:
    """Encodes a statement for Flight SQL: an `Any` with a CommandStatementQuery."""
    name = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    return field(1, name) + field(2, field(1, sql.encode()))
