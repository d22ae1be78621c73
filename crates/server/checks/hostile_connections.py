"""Messages that are too long or malformed, slow clients, and too many connections."""

from __future__ import annotations

import asyncio
import contextlib
import random
import resource
import socket
import struct
import threading
import time

from .hostile import PATIENT, Hostile
from .server import Server, resident, wait_for
from .wire import SSL_REQUEST, Wire, startup

#: Seconds for a client's login, for clients that are slow on purpose.
HASTY = 3
#: Open files for ten thousand connections.
FILES = 20_000


class Connections(Hostile):
    """The server closes the connection after any input, and continues."""

    @classmethod
    def setUpClass(cls):
        # Ten thousand connections, at both ends: as many open files as allowed.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(most, FILES), max(most, FILES)))
        except (ValueError, PermissionError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        cls.most = min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500)
        super().setUpClass()

    def test_first_messages_that_are_none(self):
        seed = random.Random(7)
        good = startup("coscan")
        for turn in range(400):
            kind = turn % 5
            if kind == 0:
                said = seed.randbytes(seed.randrange(1, 200))
            elif kind == 1:
                said = struct.pack("!i", seed.choice([-1, 0, 3, 4, 7, 8, 2**31 - 1, 10_001])) + seed.randbytes(12)
            elif kind == 2:
                broken = bytearray(good)
                for _ in range(seed.randrange(1, 6)):
                    broken[seed.randrange(len(broken))] = seed.randrange(256)
                said = bytes(broken)
            elif kind == 3:
                said = SSL_REQUEST * seed.randrange(1, 5) + seed.randbytes(seed.randrange(30))
            else:
                said = good[: seed.randrange(1, len(good))]
            with Wire(self.free.port) as wire:
                # The server may have closed the connection by then.
                with contextlib.suppress(OSError):
                    wire.socket.sendall(said)
                    wire.socket.shutdown(socket.SHUT_WR)
                self.ends(wire)

    def test_later_messages_that_are_none(self):
        seed = random.Random(11)
        text = lambda: seed.choice([b"", b"s", b"SELECT $1", b"SELECT 1", b"\xff\xfe", b"x" * 300]) + b"\0" * seed.randrange(2)
        for _ in range(300):
            with Wire(self.free.port) as wire:
                wire.open()
                for _ in range(seed.randrange(1, 6)):
                    kind = seed.choice(b"PBEDCSHQFpdcfXz\0")
                    body = b"".join(seed.choice([text(), seed.randbytes(seed.randrange(12)), struct.pack("!h", seed.choice(
                        [-1, 0, 1, 32767]))]) for _ in range(seed.randrange(5)))
                    size = len(body) + 4 + seed.choice([0, 0, 0, 0, -1, 1])
                    try:
                        wire.socket.sendall(bytes([kind]) + struct.pack("!i", size) + body)
                    except ConnectionError:
                        break
                try:
                    wire.socket.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
                self.ends(wire)

    def test_messages_that_are_shorter_than_their_content(self):
        """They are refused, and the connection goes on after the next Sync."""
        number = lambda *numbers: struct.pack(f"!{len(numbers)}h", *numbers)
        short = [
            (b"P", b"s\0SELECT 1\0"), (b"P", b"s\0SELECT 1\0" + number(3)), (b"B", b"\0\0\0"), (b"B", b"\0\0" + number(0, -1)),
            (b"B", b"\0\0" + number(0, 1) + struct.pack("!i", 1_000_000) + b"x"), (b"E", b"\0"), (b"D", b""), (b"D", b"S"), (b"C", b"P"),
            (b"E", b"p" + struct.pack("!i", 0)), (b"H", b"x"), (b"S", b"x"),
        ]
        with Wire(self.free.port) as wire:
            wire.open()
            for kind, body in short:
                with self.subTest(kind, body=body):
                    wire.send(kind, body)
                    self.assertEqual(wire.error(), "08P01")
                    if kind != b"S":
                        wire.send(b"P", b"\0SELECT nope\0" + number(0))
                        wire.send(b"S", b"")
                    self.assertEqual(wire.read(), (b"Z", b"I"))
            for code, body in (("08P01", b"SELECT 1"), ("08P01", b"SELECT 1\0x"), ("22021", b"SELECT '\xff'\0")):
                wire.send(b"Q", body)
                self.assertEqual(wire.error(), code)
                self.assertEqual(wire.read(), (b"Z", b"I"))
            wire.send(b"F", b"")
            self.assertEqual(wire.error(), "0A000")
            self.assertEqual(wire.read(), (b"Z", b"I"))
            self.assertEqual(wire.query("SELECT 1")[1][1][-1:], b"1")
            wire.send(b"!", b"")
            self.assertEqual(wire.error(), "08P01")
            self.ends(wire)

    def test_messages_that_are_too_long(self):
        huge = struct.pack("!i", 1 << 30)
        with Wire(self.free.port) as wire:
            wire.socket.sendall(huge + b"x" * 100)
            self.ends(wire)
        for kind in b"QPB":
            with Wire(self.free.port) as wire:
                wire.open()
                wire.socket.sendall(bytes([kind]) + huge + b"SELECT")
                self.assertEqual(wire.error(), "08P01")
                self.ends(wire)

    def test_clients_that_take_their_time(self):
        """They are disconnected when the time for a login is over, and other clients do not wait for them."""
        hasty = ["--handshake-timeout", str(HASTY)]
        free, guarded = Server(*hasty, data=self.data), Server(*hasty, *self.tls, "--users", str(self.users), data=self.data)
        self.addCleanup(free.stop)
        self.addCleanup(guarded.stop)
        tricks = {
            "silent": lambda wire: None,
            "a byte at a time": lambda wire: drip(wire, startup("coscan")),
            "HTTP a byte at a time": lambda wire: drip(wire, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100),
            "TLS that does not go on": lambda wire: wire.socket.sendall(b"\x16\x03\x01\x02\x00\x01"),
            "TLS is asked for and that is all": lambda wire: wire.socket.sendall(SSL_REQUEST),
            "no proof": lambda wire: (wire.encrypt(), wire.socket.sendall(startup("bob"))),
        }

        def drip(wire, text):
            try:
                for byte in text:
                    wire.socket.sendall(bytes([byte]))
                    time.sleep(0.2)
            except OSError:
                pass

        for name, trick in tricks.items():
            for server in (free, guarded):
                if server is free and name == "no proof":
                    continue
                with self.subTest(name, guarded=server is guarded), Wire(server.port) as wire:
                    # A slow trick runs while the end is awaited.
                    if "a byte at a time" in name:
                        threading.Thread(target=trick, args=(wire,), daemon=True).start()
                    else:
                        trick(wire)
                    self.ends(wire, PATIENT / 2)

    def test_ten_thousand_connections(self):
        begun, sockets, there, full = time.monotonic(), [], self.connect(self.free), 0
        try:
            for number in range(self.most):
                try:
                    sockets.append(socket.create_connection(("127.0.0.1", self.free.port), 5))
                except OSError:
                    full += 1  # the queue of the kernel
                    if full > 20:
                        break
                if number % 1000 == 0:
                    self.assertEqual(there.execute("SELECT 1").fetchone()[0], 1)
            self.assertGreater(len(sockets), self.most // 3)
            self.assertEqual(there.execute("SELECT count(*) FROM nation").fetchone()[0], 25)
            memory = resident(self.free)
        finally:
            for each in sockets:
                each.close()
            there.close()
        print(f"   {len(sockets)} connections in {time.monotonic() - begun:.1f} s; the server has {memory >> 20} MiB", flush=True)
        wait_for(lambda: self.connect(self.free).close() or True)

    def test_a_thousand_idle_and_three_hundred_active(self):
        idle = [Wire(self.free.port).open() for _ in range(min(1000, self.most - 400))]
        try:
            before = resident(self.free)

            async def ask(number):
                import psycopg

                begun = time.monotonic()
                connection = await psycopg.AsyncConnection.connect(
                    host="127.0.0.1", port=self.free.port, user="coscan", dbname="db", autocommit=True)
                async with connection:
                    sql = "SELECT count(*), sum(l_quantity) FROM lineitem WHERE l_orderkey % 300 >= %s"
                    row = await (await connection.execute(sql.replace("% 300", "%% 300"), [number])).fetchone()
                return row[0], time.monotonic() - begun

            async def all_of_them():
                return await asyncio.gather(*(ask(number) for number in range(300)))

            answers = asyncio.run(all_of_them())
            counts = [count for count, _ in answers]
            self.assertEqual(counts, sorted(counts, reverse=True))
            with self.connect(self.free) as connection:
                everything = connection.execute("SELECT count(*) FROM lineitem").fetchone()[0]
                self.assertEqual(counts[0], everything)
            for wire in idle[:: len(idle) // 50]:
                self.assertEqual(wire.query("SELECT 1")[1][1][-1:], b"1")
            slow = sorted(seconds for _, seconds in answers)
            print(f"   {len(idle)} idle, 300 active: p50 {slow[150]:.1f} s, p99 {slow[297]:.1f} s; "
                  f"{before >> 20} MiB before, {resident(self.free) >> 20} MiB after", flush=True)
        finally:
            for wire in idle:
                wire.close()
