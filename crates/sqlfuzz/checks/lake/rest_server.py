"""Apache Iceberg's server of its REST protocol, as a process of its own. It comes from Maven below the target directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

from ..packages import TARGET, Missing
from ..server import free_port

POM = Path(__file__).parent / "rest" / "pom.xml"
SERVER = "org.apache.iceberg.rest.RESTCatalogServer"
#: Seconds until the server answers.
PATIENCE = 120


def libraries() -> Path:
    """Returns the folder with the server's libraries."""
    folder = TARGET / "lake-rest"
    ready = folder / "ready"
    if ready.exists() and ready.read_text() == POM.read_text():
        return folder
    if missing := [name for name in ("java", "mvn") if not shutil.which(name)]:
        raise Missing(f"{' and '.join(missing)} (apt-get install default-jdk-headless maven)")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Missing(f"the server of Iceberg's REST protocol cannot be fetched: {done.stdout[-500:]}")
    ready.write_text(POM.read_text())
    return folder


class RestServer:
    """A server whose tables are in a folder. A context manager."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.log = folder / "rest.log"
        settings = {
            "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
            "CATALOG_URI": f"jdbc:sqlite:file:{folder}/rest.db",
            "CATALOG_JDBC_SCHEMA__VERSION": "V1",
            "CATALOG_WAREHOUSE": f"file://{folder}/warehouse",
            "CATALOG_IO__IMPL": "org.apache.iceberg.hadoop.HadoopFileIO",
            "CATALOG_REST_PORT": str(self.port),
        }
        command = ["java", "-Xmx512m", "-cp", f"{libraries()}/*", SERVER]
        with open(self.log, "w") as log:
            environment = os.environ | settings
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + PATIENCE
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise RuntimeError(f"Iceberg's server does not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.1)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/v1/config", timeout=1):
                return True
        except OSError:
            return False

    def __enter__(self) -> RestServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
