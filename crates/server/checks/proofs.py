"""Proofs that expire or are replaced while coscan serve runs: certificates of the server, of clients, bearer tokens."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
from pathlib import Path

from .hostile import Certified, certificates
from .server import COSCAN, Server, wait_for
from .wire import Wire

#: Lifetime of a token in seconds.
LIFETIME = 30


class Proofs(Certified):
    """A server that requires client certificates, and one with users."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        expired = ["x509", "-req", "-days", "-1", "-in", "ours-client.csr", "-CA", "ours.pem", "-CAkey", "ours.key",
                   "-CAcreateserial", "-extfile", "v3", "-out", "expired-client.pem"]
        subprocess.run(["openssl", *expired], check=True, capture_output=True, cwd=cls.own)
        shutil.copy(cls.own / "ours-client.key", cls.own / "expired-client.key")

    def shown(self, server) -> str:
        """Returns the hash of the server's certificate."""
        with Wire(server.port) as wire:
            wire.encrypt()
            return hashlib.sha256(wire.socket.getpeercert(binary_form=True)).hexdigest()

    def test_the_servers_certificate_is_replaced(self):
        """The signal takes effect for later connections. An invalid certificate changes nothing."""
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        for name in ("cert.pem", "key.pem"):
            shutil.copy(self.own / name, folder / name)
        server = Server("--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem"), data=self.data)
        self.addCleanup(server.stop)
        import psycopg

        connect = lambda: psycopg.connect(
            host="127.0.0.1", port=server.port, user="coscan", dbname="db", sslmode="require", autocommit=True)
        old = self.shown(server)
        with connect() as there:
            other = Path(tempfile.mkdtemp())
            self.addCleanup(shutil.rmtree, other)
            certificates(other)
            for name in ("key.pem", "cert.pem"):
                shutil.copy(other / name, folder / name)
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: self.shown(server) != old)
            new = self.shown(server)
            for broken in (b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", None):
                if broken is None:
                    shutil.copy(self.own / "cert.pem", folder / "cert.pem")  # not of this key
                else:
                    (folder / "cert.pem").write_bytes(broken)
                before = len(server.said())
                server.process.send_signal(signal.SIGHUP)
                wait_for(lambda: "cert.pem" in server.said()[before:] or "key.pem" in server.said()[before:])
                self.assertEqual(self.shown(server), new)
                with connect() as connection:
                    self.assertEqual(connection.execute("SELECT 1").fetchone()[0], 1)
            self.assertEqual(there.execute("SELECT count(*) FROM nation").fetchone()[0], 25)

    def test_certificates_of_clients_on_every_listener(self):
        """With an expired or missing certificate, or one of another authority, a client gets no answer, on any
        protocol."""
        from pyarrow import flight

        server = Server(*self.tls, "--tls-client-ca", str(self.own / "ours.pem"), data=self.data)
        self.addCleanup(server.stop)
        paths = lambda name: (self.own / f"{name}-client.pem", self.own / f"{name}-client.key")

        def postgres(name):
            import psycopg

            given = {} if name is None else dict(zip(("sslcert", "sslkey"), map(str, paths(name))))
            with psycopg.connect(host="127.0.0.1", port=server.port, user="coscan", dbname="db", sslmode="require", **given) as there:
                return there.execute("SELECT 1").fetchone()[0] == 1

        def web(name):
            context = ssl.create_default_context(cafile=self.own / "cert.pem")
            if name is not None:
                context.load_cert_chain(*paths(name))
            connection = http.client.HTTPSConnection("localhost", server.port, context=context, timeout=60)
            try:
                connection.request("GET", "/healthz")
                return connection.getresponse().status == 200
            finally:
                connection.close()

        def grpc(name):
            own = {} if name is None else dict(zip(("cert_chain", "private_key"), (path.read_bytes() for path in paths(name))))
            roots = {"tls_root_certs": (self.own / "cert.pem").read_bytes()}
            with flight.FlightClient(f"grpc+tls://localhost:{server.port}", **roots, **own) as client:
                return len(list(client.list_actions(flight.FlightCallOptions(timeout=60)))) > 0

        for speak in (postgres, web, grpc):
            self.assertTrue(speak("ours"), speak.__name__)
            for name in (None, "theirs", "expired"):
                with self.subTest(speak.__name__, certificate=name):
                    try:
                        answered = speak(name)
                    except Exception:  # noqa: BLE001  each library has its own
                        continue
                    self.fail(f"it was answered: {answered}")

    def test_tokens_end_for_every_protocol(self):
        """A token of Flight's login is valid for the page as well, and expires there, too."""
        from pyarrow import flight

        users = self.own / "users.toml"
        subprocess.run([COSCAN, "user", "add", "bob", "--users", users], check=True, env=os.environ | {"COSCAN_PASSWORD": "bob"})
        server = Server(*self.tls, "--users", str(users), "--token-lifetime", str(LIFETIME), data=self.data)
        self.addCleanup(server.stop)
        context = ssl.create_default_context(cafile=self.own / "cert.pem")
        roots = {"tls_root_certs": (self.own / "cert.pem").read_bytes()}
        with flight.FlightClient(f"grpc+tls://localhost:{server.port}", **roots) as client:
            _, bearer = client.authenticate_basic_token("bob", "bob")

        def status(token):
            connection = http.client.HTTPSConnection("localhost", server.port, context=context, timeout=60)
            try:
                connection.request("GET", "/api/about", headers={"authorization": token})
                return connection.getresponse().status
            finally:
                connection.close()

        good = bearer.decode()
        self.assertEqual(status(good), 200)
        for forged in (good[:-1], good + "A", good.swapcase(), "Bearer " + "A" * 43):
            self.assertEqual(status(forged), 401, forged)
        # It was valid for less than a minute. A client with forged tokens has to wait, too.
        wait_for(lambda: status(good) == 401, 300)
