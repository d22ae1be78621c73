"""Tests of a server where every client may read."""

from __future__ import annotations

import shutil
import tempfile
import unittest
from pathlib import Path

from .server import Server, client_packages, generate


class Served(unittest.TestCase):
    """A server over generated tables (`data`), which all tests of the class share."""

    @classmethod
    def setUpClass(cls):
        client_packages()
        cls.data = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.data)
        generate(cls.data)
        cls.server = Server(data=cls.data)
        cls.addClassCleanup(cls.server.stop)
