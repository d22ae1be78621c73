"""Wrong, missing, expired and replayed credentials, and broken TLS, on every listener."""

from __future__ import annotations

import base64
import http.client
import json
import random
import ssl
import struct
import time

from .hostile import LIFETIME, Hostile
from .server import Server
from .wire import Scram, Wire, log_in, startup, statement


class Logins(Hostile):
    """Without valid credentials no client gets in, after any number of attempts."""

    def test_passwords_wrong_missing_and_said_again(self):
        guarded = lambda source: Wire(self.guarded.port, source)
        with guarded("127.0.1.1") as wire:
            wire.encrypt()
            good = Scram("bob")
            self.assertEqual(log_in(wire, "bob", good)[0], b"R")
        with guarded("127.0.1.2") as wire:
            wire.encrypt()
            kind, said = log_in(wire, "bob", Scram("bob", good.nonce), replay=good.last)
            self.assertEqual((kind, b"C28P01" in said), (b"E", True), said)
        for user, password in (("bob", "wrong"), ("bob", ""), ("nobody", "nobody"), ("root", "bob")):
            with guarded("127.0.1.3") as wire:
                wire.encrypt()
                self.assertEqual(log_in(wire, user, Scram(password))[0], b"E", (user, password))
        # No proof at all: a query, silence, another mechanism, a proof before the challenge.
        for index, message in enumerate([(b"Q", b"SELECT 1\0"), (b"p", b""), (b"p", b"PLAIN\0" + struct.pack("!i", 0)),
                                         (b"p", b"c=biws,r=,p="), (b"X", b"")]):
            with guarded(f"127.0.2.{index + 1}") as wire:
                wire.encrypt()
                wire.socket.sendall(startup("bob"))
                wire.until(b"R")
                wire.send(*message)
                self.ends(wire)

    def is_sent_away(self, address):
        """Returns true if a login from this address ends before a challenge."""
        with Wire(self.guarded.port, address) as wire:
            wire.encrypt()
            wire.socket.sendall(startup("bob"))
            return wire.until(b"RE")[0] == b"E"

    def test_guessing_has_to_wait(self):
        """Each wait is longer than the one before. On a slow machine, too, a client is therefore refused before a
        challenge."""
        for guess in range(20):
            if self.is_sent_away("127.0.3.1"):
                break
            with Wire(self.guarded.port, "127.0.3.1") as wire:
                wire.encrypt()
                self.assertEqual(log_in(wire, "bob", Scram("wrong"))[0], b"E")
        self.assertIn(guess, range(5, 19))

    def test_names_make_no_lines_of_the_log(self):
        for name in ("ann\nFORGED", "ann\r\nFORGED", "\x1b[2Jann\nFORGED"):
            with Wire(self.guarded.port, "127.0.3.9") as wire:
                wire.encrypt()
                self.assertEqual(log_in(wire, name, Scram("wrong"))[0], b"E")
        said = self.guarded.said()
        self.assertNotIn("\nFORGED", said)
        self.assertNotIn("\x1b[2J", said)

    def test_guessing_side_by_side_has_to_wait(self):
        """Forty logins begin before the first proof. The server checks a few proofs, and not the right one among the
        last."""
        waiting = []
        for guess in range(40):
            wire = Wire(self.guarded.port, "127.0.3.2")
            self.addCleanup(wire.close)
            wire.encrypt()
            wire.socket.sendall(startup("bob"))
            wire.until(b"R")
            waiting.append((wire, Scram("bob" if guess == 39 else "wrong")))
        for wire, scram in waiting:
            wire.send(b"p", scram.first())
        proofs = [(wire, scram.final(wire.until(b"R")[1][4:])) for wire, scram in waiting]
        said = []
        for wire, proof in proofs:
            wire.send(b"p", proof)
            said.append(wire.until(b"RE"))
        self.assertTrue(all(kind == b"E" for kind, _ in said))
        self.assertLess(sum(b"authentication failed" in body for _, body in said), 15)
        self.assertIn(b"too many failed logins", said[-1][1])

    def test_guessing_by_turns_with_a_login_has_to_wait(self):
        """A client's own password does not help it to guess another."""
        for guess in range(20):
            if self.is_sent_away("127.0.3.3"):
                break
            for user, password, answer in (("bob", "wrong", b"E"), ("ann", "ann", b"R")):
                with Wire(self.guarded.port, "127.0.3.3") as wire:
                    wire.encrypt()
                    self.assertEqual(log_in(wire, user, Scram(password))[0], answer)
        self.assertIn(guess, range(5, 19))

    def test_http_needs_credentials(self):
        context = ssl.create_default_context(cafile=self.own / "cert.pem")
        basic = lambda pair: "Basic " + base64.b64encode(pair.encode()).decode()

        # The server does not read a message that is too long to its end.
        CLOSED = 0

        def status(source, method="GET", path="/api/about", body=None, **headers):
            connection = http.client.HTTPSConnection(
                "localhost", self.guarded.port, context=context, timeout=300, source_address=(source, 0))
            try:
                connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
                return connection.getresponse().status
            except (ssl.SSLError, ConnectionError):
                return CLOSED
            finally:
                connection.close()

        shown = ["", "Basic", "Basic !!!", basic("bob"), basic("bob:wrong"), basic("nobody:x"), "Bearer x", "Digest x",
                 "Bearer " + "x" * 5000]
        for index, authorization in enumerate(shown):
            self.assertIn(status(f"127.0.4.{index + 1}", Authorization=authorization), (401, 400, 431), authorization)
        self.assertEqual(status("127.0.5.1", Authorization=basic("bob:bob")), 200)
        self.assertIn(status("127.0.5.2"), (401,))
        ask = {"Authorization": basic("bob:bob"), "content_type": "application/json", "x_coscan": "1"}
        body = json.dumps({"sql": "SELECT 1"})
        self.assertEqual(status("127.0.5.3", "POST", "/api/sql", body, **ask), 200)
        for changed in ({"x_coscan": None}, {"origin": "https://elsewhere.example"}, {"content_type": "text/plain"}):
            headers = {name: value for name, value in (ask | changed).items() if value is not None}
            self.assertIn(status("127.0.5.3", "POST", "/api/sql", body, **headers), (400, 403, 415), changed)
        self.assertIn(status("127.0.5.3", "POST", "/api/policy", '{"policy": "normal"}', **ask), (403,))
        for path in ("/../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/page.js/../../Cargo.toml", "/%00"):
            self.assertIn(status("127.0.5.3", path=path, Authorization=basic("bob:bob")), (400, 404), path)
        self.assertIn(status("127.0.5.3", "POST", "/api/sql", "x" * (20 << 20), **ask), (CLOSED, 400, 413))
        self.assertIn(status("127.0.5.3", Authorization=basic("bob:bob"), x="y" * 100_000), (CLOSED, 400, 431))

    def flight(self, server, scheme="grpc+tls"):
        from pyarrow import flight

        tls = {"tls_root_certs": (self.own / "cert.pem").read_bytes()} if scheme == "grpc+tls" else {}
        return flight.FlightClient(f"{scheme}://localhost:{server.port}", **tls)

    def test_flight_needs_credentials_and_tickets(self):
        from pyarrow import flight

        described = lambda sql: flight.FlightDescriptor.for_command(statement(sql))

        def refused(call, *kinds):
            with self.assertRaises((flight.FlightUnauthenticatedError, *kinds)):
                call()

        with self.flight(self.guarded) as client:
            refused(lambda: client.get_flight_info(described("SELECT 1")))
            refused(lambda: client.authenticate_basic_token("bob", "wrong"))
            bobs = flight.FlightCallOptions(headers=[client.authenticate_basic_token("bob", "bob")])
            anns = flight.FlightCallOptions(headers=[client.authenticate_basic_token("ann", "ann")])
            forged = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + b"A" * 43)])
            refused(lambda: client.get_flight_info(described("SELECT 1"), forged))
            ticket = lambda options: client.get_flight_info(
                described("SELECT count(*) FROM nation"), options).endpoints[0].ticket
            one = ticket(bobs)
            not_there = (flight.FlightServerError, KeyError, flight.FlightError)
            refused(lambda: client.do_get(one, anns).read_all(), *not_there)
            self.assertEqual(client.do_get(one, bobs).read_all().num_rows, 1)
            refused(lambda: client.do_get(one, bobs).read_all(), *not_there)
            refused(lambda: client.get_flight_info(described("SELECT count(*) FROM lineitem"), anns), *not_there, Exception)
            seed = random.Random(18)
            for _ in range(100):
                broken = bytearray(one.ticket)
                for _ in range(seed.randrange(1, 8)):
                    broken[seed.randrange(len(broken))] = seed.randrange(256)
                for junk in (bytes(broken), seed.randbytes(seed.randrange(200))):
                    with self.assertRaises(Exception):
                        client.do_get(flight.Ticket(junk), bobs).read_all()
                    with self.assertRaises(Exception):
                        client.get_flight_info(flight.FlightDescriptor.for_command(junk), bobs)
                    with self.assertRaises(Exception):
                        list(client.do_action(flight.Action("CancelFlightInfo", junk), bobs))
            end = time.monotonic() + 20 * LIFETIME
            with self.assertRaises(flight.FlightUnauthenticatedError):
                while time.monotonic() < end:
                    client.get_flight_info(described("SELECT 1"), bobs)
                    time.sleep(0.5)

    def test_tls_is_what_was_agreed(self):
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
            old.set_ciphers("ALL:@SECLEVEL=0")
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, version
            with Wire(self.guarded.port) as wire, self.assertRaises((ssl.SSLError, ConnectionError)):
                wire.encrypt(old)
        # In plain text: PostgreSQL, HTTP, gRPC; and plain text after the request for TLS.
        for first in (startup("bob"), b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            with Wire(self.guarded.port) as wire:
                wire.socket.sendall(first)
                wire.socket.settimeout(300)
                try:
                    answer = wire.socket.recv(4096)
                except ConnectionError:
                    answer = b""
                self.assertTrue(answer == b"" or answer[:1] == b"E" or b"400" in answer, answer)
                self.assertNotIn(b"SCRAM", answer)
        with Wire(self.guarded.port) as wire, self.assertRaises((ssl.SSLError, ConnectionError, AssertionError)):
            wire.encrypt(before=startup("bob"))
            wire.read()

    def test_certificates_of_clients(self):
        import psycopg

        server = Server(*self.tls, "--tls-client-ca", str(self.own / "ours.pem"), data=self.data)
        self.addCleanup(server.stop)
        at = {"sslrootcert": str(self.own / "cert.pem"), "sslmode": "verify-full", "host": "localhost", "hostaddr": "127.0.0.1"}
        with_ = lambda name: {"sslcert": str(self.own / f"{name}-client.pem"), "sslkey": str(self.own / f"{name}-client.key")}
        with self.connect(server, **at, **with_("ours")) as connection:
            self.assertEqual(connection.execute("SELECT 1").fetchone()[0], 1)
        for other in ({}, with_("theirs")):
            with self.assertRaises(psycopg.OperationalError):
                self.connect(server, **at, **other)
