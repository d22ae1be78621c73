#!/bin/bash
# Plants faults in chunks that are pieces of row groups, in what is said of queries that run, in the buffer that begins small and
# in parts that stay in the page cache, in arrays in fewer bytes, which the tests `chunks`, `borders`, `traffic`, `growth`,
# `page_cache` and `packing` have to find: see crates/check/plant.sh.
# Usage: planted/run.sh [NAME]
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../../check/plant.sh" crates/engine/src crates/engine/tests/planted/faults.txt engine "chunks borders traffic growth page_cache packing" "$@"
