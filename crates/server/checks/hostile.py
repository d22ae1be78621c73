"""Attacks on coscan serve: the common part of their tests.

Logins and certificates are in `hostile_logins`, messages and connections in `hostile_connections`, SQL in
`hostile_statements` and `hostile_plans`. Each test ends with a request to the same server, which must answer.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import tempfile
import unittest
from pathlib import Path

from .server import COSCAN, Server, client_packages, generate

#: Seconds for a client's login, with room for slow machines.
PATIENT = 600
#: Lifetime of a token in seconds.
LIFETIME = 15


def certificates(folder: Path) -> None:
    """Makes a server's certificate, and two authorities, each with a client's certificate."""
    run = lambda *arguments: subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, cwd=folder)
    new = ["-newkey", "rsa:2048", "-nodes", "-days", "2"]
    run("req", "-x509", *new, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-keyout", "key.pem", "-out", "cert.pem")
    for name in ("ours", "theirs"):
        run("req", "-x509", *new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
        run("req", *new, "-subj", "/CN=client", "-keyout", f"{name}-client.key", "-out", f"{name}-client.csr")
        # rustls accepts only certificates of version 3.
        (folder / "v3").write_text("basicConstraints=CA:FALSE\n")
        run("x509", "-req", "-days", "2", "-in", f"{name}-client.csr", "-CA", f"{name}.pem", "-CAkey", f"{name}.key",
            "-CAcreateserial", "-extfile", "v3", "-out", f"{name}-client.pem")
        (folder / f"{name}-client.key").chmod(0o600)


class Certified(unittest.TestCase):
    """Tables, and certificates of the server and of clients; no server."""

    @classmethod
    def setUpClass(cls):
        client_packages()
        if not shutil.which("openssl"):
            raise unittest.SkipTest("openssl is missing")
        cls.data, cls.own = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.data)
        cls.addClassCleanup(shutil.rmtree, cls.own)
        generate(cls.data)
        certificates(cls.own)
        cls.tls = ["--tls-cert", str(cls.own / "cert.pem"), "--tls-key", str(cls.own / "key.pem")]


class Hostile(Certified):
    """A server without authentication (`free`), and one with users and TLS (`guarded`)."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.users = cls.own / "users.toml"
        cls.users.write_text('[roles.few]\ntables = ["nation"]\n')
        for name, role in (("ann", "few"), ("bob", "read"), ("root", "admin")):
            subprocess.run([COSCAN, "user", "add", name, "--role", role, "--users", cls.users], check=True,
                           env=os.environ | {"COSCAN_PASSWORD": name})
        patient = ["--handshake-timeout", str(PATIENT)]
        cls.free = Server(*patient, data=cls.data)
        cls.addClassCleanup(cls.free.stop)
        cls.guarded = Server(
            *patient, *cls.tls, "--users", str(cls.users), "--token-lifetime", str(LIFETIME), data=cls.data)
        cls.addClassCleanup(cls.guarded.stop)

    def tearDown(self):
        with self.connect(self.free) as one, self.connect(self.guarded, "bob") as other:
            for connection in (one, other):
                self.assertEqual(connection.execute("SELECT count(*) FROM nation").fetchone()[0], 25)

    def connect(self, server, user="coscan", **options):
        import psycopg

        tls = {"sslmode": "require", "password": user} if server is not self.free else {"sslmode": "disable"}
        given = {"host": "127.0.0.1", "port": server.port, "user": user, "dbname": "db", "autocommit": True}
        return psycopg.connect(**(given | tls | options))

    def ends(self, wire, seconds=PATIENT / 2):
        """Checks that the server closes the connection, after any messages."""
        wire.socket.settimeout(seconds)
        try:
            while wire.socket.recv(65536):
                pass
        except (ConnectionError, ssl.SSLError):
            pass
        except TimeoutError:
            self.fail(f"the connection is there after {seconds} s")
