"""Counters in the system's formats, and a control group, if available, that keeps its limit."""

import os
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from bench import limits
from bench.limits import Group, Limits, NoLimits


class Counters(unittest.TestCase):
    def test_bytes_read_of_one_device(self):
        v1 = "254:0 Read 4096\n254:0 Write 1\n254:16 Read 8192\n254:0 Total 4097\nTotal 12289\n"
        self.assertEqual(limits._v1_bytes_read(v1, "254:0"), 4096)
        self.assertEqual(limits._v1_bytes_read(v1, "8:0"), 0)
        v2 = "254:16 rbytes=8192 wbytes=0 rios=2 wios=0\n254:0 rbytes=4096 wbytes=7 rios=1 wios=1\n"
        self.assertEqual(limits._v2_bytes_read(v2, "254:0"), 4096)
        self.assertEqual(limits._v2_bytes_read(v2, "8:0"), 0)

    def test_a_machine_is_busy_when_it_neither_idles_nor_waits(self):
        self.assertEqual(limits._busy_ticks("cpu  1 2 4 1000 1000 8 16 32 1000 1000\ncpu0 1 2"), 63)

    def test_names_and_numbers(self):
        self.assertEqual(limits._fields("oom_kill 2\nunder_oom 0\nstate on\n"), {"oom_kill": 2, "under_oom": 0})

    @unittest.skipUnless(Path("/proc/self/status").exists(), "there is no /proc")
    def test_this_process_has_memory_and_a_past(self):
        memory = limits.process_memory(os.getpid())
        self.assertGreater(memory.rss_peak, 1 << 20)
        self.assertLessEqual(memory.anonymous, memory.rss_peak)
        self.assertGreater(limits.process_cpu_s(os.getpid()), 0)
        self.assertIsNone(limits.process_memory(2**22 + 1))


class Refusals(unittest.TestCase):
    def test_without_root_there_are_no_limits(self):
        with mock.patch.object(os, "geteuid", lambda: 1000), self.assertRaisesRegex(NoLimits, "need root"):
            limits.require_limits(Path(__file__))

    @unittest.skipUnless(Path("/proc/self/status").exists(), "there is no /proc")
    def test_what_lies_on_no_block_device_cannot_be_limited(self):
        with self.assertRaisesRegex(NoLimits, "/proc/self does not lie on a block device"):
            limits.block_device(Path("/proc/self"))

    def test_a_controller_that_is_missing_is_no_surprise(self):
        with (
            mock.patch.object(limits, "CGROUP_ROOT", Path("/nowhere")),
            mock.patch.object(limits, "block_device", lambda _: "8:0"),
            mock.patch.object(os, "geteuid", lambda: 0),
            self.assertRaisesRegex(NoLimits, "control groups cannot be used here .*/nowhere/blkio"),
        ):
            limits.require_limits(Path(__file__))


class Groups(unittest.TestCase):
    def setUp(self):
        try:
            self.device = limits.require_limits(Path(__file__))
        except NoLimits as reason:
            self.skipTest(str(reason))

    def run_in_group(self, program):
        """Returns the exit code of a Python program with 64 MB, its CPU seconds, and whether it was killed."""
        name = f"coscan-bench-test-{os.getpid()}"
        with Group(name, self.device, Limits(64_000_000, 1_000_000_000)) as group:
            group.limit_reads()
            before = group.cpu_s()
            code = subprocess.run([sys.executable, "-c", program], preexec_fn=group.join, check=False).returncode
            found = code, group.cpu_s() - before, group.killed_for_memory()
        self.assertEqual(list(limits.CGROUP_ROOT.glob(f"**/{name}")), [])
        return found

    def test_who_takes_too_much_is_killed(self):
        code, _, killed = self.run_in_group("block = bytearray(256 << 20)")
        self.assertEqual((code, killed), (-9, True))

    def test_who_takes_less_is_counted(self):
        code, cpu_s, killed = self.run_in_group("import time\nwhile time.process_time() < 0.3: pass")
        self.assertEqual((code, killed), (0, False))
        self.assertGreater(cpu_s, 0.25)
