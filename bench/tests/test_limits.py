"""Counters as the system writes them down."""

import os
import unittest

from bench import limits


class Counters(unittest.TestCase):
    def test_bytes_read_of_one_device(self):
        v1 = "254:0 Read 4096\n254:0 Write 1\n254:16 Read 8192\n254:0 Total 4097\nTotal 12289\n"
        self.assertEqual(limits._v1_bytes_read(v1, "254:0"), 4096)
        self.assertEqual(limits._v1_bytes_read(v1, "8:0"), 0)
        v2 = "254:16 rbytes=8192 wbytes=0 rios=2 wios=0\n254:0 rbytes=4096 wbytes=7 rios=1 wios=1\n"
        self.assertEqual(limits._v2_bytes_read(v2, "254:0"), 4096)
        self.assertEqual(limits._v2_bytes_read(v2, "8:0"), 0)

    def test_names_and_numbers(self):
        self.assertEqual(limits._fields("oom_kill 2\nunder_oom 0\nstate on\n"), {"oom_kill": 2, "under_oom": 0})

    def test_this_process_has_memory_and_a_past(self):
        memory = limits.process_memory(os.getpid())
        self.assertGreater(memory.rss_peak, 1 << 20)
        self.assertLessEqual(memory.anonymous, memory.rss_peak)
        self.assertGreater(limits.process_cpu_s(os.getpid()), 0)
        self.assertIsNone(limits.process_memory(2**22 + 1))
