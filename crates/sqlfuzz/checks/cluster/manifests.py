"""The files of packaging/cluster: Kubernetes' own schemas accept the manifests, systemd the unit, and the program its options."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from ..packages import COSCAN, TARGET, install_packages

FOLDER = Path(__file__).parents[4] / "packaging" / "cluster"
PACKAGES = ["kubernetes-validate==1.37.0"]


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        install_packages(PACKAGES, TARGET / "cluster-venv")

    def accepted(self, words: list[str]) -> None:
        """Checks that the program knows the options. It parses them before it prints help."""
        said = subprocess.run([COSCAN, *words, "--help"], capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stderr)

    def test_kubernetes(self) -> None:
        import kubernetes_validate
        import yaml

        for resource in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()):
            kubernetes_validate.validate(resource, kubernetes_validate.latest_version(), strict=True)
            pods = resource["spec"].get("template", {}).get("spec", {})
            for container in pods.get("containers", []):
                command = container.get("command", ["coscan", "-v", "serve"]) + container.get("args", [])
                self.accepted(command[1:])
        broken = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replica": 1}}
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(broken, kubernetes_validate.latest_version(), strict=True)

    def test_compose(self) -> None:
        import yaml

        services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
        for name, service in services.items():
            for other in service.get("depends_on", []):
                self.assertIn(other, services, name)
            if service["image"] == "coscan":
                command = service.get("entrypoint", ["coscan", "-v", "serve"]) + service.get("command", [])
                self.accepted(command[1:])
        workers = services["coordinator"]["command"][-1].split(",")
        self.assertEqual({address.split(":")[0] for address in workers}, {name for name in services if name.startswith("worker-")})

    @unittest.skipIf(shutil.which("systemd-analyze") is None, "systemd is missing")
    def test_systemd(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            unit = (FOLDER / "coscan-worker@.service").read_text().replace("/usr/local/bin/coscan", str(COSCAN))
            place = Path(folder) / "coscan-worker@7433.service"
            place.write_text(unit)
            said = subprocess.run(["systemd-analyze", "verify", place], capture_output=True, text=True)
            faults = [line for line in said.stderr.splitlines() if "coscan-worker" in line]
            self.assertEqual(faults, [])
        start = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
        self.accepted(start.replace("%i", "7433").split()[1:-2])
