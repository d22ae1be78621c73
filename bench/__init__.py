"""The same concurrent workload on coscan and on other engines, side by side: what `make bench` runs.

`workload.py` makes the queries, `engines.py` knows who can run them and `setup.py` installs them. Every engine is
one process that speaks the protocol of `coscan bench --workload`: coscan itself, or `runner.py` with one of the
engines in `peers.py`. `process.py` drives such a process under the limits of `limits.py`; `results.py` reads and
compares what it answered, `metrics.py` makes figures of that, `report.py` shows them. `plan.py` says what is run in
which order, `__main__.py` reads the command line.

Nothing here but `peers.py` needs more than Python's standard library, and nothing here schedules scans or tunes an
engine beyond telling it how many threads and how much memory it has.
"""
