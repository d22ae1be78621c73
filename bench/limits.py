"""Limits of one process, and its use of resources: from control groups if available, otherwise from /proc.

Both versions of control groups are supported: v1 with its hierarchies `blkio`, `memory` and `cpuacct`, v2 with
`io` and `memory`. A group limits reads from one block device, and memory *including the page cache*. This module
starts and ends no processes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")
V1_CONTROLLERS = ("blkio", "memory", "cpuacct")


class NoLimits(Exception):
    """The reason why limits cannot be set here. The text completes "skipped: "."""


@dataclass(frozen=True)
class Limits:
    """The limits of an engine: bytes of memory with the page cache, bytes per second from the device."""

    memory_bytes: int
    read_bytes_per_s: int


def block_device(path: Path) -> str:
    """Returns the device of `path` as MAJOR:MINOR. It is the whole disk, because partitions cannot be limited."""
    number = path.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    sysfs = Path("/sys/dev/block") / device
    if not sysfs.exists():
        raise NoLimits(f"{path} does not lie on a block device that reads can be limited on")
    if (sysfs / "partition").exists():
        return (sysfs.resolve().parent / "dev").read_text().strip()
    return device


def drop_page_cache() -> None:
    """Empties the page cache. Needs root."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("1")


@contextmanager
def read_ahead(device: str, kib: int) -> Iterator[None]:
    """Sets the system's read-ahead on a device, and restores it afterwards. 0 does not change it."""
    setting = Path(f"/sys/dev/block/{device}/queue/read_ahead_kb")
    if kib == 0 or not setting.exists():
        yield
        return
    before = setting.read_text()
    setting.write_text(str(kib))
    try:
        yield
    finally:
        setting.write_text(before)


class Group:
    """A control group for one process. A context manager that removes it at the end."""

    def __init__(self, name: str, device: str, limits: Limits) -> None:
        self._device = device
        self._limits = limits
        self._v2 = (CGROUP_ROOT / "cgroup.controllers").exists()
        if self._v2:
            self._folders = {"": CGROUP_ROOT / name}
        else:
            self._folders = {controller: CGROUP_ROOT / controller / name for controller in V1_CONTROLLERS}

    def __enter__(self) -> Group:
        try:
            if self._v2:
                (CGROUP_ROOT / "cgroup.subtree_control").write_text("+io +memory")
            for folder in self._folders.values():
                folder.mkdir()
            memory = str(self._limits.memory_bytes)
            if self._v2:
                self._write("", "memory.max", memory)
                # Memory moved to swap would raise the limit.
                with suppress(OSError):
                    self._write("", "memory.swap.max", "0")
            else:
                self._write("memory", "memory.limit_in_bytes", memory)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def join(self) -> None:
        """Moves the calling process, and processes that it starts, into the group."""
        for controller in self._folders:
            self._write(controller, "cgroup.procs", str(os.getpid()))

    def limit_reads(self) -> None:
        """Limits reads from here on. An engine starts without this limit."""
        rate = self._limits.read_bytes_per_s
        if self._v2:
            self._write("", "io.max", f"{self._device} rbps={rate}")
        else:
            self._write("blkio", "blkio.throttle.read_bps_device", f"{self._device} {rate}")

    def bytes_read(self) -> int:
        """Returns the bytes read from the device."""
        if self._v2:
            return _v2_bytes_read(self._read("", "io.stat"), self._device)
        return _v1_bytes_read(self._read("blkio", "blkio.throttle.io_service_bytes"), self._device)

    def cpu_s(self) -> float:
        """Returns the processor time in seconds, user and system."""
        if self._v2:
            return _fields(self._read("", "cpu.stat")).get("usage_usec", 0) / 1e6
        return int(self._read("cpuacct", "cpuacct.usage")) / 1e9

    def killed_for_memory(self) -> bool:
        """Returns true if the system killed a process of the group for lack of memory."""
        file = ("", "memory.events") if self._v2 else ("memory", "memory.oom_control")
        return _fields(self._read(*file)).get("oom_kill", 0) > 0

    def _write(self, controller: str, file: str, text: str) -> None:
        (self._folders[controller] / file).write_text(text)

    def _read(self, controller: str, file: str) -> str:
        return (self._folders[controller] / file).read_text()

    def _remove(self) -> None:
        for folder in self._folders.values():
            # A process that was ended leaves its group a moment later.
            for _ in range(50):
                with suppress(FileNotFoundError):
                    try:
                        folder.rmdir()
                    except OSError:
                        time.sleep(0.1)
                        continue
                break


def require_limits(path: Path) -> str:
    """Returns the device of `path`, after a check that it can be limited and that the page cache can be emptied."""
    if os.geteuid() != 0:
        raise NoLimits("limits on memory and reads need root")
    device = block_device(path)
    try:
        with Group(f"coscan-bench-try-{os.getpid()}", device, Limits(1 << 30, 1 << 30)) as group:
            group.limit_reads()
            group.bytes_read()
            group.cpu_s()
            group.killed_for_memory()
        with open("/proc/sys/vm/drop_caches", "w"):
            pass
    except OSError as error:
        raise NoLimits(f"control groups cannot be used here ({error})") from error
    return device


def process_cpu_s(pid: int) -> float:
    """Returns the processor time of a process in seconds, over all its threads."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(after_name[11]), int(after_name[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def machine_cpu_s() -> float:
    """Returns the processor time in seconds of everything on the machine, with the time that its host took from it."""
    return _busy_ticks(Path("/proc/stat").read_text()) / os.sysconf("SC_CLK_TCK")


def process_bytes_read(pid: int) -> int | None:
    """Returns the bytes that a process read from devices. None if the system does not provide them."""
    try:
        return _fields(Path(f"/proc/{pid}/io").read_text().replace(":", ""))["read_bytes"]
    except (OSError, KeyError):
        return None


@dataclass(frozen=True)
class Memory:
    """Resident bytes of a process: the peak, and the current bytes without a file behind them."""

    rss_peak: int
    anonymous: int


def process_memory(pid: int) -> Memory | None:
    """Returns None if the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines) if "kB" in rest}
    if "VmHWM" not in kib:
        return None
    return Memory(kib["VmHWM"] * 1024, (kib.get("RssAnon", 0) + kib.get("RssShmem", 0)) * 1024)


def _fields(text: str) -> dict[str, int]:
    """Parses lines of a name and a number."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _busy_ticks(text: str) -> int:
    """Parses the line `cpu user nice system idle iowait irq softirq steal ...`."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, text.split(maxsplit=9)[1:9])
    return user + nice + system + irq + softirq + steal


def _v1_bytes_read(text: str, device: str) -> int:
    """Parses lines such as `254:0 Read 4096`."""
    for line in text.splitlines():
        words = line.split()
        if words[:2] == [device, "Read"]:
            return int(words[2])
    return 0


def _v2_bytes_read(text: str, device: str) -> int:
    """Parses lines such as `254:0 rbytes=4096 wbytes=0`."""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == [device]:
            return int(dict(word.split("=") for word in words[1:]).get("rbytes", 0))
    return 0
