#!/bin/bash
# Plants faults that tests have to find: in pieces of row groups (`chunks`, `borders`), in the traffic of queries (`traffic`),
# in the growth of the buffer (`growth`), in parts that stay in the page cache (`page_cache`), and in packed arrays (`packing`).
# See crates/check/plant.sh.
# Usage: planted/run.sh [NAME]
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../../check/plant.sh" crates/engine/src crates/engine/tests/planted/faults.txt engine "chunks borders traffic growth page_cache packing" "$@"
