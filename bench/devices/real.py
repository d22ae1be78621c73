"""`python3 -m bench.devices.real --coscan target/release/coscan [--only NAME]`

Block devices and stores with known properties, measured by `coscan device probe`. A table shows the values that
the kernel declares, the measured ones, and the true ones. Needs root, for loop devices and mounts. A file system
in user space (`fuse.py`) under loop devices makes delays and stripes, because that works without kernel modules;
the array is Btrfs in RAID-0 for the same reason. Reports if the kernel lacks device-mapper or md. Needs 2 GB in
`--scratch`, and writes nothing outside it.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator

from .fuse import SlowFiles
from .store import Model, Store

MIB = 1 << 20
DATA_BYTES = 512 * MIB
LIMIT_BYTES_PER_S = 50_000_000
# Bytes that Btrfs writes to a disk before it continues with the next.
BTRFS_UNIT = 64 << 10
UNITS = Model(latency_s=0.002, bytes_per_s=200e6, unit_bytes=256 << 10)
STORE = Model(latency_s=0.03, bytes_per_s=85e6)


def member() -> Model:
    """Returns a disk of the array, which serves one request at a time."""
    return Model(latency_s=0.004, bytes_per_s=100e6, disks=1, unit_bytes=1 << 40)


class Case:
    """The probed device, its cgroup, and its true properties in the order of the table's columns."""

    def __init__(self, target: str, true: tuple[str, ...], enter: Callable[[], None] | None = None):
        self.target, self.true, self.enter = target, true, enter


