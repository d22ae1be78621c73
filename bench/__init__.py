"""The same concurrent workload on coscan and on other engines, side by side: the code of `make bench`.

`workload.py` makes the queries, `engines.py` lists the engines, and `setup.py` installs them. Every engine is one
process that speaks the protocol of `coscan bench --workload`: coscan itself, or `runner.py` with one of the
engines in `peers.py`. `process.py` runs such a process under the limits of `limits.py`. `results.py` reads and
compares its answers, `metrics.py` computes the quantities, and `report.py` prints them. `plan.py` decides the
runs and their order, `__main__.py` reads the command line.

Only `peers.py` needs more than Python's standard library. Nothing here schedules scans. An engine is told only
its number of threads and its memory, and is not tuned otherwise.
"""