def run(*command: str) -> str:
    """Returns the output of a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


def random_file(path: str, size: int) -> str:
    """Writes a file of random bytes, which no layer can compress or skip."""
    with open(path, "wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))
    return path


@contextlib.contextmanager
def loop(path: str, *options: str) -> Iterator[str]:
    """A loop device over a file, with direct I/O."""
    device = run("losetup", "--direct-io=on", *options, "--find", "--show", path)
    try:
        yield device
    finally:
        run("losetup", "--detach", device)


@contextlib.contextmanager
def slow_files(folder: str, models: dict[str, Model]) -> Iterator[SlowFiles]:
    """Slow files, mounted while the context lasts."""
    os.makedirs(folder, exist_ok=True)
    files = SlowFiles(folder, models)
    try:
        yield files
    finally:
        files.close()


@contextlib.contextmanager
def own_disk(scratch: str) -> Iterator[Case]:
    """The disk of the scratch folder."""
    yield Case(os.path.join(scratch, "data"), ("unknown",) * 5)


@contextlib.contextmanager
def plain_loop(scratch: str) -> Iterator[Case]:
    """A loop device over a file on that disk."""
    with loop(os.path.join(scratch, "data"), "--read-only") as device:
        yield Case(device, ("that of the disk and more", "that of the disk", "that of the disk", "unknown", "unknown"))


@contextlib.contextmanager
def delayed_units(scratch: str) -> Iterator[Case]:
    """A loop device with a delay per unit of 256 KiB that a read touches."""
    data = os.path.join(scratch, "data")
    with slow_files(os.path.join(scratch, "slow"), {data: UNITS}) as files:
        with loop(os.path.join(files.folder, "data"), "--read-only") as device:
            yield Case(device, ("2 ms", "200 MB/s, each MiB by itself", "unknown", "64", "256 KiB, 2 ms"))


@contextlib.contextmanager
def array(scratch: str) -> Iterator[Case]:
    """RAID-0 of four loop devices with delays, each of which serves one request at a time."""
    images = [os.path.join(scratch, f"disk{nth}") for nth in range(4)]
    mounted = os.path.join(scratch, "array")
    os.makedirs(mounted, exist_ok=True)
    with contextlib.ExitStack() as stack:
        for image in images:
            with open(image, "wb") as file:
                file.truncate(320 * MIB)
        devices = [stack.enter_context(loop(image)) for image in images]
        run("mkfs.btrfs", "--force", "--data", "raid0", "--metadata", "raid1", *devices)
        run("mount", "-t", "btrfs", "-o", ",".join(f"device={device}" for device in devices), devices[0], mounted)
        try:
            random_file(os.path.join(mounted, "data"), DATA_BYTES)
        finally:
            run("umount", mounted)
    with contextlib.ExitStack() as stack:
        slow = stack.enter_context(slow_files(os.path.join(scratch, "slow"), {image: member() for image in images}))
        paths = [os.path.join(slow.folder, os.path.basename(image)) for image in images]
        devices = [stack.enter_context(loop(path, "--read-only")) for path in paths]
        options = ",".join(["ro", "rescue=nologreplay", *(f"device={device}" for device in devices)])
        run("mount", "-t", "btrfs", "-o", options, devices[0], mounted)
        try:
            unit = f"{BTRFS_UNIT >> 10} KiB, which saves time: parts are read at once"
            yield Case(os.path.join(mounted, "data"), ("4 ms", "100 to 400 MB/s", "at most 400 MB/s", "4 disks", unit))
        finally:
            run("umount", mounted)


@contextlib.contextmanager
def throttled(scratch: str) -> Iterator[Case]:
    """A loop device that a cgroup may read at 50 MB/s."""
    with loop(os.path.join(scratch, "data"), "--read-only") as device:
        number = os.stat(device).st_rdev
        name = f"{os.major(number)}:{os.minor(number)}"
        root, limit, line = "/sys/fs/cgroup/blkio", "blkio.throttle.read_bps_device", f"{name} {LIMIT_BYTES_PER_S}"
        if not os.path.isdir(root):
            root, limit, line = "/sys/fs/cgroup", "io.max", f"{name} rbps={LIMIT_BYTES_PER_S}"
        group = os.path.join(root, f"coscan-bench-{os.getpid()}")
        os.mkdir(group)

        def write(file: str, text: str) -> None:
            with open(os.path.join(group, file), "w") as opened:
                opened.write(text)

        try:
            write(limit, line)
            true = ("that of the disk", "that of the disk", f"{LIMIT_BYTES_PER_S / 1e6:.0f} MB/s", "any", "none")
            yield Case(device, true, lambda: write("cgroup.procs", str(os.getpid())))
        finally:
            os.rmdir(group)


@contextlib.contextmanager
def object_store(scratch: str) -> Iterator[Case]:
    """A store on loopback with 30 ms of latency."""
    store = Store(scratch, STORE)
    try:
        yield Case(f"{store.url}/data", ("30 ms", "85 MB/s", "any", "any", "none"))
    finally:
        store.close()


CASES = {
    "disk": own_disk,
    "loop device": plain_loop,
    "loop device with delays": delayed_units,
    "RAID-0 of loop devices": array,
    "throttled loop device": throttled,
    "object store": object_store,
}


def missing() -> list[str]:
    """Returns the missing kernel features, each with the command that shows it."""
    lines = []
    if subprocess.run(["dmsetup", "targets"], capture_output=True).returncode:
        lines.append("no device-mapper here: `dmsetup targets` fails")
    if not os.path.exists("/proc/mdstat"):
        lines.append("no md here: `cat /proc/mdstat` fails")
    return lines


def probe(coscan: str, case: Case, out: str, seconds: int) -> dict:
    """Returns the measured profile."""
    command = [coscan, "device", "probe", case.target, "--out", out, "--time-limit", str(seconds), "--samples", "40"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=case.enter)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    with open(out, "rb") as file:
        return tomllib.load(file)


def interval(found: dict | None, scale: float, unit: str) -> str:
    """Returns a value with its bounds."""
    if not found:
        return "not detected"
    value, low, high = (found[key] * scale for key in ("value", "low", "high"))
    return f"{value:.3g} {unit} ({low:.3g} to {high:.3g})"


def measured(profile: dict) -> list[str]:
    """Returns the values in the order of the table's columns."""
    boundary, depth = profile.get("boundary"), profile.get("depth") or {}
    if boundary:
        penalty = boundary["penalty_s"]["value"] * 1e3
        found = f"{boundary['period_bytes'] >> 10} KiB from {boundary['offset_bytes'] >> 10}, {penalty:.3g} ms"
    else:
        found = "not detected" if profile["boundaries_searched"] else "out of time"
    return [
        interval(profile.get("fixed_cost_s"), 1e3, "ms"),
        interval(profile.get("bytes_per_s"), 1e-6, "MB/s"),
        interval((depth.get("large") or {}).get("bytes_per_s"), 1e-6, "MB/s"),
        interval(depth.get("enough"), 1, "").replace("  ", " "),
        found,
    ]


def main() -> int:
    """Measures every device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coscan", default="target/release/coscan")
    parser.add_argument("--scratch", help="a folder on the disk to measure")
    parser.add_argument("--probe-seconds", type=int, default=40)
    parser.add_argument("--only", choices=CASES, action="append")
    args = parser.parse_args()
    for line in missing():
        print(line)
    print("\n| device | | fixed cost | bandwidth of one | throughput | requests at once | boundaries |\n|---|---|---|---|---|---|---|")
    failed = 0
    with tempfile.TemporaryDirectory(dir=args.scratch) as scratch:
        random_file(os.path.join(scratch, "data"), DATA_BYTES)
        for name in args.only or CASES:
            try:
                with CASES[name](scratch) as case:
                    profile = probe(args.coscan, case, os.path.join(scratch, "device.toml"), args.probe_seconds)
            except (OSError, RuntimeError) as error:
                print(f"| {name} | failed | {error} | | | | |", flush=True)
                failed += 1
                continue
            declared = profile.get("declared") or {}
            sizes = ("minimum_io_size", "optimal_io_size", "chunk_sectors")
            said = ", ".join(f"{key} {declared[key]}" for key in sizes if key in declared) or "nothing"
            queue = f"nr_requests {declared['nr_requests']}" if "nr_requests" in declared else "nothing"
            print(f"| {name} | true | {' | '.join(case.true)} |")
            print(f"| | measured | {' | '.join(measured(profile))} |")
            print(f"| | declared | | | | {queue} | {said} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
